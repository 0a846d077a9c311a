# SPDX-License-Identifier: Apache-2.0
"""Distance of one moving point to all obstacles, in NumPy: the formulas of the generated code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.kernels.formulas.ops import NUMPY
from motion_nodes.kernels.rmp.rmp_distance import distance
from motion_nodes.kernels.rmp.rmp_memory import ObstacleArrays, obstacle_shapes
from motion_nodes.typing import Array


@dataclass(frozen=True, eq=False)
class Distances:
    """Distances of a point to k obstacles."""

    value: Array
    """Signed distance [m], shape (k,)."""
    direction: Array
    """Unit vectors away from the obstacles, shape (k, 3)."""
    rate: Array
    """Time derivatives of the distances [m/s], shape (k,)."""
    curvature: Array
    """v^T H v with H the Hessian of the distance; 0 inside [m/s^2], shape (k,)."""


def distances(obstacles: ObstacleArrays, p: Array, v: Array) -> Distances:
    """Return the distances of a point at p [m] with velocity v [m/s] to all obstacles."""
    shapes = obstacle_shapes()
    found = [
        distance(NUMPY, shapes[name], list(p), list(v), list(rows.T))
        for name, rows in obstacles.rows.items()
        if len(rows)
    ]
    if not found:
        return Distances(np.empty(0), np.empty((0, 3)), np.empty(0), np.empty(0))
    return Distances(
        np.concatenate([d.value for d in found]),
        np.concatenate([np.column_stack(d.n) for d in found]),
        np.concatenate([d.rate for d in found]),
        np.concatenate([d.curvature for d in found]),
    )
