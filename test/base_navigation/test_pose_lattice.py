# SPDX-License-Identifier: Apache-2.0
"""The lattice of poses: motions within the abilities of bases, and shortest paths."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from motion_nodes.core.navigation.footprint import footprint_from
from motion_nodes.core.navigation.planar_geometry import PlanarPath, Pose2
from motion_nodes.core.navigation.pose_lattice import PoseLattice, motion_primitives

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
