# SPDX-License-Identifier: Apache-2.0
"""Blocked joints: tolerances of trajectories, and grippers that hold an object.

The driver of the robot is scripted, in wall time.
"""

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from control_msgs.action import FollowJointTrajectory, GripperCommand, ParallelGripperCommand
from diagnostic_msgs.msg import DiagnosticStatus
from joint_client import (
    ABORTED,
    ARM,
    CONTROLLER,
    FINGERS,
    FRANKA,
    HOME,
    SUCCEEDED,
    Call,
    Codes,
    JointClient,
    duration,
    smooth,
    tolerances,
    trajectory,
)
from ros_client import LATCHED
from ros_processes import SuiteProcess
from scripted_robot import ScriptedRobot
from sensor_msgs.msg import JointState

from motion_nodes.nodes.articulation.gripper_actions import COMMAND_NAMES, PARALLEL_NAME
from motion_nodes.ros.names import CONTACT

pytestmark = pytest.mark.timeout(900)
J1 = ARM[0]
ANY = tolerances([J1], -1.0)
"""No tolerance on the way: J1 may be blocked."""
OBJECT = (0.03, np.inf)
"""[m] Where fingers are stopped by something of 60 mm between them."""


@pytest.fixture(scope="module")
def robot(ros):
    """A driver that the tests can block."""
    robot = ScriptedRobot(HOME)
    yield robot
    robot.close()


@pytest.fixture(scope="module")
def process(robot, module_suite):
    """The controller of that robot; a test inspects its loaded libraries."""
    module_suite.fork = False
    process: SuiteProcess = module_suite.node("articulation_controller", robot="franka")
    return process


@pytest.fixture(scope="module")
def cell(process, module_client):
    """A client of the controller."""
    arm = JointClient(module_client)
    arm.wait_for()
    yield arm
    arm.close()


@pytest.fixture
def arm(cell, robot):
    """The arm at home, nothing in its way."""
    robot.blocked.clear()
    if cell.away(HOME) > 1e-6:
        cell.go_home()
    cell.rest()
    return cell


def test_short_of_the_goal_after_the_goal_time(arm, robot):
    robot.blocked[J1] = (-0.1, 0.1)
    begin = time.monotonic()  # before the goal is sent: its acceptance may be received late
    call = arm.follow(smooth({J1: 0.3}, 0.5), goal_time_tolerance=duration(0.4), path_tolerance=ANY)
    status, result = call.result()
    assert (status, result.error_code) == (ABORTED, Codes.GOAL_TOLERANCE_VIOLATED)
    assert result.error_string == (
        f"goal tolerance violated 0.4 s after the end: position of joint {J1} is off by 0.2, "
        "tolerance 0.01"
    )
    assert time.monotonic() - begin > 0.8


def test_no_goal_time_waits_as_long_as_it_takes(arm, robot):
    robot.blocked[J1] = (-0.1, 0.1)
    assert arm.client.set_parameters(CONTROLLER, constraints__goal_time=0.2).successful
    try:
        call = arm.follow(
            smooth({J1: 0.3}, 0.4), goal_time_tolerance=duration(-1.0), path_tolerance=ANY
        )
        assert call.accepted()
        arm.client.spin(1.0)
        assert not call.done
        robot.blocked.clear()
        assert call.result()[0] == SUCCEEDED
        robot.blocked[J1] = (-0.1, 0.31)
        status, result = arm.follow(smooth({J1: 0.5}, 0.4), path_tolerance=ANY).result()
        assert (status, result.error_code) == (ABORTED, Codes.GOAL_TOLERANCE_VIOLATED)
        assert result.error_string.startswith("goal tolerance violated 0.2 s after the end: "), (
            "0 is the default"
        )
    finally:
        assert arm.client.set_parameters(CONTROLLER, constraints__goal_time=5.0).successful


def test_a_blocked_joint_stops_a_trajectory_by_default(arm, robot, process):
    """Joint, error and place are named; the reference returns to the measured position."""
    robot.blocked[J1] = (-0.1, 0.1)
    statuses = arm.client.listen(DiagnosticStatus, f"{CONTROLLER}/status", LATCHED)
    status, result = arm.follow(smooth({J1: 0.6, ARM[1]: -0.3}, 1.0)).result()
    assert (status, result.error_code) == (ABORTED, Codes.PATH_TOLERANCE_VIOLATED)
    assert result.error_string.startswith(f"blocked: joint {J1} is ")
    assert "panda_link1 at (" in result.error_string
    assert "tool at (" in result.error_string
    # A compiler loaded in the tick would delay the controller by a second.
    assert "numba" not in Path(f"/proc/{process.pid}/maps").read_text()
    arm.client.wait_for_diagnosis(CONTROLLER, f"blocked: joint {J1}")

    def contact():
        return {v.key: v.value for v in statuses.newest.values}.get(CONTACT, "")

    arm.client.wait(
        lambda: statuses and contact() == result.error_string, "the contact in ~/status"
    )
    arm.client.wait(lambda: abs(arm.reference()[J1] - 0.1) < 2e-3, "the reference at the joint")
    # A motion away from the obstacle, from the measured position, is accepted at once.
    arm.rest()
    start = [arm.joints[name] for name in ARM]
    goal = [*start]
    goal[0] -= 0.2
    away = trajectory(ARM, [start, goal], [0.0, 0.8], [[0.0] * 7] * 2)
    status, result = arm.follow(away).result()
    assert status == SUCCEEDED, result.error_string
    arm.client.wait_for_diagnosis(CONTROLLER, "holding")
    assert not contact()


def test_a_blocked_joint_stops_a_stream_until_it_pauses(arm, robot):
    robot.blocked[J1] = (-0.1, 0.1)
    publisher = arm.publisher(JointState, "reference")
    message = JointState(name=[J1], position=[0.6])
    calls = itertools.count()

    def stream() -> None:
        # Pauses of 0.4 s: a stream that began while states were late is not obeyed.
        if next(calls) % 200 < 180:
            publisher.publish(message)

    arm.client.repeat(
        stream,
        lambda: "blocked: joint" in arm.last_warning() and "dropped" in arm.last_warning(),
        "the stream to be refused",
        rate=50.0,
    )

    def back() -> bool:
        report = arm.reports.newest
        return abs(report.reference.positions[report.joint_names.index(J1)] - 0.1) < 2e-3

    arm.client.repeat(lambda: publisher.publish(message), back, "the way back", rate=100.0)
    arm.client.spin(0.3)
    publisher.publish(JointState(name=[J1], position=[0.0]))
    arm.arrives({J1: 0.0}, within=1e-3)


def test_no_tolerance_looks_at_nothing(arm, robot):
    robot.blocked[J1] = (-0.1, 0.1)
    assert arm.client.set_parameters(CONTROLLER, constraints__trajectory=0.0).successful
    try:
        publisher = arm.publisher(JointState, "reference")
        message = JointState(name=[J1], position=[0.5])
        # A single message may precede the discovery of its publisher.
        arm.client.repeat(
            lambda: publisher.publish(message),
            lambda: abs(arm.reference()[J1] - 0.5) < 1e-9,
            "the reference",
            rate=2.0,
        )
        arm.client.spin(0.3)
        assert arm.reference()[J1] == pytest.approx(0.5)
        robot.blocked.clear()
        arm.arrives({J1: 0.5}, within=1e-3)
    finally:
        back = {"constraints__trajectory": np.nan}
        assert arm.client.set_parameters(CONTROLLER, **back).successful


def grip(
    arm: JointClient, position: float, name: str = COMMAND_NAMES[0], max_effort: float = 20.0
) -> Call:
    goal = GripperCommand.Goal()
    goal.command.position, goal.command.max_effort = position, max_effort
    return arm.send(goal, GripperCommand, f"/{name}")


@pytest.mark.parametrize("effort", [-1.0, np.nan])
def test_a_max_effort_that_makes_no_sense_moves_nothing(arm, effort):
    status, _ = grip(arm, 0.0, max_effort=effort).result()
    assert status == ABORTED
    arm.wait_for_warning("max_effort is")
    assert arm.away(HOME) < 1e-6


@pytest.mark.parametrize("efforts", [[8.0, -1.0], [8.0, np.nan]])
def test_so_does_one_of_several_max_efforts(arm, efforts):
    goal = ParallelGripperCommand.Goal(
        command=JointState(name=FINGERS, position=[0.0, 0.0], effort=efforts)
    )
    status, _ = arm.send(goal, ParallelGripperCommand, f"/{PARALLEL_NAME}").result()
    assert status == ABORTED
    arm.wait_for_warning(f"max_effort is {efforts[1]}")
    assert arm.away(HOME) < 1e-6


def parallel(arm: JointClient, names: list[str], positions: list[float]) -> Call:
    goal = ParallelGripperCommand.Goal(command=JointState(name=names, position=positions))
    return arm.send(goal, ParallelGripperCommand, f"/{PARALLEL_NAME}")


def test_the_parallel_gripper_stalls(arm, robot):
    robot.blocked = dict.fromkeys(FINGERS, OBJECT)
    status, result = parallel(arm, [FINGERS[0]], [0.0]).result()
    assert (status, result.stalled, result.reached_goal) == (SUCCEEDED, True, False)
    assert list(result.state.name) == FINGERS
    assert list(result.state.position) == pytest.approx([OBJECT[0]] * 2, abs=1e-6)


def test_preempted_by_another_grip_and_by_a_stream(arm, robot):
    stream = arm.publisher(JointState, "reference")
    # The object keeps a grip active until the next one comes.
    assert arm.client.set_parameters(CONTROLLER, gripper__stall_timeout=60.0).successful
    try:
        robot.blocked = dict.fromkeys(FINGERS, OBJECT)
        first = grip(arm, 0.0)
        assert first.accepted()
        second = grip(arm, 0.0395, COMMAND_NAMES[1])
        status, result = first.result()
        assert (status, result.stalled, result.reached_goal) == (ABORTED, False, False)
        status, result = second.result()
        assert (status, result.reached_goal) == (SUCCEEDED, True)
        third = grip(arm, 0.0)
        assert third.accepted()
        # Acceptance precedes the motion: an earlier stream would itself be preempted.
        arm.client.wait(lambda: arm.away(dict.fromkeys(FINGERS, 0.0395)) > 0.005, "motion")
        stream.publish(JointState(name=FINGERS, position=[0.035, 0.035]))
        assert third.result()[0] == ABORTED
    finally:
        assert arm.client.set_parameters(CONTROLLER, gripper__stall_timeout=0.3).successful
    arm.client.wait(lambda: arm.away(dict.fromkeys(FINGERS, 0.035)) < 1e-4, "the stream's target")


@contextmanager
def slow_fingers(arm: JointClient) -> Iterator[None]:
    """Fingers that close within 2 s: longer than this process may pause."""
    own = dict(zip(FRANKA.joint_names, FRANKA.limits.velocity.tolist(), strict=True))
    slow = own | dict.fromkeys(FINGERS, 0.02)
    set_parameters = arm.client.set_parameters
    assert set_parameters(CONTROLLER, max_velocity=list(slow.values())).successful
    try:
        yield
    finally:
        assert set_parameters(CONTROLLER, max_velocity=list(own.values())).successful


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (0.1, "gripper position 0.1 is outside its limits 0 to 0.04"),
        (-0.02, "gripper position -0.02 is outside its limits 0 to 0.04"),
        (np.nan, "gripper position is nan; give a finite number"),
        (np.inf, "gripper position is inf; give a finite number"),
        (1e300, "position"),
    ],
)
def test_bad_positions_move_nothing(arm, position, text):
    status, result = grip(arm, position).result()
    assert (status, result.stalled, result.reached_goal) == (ABORTED, False, False)
    assert result.position == pytest.approx(HOME[FINGERS[0]], abs=1e-3)
    arm.wait_for_warning(text)
    assert arm.reference()[FINGERS[0]] == pytest.approx(HOME[FINGERS[0]])


@pytest.mark.parametrize(
    ("names", "positions", "text"),
    [
        (["panda_finger"], [0.0], "unknown gripper joint 'panda_finger'"),
        (FINGERS, [0.0, 0.01], "one position for all fingers"),
        ([], [], "one position for all fingers"),
        (FINGERS, [0.03], None),
        ([], [0.03], None),
        (FINGERS, [0.03, 0.03], None),
    ],
)
def test_what_a_parallel_gripper_is_asked(arm, names, positions, text):
    status, result = parallel(arm, names, positions).result()
    assert status == (SUCCEEDED if text is None else ABORTED)
    assert result.reached_goal == (text is None)
    if text is not None:
        arm.wait_for_warning(text)


@pytest.mark.long
def test_late_states_are_no_stall(arm, robot):
    """Of the gripper; the stall timeout is 0.3 s."""
    usual = arm.client.get_parameter(CONTROLLER, "state_timeout")
    assert arm.client.set_parameters(CONTROLLER, state_timeout=5.0).successful
    try:
        robot.silent = True
        call = grip(arm, 0.0)
        assert call.accepted()
        arm.client.spin(0.6)
        assert not call.done
        robot.silent = False
        status, result = call.result()
        assert (status, result.reached_goal, result.stalled) == (SUCCEEDED, True, False)
    finally:
        robot.silent = False
        assert arm.client.set_parameters(CONTROLLER, state_timeout=usual).successful


def test_deactivated_during_a_grip(arm):
    with slow_fingers(arm):
        call = grip(arm, 0.0)
        assert call.accepted()
        arm.moving(0.01, FINGERS)
        assert arm.client.change_state(CONTROLLER, "deactivate")
        assert call.result()[0] == ABORTED
        assert not grip(arm, 0.03).accepted()
        assert arm.client.change_state(CONTROLLER, "activate")
        arm.wait_for()
    assert grip(arm, 0.03).result()[0] == SUCCEEDED


def test_gripper_joints_in_a_trajectory_preempt_a_grip(arm, robot):
    robot.blocked = dict.fromkeys(FINGERS, OBJECT)
    set_parameters = arm.client.set_parameters
    # It must not stall before the trajectory comes.
    assert set_parameters(CONTROLLER, gripper__stall_timeout=60.0).successful
    try:
        call = grip(arm, 0.0)
        assert call.accepted()
        goal = FollowJointTrajectory.Goal(trajectory=smooth(dict.fromkeys(FINGERS, 0.04), 0.6))
        assert arm.send(goal).result()[0] == SUCCEEDED
        assert call.result()[0] == ABORTED
    finally:
        assert set_parameters(CONTROLLER, gripper__stall_timeout=0.3).successful
