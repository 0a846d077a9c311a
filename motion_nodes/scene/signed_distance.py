# SPDX-License-Identifier: Apache-2.0
"""Exact signed distances of points to solids, with directions; plain NumPy.

Slow compared with the generated kernels, and independent of them: the oracle of the tests, and the
fallback without generated code. Meshes are in :mod:`motion_nodes.scene.mesh_distance`.
"""

from __future__ import annotations

import numpy as np

from motion_nodes.model.tree import Array, Box, Cylinder, Sphere
from motion_nodes.scene.mesh_distance import mesh_distance
from motion_nodes.scene.shapes import Capsule, Cone, HalfSpace, Solid


def signed_distance(solid: Solid, points: Array) -> tuple[Array, Array]:
    """Return the signed distances of points to the surface of a solid, and their gradients.

    Args:
        solid: a shape.
        points: in the shape's frame [m], shape (m, 3).

    Returns:
        Distances, negative inside [m], shape (m,); unit vectors along which they increase, shape
        (m, 3). NaN for a point that is not finite.
    """
    if isinstance(solid, Sphere):
        return _from_core(points, points, solid.radius)
    if isinstance(solid, Capsule):
        half = 0.5 * solid.length
        core = points.copy()
        core[:, 2] -= np.clip(points[:, 2], -half, half)
        return _from_core(core, points, solid.radius)
    if isinstance(solid, Box):
        return _box(0.5 * np.asarray(solid.size), points)
    if isinstance(solid, Cylinder):
        return _of_revolution(points, np.array([solid.radius, 0.5 * solid.length]), None)
    if isinstance(solid, Cone):
        return _of_revolution(points, None, np.array([solid.radius, solid.height]))
    if isinstance(solid, HalfSpace):
        return points[:, 2].copy(), np.tile([0.0, 0.0, 1.0], (len(points), 1))
    return mesh_distance(solid, points)


def _from_core(offsets: Array, points: Array, radius: float) -> tuple[Array, Array]:
    """Return distances to a core with a rounding radius, given the offsets from the core."""
    length = np.linalg.norm(offsets, axis=1)
    away = length[:, None] > 0.0
    # On the core the direction is not unique: use x.
    direction = np.where(away, offsets / np.where(away, length[:, None], 1.0), [1.0, 0.0, 0.0])
    return length - radius, np.where(np.isfinite(points), direction, np.nan)


def _box(half: Array, points: Array) -> tuple[Array, Array]:
    """Return signed distances to a box with these half edges, in any dimension."""
    sign = np.where(points < 0.0, -1.0, 1.0)
    beyond = np.abs(points) - half
    outside = np.maximum(beyond, 0.0)
    length = np.linalg.norm(outside, axis=1)
    nearest_face = beyond.argmax(axis=1)
    inward = np.zeros_like(points)
    inward[np.arange(len(points)), nearest_face] = 1.0
    apart = length[:, None] > 0.0
    direction = np.where(apart, outside / np.where(apart, length[:, None], 1.0), inward)
    return np.where(apart[:, 0], length, beyond.max(axis=1)), sign * direction


def _of_revolution(
    points: Array, cylinder: Array | None, cone: Array | None
) -> tuple[Array, Array]:
    """Solve in the half plane of axis distance and height, and rotate the result back."""
    across = np.hypot(points[:, 0], points[:, 1])
    plane = np.column_stack((across, points[:, 2]))
    distance, direction = _box(cylinder, plane) if cylinder is not None else _cone(cone, plane)
    off_axis = across[:, None] > 0.0
    radial = np.where(off_axis, points[:, :2] / np.where(off_axis, across[:, None], 1.0), [1.0, 0])
    return distance, np.column_stack((direction[:, :1] * radial, direction[:, 1:]))


def _cone(sizes: Array | None, plane: Array) -> tuple[Array, Array]:
    """Return signed distances in the half plane to a cone's half section, a triangle."""
    assert sizes is not None
    radius, height = sizes
    rim, apex = np.array([radius, -0.5 * height]), np.array([0.0, 0.5 * height])
    edge = apex - rim
    slope = np.array([height, radius]) / np.hypot(radius, height)
    along = np.clip((plane - rim) @ edge / (edge @ edge), 0.0, 1.0)
    from_slant = plane - (rim + along[:, None] * edge)
    from_base = plane - np.column_stack(
        (np.clip(plane[:, 0], 0.0, radius), np.full(len(plane), -0.5 * height))
    )
    above_slant, below_base = (plane - rim) @ slope, -0.5 * height - plane[:, 1]
    inside = np.maximum(above_slant, below_base)
    lengths = np.column_stack(
        (np.linalg.norm(from_slant, axis=1), np.linalg.norm(from_base, axis=1))
    )
    nearer_base = lengths[:, 1] < lengths[:, 0]
    offset = np.where(nearer_base[:, None], from_base, from_slant)
    length = lengths.min(axis=1)
    face = np.where((below_base > above_slant)[:, None], [0.0, -1.0], slope)
    # On the surface itself the offset is zero, and the face normal is used.
    apart = ((inside > 0.0) & (length > 0.0))[:, None]
    direction = np.where(apart, offset / np.where(apart, length[:, None], 1.0), face)
    return np.where(apart[:, 0], length, inside), direction
