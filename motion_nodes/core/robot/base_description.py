# SPDX-License-Identifier: Apache-2.0
"""The block ``base`` of a robot.yaml: one class for each kind of wheeled base.

Geometry of wheeled bases: settings of robot.yaml, of the core and of the nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from motion_nodes.settings import Setting

WHEEL_RADIUS = Setting(
    doc="Wheel radius; affects the speed and the odometry distance.", unit="m", gt=0.0, le=10.0
)
WHEEL_SEPARATION = Setting(
    doc="Distance between the left and right wheels; affects the yaw rate and the odometry "
    "heading.",
    unit="m",
    gt=0.0,
    le=100.0,
)
WHEELBASE = Setting(
    doc="Distance between front and rear axle; affects the curvature and the odometry heading.",
    unit="m",
    gt=0.0,
    le=100.0,
)
TRACK_WIDTH = Setting(
    doc="Track width of an axle, between the tyre centres.", unit="m", gt=0.0, le=100.0
)
ROLLER_WHEEL_RADIUS = Setting(
    doc="Wheel radius to the outside of the rollers; affects the speed and the odometry distance.",
    unit="m",
    gt=0.0,
    le=10.0,
)
ROLLER_ANGLE = Setting(
    doc="Angle from the wheel axis to the axis of the roller in contact with the floor, "
    "counter-clockwise seen from above: 90 for omni wheels, 45 or 135 for common mecanum wheels.",
    unit="deg",
    ge=-180.0,
    le=180.0,
)
Name = Annotated[str, Meta(min_length=1)]
Positive = Annotated[float, Meta(gt=0.0)]
NotNegative = Annotated[float, Meta(ge=0.0)]
Pair = Annotated[tuple[Name, ...], Meta(max_length=2)]
"""Left and right, one in the middle, or empty."""
BaseControllerName = Literal[
    "",
    "diff_drive_controller",
    "mecanum_drive_controller",
    "omni_wheel_drive_controller",
    "ackermann_steering_controller",
    "bicycle_steering_controller",
    "tricycle_steering_controller",
    "tricycle_controller",
]
"""Name of the node that drives a base; empty: that of the kind."""
Footprint = Annotated[tuple[tuple[float, float], ...], Meta(max_length=100)]
"""Vertices (x, y) in the base frame [m]."""
SteeringAngle = Annotated[float, Meta(gt=0.0, lt=1.5707963267948966)]
CONTROLLERS = {
    "differential": ("diff_drive_controller",),
    "holonomic": ("mecanum_drive_controller", "omni_wheel_drive_controller"),
    "ackermann": (
        "ackermann_steering_controller",
        "tricycle_steering_controller",
        "bicycle_steering_controller",
        "tricycle_controller",
    ),
}
"""Names of base controllers for each kind of robot, as in ros2_controllers."""


@dataclass(frozen=True)
class AxisLimits:
    """Limits of a mobile base along or about one axis."""

    max_velocity: Positive
    """Max velocity [m/s or rad/s]."""
    max_acceleration: Positive
    """Max acceleration [m/s^2 or rad/s^2]."""
    max_deceleration: Positive | None = None
    """Max deceleration, as a positive number; None: as ``max_acceleration``."""
    max_jerk: Positive | None = None
    """Max jerk [m/s^3 or rad/s^3]; None: unlimited."""


@dataclass(frozen=True)
class LinearLimits:
    """Limits of translation in the base frame."""

    x: AxisLimits
    y: AxisLimits | None = None
    """Lateral limits, for holonomic bases only. None: as ``x``."""


@dataclass(frozen=True)
class AngularLimits:
    """Limits of rotation in the base frame."""

    z: AxisLimits


@dataclass(frozen=True)
class DifferentialSpec:
    """A differential base; names as in ros2_controllers' diff_drive_controller."""

    left_wheel_names: Annotated[tuple[Name, ...], Meta(min_length=1)]
    """Joints of the left wheels."""
    right_wheel_names: Annotated[tuple[Name, ...], Meta(min_length=1)]
    """Joints of the right wheels."""
    wheel_radius: Annotated[float, WHEEL_RADIUS.schema]
    wheel_separation: Annotated[float, WHEEL_SEPARATION.schema]
    linear: LinearLimits
    angular: AngularLimits
    max_wheel_velocity: Positive | None = None
    """Max velocity of any wheel [rad/s]; None: unlimited."""
    max_wheel_acceleration: Positive | None = None
    """Max acceleration of any wheel [rad/s^2]; None: unlimited."""
    footprint: Footprint = ()
    """Corners of the outline on the floor; empty: that of the collision geometry."""
    controller: BaseControllerName = ""
    """Name of the base's node, by which clients of ros2_controllers find it; empty: by the kind."""

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """All wheel joints, left ones first."""
        return self.left_wheel_names + self.right_wheel_names

    @property
    def steering_names(self) -> tuple[str, ...]:
        """None: the wheels steer by their velocities."""
        return ()


@dataclass(frozen=True)
class RollerWheel:
    """An omni or mecanum wheel; its position and axis are those of the URDF."""

    joint: Name
    """Joint of the wheel."""
    radius: Annotated[float, ROLLER_WHEEL_RADIUS.schema] | None = None
    """None: that of the URDF's ``<mecanum>``."""
    roller_angle_deg: Annotated[float, ROLLER_ANGLE.schema] | None = None
    """None: that of the URDF's ``<mecanum>``, else 90."""


@dataclass(frozen=True)
class HolonomicSpec:
    """A base with any number of omni or mecanum wheels."""

    linear: LinearLimits
    angular: AngularLimits
    wheels: tuple[RollerWheel, ...] = ()
    """Complete in a loaded robot; empty in a file: the joints with ``<mecanum>``."""
    solver: Literal["kinematic", "qp"] = "kinematic"
    """``kinematic``: rolling without slip; ``qp``: the quadratic program of Isaac Sim."""
    max_wheel_velocity: Positive | None = None
    """Max velocity of any wheel [rad/s]; None: unlimited."""
    max_wheel_acceleration: Positive | None = None
    """Max acceleration of any wheel [rad/s^2]; None: unlimited."""
    footprint: Footprint = ()
    """Corners of the outline on the floor; empty: that of the collision geometry."""
    controller: BaseControllerName = ""
    """Name of the base's node, by which clients of ros2_controllers find it; empty: by the kind."""

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """All wheel joints, in the order of the file."""
        return tuple(wheel.joint for wheel in self.wheels)

    @property
    def steering_names(self) -> tuple[str, ...]:
        """None: the wheels steer by their velocities."""
        return ()


@dataclass(frozen=True)
class AckermannSpec:
    """Ackermann kinematics: one axle steered by a joint per wheel, or both against each other.

    An axle has two wheels, or one in its middle: a tricycle has a single steering joint, a bicycle
    one wheel on each axle.
    """

    wheelbase: Annotated[float, WHEELBASE.schema]
    front_wheel_radius: Annotated[float, WHEEL_RADIUS.schema]
    rear_wheel_radius: Annotated[float, WHEEL_RADIUS.schema]
    steering_joint_names: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=4)]
    """Steering joints, left one first, or one in the middle; positive angles steer left. Of two
    steered axles: front left, front right, rear left, rear right."""
    linear: LinearLimits
    angular: AngularLimits
    front_track_width: Annotated[float, TRACK_WIDTH.schema] | None = None
    """None: the front axle has a single wheel."""
    rear_track_width: Annotated[float, TRACK_WIDTH.schema] | None = None
    """None: the rear axle has a single wheel."""
    front_wheel_names: Pair = ()
    """Joints of driven front wheels, left one first, or one in the middle; empty: passive."""
    rear_wheel_names: Pair = ()
    """Joints of driven rear wheels, left one first, or one in the middle; empty: passive."""
    steered_axle: Literal["front", "rear", "both"] = "front"
    """The steered axle; ``both``: the rear wheels steer against the front ones, with four steering
    joints, so that the turning centre is beside the middle between the axles."""
    rear_steering_angles: Literal["rolling", "isaac"] = "rolling"
    """Left and right angle of a steered rear axle: ``rolling`` without slip, or ``isaac``: swapped,
    as in Isaac Sim's inverted steering."""
    max_steering_angle: SteeringAngle | None = None
    """Max steering angle of the virtual middle wheel [rad]; None: from the joint limits."""
    max_steering_velocity: Positive | None = None
    """Max rate of this angle [rad/s]; None: unlimited."""
    max_wheel_velocity: Positive | None = None
    """Max velocity of any wheel [rad/s]; None: unlimited."""
    max_wheel_acceleration: Positive | None = None
    """Max acceleration of any wheel [rad/s^2]; None: unlimited."""
    footprint: Footprint = ()
    """Corners of the outline on the floor; empty: that of the collision geometry."""
    controller: BaseControllerName = ""
    """Name of the base's node, by which clients of ros2_controllers find it; empty: by the kind."""

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """Driven wheel joints: front left, front right, rear left, rear right."""
        return self.front_wheel_names + self.rear_wheel_names

    @property
    def steering_names(self) -> tuple[str, ...]:
        """Steering joints, left one first, of the front axle before those of the rear one."""
        return self.steering_joint_names


BaseSpec = DifferentialSpec | HolonomicSpec | AckermannSpec


def controller_name(kind: str, base: BaseSpec) -> str:
    """Return the name of a base's controller: that of its description, else by its wheels."""
    if base.controller:
        return base.controller
    if isinstance(base, AckermannSpec) and len(base.steering_joint_names) == 1:
        return CONTROLLERS[kind][2 if len(base.wheel_names) == 1 else 1]
    return CONTROLLERS[kind][0]


BASE_SPECS: dict[str, type[BaseSpec]] = {
    "differential": DifferentialSpec,
    "holonomic": HolonomicSpec,
    "ackermann": AckermannSpec,
}
"""Class of the block ``base`` for each kind of robot."""
