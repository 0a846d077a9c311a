# SPDX-License-Identifier: Apache-2.0
"""Frozen, late or doubled joint states."""

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from joint_client import ABORTED, ARM, CONTROLLER, HOME, SUCCEEDED, Call, JointClient, smooth
from ros_client import RosClient
from scripted_robot import ScriptedRobot
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from motion_nodes.core.robot.loader import load_robot

AWAY = {name: HOME[name] + 0.4 for name in ARM[:3]}


@pytest.fixture(scope="module")
def robot(ros):
    """A driver that can repeat its last measurement."""
    robot = ScriptedRobot(HOME)
    yield robot
    robot.close()


@pytest.fixture(scope="module")
def cell(robot, module_suite, module_client):
    """The controller of that robot."""
    # The driver may be late under load; lost states are tested elsewhere.
    module_suite.node("articulation_controller", robot="franka", state_timeout=3.0)
    arm = JointClient(module_client)
    arm.wait_for()
    yield arm
    arm.close()


@pytest.fixture
def arm(cell, robot):
    """The arm at home."""
    robot.frozen = False
    cell.client.spin(0.2)
    holds(cell.client)
    cell.client.wait(lambda: ARM[0] in cell.joints, "a state of the arm")
    if cell.away(HOME) > 1e-6:
        cell.go_home()
    cell.rest()
    return cell


def holds(client: RosClient, *, again: bool = False) -> None:
    """Wait until the controller holds the arm without error; ``again``: by a new report."""

    def fine() -> bool:
        status = client.diagnostics(CONTROLLER)
        if status is None or status.level == DiagnosticStatus.ERROR:
            return False
        return "holding" in status.message

    if again:
        client.forget_diagnoses()
    client.wait(fine, "the controller to hold the arm")


def begin(arm: JointClient, seconds: float = 4.0) -> Call:
    """Begin a motion of three joints, and wait until it is under way."""
    call = arm.follow(smooth(AWAY, seconds))
    assert call.accepted()
    arm.moving()
    return call


def aborted(call: Call, text: str) -> None:
    status, result = call.result()
    assert status == ABORTED
    assert text in result.error_string


def is_refused(arm: JointClient, text: str) -> None:
    aborted(arm.follow(smooth(AWAY, 4.0)), text)


def reports(arm: JointClient, text: str) -> None:
    arm.client.wait_for_diagnosis(CONTROLLER, text, DiagnosticStatus.ERROR)


def works_again(arm: JointClient) -> None:
    holds(arm.client, again=True)
    status, result = arm.follow(smooth(AWAY, 2.0)).result()
    assert status == SUCCEEDED, result.error_string


def commands_rest(arm: JointClient) -> None:
    """What is commanded last is a place at rest, near where the motion was interrupted."""

    def rests() -> bool:
        return np.nanmax(np.abs(arm.commands.newest.velocity)) < 1e-6

    arm.client.wait(rests, "commands at rest")
    arm.client.spin(0.3)
    assert rests()
    last = arm.commands.newest
    for name, position in zip(last.name, last.position, strict=True):
        assert HOME[name] - 1e-6 <= position <= HOME[name] + 0.4 * (name in AWAY) + 1e-6


@pytest.mark.timeout(900)
def test_frozen_states_stop_the_arm(arm, robot):
    call = begin(arm)
    robot.frozen = True
    aborted(call, "joint_states are frozen: " + ", ".join(AWAY))
    commands_rest(arm)
    is_refused(arm, "joint_states are frozen")
    reports(arm, "joint_states are frozen")
    robot.frozen = False
    works_again(arm)


def longest_step(arm: JointClient) -> float:
    """Return the largest change of a joint between two commands, in velocity limits and periods."""
    sent = [(m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec, m) for m in arm.commands.messages]
    rows = np.array([message.position for _, message in sent])
    passed = np.maximum(np.diff([stamp for stamp, _ in sent]), 0.004)
    limits = load_robot("franka").limits.select(tuple(sent[0][1].name)).velocity
    return float((np.abs(np.diff(rows, axis=0)) / passed[:, None] / limits).max())


@pytest.mark.timeout(900)
def test_states_that_arrive_late_and_all_at_once_do_not_move_the_arm(arm, robot):
    assert arm.client.set_parameters(CONTROLLER, state_timeout=0.5).successful
    try:
        call = begin(arm, 2.0)
        arm.commands.clear()
        robot.held = True
        aborted(call, "the robot was lost")
        arm.client.spin(0.8)
        robot.held = False
        holds(arm.client, again=True)
        commands_rest(arm)
        # A gap of the commands counts as the time that has passed.
        assert longest_step(arm) < 1.01
        assert arm.away(dict(zip(arm.commands.newest.name, arm.commands.newest.position,
                                 strict=True))) < 0.01  # fmt: skip
    finally:
        assert arm.client.set_parameters(CONTROLLER, state_timeout=3.0).successful
    works_again(arm)


@pytest.mark.timeout(900)
def test_states_that_are_late_by_more_than_the_lag_are_told(arm, robot):
    robot.delay = 0.6
    try:
        arm.client.spin(0.8)
        call = arm.follow(smooth(AWAY, 1.0))
        status, result = call.result()
        assert status == ABORTED
        assert "s late, tracking_lag is 0.25 s" in result.error_string
    finally:
        robot.delay = 0.0
    works_again(arm)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("error", [2.0 * np.pi, -2.5])
def test_an_encoder_that_jumps_moves_nothing(arm, robot, error):
    """In a motion and at rest, however long it lasts, also where drives do not use that encoder."""
    assert arm.client.set_parameters(CONTROLLER, state_timeout=0.5).successful
    call = begin(arm)
    robot.offsets = {ARM[0]: error}
    try:
        aborted(call, "more than its velocity limit allows")
        for _ in range(8):
            arm.client.spin(0.3)
            commands_rest(arm)
        is_refused(arm, "state is not known")
        robot.offsets = {}
        works_again(arm)
        # Acknowledged, the joint is where it is reported.
        there = HOME[ARM[0]] - 0.6
        robot.blocked = {ARM[0]: (there, there)}
        reports(arm, "check for a second publisher and the encoder, then call ~/reset")
        reports(arm, "commands are refused")
        arm.commands.clear()
        assert arm.client.call(Trigger, f"{CONTROLLER}/reset").success
        holds(arm.client, again=True)
        arm.client.wait(lambda: arm.commands, "a command")
        last = arm.commands.newest
        assert dict(zip(last.name, last.position, strict=True))[ARM[0]] == pytest.approx(there)
    finally:
        robot.offsets, robot.blocked = {}, {}
        assert arm.client.set_parameters(CONTROLLER, state_timeout=3.0).successful
    works_again(arm)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("error", [0.1, -0.2])
def test_a_smaller_jump_is_a_blockage_that_moves_the_joint_once(arm, robot, error):
    call = begin(arm)
    robot.offsets = {ARM[0]: error}
    try:
        aborted(call, "blocked: joint panda_joint1")
        arm.client.spin(2.5)
        robot_at = robot.q[ARM[0]]
        assert HOME[ARM[0]] - 2.2 * abs(error) < robot_at < HOME[ARM[0]] + 0.4 + 2.2 * abs(error)
        arm.client.spin(1.0)
        assert robot.q[ARM[0]] == pytest.approx(robot_at, abs=1e-3)
    finally:
        robot.offsets = {}
    arm.client.spin(0.3)
    arm.go_home()


@pytest.mark.timeout(900)
@pytest.mark.long
def test_frozen_from_rest_on(arm, robot):
    robot.frozen = True
    call = arm.follow(smooth(AWAY, 4.0))
    aborted(call, "joint_states are frozen")
    commands_rest(arm)
    robot.frozen = False
    works_again(arm)


@pytest.mark.timeout(900)
@pytest.mark.long
def test_a_second_driver_of_the_same_joints(arm):
    rival = arm.client.publisher(JointState, "/joint_states")
    call = begin(arm)
    stale = JointState(name=ARM, position=[HOME[name] for name in ARM])
    arm.client.repeat(lambda: rival.publish(stale), lambda: call.done, "the end", rate=50.0)
    aborted(call, "several publishers on /joint_states report")
    commands_rest(arm)
    arm.client.node.destroy_publisher(rival)
    works_again(arm)


@pytest.mark.timeout(900)
@pytest.mark.long
def test_a_rival_of_the_commands(arm):
    rival = arm.client.publisher(JointState, "/joint_command")
    call = begin(arm)
    message = JointState(name=[ARM[0]], position=[HOME[ARM[0]]])
    arm.client.repeat(lambda: rival.publish(message), lambda: call.done, "the end")
    aborted(call, f"another publisher on /joint_command commands {ARM[0]}: /test_module_client")
    arm.client.repeat_for(lambda: rival.publish(message), 0.5)
    is_refused(arm, "another publisher on /joint_command")
    reports(arm, "another publisher on /joint_command")
    arm.client.node.destroy_publisher(rival)
    works_again(arm)
