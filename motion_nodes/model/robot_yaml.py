# SPDX-License-Identifier: Apache-2.0
"""What stands in a robot.yaml: frozen dataclasses, one per block, strictly decoded.

The classes say which fields there are, their types and bounds; whether names agree with the URDF
is checked in :mod:`motion_nodes.model.robot_builder`. Text and numbers only: nothing here reads
files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from motion_nodes.model.base_description import Name, NotNegative, Positive

Kind = Literal["arm", "differential", "holonomic", "ackermann"]
DriveMode = Literal["position", "velocity", "effort"]


@dataclass(frozen=True)
class FramesDescription:
    """Names of frames that have a part to play."""

    base: Name
    """Link that the robot's poses are given in."""
    tool: Name | None = None
    """Link that tasks are given for, if the robot has one."""
    odom: Name = "odom"
    """Frame that a mobile base's odometry is given in; no link of the URDF."""


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
    """Other names under which clients know the group."""


@dataclass(frozen=True)
class LimitsDescription:
    """Limits that a URDF cannot say, per joint; a joint left out has none."""

    acceleration: dict[Name, Positive] = field(default_factory=dict)
    """Greatest acceleration [rad/s^2 or m/s^2]."""
    jerk: dict[Name, Positive] = field(default_factory=dict)
    """Greatest jerk [rad/s^3 or m/s^3]."""


@dataclass(frozen=True)
class DriveDescription:
    """How the drives of some joints behave, on the robot and in the simulator.

    Law: ``tau = stiffness (q* - q) + damping (v* - v) + effort``, limited to the URDF's effort.
    Each value is a list with one number per joint, or one number for all of them.
    """

    joints: Annotated[tuple[Name, ...], Meta(min_length=1)]
    mode: DriveMode
    """What the drive follows after start; it decides which gains act."""
    stiffness: tuple[NotNegative, ...] | NotNegative = 0.0
    """Position gain [N m/rad or N/m]; acts in position mode."""
    damping: tuple[NotNegative, ...] | NotNegative = 0.0
    """Velocity gain [N m s/rad or N s/m]; acts in position and velocity mode."""
    armature: tuple[NotNegative, ...] | NotNegative = 0.0
    """Inertia of rotor and gear as felt at the joint [kg m^2 or kg]."""
    kp: tuple[NotNegative, ...] | NotNegative = 0.0
    """Position gain of the suite's own PID, where it commands efforts [N m/rad or N/m]."""
    ki: tuple[NotNegative, ...] | NotNegative = 0.0
    """Integral gain of that PID [N m/(rad s) or N/(m s)]."""
    kd: tuple[NotNegative, ...] | NotNegative = 0.0
    """Velocity gain of that PID [N m s/rad or N s/m]."""


@dataclass(frozen=True)
class ContactDescription:
    """How a link touches others."""

    friction: NotNegative = 1.0
    """Coefficient of sliding friction; 0 for a caster that is modelled as a skid."""
    torsional_friction: NotNegative = 0.005
    """Coefficient of friction against turning about the contact normal [m]."""
    rolling_friction: NotNegative = 0.0001
    """Coefficient of friction against rolling [m]."""


@dataclass(frozen=True)
class RollerDescription:
    """The rollers on the rims of omni or mecanum wheels, which the physics sets turning.

    They are no links of the URDF. Each is a barrel that is thickest in its middle and reaches out
    to the rolling radius of its wheel there; its axis follows from the wheel's roller angle.
    """

    wheels: Annotated[tuple[Name, ...], Meta(min_length=1)]
    """Joints of the wheels."""
    count: Annotated[int, Meta(ge=3, le=100)]
    """Rollers on each wheel."""
    radius: Positive
    """Of a roller in its middle [m]."""
    mass: Positive
    """Of one roller [kg]; part of the wheel's mass in the URDF."""
    damping: NotNegative = 0.0
    """Viscous losses of a roller's bearing [N m s/rad]."""


@dataclass(frozen=True)
class SimulationDescription:
    """What a physics engine needs and a URDF cannot say."""

    timestep: Annotated[float, Meta(gt=0.0, le=0.1)] = 0.002
    """Step of the physics [s]."""
    contact: dict[Name, ContactDescription] = field(default_factory=dict)
    """Contact of a link by its name; others have the engine's usual one."""
    rollers: tuple[RollerDescription, ...] = ()
    """Rollers of omni and mecanum wheels; a wheel without them is simulated as a plain one."""


@dataclass(frozen=True)
class CollisionDescription:
    """Collision model for planning."""

    spheres: Name | None = None
    """File of collision spheres next to robot.yaml: link -> list of [x, y, z, radius] [m]."""
    ignore: tuple[tuple[Name, Name], ...] = ()
    """Pairs of links that are never checked; neighbours in the tree never are."""


@dataclass(frozen=True)
class RobotDescription:
    """A whole robot.yaml."""

    format: Literal[1]
    name: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")]
    """Lower-case letters, digits and underscores, as in ROS names."""
    kind: Kind
    urdf: Name
    """File next to robot.yaml."""
    frames: FramesDescription
    base: dict[str, Any] | None = None
    """The mobile base as the file has it, see :mod:`motion_nodes.model.base_description`; none for
    an arm."""
    groups: dict[Name, GroupDescription] = field(default_factory=dict)
    limits: LimitsDescription = field(default_factory=LimitsDescription)
    named_states: dict[Name, dict[Name, float]] = field(default_factory=dict)
    """Joint positions [rad or m] by state; joints left out stand as in ``home``."""
    drives: tuple[DriveDescription, ...] = ()
    passive_joints: tuple[Name, ...] = ()
    """Joints that no drive moves, such as casters and free wheels: reported, never commanded."""
    simulation: SimulationDescription = field(default_factory=SimulationDescription)
    collision: CollisionDescription = field(default_factory=CollisionDescription)
    sources: dict[Name, Name] = field(default_factory=dict)
    """Where numbers come from: dotted path of a field, or of a block, -> source."""
