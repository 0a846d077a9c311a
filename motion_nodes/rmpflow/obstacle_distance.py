# SPDX-License-Identifier: Apache-2.0
"""Distance of one moving point to all obstacles, in NumPy: the formulas of the generated code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from motion_nodes.kernels.rmp import rmp_distance
from motion_nodes.kernels.rmp.rmp_formulas import NumpyOps
from motion_nodes.kernels.rmp.rmp_memory import ObstacleArrays
from motion_nodes.model.tree import Array

# Written for expression graphs; with arrays and NumpyOps they are plain functions.
_from_box: Callable[..., Any] = rmp_distance.from_box
_from_round: Callable[..., Any] = rmp_distance.from_round


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
    found = [
        formula(NumpyOps, list(p), list(v), list(rows.T))
        for rows, formula in ((obstacles.boxes, _from_box), (obstacles.rounds, _from_round))
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
