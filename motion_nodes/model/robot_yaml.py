# SPDX-License-Identifier: Apache-2.0
"""Schema of robot.yaml: frozen dataclasses, one per block, strictly decoded.

The classes define the fields, their types and bounds; consistency with the URDF is checked in
:mod:`motion_nodes.model.robot_builder`. Nothing here reads files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from motion_nodes.model.base_description import Name, NotNegative, Positive

Kind = Literal["arm", "differential", "holonomic", "ackermann", "floating"]
"""``arm``: a fixed base; ``floating``: a free one without wheels, such as a quadruped's."""
DriveMode = Literal["position", "velocity", "effort"]


@dataclass(frozen=True)
class FramesDescription:
    """Names of frames with a role."""

    base: Name
    """Reference link of the robot's poses."""
    tool: Name | None = None
    """Default tool link, if the robot has one."""
    odom: Name = "odom"
    """Frame of a mobile base's odometry; not a link of the URDF."""


@dataclass(frozen=True)
class GroupDescription:
    """Joints that are commanded and planned for together."""

    joints: Annotated[tuple[Name, ...], Meta(min_length=1)]
    """From base to tip, in the order of the URDF."""
    base: Name | None = None
    """First link of the chain, if the joints form one."""
    tip: Name | None = None
    """Last link of the chain, if the joints form one."""
    aliases: tuple[Name, ...] = ()
    """Alternative names of the group."""


@dataclass(frozen=True)
class LimitsDescription:
    """Limits that are not in a URDF, per joint; default: unlimited."""

    acceleration: dict[Name, Positive] = field(default_factory=dict)
    """Max acceleration [rad/s^2 or m/s^2]."""
    jerk: dict[Name, Positive] = field(default_factory=dict)
    """Max jerk [rad/s^3 or m/s^3]."""


@dataclass(frozen=True)
class DriveDescription:
    """Drives of some joints, on the robot and in the simulator.

    Control law: ``tau = stiffness (q* - q) + damping (v* - v) + effort``, limited to the URDF's
    effort. Each value is a list with one number per joint, or one number for all of them.
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
    """Coefficient of sliding friction; 0 for a caster modelled as a skid."""
    torsional_friction: NotNegative = 0.005
    """Coefficient of torsional friction about the contact normal [m]."""
    rolling_friction: NotNegative = 0.0001
    """Coefficient of rolling friction [m]."""


@dataclass(frozen=True)
class RollerDescription:
    """Passive rollers of omni or mecanum wheels in the physics simulation.

    They are not links of the URDF. Each is a barrel that is thickest in its middle and extends to
    the rolling radius of its wheel there; its axis follows from the wheel's roller angle.
    """

    wheels: Annotated[tuple[Name, ...], Meta(min_length=1)]
    """Joints of the wheels."""
    count: Annotated[int, Meta(ge=3, le=100)]
    """Number of rollers per wheel."""
    radius: Positive
    """Radius of a roller in its middle [m]."""
    mass: Positive
    """Mass of one roller [kg]; part of the wheel's mass in the URDF."""
    damping: NotNegative = 0.0
    """Viscous damping of a roller's bearing [N m s/rad]."""


@dataclass(frozen=True)
class LoopDescription:
    """A closed loop: points of two links that coincide in the physics simulation."""

    links: tuple[Name, Name]
    points: tuple[tuple[float, float, float], tuple[float, float, float]]
    """The point in the frame of each link [m]."""


@dataclass(frozen=True)
class SpringDescription:
    """A spring that acts on a joint."""

    stiffness: Positive
    """[N m/rad or N/m]"""
    rest: float = 0.0
    """Position without force [rad or m]."""


@dataclass(frozen=True)
class SimulationDescription:
    """Data for the physics engine that is not in a URDF."""

    timestep: Annotated[float, Meta(gt=0.0, le=0.1)] = 0.002
    """Step of the physics [s]."""
    contact: dict[Name, ContactDescription] = field(default_factory=dict)
    """Contact properties by link; default: those of the engine."""
    rollers: tuple[RollerDescription, ...] = ()
    """Rollers of omni and mecanum wheels; a wheel without them is simulated as a plain one."""
    loops: tuple[LoopDescription, ...] = ()
    """Closed loops; joints in them without a drive are passive."""
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
    """Pairs that are closer than their spheres' excess in most configurations: excluded from sphere
    checks (search, RMPflow), verified with the exact geometry."""


@dataclass(frozen=True)
class LaserScannerDescription:
    """A planar laser scanner, which the physics simulation publishes."""

    link: Name
    """Link whose x axis is the direction of angle 0, and whose z axis the scans turn about."""
    topic: Name = "scan"
    """Topic in the robot's namespace."""
    rays: Annotated[int, Meta(ge=2, le=20000)] = 360
    """Number of readings of a scan."""
    angle_min: float = 0.0
    """Direction of the first reading [rad]."""
    angle_max: float = 6.265732014659643
    """Direction of the last reading [rad]."""
    range_min: NotNegative = 0.1
    """Min range [m]."""
    range_max: Annotated[float, Meta(gt=0.0, le=1000.0)] = 10.0
    """Max range [m]."""
    rate: Annotated[float, Meta(gt=0.0, le=100.0)] = 5.0
    """Scans per second."""
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
    """Settings of the driver, see :mod:`motion_nodes.hardware`."""


@dataclass(frozen=True)
class RobotDescription:
    """A complete robot.yaml."""

    format: Literal[1]
    name: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")]
    """Lower-case letters, digits and underscores, as in ROS names."""
    kind: Kind
    urdf: Name
    """File next to robot.yaml."""
    frames: FramesDescription
    base: dict[str, Any] | None = None
    """The mobile base as given in the file, see :mod:`motion_nodes.model.base_description`; none
    for an arm."""
    groups: dict[Name, GroupDescription] = field(default_factory=dict)
    limits: LimitsDescription = field(default_factory=LimitsDescription)
    named_states: dict[Name, dict[Name, float]] = field(default_factory=dict)
    """Joint positions [rad or m] by state; joints not listed are as in ``home``."""
    drives: tuple[DriveDescription, ...] = ()
    passive_joints: tuple[Name, ...] = ()
    """Joints without a drive, such as casters and free wheels: reported, never commanded."""
    simulation: SimulationDescription = field(default_factory=SimulationDescription)
    collision: CollisionDescription = field(default_factory=CollisionDescription)
    laser_scanners: tuple[LaserScannerDescription, ...] = ()
    """Laser scanners of the simulated robot."""
    hardware: HardwareDescription | None = None
    """Driver of the real robot; None: another program drives it."""
    sources: dict[Name, Name] = field(default_factory=dict)
    """Sources of numbers: dotted path of a field, or of a block, -> source."""
