# SPDX-License-Identifier: Apache-2.0
"""Paths on maps by grid and lattice: clearances of outlines, curvature of cars, ends, reasons."""

from __future__ import annotations

import math

import numpy as np
import pytest

from motion_nodes.core.navigation.footprint import footprint_from
from motion_nodes.core.navigation.grid_plan import (
    GridPlanConfig,
    NoGridPath,
    OccupancyGrid,
)
from motion_nodes.core.navigation.map_planner import MapPlanner, PlannedBase
from motion_nodes.core.navigation.planar_geometry import PlanarPath, Pose2

CONFIG = GridPlanConfig(inflation_radius=0.2)
LONG = footprint_from([(0.35, 0.12), (0.35, -0.12), (-0.15, -0.12), (-0.15, 0.12)])
RADIUS = 0.6
MOVED = Pose2(1.0, -2.0, 0.7)


def room(origin: Pose2 = MOVED, gap: int = 40) -> OccupancyGrid:
    """A room of 6 m by 6 m with a wall in the middle with a gap of 1 m, or less."""
    cells = np.zeros((120, 120), np.int8)
    cells[[0, -1]] = cells[:, [0, -1]] = 100
    cells[: 120 - gap, 60] = 100
    cells[-20:, 60] = 100
    return OccupancyGrid(cells, 0.05, origin)


def planner(kind: str, grid: OccupancyGrid, reversing: bool = False) -> MapPlanner:
    return MapPlanner(grid, PlannedBase(kind, LONG, RADIUS, reversing), CONFIG)


def clearance(grid: OccupancyGrid, rows: np.ndarray) -> float:
    """Return the min distance between outline and centres of occupied cells on a path [m]."""
    walls = grid.centres(np.argwhere(grid.cells == 100))
    found = math.inf
    for x, y, yaw in rows:
        near = walls[np.hypot(*(walls - (x, y)).T) < 1.0] - (x, y)
        if len(near):
            c, s = math.cos(yaw), math.sin(yaw)
            found = min(found, float(LONG.distances(near @ np.array(((c, -s), (s, c)))).min()))
    return found


def ends(grid: OccupancyGrid, start: tuple, goal: tuple) -> tuple[Pose2, Pose2]:
    return grid.origin.compose(Pose2(*start)), grid.origin.compose(Pose2(*goal))


@pytest.mark.parametrize("method", ["", "lattice"])
@pytest.mark.parametrize("kind", ["differential", "holonomic", "ackermann", "reversing"])
def test_walls_are_driven_around(kind, method):
    grid = room()
    made = planner(kind.replace("reversing", "ackermann"), grid, kind == "reversing")
    start, goal = ends(grid, (1.5, 1.3, 0.4), (4.6, 1.2, -1.2))
    rows = made.plan(start, goal, method)
    np.testing.assert_allclose(rows[0, :2], start[:2], atol=1e-9)
    np.testing.assert_allclose(rows[-1, :2], goal[:2], atol=1e-9)
    assert abs(math.remainder(rows[-1, 2] - goal.yaw, math.tau)) < 1e-6
    assert clearance(grid, rows) > 0.0
    assert max(np.hypot(*np.diff(rows[:, :2], axis=0).T)) < 0.11
    path = PlanarPath(rows)
    assert path.length > 6.4
    if made.base.kind == "ackermann":
        assert abs(math.remainder(rows[0, 2] - start.yaw, math.tau)) < 1e-6
        # The curvature of poses is that of the base, not of smoothed chords.
        turned = np.abs(np.remainder(np.diff(rows[:, 2]) + math.pi, math.tau) - math.pi)
        steps = np.hypot(*np.diff(rows[:, :2], axis=0).T)
        assert (turned <= 1.05 * steps / RADIUS + 1e-6).all()
        ahead = (np.diff(rows[:, :2], axis=0) * np.column_stack(
            (np.cos(rows[1:, 2]), np.sin(rows[1:, 2])))).sum(axis=1)  # fmt: skip
        assert kind == "reversing" or (ahead > 0.0).all()


def test_an_outline_passes_a_gap_that_is_too_narrow_for_its_disc():
    grid = room(gap=30)
    start, goal = ends(grid, (1.5, 1.5, 0.0), (4.5, 1.5, 0.0))
    made = planner("differential", grid)
    with pytest.raises(NoGridPath, match="no path"):
        made.plan(start, goal, "grid")
    rows = made.plan(start, goal)
    assert clearance(grid, rows) > 0.0
    assert made.collides(rows)


def test_a_car_backs_out_of_a_dead_end():
    cells = np.zeros((100, 100), np.int8)
    cells[40, 40:80] = cells[60, 40:80] = cells[40:60, 80] = 100
    grid = OccupancyGrid(cells, 0.05, Pose2())
    start, goal = Pose2(3.5, 2.5, 0.0), Pose2(1.0, 1.0, 3.0)
    with pytest.raises(NoGridPath):
        planner("ackermann", grid).plan(start, goal)
    rows = planner("ackermann", grid, reversing=True).plan(start, goal)
    steps = np.diff(rows[:, :2], axis=0)
    ahead = steps[:, 0] * np.cos(rows[1:, 2]) + steps[:, 1] * np.sin(rows[1:, 2])
    assert ahead.min() < 0.0
    assert clearance(grid, rows) > 0.0


@pytest.mark.parametrize(
    ("start", "goal", "why"),
    [
        ((1.5, 1.5, 0.0), (7.0, 1.5, 0.0), "goal_outside"),
        ((-1.0, 1.5, 0.0), (4.0, 1.5, 0.0), "start_outside"),
        ((1.5, 1.5, 0.0), (3.02, 1.5, 0.0), "goal_occupied"),
        ((3.02, 1.5, 0.0), (4.0, 1.5, 0.0), "start_occupied"),
        ((1.5, 1.5, 0.0), (4.5, 1.5, 0.0), "no_path"),
    ],
)
def test_reasons(start, goal, why):
    grid = room(gap=0)
    with pytest.raises(NoGridPath) as caught:
        planner("ackermann", grid).plan(*ends(grid, start, goal))
    assert caught.value.why == why


def test_direct_paths_of_a_car_are_checked_with_its_outline():
    grid = room()
    made = planner("ackermann", grid)
    made.prepare()
    free, through = ends(grid, (1.0, 1.0, 0.0), (5.0, 1.0, 0.0))
    assert not made.collides(np.array([free, grid.origin.compose(Pose2(2.0, 1.0))]))
    assert made.collides(np.linspace(free, through, 80))
