# SPDX-License-Identifier: Apache-2.0
"""Surfaces of triangles: closest points, and the points that they enclose.

A surface encloses a point according to its winding number about it. This is the sum of the signed
solid angles of the triangles over 4 pi: 1 inside a closed surface and 0 outside, and a value
between in the openings of one that is not closed. Triangles are grouped in blocks; a block far from
a point counts as a dipole at its centre of area.

Sources: Van Oosterom and Strackee, The solid angle of a plane triangle, IEEE Trans. Biomed. Eng. 30
(1983), equation 8; Barill et al., Fast winding numbers for soups and clouds, ACM Trans. Graph. 37
(2018), first order.

For the closest point of a triangle, either the foot of the perpendicular is inside the triangle, or
the closest point is on one of its three edges. Source: Ericson, Real-Time Collision Detection
(2005), 5.1.5.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motion_nodes.tolerances import NEVER_ZERO
from motion_nodes.typing import Array

_BLOCK = 16
"""Triangles per block."""
_FAR = 3.0
"""Distance from which a block counts as a dipole, in radii of the block."""
_CHUNK = 200_000
"""Max number of pairs of a point and a block, or a triangle, per batch."""
_INTERLEAVED = np.array([1, 2, 4])


def spatial_order(boxes: Array) -> NDArray[np.intp]:
    """Return the order of boxes along the Morton code of their centres.

    Args:
        boxes: min and max corners [m], shape (n, 2, 3); infinite ones come first.

    Returns:
        Indices, shape (n,); boxes close to each other are mostly neighbours.
    """
    if not len(boxes):
        return np.empty(0, np.intp)
    with np.errstate(invalid="ignore"):
        middle = boxes[:, 0] + boxes[:, 1]
    endless = ~np.isfinite(middle).all(axis=1)
    middle[endless] = 0.0
    low = middle.min(axis=0)
    extent = max(float((middle.max(axis=0) - low).max()), 1e-9)
    bits = np.minimum((middle - low) * (1024.0 / extent), 1023.0).astype(np.int64)
    # Moves the ten bits of each coordinate apart, by halves, until two free ones follow each.
    for shift, mask in ((16, 0x030000FF), (8, 0x0300F00F), (4, 0x030C30C3), (2, 0x09249249)):
        bits = (bits | (bits << shift)) & mask
    code = bits @ _INTERLEAVED
    code[endless] = -1  # unbounded pieces overlap every block, so they are grouped
    return np.asarray(code.argsort(kind="stable"))


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
    area = np.maximum(dot(normal, normal), NEVER_ZERO)
    # Barycentric coordinates of the foot.
    v, w = dot(cross(ap, ac), normal) / area, dot(cross(ab, ap), normal) / area
    inside = (v >= 0.0) & (w >= 0.0) & (v + w <= 1.0) & (area > NEVER_ZERO)
    return np.moveaxis(np.where(inside, p - dot(ap, normal) / area * normal, best), 0, -1)


def _missing(x: Array, corners: Array, points: Array) -> int:
    """Return the number of leading axes that an array lacks, beside its coordinates."""
    return max(corners.ndim - 2, points.ndim - 1) - (x.ndim - 1)


def _on_edge(start: Array, end: Array, p: Array) -> tuple[Array, Array]:
    """Return the closest points of edges, shape (3, ...), and the squares of their distances."""
    edge = end - start
    along = dot(p - start, edge) / np.maximum(dot(edge, edge), NEVER_ZERO)
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


class WindingNumber:
    """Winding number of one surface."""

    def __init__(self, triangles: Array) -> None:
        """Group the triangles.

        Args:
            triangles: corners [m], shape (t, 3, 3), at least one.
        """
        order = spatial_order(np.stack((triangles.min(axis=1), triangles.max(axis=1)), axis=1))
        count = -(-len(order) // _BLOCK)
        # A repeated triangle without an area completes the last block.
        full = np.repeat(triangles[order[-1:], :1], count * _BLOCK, axis=0).repeat(3, axis=1)
        full[: len(order)] = triangles[order]
        self._corners = np.ascontiguousarray(
            full.reshape(count, _BLOCK, 3, 3).transpose(2, 3, 0, 1)
        )
        """Corners, shape (3, 3, b, _BLOCK): corner, coordinate, block, triangle."""
        a, b, c = self._corners
        areas = 0.5 * cross(b - a, c - a)
        weights = np.sqrt((areas**2).sum(axis=0)) + 1e-300
        self._centre = ((a + b + c) / 3.0 * weights).sum(axis=2) / weights.sum(axis=1)
        self._area = areas.sum(axis=2)
        apart = ((self._corners - self._centre[:, :, None]) ** 2).sum(axis=1)
        self._far2 = _FAR**2 * apart.max(axis=(0, 2))

    def __call__(self, points: Array) -> Array:
        """Return the winding number of points, to about 0.01.

        Args:
            points: shape (m, 3) [m].

        Returns:
            Shape (m,); positive where triangles are counterclockwise as seen from outside.
        """
        step = max(1, _CHUNK // len(self._far2))
        parts = [self._batch(points[at : at + step]) for at in range(0, len(points), step)]
        return np.concatenate(parts) if parts else np.empty(0)

    def encloses(self, points: Array) -> NDArray[np.bool_]:
        """Return which points are inside, whichever way the triangles face; shape (m,)."""
        return np.asarray(np.abs(self(points)) > 0.5)

    def _batch(self, points: Array) -> Array:
        towards = self._centre[:, None] - points.T[:, :, None]
        square = (towards**2).sum(axis=0)
        near = square <= self._far2
        with np.errstate(divide="ignore", invalid="ignore"):
            angles = (towards * self._area[:, None]).sum(axis=0) / (square * np.sqrt(square))
        total = np.where(near, 0.0, angles).sum(axis=1)
        rows, blocks = np.nonzero(near)
        step = _CHUNK // _BLOCK
        for at in range(0, len(rows), step):
            row, block = rows[at : at + step], blocks[at : at + step]
            corners = self._corners[:, :, block] - points.T[:, row, None]
            np.add.at(total, row, _solid_angles(*corners).sum(axis=1))
        return np.asarray(total / (4.0 * np.pi))


def _solid_angles(a: Array, b: Array, c: Array) -> Array:
    """Return signed solid angles at the origin of triangles, corners of shape (3, ...)."""
    la, lb, lc = (np.sqrt(dot(p, p)) for p in (a, b, c))
    flat = la * lb * lc + dot(a, b) * lc + dot(b, c) * la + dot(c, a) * lb
    return np.asarray(2.0 * np.arctan2(dot(a, cross(b, c)), flat))
