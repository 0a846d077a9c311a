# SPDX-License-Identifier: Apache-2.0
"""World state of a task: objects with poses and shapes, places, and what is held.

For grasps, and as a supporting surface, an object of meshes or several shapes is represented by its
bounding box in its own frame; next to a place, by its parts, each as its shape or its bounding box.
In the planning scene it keeps its shape.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere, frozen
from motion_nodes.core.scene.scene import Part, WorldObject, world_object
from motion_nodes.core.scene.shapes import TriangleMesh, type_of
from motion_nodes.core.scene.voxels import Voxels
from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array

Shape = Box | Cylinder | Sphere
_NUMBER = r"-?[0-9]{1,3}(?:\.[0-9]{1,9})?"
POINT_PATTERN = rf"^{_NUMBER},{_NUMBER}(?:,{_NUMBER})?$"
"""Text of a point as location: x,y or x,y,z [m]."""
STAND_OFF = 0.65
"""Default distance from which a mobile base reaches an object [m]."""
MAX_POINT = 100.0
"""Max coordinate of a point [m]."""
MIN_EDGE = 1e-3
"""Min edge of a bounding box [m]."""
MAX_TRIANGLES = 20_000
"""Max number of triangles of a mesh whose grasps are sampled; else its box is used."""
_SIGNS = np.stack(np.meshgrid(*[(-1.0, 1.0)] * 3), axis=-1).reshape(-1, 3)


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
    """Known objects by name, with the held one unless another client attached it."""
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


@dataclass(frozen=True, eq=False)
class CompositeObject:
    """Shape of an object, and its bounding box."""

    parts: tuple[Part, ...]
    box: Box
    X_OB: Array
    """Pose of the box's centre in the object, shape (4, 4)."""
    solids: tuple[tuple[Shape, Array], ...] = ()
    """Shapes of several parts, with their poses in the box, shape (4, 4); meshes as boxes."""
    mesh: SurfaceMesh | None = None
    """Surface of an object that is one mesh, in the box."""

    def at(self, name: str, X_WB: Array) -> WorldObject:
        """Return the object with its box at a pose, shape (4, 4)."""
        solids, poses = zip(*((part.solid, part.X_OS) for part in self.parts), strict=True)
        return world_object(name, solids, X_WB @ inverse(self.X_OB), poses=poses)

    def in_link(self, X_LB: Array) -> Array:
        """Return the pose of the object in a link, from that of its box, shape (4, 4)."""
        return np.asarray(X_LB @ inverse(self.X_OB))


def composite_of(item: WorldObject) -> CompositeObject | None:
    """Return an object with its bounding box; None if it has no bounds, or consists of voxels."""
    corners = [_corners(part) for part in item.parts]
    if any(points is None for points in corners):
        return None
    own = [points for points in corners if points is not None]
    box, X_OB = _bounds(np.concatenate([
        points @ part.X_OS[:3, :3].T + part.X_OS[:3, 3]
        for part, points in zip(item.parts, own, strict=True)
    ]))  # fmt: skip
    solids: list[tuple[Shape, Array]] = []
    for part, points in zip(item.parts, own, strict=True):
        X_BS = inverse(X_OB) @ part.X_OS
        if isinstance(part.solid, Box | Cylinder | Sphere):
            solids.append((part.solid, X_BS))
        else:
            shape, X_SC = _bounds(points)
            solids.append((shape, X_BS @ X_SC))
    if len(solids) > 1:
        return CompositeObject(item.parts, box, X_OB, tuple(solids))
    (part,), mesh = item.parts, None
    solid = part.solid
    if (
        isinstance(solid, TriangleMesh)
        and not solid.convex
        and len(solid.triangles) <= MAX_TRIANGLES
    ):
        X_BS = inverse(X_OB) @ part.X_OS
        mesh = SurfaceMesh(own[0] @ X_BS[:3, :3].T + X_BS[:3, 3], solid.triangles)
    return CompositeObject(item.parts, box, X_OB, mesh=mesh)


def _bounds(points: Array) -> tuple[Box, Array]:
    """Return the bounding box of points [m], shape (n, 3), and the pose of its centre, (4, 4)."""
    low, high = points.min(axis=0), points.max(axis=0)
    size = np.maximum(high - low, MIN_EDGE)
    return Box(tuple(size.tolist())), from_xyz_rpy(0.5 * (low + high), (0.0, 0.0, 0.0))


def _corners(part: Part) -> Array | None:
    """Return points of a part whose bounding box is that of the part, in its frame [m], (n, 3)."""
    solid = part.solid
    if isinstance(solid, TriangleMesh):
        return np.asarray(solid.vertices)
    if isinstance(solid, Voxels) or not type_of(solid).bounded:
        return None
    return np.asarray(_SIGNS * type_of(solid).half_box(solid))
