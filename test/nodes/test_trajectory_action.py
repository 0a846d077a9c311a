# SPDX-License-Identifier: Apache-2.0
"""The FollowJointTrajectory action over DDS between processes, on the backend without physics."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import SpeedScalingFactor
from joint_client import (
    ABORTED,
    ARM,
    CANCELED,
    CONTROLLER,
    FINGERS,
    HOME,
    SUCCEEDED,
    Call,
    Codes,
    JointClient,
    smooth,
    tolerances,
    trajectory,
)
from rclpy.action import ActionClient
from ros_client import RosClient
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from motion_nodes.core.robot.loader import load_robot

pytestmark = pytest.mark.timeout(900)
J1, J2, J7 = ARM[0], ARM[1], ARM[6]


@pytest.fixture(scope="module")
def cell(module_suite: Any, module_client: RosClient) -> Iterator[SimpleNamespace]:
    """A controller and a mock of its robot."""
    sim = module_suite.node("mock_sim", robots=["franka"], update_rate=100.0)
    node = module_suite.node(
        "articulation_controller", robot="franka", use_sim_time=True, update_rate=100.0
    )
    arm = JointClient(module_client)
    arm.wait_for()
    processes = {"sim": sim, "controller": node}

    def again(which: str) -> None:
        processes[which] = module_suite.run(processes[which].command)
        module_client.forget_diagnoses()

    yield SimpleNamespace(arm=arm, client=module_client, processes=processes, again=again)
    arm.close()


@pytest.fixture
def arm(cell: SimpleNamespace) -> JointClient:
    """The arm at home and at rest."""
    arm = cell.arm
    arm.client.wait(lambda: arm.states and arm.reports, "the arm")
    if arm.away(HOME) > 1e-6 or arm.speed() > 0.0:
        arm.go_home()
    arm.rest(1e-6)
    return arm


def by(offset: float, *joints: str) -> dict[str, float]:
    return {name: HOME[name] + offset for name in joints or ARM}


def under_way(arm: JointClient, goal: dict[str, float], seconds: float = 3.0, **more: Any) -> Call:
    """Return a goal whose joints have started to move."""
    call = arm.follow(smooth(goal, seconds), **more)
    assert call.accepted()
    try:
        arm.moving(joints=list(goal))
    except AssertionError as error:
        raise AssertionError(f"{error}; {call.result() if call.done else 'not done'}") from None
    return call


@pytest.mark.long
def test_success_with_feedback(arm):
    goal = by(0.4)
    call = arm.follow(smooth(goal, 2.0))
    status, result = call.result()
    assert (status, result.error_code, result.error_string) == (SUCCEEDED, Codes.SUCCESSFUL, "")
    arm.arrives(goal)
    feedback = [message.feedback for message in call.feedback]
    assert len(feedback) >= 10
    times = []
    for message in feedback:
        assert message.joint_names == ARM
        desired, actual, error = (
            np.array(point.positions) for point in (message.desired, message.actual, message.error)
        )
        np.testing.assert_allclose(desired - actual, error, atol=1e-12)
        speeds = [np.array(p.velocities) for p in (message.desired, message.actual, message.error)]
        np.testing.assert_allclose(speeds[0] - speeds[1], speeds[2], atol=1e-12)
        time = message.desired.time_from_start.sec + 1e-9 * message.desired.time_from_start.nanosec
        share = min(time / 2.0, 1.0)
        start = np.array([HOME[name] for name in ARM])
        np.testing.assert_allclose(desired - start, 0.4 * (3 - 2 * share) * share**2, atol=1e-3)
        assert np.abs(error).max() < 0.1
        times.append(time)
    assert times == sorted(times)
    assert 0.0 < times[0] < 0.3


def test_joints_that_are_not_named_hold_and_order_is_free(arm):
    goal = {J7: HOME[J7] + 0.3, J2: HOME[J2] - 0.3}
    status, _ = arm.follow(smooth(goal, 0.6)).result()
    assert status == SUCCEEDED
    arm.arrives(goal)
    assert arm.away({name: q for name, q in HOME.items() if name not in goal}) < 1e-6


@pytest.mark.long
def test_a_newer_goal_preempts_where_joints_are_shared(arm):
    first = under_way(arm, by(0.6, J1, J2))
    beside = under_way(arm, by(0.3, J7), seconds=1.0)
    assert not first.done
    second = arm.follow(smooth(by(-0.1, J2), 0.8))
    status, result = first.result()
    name = bytes(second.handle.goal_id.uuid).hex()[:8] if second.accepted() else ""
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_GOAL)
    assert result.error_string == f"preempted by action goal {name}"
    assert beside.result()[0] == SUCCEEDED
    assert second.result()[0] == SUCCEEDED
    arm.arrives(by(-0.1, J2))
    # The joint without a command was brought to rest on its way.
    assert 0.002 < arm.rest()[J1] - HOME[J1] < 0.59


def stream(arm: JointClient) -> None:
    arm.publisher(JointState, "reference").publish(JointState(name=[J1], position=[HOME[J1] - 0.1]))


def topic(arm: JointClient) -> None:
    arm.publisher(JointTrajectory, "joint_trajectory").publish(smooth(by(-0.1, J1), 0.8))


def array(arm: JointClient) -> None:
    values = [math.nan] * 9
    values[0] = HOME[J1] - 0.1
    arm.publisher(Float64MultiArray, "commands").publish(Float64MultiArray(data=values))


@pytest.mark.long
@pytest.mark.parametrize(
    ("send", "who"),
    [(stream, "~/reference"), (topic, "~/joint_trajectory"), (array, "~/commands")],
)
def test_other_inputs_preempt_and_are_named(arm, send, who):
    goal = under_way(arm, by(0.6, J1))
    other = under_way(arm, by(0.2, J2), seconds=1.0)
    arm.client.repeat(lambda: send(arm), lambda: goal.done, "the goal to be preempted", rate=5.0)
    status, result = goal.result()
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_GOAL)
    assert result.error_string == f"preempted by {who}"
    assert other.result()[0] == SUCCEEDED, "shares no joint with the new command"
    arm.client.wait(lambda: arm.away(by(-0.1, J1)) < 1e-3, "the goal of the new command")


@pytest.mark.long
def test_cancel_brakes_and_holds(arm):
    call = under_way(arm, by(1.0, J1), seconds=4.0)
    arm.client.wait(lambda: arm.joints[J1] > 0.2, "some way")
    arm.clear()
    assert call.cancel()
    status, result = call.result()
    assert (status, result.error_string) == (CANCELED, "canceled by its client")
    rested = arm.rest()
    assert 0.2 < rested[J1] < 0.9
    speeds = [message.reference.velocities[0] for message in arm.reports.messages]
    assert max(speeds) < 1.0, "it braked without going faster"
    # The simulation follows its references with a latency.
    arm.client.wait(lambda: arm.away(arm.reference()) < 1e-7, "the joints at their references")
    rested = arm.joints
    arm.client.spin(0.3)
    assert arm.away(rested) < 1e-6


def test_cancel_of_a_goal_that_has_ended_changes_nothing(arm):
    call = arm.follow(smooth(by(0.1, J1), 0.3))
    assert call.result()[0] == SUCCEEDED
    assert not call.cancel()
    arm.arrives(by(0.1, J1))


def test_path_tolerance_violated(arm):
    # The measured state is one period old, so its lag exceeds this tolerance.
    call = arm.follow(smooth(by(0.8, J1, J2), 1.5), path_tolerance=tolerances([J2], 1e-4))
    status, result = call.result()
    assert (status, result.error_code) == (ABORTED, Codes.PATH_TOLERANCE_VIOLATED)
    assert result.error_string.startswith(
        f"path tolerance violated: position of joint {J2} is off by "
    )
    assert "tolerance 0.0001" in result.error_string
    rested = arm.rest()
    assert rested[J1] < HOME[J1] + 0.7, "all joints of the goal stop"


def test_velocity_tolerance_on_the_way(arm):
    call = arm.follow(smooth(by(0.8, J1), 1.0), path_tolerance=tolerances([J1], 0.0, 1e-6))
    status, result = call.result()
    assert (status, result.error_code) == (ABORTED, Codes.PATH_TOLERANCE_VIOLATED)
    assert f"velocity of joint {J1} is off by" in result.error_string


def test_tolerance_zero_is_the_default_and_minus_one_is_none(arm):
    client = arm.client
    assert client.set_parameters(CONTROLLER, constraints__trajectory=1e-4).successful
    try:
        status, result = arm.follow(
            smooth(by(0.5, J1), 0.8), path_tolerance=tolerances([J1], 0.0)
        ).result()
        assert (status, result.error_code) == (ABORTED, Codes.PATH_TOLERANCE_VIOLATED)
        status, result = arm.follow(smooth(by(0.3, J1), 0.8)).result()
        assert (status, result.error_code) == (ABORTED, Codes.PATH_TOLERANCE_VIOLATED)
        status, result = arm.follow(
            smooth(by(0.5, J1), 0.8), path_tolerance=tolerances([J1], -1.0)
        ).result()
        assert (status, result.error_code) == (SUCCEEDED, Codes.SUCCESSFUL)
    finally:
        assert client.set_parameters(CONTROLLER, constraints__trajectory=0.0).successful


@pytest.mark.long
def test_old_stamp_and_others(arm):
    status, result = arm.follow(smooth(by(0.2, J1), 0.5, stamp=max(arm.now - 0.6, 0.01))).result()
    assert (status, result.error_code) == (ABORTED, Codes.OLD_HEADER_TIMESTAMP)
    assert "s old and its duration 0.50 s: it has ended" in result.error_string
    assert arm.away(HOME) < 1e-6

    begin = arm.now + 1.0
    ahead = arm.follow(smooth(by(0.2, J1), 0.5, stamp=begin))
    assert ahead.accepted()
    arm.clear()
    assert ahead.result()[0] == SUCCEEDED
    for message in arm.states.messages:
        stamp = message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
        if stamp < begin - 0.05:
            assert abs(message.position[0] - HOME[J1]) < 1e-6
        if stamp < begin + 0.25:
            assert abs(message.position[0] - HOME[J1]) < 0.15, "half of the way, not all"


def test_a_stamp_in_the_past_begins_within_the_trajectory(arm):
    stamp = arm.now - 1.0
    arm.clear()
    status, _ = arm.follow(smooth(by(0.1, J1), 2.0, stamp=stamp)).result()
    assert status == SUCCEEDED
    arm.arrives(by(0.1, J1), within=1e-5)
    # The result itself may be received late.
    stamps = [
        message.header.stamp
        for message in arm.states.messages
        if abs(message.position[message.name.index(J1)] - HOME[J1] - 0.1) < 1e-5
    ]
    assert stamps[0].sec + 1e-9 * stamps[0].nanosec < stamp + 2.5


def test_a_refused_goal_does_not_disturb_the_one_under_way(arm):
    call = under_way(arm, by(0.3, J1), seconds=1.0)
    assert arm.follow(trajectory([J1], [[9.0]], [9.0])).result()[0] == ABORTED
    assert call.result()[0] == SUCCEEDED


@pytest.mark.long
def test_as_moveit_sends_it(arm):
    """Quintic segments from the current state, no tolerances, stamp 0, another joint order."""
    names = list(reversed(ARM))
    start = np.array([arm.joints[name] for name in names])
    times = np.linspace(0.0, 1.5, 16)
    s = times / times[-1]
    shape = 10 * s**3 - 15 * s**4 + 6 * s**5
    rate = (30 * s**2 - 60 * s**3 + 30 * s**4) / times[-1]
    bend = (60 * s - 180 * s**2 + 120 * s**3) / times[-1] ** 2
    way = np.full(7, 0.5)
    rows = start + np.outer(shape, way)
    message = trajectory(
        names, rows.tolist(), times.tolist(),
        np.outer(rate, way).tolist(), np.outer(bend, way).tolist(),
    )  # fmt: skip
    message.header.frame_id = "world"
    call = arm.follow(message)
    status, result = call.result()
    assert (status, result.error_code) == (SUCCEEDED, Codes.SUCCESSFUL)
    arm.arrives(dict(zip(names, start + way, strict=True)))
    worst = max(abs(e) for m in call.feedback for e in m.feedback.error.positions)
    assert worst < 0.1


def set_scaling(arm: JointClient, factor: float) -> None:
    publisher = arm.publisher(SpeedScalingFactor, "speed_scaling_input")
    arm.reports.clear()

    def done() -> bool:
        if not 0.0 <= factor <= 1.0:
            return f"speed scaling {factor} refused; it must be from 0 to 1" in arm.last_warning()
        return arm.reports and arm.reports.newest.speed_scaling_factor == factor

    arm.client.repeat(
        lambda: publisher.publish(SpeedScalingFactor(factor=factor)), done, f"scaling {factor}"
    )


@pytest.mark.long
def test_speed_scaling(arm):
    try:
        set_scaling(arm, 0.5)
        begin = arm.now
        call = under_way(arm, by(0.4, J1), seconds=1.0)
        set_scaling(arm, 0.0)
        stood = arm.rest()
        arm.client.spin(0.3)
        assert arm.away(stood) < 1e-6
        assert not call.done
        set_scaling(arm, 0.5)
        assert call.result()[0] == SUCCEEDED
        assert arm.now - begin > 2.0
        set_scaling(arm, math.nan)
        arm.reference()
        assert arm.reports.newest.speed_scaling_factor == 0.5
        set_scaling(arm, 1.5)
        set_scaling(arm, -0.1)
    finally:
        set_scaling(arm, 1.0)


@pytest.mark.long
def test_paused_simulation_goes_on_after(arm):
    call = under_way(arm, by(0.6, J1), seconds=2.0)
    arm.pause("/mock_sim", True)
    try:
        arm.client.wait_for_diagnosis(CONTROLLER, "/clock does not advance")
        arm.clear()
        arm.client.wait(lambda: len(arm.states) > 5, "states")
        before = arm.joints
        arm.client.spin(0.3)
        assert arm.away(before) < 1e-9
        assert not call.done
    finally:
        arm.pause("/mock_sim", False)
    assert call.result()[0] == SUCCEEDED
    arm.arrives(by(0.6, J1))


def test_time_that_jumps_back_aborts(arm):
    call = under_way(arm, by(0.6, J1))
    assert arm.client.call(Trigger, "/mock_sim/reset").success
    status, result = call.result()
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_GOAL)
    assert result.error_string.startswith("time jumped from ")
    arm.wait_for()
    arm.arrives(HOME)
    assert arm.follow(smooth(by(0.1, J1), 0.4)).result()[0] == SUCCEEDED


def test_deactivated_during_a_goal(arm):
    call = under_way(arm, by(0.6, J1))
    assert arm.client.change_state(CONTROLLER, "deactivate")
    status, result = call.result()
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_GOAL)
    assert result.error_string == "the controller was deactivated"
    assert not arm.follow(smooth(by(0.1, J1), 1.0)).accepted(), "an inactive node rejects"
    assert arm.client.change_state(CONTROLLER, "activate")
    arm.wait_for()
    assert arm.follow(smooth(by(0.1, J1), 0.4)).result()[0] == SUCCEEDED


def test_cleaned_up_and_configured_during_a_goal(arm):
    call = under_way(arm, by(0.6, J1))
    for verb in ("deactivate", "cleanup", "configure", "activate"):
        assert arm.client.change_state(CONTROLLER, verb)
    status, result = call.result()
    assert (status, result.error_string) == (ABORTED, "the controller was deactivated")
    arm.wait_for()
    assert arm.follow(smooth(by(0.1, J1), 0.4)).result()[0] == SUCCEEDED


def test_many_goals_at_once(arm):
    goals = [arm.follow(smooth(by(0.1 + 0.02 * i, J1), 0.5)) for i in range(20)]
    statuses = [call.result() for call in goals]
    assert all(goal.accepted() for goal in goals)
    # They may arrive in another order than sent; the last one received wins.
    winners = [i for i, (status, _) in enumerate(statuses) if status == SUCCEEDED]
    assert len(winners) == 1
    arm.arrives(by(0.1 + 0.02 * winners[0], J1))
    for i, (status, result) in enumerate(statuses):
        if i not in winners:
            assert status == ABORTED
            assert result.error_string.startswith("preempted by action goal ")


def test_a_client_that_vanishes(arm):
    other = RosClient("test_vanishing_client")
    action = ActionClient(
        other.node, FollowJointTrajectory, f"{CONTROLLER}/follow_joint_trajectory"
    )
    other.wait(action.server_is_ready, "the action")
    goal = FollowJointTrajectory.Goal(trajectory=smooth(by(0.4, J1), 1.0))
    sent = action.send_goal_async(goal)
    other.wait(sent.done, "the goal's acceptance")
    other.close()
    action.destroy()
    # The goal is executed, and other clients are served.
    arm.client.wait(lambda: arm.away(by(0.4, J1)) < 0.01, "the goal")
    assert arm.follow(smooth(by(0.1, J1), 0.5)).result()[0] == SUCCEEDED


def test_gripper_joints_are_joints_like_others(arm):
    goal = dict.fromkeys(FINGERS, 0.01)
    assert arm.follow(smooth(goal, 0.6)).result()[0] == SUCCEEDED
    arm.client.wait(lambda: arm.away(goal) < 1e-6, "the fingers at their goal")


def test_the_robot_is_lost_during_a_goal(cell, arm):
    call = under_way(arm, by(1.0, J1))
    cell.processes["sim"].kill()
    status, result = call.result()
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_GOAL)
    assert result.error_string.startswith("the robot was lost: no joint_states for ")
    status, result = arm.follow(smooth(by(0.1, J1), 1.0)).result()
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_GOAL)
    assert result.error_string.startswith("the robot's state is not known; no joint_states for ")
    cell.again("sim")
    arm.wait_for()
    # A goal that arrives before the controller has noticed the jump of time is aborted by it.
    cell.client.wait(
        lambda: arm.follow(smooth(by(0.1, J1), 0.4)).result()[0] == SUCCEEDED, "motion again"
    )


@pytest.mark.parametrize("how", ["signal", "deactivate"])
def test_braked_within_limits_at_the_end_of_the_controller(cell, arm, how):
    arm.commands.clear()
    call = under_way(arm, by(2.4, J1), 2.5)  # above 0.7 rad/s for 1.7 s
    arm.client.wait(lambda: arm.speed() > 0.7, "a fast motion")
    controller = cell.processes["controller"]
    if how == "signal":
        controller.send(signal.SIGINT)
        arm.client.wait(lambda: not controller.running, "its end")
        assert controller.exit_code() == 0
    else:
        assert arm.client.change_state(CONTROLLER, "deactivate")

    def velocity_of(message: JointState) -> float:
        return float(message.velocity[message.name.index(J1)])

    arm.client.wait(
        lambda: arm.speed() < 1e-6 and velocity_of(arm.commands.newest) == 0.0, "rest at the end"
    )
    assert HOME[J1] < arm.joints[J1] < HOME[J1] + 2.3
    assert call.feedback, "the goal was active"
    velocity = np.array([velocity_of(message) for message in arm.commands.messages])
    stamps = [m.header.stamp for m in arm.commands.messages]
    time = np.array([stamp.sec + 1e-9 * stamp.nanosec for stamp in stamps])
    # While simulated time stands, the last deadline is repeated, at rest.
    new = np.append(True, np.diff(time) > 0.0)
    assert velocity.max() > 0.5
    acceleration = np.diff(velocity[new]) / np.diff(time[new])
    limit = load_robot("franka").limits.select([J1]).acceleration[0]
    assert np.abs(acceleration).max() <= limit * (1.0 + 1e-6)
    if how == "signal":
        cell.again("controller")
    else:
        assert arm.client.change_state(CONTROLLER, "activate")
    arm.wait_for()
    assert arm.follow(smooth(by(0.1, J1), 0.4)).result()[0] == SUCCEEDED


def test_shut_down_during_a_goal(arm):
    # The last test: it ends the node.
    call = under_way(arm, by(0.6, J1))
    assert arm.client.change_state(CONTROLLER, "active_shutdown")
    status, result = call.result()
    assert (status, result.error_string) == (ABORTED, "the controller was deactivated")
