# SPDX-License-Identifier: Apache-2.0
"""Parameters of wheeled bases, and the core's configuration from them."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from motion_nodes.bases.command_shape import CommandShape
from motion_nodes.bases.controller import BaseControllerConfig
from motion_nodes.bases.limits import AxisLimits, BaseLimits
from motion_nodes.bases.odometry import OdometryConfig
from motion_nodes.model.robot import Robot
from motion_nodes.ros.core_settings import settings_from
from motion_nodes.ros.parameters import param
from motion_nodes.ros.robot_node import RobotParams

COVARIANCE = (0.001, 0.001, 1e6, 1e6, 1e6, 0.01)
"""Diagonal where nothing better is known: certain in the plane, unknown out of it."""

_LIMITS = {
    "max_velocity": ("", "Greatest velocity; 0 or NaN: no limit."),
    "min_velocity": ("", "The same the other way, its sign does not matter; 0 or NaN: as max."),
    "max_acceleration": ("^2", "While the speed grows; 0 or NaN: no limit."),
    "max_deceleration": ("^2", "While the speed falls; 0 or NaN: as max_acceleration."),
    "max_acceleration_reverse": ("^2", "The other way; 0 or NaN: as max_acceleration."),
    "max_deceleration_reverse": ("^2", "The other way; 0 or NaN: as max_deceleration."),
    "max_jerk": ("^3", "Change of the acceleration; 0 or NaN: no limit."),
    "min_jerk": ("^3", "The smaller one of max_jerk and min_jerk holds; 0 or NaN: as max_jerk."),
}


def _limit(name: str) -> Any:
    """Return the field of one limit, such as ``linear.x.max_velocity``."""
    power, doc = _LIMITS[name.rpartition(".")[2]]
    unit = "m" if name.startswith("linear") else "rad"
    return param(math.nan, name=name, doc=doc, unit=f"{unit}/s{power}", nan=True)


def _error(doc: str, unit: str) -> Any:
    """Return the field of one way in which odometry's errors grow."""
    return param(0.0, doc=doc, unit=unit, ge=0.0, le=100.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BaseParams(RobotParams):
    """Parameters of every wheeled base; names as in ros2_controllers."""

    cmd_vel_timeout: float = param(
        0.5, doc="A command older than this counts as a stop.", unit="s", gt=0.0, le=60.0
    )
    state_timeout: float = param(
        0.5,
        doc="Without joint_states for this long the wheels are stopped and the loss is reported.",
        unit="s",
        gt=0.0,
        le=60.0,
    )
    stamped_cmd_vel: bool = param(
        True, doc="The plain cmd_vel topic carries TwistStamped; false: Twist.", read_only=True
    )
    publish_limited_velocity: bool = param(
        True, doc="Publish the twist after all limits on ~/cmd_vel_out."
    )
    publish_rate: float = param(
        0.0, doc="Rate of odometry and /tf; 0: with each measurement.", unit="Hz", ge=0.0, le=2000.0
    )
    odom_frame_id: str = param("odom", doc="Frame in which the odometry is given.")
    base_frame_id: str = param("base_link", doc="Frame of the base.")
    tf_frame_prefix: str = param(
        "", doc="Put before all frame names; '~' means the node's namespace."
    )
    enable_odom_tf: bool = param(True, doc="Publish odom -> base on /tf.")
    open_loop: bool = param(
        False,
        doc="Odometry adds up what was commanded after all limits; joint_states are not needed.",
        read_only=True,
    )
    position_feedback: bool = param(
        True,
        doc="Odometry takes wheel angles from joint_states; false: wheel speeds.",
        read_only=True,
    )
    velocity_rolling_window_size: int = param(
        1, doc="Measurements over which odometry's velocity is averaged.", ge=1, le=1000
    )
    pose_covariance_diagonal: tuple[float, ...] = param(
        COVARIANCE, doc="Diagonal of the pose's covariance, to which grown errors add.", ge=0.0
    )
    twist_covariance_diagonal: tuple[float, ...] = param(
        COVARIANCE, doc="Diagonal of the twist's covariance.", ge=0.0
    )
    position_error_per_metre: float = _error(
        "Standard deviation of the position after one metre; errors grow with the square root.", "m"
    )
    position_error_per_radian: float = _error(
        "Standard deviation of the position after turning by one radian.", "m"
    )
    yaw_error_per_metre: float = _error("Standard deviation of the heading after one metre.", "rad")
    yaw_error_per_radian: float = _error(
        "Standard deviation of the heading after turning by one radian.", "rad"
    )
    slip_threshold: float = param(
        0.1,
        doc="Wheels that contradict each other by more than this are reported; 0: never.",
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
    clip_axes: bool = param(
        False,
        doc="Limit each body axis by itself, which changes the curve driven, instead of all alike.",
    )
    max_wheel_velocity: float = param(
        math.nan, doc="Speed limit of any wheel; 0 or NaN: none.", unit="rad/s", nan=True
    )
    max_wheel_acceleration: float = param(
        math.nan, doc="Acceleration limit of any wheel; 0 or NaN: none.", unit="rad/s^2", nan=True
    )
    clip_wheels: bool = param(
        False,
        doc="Clip each wheel by itself, which changes the curve driven, instead of scaling all.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SidewaysParams:
    """Parameters of a base that can move sideways, besides :class:`BaseParams`."""

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
    """Parameters of a base with gains, besides :class:`BaseParams`; names as in Isaac Sim."""

    linear_gain: float = param(1.0, doc="Factor on commands in x and y.", ge=0.0, le=1000.0)
    angular_gain: float = param(1.0, doc="Factor on commands about z.", ge=0.0, le=1000.0)
    max_linear_speed: float = param(
        math.nan,
        doc="Of x and y together; a faster command keeps its direction. 0 or NaN: no limit.",
        unit="m/s",
        nan=True,
    )
    max_angular_speed: float = param(
        math.nan, doc="About z, whatever x and y are; 0 or NaN: no limit.", unit="rad/s", nan=True
    )


def base_defaults(robot: Robot) -> dict[str, Any]:
    """Return the parameters that every wheeled robot's description gives."""
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


def core_config(params: BaseParams) -> BaseControllerConfig:
    """Return the core's configuration.

    Raises:
        BadConfig: for limits that cannot be.
    """
    limits = settings_from(
        params,
        BaseLimits,
        x=settings_from(params, AxisLimits, "linear_x_"),
        y=settings_from(params, AxisLimits, "linear_y_"),
        yaw=settings_from(params, AxisLimits, "angular_z_"),
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
