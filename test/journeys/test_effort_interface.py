# SPDX-License-Identifier: Apache-2.0
"""A Franka in MuJoCo under effort control by the controller, over DDS between processes."""

from typing import Any

import numpy as np
import pytest
from joint_client import ARM, CONTROLLER, FRANKA, HOME, JointClient
from ros_client import RosClient
from sensor_msgs.msg import JointState

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
def cell(module_suite, module_client):
    """One for all tests."""
    cell = Cell(module_suite, module_client)
    yield cell
    cell.arm.close()


def settled(arm: JointClient, below: float = 3e-3) -> dict[str, float]:
    return arm.rest(below)


@pytest.fixture
def arm(cell):
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


def test_stopped_by_a_signal_the_drives_hold(cell, arm):
    before = settled(arm)
    assert cell.process.stop(2) == 0
    arm.states.clear()
    arm.client.wait(lambda: len(arm.states) > 250, "what follows")
    rows = np.array([m.position for m in arm.states.messages])
    assert np.abs(rows - [before[n] for n in JOINTS]).max() < 0.005
