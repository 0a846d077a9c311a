# SPDX-License-Identifier: Apache-2.0
"""Footprint of a base: a convex polygon on the floor, and distances of points from it."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import InvalidConfig
from motion_nodes.model.tree import frozen
from motion_nodes.typing import Array

MOST_CORNERS = 16
"""Max number of corners; an outline with more is replaced by a polygon that contains it."""


@dataclass(frozen=True, eq=False)
class Footprint:
    """A convex polygon in the base frame, and the heights of the body above it."""

    corners: Array
    """Corners, counter-clockwise [m], shape (k, 2), read-only."""
    floor: float = 0.0
    """Height of the floor in the base frame [m]."""
    top: float = math.inf
    """Height of the body's highest point in the base frame [m]."""

    @functools.cached_property
    def radius(self) -> float:
        """Radius of the circle about the base frame that contains the polygon [m]."""
        return float(np.hypot(*self.corners.T).max())

    @functools.cached_property
    def edges(self) -> Array:
        """Vectors from each corner to the next [m], shape (k, 2)."""
        return np.asarray(np.roll(self.corners, -1, axis=0) - self.corners)

    @functools.cached_property
    def lengths(self) -> Array:
        """Lengths of the edges [m], shape (k,)."""
        return np.hypot(self.edges[:, 0], self.edges[:, 1])

    @functools.cached_property
    def along(self) -> Array:
        """Unit vectors along the edges, shape (k, 2)."""
        return np.asarray(self.edges / self.lengths[:, None])

    @functools.cached_property
    def normals(self) -> Array:
        """Unit normals of the edges, outward, shape (k, 2)."""
        return np.column_stack((self.along[:, 1], -self.along[:, 0]))

    def distances(self, points: Array) -> Array:
        """Return the distances of points in the base frame [m], shape (n,); 0 inside."""
        return self.nearest(points)[0]

    def nearest(self, points: Array) -> tuple[Array, Array]:
        """Return distances of points, and the points of the outline closest to them.

        Args:
            points: in the base frame [m], shape (n, 2).

        Returns:
            Distances [m], shape (n,), 0 inside; the closest points of the outline [m], (n, 2).
        """
        (ex, ey), (ax, ay) = self.along.T, self.corners.T
        px, py = points[:, :1] - ax, points[:, 1:] - ay
        t = np.minimum(np.maximum(px * ex + py * ey, 0.0), self.lengths)
        dx, dy = px - t * ex, py - t * ey
        squares = dx * dx + dy * dy
        best, rows = squares.argmin(axis=1), np.arange(len(points))
        inside = (ex * py - ey * px >= 0.0).all(axis=1)
        offsets = np.column_stack((dx[rows, best], dy[rows, best]))
        return np.where(inside, 0.0, np.sqrt(squares[rows, best])), points - offsets


def footprint_from(points: Array | Sequence[Sequence[float]], **heights: float) -> Footprint:
    """Return the convex hull of points in the base frame [m], shape (n, 2).

    Raises:
        InvalidConfig: fewer than three non-collinear points, or a point that is not finite.
    """
    given = np.array(points, np.float64)
    if given.ndim != 2 or given.shape[1:] != (2,) or not np.isfinite(given).all():
        raise InvalidConfig(
            f"footprint has the corners {points}; it needs at least 3 corners, each with finite x "
            "and y in the base frame [m]",
            field="footprint",
        )
    if np.abs(given).max(initial=0.0) > 100.0:
        raise InvalidConfig("corners of the footprint must be within 100 m", field="footprint")
    corners = _fewer_corners(convex_hull(given))
    if len(corners) < 3:
        raise InvalidConfig(
            "the corners of the footprint are collinear; at least 3 must not be in one line",
            field="footprint",
        )
    return Footprint(frozen(corners), **heights)


def convex_hull(points: Array) -> Array:
    """Return the corners of the convex hull of points, counter-clockwise, shape (k, 2).

    Source: Andrew, Another efficient algorithm for convex hulls in two dimensions (1979).
    """
    rows: list[list[float]] = np.unique(np.round(points, 9), axis=0).tolist()
    if len(rows) < 3:
        return np.array(rows).reshape(-1, 2)
    lower, upper = _chain(rows), _chain(rows[::-1])
    return np.array(lower[:-1] + upper[:-1])


def _chain(rows: list[list[float]]) -> list[list[float]]:
    chain: list[list[float]] = []
    for x, y in rows:
        while len(chain) > 1:
            (ax, ay), (bx, by) = chain[-2:]
            if (bx - ax) * (y - ay) - (by - ay) * (x - ax) > 1e-12:
                break
            chain.pop()
        chain.append([x, y])
    return chain


def _fewer_corners(corners: Array) -> Array:
    """Return a polygon with at most MOST_CORNERS corners that contains another."""
    if len(corners) <= MOST_CORNERS:
        return corners
    angles = np.arange(MOST_CORNERS) * (math.tau / MOST_CORNERS)
    normals = np.column_stack((np.cos(angles), np.sin(angles)))
    supports = (corners @ normals.T).max(axis=0)
    # Intersection of two supporting lines.
    following, reach = np.roll(normals, -1, axis=0), np.roll(supports, -1)
    matrices = np.stack((normals, following), axis=1)
    return convex_hull(
        np.linalg.solve(matrices, np.stack((supports, reach), 1)[:, :, None])[..., 0]
    )
