# SPDX-License-Identifier: Apache-2.0
"""A Franka in MuJoCo under effort control by the controller, over DDS between processes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from control_msgs.action import GripperCommand
from joint_client import (
    ABORTED,
    ARM,
    CONTROLLER,
    FRANKA,
    HOME,
    SUCCEEDED,
    Codes,
    JointClient,
    smooth,
    tolerances,
)
from rclpy.time import Time
from ros_client import RosClient
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from motion_nodes.nodes.articulation.gripper_actions import COMMAND_NAMES

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
J1, J2, J7 = ARM[0], ARM[1], ARM[6]
JOINTS = list(FRANKA.joint_names)
MAX_EFFORT = dict(zip(JOINTS, FRANKA.limits.effort.tolist(), strict=True))


class Cell:
    """The controller with its own PID, and the simulation."""

    def __init__(self, suite: Any, client: RosClient) -> None:
        suite.node("mujoco_sim", robots=["franka"])
        self.process = suite.node(
            "articulation_controller", robot="franka", use_sim_time=True, command_interface="effort"
        )
        self.arm = JointClient(client)
        self.arm.wait_for()


@pytest.fixture(scope="module")
def cell(module_suite: Any, module_client: RosClient) -> Iterator[Cell]:
    """One for all tests."""
    cell = Cell(module_suite, module_client)
    yield cell
    cell.arm.close()


def settled(arm: JointClient, below: float = 3e-3) -> dict[str, float]:
    return arm.rest(below)


@pytest.fixture
def arm(cell: Cell) -> Iterator[JointClient]:
    """The arm near home under effort control; efforts stay within their limits."""
    arm = cell.arm
    if arm.away(HOME) > 0.02:
        arm.go_home()
    settled(arm)
    yield arm
    assert arm.commands
    for message in arm.commands.messages:
        for name, effort in zip(message.name, message.effort, strict=True):
            assert not abs(effort) > MAX_EFFORT[name] * (1 + 1e-9)


def test_holds_under_gravity(arm):
    assert arm.away(HOME) < 5e-3
    arm.commands.clear()
    arm.client.wait(lambda: arm.commands, "commands")
    message = arm.commands.newest
    assert np.isnan(message.position).all()
    assert np.isnan(message.velocity).all()
    assert np.abs(message.effort).max() > 5.0, "efforts compensate gravity"


def test_sags_without_gravity_compensation_and_comes_back(arm, record_property):
    client = arm.client
    assert client.set_parameters(CONTROLLER, gravity_compensation=False).successful
    try:
        client.wait(lambda: arm.away(HOME) > 5e-3, "the sag")
        settled(arm)
        # The gains carry the load until the integral does.
        sag = arm.away(HOME)
        record_property("sag [rad]", sag)
        assert sag < 0.1
    finally:
        assert client.set_parameters(CONTROLLER, gravity_compensation=True).successful
    client.wait(lambda: arm.away(HOME) < 4e-3, "the arm back")


def test_a_step_is_followed_without_much_overshoot(arm, record_property):
    goal = {J1: 0.3, "panda_joint4": HOME["panda_joint4"] + 0.2, J7: HOME[J7] + 0.2}
    publisher = arm.publisher(JointState, "reference")
    arm.clear()
    message = JointState(name=list(goal), position=list(goal.values()))
    arm.client.repeat(
        lambda: publisher.publish(message), lambda: arm.states and arm.away(goal) < 5e-3,
        "the step's end", rate=2.0,
    )  # fmt: skip
    settled_from = len(arm.states.messages)
    arm.client.wait(lambda: len(arm.states.messages) > settled_from + 100, "what follows")
    rows = np.array([m.position for m in arm.states.messages])
    for name, target in goal.items():
        column = rows[:, JOINTS.index(name)]
        step = target - HOME[name]
        overshoot = float((column.max() - target) / step)
        record_property(f"overshoot of {name}", overshoot)
        assert overshoot < 0.25
        assert abs(column[-1] - target) < 5e-3


def test_a_trajectory(arm, record_property):
    call = arm.follow(smooth({n: HOME[n] + 0.3 for n in ARM}, 1.5),
                      path_tolerance=tolerances(ARM, 0.3))  # fmt: skip
    status, result = call.result()
    assert (status, result.error_code) == (SUCCEEDED, Codes.SUCCESSFUL), result.error_string
    errors = np.array([m.feedback.error.positions for m in call.feedback])
    record_property("tracking error, max [rad]", float(np.abs(errors).max()))
    assert np.abs(errors).max() < 0.1


def test_the_gripper_with_efforts(arm):
    goal = GripperCommand.Goal()
    goal.command.position = 0.02
    status, result = arm.send(goal, GripperCommand, f"/{COMMAND_NAMES[0]}").result()
    assert (status, result.reached_goal) == (SUCCEEDED, True)


def test_only_efforts_leave_while_it_leads(arm):
    """Also in ticks without progress of simulated time: a single position command is a shock."""
    arm.commands.clear()
    arm.client.wait(lambda: len(arm.commands) > 500, "commands")
    for message in arm.commands.messages:
        assert np.isnan(message.position).all()
        assert np.isnan(message.velocity).all()
        assert np.isfinite(message.effort).all()


def test_deactivation_hands_over_to_the_drives(arm, record_property):
    before = settled(arm)
    assert arm.client.change_state(CONTROLLER, "deactivate")
    try:
        arm.states.clear()
        arm.client.wait(lambda: len(arm.states) > 250, "what follows")
        rows = np.array([m.position for m in arm.states.messages])
        drop = float(np.abs(rows - [before[n] for n in JOINTS]).max())
        record_property("drop at handover [rad]", drop)
        assert drop < 0.005
    finally:
        assert arm.client.change_state(CONTROLLER, "activate")
        arm.wait_for()
    arm.states.clear()
    arm.client.wait(lambda: len(arm.states) > 250, "what follows")
    rows = np.array([m.position for m in arm.states.messages])
    drop = float(np.abs(rows - [before[n] for n in JOINTS]).max())
    record_property("drop at taking over [rad]", drop)
    assert drop < 0.01


def modes(**changed: str) -> list[str]:
    return [changed.get(name, "position") for name in JOINTS]


def test_velocity_mode_holds_a_speed(arm):
    client = arm.client
    assert client.set_parameters(
        CONTROLLER, control_modes=modes(panda_joint7="velocity")
    ).successful
    try:
        before = settled(arm)
        client.spin(0.3)
        assert arm.away(before) < 0.01, "the switch moves nothing"
        publisher = arm.publisher(JointState, "reference")
        message = JointState(name=[J7], velocity=[0.5])
        client.repeat(lambda: publisher.publish(message),
                      lambda: abs(arm.speed([J7]) - 0.5) < 0.05, "the speed")  # fmt: skip
        arm.states.clear()
        client.wait(lambda: len(arm.states) > 60, "states")
        speeds = [m.velocity[JOINTS.index(J7)] for m in arm.states.messages]
        assert np.mean(speeds) == pytest.approx(0.5, abs=0.05)
        assert arm.away({n: before[n] for n in ARM[:6]}) < 0.02
    finally:
        assert client.set_parameters(CONTROLLER, control_modes=modes()).successful
    # With the stored gains back, the joint holds its position again.
    settled(arm)
    client.wait(lambda: arm.away(arm.reference()) < 3e-3, "the joints at their references")


def test_effort_mode_accelerates_the_last_joint(arm):
    client = arm.client
    assert client.set_parameters(CONTROLLER, control_modes=modes(panda_joint7="effort")).successful
    try:
        i = JOINTS.index(J7)
        publisher = arm.publisher(Float64MultiArray, "commands")
        values = [math.nan] * 9
        values[i] = 1.0
        # Commands of the previous mode may still be queued.
        client.wait(lambda: arm.commands.newest.effort[i] == 0.0, "the end of the hold")
        arm.clear()
        client.repeat(lambda: publisher.publish(Float64MultiArray(data=values)),
                      lambda: arm.states and arm.states.newest.velocity[i] > 0.4,
                      "speed", rate=50.0)  # fmt: skip
        sent = [m.effort[i] for m in arm.commands.messages]
        assert {1.0} <= {round(e, 9) for e in sent} <= {0.0, 1.0}, "only the commanded effort"
        states = [(m.velocity[i], m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec)
                  for m in arm.states.messages]  # fmt: skip
        last = next(k for k, (v, _) in enumerate(states) if v > 0.4)
        first = last
        while first > 0 and 0.1 < states[first - 1][0] <= states[first][0]:
            first -= 1  # not before the effort acted without a pause
        assert last - first > 3
        (v0, t0), (v1, t1) = states[first], states[last]
        inertia = FRANKA.drive(J7).armature
        assert 0.2 / inertia < (v1 - v0) / (t1 - t0) < 1.1 / inertia
        assert arm.away({n: HOME[n] for n in ARM[:6]}) < 0.02
    finally:
        assert client.set_parameters(CONTROLLER, control_modes=modes()).successful
    settled(arm)


def test_gains_act_at_once_and_a_bad_batch_changes_nothing(arm):
    client = arm.client
    own = {name: list(client.get_parameter(CONTROLLER, name)) for name in ("kp", "ki", "kd")}
    none = {
        name: [k if n != J1 else 0.0 for n, k in zip(JOINTS, gains, strict=True)]
        for name, gains in own.items()
    }
    # The feed-forward of the reference's acceleration alone would move it most of the way.
    none["inertia_compensation"] = False
    assert client.set_parameters(CONTROLLER, **none).successful
    publisher = arm.publisher(JointState, "reference")
    message = JointState(name=[J1], position=[0.1])
    try:
        begin = arm.now
        client.repeat(lambda: publisher.publish(message), lambda: arm.now > begin + 0.7, "time")
        assert abs(arm.joints[J1]) < 0.05, "without gains it does not arrive"
        answer = client.set_parameters(CONTROLLER, kp=own["kp"], max_velocity=[9.0])
        assert not answer.successful
        assert "max_velocity of joint panda_joint1 is 9; the robot's own limit is" in answer.reason
        assert list(client.get_parameter(CONTROLLER, "kp")) == none["kp"]
    finally:
        own["inertia_compensation"] = True
        assert client.set_parameters(CONTROLLER, **own).successful
    client.wait(lambda: arm.away({J1: 0.1}) < 5e-3, "the joint at its goal")


def test_reset_of_the_simulation(arm):
    call = arm.follow(smooth({J1: 0.6}, 2.0))
    assert call.accepted()
    arm.moving(0.2)
    assert arm.client.call(Trigger, "/mujoco_sim/reset").success
    status, result = call.result()
    assert (status, "time jumped" in result.error_string) == (ABORTED, True)
    arm.wait_for()
    settled(arm)
    assert arm.away(HOME) < 5e-3


def test_paused_simulation(arm):
    call = arm.follow(smooth({J1: 0.4}, 1.0))
    assert call.accepted()
    arm.moving(0.1)
    arm.pause("/mujoco_sim", True)
    try:
        arm.client.wait_for_diagnosis(CONTROLLER, "/clock does not advance")
        arm.commands.clear()
        arm.client.wait(lambda: len(arm.commands) > 10, "commands")
        assert np.isfinite(arm.commands.newest.effort).all()
        arm.states.clear()
        arm.client.wait(lambda: arm.states, "states")
        before = arm.speed()
    finally:
        arm.pause("/mujoco_sim", False)
    moved, stands = Time.from_msg(arm.states.newest.header.stamp), arm.now
    arm.states.clear()

    def later() -> list[JointState]:
        return [m for m in arm.states.messages if Time.from_msg(m.header.stamp) > moved]

    arm.client.wait(lambda: later() and arm.now > stands, "time to go on")
    # The first states may be lost; max acceleration is 6 d / T^2 = 2.4 rad/s^2.
    first = later()[0]
    gap = (Time.from_msg(first.header.stamp) - moved).nanoseconds * 1e-9
    change = abs(max(map(abs, first.velocity)) - before)
    assert change < 0.1 + 2.5 * gap, "it continues without a shock"
    assert call.result()[0] == SUCCEEDED
    settled(arm)
    assert arm.away({J1: 0.4}) < 5e-3


def test_stopped_by_a_signal_the_drives_hold(cell, arm):
    before = settled(arm)
    assert cell.process.stop(2) == 0
    arm.states.clear()
    arm.client.wait(lambda: len(arm.states) > 250, "what follows")
    rows = np.array([m.position for m in arm.states.messages])
    assert np.abs(rows - [before[n] for n in JOINTS]).max() < 0.005
