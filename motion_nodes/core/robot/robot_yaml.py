# SPDX-License-Identifier: Apache-2.0
"""Schema of robot.yaml: one frozen dataclass per block, strictly decoded.

The classes define fields, types and bounds; :mod:`motion_nodes.core.robot.robot_builder` checks the
consistency with the URDF.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta

from motion_nodes.core.robot.base_description import Name, NotNegative, Positive

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
    """The wheeled base as in the file, see :mod:`motion_nodes.core.robot.base_description`; None:
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
