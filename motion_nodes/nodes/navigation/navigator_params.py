# SPDX-License-Identifier: Apache-2.0
"""Parameters of the base navigator."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from motion_nodes.core.bases.from_robot import max_steering_angle
from motion_nodes.core.navigation.approaches import (
    APPROACHES,
    TURN_ROOM,
    ApproachConfig,
    QuinticConfig,
)
from motion_nodes.core.navigation.base_motion import (
    BaseKind,
    GoalTolerance,
    MotionLimits,
    ProgressCheck,
    StoppedCheck,
)
from motion_nodes.core.navigation.detours import DetourConfig, Submit, at_once
from motion_nodes.core.navigation.follow_path import LAWS, FollowConfig, SteeringConfig
from motion_nodes.core.navigation.footprint import (
    Footprint,
    body_heights,
    footprint_from,
    footprint_of,
)
from motion_nodes.core.navigation.map_planner import GridPlanConfig, PlannedBase
from motion_nodes.core.navigation.obstacle_avoidance import (
    AvoidanceConfig,
    GuardConfig,
    ObstacleAvoidance,
)
from motion_nodes.core.navigation.obstacle_memory import MemoryConfig
from motion_nodes.core.navigation.pose_motions import TurnThenDriveConfig
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_yaml import AckermannSpec, DifferentialSpec, HolonomicSpec
from motion_nodes.errors import InvalidConfig
from motion_nodes.ros.names import BASE_CONTROLLER_DOC
from motion_nodes.ros.node import RobotParams
from motion_nodes.ros.parameters import core_param, core_params, param, settings_from

MODES = ("auto", "required", "off")
POLICIES = ("hold", "ignore")
ALL_APPROACHES = tuple(dict.fromkeys(name for names in APPROACHES.values() for name in names))


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(TurnThenDriveConfig, "turn_then_drive")
@core_params(GridPlanConfig, "planner")
@core_params(QuinticConfig, "quintic", only=("max_acceleration", "max_jerk"))
@core_params(GuardConfig, "obstacles")
@core_params(AvoidanceConfig, "obstacles")
@core_params(DetourConfig, "obstacles")
@core_params(MemoryConfig, "obstacles")
class NavigatorParams(RobotParams):
    """Parameters of a base navigator, named as in Nav2 where it has a counterpart."""

    obstacles_mode: str = param(
        "auto", name="obstacles.mode",
        doc="Obstacles stop the base: auto (as soon as a sensor has a publisher), required (the "
        "base does not move without sensors), off (they are not considered).",
        one_of=MODES,
    )  # fmt: skip
    obstacles_scan_topics: tuple[str, ...] = param(
        ("scan",), name="obstacles.scan_topics",
        doc="Topics of laser scans (sensor_msgs/LaserScan).", read_only=True,
    )  # fmt: skip
    obstacles_cloud_topics: tuple[str, ...] = param(
        (), name="obstacles.cloud_topics",
        doc="Topics of point clouds (sensor_msgs/PointCloud2).", read_only=True,
    )  # fmt: skip
    obstacles_sensor_poses: tuple[float, ...] = param(
        (), name="obstacles.sensor_poses",
        doc="Poses of the sensors in the base frame, x, y, z, roll, pitch, yaw of each, scans "
        "first; empty: from /tf, by the frames of the messages.",
        unit="m, rad", ge=-100.0, le=100.0, read_only=True,
    )  # fmt: skip
    obstacles_obstacle_timeout: float = core_param(
        AvoidanceConfig, "obstacle_timeout", name="obstacles.timeout"
    )
    obstacles_reach: float = core_param(MemoryConfig, "reach", name="obstacles.range")
    obstacles_min_height: float = param(
        0.03, name="obstacles.min_height",
        doc="Height above the floor from which points are obstacles, up to the height of the base; "
        "a horizontal scanner outside this range detects obstacles at its own height.",
        unit="m", ge=-10.0, le=10.0,
    )  # fmt: skip
    obstacles_sensor_timeout: float = param(
        1.0, name="obstacles.sensor_timeout",
        doc="Time without a valid message after which a sensor counts as silent; older messages "
        "are dropped.", unit="s", gt=0.0, le=60.0,
    )  # fmt: skip
    obstacles_sensor_silent: str = param(
        "hold", name="obstacles.sensor_silent",
        doc="If a sensor is silent: hold (the base stops and waits), or ignore (it continues with "
        "the stored obstacles).",
        one_of=POLICIES,
    )  # fmt: skip
    footprint: tuple[float, ...] = param(
        (), doc="Corners of the base's outline on the floor in the base frame, x and y of each; "
        "empty: base.footprint of robot.yaml, or the outline of the collision geometry.",
        unit="m", ge=-100.0, le=100.0,
    )  # fmt: skip
    map_file: str = param(
        "", doc="Map of goals and of compute_path_to_pose: YAML file of Nav2's map_server with a "
            "PGM image; empty: from the topic map, or an empty plane until one was received.",
        read_only=True,
    )  # fmt: skip
    use_map: bool = param(
        True, doc="Whether goals lead around the obstacles of the map, if there is one whose frame "
            "is connected to odometry; otherwise maps are for compute_path_to_pose only.",
    )  # fmt: skip
    base_controller: str = param("", doc=BASE_CONTROLLER_DOC, read_only=True)
    approach: str = param(
        doc="Motion to a pose goal: straight (turn, drive, turn; a holonomic base moves on "
        "all axes at once), turn_then_drive (the same at fixed speeds, without "
        "acceleration limits of its own), quintic (quintic polynomial path), dubins (arcs "
        "and straight lines, for cars).",
        one_of=ALL_APPROACHES,
    )
    tracking_law: str = param(
        "stanley",
        doc="Path tracking law of a base that steers: stanley (error at the front axle) or "
        "rear_axle (error at the base frame). In reverse, rear_axle is always used.",
        one_of=LAWS,
    )
    allow_reversing: bool = core_param(FollowConfig, "reversing")
    linear_x_max_velocity: float = core_param(
        MotionLimits, "max_velocity", name="linear.x.max_velocity"
    )
    linear_x_max_acceleration: float = core_param(
        MotionLimits, "max_acceleration", name="linear.x.max_acceleration"
    )
    linear_x_max_deceleration: float = core_param(
        MotionLimits, "max_deceleration", name="linear.x.max_deceleration"
    )
    angular_z_max_velocity: float = core_param(
        MotionLimits, "max_yaw_velocity", name="angular.z.max_velocity"
    )
    angular_z_max_acceleration: float = core_param(
        MotionLimits, "max_yaw_acceleration", name="angular.z.max_acceleration"
    )
    angular_z_max_deceleration: float = core_param(
        MotionLimits, "max_yaw_deceleration", name="angular.z.max_deceleration"
    )
    max_lateral_acceleration: float = core_param(MotionLimits, "max_lateral_acceleration")
    xy_goal_tolerance: float = core_param(GoalTolerance, "xy")
    yaw_goal_tolerance: float = core_param(GoalTolerance, "yaw")
    settle_time: float = core_param(GoalTolerance, "settle_time")
    trans_stopped_velocity: float = core_param(StoppedCheck, "linear")
    rot_stopped_velocity: float = core_param(StoppedCheck, "angular")
    required_movement_radius: float = param(
        0.1, doc="Min distance to travel within movement_time_allowance; otherwise the base is "
            "stuck and the goal is aborted.", unit="m", gt=0.0,
        le=100.0,
    )  # fmt: skip
    required_movement_angle: float = param(
        0.3, doc="Min rotation within movement_time_allowance that counts as progress as well.",
        unit="rad", gt=0.0, le=10.0,
    )  # fmt: skip
    movement_time_allowance: float = param(
        10.0, doc="Time within which the base must make progress; see required_movement_radius.",
        unit="s", gt=0.0, le=3600.0,
    )  # fmt: skip
    stop_on_failure: bool = param(
        True, doc="Whether follow_waypoints ends at the first waypoint that is not reached; "
            "otherwise it goes on to the next, and missed_waypoints names those.",
    )  # fmt: skip
    peer_defaults: bool = param(
        False,
        doc="Reject follow_waypoints goals without poses when they are sent, as Nav2; false: "
        "accept and abort them with the reason as result.",
    )
    max_deviation: float = core_param(FollowConfig, "max_deviation")
    wheelbase: float = core_param(SteeringConfig, "wheelbase")
    max_steering_angle: float = core_param(
        SteeringConfig, "max_steering_angle", default=dataclasses.MISSING
    )
    stanley_gain: float = core_param(SteeringConfig, "gain")
    stanley_softening: float = core_param(SteeringConfig, "softening")
    rear_axle_gain: float = core_param(SteeringConfig, "rear_gain")
    quintic_velocity: float = core_param(
        QuinticConfig, "velocity", name="quintic.velocity", default=dataclasses.MISSING
    )
    odom_timeout: float = param(
        0.5, doc="Timeout of odometry; when it expires the base is stopped and the goal is "
            "aborted.",
        unit="s", gt=0.0, le=60.0,
    )  # fmt: skip
    transform_timeout: float = param(
        5.0, doc="Max age of the transform between the goal frame (such as map) and the odometry "
            "frame; beyond it the goal is rejected or aborted. Static transforms do not age.",
        unit="s", gt=0.0, le=3600.0,
    )  # fmt: skip
    goal_timeout: float = param(
        10.0, doc="Max age of the stamp of goal_pose messages, and of goals in frames that move "
            "with the base; older ones are rejected.", unit="s", gt=0.0, le=3600.0,
    )  # fmt: skip
    cmd_vel_teleop: str = param(
        "cmd_vel_teleop", doc="Topic of the twists of assisted_teleop.", read_only=True
    )
    enable_stamped_cmd_vel: bool = param(
        False, doc="Message type of cmd_vel_teleop: true for TwistStamped, false for Twist.",
        read_only=True,
    )  # fmt: skip
    teleop_timeout: float = param(
        0.5, doc="Time after which a twist of assisted_teleop that is not renewed is zero; 0: it "
            "is kept, as by Nav2.", unit="s", ge=0.0, le=60.0,
    )  # fmt: skip
    speed_limit_topic: str = param(
        "speed_limit", doc="Topic of speed limits (nav2_msgs/SpeedLimit), as of Nav2's speed "
            "filter: the base drives its curves no faster, whatever moves it.", read_only=True,
    )  # fmt: skip
    refuse_absent: bool = param(
        True, doc="Offer dock_robot, undock_robot and follow_gps_waypoints, and reject their "
            "goals, instead of letting clients wait; false where another node serves them.",
        read_only=True,
    )  # fmt: skip
    feedback_rate: float = param(
        10.0, doc="Publish rate of the action feedback.", unit="Hz", gt=0.0, le=100.0,
        read_only=True,
    )  # fmt: skip


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


def planned_base(config: ApproachConfig, footprint: Footprint) -> PlannedBase:
    """Return what paths on a map must respect."""
    radius = TURN_ROOM / config.follow.steering.max_curvature
    return PlannedBase(config.kind, footprint, radius, config.follow.reversing)


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
