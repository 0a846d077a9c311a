# SPDX-License-Identifier: Apache-2.0
"""Paths on occupancy grids and lattices: lengths, clearance, curvature, reasons, files."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from motion_nodes.core.navigation.footprint import footprint_from
from motion_nodes.core.navigation.map_planner import (
    GridPlanConfig,
    GridPlanner,
    MapPlanner,
    NoGridPath,
    OccupancyGrid,
    PlannedBase,
    grid_from_file,
    smoothed,
)
from motion_nodes.core.navigation.planar_geometry import PlanarPath, Pose2
from motion_nodes.core.navigation.pose_lattice import PoseLattice, motion_primitives
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
def test_reasons_of_map_planner(start, goal, why):
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


MOTIONS = {
    "differential": motion_primitives("differential", turn_cost=1.5),
    "holonomic": motion_primitives("holonomic", turn_cost=1.5),
    "ackermann": motion_primitives("ackermann", radius=2.5),
    "reversing": motion_primitives("ackermann", radius=2.5, reversing=True),
}
BOX = footprint_from([(0.3, 0.1), (0.3, -0.1), (-0.1, -0.1), (-0.1, 0.1)])


def wrapped(angle):
    return np.mod(angle + math.pi, math.tau) - math.pi


def maze(kind: str, seed: int) -> tuple[PoseLattice, np.random.Generator]:
    """A lattice of random walls and weights."""
    rng = np.random.default_rng(seed)
    lattice = PoseLattice(MOTIONS[kind], 0.1, np.zeros(2), (16, 13))
    points = 0.1 * rng.integers(0, (16, 13), (6, 2))
    lattice.block(footprint_from([(0.1, 0.05), (0.1, -0.05), (-0.05, -0.05), (-0.05, 0.05)]),
                  points, 0.0)  # fmt: skip
    lattice.weight *= rng.uniform(1.0, 3.0, lattice.shape).astype(np.float32)
    return lattice, rng


def graph(lattice: PoseLattice) -> csr_matrix:
    """All motions between free poses, each checked pose by pose."""
    p, weight = lattice.primitives, lattice.weight.astype(float)
    h, nx, ny = weight.shape
    index = np.arange(weight.size).reshape(weight.shape)
    tails, heads, costs = [], [], []
    for heading in range(h):
        for k in range(p.first[heading], p.first[heading + 1]):
            total, count = np.zeros((nx, ny)), 0
            for dx, dy, at in p.swept[p.begins[k] : p.begins[k + 1]].tolist():
                moved = np.full((nx, ny), np.inf)
                a, b = slice(max(-dx, 0), nx - max(dx, 0)), slice(max(-dy, 0), ny - max(dy, 0))
                c, d = slice(max(dx, 0), nx + min(dx, 0)), slice(max(dy, 0), ny + min(dy, 0))
                moved[a, b] = weight[at, c, d]
                total, count = total + moved, count + 1
            total[~np.isfinite(weight[heading])] = np.inf
            here = np.argwhere(np.isfinite(total))
            there = here + p.ends[k, :2]
            tails.append(index[heading][tuple(here.T)])
            heads.append(index[p.ends[k, 2]][tuple(there.T)])
            costs.append(p.costs[k] * total[tuple(here.T)] / count)
    rows = np.concatenate(costs), (np.concatenate(tails), np.concatenate(heads))
    return csr_matrix(rows, shape=(weight.size, weight.size))


@pytest.mark.parametrize("kind", MOTIONS)
@pytest.mark.parametrize("first", range(0, 50, 10))
def test_paths_are_as_short_as_by_brute_force_in_random_mazes(kind, first):
    found = 0
    for seed in range(first, first + 10):
        lattice, rng = maze(kind, seed)
        free = np.flatnonzero(lattice.free)
        start, *goals = rng.choice(free, 3, replace=False).tolist()
        best = 0.1 * dijkstra(graph(lattice), indices=start)
        costs, before, by = lattice.search([(start, 0.0)], np.array(goals))
        np.testing.assert_allclose(costs[goals], best[goals], rtol=1e-6)
        for goal in goals:
            if np.isfinite(costs[goal]):
                nodes, rows = lattice.path(goal, before, by)
                assert nodes[0] == start
                np.testing.assert_allclose(rows[-1, :2], lattice.pose(goal)[:2], atol=1e-9)
                assert abs(wrapped(rows[-1, 2] - lattice.pose(goal).yaw)) < 1e-9
                found += 1
    assert found


@pytest.mark.parametrize("kind", MOTIONS)
def test_motions_end_at_poses_of_the_lattice_within_the_curvature(kind):
    p = MOTIONS[kind]
    for h, heading in enumerate(p.headings):
        for k in range(p.first[h], p.first[h + 1]):
            rows = np.vstack([(0.0, 0.0, heading), p.curves[k]])
            np.testing.assert_allclose(rows[-1, :2], p.ends[k, :2], atol=1e-9)
            assert abs(wrapped(rows[-1, 2] - p.headings[p.ends[k, 2]])) < 1e-9
            steps = np.diff(rows[:, :2], axis=0)
            length, turn = np.hypot(*steps.T), np.abs(wrapped(np.diff(rows[:, 2])))
            if kind == "holonomic" or not length.any():
                continue
            # The chords of arcs are in the mean of the headings at their ends.
            along = rows[:-1, 2] + 0.5 * wrapped(np.diff(rows[:, 2]))
            ahead = np.column_stack((np.cos(along), np.sin(along)))
            back = -1.0 if (steps * ahead).sum() < 0.0 else 1.0
            assert (back < 0.0) == (p.costs[k] > 1.5 * length.sum())
            across = steps[:, 0] * ahead[:, 1] - steps[:, 1] * ahead[:, 0]
            assert np.abs(across).max() < 0.02
            if kind != "differential":
                assert (turn <= 1.01 * length / 2.5).all()


def test_footprints_block_exactly_the_poses_that_touch_points():
    rng = np.random.default_rng(0)
    lattice = PoseLattice(MOTIONS["ackermann"], 0.05, np.array((-1.0, -0.5)), (30, 25))
    points = rng.uniform((-1.3, -0.8), (0.7, 1.0), (12, 2))
    lattice.block(BOX, points, 0.02)
    for node in range(0, lattice.weight.size, 7):
        pose = lattice.pose(node)
        c, s = math.cos(pose.yaw), math.sin(pose.yaw)
        near = BOX.distances((points - pose[:2]) @ np.array(((c, -s), (s, c)))).min()
        free = lattice.free.reshape(-1)[node]
        # A point is anywhere in its cell.
        assert free or near < 0.02 + 2.0 * 0.05 * math.sqrt(0.5)
        assert not free or near >= 0.02 - 1e-9
        assert lattice.node(pose) == (node if free else None)


def test_a_car_leads_around_a_wall_within_its_curvature():
    lattice = PoseLattice(MOTIONS["ackermann"], 0.1, np.zeros(2), (60, 60))
    wall = np.column_stack((np.full(40, 3.0), np.linspace(0.0, 4.0, 40)))
    lattice.block(BOX, wall, 0.05)
    start, goal = lattice.node(Pose2(1.0, 1.0, 0.0)), lattice.node(Pose2(5.0, 1.0, -1.57))
    _, before, by = lattice.search([(start, 0.0)], np.array([goal]))
    rows = lattice.path(goal, before, by)[1]
    assert rows[:, 1].max() > 4.0
    assert np.abs(PlanarPath(rows).curvature).max() < 1.05 / 0.25
    assert lattice.node(Pose2(3.0, 2.0, 0.0)) is None
    assert lattice.node(Pose2(9.0, 2.0, 0.0)) is None
