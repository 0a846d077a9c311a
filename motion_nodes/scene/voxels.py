# SPDX-License-Identifier: Apache-2.0
"""Occupied voxels as a solid: an occupancy map of sensor data.

Collision checks use axis-aligned boxes that exactly cover the occupied voxels: neighbouring voxels
are merged, so a map of 15 000 voxels has about 2000 boxes.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array

OCTOMAP = "<octomap>"
"""Name of the object of occupied voxels in a scene, as in MoveIt."""
MAX_VOXELS = 4_000_000
"""Max number of voxels of a solid."""
MAX_CELL = 1 << 20
"""Max absolute index of a voxel."""


@dataclass(frozen=True, eq=False)
class Voxels:
    """Occupied cells of a grid; created by :func:`voxels`, which validates them."""

    resolution: float
    """Edge of a voxel [m]."""
    cells: NDArray[np.int32]
    """Index of each voxel, sorted, without duplicates, shape (k, 3), read-only; voxel i extends
    from ``i * resolution`` to ``(i + 1) * resolution``."""

    @functools.cached_property
    def boxes(self) -> Array:
        """Boxes that exactly cover the voxels: min and max corner [m], shape (b, 2, 3)."""
        return np.asarray(merged_boxes(self.cells).reshape(-1, 2, 3) * self.resolution, np.float64)

    def equals(self, other: Voxels) -> bool:
        """Return whether both occupy the same voxels."""
        return self.resolution == other.resolution and np.array_equal(self.cells, other.cells)

    def coarser(self, factor: int) -> Voxels:
        """Return coarser voxels that contain these."""
        return voxels(self.resolution * factor, np.floor_divide(self.cells, factor))


def voxels(resolution: float, cells: ArrayLike) -> Voxels:
    """Return validated voxels; duplicates are dropped.

    Args:
        resolution: edge of a voxel [m].
        cells: indices of the occupied voxels, shape (k, 3).

    Raises:
        InvalidCommand: no voxels, too many, indices out of range, or an invalid resolution.
    """
    if not (np.isfinite(resolution) and 1e-4 <= resolution <= 100.0):
        raise InvalidCommand(f"voxels have a resolution of {resolution} m; allowed: 1e-4 to 100.")
    given = np.asarray(cells, dtype=np.int64).reshape(-1, 3)
    if not 0 < len(given) <= MAX_VOXELS:
        raise InvalidCommand(f"{len(given)} voxels are given; allowed are 1 to {MAX_VOXELS}.")
    if np.abs(given).max() >= MAX_CELL:
        raise InvalidCommand(f"indices of voxels must be within +-{MAX_CELL}.")
    shifted = given + MAX_CELL
    key = np.unique((shifted[:, 0] << 42) | (shifted[:, 1] << 21) | shifted[:, 2])
    columns = [(key >> shift) & (2 * MAX_CELL - 1) for shift in (42, 21, 0)]
    made = (np.column_stack(columns) - MAX_CELL).astype(np.int32)
    made.setflags(write=False)
    return Voxels(float(resolution), made)


def merged_boxes(cells: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return boxes of whole cells that cover exactly the given ones, without overlap.

    Runs along z are merged first, then equal runs along y, then equal plates along x.

    Args:
        cells: without duplicates, shape (k, 3).

    Returns:
        Min corner and end (exclusive) in cells, shape (b, 6).
    """
    boxes = np.concatenate([cells, cells + 1], axis=1)
    for axis in (2, 1, 0):
        across = [k for k in range(6) if k % 3 != axis]
        boxes = boxes[np.lexsort((boxes[:, axis], *(boxes[:, k] for k in across)))]
        joins = np.zeros(len(boxes), np.bool_)
        joins[1:] = boxes[1:, axis] == boxes[:-1, axis + 3]
        for k in across:
            joins[1:] &= boxes[1:, k] == boxes[:-1, k]
        first = np.flatnonzero(~joins)
        last = np.append(first[1:], len(boxes)) - 1
        ends = boxes[last, axis + 3]
        boxes = boxes[first]
        boxes[:, axis + 3] = ends
    return boxes


def box_distance(boxes: Array, points: Array) -> tuple[Array, Array]:
    """Return signed distances of points to the nearest of several boxes, and their gradients.

    Inside a box it is the distance to the surface of that box, a lower bound of the penetration
    depth of the union.

    Args:
        boxes: min and max corners [m], shape (b, 2, 3).
        points: shape (m, 3) [m].

    Returns:
        Distances, negative inside [m], shape (m,), and unit vectors, shape (m, 3).
    """
    middle, half = boxes.mean(axis=1), 0.5 * (boxes[:, 1] - boxes[:, 0])
    distance, direction = np.empty(len(points)), np.empty((len(points), 3))
    for row, point in enumerate(points):
        offset = point - middle
        beyond = np.abs(offset) - half
        outside = np.linalg.norm(np.maximum(beyond, 0.0), axis=1)
        signed = outside + np.minimum(beyond.max(axis=1), 0.0)
        if not np.isfinite(point).all():
            distance[row], direction[row] = np.nan, np.nan
            continue
        k = int(signed.argmin())
        distance[row] = signed[k]
        away = np.where(beyond[k] > 0.0, beyond[k], 0.0)
        if outside[k] == 0.0:
            away = np.eye(3)[int(beyond[k].argmax())]
        away = away * np.where(offset[k] < 0.0, -1.0, 1.0)
        direction[row] = away / np.linalg.norm(away)
    return distance, direction


def box_surface(boxes: Array) -> tuple[Array, NDArray[np.uint32]]:
    """Return the faces of boxes as triangles, for display.

    Args:
        boxes: min and max corners [m], shape (b, 2, 3).

    Returns:
        Vertices [m], shape (8 b, 3), and triangles, shape (12 b, 3).
    """
    corner = np.array([[(k >> axis) & 1 for axis in range(3)] for k in range(8)])
    vertices = np.stack([boxes[:, corner[:, a], a] for a in range(3)], axis=-1).reshape(-1, 3)
    faces = np.array(
        [(0, 2, 3), (0, 3, 1), (4, 5, 7), (4, 7, 6), (0, 1, 5), (0, 5, 4),
         (2, 6, 7), (2, 7, 3), (0, 4, 6), (0, 6, 2), (1, 3, 7), (1, 7, 5)]
    )  # fmt: skip
    first = 8 * np.arange(len(boxes))[:, None, None]
    return vertices, (first + faces).reshape(-1, 3).astype(np.uint32)
