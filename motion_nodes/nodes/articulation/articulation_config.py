# SPDX-License-Identifier: Apache-2.0
"""Configuration of the controller's core objects, from the parameters."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.control.gripper import GripperConfig
from motion_nodes.core.control.joint_command import ControlMode
from motion_nodes.core.control.joint_drive import DriveGains
from motion_nodes.core.control.joint_guard import position_tolerances
from motion_nodes.core.control.trajectory_follower import NO_TOLERANCE, ToleranceRequest, Tolerances
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidConfig
from motion_nodes.nodes.articulation.articulation_params import ArticulationParams
from motion_nodes.ros.parameters import settings_from

COMBINATIONS = tuple(
    frozenset(each.split())
    for each in (
        "position", "position velocity", "position velocity acceleration", "velocity", "effort",
        "position effort",
    )
)  # fmt: skip
"""Command interfaces of one controller, as in ros2_controllers."""

VELOCITY_GAIN = 10.0
"""Proportional gain of the command interface velocity, if none is given [1/s]."""


def modes_of(params: ArticulationParams) -> dict[str, ControlMode]:
    """Return the control mode of each joint.

    Raises:
        InvalidConfig: a wrong number of modes.
        InvalidCommand: an unknown mode.
    """
    names = per_joint(params, "control_modes", params.control_modes)
    return {j: ControlMode.named(m) for j, m in zip(params.joints, names, strict=True)}


def command_interfaces_of(params: ArticulationParams) -> tuple[str, ...]:
    """Return the command interfaces: position, velocity or effort, or position and effort.

    Raises:
        InvalidConfig: a combination that ros2_controllers does not know, or acceleration alone.
    """
    given = params.command_interfaces
    if not given:
        return (params.command_interface,)
    if frozenset(given) not in COMBINATIONS or len(set(given)) != len(given):
        allowed = "; ".join(", ".join(sorted(each)) for each in COMBINATIONS)
        raise InvalidConfig(
            f"command_interfaces are {', '.join(given)}; allowed: {allowed}",
            field="command_interfaces",
        )
    if "position" in given:
        return ("position", "effort") if "effort" in given else ("position",)
    return tuple(given)


def gains_of(params: ArticulationParams) -> DriveGains:
    """Return the gains of the PID controller of the command interfaces effort and velocity.

    Raises:
        InvalidConfig: a wrong number of gains, or only zeros with the command interface effort.
    """
    drives = {"kp": params.kp, "ki": params.ki, "kd": params.kd}
    interface = command_interfaces_of(params)[0]
    if interface == "velocity":
        drives = {"kp": (VELOCITY_GAIN,), "ki": (0.0,), "kd": (0.0,)}
    own = (params.gains_p, params.gains_i, params.gains_d)
    kp, ki, kd = (
        np.array(_bounds(params.joints, mine, per_joint(params, *item)))
        for mine, item in zip(own, drives.items(), strict=True)
    )
    if interface == "effort" and not (kp.any() or kd.any()):
        raise InvalidConfig(
            "command_interface effort needs gains: set kp and kd, or the drives' gains in "
            "robot.yaml"
        )
    return DriveGains(kp, kd, ki)


def output_of(params: ArticulationParams) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the factor of reference velocities in the output of the PID controller, and its limit.

    Returns:
        Factors, and limits of the magnitude [rad/s, m/s, N m or N] (infinite for none), shape (n,).
    """
    usual = float(command_interfaces_of(params)[0] == "velocity")
    factor = _bounds(params.joints, params.gains_ff_velocity_scale, usual)
    upper, lower = (
        np.array([of[joint] for joint in params.joints])
        for of in (params.gains_u_clamp_max, params.gains_u_clamp_min)
    )
    return np.array(factor), np.minimum(upper, -lower)


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


def decelerations_of(params: ArticulationParams) -> NDArray[np.float64]:
    """Return the max decelerations of trajectories that end early, shape (n,); infinite: none."""
    given = [params.constraints_joint_max_deceleration_on_cancel[j] for j in params.joints]
    used = np.array(given) > 0.0 if params.constraints_decelerate_on_cancel else False
    return np.where(used, given, np.inf)


def cmd_timeout_of(params: ArticulationParams) -> float:
    """Return the time after a trajectory's end at which it fails [s]; 0: none."""
    return params.cmd_timeout if params.cmd_timeout > params.constraints_goal_time else 0.0


def _bounds(
    joints: Sequence[str], own: Mapping[str, float], of_all: float | Sequence[float]
) -> list[float]:
    usual = [of_all] * len(joints) if isinstance(of_all, float) else of_all
    return [u if math.isnan(own[j]) else own[j] for j, u in zip(joints, usual, strict=True)]


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
        if request.position > 0.0 or request.position == NO_TOLERANCE:
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
