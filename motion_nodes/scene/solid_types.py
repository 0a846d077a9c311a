# SPDX-License-Identifier: Apache-2.0
"""Properties of each type of solid, and registration of further types.

The distance itself is a formula of :mod:`motion_nodes.kernels.formulas.shapes`. A mesh has no row:
it consists of triangles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.kernels.collision.collision_memory import (
    BOX,
    CAPSULE,
    CONE,
    CYLINDER,
    HALF_SPACE,
    SPHERE,
)
from motion_nodes.kernels.collision.shape_kinds import KINDS, add_kind, remove_kind
from motion_nodes.kernels.formulas.shapes import ShapeFormula
from motion_nodes.model.tree import Box, Cylinder, Sphere
from motion_nodes.scene.shapes import Capsule, Cone, HalfSpace, Solid, TriangleMesh
from motion_nodes.scene.voxels import Voxels
from motion_nodes.typing import Array

Hull = tuple[Array, float]
"""Points, shape (p, 3), and the radius around their convex hull [m]."""


@dataclass(frozen=True)
class SolidType:
    """One type of solid; all functions take the solid."""

    kind: int
    """Kind of its leaf."""
    sizes: Callable[[Any], Sequence[float]]
    """Up to three sizes of its formula [m]."""
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

    def padded_sizes(self, solid: Any) -> Array:
        """Return three sizes [m], shape (3,)."""
        sizes = [float(x) for x in self.sizes(solid)]
        return np.array([*sizes, 0.0, 0.0, 0.0][:3])

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


_NONE = (0.0, 0.0, 0.0)

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
        sizes: function of a solid: up to three sizes for the formula [m].
        half: function of a solid: half edges of a box about its frame that contains the core [m].
        hulls: function of a solid: convex hulls of points with radii that together contain it.

    Raises:
        InvalidConfig: the type, or another shape with this name, is already registered.
    """
    known = TYPES.get(solid)
    if known is not None and known.shape != shape:
        raise InvalidConfig(f"{solid.__name__} is already registered as '{known.shape.name}'.")
    TYPES[solid] = SolidType(add_kind(shape), sizes, half, hulls=hulls)


def unregister_solid(solid: type) -> None:
    """Undo :func:`register_solid`; invalidates existing checkers and policies."""
    known = TYPES.get(solid)
    if known is not None and known.hulls is not None:
        remove_kind(TYPES.pop(solid).kind)
