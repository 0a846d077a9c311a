# SPDX-License-Identifier: Apache-2.0
"""Objects as leaves: the primitive pieces that the kernels test spheres against.

Most solids are one leaf, and the test is exact. A convex mesh consists of the triangles of its hull
and one leaf for its inside, and is exact as well. Any other mesh consists of its triangles and, if
closed, of boxes that fill its inside: spheres of at least ``FILLING`` of the mesh's size inside it
are always detected.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np

from motion_nodes.kernels.collision.collision_memory import BOX, PLANES, TRIANGLE
from motion_nodes.scene.mesh_distance import Surface, surface_of
from motion_nodes.scene.scene import Part
from motion_nodes.scene.shapes import Solid, TriangleMesh
from motion_nodes.scene.solid_types import type_of
from motion_nodes.scene.voxels import Voxels
from motion_nodes.typing import Array

FILLING = 1.0 / 16.0
"""Edge of the cells that fill a closed mesh, relative to its longest side. A sphere with a radius
of sqrt(3) cells cannot be inside without touching a box or the surface."""
_UNMOVED = np.eye(4)


@dataclass(frozen=True, eq=False)
class Leaves:
    """Leaves of an object, in the object's frame."""

    kind: Array
    """Kind of each leaf, shape (k,)."""
    X_OL: Array
    """Pose of each leaf, shape (k, 4, 4)."""
    size: Array
    """See ``collision_memory.PARAMETERS``, shape (k, 3)."""
    planes: Array
    """Planes of the leaves of that kind, shape (p, 4)."""
    middle: Array
    """Centre of the bounding box of the leaf's core, in the leaf's frame [m], shape (k, 3)."""
    half: Array
    """Half edges of that box [m], shape (k, 3)."""
    rounding: Array
    """Rounding radius of the leaf [m], shape (k,)."""
    disc: Array
    """Radius of the disc swept along z [m], shape (k,)."""


def leaves_of(parts: tuple[Part, ...]) -> Leaves:
    """Return the leaves of an object's parts."""
    return joined([_placed(_leaves_of(part.solid), part.X_OS) for part in parts])


def joined(all_leaves: list[Leaves]) -> Leaves:
    """Return the leaves of several parts as one; planes keep their positions."""
    if len(all_leaves) == 1:
        return all_leaves[0]
    start, sizes = 0, []
    for leaves in all_leaves:
        size = leaves.size.copy()
        size[leaves.kind == PLANES, 0] += start
        sizes.append(size)
        start += len(leaves.planes)

    def stacked(name: str) -> Array:
        return np.concatenate([getattr(leaves, name) for leaves in all_leaves])

    names = ("planes", "middle", "half", "rounding", "disc")
    return Leaves(
        stacked("kind"), stacked("X_OL"), np.concatenate(sizes), *(stacked(n) for n in names)
    )


def _placed(leaves: Leaves, X: Array) -> Leaves:
    if (X == _UNMOVED).all():
        return leaves
    planes = leaves.planes @ np.eye(4)
    if len(planes):
        planes[:, :3] = planes[:, :3] @ X[:3, :3].T
        planes[:, 3] += planes[:, :3] @ X[:3, 3]
    rest = (leaves.middle, leaves.half, leaves.rounding, leaves.disc)
    return Leaves(leaves.kind, X @ leaves.X_OL, leaves.size, planes, *rest)


_known: weakref.WeakKeyDictionary[Solid, Leaves] = weakref.WeakKeyDictionary()


def _leaves_of(solid: Solid) -> Leaves:
    known = _known.get(solid)
    if known is None:
        known = _known[solid] = _made(solid)
    return known


def _made(solid: Solid) -> Leaves:
    if isinstance(solid, TriangleMesh):
        return _mesh(solid)
    return _boxes(solid.boxes) if isinstance(solid, Voxels) else _one(solid)


def _boxes(boxes: Array) -> Leaves:
    """Return boxes as leaves; min and max corners [m], shape (b, 2, 3)."""
    X = np.tile(np.eye(4), (len(boxes), 1, 1))
    X[:, :3, 3] = 0.5 * (boxes[:, 0] + boxes[:, 1])
    half = 0.5 * (boxes[:, 1] - boxes[:, 0])
    return _leaves(np.full(len(boxes), BOX), X, half, half=half)


def _one(solid: Solid) -> Leaves:
    known = type_of(solid)
    rounding = known.rounding(solid) if known.bounded else np.inf
    return _leaves(
        np.array([known.kind]),
        np.eye(4)[None],
        known.padded_sizes(solid)[None],
        half=np.array([known.half(solid)], float),
        rounding=np.array([rounding]),
        disc=np.array([known.disc(solid)]),
    )


def _leaves(
    kind: Array,
    X: Array,
    size: Array,
    *,
    half: Array,
    middle: Array | None = None,
    rounding: Array | None = None,
    disc: Array | None = None,
    planes: Array | None = None,
) -> Leaves:
    count = len(kind)
    zeros = np.zeros(count)
    return Leaves(
        kind,
        X,
        size,
        np.empty((0, 4)) if planes is None else planes,
        np.zeros((count, 3)) if middle is None else middle,
        half,
        zeros if rounding is None else rounding,
        zeros if disc is None else disc,
    )


def _mesh(mesh: TriangleMesh) -> Leaves:
    surface = surface_of(mesh)
    pieces = [_triangles(surface.corners)]
    if surface.planes is not None:
        low, high = surface.corners.min(axis=(0, 1)), surface.corners.max(axis=(0, 1))
        size = np.array([[0.0, len(surface.planes), 0.0]])
        middle, half = 0.5 * (low + high)[None], 0.5 * (high - low)[None]
        inside = _leaves(
            np.array([PLANES]),
            np.eye(4)[None],
            size,
            half=half,
            middle=middle,
            planes=surface.planes,
        )
        pieces.append(inside)
    else:
        boxes = filling_boxes(surface)
        if len(boxes):
            pieces.append(_boxes(boxes))
    return joined(pieces)


def _triangles(corners: Array) -> Leaves:
    """Return each triangle in its own frame: x along its first edge, z along its normal."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    normal = np.cross(b - a, c - a)
    x, z = b - a, normal
    x, z = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, z))
    y = np.cross(z, x)
    X = np.tile(np.eye(4), (len(corners), 1, 1))
    X[:, :3, 0], X[:, :3, 1], X[:, :3, 2], X[:, :3, 3] = x, y, z, a
    along, across = (np.einsum("ti,ti->t", c - a, v) for v in (x, y))
    size = np.column_stack((np.linalg.norm(b - a, axis=1), along, across))
    low = np.minimum(0.0, along)
    high = np.maximum(size[:, 0], along)
    zero = np.zeros(len(corners))
    middle = np.column_stack((0.5 * (low + high), 0.5 * across, zero))
    half = np.column_stack((0.5 * (high - low), 0.5 * across, zero))
    return _leaves(np.full(len(corners), TRIANGLE), X, size, half=half, middle=middle)


def filling_boxes(surface: Surface) -> Array:
    """Return boxes inside a closed surface, merged from cells whose centres are inside.

    Returns:
        Min and max corner [m], shape (b, 2, 3); none for a surface that is not closed.
    """
    if not surface.closed:
        return np.empty((0, 2, 3))
    low, high = surface.corners.min(axis=(0, 1)), surface.corners.max(axis=(0, 1))
    edge = FILLING * float((high - low).max())
    counts = np.maximum(1, np.ceil((high - low) / edge)).astype(int)
    size = (high - low) / counts
    axes = [low[k] + (np.arange(counts[k]) + 0.5) * size[k] for k in range(3)]
    # Only cells that the surface does not cross; others would exceed the solid.
    crossed = surface.near_grid(*axes, distance=0.5 * float(np.linalg.norm(size)))
    cells = surface.inside_grid(*axes) & ~crossed
    boxes = []
    for i, j in np.argwhere(cells.any(axis=2)):
        steps = np.flatnonzero(np.diff(np.concatenate(([0], cells[i, j].astype(int), [0]))))
        for first, last in steps.reshape(-1, 2):
            corner = low + np.array([i, j, first]) * size
            boxes.append((corner, low + np.array([i + 1, j + 1, last]) * size))
    return np.array(boxes).reshape(-1, 2, 3)
