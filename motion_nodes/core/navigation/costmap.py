# SPDX-License-Identifier: Apache-2.0
"""Costs of cells as in Nav2's costmaps, and a grid of the obstacles around a base."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.navigation.map_planner import FREE, OCCUPIED, GridPlanner, OccupancyGrid
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.typing import Array

LETHAL, INSCRIBED, NO_INFORMATION = 254, 253, 255
"""Costs of an obstacle, of a place where the base touches one, and of an unknown cell; others are
lower (nav2_costmap_2d, cost_values.hpp)."""


def cell_costs(planner: GridPlanner) -> NDArray[np.uint8]:
    """Return the costs of the cells of a planner's map for its disc, shape (rows, columns).

    Args:
        planner: with a map; its weights fall from obstacles to the inflation radius, and so do the
            costs.
    """
    assert planner.grid is not None
    weight = planner.weight
    touched, unknown = ~np.isfinite(weight), planner.grid.cells < 0
    near = np.where(touched, 1.0, weight) - 1.0 - unknown
    most = max(float(near.max()), 1.0)
    costs = np.rint(near / most * (INSCRIBED - 1)).astype(np.uint8)
    costs[touched] = INSCRIBED
    costs[unknown] = NO_INFORMATION
    costs[planner.grid.cells >= planner.config.occupied_from] = LETHAL
    return costs


def grid_around(points: Array, pose: Pose2, size: float, resolution: float) -> OccupancyGrid:
    """Return a square grid along the axes of a frame in which points are occupied.

    Args:
        points: obstacles in the frame [m], shape (n, 2).
        pose: of the base in the frame, in the middle.
        size: edge of the square [m].
        resolution: edge of a cell [m].
    """
    count = math.ceil(size / resolution)
    # On multiples of the resolution, so that the cells stay where they are as the base moves.
    first = [math.floor(v / resolution) - count // 2 for v in (pose.x, pose.y)]
    cells = np.full((count, count), FREE, np.int8)
    columns, rows = np.floor(points / resolution).astype(np.int64).T - np.array(first)[:, None]
    inside = (columns >= 0) & (columns < count) & (rows >= 0) & (rows < count)
    cells[rows[inside], columns[inside]] = OCCUPIED
    return OccupancyGrid(cells, resolution, Pose2(first[0] * resolution, first[1] * resolution))
