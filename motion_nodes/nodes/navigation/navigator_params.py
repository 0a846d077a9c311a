# SPDX-License-Identifier: Apache-2.0
"""Parameters of the base navigator."""

from __future__ import annotations

import dataclasses

from motion_nodes.base_navigation.approaches import APPROACHES
from motion_nodes.base_navigation.follow_path import LAWS
from motion_nodes.ros.parameters import param
from motion_nodes.ros.robot_node import RobotParams

ALL_APPROACHES = tuple(dict.fromkeys(name for names in APPROACHES.values() for name in names))


@dataclasses.dataclass(frozen=True, kw_only=True)
class NavigatorParams(RobotParams):
    """Parameters of a base navigator, named as in Nav2 where it has a counterpart."""

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
        doc="Distance from the base frame (at the rear axle) to the front axle; for other bases, "
        "distance of the point ahead of the base frame with which stanley tracks the path.",
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
        0.05, name="turn_then_drive.heading_tolerance", doc="Max error of the heading (towards the "
        "goal; at the goal, of the goal) beyond which the base turns in place.",
        unit="rad", gt=0.0, le=3.0,
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
