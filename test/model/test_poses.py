# SPDX-License-Identifier: Apache-2.0
"""Poses against SciPy, closed forms and their own inverses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from motion_nodes.core.robot.poses import (
    compose,
    from_xyz_quat,
    from_xyz_rpy,
    inverse,
    multiply,
    rotation_about,
    to_quat_xyzw,
    to_rpy,
)

ANGLE = st.floats(-np.pi, np.pi)
LENGTH = st.floats(-10.0, 10.0)
# Many poses are at or near singularities of the formulas.
PITCH = st.one_of(ANGLE, st.sampled_from([np.pi / 2, -np.pi / 2, np.pi / 2 - 1e-7, 0.0]))
TURN = st.one_of(ANGLE, st.sampled_from([np.pi, -np.pi, np.pi - 1e-9, 1e-9, 0.0]))
VECTOR = st.tuples(LENGTH, LENGTH, LENGTH)
RPY = st.tuples(TURN, PITCH, TURN)


@given(VECTOR, RPY)
def test_roll_pitch_yaw_equal_scipy(xyz: tuple[float, ...], rpy: tuple[float, ...]) -> None:
    X = from_xyz_rpy(xyz, rpy)
    np.testing.assert_allclose(X[:3, :3], Rotation.from_euler("xyz", rpy).as_matrix(), atol=1e-14)
    np.testing.assert_array_equal(X[:3, 3], xyz)
    np.testing.assert_array_equal(X[3], (0, 0, 0, 1))


@given(RPY)
def test_reading_roll_pitch_yaw_gives_the_same_rotation(rpy: tuple[float, ...]) -> None:
    X = from_xyz_rpy(rpy=rpy)
    np.testing.assert_allclose(from_xyz_rpy(rpy=to_rpy(X)), X, atol=2e-8)


@given(RPY)
def test_quaternions_go_there_and_back(rpy: tuple[float, ...]) -> None:
    X = from_xyz_rpy(rpy=rpy)
    quaternion = to_quat_xyzw(X)
    assert np.linalg.norm(quaternion) == pytest.approx(1.0, abs=1e-14)
    assert quaternion[3] >= 0.0
    np.testing.assert_allclose(from_xyz_quat((0, 0, 0), quaternion), X, atol=1e-13)


@given(RPY, st.floats(1e-6, 1e6))
def test_the_length_of_a_quaternion_does_not_matter(rpy: tuple[float, ...], factor: float) -> None:
    quaternion = Rotation.from_euler("xyz", rpy).as_quat()
    X = from_xyz_quat((1, 2, 3), factor * quaternion)
    np.testing.assert_allclose(X[:3, :3], Rotation.from_quat(quaternion).as_matrix(), atol=1e-13)


@pytest.mark.parametrize(
    "axis", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 1, 1), (-1, 2, 3)]
)
def test_half_turns_have_exact_quaternions(axis: tuple[int, ...]) -> None:
    unit = np.array(axis) / np.linalg.norm(axis)
    X = np.eye(4)
    X[:3, :3] = 2 * np.outer(unit, unit) - np.eye(3)
    quaternion = to_quat_xyzw(X)
    np.testing.assert_allclose(np.abs(quaternion[:3]), np.abs(unit), atol=1e-15)
    assert quaternion[3] == pytest.approx(0.0, abs=1e-15)


@given(VECTOR, RPY, VECTOR, RPY)
def test_composing_and_inverting(
    p: tuple[float, ...], r: tuple[float, ...], s: tuple[float, ...], t: tuple[float, ...]
) -> None:
    X_AB, X_BC = from_xyz_rpy(p, r), from_xyz_rpy(s, t)
    np.testing.assert_allclose(compose(X_AB, inverse(X_AB)), np.eye(4), atol=1e-13)
    X_AC = compose(X_AB, X_BC)
    np.testing.assert_allclose(inverse(X_AC), inverse(X_BC) @ inverse(X_AB), atol=1e-12)
    np.testing.assert_allclose(multiply(X_AB, X_BC, inverse(X_AC)), np.eye(4), atol=1e-12)
    both = inverse(np.array([X_AB, X_BC]))
    np.testing.assert_allclose(both, [inverse(X_AB), inverse(X_BC)], atol=1e-15)


def test_the_product_of_no_poses_is_the_identity() -> None:
    np.testing.assert_array_equal(multiply(), np.eye(4))


@pytest.mark.parametrize(
    "quaternion", [(0, 0, 0, 0), (np.nan, 0, 0, 1), (np.inf, 0, 0, 1), (0, 0, 1), (1,) * 5]
)
def test_what_is_no_rotation_is_refused(quaternion: tuple[float, ...]) -> None:
    with pytest.raises(ValueError):
        from_xyz_quat((0, 0, 0), quaternion)


def test_many_quaternions_and_rotations_agree_with_scipy() -> None:
    rng = np.random.default_rng(1)
    axis = rng.normal(size=(4, 50, 3))
    axis /= np.linalg.norm(axis, axis=-1, keepdims=True)
    angle = np.concatenate([rng.uniform(-7, 7, (2, 50)), rng.normal(size=(2, 50)) * 1e-7])
    angle[0, :10] = np.pi
    R = rotation_about(axis, angle)
    oracle = Rotation.from_rotvec((axis * angle[..., None]).reshape(-1, 3))
    np.testing.assert_allclose(R.reshape(-1, 3, 3), oracle.as_matrix(), atol=1e-14)
    quaternions = to_quat_xyzw(R)
    again = Rotation.from_quat(quaternions.reshape(-1, 4)).as_matrix()
    np.testing.assert_allclose(again, R.reshape(-1, 3, 3), atol=1e-14)
    assert (quaternions[..., 3] >= 0.0).all()
    assert rotation_about(np.zeros((0, 3)), np.zeros(0)).shape == (0, 3, 3)


def test_a_quaternion_alone_is_that_of_many() -> None:
    turns = np.pi * np.array([(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.6, 0.8, 0), (0, 0.6, -0.8)])
    rotations = np.concatenate(
        [
            Rotation.random(500, random_state=1).as_matrix(),
            Rotation.from_rotvec(turns).as_matrix(),
            [np.eye(3)],
        ]
    )
    alone = np.array([to_quat_xyzw(R) for R in rotations])
    np.testing.assert_allclose(alone, to_quat_xyzw(rotations), atol=1e-15)
    assert (alone[:, 3] >= 0.0).all()
    assert np.isnan(to_quat_xyzw(np.full((4, 4), np.nan))).all()
