# SPDX-License-Identifier: Apache-2.0
"""XRDF, the Extended Robot Description Format: planning data in addition to a URDF.

An :class:`Xrdf` is also the common format of all conversions: Lula and cuRobo files are converted
to one (:mod:`~motion_nodes.model.files.lula`, :mod:`~motion_nodes.model.files.curobo`), and with a
URDF it becomes a robot (:mod:`~motion_nodes.model.import_robot`).

Source: the specification of the Extended Robot Description Format
(nvidia-isaac-ros.github.io/concepts/manipulation/xrdf.html) and, for 2.0, the files of cuMotion 1.1
(github.com/nvidia-isaac/cumotion).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import Meta

from motion_nodes.model.base_description import Name
from motion_nodes.model.robot import Sphere

_Three = tuple[float, float, float]
_Positive = Annotated[float, Meta(gt=0.0)]
SPHERES_GROUP = "collision_spheres"
"""Name of the sphere group of an XRDF converted from a format with a single group."""

Spheres = dict[str, tuple[Sphere, ...]]


@dataclass(frozen=True)
class Orientation:
    """A quaternion, normalized or not, but not zero."""

    w: float = 1.0
    xyz: _Three = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class FixedTransform:
    """Pose of an added frame in its parent."""

    position: _Three = (0.0, 0.0, 0.0)
    """[m]"""
    orientation: Orientation = Orientation()


@dataclass(frozen=True)
class AddFrame:
    """A frame added to the URDF."""

    frame_name: Name
    parent_frame_name: Name
    joint_name: Name
    """Name of the fixed joint between parent and frame."""
    joint_type: Literal["FIXED", "fixed"] = "FIXED"
    fixed_transform: FixedTransform = FixedTransform()


@dataclass(frozen=True)
class RemoveMimic:
    """A mimic joint of the URDF that becomes independent."""

    joint_name: Name
    position_limits: tuple[float, float]
    """Lower and upper position limit [rad or m]."""
    velocity_limit: _Positive
    """Velocity limit [rad/s or m/s]."""


@dataclass(frozen=True)
class Modifier:
    """One modification of the URDF: exactly one field is given."""

    add_frame: AddFrame | None = None
    set_base_frame: Name | None = None
    """The new root link; links that are not below it are removed."""
    remove_mimic_attributes: RemoveMimic | None = None


@dataclass(frozen=True)
class CSpace:
    """Planning joints; all others are fixed at their default positions."""

    joint_names: tuple[Name, ...]
    acceleration_limits: tuple[_Positive, ...]
    """Limit of each joint [rad/s^2 or m/s^2]; empty if another format has none."""
    jerk_limits: tuple[_Positive, ...]
    """Limit of each joint [rad/s^3 or m/s^3]; empty if another format has none."""


@dataclass(frozen=True)
class WorldCollision:
    """Geometry for collision checks with the world."""

    geometry: Name
    """Group of spheres."""
    buffer_distance: dict[Name, float] = field(default_factory=dict)
    """Distance added to the sphere radii of a link [m]."""


@dataclass(frozen=True)
class XrdfSelfCollision:
    """Geometry for self-collision checks."""

    geometry: Name
    buffer_distance: dict[Name, float] = field(default_factory=dict)
    ignore: dict[Name, tuple[Name, ...]] = field(default_factory=dict)
    """Excluded pairs of links: link -> others."""


@dataclass(frozen=True)
class SphereEntry:
    """A sphere in the frame of its link."""

    center: _Three
    """[m]"""
    radius: float
    """[m]"""


@dataclass(frozen=True)
class GeometryGroup:
    """Spheres by link, and other groups whose spheres are included."""

    spheres: dict[Name, tuple[SphereEntry, ...]] = field(default_factory=dict)
    clone: tuple[Name, ...] = ()


@dataclass(frozen=True)
class Xrdf:
    """A complete file."""

    cspace: CSpace
    modifiers: tuple[Modifier, ...] = ()
    default_joint_positions: dict[Name, float] = field(default_factory=dict)
    """Default positions by joint [rad or m]; missing ones: 0, or the closest limit."""
    tool_frames: tuple[Name, ...] = ()
    world_collision: WorldCollision | None = None
    self_collision: XrdfSelfCollision | None = None
    """Self-collision checks; None: none."""
    geometry: dict[Name, GeometryGroup] = field(default_factory=dict)

    def spheres(self, group: str) -> Spheres:
        """Return the spheres of a group by link, including those of cloned groups."""
        found: Spheres = {}
        for name in with_clones(self.geometry, group):
            for link, entries in self.geometry[name].spheres.items():
                spheres = tuple((*entry.center, entry.radius) for entry in entries)
                found[link] = found.get(link, ()) + spheres
        return found

    def ignored_pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the excluded pairs of links, each once, in the file's order."""
        ignore = {} if self.self_collision is None else self.self_collision.ignore
        found: dict[frozenset[str], tuple[str, str]] = {}
        for a, others in ignore.items():
            for b in others:
                if a != b:
                    found.setdefault(frozenset((a, b)), (a, b))
        return tuple(found.values())


@dataclass(frozen=True)
class FieldNames:
    """Field names in the file of an :class:`Xrdf`, for errors."""

    joints: str = "cspace.joint_names"
    home: str = "default_joint_positions"
    tools: str = "tool_frames"
    geometry: str = "geometry"
    base: str = "set_base_frame"
    frames: str = "add_frame"


def with_clones(geometry: dict[str, GeometryGroup], group: str) -> tuple[str, ...]:
    """Return a group and the groups that it clones, directly or not, each once."""
    found: list[str] = []
    waiting = [group]
    while waiting:
        name = waiting.pop(0)
        if name not in found and name in geometry:
            found.append(name)
            waiting += geometry[name].clone
    return tuple(found)
