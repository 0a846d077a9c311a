# SPDX-License-Identifier: Apache-2.0
"""The anytime planner: decreasing cost, nearly shortest paths, cancellation."""

import itertools
import math
import time

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.core.planning.anytime_planner import AnytimeRrtConnect
from motion_nodes.core.planning.planar_world import PlanarWorld, Wall, maze
from motion_nodes.core.planning.planning_problem import PlanStatus
from motion_nodes.core.planning.rrt_connect import RrtConnect
from motion_nodes.core.planning.search_settings import AnytimeSettings, RrtConnectSettings
from motion_nodes.errors import InvalidConfig

# The first search compiles its kernels.
pytestmark = pytest.mark.timeout(900)
START, GOAL = (0.7, 0.7), (9.3, 9.3)
WAY_ROUND = 2.0 * math.hypot(3.0, 3.0)
"""Shortest path of a point from (2, 3) to (8, 3) over the end of a thin wall at (5, 6)."""


@pytest.fixture(scope="module")
def wall():
    world = PlanarWorld([Wall((5.0, 3.0), (0.02, 6.0))], radius=0.01, resolution=0.02)
    # Two compilations in the first call.
    AnytimeRrtConnect(AnytimeSettings(optimization_time=60.0, search=FEW)).plan(
        world.request((2.0, 3.0), (8.0, 3.0), timeout=60.0, cancelled=_after(40))
    )
    return world


FEW = RrtConnectSettings(max_iterations=2000)


def _after(times):
    """Return a ``cancelled`` callback that returns True after ``times`` calls."""
    answers = iter([False] * times)
    return lambda: next(answers, True)


def plan(world, start, goal, seconds, seed=1):
    seen = []
    planner = AnytimeRrtConnect(AnytimeSettings(optimization_time=seconds), seen.append)
    result = planner.plan(world.request(start, goal, random_seed=seed, timeout=60.0))
    return result, seen


def test_cost_only_falls_and_the_last_one_is_returned(wall):
    result, seen = plan(wall, (2.0, 3.0), (8.0, 3.0), 0.3)
    costs = [one.cost for one in seen]
    assert costs == sorted(costs, reverse=True)
    assert len(set(costs)) == len(costs)
    assert result.cost == costs[-1]
    np.testing.assert_array_equal(result.path, seen[-1].path)
    times = [one.time for one in seen]
    assert times == sorted(times)


def test_every_path_is_free_and_as_long_as_it_says(wall):
    _, seen = plan(wall, (2.0, 3.0), (8.0, 3.0), 0.3)
    for one in seen:
        assert tuple(one.path[0]) == (2.0, 3.0)
        assert tuple(one.path[-1]) == (8.0, 3.0)
        assert one.cost == pytest.approx(np.linalg.norm(np.diff(one.path, axis=0), axis=1).sum())
        for a, b in itertools.pairwise(one.path):
            assert wall.checker.edge_free(a, b)


@pytest.mark.long
def test_the_shortest_path_is_approached(wall):
    result, _ = plan(wall, (2.0, 3.0), (8.0, 3.0), 1.0)
    assert WAY_ROUND < result.cost < 1.02 * WAY_ROUND


def test_of_two_ways_round_the_shorter_one_is_found():
    """A first path around the longer side is replaced by one around the other."""
    world = PlanarWorld([Wall((5.0, 4.4), (0.4, 6.4))])
    over = 2.0 * math.hypot(2.8, 6.0 - 7.65)
    under = 2.0 * math.hypot(2.8, 6.0 - 1.15)
    assert over < under
    for seed in range(3):
        result, _ = plan(world, (2.0, 6.0), (8.0, 6.0), 0.5, seed)
        assert result.path[:, 1].max() > 7.6
        assert result.cost < 1.05 * (over + 0.5)


def test_a_straight_way_ends_the_search_at_once(wall):
    result, seen = plan(wall, (2.0, 3.0), (4.0, 3.0), 30.0)
    assert result.time < 20.0
    assert len(seen) == 1
    assert result.cost == pytest.approx(2.0)


def test_cancelling_ends_with_the_best_path_so_far(wall):
    planner = AnytimeRrtConnect(AnytimeSettings(optimization_time=60.0))
    began = time.perf_counter()
    request = wall.request((2.0, 3.0), (8.0, 3.0), timeout=60.0, cancelled=_after(30))
    result = planner.plan(request)
    assert time.perf_counter() - began < 30.0
    assert result.success


def test_without_a_first_path_the_reason_is_that_of_the_search(wall):
    closed = PlanarWorld([Wall((5.0, 5.0), (0.3, 10.0))])
    planner = AnytimeRrtConnect(AnytimeSettings(search=RrtConnectSettings(max_iterations=100)))
    result = planner.plan(closed.request(START, GOAL, timeout=60.0))
    assert result.status is PlanStatus.ITERATION_LIMIT
    assert result.planner == planner.name
    assert "100" in result.reason
    assert planner.tree() is not None


def test_the_maze_is_planned_and_its_trees_can_be_drawn():
    world = maze()
    planner = AnytimeRrtConnect(AnytimeSettings(optimization_time=0.2))
    result = planner.plan(world.request(START, GOAL, timeout=60.0))
    first = RrtConnect().plan(world.request(START, GOAL, timeout=60.0))
    assert result.cost < 0.9 * first.cost
    assert len(planner.tree().nodes) == sum(result.tree_sizes)


def test_wrong_settings_are_refused_by_name():
    with pytest.raises(InvalidConfig, check=about("optimization_time")):
        AnytimeSettings(optimization_time=-1.0)
    with pytest.raises(InvalidConfig, check=about("least_gain")):
        AnytimeSettings(least_gain=2.0)
