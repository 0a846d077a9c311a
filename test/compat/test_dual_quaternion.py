# SPDX-License-Identifier: Apache-2.0
"""Dual quaternions against matrices, SciPy's matrix exponential and the generated kinematics."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.random_trees import Oracle, random_tree
from raised_errors import about

from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.errors import InvalidCommand, UnknownFrame
from motion_nodes.extras.compat import dual_quaternion as dq
from motion_nodes.extras.compat.dual_quaternion import DualQuaternionKinematics

NUMBER = st.floats(-3.0, 3.0)
TWIST = st.tuples(*[NUMBER] * 6)


def random_poses(rng: np.random.Generator, *shape: int) -> np.ndarray:
    X = [from_xyz_rpy(rng.uniform(-2, 2, 3), rng.uniform(-4, 4, 3)) for _ in range(np.prod(shape))]
    return np.array(X).reshape(*shape, 4, 4)


def hat(twist: np.ndarray) -> np.ndarray:
    v, (x, y, z) = twist[:3], twist[3:]
    H = np.zeros((4, 4))
    H[:3, :3], H[:3, 3] = [[0, -z, y], [z, 0, -x], [-y, x, 0]], v
    return H


def test_poses_there_and_back():
    X = random_poses(np.random.default_rng(1), 5, 40)
    D = dq.from_pose(X)
    assert D.shape == (5, 40, 8)
    np.testing.assert_allclose(np.linalg.norm(D[..., :4], axis=-1), 1.0, atol=1e-15)
    np.testing.assert_allclose(np.sum(D[..., :4] * D[..., 4:], axis=-1), 0.0, atol=1e-15)
    np.testing.assert_allclose(dq.to_pose(D), X, atol=1e-14)
    np.testing.assert_allclose(dq.translation(D), X[..., :3, 3], atol=1e-14)


def test_products_and_inverses_are_those_of_matrices():
    A, B, C = random_poses(np.random.default_rng(2), 3, 100)
    product = dq.multiply(dq.from_pose(A), dq.from_pose(B), dq.from_pose(C))
    np.testing.assert_allclose(dq.to_pose(product), A @ B @ C, atol=1e-13)
    backwards = dq.to_pose(dq.inverse(dq.from_pose(A)))
    np.testing.assert_allclose(backwards, [inverse(X) for X in A], atol=1e-13)
    np.testing.assert_array_equal(dq.multiply(), dq.identity())


@settings(derandomize=True, deadline=None)
@given(TWIST, st.sampled_from([1.0, 1e-3, 1e-9, 0.0, 0.099, 0.101]))
def test_the_exponential_is_that_of_matrices(twist, scale):
    given_twist = scale * np.array(twist)
    expected = scipy.linalg.expm(hat(given_twist))
    np.testing.assert_allclose(dq.to_pose(dq.exp(given_twist)), expected, atol=1e-13)


@settings(derandomize=True, deadline=None)
@given(TWIST, st.sampled_from([1.0, 1e-3, 1e-9, 0.0]))
def test_the_logarithm_undoes_the_exponential(twist, scale):
    given_twist = scale * np.array(twist)
    angle = np.linalg.norm(given_twist[3:])
    if angle > 3.14:
        given_twist *= 3.14 / angle
    D = dq.exp(given_twist)
    np.testing.assert_allclose(dq.log(D), given_twist, atol=1e-12)
    np.testing.assert_allclose(dq.log(-D), given_twist, atol=1e-12)


def test_half_a_turn_has_a_logarithm():
    for axis in np.eye(3):
        twist = np.array([0.3, -0.2, 0.5, *(np.pi * axis)])
        again = dq.log(dq.exp(twist))
        np.testing.assert_allclose(dq.to_pose(dq.exp(again)), dq.to_pose(dq.exp(twist)), atol=1e-14)
        assert np.linalg.norm(again[3:]) == pytest.approx(np.pi)


def test_drift_is_taken_out():
    rng = np.random.default_rng(3)
    D = dq.from_pose(random_poses(rng, 50))
    spoiled = D * 1.01
    spoiled[:, 4:] += 1e-3 * D[:, :4]
    np.testing.assert_allclose(dq.normalise(spoiled), D, atol=1e-15)
    step, turned = dq.exp([0.1, 0.02, -0.3, 0.5, -0.2, 0.9]), dq.identity()
    for _ in range(20000):
        turned = dq.normalise(dq.multiply(turned, step))
    assert abs(np.linalg.norm(turned[:4]) - 1.0) < 1e-15
    assert abs(turned[:4] @ turned[4:]) < 1e-12


@pytest.mark.parametrize("bad", [np.zeros(8), np.full(8, np.nan), [0, 0, 0, 0, 1, 0, 0, 0]])
def test_what_is_no_pose_is_refused(bad):
    with pytest.raises(InvalidCommand):
        dq.normalise(np.array(bad, dtype=float))


@pytest.mark.parametrize("seed", range(12))
def test_forward_kinematics_on_random_trees(seed):
    tree = random_tree(seed, seed + 1)
    kinematics, oracle = DualQuaternionKinematics(tree), Oracle(tree)
    rng = np.random.default_rng(seed)
    for q in rng.uniform(-3, 3, (3, len(tree.joint_names))):
        D = kinematics.frames(q)
        for i, frame in enumerate(tree.frame_names):
            X = oracle.pose(q, frame)
            np.testing.assert_allclose(dq.to_pose(D[i]), X, atol=1e-12)
            np.testing.assert_allclose(dq.to_pose(kinematics.frame(q, frame)), X, atol=1e-12)


def test_bad_input_is_refused():
    kinematics = DualQuaternionKinematics(random_tree(3, 4))
    with pytest.raises(InvalidCommand):
        kinematics.frames([0.0] * 3)
    with pytest.raises(InvalidCommand, check=about("q")):
        kinematics.frame([0.0, np.nan, 0.0, 0.0], "root")
    with pytest.raises(UnknownFrame, check=about("rot")):
        kinematics.frame([0.0] * 4, "rot")
