# SPDX-License-Identifier: Apache-2.0
"""Kinematic trees from .kinematic.json files: contents, and errors of invalid files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from kernels.random_trees import Oracle
from raised_errors import about

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.poses import from_xyz_quat, from_xyz_rpy, multiply, rotation_about
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.compat import dual_quaternion as dq
from motion_nodes.extras.compat.dual_quaternion import DualQuaternionKinematics
from motion_nodes.extras.formats.kinematic_file import read_kinematic_file, read_kinematic_text

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
    assert text == (
        "shoulder is 2, allowed is -1.2 to 1.9",
        "lift is -0.1, allowed is 0 to 0.2",
    )


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
