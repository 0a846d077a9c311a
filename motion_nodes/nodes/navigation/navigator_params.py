# SPDX-License-Identifier: Apache-2.0
"""Parameters of the base navigator, and what they say to the core."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from motion_nodes.base_motion.approaches import APPROACHES, ApproachConfig, QuinticConfig
from motion_nodes.base_motion.follow_path import LAWS, FollowConfig
from motion_nodes.base_motion.goal_check import GoalTolerance, ProgressCheck, StoppedCheck
from motion_nodes.base_motion.limits import BaseKind, MotionLimits
from motion_nodes.base_motion.stanley import SteeringConfig
from motion_nodes.base_motion.turn_then_drive import TurnThenDriveConfig
from motion_nodes.errors import BadConfig
from motion_nodes.model.base_description import AckermannSpec, DifferentialSpec, HolonomicSpec
from motion_nodes.model.robot import Robot
from motion_nodes.ros.core_settings import settings_from
from motion_nodes.ros.parameters import param
from motion_nodes.ros.robot_node import RobotParams

ALL_APPROACHES = tuple(dict.fromkeys(name for names in APPROACHES.values() for name in names))


@dataclasses.dataclass(frozen=True, kw_only=True)
class NavigatorParams(RobotParams):
    """Parameters of a base navigator; where Nav2 has a counterpart, the name is Nav2's."""

    approach: str = param(
        doc="How the base goes to a pose: straight (turn, drive, turn; a holonomic base all at "
        "once), turn_then_drive (the same at fixed speeds, without ramps of its own), quintic (a "
        "smooth curve), dubins (arcs and lines that a car can drive).",
        one_of=ALL_APPROACHES,
    )
    tracking_law: str = param(
        "stanley",
        doc="How a base that steers is led along a path: by its front axle (stanley) or by its "
        "own frame (rear_axle). In reverse it is always the latter.",
        one_of=LAWS,
    )
    allow_reversing: bool = param(
        False,
        doc="Goals behind the base, and path poses that look against the way, are driven to in "
        "reverse.",
    )
    linear_x_max_velocity: float = param(
        name="linear.x.max_velocity", doc="Speed of travel.", unit="m/s", gt=0.0, le=100.0
    )
    linear_x_max_acceleration: float = param(
        name="linear.x.max_acceleration", doc="Speeding up.", unit="m/s^2", gt=0.0, le=1000.0
    )
    linear_x_max_deceleration: float = param(
        name="linear.x.max_deceleration",
        doc="Braking for goals, curves and stops; gentler than the base could.",
        unit="m/s^2",
        gt=0.0,
        le=1000.0,
    )
    angular_z_max_velocity: float = param(
        name="angular.z.max_velocity", doc="Yaw rate.", unit="rad/s", gt=0.0, le=1000.0
    )
    angular_z_max_acceleration: float = param(
        name="angular.z.max_acceleration",
        doc="Change of the yaw rate.",
        unit="rad/s^2",
        gt=0.0,
        le=10000.0,
    )
    angular_z_max_deceleration: float = param(
        name="angular.z.max_deceleration",
        doc="The same while turning slower.",
        unit="rad/s^2",
        gt=0.0,
        le=10000.0,
    )
    max_lateral_acceleration: float = param(
        0.5, doc="Across the path; slows the base in curves.", unit="m/s^2", gt=0.0, le=1000.0
    )
    xy_goal_tolerance: float = param(
        0.04, doc="Distance from the goal that counts as there.", unit="m", gt=0.0, le=100.0
    )
    yaw_goal_tolerance: float = param(
        0.05,
        doc="Difference of heading that counts as there; from pi on any heading does.",
        unit="rad",
        gt=0.0,
        le=10.0,
    )
    settle_time: float = param(
        1.0,
        doc="A base within the tolerances goes on to the goal itself for so long.",
        unit="s",
        gt=0.0,
        le=60.0,
    )
    trans_stopped_velocity: float = param(
        0.02, doc="Slower than this the base stands.", unit="m/s", gt=0.0, le=10.0
    )
    rot_stopped_velocity: float = param(
        0.05, doc="Turning slower than this the base stands.", unit="rad/s", gt=0.0, le=10.0
    )
    required_movement_radius: float = param(
        0.1, doc="A base that moves less in movement_time_allowance is stuck.", unit="m", gt=0.0,
        le=100.0,
    )  # fmt: skip
    required_movement_angle: float = param(
        0.3, doc="Unless it turns by this meanwhile.", unit="rad", gt=0.0, le=10.0
    )
    movement_time_allowance: float = param(
        10.0, doc="See required_movement_radius.", unit="s", gt=0.0, le=3600.0
    )
    max_deviation: float = param(
        1.0, doc="A base farther from its path has failed.", unit="m", gt=0.0, le=1000.0
    )
    wheelbase: float = param(
        doc="From the base frame, at the rear axle, to the front axle; for a base without one, how "
        "far ahead the point is by which stanley leads it.",
        unit="m",
        gt=0.0,
        le=100.0,
    )
    max_steering_angle: float = param(
        doc="Of a car's wheels; for other bases it bounds the tightest curve while driving.",
        unit="rad",
        gt=0.0,
        le=1.5,
    )
    stanley_gain: float = param(
        2.0, doc="How fast stanley takes an error aside away.", unit="1/s", gt=0.0, le=100.0
    )
    stanley_softening: float = param(
        0.1, doc="Keeps stanley calm at low speed.", unit="m/s", gt=0.0, le=10.0
    )
    rear_axle_gain: float = param(
        4.0, doc="How fast rear_axle takes an error aside away.", unit="1/m", gt=0.0, le=100.0
    )
    rule_lateral_velocity: float = param(
        0.2, name="turn_then_drive.lateral_velocity", doc="Speed of driving.", unit="m/s", gt=0.0,
        le=100.0,
    )  # fmt: skip
    rule_yaw_velocity: float = param(
        0.5, name="turn_then_drive.yaw_velocity", doc="Speed of turning.", unit="rad/s", gt=0.0,
        le=100.0,
    )  # fmt: skip
    rule_heading_tolerance: float = param(
        0.05, name="turn_then_drive.heading_tolerance", doc="It turns while the goal is farther "
        "aside, and at the end until its heading is nearer.", unit="rad", gt=0.0, le=3.0,
    )  # fmt: skip
    rule_position_tolerance: float = param(
        0.04, name="turn_then_drive.position_tolerance", doc="It stops this near to the goal.",
        unit="m", gt=0.0, le=100.0,
    )  # fmt: skip
    quintic_velocity: float = param(
        name="quintic.velocity", doc="At both ends of a quintic path; greater gives wider curves.",
        unit="m/s", gt=0.0, le=100.0,
    )  # fmt: skip
    quintic_max_acceleration: float = param(
        0.5, name="quintic.max_acceleration", doc="Anywhere on it.", unit="m/s^2", gt=0.0, le=1000.0
    )
    quintic_max_jerk: float = param(
        1.0, name="quintic.max_jerk", doc="Anywhere on it.", unit="m/s^3", gt=0.0, le=10000.0
    )
    odom_timeout: float = param(
        0.5, doc="Without odometry for this long the base is stopped and the goal aborted.",
        unit="s", gt=0.0, le=60.0,
    )  # fmt: skip
    transform_timeout: float = param(
        5.0, doc="A goal in a frame like map is refused or aborted when the newest transform "
        "between that frame and the odometry's is older; fixed ones do not age.", unit="s", gt=0.0,
        le=3600.0,
    )  # fmt: skip
    goal_timeout: float = param(
        10.0, doc="A goal_pose with an older stamp is ignored; so is a goal in a frame that moves "
        "with the base.", unit="s", gt=0.0, le=3600.0,
    )  # fmt: skip
    feedback_rate: float = param(
        10.0, doc="Of the actions' feedback.", unit="Hz", gt=0.0, le=100.0, read_only=True
    )


def navigator_defaults(robot: Robot) -> dict[str, Any]:
    """Return what the robot's description says.

    Raises:
        BadConfig: for a robot without wheels.
    """
    spec = robot.base
    if spec is None:
        raise BadConfig(f"robot '{robot.name}' is of kind '{robot.kind}'; it has no base to move")
    x, z = spec.linear.x, spec.angular.z
    speeds = [x.max_velocity]
    accelerations = [x.max_acceleration]
    if spec.linear.y is not None:
        speeds.append(spec.linear.y.max_velocity)
        accelerations.append(spec.linear.y.max_acceleration)
    defaults: dict[str, Any] = {
        "approach": APPROACHES[kind_of(robot)][0],
        "linear_x_max_velocity": min(speeds),
        # Braking as gently as speeding up leaves the base's own limits room to help.
        "linear_x_max_acceleration": min(accelerations),
        "linear_x_max_deceleration": min(accelerations),
        "angular_z_max_velocity": z.max_velocity,
        "angular_z_max_acceleration": z.max_acceleration,
        "angular_z_max_deceleration": z.max_acceleration,
        "quintic_velocity": 0.5 * min(speeds),
        "wheelbase": 0.2,
        "max_steering_angle": 1.2,
    }
    if isinstance(spec, DifferentialSpec):
        defaults["wheelbase"] = 2.0 * spec.wheel_separation
    elif isinstance(spec, AckermannSpec):
        defaults |= {
            "wheelbase": spec.wheelbase,
            "max_steering_angle": _steering_angle(robot, spec),
            # It cannot turn on the spot or aside to put right what the way left over.
            "xy_goal_tolerance": 0.1,
            "yaw_goal_tolerance": 0.25,
        }
    return defaults


def kind_of(robot: Robot) -> BaseKind:
    """Return the kind of a robot with a base."""
    if isinstance(robot.base, AckermannSpec):
        return "ackermann"
    return "holonomic" if isinstance(robot.base, HolonomicSpec) else "differential"


def _steering_angle(robot: Robot, spec: AckermannSpec) -> float:
    """Return the greatest angle of a car's middle wheel [rad]."""
    if spec.max_steering_angle is not None:
        return spec.max_steering_angle
    indices = robot.indices(spec.steering_joint_names)
    bounds = [*(-robot.limits.lower[indices]), *robot.limits.upper[indices]]
    # The inner wheel steers more than the middle one that is meant here.
    inner = float(min(min(bounds), 1.5))
    return math.atan(
        spec.wheelbase / (spec.wheelbase / math.tan(inner) + 0.5 * spec.front_track_width)
    )


def config_from(params: NavigatorParams, kind: BaseKind) -> ApproachConfig:
    """Return how the core goes to poses and along paths.

    Raises:
        BadConfig: for what does not fit together.
    """
    follow = FollowConfig(
        limits=limits_from(params),
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
        rule=settings_from(params, TurnThenDriveConfig, "rule_"),
        quintic=settings_from(params, QuinticConfig, "quintic_"),
    )


def limits_from(params: NavigatorParams) -> MotionLimits:
    """Return the limits of all motion."""
    return MotionLimits(
        max_velocity=params.linear_x_max_velocity,
        max_acceleration=params.linear_x_max_acceleration,
        max_deceleration=params.linear_x_max_deceleration,
        max_yaw_velocity=params.angular_z_max_velocity,
        max_yaw_acceleration=params.angular_z_max_acceleration,
        max_yaw_deceleration=params.angular_z_max_deceleration,
        max_lateral_acceleration=params.max_lateral_acceleration,
    )


def checks_from(params: NavigatorParams) -> tuple[StoppedCheck, ProgressCheck]:
    """Return what counts as standing, and what as getting on."""
    return (
        StoppedCheck(linear=params.trans_stopped_velocity, angular=params.rot_stopped_velocity),
        ProgressCheck(
            params.required_movement_radius,
            params.required_movement_angle,
            params.movement_time_allowance,
        ),
    )
