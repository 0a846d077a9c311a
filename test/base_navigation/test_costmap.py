# SPDX-License-Identifier: Apache-2.0
"""Costs of cells as in Nav2's costmaps, and the part of the obstacle memory that is cleared."""

import numpy as np
import pytest

from motion_nodes.core.navigation.costmap import (
    INSCRIBED,
    LETHAL,
    NO_INFORMATION,
    cell_costs,
    grid_around,
    invalid_poses,
)
from motion_nodes.core.navigation.footprint import footprint_from
from motion_nodes.core.navigation.map_planner import (
    OCCUPIED,
    GridPlanConfig,
    GridPlanner,
    OccupancyGrid,
)
from motion_nodes.core.navigation.obstacle_memory import ObstacleMemory
from motion_nodes.core.navigation.planar_geometry import Pose2

RADIUS, MARGIN, CELL = 0.3, 0.5, 0.05


def test_costs_fall_with_the_distance_from_obstacles():
    cells = np.zeros((60, 80), np.int8)
    cells[20, 30] = OCCUPIED
    cells[:5, :5] = -1
    grid = OccupancyGrid(cells, CELL, Pose2())
    costs = cell_costs(GridPlanner(grid, RADIUS, GridPlanConfig(inflation_radius=MARGIN)))
    rows, columns = np.indices(cells.shape)
    away = CELL * np.hypot(rows - 20, columns - 30)
    known = cells >= 0
    assert costs[20, 30] == LETHAL
    assert (costs[known & (away > 0.0) & (away < RADIUS)] == INSCRIBED).all()
    assert (costs[~known] == NO_INFORMATION).all()
    assert (costs[known & (away > RADIUS + MARGIN + CELL)] == 0).all()
    line = costs[20, 30:].astype(int)
    assert (np.diff(line) <= 0).all()
    near = known & (away > RADIUS + CELL) & (away < RADIUS + MARGIN - CELL)
    assert ((costs[near] > 0) & (costs[near] < INSCRIBED)).all()


def test_a_map_without_obstacles_costs_nothing():
    grid = OccupancyGrid(np.zeros((9, 9), np.int8), CELL, Pose2())
    assert not cell_costs(GridPlanner(grid, RADIUS, GridPlanConfig())).any()


@pytest.mark.parametrize("seed", range(3))
def test_points_are_in_the_cells_that_contain_them(seed):
    rng = np.random.default_rng(seed)
    points = rng.uniform(-5.0, 5.0, (300, 2))
    pose = Pose2(*rng.uniform(-2.0, 2.0, 2), 1.0)
    grid = grid_around(points, pose, 4.0, CELL)
    occupied = np.zeros(grid.cells.shape, bool)
    for x, y in points:
        cell = grid.cell(Pose2(x, y))
        if cell is not None:
            occupied[cell] = True
    assert occupied.any()
    np.testing.assert_array_equal(grid.cells == OCCUPIED, occupied)
    middle = np.array(grid.cell(pose))
    assert np.abs(middle - np.array(grid.cells.shape) / 2.0).max() <= 1.0


@pytest.mark.parametrize("inside", [True, False])
def test_obstacles_in_a_square_are_removed_or_kept(inside):
    memory = ObstacleMemory(footprint_from([(0.1, 0.1), (-0.1, 0.1), (-0.1, -0.1), (0.1, -0.1)]))
    rng = np.random.default_rng(5)
    points = rng.uniform(-3.0, 3.0, (200, 2))
    memory.points, memory._times = points, np.zeros(200)
    memory._sources = np.zeros(200, np.int64)
    memory.remove(Pose2(1.0, -0.5, 0.7), 2.0, inside=inside)
    within = (np.abs(points - (1.0, -0.5)) <= 1.0).all(axis=1)
    np.testing.assert_array_equal(memory.points, points[within != inside])
    memory.age(0.0)  # its times fit
    assert len(memory) == int((within != inside).sum())


@pytest.mark.parametrize("mapped", [True, False])
def test_poses_of_a_path_that_touch_something_are_found(mapped):
    rng = np.random.default_rng(7)
    cells = np.zeros((60, 60), np.int8)
    cells[rng.integers(25, 40, 12), rng.integers(0, 60, 12)] = OCCUPIED
    grid = OccupancyGrid(cells, 0.1, Pose2(-3.0, -3.0)) if mapped else None
    planner = GridPlanner(grid, 0.2, GridPlanConfig())
    points = rng.uniform((-3.0, -0.5), (3.0, 1.0), (12, 2))
    centres = grid.centres(np.argwhere(cells == OCCUPIED)) if grid else np.empty((0, 2))
    poses = [Pose2(x, 0.3) for x in np.linspace(-4.0, 4.0, 81)]
    found = set(invalid_poses(poses, Pose2(-1.0, 0.0), points, planner))
    for i, pose in enumerate(poses):
        near = np.hypot(*(points - pose[:2]).T).min()
        wall = np.hypot(*(centres - pose[:2]).T).min() if len(centres) else np.inf
        if pose.x < -1.0 - 1e-9:
            assert i not in found
        elif near < 0.2 or wall < 0.1:
            assert i in found
        elif near > 0.2 and wall > 0.2 + 0.15:
            assert i not in found
    assert len(found) > 3
