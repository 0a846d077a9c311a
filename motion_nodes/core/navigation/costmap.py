# SPDX-License-Identifier: Apache-2.0
"""Costs of cells as in Nav2's costmaps, and a grid of the obstacles around a base."""

from __future__ import annotations

import math
from collections.abc import Sequence

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


def invalid_poses(
    poses: Sequence[Pose2], base: Pose2, points: Array, planner: GridPlanner
) -> list[int]:
    """Return the indices of the poses of a path that would touch an obstacle.

    Those before the pose next to the base are behind it, and valid.

    Args:
        poses: of the path, in the frame of the map.
        base: pose of the base there.
        points: obstacles there [m], shape (n, 2).
        planner: with the map, if there is one, and the radius of the base.
    """
    first = min(range(len(poses)), key=lambda i: base.distance(poses[i]))
    found = []
    for i in range(first, len(poses)):
        cell = None if planner.grid is None else planner.grid.cell(poses[i])
        touches = np.hypot(*(points - poses[i][:2]).T) < planner.radius
        if touches.any() or (cell is not None and not np.isfinite(planner.weight[cell])):
            found.append(i)
    return found


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
