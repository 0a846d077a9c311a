# SPDX-License-Identifier: Apache-2.0
"""The FollowJointTrajectory action over DDS between processes, on the backend without physics."""

import signal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from control_msgs.action import FollowJointTrajectory
from joint_client import (
    ABORTED,
    ARM,
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
from std_srvs.srv import Trigger

from motion_nodes.core.robot.loader import load_robot

pytestmark = pytest.mark.timeout(900)
J1, J2, J7 = ARM[0], ARM[1], ARM[6]


@pytest.fixture(scope="module")
def cell(module_suite, module_client):
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
def arm(cell):
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


def test_cancel_of_a_goal_that_has_ended_changes_nothing(arm):
    call = arm.follow(smooth(by(0.1, J1), 0.3))
    assert call.result()[0] == SUCCEEDED
    assert not call.cancel()
    arm.arrives(by(0.1, J1))


def test_velocity_tolerance_on_the_way(arm):
    call = arm.follow(smooth(by(0.8, J1), 1.0), path_tolerance=tolerances([J1], 0.0, 1e-6))
    status, result = call.result()
    assert (status, result.error_code) == (ABORTED, Codes.PATH_TOLERANCE_VIOLATED)
    assert f"velocity of joint {J1} is off by" in result.error_string


def test_a_refused_goal_does_not_disturb_the_one_under_way(arm):
    call = under_way(arm, by(0.3, J1), seconds=1.0)
    assert arm.follow(trajectory([J1], [[9.0]], [9.0])).result()[0] == ABORTED
    assert call.result()[0] == SUCCEEDED


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
