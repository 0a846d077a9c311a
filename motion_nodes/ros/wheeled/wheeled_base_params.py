# SPDX-License-Identifier: Apache-2.0
"""Parameters of wheeled bases, and configurations of the core from them."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from motion_nodes.bases.base_limits import BaseLimits, BodyAxisLimits
from motion_nodes.bases.command_scaling import CommandShape
from motion_nodes.bases.controller import BaseControllerConfig
from motion_nodes.bases.odometry import OdometryConfig
from motion_nodes.model.robot import Robot
from motion_nodes.model.setting import setting_of
from motion_nodes.ros.core_settings import settings_from
from motion_nodes.ros.parameters import core_param, param
from motion_nodes.ros.robot_node import RobotParams

COVARIANCE = (0.001, 0.001, 1e6, 1e6, 1e6, 0.01)
"""Default covariance diagonal: small in the plane, large out of it."""


def _limit(name: str) -> Any:
    """Return the field of one limit, such as ``linear.x.max_velocity``."""
    field = name.rpartition(".")[2]
    linear, angular = setting_of(BodyAxisLimits, field)[0].unit.split(" or ")
    unit = linear if name.startswith("linear") else angular
    return core_param(BodyAxisLimits, field, name=name, unit=unit)


@dataclasses.dataclass(frozen=True, kw_only=True)
class WheeledBaseParams(RobotParams):
    """Parameters of every wheeled base; names as in ros2_controllers."""

    cmd_vel_timeout: float = core_param(BaseControllerConfig, "cmd_vel_timeout")
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
    enable_odom_tf: bool = param(
        True, doc="Publish the transform from the odometry frame to the base frame on /tf."
    )
    open_loop: bool = core_param(BaseControllerConfig, "open_loop", read_only=True)
    position_feedback: bool = core_param(BaseControllerConfig, "position_feedback", read_only=True)
    velocity_rolling_window_size: int = core_param(OdometryConfig, "velocity_rolling_window_size")
    pose_covariance_diagonal: tuple[float, ...] = param(
        COVARIANCE,
        doc="Diagonal of the odometry pose covariance [m^2, rad^2]; the accumulated errors "
        "below are added to it.",
        ge=0.0,
    )
    twist_covariance_diagonal: tuple[float, ...] = param(
        COVARIANCE, doc="Diagonal of the odometry twist covariance [(m/s)^2, (rad/s)^2].", ge=0.0
    )
    position_error_per_metre: float = core_param(OdometryConfig, "position_error_per_metre")
    position_error_per_radian: float = core_param(OdometryConfig, "position_error_per_radian")
    yaw_error_per_metre: float = core_param(OdometryConfig, "yaw_error_per_metre")
    yaw_error_per_radian: float = core_param(OdometryConfig, "yaw_error_per_radian")
    slip_threshold: float = param(
        0.1,
        doc="Threshold of the wheel slip estimate (residual rim speed) above which slip is "
        "reported; 0 disables the report.",
        unit="m/s",
        ge=0.0,
        le=100.0,
    )
    linear_x_max_velocity: float = _limit("linear.x.max_velocity")
    linear_x_min_velocity: float = _limit("linear.x.min_velocity")
    linear_x_max_acceleration: float = _limit("linear.x.max_acceleration")
    linear_x_max_deceleration: float = _limit("linear.x.max_deceleration")
    linear_x_max_acceleration_reverse: float = _limit("linear.x.max_acceleration_reverse")
    linear_x_max_deceleration_reverse: float = _limit("linear.x.max_deceleration_reverse")
    linear_x_max_jerk: float = _limit("linear.x.max_jerk")
    linear_x_min_jerk: float = _limit("linear.x.min_jerk")
    angular_z_max_velocity: float = _limit("angular.z.max_velocity")
    angular_z_min_velocity: float = _limit("angular.z.min_velocity")
    angular_z_max_acceleration: float = _limit("angular.z.max_acceleration")
    angular_z_max_deceleration: float = _limit("angular.z.max_deceleration")
    angular_z_max_acceleration_reverse: float = _limit("angular.z.max_acceleration_reverse")
    angular_z_max_deceleration_reverse: float = _limit("angular.z.max_deceleration_reverse")
    angular_z_max_jerk: float = _limit("angular.z.max_jerk")
    angular_z_min_jerk: float = _limit("angular.z.min_jerk")
    clip_axes: bool = core_param(BaseLimits, "clip_axes")
    max_wheel_velocity: float = core_param(BaseLimits, "max_wheel_velocity")
    max_wheel_acceleration: float = core_param(BaseLimits, "max_wheel_acceleration")
    clip_wheels: bool = core_param(BaseLimits, "clip_wheels")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SidewaysParams:
    """Lateral limits of a holonomic base, in addition to :class:`WheeledBaseParams`."""

    linear_y_max_velocity: float = _limit("linear.y.max_velocity")
    linear_y_min_velocity: float = _limit("linear.y.min_velocity")
    linear_y_max_acceleration: float = _limit("linear.y.max_acceleration")
    linear_y_max_deceleration: float = _limit("linear.y.max_deceleration")
    linear_y_max_acceleration_reverse: float = _limit("linear.y.max_acceleration_reverse")
    linear_y_max_deceleration_reverse: float = _limit("linear.y.max_deceleration_reverse")
    linear_y_max_jerk: float = _limit("linear.y.max_jerk")
    linear_y_min_jerk: float = _limit("linear.y.min_jerk")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShapeParams:
    """Gains and speed limits, in addition to :class:`WheeledBaseParams`; named as in Isaac Sim."""

    linear_gain: float = core_param(CommandShape, "linear_gain")
    angular_gain: float = core_param(CommandShape, "angular_gain")
    max_linear_speed: float = core_param(CommandShape, "max_linear_speed")
    max_angular_speed: float = core_param(CommandShape, "max_angular_speed")


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


def core_config(params: WheeledBaseParams) -> BaseControllerConfig:
    """Return the configuration of the base controller.

    Raises:
        InvalidConfig: the configuration rejects the parameters.
    """
    limits = settings_from(
        params,
        BaseLimits,
        x=settings_from(params, BodyAxisLimits, "linear_x_"),
        y=settings_from(params, BodyAxisLimits, "linear_y_"),
        yaw=settings_from(params, BodyAxisLimits, "angular_z_"),
    )
    return settings_from(
        params,
        BaseControllerConfig,
        limits=limits,
        shape=settings_from(params, CommandShape),
        odometry=settings_from(params, OdometryConfig),
    )


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
