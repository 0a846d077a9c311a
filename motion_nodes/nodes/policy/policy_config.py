# SPDX-License-Identifier: Apache-2.0
"""Configuration of the policy's core objects, from the parameters."""

from __future__ import annotations

import dataclasses
from typing import Any

from motion_nodes.model.rmpflow_settings import RmpflowSettings
from motion_nodes.model.robot import Robot
from motion_nodes.mpc.mpc_settings import MpcSettings
from motion_nodes.mpc.policy import MpcPolicy
from motion_nodes.nodes.policy.policy_params import RMP_PARAMETERS, rmp_field
from motion_nodes.rmpflow.follower_settings import FollowerSettings
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.rmpflow.progress import StuckSettings
from motion_nodes.rmpflow.time_scaling import SmoothingSettings
from motion_nodes.ros.core_settings import settings_from


def robot_defaults(settings: RmpflowSettings) -> dict[str, Any]:
    """Return the defaults given by an RMPflow configuration file."""
    values: dict[str, Any] = {rmp_field(k): float(v) for k, v in settings.parameters().items()}
    return values | {"joint_limit_buffers": settings.joint_limit_buffers}


def settings_of(params: Any, base: RmpflowSettings) -> RmpflowSettings:
    """Return the settings of the RMPs.

    Args:
        params: of the node.
        base: settings that are not parameters.

    Raises:
        InvalidConfig: inconsistent values.
    """
    values = {name: getattr(params, rmp_field(name)) for name in RMP_PARAMETERS}
    changed = base.with_parameters(values)
    return dataclasses.replace(changed, joint_limit_buffers=params.joint_limit_buffers)


def follower_settings(params: Any) -> FollowerSettings:
    """Return the settings of target tracking."""
    return settings_from(
        params,
        FollowerSettings,
        command_timeout=params.servo_timeout,
        retreat=params.escape != "none",
        escape=params.escape == "plan",
    )


def stuck_settings(params: Any) -> StuckSettings:
    """Return the settings of stuck detection."""
    return settings_from(params, StuckSettings, "stuck_")


def smoothing_settings(params: Any) -> SmoothingSettings | None:
    """Return the settings of smoothing; None if it is disabled.

    Raises:
        InvalidConfig: inconsistent values.
    """
    made = settings_from(params, SmoothingSettings, "smoothing_")
    return made if params.smoothing else None


def mpc_settings(params: Any) -> MpcSettings:
    """Return the settings of the reactive MPC."""
    return settings_from(params, MpcSettings, "mpc_")


def make_policy(params: Any, robot: Robot, settings: RmpflowSettings, tool: str) -> RmpflowPolicy:
    """Return the policy that the parameters select.

    Args:
        params: of the node.
        robot: the robot.
        settings: of the RMPs.
        tool: frame of the targets.

    Raises:
        MotionError: they do not fit the robot.
    """
    options: dict[str, Any] = {
        "joints": params.group,
        "tool": tool,
        "maximum_substep_size": params.maximum_substep_size,
        "ignore_robot_state_updates": params.ignore_robot_state_updates,
        "smoothing": smoothing_settings(params),
        "stuck": stuck_settings(params),
    }
    if params.policy == "mpc":
        return MpcPolicy(robot, settings, mpc=mpc_settings(params), **options)
    return RmpflowPolicy(robot, settings, **options)
