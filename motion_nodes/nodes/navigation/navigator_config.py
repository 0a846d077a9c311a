# SPDX-License-Identifier: Apache-2.0
"""Defaults of the base navigator's parameters, and configuration of its core objects from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from motion_nodes.base_navigation.approaches import APPROACHES, ApproachConfig, QuinticConfig
from motion_nodes.base_navigation.clearance_guard import GuardConfig
from motion_nodes.base_navigation.detour_planner import Submit, at_once
from motion_nodes.base_navigation.detour_search import DetourConfig
from motion_nodes.base_navigation.follow_path import FollowConfig
from motion_nodes.base_navigation.footprint import Footprint, footprint_from
from motion_nodes.base_navigation.goal_check import GoalTolerance, ProgressCheck, StoppedCheck
from motion_nodes.base_navigation.motion_limits import BaseKind, MotionLimits
from motion_nodes.base_navigation.obstacle_avoidance import AvoidanceConfig, ObstacleAvoidance
from motion_nodes.base_navigation.robot_footprint import body_heights, footprint_of
from motion_nodes.base_navigation.stanley import SteeringConfig
from motion_nodes.base_navigation.turn_then_drive import TurnThenDriveConfig
from motion_nodes.bases.ackermann_robot import max_steering_angle
from motion_nodes.errors import InvalidConfig
from motion_nodes.model.base_description import AckermannSpec, DifferentialSpec, HolonomicSpec
from motion_nodes.model.robot import Robot
from motion_nodes.nodes.navigation.navigator_params import NavigatorParams
from motion_nodes.ros.core_settings import settings_from


def navigator_defaults(robot: Robot) -> dict[str, Any]:
    """Return the defaults given by a robot's description.

    Raises:
        InvalidConfig: the robot has no wheeled base.
    """
    spec = robot.base
    if spec is None:
        raise InvalidConfig(f"robot '{robot.name}' is of kind '{robot.kind}'; it has no base")
    x, z = spec.linear.x, spec.angular.z
    axes = [axis for axis in (x, spec.linear.y) if axis is not None]
    speed = min(axis.max_velocity for axis in axes)
    acceleration = min(axis.max_acceleration for axis in axes)
    defaults: dict[str, Any] = {
        "approach": APPROACHES[kind_of(robot)][0],
        "linear_x_max_velocity": speed,
        # Decelerations below the base controller's limits leave it a margin.
        "linear_x_max_acceleration": acceleration,
        "linear_x_max_deceleration": acceleration,
        "angular_z_max_velocity": z.max_velocity,
        "angular_z_max_acceleration": z.max_acceleration,
        "angular_z_max_deceleration": z.max_acceleration,
        "quintic_velocity": 0.5 * speed,
        "wheelbase": 0.2,
        "max_steering_angle": 1.2,
    }
    if isinstance(spec, DifferentialSpec):
        defaults["wheelbase"] = 2.0 * spec.wheel_separation
    elif isinstance(spec, AckermannSpec):
        defaults |= {
            # Of a car with front steering that drives the same turns at the same angles.
            "wheelbase": (0.5 if spec.steered_axle == "both" else 1.0) * spec.wheelbase,
            "max_steering_angle": max_steering_angle(robot, spec),
            # A car cannot correct errors at the goal by turning in place.
            "xy_goal_tolerance": 0.1,
            "yaw_goal_tolerance": 0.25,
        }
    return defaults


def kind_of(robot: Robot) -> BaseKind:
    """Return the kind of a wheeled base."""
    if isinstance(robot.base, AckermannSpec):
        return "ackermann"
    return "holonomic" if isinstance(robot.base, HolonomicSpec) else "differential"


def config_of(params: NavigatorParams, kind: BaseKind) -> ApproachConfig:
    """Return the configuration of motion to poses and along paths.

    Raises:
        InvalidConfig: inconsistent parameters.
    """
    follow = FollowConfig(
        limits=limits_of(params),
        steering=SteeringConfig(
            wheelbase=params.wheelbase,
            max_steering_angle=params.max_steering_angle,
            gain=params.stanley_gain,
            softening=params.stanley_softening,
            rear_gain=params.rear_axle_gain,
        ),
        law=params.tracking_law,
        tolerance=GoalTolerance(
            xy=params.xy_goal_tolerance,
            yaw=params.yaw_goal_tolerance,
            settle_time=params.settle_time,
        ),
        reversing=params.allow_reversing,
        max_deviation=params.max_deviation,
    )
    return ApproachConfig(
        kind=kind,
        approach=params.approach,
        follow=follow,
        rule=settings_from(params, TurnThenDriveConfig, "turn_then_drive_"),
        quintic=settings_from(params, QuinticConfig, "quintic_"),
    )


def limits_of(params: NavigatorParams) -> MotionLimits:
    """Return the motion limits."""
    return MotionLimits(
        max_velocity=params.linear_x_max_velocity,
        max_acceleration=params.linear_x_max_acceleration,
        max_deceleration=params.linear_x_max_deceleration,
        max_yaw_velocity=params.angular_z_max_velocity,
        max_yaw_acceleration=params.angular_z_max_acceleration,
        max_yaw_deceleration=params.angular_z_max_deceleration,
        max_lateral_acceleration=params.max_lateral_acceleration,
    )


def checks_of(params: NavigatorParams) -> tuple[StoppedCheck, ProgressCheck]:
    """Return the checks of rest and of progress."""
    return (
        StoppedCheck(linear=params.trans_stopped_velocity, angular=params.rot_stopped_velocity),
        ProgressCheck(
            params.required_movement_radius,
            params.required_movement_angle,
            params.movement_time_allowance,
        ),
    )


def avoidance_of(
    params: NavigatorParams, robot: Robot, submit: Submit = at_once
) -> ObstacleAvoidance:
    """Return the reaction to obstacles.

    Args:
        params: of the navigator.
        robot: of the navigator.
        submit: begins the search of a detour.

    Raises:
        InvalidConfig: inconsistent parameters.
    """
    return ObstacleAvoidance(
        kind_of(robot),
        outline_of(params, robot),
        limits_of(params),
        avoidance_config_of(params),
        submit,
    )


def avoidance_config_of(params: NavigatorParams) -> AvoidanceConfig:
    """Return the settings of the reaction to obstacles.

    Raises:
        InvalidConfig: inconsistent parameters.
    """
    return settings_from(
        params,
        AvoidanceConfig,
        "obstacles_",
        guard=settings_from(params, GuardConfig, "obstacles_"),
        detour=settings_from(params, DetourConfig, "obstacles_"),
    )


def outline_of(params: NavigatorParams, robot: Robot) -> Footprint:
    """Return the footprint of the parameters, else that of the robot.

    Raises:
        InvalidConfig: it is not a polygon.
    """
    numbers = list(params.footprint)
    if not numbers:
        return footprint_of(robot)
    if len(numbers) % 2:
        raise InvalidConfig(
            f"footprint has {len(numbers)} numbers; it needs x and y of each corner",
            field="footprint",
        )
    heights = body_heights(robot)
    return footprint_from(np.reshape(numbers, (-1, 2)), **heights)
