# SPDX-License-Identifier: Apache-2.0
"""The generic kernels and the restated trees, against pinocchio."""

from __future__ import annotations

import numpy as np
import pytest
from kernels.random_trees import Oracle, random_tree
from scipy.spatial.transform import Rotation

from motion_nodes.kernels import numpy_kinematics
from motion_nodes.kernels.kinematic_arrays import joint_motion, pack, reroot


def poses_and_jacobian(arrays, q, tip):
    model = numpy_kinematics.model_of(arrays)
    X = np.full((len(arrays.parent), 4, 4), 7.0)
    J = np.full((6, arrays.joint_count), 7.0)
    numpy_kinematics.all_poses(model, q, X)
    numpy_kinematics.jacobian(model, X, tip, J)
    return X, J


@pytest.mark.parametrize("seed", range(12))
def test_poses_and_jacobians_are_those_of_pinocchio(seed):
    tree = random_tree(seed, seed + 1)
    oracle = Oracle(tree)
    arrays = pack(tree.packed, tree.joint_names, {})
    rng = np.random.default_rng(seed)
    for row, frame in enumerate(tree.frame_names):
        q = rng.uniform(-3, 3, len(tree.joint_names))
        X, J = poses_and_jacobian(arrays, q, row)
        np.testing.assert_allclose(X[row], oracle.pose(q, frame), atol=1e-13)
        np.testing.assert_allclose(J, oracle.jacobian(q, frame), atol=1e-13)


@pytest.mark.parametrize("seed", range(12))
def test_a_tree_seen_from_another_frame(seed):
    tree = random_tree(seed, seed % 6 + 1)
    oracle = Oracle(tree)
    rng = np.random.default_rng(seed)
    base = int(rng.integers(len(tree.frame_names)))
    arrays = reroot(pack(tree.packed, tree.joint_names, {}), base)
    assert all(p < row for row, p in enumerate(arrays.parent))
    for index, frame in enumerate(tree.frame_names):
        q = rng.uniform(-3, 3, len(tree.joint_names))
        row = arrays.frame_rows[index]
        X, J = poses_and_jacobian(arrays, q, row)
        name = tree.frame_names[base]
        np.testing.assert_allclose(X[row], oracle.pose(q, frame, name), atol=1e-13)
        np.testing.assert_allclose(J, oracle.jacobian(q, frame, name), atol=1e-13)


def test_joint_motion_is_rodrigues_formula():
    rng = np.random.default_rng(5)
    for _ in range(20):
        axis, angle = rng.normal(size=3), rng.uniform(-4, 4)
        axis /= np.linalg.norm(axis)
        X = joint_motion(1, axis, angle)
        np.testing.assert_allclose(
            X[:3, :3], Rotation.from_rotvec(angle * axis).as_matrix(), atol=1e-15
        )
        np.testing.assert_array_equal(joint_motion(2, axis, angle)[:3, 3], angle * axis)
        np.testing.assert_array_equal(joint_motion(0, axis, angle), np.eye(4))


def test_the_digest_changes_when_any_number_does():
    tree = random_tree(3, 4)
    digests = {pack(tree.packed, tree.joint_names, {}).digest()}
    changes = 0
    for name in ("parent", "kind", "X_PJ", "axis", "q_index", "multiplier", "offset"):
        for at in range(getattr(tree.packed, name).size):
            arrays = pack(tree.packed, tree.joint_names, {})
            flat = getattr(arrays, name).reshape(-1)
            flat[at] = np.nextafter(flat[at], 9.0) if flat.dtype == float else flat[at] + 1
            digests.add(arrays.digest())
            changes += 1
    assert len(digests) == changes + 1
    again = pack(tree.packed, tree.joint_names, {}).digest()
    assert again in digests
    assert pack(tree.packed, tree.joint_names[::-1], {}).digest() not in digests
    assert pack(tree.packed, tree.joint_names[1:], {}).digest() not in digests
