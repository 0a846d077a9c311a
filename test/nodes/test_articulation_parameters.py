# SPDX-License-Identifier: Apache-2.0
"""Limits, modes and tolerances of a running joint trajectory controller, on the mock robot."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
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
    trajectory,
)
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from motion_nodes.nodes.articulation.articulation_config import tolerances_of
from motion_nodes.nodes.articulation.articulation_params import ArticulationParams, robot_defaults

pytestmark = pytest.mark.timeout(900)
J1 = ARM[0]
JOINTS = list(FRANKA.joint_names)
OWN = {
    field: getattr(FRANKA.limits, field).tolist()
    for field in ("velocity", "acceleration", "jerk", "effort")
}


@pytest.fixture
def arm(controlled_arm: JointClient) -> Iterator[JointClient]:
    """The arm at home with its own limits."""
    controlled_arm.rest_at_home()
    yield controlled_arm
    back = {f"max_{field}": values for field, values in OWN.items()}
    assert controlled_arm.client.set_parameters(
        CONTROLLER, **back, control_modes=["position"]
    ).successful


def capped(velocity: float) -> list[float]:
    """The robot's own velocity limits, at most this."""
    return [min(own, velocity) for own in OWN["velocity"]]


def reference_speeds(arm: JointClient) -> np.ndarray:
    return np.array([m.reference.velocities[0] for m in arm.reports.messages])


def test_a_tighter_velocity_limit_acts_on_what_moves(arm):
    # Long at its speed, so that it lasts longer than a pause of this process.
    assert arm.client.set_parameters(CONTROLLER, max_velocity=capped(1.2)).successful
    publisher = arm.publisher(JointState, "reference")
    message = JointState(name=[J1], position=[2.4])
    arm.reports.clear()
    arm.client.repeat(
        lambda: publisher.publish(message),
        lambda: arm.reports and reference_speeds(arm)[-1] > 1.0, "speed", rate=5.0,
    )  # fmt: skip
    assert arm.client.set_parameters(CONTROLLER, max_velocity=[0.05]).successful
    arm.client.wait(lambda: abs(reference_speeds(arm)[-1] - 0.05) < 1e-6, "the new speed")
    speeds = reference_speeds(arm)
    slowing = speeds[int(np.argmax(speeds)) :]
    assert slowing.min() > 0.0, "it slows down to the new limit, not to rest"
    wide = {"max_velocity": OWN["velocity"]}
    assert arm.client.set_parameters(CONTROLLER, **wide).successful
    arm.client.wait(lambda: reference_speeds(arm)[-1] > 0.5, "speed again")
    # The way home is planned from a joint at rest.
    assert arm.client.call(Trigger, f"{CONTROLLER}/reset").success


@pytest.mark.long
def test_a_trajectory_goes_on_under_tighter_limits_and_arrives_late(arm):
    call = arm.follow(smooth({J1: 0.6}, 2.0))  # above 0.3 rad/s for 1.1 s
    assert call.accepted()
    arm.moving(0.3)
    assert arm.client.set_parameters(CONTROLLER, max_velocity=capped(0.25)).successful
    arm.client.wait(lambda: reference_speeds(arm)[-1] < 0.26, "the new speed")
    arm.reports.clear()
    assert call.result()[0] == SUCCEEDED
    assert np.abs(reference_speeds(arm)).max() <= 0.25 + 1e-6
    arm.client.wait(lambda: arm.away({J1: 0.6}) < 1e-3, "the goal")
    status, result = arm.follow(trajectory([J1], [[0.0]], [1.0])).result()
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_GOAL)
    assert "its velocity limit is 0.25" in result.error_string


REFUSED = {
    "beyond the robot's velocity": (
        {"max_velocity": [9.0]},
        "max_velocity of joint panda_joint1 is 9; the robot's own limit is 2.175",
    ),
    "beyond the robot's jerk": (
        {"max_jerk": [math.inf]}, "max_jerk of joint panda_joint1 is inf; the robot's own"
    ),
    "wrong length": (
        {"max_velocity": [1.0, 1.0]},
        "max_velocity has 2 values for 9 joints",
    ),
    "wrong number of margins": (
        {"contact_effort_margin": [1.0, 1.0]}, "contact_effort_margin has 2 values for 9 joints",
    ),
    "zero": ({"max_acceleration": [0.0]}, "max_acceleration"),
    "negative": ({"kp": [-1.0]}, "kp"),
    "NaN": ({"max_velocity": [math.nan]}, "max_velocity"),
    "unknown mode": (
        {"control_modes": ["torque"]},
        "control mode 'torque' is not known. Available: position, velocity, effort.",
    ),
    "wrong number of modes": ({"control_modes": ["position"] * 3}, "control_modes has 3 values"),
    "tolerance below zero": ({"constraints__goal": -0.1}, "constraints.goal"),
    "read-only": ({"joints": ["panda_joint1"]}, "joints"),
    "wrong type": ({"max_velocity": "fast"}, "expected 'Type.DOUBLE_ARRAY' got 'Type.STRING'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_batch_changes_nothing(arm, case):
    values, text = REFUSED[case]
    client = arm.client
    before = client.get_parameter(CONTROLLER, "state_timeout")
    answer = client.set_parameters(CONTROLLER, state_timeout=0.7, **values)
    assert not answer.successful
    assert text in answer.reason
    assert client.get_parameter(CONTROLLER, "state_timeout") == before != 0.7
    assert client.get_parameter(CONTROLLER, "max_velocity") == pytest.approx(OWN["velocity"])


def test_one_at_a_time_as_ros2_param_set_does_it(arm):
    def set_one(name: str, value: Any) -> Any:
        parameter = Parameter(name, value=value).to_parameter_msg()
        request = SetParameters.Request(parameters=[parameter])
        return arm.client.call(SetParameters, f"{CONTROLLER}/set_parameters", request).results[0]

    assert set_one("max_velocity", capped(0.1)).successful
    assert set_one("kp", [500.0]).successful
    answer = set_one("max_velocity", [5.0])
    assert not answer.successful
    assert "the robot's own limit is" in answer.reason
    call = arm.follow(trajectory([J1], [[0.3]], [1.0]))
    assert "its velocity limit is 0.1" in call.result()[1].error_string
    assert set_one("kp", list(arm.client.get_parameter(CONTROLLER, "kd"))).successful


@pytest.mark.long
def test_a_change_of_mode_ends_the_trajectory_of_that_joint(arm):
    first = arm.follow(smooth({J1: 0.8}, 3.0))
    other = arm.follow(smooth({ARM[6]: HOME[ARM[6]] + 0.2}, 1.0))
    assert first.accepted()
    assert other.accepted()
    arm.moving(0.1, [J1])
    modes = ["velocity" if name == J1 else "position" for name in JOINTS]
    assert arm.client.set_parameters(CONTROLLER, control_modes=modes).successful
    status, result = first.result()
    assert (status, result.error_string) == (ABORTED, "preempted by a change of its control mode")
    assert other.result()[0] == SUCCEEDED
    rested = arm.joints
    arm.client.wait(lambda: arm.speed() < 1e-6, "rest")
    assert arm.joints[J1] < 0.7
    assert arm.joints[J1] >= rested[J1] - 1e-6


def test_a_position_is_refused_under_velocity_control(arm):
    modes = ["velocity" if name == J1 else "position" for name in JOINTS]
    assert arm.client.set_parameters(CONTROLLER, control_modes=modes).successful
    publisher = arm.publisher(JointState, "reference")
    message = JointState(name=[J1], position=[0.3])
    text = "joint panda_joint1 is given a position, but is under velocity control"
    arm.client.repeat(
        lambda: publisher.publish(message), lambda: text in arm.last_warning(), text, rate=5.0
    )
    assert arm.away(HOME) < 1e-6


def test_start_tolerance_can_be_changed(arm):
    client = arm.client
    message = trajectory([J1], [[0.2], [0.4]], [0.0, 1.0], [[0.0], [0.0]])
    assert "they may differ by 0.1" in arm.follow(message).result()[1].error_string
    assert client.set_parameters(CONTROLLER, start_tolerance=0.0).successful
    try:
        arm.reports.clear()
        assert arm.follow(message).result()[0] == SUCCEEDED
        limit = OWN["velocity"][0]
        assert np.abs(reference_speeds(arm)).max() <= limit * (1 + 1e-6), "approached within limits"
    finally:
        assert client.set_parameters(CONTROLLER, start_tolerance=0.1).successful


def test_default_tolerances_of_a_goal():
    """Per joint where set, else of all joints; 0 disables, as in ros2_controllers."""
    blank = dict.fromkeys(JOINTS, math.nan)
    params = ArticulationParams(
        robot="franka",
        **robot_defaults(FRANKA),
        constraints_trajectory=0.3,
        constraints_joint_trajectory={**blank, J1: 0.1, ARM[1]: 0.0},
        constraints_joint_goal={**blank, ARM[2]: 0.05},
        constraints_stopped_velocity_tolerance=0.02,
        constraints_goal_time=1.5,
    )
    path, goal, goal_time = tolerances_of(params, [ARM[2], J1, ARM[1]])
    np.testing.assert_array_equal(path.position, [0.3, 0.1, math.inf])
    np.testing.assert_array_equal(goal.position, [0.05, 0.01, 0.01])
    assert np.isinf(path.velocity).all()
    np.testing.assert_array_equal(goal.velocity, [0.02] * 3)
    assert goal_time == 1.5
    anything = dataclasses.replace(params, constraints_stopped_velocity_tolerance=0.0)
    assert np.isinf(tolerances_of(anything, [J1])[1].velocity).all()
