# SPDX-License-Identifier: Apache-2.0
"""Solid shapes of the world, in their own frames; objects store the poses of their shapes.

Boxes, spheres and cylinders are those of :mod:`motion_nodes.core.robot.tree`, so that a link's
geometry is a valid shape of the world.

Further types of solids are registered with their properties. The distance itself is a formula of
:mod:`motion_nodes.kernels.formulas.shapes`. A mesh has no row: it consists of triangles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.robot.bounds import EARTH_LENGTH
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere, frozen
from motion_nodes.core.scene.voxels import Voxels
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.kernels.collision.collision_memory import (
    BOX,
    CAPSULE,
    CONE,
    CYLINDER,
    HALF_SPACE,
    KINDS,
    SPHERE,
    add_kind,
    remove_kind,
)
from motion_nodes.kernels.formulas.shapes import ShapeFormula
from motion_nodes.typing import Array

Hull = tuple[Array, float]
"""Points, shape (p, 3), and the radius around their convex hull [m]."""
_NONE = (0.0, 0.0, 0.0)


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
    """Raise an error for no shape, or one whose sizes are not positive, or implausibly large.

    Raises:
        InvalidCommand: names the shape, the size and its value.
    """
    if isinstance(solid, TriangleMesh):
        arrays = (solid.vertices, solid.triangles)
        # Validated meshes are read-only.
        if not all(isinstance(a, np.ndarray) and not a.flags.writeable for a in arrays):
            triangle_mesh(*arrays)
        return
    if isinstance(solid, Voxels):
        return
    type_of(solid)
    for name, value in _sizes(solid):
        if not (isinstance(value, Real) and 0.0 < float(value) <= EARTH_LENGTH.max):
            kind = type(solid).__name__.lower()
            raise InvalidCommand(
                f"{where}: {name} of a {kind} is {value!r} m; it must be above 0, at most "
                f"{EARTH_LENGTH.max:g}."
            )


def _sizes(solid: Any) -> list[tuple[str, Any]]:
    if isinstance(solid, Box):
        edges = [*np.atleast_1d(np.array(solid.size, object)), None, None][:3]
        return [(f"size {axis}", x) for axis, x in zip("xyz", edges, strict=True)]
    return [(item.name, getattr(solid, item.name)) for item in fields(solid)]


@dataclass(frozen=True)
class SolidType:
    """One type of solid; all functions take the solid."""

    kind: int
    """Kind of its leaf."""
    sizes: Callable[[Any], Sequence[float]]
    """Up to three sizes of its formula [m], or all three and a rounding radius."""
    half: Callable[[Any], Sequence[float]]
    """Half edges of the bounding box of its core, which is centred on its frame, without the disc
    below [m]."""
    disc: Callable[[Any], float] = lambda solid: 0.0
    """Radius of a disc that is swept along z, for tighter boxes of turned solids [m]."""
    hulls: Callable[[Any], Sequence[Hull]] | None = None
    """Rounded convex hulls that together contain the solid, for exact checks; None for types that
    these support directly."""

    @property
    def shape(self) -> ShapeFormula:
        """Formula of its distance."""
        return KINDS[self.kind]

    def padded_sizes(self, solid: Any) -> tuple[float, ...]:
        """Return the three sizes that the formula receives [m].

        Raises:
            InvalidConfig: the type was registered with more sizes than a formula receives.
        """
        sizes = [float(x) for x in self.sizes(solid)]
        most = 4 if self.shape.rounding == 3 else 3
        if len(sizes) > most:
            raise InvalidConfig(
                f"the shape '{self.shape.name}' has {len(sizes)} sizes; a formula receives at most "
                "3, and the rounding radius may be a fourth (rounding=3)."
            )
        return (*sizes, *_NONE)[:3]

    @property
    def bounded(self) -> bool:
        """Whether the solid is bounded."""
        return self.kind != HALF_SPACE

    def rounding(self, solid: Any) -> float:
        """Return the radius around the core [m]."""
        at = self.shape.rounding
        return 0.0 if at is None else float(self.sizes(solid)[at])

    def bounding_radius(self, solid: Any) -> float:
        """Return the radius of the sphere about the frame that contains the solid [m]."""
        if not self.bounded:
            return math.inf
        return math.hypot(*self.half(solid), self.disc(solid)) + self.rounding(solid)

    def half_box(self, solid: Any) -> Array:
        """Return the half edges of the bounding box [m], shape (3,)."""
        disc = self.disc(solid)
        return np.add(self.half(solid), [disc, disc, 0.0]) + self.rounding(solid)


TYPES: dict[type, SolidType] = {
    Sphere: SolidType(SPHERE, lambda s: (s.radius,), lambda s: _NONE),
    Box: SolidType(BOX, lambda s: [0.5 * x for x in s.size], lambda s: [0.5 * x for x in s.size]),
    Capsule: SolidType(
        CAPSULE, lambda s: (s.radius, 0.5 * s.length), lambda s: (0.0, 0.0, 0.5 * s.length)
    ),
    Cylinder: SolidType(
        CYLINDER,
        lambda s: (s.radius, 0.5 * s.length),
        lambda s: (0.0, 0.0, 0.5 * s.length),
        disc=lambda s: float(s.radius),
    ),
    Cone: SolidType(
        CONE,
        lambda s: (s.radius, 0.5 * s.height, 1.0 / math.hypot(s.radius, s.height)),
        lambda s: (0.0, 0.0, 0.5 * s.height),
        disc=lambda s: float(s.radius),
    ),
    HalfSpace: SolidType(HALF_SPACE, lambda s: (), lambda s: _NONE),
}
"""The types that are not meshes."""


def type_of(solid: Any) -> SolidType:
    """Return the properties of the type of a solid.

    Raises:
        InvalidCommand: a mesh, or a type that is not registered.
    """
    known = TYPES.get(type(solid))
    if known is None:
        names = ", ".join(kind.__name__ for kind in TYPES)
        raise InvalidCommand(
            f"{type(solid).__name__} is not a supported shape; use one of {names}, a triangle "
            "mesh, or register_solid()."
        )
    return known


def bounding_radius(solid: Solid) -> float:
    """Return the radius of the sphere about the shape's frame that contains it [m].

    Inf for the ground.
    """
    if isinstance(solid, TriangleMesh):
        return float(np.linalg.norm(solid.vertices, axis=1).max())
    if isinstance(solid, Voxels):
        return float(np.linalg.norm(np.abs(solid.boxes).max(axis=1), axis=1).max())
    return type_of(solid).bounding_radius(solid)


def register_solid(
    solid: type,
    shape: ShapeFormula,
    *,
    sizes: Callable[[Any], Sequence[float]],
    half: Callable[[Any], Sequence[float]],
    hulls: Callable[[Any], Sequence[Hull]],
) -> None:
    """Register a type of solid for scenes, collision checks, exact checks and RMPflow.

    Call it when the module of the solid is imported, before any checker or policy is created.

    Args:
        solid: a frozen, hashable class; its numbers must be positive, like those of the others.
        shape: formula of its distance.
        sizes: function of a solid: up to three sizes for the formula [m]; a fourth is its rounding
            radius, if that of the shape is number 3.
        half: function of a solid: half edges of a box about its frame that contains the core [m].
        hulls: function of a solid: convex hulls of points with radii that together contain it.

    Raises:
        InvalidConfig: the type, or another shape with this name, is already registered; the
            rounding radius is none of the sizes.
    """
    if shape.rounding not in (None, 0, 1, 2, 3):
        raise InvalidConfig(
            f"rounding of the shape '{shape.name}' is {shape.rounding!r}; it must be the index of "
            "one of up to four sizes, 0 to 3, or None."
        )
    known = TYPES.get(solid)
    if known is not None and known.shape != shape:
        raise InvalidConfig(f"{solid.__name__} is already registered as '{known.shape.name}'.")
    TYPES[solid] = SolidType(add_kind(shape), sizes, half, hulls=hulls)


def unregister_solid(solid: type) -> None:
    """Undo :func:`register_solid`; invalidates existing checkers and policies."""
    known = TYPES.get(solid)
    if known is not None and known.hulls is not None:
        remove_kind(TYPES.pop(solid).kind)


def is_registered(solid: Any) -> bool:
    """Return whether the type of a solid was registered from outside."""
    known = TYPES.get(type(solid))
    return known is not None and known.hulls is not None


def hull_meshes(solid: Any) -> tuple[TriangleMesh, ...]:
    """Return convex meshes that together contain a solid of a registered type, in its frame.

    For formats that know neither the type nor its formula: messages, pages, simulations.

    Raises:
        InvalidCommand: the type is not registered with hulls.
    """
    known = TYPES.get(type(solid))
    if known is None or known.hulls is None:
        raise InvalidCommand(f"a {type(solid).__name__} has no surface; use a mesh of it.")
    meshes = []
    for points, radius in known.hulls(solid):
        cloud = np.asarray(points, float)
        if radius:
            cloud = (cloud[:, None, :] + radius * _ROUND).reshape(-1, 3)
        meshes.append(triangle_mesh(*convex_hull(cloud), convex=True))
    return tuple(meshes)


def convex_hull(points: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return the surface of the convex hull of points.

    Args:
        points: not in one plane, shape (n, 3).

    Returns:
        The corners, shape (v, 3), and triangles that face outward, shape (t, 3).
    """
    # Imported on use: it takes almost a second, and few processes need it.
    from scipy.spatial import ConvexHull

    hull = ConvexHull(points)
    used, numbers = np.unique(hull.simplices, return_inverse=True)
    vertices, triangles = points[used], numbers.reshape(hull.simplices.shape)
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    turned = np.einsum("ti,ti->t", np.cross(b - a, c - a), hull.equations[:, :3]) < 0.0
    triangles[turned] = triangles[turned][:, [0, 2, 1]]
    return vertices, triangles


def spiral_directions(count: int) -> Array:
    """Return unit vectors spread evenly over the sphere by a golden spiral, shape (count, 3)."""
    k = np.arange(count)
    z = 1.0 - (2.0 * k + 1.0) / count
    r, turn = np.sqrt(1.0 - z * z), _GOLDEN * k
    return np.stack([r * np.cos(turn), r * np.sin(turn), z], axis=1)


_GOLDEN = np.pi * (3.0 - np.sqrt(5.0))
"""Golden angle [rad]."""
_ROUND = spiral_directions(96) / 0.96
"""Vectors whose convex hull contains the unit sphere; that of the directions has radius 0.961."""
