# SPDX-License-Identifier: Apache-2.0
"""Trees from Denavit-Hartenberg tables and .kinematic.json files; dual quaternions."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.random_trees import Oracle, random_tree
from raised_errors import about

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import (
    from_xyz_quat,
    from_xyz_rpy,
    inverse,
    multiply,
    rotation_about,
)
from motion_nodes.errors import InvalidCommand, InvalidDescription, UnknownFrame
from motion_nodes.extras.compat import dual_quaternion as dq
from motion_nodes.extras.compat.dh import DhRow, dh_transform, tree_from_dh
from motion_nodes.extras.compat.dual_quaternion import DualQuaternionKinematics, numeric_jacobian
from motion_nodes.extras.formats.kinematic_file import read_kinematic_file, read_kinematic_text

RIGHT = np.pi / 2

# Franka Control Interface documentation, "Denavit-Hartenberg parameters" (Craig's convention).
PANDA = [
    DhRow(a, alpha, d)
    for a, d, alpha in [
        (0, 0.333, 0),
        (0, 0, -RIGHT),
        (0, 0.316, RIGHT),
        (0.0825, 0, RIGHT),
        (-0.0825, 0.384, -RIGHT),
        (0, 0, RIGHT),
        (0.088, 0, RIGHT),
    ]
]
FLANGE = from_xyz_rpy((0, 0, 0.107))

# Universal Robots, "DH parameters for calculations of kinematics and dynamics": UR10e (standard).
UR10E = [
    DhRow(a, alpha, d)
    for a, d, alpha in [
        (0, 0.1807, RIGHT),
        (-0.6127, 0, 0),
        (-0.57155, 0, 0),
        (0, 0.17415, RIGHT),
        (0, 0.11985, -RIGHT),
        (0, 0.11655, 0),
    ]
]


def panda() -> Kinematics:
    return Kinematics(tree_from_dh(PANDA, "modified", tool=FLANGE))


@pytest.mark.parametrize(
    ("q", "xyz", "R"),
    [
        ([0, -0.785, 0, -2.356, 0, 1.571, 0.785], [0.30702, 0, 0.59027], None),
        ([0] * 7, [0.088, 0, 0.926], None),
        (
            np.array([0, -1, 0, -3, 0, 2, 1]) * np.pi / 4,
            [0.306891, 0, 0.590282],
            [[0.7071, -0.7071, 0], [-0.7071, -0.7071, 0], [0, 0, -1]],
        ),
    ],
)
def test_the_panda_where_it_is_known_to_be(q, xyz, R):
    X = panda().pose(q, "tool")
    np.testing.assert_allclose(X[:3, 3], xyz, atol=5e-6)
    if R is not None:
        np.testing.assert_allclose(X[:3, :3], R, atol=1e-4)


def test_the_tables_are_the_robots_of_the_suite():
    rng = np.random.default_rng(1)
    ours = Kinematics(load_robot("franka").tree)
    for q in rng.uniform(-2, 2, (5, 7)):
        expected = ours.pose([*q, 0, 0], "panda_link8")
        np.testing.assert_allclose(panda().pose(q, "tool"), expected, atol=1e-12)
    ur = Kinematics(tree_from_dh(UR10E, "standard"))
    ours = Kinematics(load_robot("ur10e").tree, base="base")
    for q in rng.uniform(-2, 2, (5, 6)):
        np.testing.assert_allclose(ur.pose(q, "tool"), ours.pose(q, "tool0"), atol=1e-9)


@pytest.mark.parametrize("convention", ["standard", "modified"])
@pytest.mark.parametrize("seed", range(4))
def test_frames_are_products_of_the_rows(convention, seed):
    rng = np.random.default_rng(seed)
    kinds = rng.choice(["revolute", "prismatic"], 5)
    rows = [DhRow(*rng.uniform(-1, 1, 4), kind=str(kind)) for kind in kinds]
    base, tool = from_xyz_rpy([1, 2, 3], [0.1, 0.2, 0.3]), from_xyz_rpy([0, 0, 1], [1, 0, 0])
    tree = tree_from_dh(rows, convention, base=base, tool=tool)
    kinematics, oracle = Kinematics(tree), Oracle(tree)
    q = rng.uniform(-2, 2, 5)
    X = base
    for i, (row, value) in enumerate(zip(rows, q, strict=True), start=1):
        slides = row.kind == "prismatic"
        d, theta = row.d + value * slides, row.theta + value * (not slides)
        X = X @ dh_transform(row.a, row.alpha, d, theta, convention)
        np.testing.assert_allclose(kinematics.pose(q, f"link{i}"), X, atol=1e-13)
        np.testing.assert_allclose(oracle.pose(q, f"link{i}"), X, atol=1e-13)
    np.testing.assert_allclose(kinematics.pose(q, "tool"), X @ tool, atol=1e-13)
    np.testing.assert_allclose(
        kinematics.jacobian(q, "tool"), oracle.jacobian(q, "tool"), atol=1e-12
    )


def test_the_two_conventions_order_the_same_motions():
    about_x = from_xyz_rpy((0.3, 0, 0), (0.7, 0, 0))
    about_z = from_xyz_rpy((0, 0, 0.2), (0, 0, -0.4))
    standard = dh_transform(0.3, 0.7, 0.2, -0.4, "standard")
    modified = dh_transform(0.3, 0.7, 0.2, -0.4, "modified")
    np.testing.assert_allclose(standard, multiply(about_z, about_x), atol=1e-15)
    np.testing.assert_allclose(modified, multiply(about_x, about_z), atol=1e-15)
    np.testing.assert_allclose(inverse(modified) @ about_x @ about_z, np.eye(4), atol=1e-15)


def test_limits_and_names_go_into_the_tree():
    rows = [DhRow(0, 0, 1, lower=-1, upper=2, velocity=3), DhRow(0, 0, 1)]
    tree = tree_from_dh(rows, "modified", name="two", joint_names=["left", "right"])
    left = tree.joint("left")
    assert (left.lower, left.upper, left.velocity) == (-1, 2, 3)
    assert tree.joint("right").kind.name == "CONTINUOUS"


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([], {}, "rows"),
        (
            [DhRow(0, 0, 0)],
            {"convention": "criag"},
            "convention",
        ),
        ([DhRow(0, np.nan, 0)], {}, "alpha"),
        ([DhRow(0, 0, 0, kind="revolut")], {}, "kind"),
        ([DhRow(0, 0, 0, lower=2, upper=1)], {}, "limits"),
        ([DhRow(0, 0, 0, velocity=0)], {}, "velocity"),
        ([DhRow(0, 0, 0)], {"joint_names": ["a", "b"]}, "joint_names"),
        ([DhRow(0, 0, 0)] * 2, {"joint_names": ["a", "a"]}, "joint_names"),
        ([DhRow(0, 0, 0)], {"joint_names": ["base_to_link0"]}, "joint_names"),
        ([DhRow(0, 0, 0)], {"tool": np.eye(3)}, "tool"),
        ([DhRow(0, 0, 0)], {"base": 2 * np.eye(4)}, "base"),
    ],
)
def test_bad_tables_are_refused(rows, options, message):
    with pytest.raises(InvalidDescription, check=about(message)):
        tree_from_dh(rows, **{"convention": "modified", "name": "two", **options})


@pytest.mark.parametrize(
    ("names", "convention"),
    [(("classic", "distal", "Standard"), "standard"), (("craig", "proximal"), "modified")],
)
def test_usual_names_of_the_conventions(names, convention):
    other = {"standard": "modified", "modified": "standard"}[convention]
    row, values = DhRow(0.3, 0.7, 0.2), (0.3, 0.7, 0.2, -0.4)
    for name in names:
        np.testing.assert_array_equal(
            dh_transform(*values, name), dh_transform(*values, convention)
        )
        assert np.abs(dh_transform(*values, name) - dh_transform(*values, other)).max() > 0.05
        found, wanted = (Kinematics(tree_from_dh([row], word)) for word in (name, convention))
        np.testing.assert_array_equal(found.pose([0.5], "tool"), wanted.pose([0.5], "tool"))


@pytest.mark.parametrize("name", ["", "clasic", "Denavit", None, 3])
def test_unknown_conventions_are_refused_with_the_allowed_names(name):
    with pytest.raises(InvalidDescription):
        dh_transform(0.3, 0.7, 0.2, -0.4, name)


def test_the_length_of_q_is_checked():
    with pytest.raises(InvalidCommand):
        panda().pose([0] * 6, "tool")


@pytest.mark.parametrize("robot", ["franka", "ur10e"])
def test_the_numeric_jacobian_is_the_generated_one(robot):
    tree = load_robot(robot).tree
    kinematics = Kinematics(tree)
    tip = tree.frame_names[-1]
    for q in np.random.default_rng(2).uniform(-3, 3, (5, len(tree.joint_names))):
        J = numeric_jacobian(lambda q: kinematics.pose(q, tip), q)
        np.testing.assert_allclose(J, kinematics.jacobian(q, tip), atol=1e-9)


def test_the_numeric_jacobian_refuses_what_is_no_vector():
    with pytest.raises(InvalidCommand):
        numeric_jacobian(lambda q: np.eye(4), [np.nan])
    with pytest.raises(InvalidCommand):
        numeric_jacobian(lambda q: np.eye(4), [1.0], step=0.0)


SAMPLE = Path(__file__).parent / "data" / "desk_arm.kinematic.json"


def constant(pose) -> dict:
    return {"type": "constant", "properties": {"pose": pose}}


def revolute(axis=(0, 0, 1), **more) -> dict:
    return {"type": "revolute", "properties": {"axis": axis, **more}}


def read(*links: dict):
    return read_kinematic_text(json.dumps({"links": links}), "tiny", "tiny.kinematic.json")


def test_the_sample():
    tree = read_kinematic_file(SAMPLE)
    assert tree.name == "desk_arm"
    assert tree.root == "table"
    assert tree.joint_names == ("waist", "shoulder", "roll", "lift")
    q = np.array([0.3, -0.5, 4.0, 0.1])

    def turn(axis, angle):
        X = np.eye(4)
        X[:3, :3] = rotation_about(np.array(axis, float), np.array(angle))
        return X

    diagonal = np.array([1, 1, 0]) / np.sqrt(2)
    X = multiply(
        from_xyz_rpy((0.1, 0, 0.35)),
        turn((0, 0, 1), 0.3),
        from_xyz_rpy((0, 0.06, 0), (-np.pi / 2, 0, 0)),
        turn(diagonal, -0.5),
        from_xyz_rpy((0.3, 0, 0), (0, 0.4, 0)),
        turn((1, 0, 0), 4.0),
        from_xyz_rpy((0, 0, 0.1)),
        from_xyz_quat((0.02, 0, 0.11), (0, np.sqrt(0.5), 0, np.sqrt(0.5))),
    )
    np.testing.assert_allclose(Kinematics(tree).pose(q, "gripper"), X, atol=1e-12)
    D = DualQuaternionKinematics(tree).frame(q, "gripper")
    np.testing.assert_allclose(dq.to_pose(D), X, atol=1e-12)
    np.testing.assert_allclose(Oracle(tree).pose(q, "gripper"), X, atol=1e-12)


def test_a_state_outside_its_limits_names_the_joint():
    limits = JointLimits.of_tree(read_kinematic_file(SAMPLE))
    assert limits.within([0.0, 0.0, 100.0, 0.1])
    text = limits.violations([0.0, 2.0, 0.0, -0.1])
    assert text == ("shoulder is 2, allowed is -1.2 to 1.9", "lift is -0.1, allowed is 0 to 0.2")


def test_the_axis_that_swaps_x_and_y():
    tree = read(
        {"name": "base"},
        {
            "name": "axis1",
            "parent": "base",
            "motor": constant(
                {
                    "translation": [0.0, 0.0, 0.1373],
                    "rotation": {"axis": [0.7071, 0.7071, 0.0], "angle_degrees": 180.0},
                }
            ),
        },
        {"name": "joint1", "parent": "axis1", "motor": revolute()},
    )
    for angle in (0.0, 0.4, -2.0):
        X = Kinematics(tree).pose([angle], "joint1")
        np.testing.assert_allclose(X[:3, 0], [np.sin(angle), np.cos(angle), 0.0], atol=1e-15)
        np.testing.assert_allclose(X[:3, 3], [0.0, 0.0, 0.1373], atol=1e-15)


def test_degrees_and_radians_and_lists_mean_the_same():
    poses = []
    for pose in (
        {"translation": [1, 2, 3], "rotation": {"axis": [0, 3, 0], "angle_degrees": 60}},
        {"translation": [1, 2, 3], "rotation": {"axis": [0, 1, 0], "angle_radians": np.pi / 3}},
        [np.cos(np.pi / 6), 0, np.sin(np.pi / 6), 0, 1, 2, 3],
        [-2 * np.cos(np.pi / 6), 0, -2 * np.sin(np.pi / 6), 0, 1, 2, 3],
    ):
        tree = read({"name": "a"}, {"name": "b", "parent": "a", "motor": constant(pose)})
        poses.append(tree.joints["b"].X_PJ)
    np.testing.assert_allclose(poses, [from_xyz_rpy((1, 2, 3), (0, np.pi / 3, 0))] * 4, atol=1e-15)


def test_a_root_with_a_motor_stands_in_the_world():
    tree = read({"name": "base", "motor": constant({"translation": [0, 0, 2]})})
    assert tree.frame_names == ("world", "base")
    np.testing.assert_array_equal(tree.joints["base"].X_PJ[:3, 3], [0, 0, 2])
    tree = read({"name": "wheel", "motor": revolute()})
    assert tree.joint_names == ("wheel",)


BASE = {"name": "base"}
TURN = {"name": "turn", "parent": "base"}


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([], "links"),
        ([BASE, {"name": "x"}], "links"),
        ([{"name": "a", "parent": "a"}], "links"),
        ([BASE, {"name": "b", "parent": "c"}, {"name": "c", "parent": "b"}], "links[1].parent"),
        ([BASE, {"name": "b", "parent": "bas"}], "links[1].parent"),
        ([BASE, {"name": "base", "parent": "base"}], "links[1].name"),
        ([{"name": ""}], "links[0].name"),
        ([{"nam": "a"}], "links[0].nam"),
        ([{"parent": "a"}], "links[0]"),
        ([BASE, {**TURN, "motor": {"type": "spin"}}], "links[1].motor.type"),
        ([BASE, {**TURN, "motor": {"type": "revolute"}}], "links[1].motor.properties"),
        ([BASE, {**TURN, "motor": revolute([0, 0, 0])}], "links[1].motor.properties.axis"),
        ([BASE, {**TURN, "motor": revolute([0, 1])}], "links[1].motor.properties.axis"),
        ([BASE, {**TURN, "motor": revolute(["0", 0, 1])}], "links[1].motor.properties.axis[0]"),
        ([BASE, {**TURN, "motor": revolute(limits=[1, -1])}], "links[1].motor.properties.limits"),
        ([BASE, {**TURN, "motor": revolute(limits=[1])}], "links[1].motor.properties.limits"),
        ([BASE, {**TURN, "motor": revolute(axes=[1])}], "links[1].motor.properties.axes"),
        (
            [BASE, {**TURN, "motor": revolute([0, 0, float("nan")])}],
            "links[1].motor.properties.axis[2]",
        ),
        ([BASE, {**TURN, "motor": constant([1, 0, 0, 0, 0, 0])}], "links[1].motor.properties.pose"),
        (
            [BASE, {**TURN, "motor": constant([0, 0, 0, 0, 1, 2, 3])}],
            "links[1].motor.properties.pose",
        ),
        ([BASE, {**TURN, "motor": constant("home")}], "links[1].motor.properties.pose"),
        (
            [BASE, {**TURN, "motor": constant({"rotation": {"axis": [0, 0, 1]}})}],
            "links[1].motor.properties.pose.rotation",
        ),
        (
            [
                {
                    "name": "a",
                    "motor": constant(
                        {
                            "rotation": {
                                "axis": [0, 0, 1],
                                "angle_radians": 1,
                                "angle_degrees": 57,
                            }
                        }
                    ),
                }
            ],
            "links[0].motor.properties.pose.rotation",
        ),
        (
            [{"name": "a", "parent": "world"}, {"name": "world", "parent": "b"}, {"name": "b"}],
            "links[1].name",
        ),
        ([{"name": "world", "motor": revolute()}], "links[0].motor"),
    ],
)
def test_bad_files_say_where_and_why(links, message):
    with pytest.raises(InvalidDescription, check=about(message)) as error:
        read(*links)
    assert str(error.value).startswith("tiny.kinematic.json: ")


def test_files_that_are_none(tmp_path):
    with pytest.raises(InvalidDescription):
        read_kinematic_file(tmp_path / "none.kinematic.json")
    file = tmp_path / "odd.kinematic.json"
    file.write_text('{"links": [\n')
    with pytest.raises(InvalidDescription):
        read_kinematic_file(file)
    file.write_text('{"links": [{"name": "a", "name": "b"}]}')
    with pytest.raises(InvalidDescription):
        read_kinematic_file(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidDescription, match="UTF-8"):
        read_kinematic_file(file)
    file.write_text("[1, 2]")
    with pytest.raises(InvalidDescription):
        read_kinematic_file(file)


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
