# SPDX-License-Identifier: Apache-2.0
"""Penetration depth and contact point of two convex pieces, for reports; plain NumPy.

Source: van den Bergen, Proximity queries and penetration depth computation on 3D game objects (GDC
2001), expanding polytope algorithm: the Minkowski difference is approximated from inside by a
polytope, whose face closest to the origin is expanded until it is on the surface.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from motion_nodes.kernels.collision.piece_arrays import BOX, CONE, HALF_SPACE, POINTS, Pieces
from motion_nodes.typing import Array

_STEPS = 40
_CLOSE = 1e-6
"""Accuracy of depths [m]."""
_DIRECTIONS = np.array([d for d in itertools.product((-1.0, 0.0, 1.0), repeat=3) if any(d)])


class Overlap(NamedTuple):
    """The min translation that separates two pieces."""

    depth: float
    """Penetration depth, negative for a distance [m]."""
    position: Array
    """Contact point [m], shape (3,)."""
    normal: Array
    """Direction in which the first piece is separated from the second, shape (3,)."""


def overlap(pieces: Pieces) -> Overlap:
    """Return the penetration depth of two pieces, or their distance."""
    if pieces.kind[1] == HALF_SPACE:
        normal, origin = pieces.X[1, :, 2], pieces.X[1, :, 3]
        lowest = _support(pieces, 0, -normal[None])[0]
        height = float(normal @ (lowest - origin))
        return Overlap(-height, lowest - 0.5 * height * normal, normal)
    apart = _apart(pieces)
    return _expanded(pieces) if apart is None else apart


def _apart(pieces: Pieces) -> Overlap | None:
    """Return the distance of two pieces as a negative depth; None if their cores overlap."""
    # Imported on demand: Numba takes a quarter of a second to import.
    from motion_nodes.kernels.collision.convex_distance import separations

    work, out = np.zeros((6, 3)), np.zeros((1, 2))
    pairs = np.array([[0, 1]], np.int32)
    separations(
        *(pieces.kind, pieces.size, pieces.first), pieces.points, pieces.X, pairs, work, out
    )
    length = float(np.linalg.norm(work[4]))
    if not np.isfinite(out[0, 0]) or length == 0.0:
        return None
    normal = work[4] / length
    a, b = _support(pieces, 0, -normal[None])[0], _support(pieces, 1, normal[None])[0]
    return Overlap(-float(out[0, 0]), 0.5 * (a + b), normal)


def _expanded(pieces: Pieces) -> Overlap:
    from scipy.spatial import ConvexHull, QhullError

    directions = _DIRECTIONS / np.linalg.norm(_DIRECTIONS, axis=1, keepdims=True)
    A, B = _support(pieces, 0, directions), _support(pieces, 1, -directions)
    best = Overlap(np.inf, 0.5 * (A[0] + B[0]), directions[0])
    for _ in range(_STEPS):
        heights = np.einsum("ij,ij->i", A[-len(directions) :] - B[-len(directions) :], directions)
        k = int(heights.argmin())
        if heights[k] < best.depth:
            first, second = A[k - len(directions)], B[k - len(directions)]
            best = Overlap(float(heights[k]), 0.5 * (first + second), -directions[k])
        try:
            hull = ConvexHull(A - B)
        except QhullError:
            break
        face = int(hull.equations[:, 3].argmax())
        if best.depth + hull.equations[face, 3] < _CLOSE:
            corners = hull.simplices[face]
            weights = _weights(
                (A - B)[corners], -hull.equations[face, 3] * hull.equations[face, :3]
            )
            place = 0.5 * weights @ (A[corners] + B[corners])
            return Overlap(best.depth, place, -hull.equations[face, :3])
        directions = hull.equations[face, :3][None]
        A = np.concatenate([A, _support(pieces, 0, directions)])
        B = np.concatenate([B, _support(pieces, 1, -directions)])
    return best


def _weights(corners: Array, point: Array) -> Array:
    """Return the barycentric weights of a triangle's point closest to a point."""
    system = np.vstack([corners.T, np.ones(3)])
    weights = np.linalg.lstsq(system, np.append(point, 1.0), rcond=None)[0].clip(0.0)
    return np.asarray(weights / weights.sum())


def _support(pieces: Pieces, k: int, directions: Array) -> Array:
    """Return the support points of a piece in directions, shape (m, 3)."""
    R, t, (a, b, c, radius) = pieces.X[k, :, :3], pieces.X[k, :, 3], pieces.size[k]
    local = directions @ R
    if pieces.kind[k] == POINTS:
        points = pieces.points[pieces.first[k] : pieces.first[k + 1]]
        found = points[(local @ points.T).argmax(axis=1)]
    elif pieces.kind[k] == BOX:
        found = np.where(local < 0.0, -1.0, 1.0) * (a, b, c)
    else:
        across = np.linalg.norm(local[:, :2], axis=1)
        rim = a * local / np.maximum(across, 1e-300)[:, None]
        rim[:, 2] = np.where(local[:, 2] < 0.0, -b, b)
        if pieces.kind[k] == CONE:
            top = local[:, 2] * 2.0 * b > across * a
            rim[:, 2] = -b
            rim = np.where(top[:, None], (0.0, 0.0, b), rim)
        found = rim
    return np.asarray(found @ R.T + t + radius * directions)
