# SPDX-License-Identifier: Apache-2.0
"""Commands of joints: forward topics, and messages that name mimic joints."""

import math
from typing import Any

import numpy as np
import pytest
from builtin_interfaces.msg import Duration
from moveit_msgs.msg import Constraints, JointConstraint, RobotState
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from motion_nodes.core.control.active_trajectories import ToleranceRequest
from motion_nodes.core.control.joint_command import ControlMode
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownJoint
from motion_nodes.nodes.articulation.stream_inputs import ForwardTopic, forward_topics
from motion_nodes.ros.messages.constraints import of_leaders
from motion_nodes.ros.messages.joint_channels import JointChannels
from motion_nodes.ros.messages.moveit_messages import RequestRejected, joint_values
from motion_nodes.ros.messages.trajectory_messages import (
    leader_constraints,
    leader_tolerances,
    leader_trajectory,
)

JOINTS = ("a", "b", "c")
MODES = {"a": ControlMode.POSITION, "b": ControlMode.VELOCITY, "c": ControlMode.EFFORT}


def test_entries():
    made = forward_topics(("p=position:c,a", "v=velocity:b"), JOINTS)
    assert made == (
        ForwardTopic("p", ("position",), ("c", "a")),
        ForwardTopic("v", ("velocity",), ("b",)),
    )
    assert made[0].topic == "p/commands"


@pytest.mark.parametrize(
    "entry", ["p", "p=", "p=position", "p=position:", "=position:a", "p=speed:a", "p=position:a,a",
              "p=position:d", "p=position,effort:a", "p=position,velocity:a,b", "p=,:a"],
)  # fmt: skip
def test_invalid_entries_are_refused(entry):
    with pytest.raises(InvalidConfig) as caught:
        forward_topics((entry,), JOINTS)
    assert caught.value.field == "forward_commands"


@pytest.mark.parametrize(
    ("interface", "joint", "channel"),
    [("position", "a", "positions"), ("velocity", "b", "velocities"), ("effort", "c", "efforts")],
)
def test_values_are_of_the_interface(interface, joint, channel):
    topic = ForwardTopic("t", (interface,), (joint,))
    command = topic.command(np.array([0.5]), MODES)
    assert list(command.names) == [joint]
    for each in ("positions", "velocities", "efforts"):
        given = getattr(command, each)
        assert (given is not None) == (each == channel)
    np.testing.assert_array_equal(getattr(command, channel), [0.5])
    for other, mode in MODES.items():
        if mode.value != interface:
            with pytest.raises(InvalidCommand) as caught:
                ForwardTopic("t", (interface,), (other,)).command(np.array([0.5]), MODES)
            assert caught.value.field == other
    with pytest.raises(InvalidCommand):
        topic.command(np.array([0.5, 0.5]), MODES)
    for wrong in (np.nan, np.inf):
        with pytest.raises(InvalidCommand, match="not finite"):
            topic.command(np.array([wrong]), MODES)


def test_position_and_velocity_of_one_joint():
    (topic,) = forward_topics(("t=velocity,position:a",), JOINTS)
    command = topic.command(np.array([0.5, 0.25]), MODES)
    np.testing.assert_array_equal(command.velocities, [0.5])
    np.testing.assert_array_equal(command.positions, [0.25])
    assert command.efforts is None
    with pytest.raises(InvalidCommand, match="interfaces velocity, position of a"):
        topic.command(np.array([0.5]), MODES)
    with pytest.raises(InvalidCommand):
        ForwardTopic("t", ("position", "velocity"), ("b",)).command(np.zeros(2), MODES)


ROBOT = load_robot("open_manipulator_x")
LEFT, RIGHT = "gripper_left_joint", "gripper_right_joint"
TREE = ROBOT.tree


def trajectory(names: list[str], *rows: list[float], **channels: Any) -> JointTrajectory:
    points = [
        JointTrajectoryPoint(positions=row, time_from_start=Duration(sec=i))
        for i, row in enumerate(rows)
    ]
    for name, values in channels.items():
        for point in points:
            setattr(point, name, values)
    return JointTrajectory(joint_names=names, points=points)


def constraint(name: str, position: float, tolerance: float = 1e-4) -> JointConstraint:
    return JointConstraint(
        joint_name=name, position=position, tolerance_above=tolerance, tolerance_below=tolerance
    )


def state(**joints: float) -> RobotState:
    made = RobotState()
    made.joint_state = JointState(name=list(joints), position=list(joints.values()))
    return made


def test_a_trajectory_without_mimic_joints_is_the_same_object():
    message = trajectory([LEFT], [0.0], [0.01])
    assert leader_trajectory(message, TREE) is message


@pytest.mark.parametrize("names", [[LEFT, RIGHT], [RIGHT, LEFT]])
def test_a_trajectory_of_both_fingers_moves_the_leader(names):
    message = trajectory(names, [0.0, 0.0], [0.01, 0.01], velocities=[0.1, 0.1], effort=[1.0, 2.0])
    found = leader_trajectory(message, TREE)
    assert list(found.joint_names) == [LEFT]
    assert [list(p.positions) for p in found.points] == [[0.0], [0.01]]
    assert [list(p.velocities) for p in found.points] == [[0.1], [0.1]]
    assert [list(p.effort) for p in found.points] == [[3.0], [3.0]]
    assert [p.time_from_start.sec for p in found.points] == [0, 1]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (trajectory([LEFT, RIGHT], [0.0, 0.0], [0.01, 0.02]), "positions of point 1.*0.02.*0.01"),
        (
            trajectory([LEFT, RIGHT], [0.0, 0.0], velocities=[0.1, -0.1]),
            "velocities of point 0.*-0.1.*0.1",
        ),
        (trajectory([LEFT, RIGHT], [0.0]), "1 positions for 2 joints"),
        (trajectory([LEFT, RIGHT, RIGHT], [0.0, 0.0, 0.0]), "more than once"),
        (trajectory([LEFT, RIGHT], [0.0, math.inf]), "inf"),
    ],
)
def test_a_trajectory_that_disagrees_is_refused(message, words):
    with pytest.raises(InvalidCommand, match=words):
        leader_trajectory(message, TREE)


def test_a_value_that_is_not_a_number_reaches_the_checks_of_the_leader():
    found = leader_trajectory(trajectory([LEFT, RIGHT], [0.0, math.nan]), TREE)
    assert math.isnan(found.points[0].positions[0])


def test_constraints_of_both_fingers_are_one_goal():
    found = leader_constraints([constraint(LEFT, 0.01), constraint(RIGHT, 0.01)], TREE)
    assert {c.joint_name for c in found} == {LEFT}
    # Rounding apart: the narrow intervals need not overlap.
    found = leader_constraints([constraint(RIGHT, 0.0104, 0.0), constraint(LEFT, 0.01, 0.0)], TREE)
    assert [(c.joint_name, c.position) for c in found] == [(LEFT, 0.01)]
    alone = leader_constraints([constraint(RIGHT, 0.012, 0.002)], TREE)
    assert (alone[0].joint_name, alone[0].position) == (LEFT, 0.012)
    assert (alone[0].tolerance_below, alone[0].tolerance_above) == (0.002, 0.002)


@pytest.mark.parametrize("first", [LEFT, RIGHT])
def test_constraints_that_disagree_name_both_values(first):
    other = RIGHT if first == LEFT else LEFT
    given = Constraints(joint_constraints=[constraint(first, 0.01), constraint(other, 0.02)])
    with pytest.raises(RequestRejected, match=r"0\.0[12].*0\.0[12]"):
        of_leaders(given.joint_constraints, ROBOT)


def test_states_may_name_all_joints():
    assert joint_values(state(**{LEFT: 0.01, RIGHT: 0.01}), ROBOT, "it") == {LEFT: 0.01}
    assert joint_values(state(**{RIGHT: 0.01}), ROBOT, "it") == {LEFT: 0.01}
    assert joint_values(state(joint1=0.3, wheel=1.0), ROBOT, "it") == {"joint1": 0.3}
    with pytest.raises(RequestRejected, match=r"it: .*0\.03.*0\.01"):
        joint_values(state(**{LEFT: 0.01, RIGHT: 0.03}), ROBOT, "it")
    with pytest.raises(RequestRejected, match="nan"):
        joint_values(state(**{LEFT: 0.01, RIGHT: math.nan}), ROBOT, "it")
    with pytest.raises(RequestRejected, match="at nan; not finite"):
        joint_values(state(joint1=math.nan), ROBOT, "it")


def test_states_may_repeat_a_joint_but_not_contradict_themselves() -> None:
    given = state(joint1=0.3)
    given.joint_state.name, given.joint_state.position = ["joint1"] * 2, [0.3, 0.3]
    assert joint_values(given, ROBOT, "it") == {"joint1": 0.3}
    given.joint_state.position = [0.3, 0.4]
    with pytest.raises(RequestRejected, match="joint1 twice, at 0.3 and at 0.4"):
        joint_values(given, ROBOT, "it")


def test_streams_may_name_all_joints():
    channels = JointChannels(ROBOT.joint_names, ROBOT.name, TREE)
    k = ROBOT.joint_names.index(LEFT)
    message = JointState(name=[RIGHT, LEFT], position=[0.01, 0.01], velocity=[0.2, math.nan])
    sample = channels.read(message)
    assert (sample.position[k], sample.velocity[k]) == (0.01, 0.2)
    assert np.isnan(np.delete(sample.position, k)).all()
    with pytest.raises(InvalidCommand, match="0.02.*0.01"):
        channels.read(JointState(name=[RIGHT, LEFT], position=[0.02, 0.01]))
    with pytest.raises(UnknownJoint):
        channels.read(JointState(name=[RIGHT, "no_joint"], position=[0.02, 0.01]))


def test_tolerances_of_a_mimic_joint_are_those_of_its_leader():
    own = ToleranceRequest(LEFT, 0.01, 0.0)
    assert leader_tolerances([own, ToleranceRequest(RIGHT, 0.5, 0.0)], TREE) == [own]
    alone = leader_tolerances([ToleranceRequest(RIGHT, 0.5, -1.0)], TREE)
    assert alone == [ToleranceRequest(LEFT, 0.5, -1.0)]
