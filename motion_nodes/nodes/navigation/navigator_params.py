# SPDX-License-Identifier: Apache-2.0
"""Parameters of the base navigator, and what they say to the core."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from motion_nodes.base_navigation.approaches import APPROACHES, ApproachConfig, QuinticConfig
from motion_nodes.base_navigation.follow_path import LAWS, FollowConfig
from motion_nodes.base_navigation.goal_check import GoalTolerance, ProgressCheck, StoppedCheck
from motion_nodes.base_navigation.motion_limits import BaseKind, MotionLimits
from motion_nodes.base_navigation.stanley import SteeringConfig
from motion_nodes.base_navigation.turn_then_drive import TurnThenDriveConfig
from motion_nodes.errors import InvalidConfig
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
    allow_reversing: bool = param(
        False,
        doc="Drive in reverse to goals behind the base, and along path poses that point "
        "against the direction of travel.",
    )
    linear_x_max_velocity: float = param(
        name="linear.x.max_velocity", doc="Max speed of travel.", unit="m/s", gt=0.0, le=100.0
    )
    linear_x_max_acceleration: float = param(
        name="linear.x.max_acceleration", doc="Max acceleration.", unit="m/s^2", gt=0.0, le=1000.0
    )
    linear_x_max_deceleration: float = param(
        name="linear.x.max_deceleration",
        doc="Max deceleration for goals, curves and stops; should be below the base "
        "controller's limit.",
        unit="m/s^2",
        gt=0.0,
        le=1000.0,
    )
    angular_z_max_velocity: float = param(
        name="angular.z.max_velocity", doc="Max yaw rate.", unit="rad/s", gt=0.0, le=1000.0
    )
    angular_z_max_acceleration: float = param(
        name="angular.z.max_acceleration",
        doc="Max yaw acceleration.",
        unit="rad/s^2",
        gt=0.0,
        le=10000.0,
    )
    angular_z_max_deceleration: float = param(
        name="angular.z.max_deceleration",
        doc="Max yaw deceleration.",
        unit="rad/s^2",
        gt=0.0,
        le=10000.0,
    )
    max_lateral_acceleration: float = param(
        0.5,
        doc="Max lateral (centripetal) acceleration; reduces the speed in curves.",
        unit="m/s^2",
        gt=0.0,
        le=1000.0,
    )
    xy_goal_tolerance: float = param(
        0.04, doc="Position tolerance of the goal.", unit="m", gt=0.0, le=100.0
    )
    yaw_goal_tolerance: float = param(
        0.05,
        doc="Heading tolerance of the goal; pi or more accepts any heading.",
        unit="rad",
        gt=0.0,
        le=10.0,
    )
    settle_time: float = param(
        1.0,
        doc="Max time to converge further towards the goal once within the tolerances.",
        unit="s",
        gt=0.0,
        le=60.0,
    )
    trans_stopped_velocity: float = param(
        0.02,
        doc="Translational speed below which the base counts as stopped.",
        unit="m/s",
        gt=0.0,
        le=10.0,
    )
    rot_stopped_velocity: float = param(
        0.05, doc="Yaw rate below which the base counts as stopped.", unit="rad/s", gt=0.0, le=10.0
    )
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
    max_deviation: float = param(
        1.0,
        doc="Max distance from the path; beyond it the goal is aborted.",
        unit="m",
        gt=0.0,
        le=1000.0,
    )
    wheelbase: float = param(
        doc="Distance from the base frame (at the rear axle) to the front axle; for bases "
        "without one, distance of the point ahead that stanley tracks the path with.",
        unit="m",
        gt=0.0,
        le=100.0,
    )
    max_steering_angle: float = param(
        doc="Max steering angle of a car; for other bases it limits the path curvature while "
        "driving.",
        unit="rad",
        gt=0.0,
        le=1.5,
    )
    stanley_gain: float = param(
        2.0, doc="Cross-track error gain of stanley.", unit="1/s", gt=0.0, le=100.0
    )
    stanley_softening: float = param(
        0.1,
        doc="Softening constant of stanley, which limits the correction at low speed.",
        unit="m/s",
        gt=0.0,
        le=10.0,
    )
    rear_axle_gain: float = param(
        4.0, doc="Cross-track error gain of rear_axle.", unit="1/m", gt=0.0, le=100.0
    )
    rule_lateral_velocity: float = param(
        0.2, name="turn_then_drive.lateral_velocity", doc="Translational speed.", unit="m/s",
        gt=0.0, le=100.0,
    )  # fmt: skip
    rule_yaw_velocity: float = param(
        0.5, name="turn_then_drive.yaw_velocity", doc="Yaw rate.", unit="rad/s", gt=0.0,
        le=100.0,
    )  # fmt: skip
    rule_heading_tolerance: float = param(
        0.05, name="turn_then_drive.heading_tolerance", doc="Heading tolerance: the base turns in "
        "place while the direction to the goal, or "
        "at the end the goal heading, differs by more.", unit="rad", gt=0.0, le=3.0,
    )  # fmt: skip
    rule_position_tolerance: float = param(
        0.04, name="turn_then_drive.position_tolerance", doc="Position tolerance within which the "
        "base stops driving.",
        unit="m", gt=0.0, le=100.0,
    )  # fmt: skip
    quintic_velocity: float = param(
        name="quintic.velocity", doc="Speed at both ends of a quintic path; larger values give "
        "wider curves.",
        unit="m/s", gt=0.0, le=100.0,
    )  # fmt: skip
    quintic_max_acceleration: float = param(
        0.5,
        name="quintic.max_acceleration",
        doc="Max acceleration along a quintic path.",
        unit="m/s^2",
        gt=0.0,
        le=1000.0,
    )
    quintic_max_jerk: float = param(
        1.0,
        name="quintic.max_jerk",
        doc="Max jerk along a quintic path.",
        unit="m/s^3",
        gt=0.0,
        le=10000.0,
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


def navigator_defaults(robot: Robot) -> dict[str, Any]:
    """Return what the robot's description says.

    Raises:
        InvalidConfig: for a robot without wheels.
    """
    spec = robot.base
    if spec is None:
        raise InvalidConfig(
            f"robot '{robot.name}' is of kind '{robot.kind}'; it has no base to move"
        )
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
        InvalidConfig: for what does not fit together.
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
