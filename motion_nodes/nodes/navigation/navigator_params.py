# SPDX-License-Identifier: Apache-2.0
"""Parameters of the base navigator."""

from __future__ import annotations

import dataclasses

from motion_nodes.base_navigation.approaches import APPROACHES, QuinticConfig
from motion_nodes.base_navigation.clearance_guard import GuardConfig
from motion_nodes.base_navigation.detour_search import DetourConfig
from motion_nodes.base_navigation.follow_path import LAWS, FollowConfig
from motion_nodes.base_navigation.goal_check import GoalTolerance, StoppedCheck
from motion_nodes.base_navigation.grid_plan import GridPlanConfig
from motion_nodes.base_navigation.motion_limits import MotionLimits
from motion_nodes.base_navigation.obstacle_avoidance import AvoidanceConfig
from motion_nodes.base_navigation.obstacle_memory import MemoryConfig
from motion_nodes.base_navigation.stanley import SteeringConfig
from motion_nodes.base_navigation.turn_then_drive import TurnThenDriveConfig
from motion_nodes.ros.names import BASE_CONTROLLER_DOC
from motion_nodes.ros.parameters import core_param, core_params, param
from motion_nodes.ros.robot_node import RobotParams

ALL_APPROACHES = tuple(dict.fromkeys(name for names in APPROACHES.values() for name in names))
MODES = ("auto", "required", "off")
POLICIES = ("hold", "ignore")


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
        "", doc="Map of compute_path_to_pose: YAML file of Nav2's map_server with a PGM image; "
        "empty: from the topic map, or an empty plane until one was received.", read_only=True,
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
        0.3,
        doc="Min rotation within movement_time_allowance that counts as progress as well.",
        unit="rad",
        gt=0.0,
        le=10.0,
    )
    movement_time_allowance: float = param(
        10.0,
        doc="Time within which the base must make progress; see required_movement_radius.",
        unit="s",
        gt=0.0,
        le=3600.0,
    )
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
    feedback_rate: float = param(
        10.0,
        doc="Publish rate of the action feedback.",
        unit="Hz",
        gt=0.0,
        le=100.0,
        read_only=True,
    )
