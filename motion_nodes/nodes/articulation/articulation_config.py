# SPDX-License-Identifier: Apache-2.0
"""Configuration of the controller's core objects, from the parameters."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.control.gripper import GripperConfig
from motion_nodes.control.guard_defaults import position_tolerances
from motion_nodes.control.joint_drive import DriveGains
from motion_nodes.control.joint_reference import ControlMode
from motion_nodes.control.tolerances import ToleranceRequest, Tolerances
from motion_nodes.errors import InvalidConfig
from motion_nodes.model.limits import JointLimits
from motion_nodes.model.robot import Robot
from motion_nodes.nodes.articulation.articulation_params import ArticulationParams
from motion_nodes.ros.core_settings import settings_from


def modes_of(params: ArticulationParams) -> dict[str, ControlMode]:
    """Return the control mode of each joint.

    Raises:
        InvalidConfig: a wrong number of modes.
        InvalidCommand: an unknown mode.
    """
    names = per_joint(params, "control_modes", params.control_modes)
    return {j: ControlMode.named(m) for j, m in zip(params.joints, names, strict=True)}


def gains_of(params: ArticulationParams) -> DriveGains:
    """Return the gains of the PID controller of command_interface effort.

    Raises:
        InvalidConfig: a wrong number of gains, or only zeros with command_interface effort.
    """
    given = {"kp": params.kp, "ki": params.ki, "kd": params.kd}
    kp, ki, kd = (np.array(per_joint(params, *item)) for item in given.items())
    if params.command_interface == "effort" and not (kp.any() or kd.any()):
        raise InvalidConfig(
            "command_interface effort needs gains: set kp and kd, or the drives' gains in "
            "robot.yaml"
        )
    return DriveGains(kp, kd, ki)


def limits_of(params: ArticulationParams, robot: Robot) -> JointLimits:
    """Return the joint limits, at most those of the robot.

    Raises:
        InvalidConfig: a wrong number of limits, or one beyond the robot's.
    """
    own = robot.limits.select(params.joints)
    tighter: dict[str, Any] = {}
    given = {
        "velocity": params.max_velocity,
        "acceleration": params.max_acceleration,
        "jerk": params.max_jerk,
        "effort": params.max_effort,
    }
    for field, requested in given.items():
        values = np.array(per_joint(params, f"max_{field}", requested))
        beyond = values > getattr(own, field) * (1.0 + 1e-9)
        if beyond.any():
            i = int(np.argmax(beyond))
            raise InvalidConfig(
                f"max_{field} of joint {params.joints[i]} is {values[i]:g}; the robot's own limit "
                f"is {getattr(own, field)[i]:g}"
            )
        tighter[field] = values
    return dataclasses.replace(own, **tighter)


def tolerances_of(
    params: ArticulationParams, joints: Sequence[str]
) -> tuple[Tolerances, Tolerances, float]:
    """Return the default tolerances of action goals.

    Args:
        params: of the controller.
        joints: of the trajectory.

    Returns:
        Path and goal tolerances of the joints, and the goal time tolerance [s].
    """
    path = _bounds(joints, params.constraints_joint_trajectory, params.constraints_trajectory)
    goal = _bounds(joints, params.constraints_joint_goal, params.constraints_goal)
    return (
        Tolerances.of(np.nan_to_num(path)),
        Tolerances.of(goal, params.constraints_stopped_velocity_tolerance),
        params.constraints_goal_time,
    )


def _bounds(joints: Sequence[str], own: Mapping[str, float], of_all: float) -> list[float]:
    return [of_all if math.isnan(own[joint]) else own[joint] for joint in joints]


def guard_tolerances(
    params: ArticulationParams, robot: Robot, stiffness: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the max position errors of the joints.

    Args:
        params: of the controller; tolerances that are not set are derived from the drives.
        robot: with the joints.
        stiffness: of their drives [N m/rad or N/m], shape (n,); 0 if unknown.

    Returns:
        Tolerances [rad or m], shape (n,); infinite for none.
    """
    joints = params.joints
    given = np.array(
        _bounds(joints, params.constraints_joint_trajectory, params.constraints_trajectory)
    )
    derived = position_tolerances(robot, joints, stiffness)
    return np.where(np.isnan(given), derived, np.where(given > 0.0, given, np.inf))


def effort_margins_of(params: ArticulationParams) -> NDArray[np.float64]:
    """Return the margins of the contact detection [N m or N], shape (n,); infinite for none.

    Raises:
        InvalidConfig: neither one value nor one per joint.
    """
    margins = np.array(per_joint(params, "contact_effort_margin", params.contact_effort_margin))
    return np.where(margins > 0.0, margins, np.inf)


def guard_of(requests: Sequence[ToleranceRequest], joints: Sequence[str]) -> NDArray[np.float64]:
    """Return the path tolerances of a goal for the guard [rad or m], shape (n,); NaN if not set."""
    bounds = np.full(len(joints), np.nan)
    for request in requests:
        if request.position != 0.0:
            bounds[joints.index(request.joint)] = max(request.position, 0.0) or math.inf
    return bounds


def gripper_config(params: ArticulationParams, limits: JointLimits) -> GripperConfig:
    """Return the criteria of gripper goals, for finger joints with these limits."""
    lower, upper = float(limits.lower.max()), float(limits.upper.min())
    return settings_from(params, GripperConfig, "gripper_", lower=lower, upper=upper)


def per_joint(params: ArticulationParams, name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return one value per joint, given one per joint or one for all.

    Raises:
        InvalidConfig: another number of values.
    """
    count = len(params.joints)
    if len(values) == 1:
        return tuple(values) * count
    if len(values) != count:
        raise InvalidConfig(
            f"{name} has {len(values)} values for {count} joints; give one each, or one for all",
            field=name,
        )
    return tuple(values)
