# SPDX-License-Identifier: Apache-2.0
"""Euclidean distances to occupied voxels, on a grid; immutable."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.scene.voxels import Voxels
from motion_nodes.typing import Array

MOST_VOXELS = 20_000_000
"""Max number of voxels of a field around others."""


class DistanceField:
    """Distances from the surface of the occupied voxels, interpolated between voxel centres.

    Half a voxel is subtracted from the distance of the nearest centre, so the error is at most half
    the difference of a voxel's diagonal and edge, and that of interpolation: below one voxel.
    """

    values: NDArray[np.float32]
    """Distance at each voxel's centre [m], shape (nx, ny, nz); -edge / 2 in occupied ones."""

    def __init__(self, occupied: NDArray[np.bool_], first: Array, edge: float) -> None:
        """Compute the field.

        Args:
            occupied: shape (nx, ny, nz).
            first: centre of the first voxel [m], shape (3,).
            edge: edge of a voxel [m].
        """
        from motion_nodes.kernels import voxels

        self._kernels = voxels
        self.first, self.edge = np.asarray(first, np.float64), float(edge)
        squared = np.empty(occupied.shape, np.float32)
        voxels.squared_distances(np.ascontiguousarray(occupied), squared)
        np.sqrt(squared, out=squared)
        self.values = squared * np.float32(edge) - np.float32(0.5 * edge)
        self.values.setflags(write=False)

    def distance(self, points: ArrayLike) -> Array:
        """Return the distance of points from the occupied space [m].

        Outside the region it is a lower bound.

        Args:
            points: in the map [m], shape (m, 3).

        Returns:
            Shape (m,); below 0 inside, some hundred metres if nothing is occupied, NaN for points
            that are not finite.
        """
        places = np.ascontiguousarray(np.asarray(points, np.float64).reshape(-1, 3))
        finite = np.asarray(np.isfinite(places).all(axis=1))
        out = np.empty(len(places))
        self._kernels.field_at(
            self.values, self.first, self.edge, np.where(finite[:, None], places, 0.0), out
        )
        out[~finite] = np.nan
        return out

    def gradient(self, points: ArrayLike) -> Array:
        """Return the gradients of the distance, away from the nearest occupied voxels, (m, 3).

        By differences over half a voxel on both sides; their length is about 1, and less between
        two obstacles.

        Args:
            points: in the map [m], shape (m, 3).

        Returns:
            Shape (m, 3); NaN for points that are not finite.
        """
        places = np.asarray(points, np.float64).reshape(-1, 1, 1, 3)
        steps = 0.5 * self.edge * np.stack((np.eye(3), -np.eye(3)))
        ahead, behind = self.distance(places + steps).reshape(-1, 2, 3).swapaxes(0, 1)
        return np.asarray((ahead - behind) / self.edge)

    def slice_at(self, height: float) -> NDArray[np.float32]:
        """Return the distances at a height, interpolated between two layers of voxels [m].

        Args:
            height: z in the map [m]; the nearest height in the region counts.

        Returns:
            Shape (nx, ny).
        """
        layers = self.values.shape[2]
        place = min(max((height - self.first[2]) / self.edge, 0.0), layers - 1.0)
        k = min(int(place), max(layers - 2, 0))
        share = np.float32(place - k)
        above = self.values[:, :, min(k + 1, layers - 1)]
        return np.asarray((1.0 - share) * self.values[:, :, k] + share * above, np.float32)


def field_around(solid: Voxels, reach: float) -> DistanceField | None:
    """Return the distances to voxels, and around them.

    Args:
        solid: the voxels.
        reach: distance from the voxels up to which they are exact to a voxel; beyond it they are
            lower bounds [m].

    Returns:
        None: the region has more than :data:`MOST_VOXELS` voxels.
    """
    margin = math.ceil(reach / solid.resolution) + 1
    low, high = solid.cells.min(axis=0) - margin, solid.cells.max(axis=0) + margin + 1
    if math.prod((high - low).tolist()) > MOST_VOXELS:
        return None
    occupied = np.zeros(high - low, np.bool_)
    occupied[tuple((solid.cells - low).T)] = True
    return DistanceField(occupied, (low + 0.5) * solid.resolution, solid.resolution)
