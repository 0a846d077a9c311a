# SPDX-License-Identifier: Apache-2.0
"""Generic kinematics and dynamics of trees, against pinocchio."""

import dataclasses

import numpy as np
import pinocchio as pin
import pytest
from kernels.random_trees import Oracle, random_tree
from scipy.spatial.transform import Rotation

from motion_nodes.kernels import numpy_kinematics
from motion_nodes.kernels.dynamics_codegen import (
    LinkMasses,
    bodies_of,
    dynamics_calls,
    inverse_dynamics,
    inverse_dynamics_program,
)
from motion_nodes.kernels.kinematic_arrays import FIXED, joint_motion, pack, reroot
from motion_nodes.kernels.robot_codegen import RobotCode


def poses_and_jacobian(arrays, q, tip):
    model = numpy_kinematics.model_of(arrays)
    X = np.full((len(arrays.parent), 4, 4), 7.0)
    J = np.full((6, arrays.joint_count), 7.0)
    rows = numpy_kinematics.rows_down_to(model, np.array([tip]))
    numpy_kinematics.some_poses(model, rows, q, X)
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


@pytest.mark.parametrize("seed", range(3))
def test_the_code_of_a_row_depends_on_the_rows_down_to_it(seed):
    """So the chains of inverse kinematics and of other parts of one group share their code."""
    tree = random_tree(seed, 5)
    arrays = pack(tree.packed, tree.joint_names, {})
    tip = len(arrays.parent) - 1
    chain = numpy_kinematics.rows_down_to(numpy_kinematics.model_of(arrays), np.array([tip]))
    digest, key = arrays.digest_to(tip), RobotCode(arrays).key(tip)
    for field in ("kind", "X_PJ", "axis", "q_index", "multiplier", "offset"):
        for row in range(tip + 1):
            changed = getattr(arrays, field).copy()
            changed[row] += 1
            other = dataclasses.replace(arrays, **{field: changed})
            assert (other.digest_to(tip) == digest) == (row not in chain), (field, row)
            assert (RobotCode(other).key(tip) == key) == (row not in chain)
    more = dataclasses.replace(arrays, joint_count=arrays.joint_count + 1)
    assert more.digest_to(tip) != digest
    off = np.setdiff1d(np.arange(tip), chain)
    moved = arrays.X_PJ.copy()
    moved[off, :3, 3] += 1.0
    assert RobotCode(dataclasses.replace(arrays, X_PJ=moved)).text(tip) == RobotCode(arrays).text(
        tip
    )


class Case:
    """A random tree with random masses, also on links without a joint, and its oracle."""

    def __init__(self, seed, joints):
        tree, rng = random_tree(seed, joints), np.random.default_rng(seed)
        self.arrays, f = pack(tree.packed, tree.joint_names, {}), len(tree.frame_names)
        mass, center = rng.uniform(0.1, 2.0, f), rng.normal(0.0, 0.1, (f, 3))
        root = rng.normal(0.0, 0.2, (f, 3, 3))
        links = LinkMasses(mass, center, root @ root.mT, rng.uniform(0.0, 0.5, f))
        self.armature, gravity = rng.uniform(0.0, 0.3, joints), rng.normal(0.0, 5.0, 3)
        self.bodies = bodies_of(self.arrays, links, self.armature, gravity)
        self.oracle = Oracle(tree)
        self.model, self.damping = self.oracle.model, np.zeros(self.oracle.model.nv)
        self.model.gravity.linear = gravity
        for row, link in enumerate(tree.frame_names):
            frame = self.model.frames[self.oracle.frame_id[link]]
            inertia = pin.Inertia(mass[row], center[row], links.inertia[row])
            self.model.appendBodyToJoint(frame.parentJoint, inertia, frame.placement)
            if self.arrays.kind[row] != FIXED:
                self.damping[frame.parentJoint - 1] = links.damping[row]
        self.data = self.model.createData()
        self.motions = rng.normal(size=(6, 3, joints))

    def efforts(self, q, v, a):
        expand, shift = self.oracle.expand, self.oracle.shift
        full = pin.rnea(self.model, self.data, expand @ q + shift, expand @ v, expand @ a)
        return expand.T @ (full + self.damping * (expand @ v)) + self.armature * a


@pytest.fixture(scope="module", params=[(2, 2), (5, 5)], ids=str)
def case(request):
    return Case(*request.param)


def test_efforts_are_those_of_pinocchio(case):
    expected = [case.efforts(*motion) for motion in case.motions]
    found = [inverse_dynamics(case.bodies, *motion) for motion in case.motions]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    for generic in (False, True):
        calls = dynamics_calls(case.bodies, generic=generic)
        assert calls.generated is not generic
        rows, out = case.motions.reshape(6, -1).copy(), np.zeros((6, case.arrays.joint_count))
        calls.run_many(rows, out)
        np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-9)
        out[:] = 7.0
        assert calls.run(rows[0], out[0]) == 0
        np.testing.assert_allclose(out[0], expected[0], rtol=1e-9, atol=1e-9)
        assert calls.run(rows[0, 1:], out[1]) == 1
        assert (out[1] == 7.0).all()


def test_links_without_a_joint_are_merged_and_nothing_moves_the_base(case):
    moving = 1 + int((case.arrays.kind[1:] != FIXED).sum())
    assert len(case.bodies.mass) == moving
    total = sum(inertia.mass for inertia in case.model.inertias)
    assert case.bodies.mass.sum() == pytest.approx(total)
    program = inverse_dynamics_program(case.bodies)
    assert program.input_count == 3 * case.arrays.joint_count
    heavier = dataclasses.replace(case.bodies, mass=2.0 * case.bodies.mass)
    assert heavier.digest() != case.bodies.digest()
