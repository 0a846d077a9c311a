# SPDX-License-Identifier: Apache-2.0
"""Reader of scene files (YAML), for planning without ROS.

``core/scene/world.py`` creates the scene.

    objects:
      table: {box: [0.6, 1.0, 0.04], position: [0.5, 0.0, 0.2]}
      post: {cylinder: {radius: 0.04, length: 0.6}, position: [0.4, 0.2, 0.3], rpy: [0, 0.1, 0]}
      ball: {sphere: 0.08, position: [0.3, -0.4, 0.5]}
      rail: {capsule: {radius: 0.03, length: 0.5}, position: [0.6, 0, 0.6], quat_xyzw: [0, 1, 0, 1]}
      part: {mesh: part.stl, scale: [0.001, 0.001, 0.001], position: [0.4, 0.0, 0.3]}
      floor: {ground: true, position: [0.0, 0.0, -0.01]}

Lengths are in metres, angles in radians, poses in the robot's base frame. Boxes have full edge
lengths; ground is the half space z < 0 of its frame.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from motion_nodes.core.robot.base_description import Name, Positive
from motion_nodes.core.robot.yaml_schema import decode, read_yaml
from motion_nodes.errors import InvalidDescription

_Three = tuple[float, float, float]


@dataclass(frozen=True)
class RoundEntry:
    """A cylinder or capsule about its z axis."""

    radius: Positive
    """[m]"""
    length: Positive
    """Length along z [m]; that of a capsule excludes its hemispheres."""


@dataclass(frozen=True)
class ObjectEntry:
    """An object: exactly one shape, and its pose."""

    box: tuple[Positive, Positive, Positive] | None = None
    sphere: Positive | None = None
    """Radius [m]."""
    cylinder: RoundEntry | None = None
    capsule: RoundEntry | None = None
    mesh: Name | None = None
    """STL or OBJ file, relative to the scene file's folder."""
    ground: Literal[True] | None = None
    scale: _Three = (1.0, 1.0, 1.0)
    """Scale of a mesh along x, y, z."""
    position: _Three = (0.0, 0.0, 0.0)
    """[m]"""
    rpy: _Three | None = None
    """Roll, pitch, yaw [rad]."""
    quat_xyzw: tuple[float, float, float, float] | None = None

    @property
    def shape(self) -> str:
        """Field name of the given shape."""
        return next(name for name in SHAPES if getattr(self, name) is not None)


SHAPES = tuple(field.name for field in fields(ObjectEntry))[:6]


@dataclass(frozen=True)
class SceneEntry:
    """A complete file."""

    objects: Annotated[dict[Name, ObjectEntry], Meta(min_length=0)]


def read_scene_file(file: Path | str) -> SceneEntry:
    """Read a file.

    Raises:
        InvalidDescription: the file cannot be read, is not YAML, or a field is missing, unknown or
            out of range; names file and field.
    """
    scene = decode(read_yaml(Path(file)), SceneEntry, str(file))
    for name, entry in scene.objects.items():
        given = [shape for shape in SHAPES if getattr(entry, shape) is not None]
        place = f"{file}: objects.{name}"
        if len(given) != 1:
            raise InvalidDescription(
                f"{place}: needs one shape of {', '.join(SHAPES)}; given: "
                f"{' and '.join(given) or 'none'}."
            )
        if entry.rpy is not None and entry.quat_xyzw is not None:
            raise InvalidDescription(
                f"{place}: has rpy and quat_xyzw; give one of them, or neither."
            )
        if entry.quat_xyzw is not None and sum(x * x for x in entry.quat_xyzw) < 1e-12:
            raise InvalidDescription(f"{place}.quat_xyzw is zero; the identity is [0, 0, 0, 1].")
    return scene
