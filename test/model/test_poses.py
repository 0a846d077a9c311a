# SPDX-License-Identifier: Apache-2.0
"""Poses against SciPy and their inverses; placements; poses of links."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about
from scipy.spatial.transform import Rotation
from view.toy_robot import hand_made

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.link_poses import LinkPoses
from motion_nodes.core.robot.loader import available_robots, load_robot
from motion_nodes.core.robot.placement import Placement, parse_placement, parse_placements
from motion_nodes.core.robot.poses import (
    compose,
    from_xyz_quat,
    from_xyz_rpy,
    inverse,
    multiply,
    rotation_about,
    to_quat_wxyz,
    to_quat_xyzw,
    to_rpy,
)
from motion_nodes.errors import InvalidConfig

ANGLE = st.floats(-np.pi, np.pi)
LENGTH = st.floats(-10.0, 10.0)
# Many poses are at or near singularities of the formulas.
PITCH = st.one_of(ANGLE, st.sampled_from([np.pi / 2, -np.pi / 2, np.pi / 2 - 1e-7, 0.0]))
TURN = st.one_of(ANGLE, st.sampled_from([np.pi, -np.pi, np.pi - 1e-9, 1e-9, 0.0]))
VECTOR = st.tuples(LENGTH, LENGTH, LENGTH)
RPY = st.tuples(TURN, PITCH, TURN)


@given(VECTOR, RPY)
def test_roll_pitch_yaw_equal_scipy(xyz, rpy):
    X = from_xyz_rpy(xyz, rpy)
    np.testing.assert_allclose(X[:3, :3], Rotation.from_euler("xyz", rpy).as_matrix(), atol=1e-14)
    np.testing.assert_array_equal(X[:3, 3], xyz)
    np.testing.assert_array_equal(X[3], (0, 0, 0, 1))


@given(RPY)
def test_reading_roll_pitch_yaw_gives_the_same_rotation(rpy):
    X = from_xyz_rpy(rpy=rpy)
    np.testing.assert_allclose(from_xyz_rpy(rpy=to_rpy(X)), X, atol=2e-8)


@given(RPY)
def test_quaternions_go_there_and_back(rpy):
    X = from_xyz_rpy(rpy=rpy)
    quaternion = to_quat_xyzw(X)
    assert np.linalg.norm(quaternion) == pytest.approx(1.0, abs=1e-14)
    assert quaternion[3] >= 0.0
    np.testing.assert_allclose(from_xyz_quat((0, 0, 0), quaternion), X, atol=1e-13)


@given(RPY, st.floats(1e-6, 1e6))
def test_the_length_of_a_quaternion_does_not_matter(rpy, factor):
    quaternion = Rotation.from_euler("xyz", rpy).as_quat()
    X = from_xyz_quat((1, 2, 3), factor * quaternion)
    np.testing.assert_allclose(X[:3, :3], Rotation.from_quat(quaternion).as_matrix(), atol=1e-13)


@pytest.mark.parametrize(
    "axis", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 1, 1), (-1, 2, 3)]
)
def test_half_turns_have_exact_quaternions(axis):
    unit = np.array(axis) / np.linalg.norm(axis)
    X = np.eye(4)
    X[:3, :3] = 2 * np.outer(unit, unit) - np.eye(3)
    quaternion = to_quat_xyzw(X)
    np.testing.assert_allclose(np.abs(quaternion[:3]), np.abs(unit), atol=1e-15)
    assert quaternion[3] == pytest.approx(0.0, abs=1e-15)


@given(VECTOR, RPY, VECTOR, RPY)
def test_composing_and_inverting(p, r, s, t):
    X_AB, X_BC = from_xyz_rpy(p, r), from_xyz_rpy(s, t)
    np.testing.assert_allclose(compose(X_AB, inverse(X_AB)), np.eye(4), atol=1e-13)
    X_AC = compose(X_AB, X_BC)
    np.testing.assert_allclose(inverse(X_AC), inverse(X_BC) @ inverse(X_AB), atol=1e-12)
    np.testing.assert_allclose(multiply(X_AB, X_BC, inverse(X_AC)), np.eye(4), atol=1e-12)
    both = inverse(np.array([X_AB, X_BC]))
    np.testing.assert_allclose(both, [inverse(X_AB), inverse(X_BC)], atol=1e-15)


def test_the_product_of_no_poses_is_the_identity():
    np.testing.assert_array_equal(multiply(), np.eye(4))


@pytest.mark.parametrize(
    "quaternion", [(0, 0, 0, 0), (np.nan, 0, 0, 1), (np.inf, 0, 0, 1), (0, 0, 1), (1,) * 5]
)
def test_what_is_no_rotation_is_refused(quaternion):
    with pytest.raises(ValueError):
        from_xyz_quat((0, 0, 0), quaternion)


def test_many_quaternions_and_rotations_agree_with_scipy():
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


def test_a_quaternion_alone_is_that_of_many():
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


finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("word", "placement"),
    [
        ("franka", Placement("franka")),
        (" jetbot@1,0,0 ", Placement("jetbot", "", 1.0)),
        ("left:=franka@0,0.5,1.57", Placement("franka", "left", 0.0, 0.5, 1.57)),
        ("/cell_2/left:=franka@-1", Placement("franka", "cell_2/left", -1.0)),
        ("a:=/robots/my@home/r.yaml@1,2", Placement("/robots/my@home/r.yaml", "a", 1.0, 2.0)),
    ],
)
def test_words(word, placement):
    assert parse_placement(word) == placement
    assert parse_placement(placement.word) == placement


def test_words_are_short():
    assert Placement("franka", "left", 1.0, -0.5, 0.0).word == "left:=franka@1,-0.5,0"


@settings(derandomize=True, deadline=None, max_examples=60)
@given(finite, finite, finite, st.sampled_from(("", "a", "a/b_2")))
def test_round_trip_loses_nothing(x, y, yaw, namespace):
    placement = Placement("r", namespace, x, y, yaw)
    assert parse_placement(placement.word) == placement


def test_pose():
    X = Placement("r", "", 1.0, 2.0, math.pi / 2).X_WR
    np.testing.assert_allclose(X @ (1, 0, 0, 1), (1, 3, 0, 1), atol=1e-15)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("@1,2,3", "robot"),
        ("a:=", "robot"),
        ("2a:=franka", "namespace"),
        ("a/:=franka", "namespace"),
        (":=franka", "namespace"),
        ("a-b:=franka", "namespace"),
        ("franka@1,2,3,4", "placement"),
        ("franka@here", "placement"),
        ("franka@1,,3", "placement"),
        ("franka@nan,0,0", "placement"),
        ("franka@0,inf,0", "placement"),
    ],
)
def test_bad_words(word, message):
    with pytest.raises(InvalidConfig, check=about(message)):
        parse_placement(word)


def test_several_placements_need_namespaces_of_their_own():
    places = parse_placements(["a:=franka", "", "b:=franka@1", "jetbot"])
    assert [p.namespace for p in places] == ["a", "b", ""]
    with pytest.raises(InvalidConfig):
        parse_placements(["a:=franka", "a:=jetbot@1"])
    with pytest.raises(InvalidConfig):
        parse_placements(["franka", "jetbot"])
    for nothing in ([], ["", " "]):
        with pytest.raises(InvalidConfig):
            parse_placements(nothing)


@pytest.fixture
def toy():
    return hand_made()


def random_positions(model, count, seed=7):
    rng = np.random.default_rng(seed)
    lower = [max(model.tree.joint(name).lower, -3.0) for name in model.joint_names]
    upper = [min(model.tree.joint(name).upper, 3.0) for name in model.joint_names]
    return rng.uniform(lower, upper, (count, len(lower)))


def test_root_poses_equal_generic_kinematics(toy):
    oracle = Kinematics(toy.tree, generic=True)
    for q in random_positions(toy, 20):
        np.testing.assert_allclose(LinkPoses(toy.tree).in_root(q), oracle.frames(q), atol=1e-12)


@pytest.mark.parametrize("name", sorted(available_robots()))
def test_root_poses_of_shipped_robots(name):
    robot = load_robot(name)
    oracle = Kinematics(robot.tree, generic=True)
    for q in random_positions(robot, 5):
        np.testing.assert_allclose(LinkPoses(robot.tree).in_root(q), oracle.frames(q), atol=1e-12)


def test_mimic_follows_its_joint(toy):
    poses = LinkPoses(toy.tree)
    row = toy.tree.frame_names.index("twin")
    q = toy.home.copy()
    q[2] = 0.03
    # multiplier -2, offset 0.01, along z from 0.3 m
    assert poses.in_parent(q)[row, 2, 3] == pytest.approx(0.3 - 0.06 + 0.01)


def test_fixed_links_never_move(toy):
    poses = LinkPoses(toy.tree)
    moving = {toy.tree.frame_names[row] for row in poses.moving}
    assert moving == {"upper", "lower", "finger", "twin", "wheel"}
    first, second = (poses.in_parent(q) for q in random_positions(toy, 2))
    still = [row for row in range(len(first)) if row not in poses.moving]
    np.testing.assert_array_equal(first[still], second[still])


def test_quaternions_are_scalar_first_and_mean_the_same_rotation():
    rotations = Rotation.random(50, random_state=3)
    wxyz = to_quat_wxyz(rotations.as_matrix())
    assert to_quat_wxyz(np.eye(3)).tolist() == [1, 0, 0, 0]
    assert (wxyz[:, 0] >= 0).all()
    back = Rotation.from_quat(wxyz[:, [1, 2, 3, 0]])
    np.testing.assert_allclose(back.as_matrix(), rotations.as_matrix(), atol=1e-12)
