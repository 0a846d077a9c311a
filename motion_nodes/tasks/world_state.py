# SPDX-License-Identifier: Apache-2.0
"""World state of a task: objects with poses and shapes, places, and what is held."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.tree import Box, Cylinder, Sphere, frozen
from motion_nodes.typing import Array

Shape = Box | Cylinder | Sphere

_NUMBER = r"-?[0-9]{1,3}(?:\.[0-9]{1,9})?"
POINT_PATTERN = rf"^{_NUMBER},{_NUMBER}(?:,{_NUMBER})?$"
"""Text of a point as location: x,y or x,y,z [m]."""
STAND_OFF = 0.65
"""Default distance from which a mobile base reaches an object [m]."""
MAX_POINT = 100.0
"""Max coordinate of a point [m]."""


def point_of(text: str) -> tuple[float, ...] | None:
    """Return the point of a location; None for a name.

    Args:
        text: such as ``0.4,-0.2`` or ``0.4,-0.2,0.1``.

    Returns:
        x, y, and z if it is given, in the base frame [m].
    """
    if not re.fullmatch(POINT_PATTERN, text):
        return None
    point = tuple(map(float, text.split(",")))
    return point if max(map(abs, point)) <= MAX_POINT else None


def half_extents(shape: Shape) -> Array:
    """Return half the sizes of a shape's bounding box in its own frame [m], shape (3,)."""
    if isinstance(shape, Box):
        return 0.5 * np.asarray(shape.size, dtype=np.float64)
    if isinstance(shape, Cylinder):
        return np.array([shape.radius, shape.radius, 0.5 * shape.length])
    return np.full(3, float(shape.radius))


@dataclass(frozen=True, eq=False)
class SurfaceMesh:
    """Closed surface of a solid."""

    vertices: Array
    """[m], shape (n, 3)"""
    triangles: NDArray[np.integer[Any]]
    """Indices of vertices, counterclockwise from outside, shape (m, 3)."""


@dataclass(frozen=True, eq=False)
class ObjectState:
    """One object, as last observed."""

    name: str
    X_WO: Array
    """Pose of its shape's centre in the world, shape (4, 4)."""
    shape: Shape
    """Shape with its sizes [m]."""
    stamp: float = 0.0
    """Time of the observation [s]."""
    movable: bool = True
    """Whether the robot may pick it."""
    parts: tuple[tuple[Shape, Array], ...] = ()
    """Shapes of a compound object with their poses in it; empty: its shape alone."""
    mesh: SurfaceMesh | None = None
    """Surface in the frame of its shape, which is then its bounding box."""
    color: str = ""
    """Name of its color, such as ``red``; empty if it is not known."""

    def __post_init__(self) -> None:
        """Check the pose."""
        pose = np.asarray(self.X_WO, dtype=np.float64)
        if pose.shape != (4, 4) or not np.isfinite(pose).all():
            raise InvalidCommand(f"the pose of object '{self.name}' is not finite")
        object.__setattr__(self, "X_WO", frozen(pose))

    @property
    def solids(self) -> tuple[ObjectState, ...]:
        """Its parts as objects, itself if it is no compound."""
        if not self.parts:
            return (self,)
        return tuple(
            replace(self, X_WO=self.X_WO @ X_OS, shape=shape, parts=(), mesh=None)
            for shape, X_OS in self.parts
        )

    @property
    def top(self) -> float:
        """Height of its highest point in the world [m]."""
        return float(self.X_WO[2, 3] + self._vertical_extent())

    @property
    def bottom(self) -> float:
        """Height of its lowest point in the world [m]."""
        return float(self.X_WO[2, 3] - self._vertical_extent())

    def _vertical_extent(self) -> float:
        if isinstance(self.shape, Sphere):
            return float(self.shape.radius)
        axis = self.X_WO[2, :3]
        if isinstance(self.shape, Cylinder):
            flat = float(np.hypot(axis[0], axis[1]))
            return float(0.5 * self.shape.length * abs(axis[2]) + self.shape.radius * flat)
        return float(np.abs(axis) @ half_extents(self.shape))


@dataclass(frozen=True)
class WorldState:
    """Immutable; observations and effects return new states."""

    objects: Mapping[str, ObjectState] = field(default_factory=dict)
    """Known objects by name, including the held one."""
    places: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    """Named poses of a mobile base in the world: x, y [m], yaw [rad]."""
    held: str | None = None
    """Name of the held object."""
    grip_unsure: bool = False
    """Whether the fingers were interrupted, or failed, while they closed or opened on it."""
    has_base: bool = False
    """Whether the robot has a mobile base."""
    stand_off: float = STAND_OFF
    """Distance from which a mobile base reaches an object [m]."""

    def holding(self, name: str | None) -> WorldState:
        """Return the state with another held object."""
        return replace(self, held=name, grip_unsure=False)

    def observed(self, objects: Mapping[str, ObjectState]) -> WorldState:
        """Return the state after an observation, which replaces all objects."""
        return replace(self, objects=dict(objects))

    @property
    def locations(self) -> tuple[str, ...]:
        """Names that may be a location."""
        return (*self.objects, *self.places)
