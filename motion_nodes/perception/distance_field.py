# SPDX-License-Identifier: Apache-2.0
"""Euclidean distances to occupied voxels, on a grid; immutable."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.typing import Array


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
        from motion_nodes.kernels.voxels import distance_field

        self._kernels = distance_field
        self.first, self.edge = np.asarray(first, np.float64), float(edge)
        squared = np.empty(occupied.shape, np.float32)
        distance_field.squared_distances(np.ascontiguousarray(occupied), squared)
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
