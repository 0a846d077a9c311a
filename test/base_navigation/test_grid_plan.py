# SPDX-License-Identifier: Apache-2.0
"""Paths on an occupancy grid: shortest lengths, clearance, reasons, and map files."""

from __future__ import annotations

import math

import numpy as np
import pytest

from motion_nodes.core.navigation.grid_plan import (
    GridPlanConfig,
    GridPlanner,
    NoGridPath,
    OccupancyGrid,
    grid_from_file,
    smoothed,
)
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.errors import InvalidDescription

PLAIN = GridPlanConfig(inflation_radius=0.0)


ORIGIN = Pose2()


def walled(gap: int | None = None, origin: Pose2 = ORIGIN) -> OccupancyGrid:
    """A field of 4 m by 4 m with a wall at x = 2 m, with a gap that begins at a row."""
    cells = np.zeros((80, 80), np.int8)
    cells[:, 40] = 100
    if gap is not None:
        cells[gap : gap + 12, 40] = 0
    return OccupancyGrid(cells, 0.05, origin)


def length(rows: np.ndarray) -> float:
    return float(np.hypot(*np.diff(rows[:, :2], axis=0).T).sum())


def test_an_empty_plane_is_crossed_straight():
    rows = GridPlanner(None, 0.2, PLAIN).plan(Pose2(1.0, 1.0, 3.0), Pose2(4.0, 5.0, 0.5))
    assert length(rows) == pytest.approx(5.0)
    assert rows[0] == pytest.approx((1.0, 1.0, math.atan2(4, 3)))
    assert rows[-1] == pytest.approx((4.0, 5.0, 0.5))
    assert np.hypot(*np.diff(rows[:, :2], axis=0).T).max() <= 0.05 + 1e-9


@pytest.mark.parametrize("gap", [60, 10])
def test_a_path_leads_through_the_gap_with_the_clearance_of_the_base(gap):
    grid, radius = walled(gap), 0.15
    rows = GridPlanner(grid, radius, PLAIN).plan(Pose2(1.0, 2.0), Pose2(3.0, 2.0, 1.0))
    crossing = rows[np.abs(rows[:, 0] - 2.025).argmin(), 1]
    assert 0.05 * gap + radius < crossing < 0.05 * (gap + 12) - radius
    walls = grid.centres(np.argwhere(grid.cells == 100))
    away = np.hypot(*(rows[:, None, :2] - walls[None]).transpose(2, 0, 1)).min()
    assert away > radius
    # Oracle: the two straight lines over the nearest free point of the gap, plus its clearance.
    edge = 0.05 * gap if gap > 40 else 0.05 * (gap + 12)
    free = edge + (radius if gap > 40 else -radius)
    bound = 2.0 * math.hypot(1.025, free - 2.0)
    assert bound - 0.05 < length(rows) < 1.06 * bound + 0.1


def test_obstacles_are_kept_farther_away_within_the_inflation():
    near = GridPlanner(walled(40), 0.1, PLAIN)
    wide = GridPlanner(walled(40), 0.1, GridPlanConfig(inflation_radius=0.3))
    ends = Pose2(1.0, 1.0), Pose2(3.0, 1.0)
    across = [
        float(rows[np.abs(rows[:, 0] - 2.025).argmin(), 1])
        for rows in (near.plan(*ends), wide.plan(*ends))
    ]
    assert across[0] < across[1] - 0.05  # towards the middle of the gap


def test_a_map_may_be_turned_and_moved():
    origin = Pose2(5.0, -3.0, 0.7)
    ends = Pose2(1.02, 2.02), Pose2(3.02, 2.02, 1.0)  # not on the edge of a cell
    plain = GridPlanner(walled(60), 0.15, PLAIN).plan(*ends)
    turned = GridPlanner(walled(60, origin), 0.15, PLAIN).plan(*map(origin.compose, ends))
    back = [origin.inverse().compose(Pose2(*row)) for row in turned.tolist()]
    # The number of poses on a line may differ by rounding.
    assert length(np.array(back)) == pytest.approx(length(plain))
    away = np.hypot(*(np.array(back)[:, None, :2] - plain[None, :, :2]).transpose(2, 0, 1))
    assert away.min(axis=1).max() < 0.03


@pytest.mark.parametrize(
    ("start", "goal", "why"),
    [
        ((1.0, 2.0), (9.0, 2.0), "goal_outside"),
        ((-1.0, 2.0), (3.0, 2.0), "start_outside"),
        ((1.0, 2.0), (2.02, 2.0), "goal_occupied"),
        ((2.1, 2.0), (3.0, 2.0), "start_occupied"),
        ((1.0, 2.0), (3.0, 2.0), "no_path"),
    ],
)
def test_reasons(start, goal, why):
    with pytest.raises(NoGridPath) as error:
        GridPlanner(walled(), 0.15, PLAIN).plan(Pose2(*start), Pose2(*goal))
    assert error.value.why == why


def test_a_tolerance_ends_before_an_occupied_goal():
    planner = GridPlanner(walled(), 0.15, GridPlanConfig(tolerance=0.5, inflation_radius=0.0))
    rows = planner.plan(Pose2(1.0, 2.0), Pose2(2.02, 2.0, 0.3))
    assert 1.7 < rows[-1, 0] < 2.0 - 0.15
    assert rows[-1, 2] == 0.3


def test_unknown_cells():
    grid = walled(60)
    cells = grid.cells.copy()
    cells[60:72, 40] = -1
    unknown = OccupancyGrid(cells, 0.05, Pose2())
    ends = Pose2(1.0, 2.0), Pose2(3.0, 2.0)
    assert length(GridPlanner(unknown, 0.15, PLAIN).plan(*ends)) > 2.5
    closed = GridPlanConfig(inflation_radius=0.0, allow_unknown=False)
    with pytest.raises(NoGridPath):
        GridPlanner(unknown, 0.15, closed).plan(*ends)


@pytest.mark.parametrize("kind", ["P5", "P2"])
def test_files_of_map_server(tmp_path, kind):
    pixels = np.full((3, 4), 254, np.uint8)
    pixels[0, 1], pixels[2, 3] = 0, 205
    body = pixels.tobytes() if kind == "P5" else " ".join(map(str, pixels.ravel())).encode()
    (tmp_path / "m.pgm").write_bytes(kind.encode() + b"\n# made by hand\n4 3\n255\n" + body)
    file = tmp_path / "m.yaml"
    file.write_text("image: m.pgm\nresolution: 0.1\norigin: [-1.0, 2.0, 0.0]\nnegate: 0\n"
                    "occupied_thresh: 0.65\nfree_thresh: 0.196\n")  # fmt: skip
    grid = grid_from_file(file)
    expected = np.zeros((3, 4), int)
    expected[2, 1], expected[0, 3] = 100, -1  # the image begins at the top
    np.testing.assert_array_equal(grid.cells, expected)
    assert (grid.resolution, grid.origin) == (0.1, Pose2(-1.0, 2.0, 0.0))
    (tmp_path / "m.pgm").write_bytes(b"PNG")
    with pytest.raises(InvalidDescription):
        grid_from_file(file)


def test_smoothing_rounds_corners_and_keeps_the_ends():
    legs = [(0.05 * k, 0.0) for k in range(20)] + [(0.95, 0.05 * k) for k in range(20)]
    path = np.column_stack((legs, np.full(40, 0.7)))
    rows = smoothed(path)
    np.testing.assert_allclose(rows[[0, -1], :2], path[[0, -1], :2])
    assert rows[-1, 2] == 0.7
    assert length(rows) < length(path)
    turns = [np.abs(np.diff(np.unwrap(r))).max() for r in (rows[:-1, 2],)]
    assert turns[0] < 0.6  # from 1.57
    assert np.hypot(*(rows - path)[:, :2].T).max() < 0.15
    planner = GridPlanner(walled(), 0.15, PLAIN)
    across = np.array([(1.5, 2.0, 0.0), (2.02, 2.0, 0.0), (2.5, 2.0, 0.0)])
    assert planner.collides(across)
    assert planner.collides(across[[0, 2]])  # between its poses
    assert not planner.collides(across[:1])
    assert planner.collides(np.add(across, (9.0, 0.0, 0.0)))
