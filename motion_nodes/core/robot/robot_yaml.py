# SPDX-License-Identifier: Apache-2.0
"""Schema of robot.yaml: one frozen dataclass per block, strictly decoded.

The classes define fields, types and bounds; :mod:`motion_nodes.core.robot.robot_builder` checks the
consistency with the URDF. The block ``base`` has one class for each kind of wheeled base, whose
geometry is also in settings of the core and of the nodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

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
Multiplier = Annotated[float, Meta(gt=0.0, le=10.0)]
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


@dataclass(frozen=True, kw_only=True)
class BaseSpec(ABC):
    """What robot.yaml gives for wheeled bases of any kind."""

    linear: LinearLimits
    angular: AngularLimits
    left_wheel_radius_multiplier: Multiplier = 1.0
    """Radius of the left wheels relative to wheel_radius."""
    right_wheel_radius_multiplier: Multiplier = 1.0
    """Radius of the right wheels relative to wheel_radius."""
    max_wheel_velocity: Positive | None = None
    """Max velocity of any wheel [rad/s]; None: unlimited."""
    max_wheel_acceleration: Positive | None = None
    """Max acceleration of any wheel [rad/s^2]; None: unlimited."""
    footprint: Footprint = ()
    """Corners of the outline on the floor; empty: that of the collision geometry."""
    controller: BaseControllerName = ""
    """Name of the base's node, by which clients of ros2_controllers find it; empty: by the kind."""

    @property
    @abstractmethod
    def wheel_names(self) -> tuple[str, ...]:
        """Joints of the driven wheels."""

    @property
    def steering_names(self) -> tuple[str, ...]:
        """Steering joints; empty: the wheels steer by their velocities."""
        return ()


@dataclass(frozen=True, kw_only=True)
class DifferentialSpec(BaseSpec):
    """A differential base; names as in ros2_controllers' diff_drive_controller."""

    left_wheel_names: Annotated[tuple[Name, ...], Meta(min_length=1)]
    """Joints of the left wheels."""
    right_wheel_names: Annotated[tuple[Name, ...], Meta(min_length=1)]
    """Joints of the right wheels."""
    wheel_radius: Annotated[float, WHEEL_RADIUS.schema]
    wheel_separation: Annotated[float, WHEEL_SEPARATION.schema]

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """All wheel joints, left ones first."""
        return self.left_wheel_names + self.right_wheel_names


@dataclass(frozen=True)
class RollerWheel:
    """An omni or mecanum wheel; its position and axis are those of the URDF."""

    joint: Name
    """Joint of the wheel."""
    radius: Annotated[float, ROLLER_WHEEL_RADIUS.schema] | None = None
    """None: that of the URDF's ``<mecanum>``."""
    roller_angle_deg: Annotated[float, ROLLER_ANGLE.schema] | None = None
    """None: that of the URDF's ``<mecanum>``, else 90."""


@dataclass(frozen=True, kw_only=True)
class HolonomicSpec(BaseSpec):
    """A base with any number of omni or mecanum wheels."""

    wheels: tuple[RollerWheel, ...] = ()
    """Complete in a loaded robot; empty in a file: the joints with ``<mecanum>``."""
    solver: Literal["kinematic", "qp"] = "kinematic"
    """``kinematic``: rolling without slip; ``qp``: the quadratic program of Isaac Sim."""

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """All wheel joints, in the order of the file."""
        return tuple(wheel.joint for wheel in self.wheels)


@dataclass(frozen=True, kw_only=True)
class AckermannSpec(BaseSpec):
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

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """Driven wheel joints: front left, front right, rear left, rear right."""
        return self.front_wheel_names + self.rear_wheel_names

    @property
    def steering_names(self) -> tuple[str, ...]:
        """Steering joints, left one first, of the front axle before those of the rear one."""
        return self.steering_joint_names


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


Kind = Literal["arm", "differential", "holonomic", "ackermann", "floating"]
"""``arm``: fixed base; ``floating``: floating base without wheels, such as a quadruped's."""
DriveMode = Literal["position", "velocity", "effort"]
DRIVE_MODES: tuple[DriveMode, ...] = get_args(DriveMode)


@dataclass(frozen=True)
class FramesDescription:
    """Names of special frames."""

    base: Name
    """Reference link of the robot's poses."""
    tool: Name | None = None
    """Default tool link; None: none."""
    odom: Name = "odom"
    """Frame of a mobile base's odometry; not a link of the URDF."""


@dataclass(frozen=True)
class GroupDescription:
    """Planning group: joints that are commanded together."""

    joints: Annotated[tuple[Name, ...], Meta(min_length=1)]
    """Joints from base to tip, in the order of the URDF."""
    base: Name | None = None
    """First link of the chain; None: not a chain."""
    tip: Name | None = None
    """Last link of the chain; None: not a chain."""
    aliases: tuple[Name, ...] = ()
    """Alternative names of the group."""


@dataclass(frozen=True)
class LimitsDescription:
    """Limits that a URDF does not contain, by joint; default: unlimited."""

    acceleration: dict[Name, Positive] = field(default_factory=dict)
    """Max acceleration [rad/s^2 or m/s^2]."""
    jerk: dict[Name, Positive] = field(default_factory=dict)
    """Max jerk [rad/s^3 or m/s^3]."""


@dataclass(frozen=True)
class DriveDescription:
    """Drives of some joints, on the robot and in the simulator.

    Control law: ``tau = stiffness (q* - q) + damping (v* - v) + effort``, limited to the effort
    limit of the URDF. Each value is a list with one number per joint, or one number for all joints.
    """

    joints: Annotated[tuple[Name, ...], Meta(min_length=1)]
    mode: DriveMode
    """Control mode after start; it selects the gains in effect."""
    stiffness: tuple[NotNegative, ...] | NotNegative = 0.0
    """Position gain [N m/rad or N/m]; used in position mode."""
    damping: tuple[NotNegative, ...] | NotNegative = 0.0
    """Velocity gain [N m s/rad or N s/m]; used in position and velocity mode."""
    armature: tuple[NotNegative, ...] | NotNegative = 0.0
    """Rotor and gear inertia reflected to the joint [kg m^2 or kg]."""
    kp: tuple[NotNegative, ...] | NotNegative = 0.0
    """Position gain of the suite's own PID, if it commands efforts [N m/rad or N/m]."""
    ki: tuple[NotNegative, ...] | NotNegative = 0.0
    """Integral gain of that PID [N m/(rad s) or N/(m s)]."""
    kd: tuple[NotNegative, ...] | NotNegative = 0.0
    """Velocity gain of that PID [N m s/rad or N s/m]."""


@dataclass(frozen=True)
class ContactDescription:
    """Contact properties of a link."""

    friction: NotNegative = 1.0
    """Coefficient of sliding friction; 0 for a caster modelled as a frictionless skid."""
    torsional_friction: NotNegative = 0.005
    """Coefficient of torsional friction about the contact normal [m]."""
    rolling_friction: NotNegative = 0.0001
    """Coefficient of rolling friction [m]."""


@dataclass(frozen=True)
class RollerDescription:
    """Passive rollers of omni or mecanum wheels in the physics simulation.

    They are not links of the URDF. A roller is a barrel whose middle reaches the rolling radius of
    the wheel; its axis follows from the wheel's roller angle.
    """

    wheels: Annotated[tuple[Name, ...], Meta(min_length=1)]
    """Joints of the wheels."""
    count: Annotated[int, Meta(ge=3, le=100)]
    """Number of rollers per wheel."""
    radius: Positive
    """Radius of a roller at its middle [m]."""
    mass: Positive
    """Mass of one roller [kg]; part of the wheel's mass in the URDF."""
    damping: NotNegative = 0.0
    """Viscous damping of a roller's bearing [N m s/rad]."""


@dataclass(frozen=True)
class LoopDescription:
    """A kinematic loop: points of two links that coincide in the physics simulation."""

    links: tuple[Name, Name]
    points: tuple[tuple[float, float, float], tuple[float, float, float]]
    """Position of the point in each link [m]."""


@dataclass(frozen=True)
class SpringDescription:
    """A spring at a joint."""

    stiffness: Positive
    """Stiffness [N m/rad or N/m]."""
    rest: float = 0.0
    """Position without force [rad or m]."""


@dataclass(frozen=True)
class SimulationDescription:
    """Data for the physics engine that a URDF does not contain."""

    timestep: Annotated[float, Meta(gt=0.0, le=0.1)] = 0.002
    """Time step of the physics engine [s]."""
    contact: dict[Name, ContactDescription] = field(default_factory=dict)
    """Contact properties by link; default: those of the engine."""
    rollers: tuple[RollerDescription, ...] = ()
    """Rollers of omni and mecanum wheels; wheels without rollers are plain wheels."""
    loops: tuple[LoopDescription, ...] = ()
    """Kinematic loops; their joints without a drive are passive."""
    springs: dict[Name, SpringDescription] = field(default_factory=dict)
    """Springs by joint."""


@dataclass(frozen=True)
class CollisionDescription:
    """Collision model for planning."""

    spheres: Name | None = None
    """File of collision spheres next to robot.yaml: link -> list of [x, y, z, radius] [m]."""
    ignore: tuple[tuple[Name, Name], ...] = ()
    """Pairs of links excluded from collision checks, in addition to adjacent ones."""
    ignore_spheres: tuple[tuple[Name, Name], ...] = ()
    """Pairs excluded from sphere checks (search, RMPflow), as their spheres overlap in most
    configurations; verified with the exact geometry."""


@dataclass(frozen=True)
class LaserScannerDescription:
    """A planar laser scanner, simulated by the physics simulation."""

    link: Name
    """Link of the scanner: angle 0 is its x axis, the scan rotates about its z axis."""
    topic: Name = "scan"
    """Topic in the robot's namespace."""
    rays: Annotated[int, Meta(ge=2, le=20000)] = 360
    """Number of rays of a scan."""
    angle_min: float = 0.0
    """Angle of the first ray [rad]."""
    angle_max: float = 6.265732014659643
    """Angle of the last ray [rad]."""
    range_min: NotNegative = 0.1
    """Min range [m]."""
    range_max: Annotated[float, Meta(gt=0.0, le=1000.0)] = 10.0
    """Max range [m]."""
    rate: Annotated[float, Meta(gt=0.0, le=100.0)] = 5.0
    """Scan rate [Hz]."""
    noise: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0
    """Standard deviation of the ranges [m]."""


@dataclass(frozen=True)
class HardwareDescription:
    """Driver of the real robot."""

    driver: Name
    """Name of the driver."""
    device: str = ""
    """Serial port, host name or address, unless it is given at the start."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the driver, see :mod:`motion_nodes.extras.hardware`."""


@dataclass(frozen=True)
class RobotDescription:
    """A complete robot.yaml."""

    format: Literal[1]
    name: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")]
    """Lower-case letters, digits and underscores, as in ROS names."""
    kind: Kind
    urdf: Name
    """File name of the URDF, in the folder of the robot.yaml."""
    frames: FramesDescription
    base: dict[str, Any] | None = None
    """The wheeled base as in the file, see :mod:`motion_nodes.core.robot.robot_yaml`; None:
    no wheels."""
    groups: dict[Name, GroupDescription] = field(default_factory=dict)
    limits: LimitsDescription = field(default_factory=LimitsDescription)
    named_states: dict[Name, dict[Name, float]] = field(default_factory=dict)
    """Joint positions [rad or m] by state; missing joints are as in ``home``."""
    drives: tuple[DriveDescription, ...] = ()
    passive_joints: tuple[Name, ...] = ()
    """Joints without a drive, such as casters and free wheels: measured, never commanded."""
    simulation: SimulationDescription = field(default_factory=SimulationDescription)
    collision: CollisionDescription = field(default_factory=CollisionDescription)
    laser_scanners: tuple[LaserScannerDescription, ...] = ()
    """Laser scanners of the simulated robot."""
    hardware: HardwareDescription | None = None
    """Driver of the real robot; None: another program drives it."""
    sources: dict[Name, Name] = field(default_factory=dict)
    """Sources of numbers: dotted path of a field, or of a block, -> source."""
