# SPDX-License-Identifier: Apache-2.0
"""Parameters of wheeled bases, and configurations of the core from them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

from rclpy.parameter import Parameter

from motion_nodes.core.bases.base import BaseLimits, BodyAxisLimits
from motion_nodes.core.bases.controller import BaseControllerConfig
from motion_nodes.core.bases.odometry import OdometryConfig
from motion_nodes.core.bases.twist_limiter import CommandShape
from motion_nodes.core.robot.robot import Robot
from motion_nodes.ros.node import RobotParams
from motion_nodes.ros.parameters import core_params, param, settings_from

TRICYCLE = "tricycle_controller"
"""Name of a node with additional endpoints of ros2_controllers' tricycle_controller."""

LIMITS_OF = {
    "velocity": ("velocity",),
    "acceleration": ("acceleration", "deceleration"),
    "jerk": ("jerk",),
}
"""Quantities of axis limits by the switch of their use."""

COVARIANCE = (0.001, 0.001, 1e6, 1e6, 1e6, 0.01)
"""Default covariance diagonal: small in the plane, large out of it."""


def has_limits(axis: str, quantity: str) -> Any:
    """Return the switch of some limits of an axis, which older parameter files have."""
    return param(
        True, name=f"{axis}.has_{quantity}_limits",
        doc=f"Whether the limits of {axis} named {quantity}"
        + (" and deceleration are used." if quantity == "acceleration" else " are used."),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(BaseLimits)
@core_params(BodyAxisLimits, "angular.z", unit=1)
@core_params(BodyAxisLimits, "linear.x", unit=0)
@core_params(OdometryConfig)
@core_params(BaseControllerConfig, read_only=("open_loop", "position_feedback"))
class WheeledBaseParams(RobotParams):
    """Parameters of every wheeled base; names as in ros2_controllers."""

    WITHOUT_EFFECT: ClassVar[Mapping[str, str]] = {
        "type": "the bring-up starts the controller",
        "use_stamped_vel": "TwistStamped is received on ~/cmd_vel, Twist on ~/cmd_vel_unstamped",
        "wheels_per_side": "it is the number of names of wheels",
        "reference_names": "controllers are not chained",
    }
    """Names of ros2_controllers, and why they are not used."""

    state_timeout: float = param(
        0.5,
        doc="Timeout of joint_states; when it expires the wheels are stopped and an error is "
        "reported.",
        unit="s",
        gt=0.0,
        le=60.0,
    )
    stamped_cmd_vel: bool = param(
        True,
        doc="Message type of the topic cmd_vel: true for TwistStamped, false for Twist.",
        read_only=True,
    )
    aliases: tuple[str, ...] = param(
        (),
        doc="Names of other controllers, such as platform_velocity_controller, under which twists "
        "are received and odometry is published, too. The bring-up sets it from the user's "
        "parameter files.",
        read_only=True,
    )
    publish_limited_velocity: bool = param(
        True, doc="Publish the limited twist command on ~/cmd_vel_out."
    )
    publish_rate: float = param(
        0.0,
        doc="Publish rate of odometry and /tf; 0 publishes with every state measurement.",
        unit="Hz",
        ge=0.0,
        le=2000.0,
    )
    odom_frame_id: str = param("odom", doc="Name of the odometry frame.")
    base_frame_id: str = param("base_link", doc="Name of the robot's base frame.")
    tf_frame_prefix: str = param(
        "", doc="Prefix of all frame names; '~' is replaced by the node's namespace."
    )
    tf_frame_prefix_enable: bool = param(True, doc="Whether tf_frame_prefix is used.")
    enable_odom_tf: bool = param(
        True, doc="Publish the transform from the odometry frame to the base frame on /tf."
    )
    pose_covariance_diagonal: tuple[float, ...] = param(
        COVARIANCE,
        doc="Diagonal of the odometry pose covariance [m^2, rad^2]; the accumulated errors, see "
        "position_error_per_metre, are added to it.",
        ge=0.0,
    )
    twist_covariance_diagonal: tuple[float, ...] = param(
        COVARIANCE, doc="Diagonal of the odometry twist covariance [(m/s)^2, (rad/s)^2].", ge=0.0
    )
    slip_threshold: float = param(
        0.1,
        doc="Threshold of the wheel slip estimate (residual rim speed) above which slip is "
        "reported; 0 disables the report.",
        unit="m/s",
        ge=0.0,
        le=100.0,
    )
    linear_x_has_velocity_limits: bool = has_limits("linear.x", "velocity")
    linear_x_has_acceleration_limits: bool = has_limits("linear.x", "acceleration")
    linear_x_has_jerk_limits: bool = has_limits("linear.x", "jerk")
    angular_z_has_velocity_limits: bool = has_limits("angular.z", "velocity")
    angular_z_has_acceleration_limits: bool = has_limits("angular.z", "acceleration")
    angular_z_has_jerk_limits: bool = has_limits("angular.z", "jerk")
    cmd_vel_timeout: float
    open_loop: bool
    position_feedback: bool
    clip_wheels: bool


def base_defaults(robot: Robot) -> dict[str, Any]:
    """Return defaults by field name from a wheeled robot's description."""
    frames, spec = robot.description.frames, robot.base
    assert spec is not None
    linear, angular = spec.linear, spec.angular
    defaults: dict[str, Any] = {
        "base_frame_id": frames.base,
        "odom_frame_id": frames.odom,
        "max_wheel_velocity": _or_nan(spec.max_wheel_velocity),
        "max_wheel_acceleration": _or_nan(spec.max_wheel_acceleration),
    }
    axes = {"linear_x": linear.x, "linear_y": linear.y or linear.x, "angular_z": angular.z}
    for prefix, axis in axes.items():
        for name in ("max_velocity", "max_acceleration", "max_deceleration", "max_jerk"):
            defaults[f"{prefix}_{name}"] = _or_nan(getattr(axis, name))
    return defaults


def limit_overrides(overrides: dict[str, Parameter]) -> dict[str, Parameter]:
    """Return parameter overrides with ``min_acceleration`` of earlier ros2_controllers as ours.

    It bounds a negative acceleration, and ``max_acceleration`` a positive one: deceleration forward
    and acceleration in reverse, and the other way round.

    Args:
        overrides: parameters given to the node.
    """
    given = dict(overrides)
    for axis in ("linear.x", "linear.y", "angular.z"):
        least = given.pop(f"{axis}.min_acceleration", None)
        if least is None or not isinstance(least.value, float | int):
            continue
        most = given.get(f"{axis}.max_acceleration")
        values = {
            "max_deceleration": least.value,
            "max_acceleration_reverse": least.value,
            "max_deceleration_reverse": None if most is None else most.value,
        }
        for name, value in values.items():
            if value is not None:
                ours = f"{axis}.{name}"
                given.setdefault(ours, Parameter(ours, value=abs(float(value))))
    return given


def steering_overrides(overrides: dict[str, Parameter], name: str) -> dict[str, Parameter]:
    """Return parameter overrides with deprecated names, and those of a peer, as ours.

    Args:
        overrides: parameters given to the node.
        name: of the node; tricycle_controller has its own names, and a timeout in milliseconds.
    """
    front = overrides.get("front_steering")
    steers_front = front is None or bool(front.value)
    steered, fixed = ("front", "rear") if steers_front else ("rear", "front")
    names = {
        f"{steered}_wheels_names": "steering_joints_names",
        f"{fixed}_wheels_names": "traction_joints_names",
        f"{steered}_wheels_state_names": "steering_joints_state_names",
        f"{fixed}_wheels_state_names": "traction_joints_state_names",
        f"{steered}_wheel_track": "steering_track_width",
        f"{fixed}_wheel_track": "traction_track_width",
        "wheel_track": "traction_track_width",
        f"{fixed}_wheels_radius": "traction_wheels_radius",
        f"{fixed}_wheel_radius": "traction_wheels_radius",
        f"{steered}_wheels_radius": "steering_wheels_radius",
        f"{steered}_wheel_radius": "steering_wheels_radius",
    }
    if name == TRICYCLE:
        names |= {
            "traction_joint_name": "steered_traction_joints_names",
            "steering_joint_name": "steering_joints_names",
            "wheel_radius": "steering_wheels_radius",
            "traction.max_velocity": "max_wheel_velocity",
            "traction.max_acceleration": "max_wheel_acceleration",
            "steering.max_position": "max_steering_angle",
            "steering.max_velocity": "max_steering_velocity",
        }
    given = {}
    for key, parameter in overrides.items():
        ours, value = names.get(key, key), parameter.value
        if ours in overrides and ours != key:
            continue
        if ours.endswith("_names") and isinstance(value, str):
            value = [value]
        if key == "cmd_vel_timeout" and isinstance(value, int) and name == TRICYCLE:
            value = 1e-3 * value
        given[ours] = Parameter(ours, value=value)
    return given


def core_config(params: WheeledBaseParams) -> BaseControllerConfig:
    """Return the configuration of the base controller.

    Raises:
        InvalidConfig: the configuration rejects the parameters.
    """
    limits = settings_from(
        params,
        BaseLimits,
        x=_axis_limits(params, "linear_x_"),
        y=_axis_limits(params, "linear_y_"),
        yaw=_axis_limits(params, "angular_z_"),
    )
    return settings_from(
        params,
        BaseControllerConfig,
        limits=limits,
        shape=settings_from(params, CommandShape),
        odometry=settings_from(params, OdometryConfig),
    )


def _axis_limits(params: WheeledBaseParams, prefix: str) -> BodyAxisLimits:
    """Return the limits of an axis, without those that are switched off."""
    unused = {
        name: math.nan
        for kind, quantities in LIMITS_OF.items()
        if not getattr(params, f"{prefix}has_{kind}_limits", True)
        for name in (entry.name for entry in dataclasses.fields(BodyAxisLimits))
        if any(quantity in name for quantity in quantities)
    }
    return settings_from(params, BodyAxisLimits, prefix, **unused)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
