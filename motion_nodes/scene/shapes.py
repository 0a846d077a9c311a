# SPDX-License-Identifier: Apache-2.0
"""Solid shapes of the world, in their own frames; objects store the poses of their shapes.

Boxes, spheres and cylinders are those of :mod:`motion_nodes.model.tree`, so that a link's geometry
is a valid shape of the world.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.bounds import EARTH_LENGTH
from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.tree import Box, Cylinder, Sphere, frozen
from motion_nodes.scene.voxels import Voxels
from motion_nodes.typing import Array


@dataclass(frozen=True)
class Capsule:
    """A cylinder about the z axis with a half sphere on each end, centred on its frame."""

    radius: float
    """Radius [m]."""
    length: float
    """Length of the cylinder, without the half spheres [m]."""


@dataclass(frozen=True)
class Cone:
    """A cone about the z axis; its apex is at ``+height / 2``, its base at ``-height / 2``."""

    radius: float
    """Radius of the base [m]."""
    height: float
    """Distance from base to apex [m]."""


@dataclass(frozen=True)
class HalfSpace:
    """Everything below the plane z = 0 of its frame, such as the ground."""


@dataclass(frozen=True, eq=False)
class TriangleMesh:
    """A surface of triangles; created by :func:`triangle_mesh`, which validates it."""

    vertices: Array
    """Corners [m], shape (v, 3), read-only."""
    triangles: NDArray[np.int32]
    """Indices of corners, shape (t, 3), read-only."""
    convex: bool = False
    """True: the solid is the convex hull of the corners. False: the surface, and its inside if
    closed."""


Solid = Sphere | Box | Cylinder | Capsule | Cone | HalfSpace | TriangleMesh | Voxels
"""Any shape of the world."""


def triangle_mesh(vertices: ArrayLike, triangles: ArrayLike, convex: bool = False) -> TriangleMesh:
    """Return a validated mesh; degenerate triangles are dropped.

    Args:
        vertices: corners [m], shape (v, 3).
        triangles: indices of corners, shape (t, 3).
        convex: whether the solid is the convex hull of the corners.

    Raises:
        InvalidCommand: no triangle with an area, an invalid corner index, or a value that is not
            finite.
    """
    try:
        corners = np.asarray(vertices, dtype=np.float64).reshape(-1, 3)
        faces = np.asarray(triangles, dtype=np.int64).reshape(-1, 3)
    except (TypeError, ValueError) as error:
        raise InvalidCommand(
            "a mesh needs vertices of shape (v, 3), triangles of (t, 3)."
        ) from error
    if not (np.abs(corners) <= EARTH_LENGTH.max).all():
        raise InvalidCommand(
            f"a mesh has vertices that are not finite numbers of at most {EARTH_LENGTH.max:g} m."
        )
    if faces.size and (faces.min() < 0 or faces.max() >= len(corners)):
        bad = int(faces.max() if faces.max() >= len(corners) else faces.min())
        raise InvalidCommand(
            f"a mesh's triangle names vertex {bad}; it has {len(corners)} vertices."
        )
    a, b, c = (corners[faces[:, k]] for k in range(3))
    faces = faces[np.linalg.norm(np.cross(b - a, c - a), axis=1) > 0.0]
    if not len(faces):
        raise InvalidCommand(f"a mesh has no triangle with an area ({len(corners)} vertices).")
    kept = np.ascontiguousarray(faces, dtype=np.int32)
    kept.setflags(write=False)
    return TriangleMesh(frozen(corners), kept, convex)


def plane_pose(coefficients: Sequence[float], where: str) -> Array:
    """Return the pose of the :class:`HalfSpace` below a plane, shape (4, 4).

    Args:
        coefficients: a, b, c, d of the plane ``a x + b y + c z + d = 0`` with normal (a, b, c).
        where: the plane, for errors.

    Raises:
        InvalidCommand: coefficients that are not finite, or no normal.
    """
    a, b, c, d = (float(value) for value in coefficients)
    length = math.sqrt(a * a + b * b + c * c)
    if not (math.isfinite(length) and math.isfinite(d) and length > 0.0):
        raise InvalidCommand(
            f"{where} has the coefficients {[a, b, c, d]}; they must be finite, with a non-zero "
            "normal (first three)"
        )
    normal = np.array((a, b, c)) / length
    pitch = math.acos(max(-1.0, min(1.0, normal[2])))
    X = from_xyz_rpy(rpy=(0.0, pitch, math.atan2(normal[1], normal[0])))
    X[:3, 3] = -d / length * normal
    return X


def as_primitives(solid: Solid) -> tuple[tuple[Solid, Array], ...]:
    """Return a solid as shapes of formats without capsules, with their poses in ``solid``, (4, 4).

    A capsule becomes a cylinder and two spheres; other solids are returned unchanged.
    """
    if not isinstance(solid, Capsule):
        return ((solid, np.eye(4)),)
    ends = [from_xyz_rpy((0.0, 0.0, side * 0.5 * solid.length)) for side in (-1.0, 1.0)]
    middle = Cylinder(solid.radius, solid.length)
    return ((middle, np.eye(4)), *((Sphere(solid.radius), X) for X in ends))


def check_solid(solid: Solid, where: str = "a shape") -> None:
    """Raise an error for a shape whose sizes are not positive, or implausibly large.

    Raises:
        InvalidCommand: names the shape, the size and its value.
    """
    for name, value in _sizes(solid):
        if not 0.0 < value <= EARTH_LENGTH.max:
            kind = type(solid).__name__.lower()
            raise InvalidCommand(
                f"{where}: {name} of a {kind} is {value} m; it must be above 0, at most "
                f"{EARTH_LENGTH.max:g}."
            )


def _sizes(solid: Solid) -> list[tuple[str, float]]:
    if isinstance(solid, Box):
        return [(f"size {axis}", float(x)) for axis, x in zip("xyz", solid.size, strict=True)]
    if isinstance(solid, TriangleMesh | Voxels):
        return []
    return [(item.name, float(getattr(solid, item.name))) for item in fields(solid)]
