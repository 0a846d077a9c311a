# SPDX-License-Identifier: Apache-2.0
"""Closest points of triangles.

Either the foot of the perpendicular is inside the triangle, or the closest point is on one of its
three edges. Source: Ericson, Real-Time Collision Detection (2005), 5.1.5.
"""

from __future__ import annotations

import numpy as np

from motion_nodes.typing import Array

_SMALL = 1e-300
"""In place of the length of an edge or a normal that is zero."""


def nearest_on_triangles(corners: Array, points: Array) -> Array:
    """Return the closest point of each triangle, also of one without an area.

    Args:
        corners: of the triangles [m], shape (..., 3, 3).
        points: shape (..., 3) [m]; the leading axes are broadcast.

    Returns:
        Shape (..., 3) [m].
    """
    # Sums over the first axis are several times faster than over the last.
    a, b, c = np.ascontiguousarray(np.moveaxis(corners, (-2, -1), (0, 1)))
    p = np.ascontiguousarray(np.moveaxis(points, -1, 0))
    a, b, c, p = (x.reshape(3, *(1,) * _missing(x, corners, points), *x.shape[1:])
                  for x in (a, b, c, p))  # fmt: skip
    best, square = _on_edge(a, b, p)
    for start, end in ((b, c), (c, a)):
        other, length = _on_edge(start, end, p)
        nearer = length < square
        best, square = np.where(nearer, other, best), np.where(nearer, length, square)
    ab, ac, ap = b - a, c - a, p - a
    normal = cross(ab, ac)
    area = np.maximum(dot(normal, normal), _SMALL)
    # Barycentric coordinates of the foot.
    v, w = dot(cross(ap, ac), normal) / area, dot(cross(ab, ap), normal) / area
    inside = (v >= 0.0) & (w >= 0.0) & (v + w <= 1.0) & (area > _SMALL)
    return np.moveaxis(np.where(inside, p - dot(ap, normal) / area * normal, best), 0, -1)


def _missing(x: Array, corners: Array, points: Array) -> int:
    """Return the number of leading axes that an array lacks, beside its coordinates."""
    return max(corners.ndim - 2, points.ndim - 1) - (x.ndim - 1)


def _on_edge(start: Array, end: Array, p: Array) -> tuple[Array, Array]:
    """Return the closest points of edges, shape (3, ...), and the squares of their distances."""
    edge = end - start
    along = dot(p - start, edge) / np.maximum(dot(edge, edge), _SMALL)
    nearest = start + along.clip(0.0, 1.0) * edge
    away = p - nearest
    return nearest, dot(away, away)


def dot(p: Array, q: Array) -> Array:
    """Return the scalar products of vectors, shape (3, ...)."""
    return np.asarray(p[0] * q[0] + p[1] * q[1] + p[2] * q[2])


def cross(p: Array, q: Array) -> Array:
    """Return the vector products of vectors, shape (3, ...)."""
    return np.stack(
        (p[1] * q[2] - p[2] * q[1], p[2] * q[0] - p[0] * q[2], p[0] * q[1] - p[1] * q[0])
    )
