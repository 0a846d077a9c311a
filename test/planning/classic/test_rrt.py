# SPDX-License-Identifier: Apache-2.0
"""Plain RRT: every edge, start and goal are checked for collisions."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from barrier_scene import GOAL, START, WEIGHTS, barrier_checker, max_depth
from raised_errors import about

from motion_nodes.core.planning.planar_world import PlanarWorld, Wall, maze
from motion_nodes.core.planning.planners import DirectMotion
from motion_nodes.core.planning.planning_problem import JointGoal, PlanRequest, PlanStatus
from motion_nodes.core.planning.rrt import Rrt, RrtSettings
from motion_nodes.errors import InvalidConfig

PLANAR = RrtSettings(step_size=0.5, max_iterations=20_000)


def test_maze_is_solved_with_ends_exact_and_edges_free() -> None:
    world = maze()
    start, goal = np.array([0.5, 0.5]), np.array([9.5, 0.5])
    planner = Rrt(PLANAR)
    result = planner.plan(world.request(start, goal))
    assert result.status is PlanStatus.SOLVED
    assert result.path is not None
    assert (result.path[0] == start).all()
    assert (result.path[-1] == goal).all()
    assert np.linalg.norm(np.diff(result.path, axis=0), axis=1).max() <= 0.5 + 1e-9
    assert max_depth(result.path, world.checker) < 1e-3
    assert result.cost == pytest.approx(np.linalg.norm(np.diff(result.path, axis=0), axis=1).sum())
    tree = planner.tree()
    assert tree is not None
    assert len(tree.nodes) == result.tree_sizes[0]
    assert (tree.parents[1:] < np.arange(1, len(tree.parents))).all()


def test_wall_thinner_than_a_step_is_not_jumped_over() -> None:
    # The wall spans the square: no path exists, and start and goal are less than a step apart.
    world = PlanarWorld([Wall((5.0, 5.0), (0.02, 10.0))], radius=0.02, resolution=0.01)
    planner = Rrt(RrtSettings(step_size=1.0, max_iterations=3000))
    result = planner.plan(world.request((4.8, 5.0), (5.2, 5.0), timeout=30.0))
    assert result.status is PlanStatus.ITERATION_LIMIT
    assert "3000 iterations" in result.reason
    tree = planner.tree()
    assert tree is not None
    assert (tree.nodes[:, 0] < 5.0).all()


def test_equal_seeds_give_equal_paths_and_others_do_not() -> None:
    world = maze()
    request = world.request((0.5, 0.5), (9.5, 0.5))
    first, again = (Rrt(PLANAR).plan(request).path for _ in range(2))
    other = Rrt(PLANAR).plan(replace(request, random_seed=7)).path
    assert first is not None
    assert other is not None
    np.testing.assert_array_equal(first, again)
    assert first.shape != other.shape or (first != other).any()


def test_start_and_goal_in_a_wall_are_told() -> None:
    world = maze()
    inside = Rrt(PLANAR).plan(world.request((2.5, 3.0), (9.5, 0.5)))
    assert inside.status is PlanStatus.START_IN_COLLISION
    assert "wall_1" in inside.reason
    blocked = Rrt(PLANAR).plan(world.request((0.5, 0.5), (5.0, 6.0)))
    assert blocked.status is PlanStatus.GOAL_IN_COLLISION
    assert "wall_2" in blocked.reason


def test_start_that_is_the_goal_needs_no_search() -> None:
    result = Rrt(PLANAR).plan(maze().request((0.5, 0.5), (0.5, 0.5)))
    assert result.success
    assert result.iterations == 0
    assert result.path is not None
    np.testing.assert_array_equal(result.path, [[0.5, 0.5], [0.5, 0.5]])


def test_time_and_cancelling_end_the_search() -> None:
    world = PlanarWorld([Wall((5.0, 5.0), (0.5, 10.0))])
    endless = Rrt(RrtSettings(step_size=0.2, max_iterations=10_000_000 // 100))
    late = endless.plan(world.request((1, 1), (9, 9), timeout=0.05))
    assert late.status is PlanStatus.TIMED_OUT
    began = time.perf_counter()
    stopped = endless.plan(
        world.request((1, 1), (9, 9), cancelled=lambda: time.perf_counter() - began > 0.02)
    )
    assert stopped.status is PlanStatus.CANCELLED
    assert stopped.path is None


def test_arm_finds_its_way_between_barriers() -> None:
    checker = barrier_checker()
    settings = RrtSettings(step_size=1.0, distance_metric_weights=WEIGHTS)
    solved = 0
    for seed in range(5):
        request = PlanRequest(checker, START, (JointGoal(GOAL),), 20.0, random_seed=seed)
        result = Rrt(settings).plan(request)
        if result.path is not None:
            solved += 1
            assert (result.path[0] == START).all()
            assert (result.path[-1] == GOAL).all()
            # Max depth between two checked configurations.
            assert max_depth(result.path, checker) < 3e-3
    assert solved >= 4


def test_share_of_the_samples_is_drawn_near_goals() -> None:
    # The goal is walled in, so the trees show the distribution of the samples.
    walls = [
        Wall((8.0, 8.5), (1.1, 0.1)), Wall((8.0, 7.5), (1.1, 0.1)), Wall((8.5, 8.0), (0.1, 1.1)),
        Wall((7.5, 8.0), (0.1, 1.1)),
    ]  # fmt: skip
    request = PlanarWorld(walls, radius=0.05).request((1, 1), (8.0, 8.0), timeout=60.0)
    shares = []
    for near_bias in (0.0, 0.6):
        planner = Rrt(RrtSettings(step_size=0.5, near_bias=near_bias, max_iterations=300))
        assert planner.plan(request).status is PlanStatus.ITERATION_LIMIT
        tree = planner.tree()
        assert tree is not None
        shares.append(np.mean(np.linalg.norm(tree.nodes - [8.0, 8.0], axis=1) < 1.5))
    assert shares[1] > 1.5 * shares[0]


def test_one_of_several_goals_is_reached_and_named() -> None:
    world = PlanarWorld([Wall((7.0, 7.0), (2.0, 2.0))])
    request = replace(
        world.request((1, 1), (7, 7)), goals=(JointGoal((7.0, 7.0)), JointGoal((2.0, 3.0)))
    )
    result = Rrt(PLANAR).plan(request)
    assert result.success
    assert result.goal_index == 1


def test_settings_out_of_range_are_refused() -> None:
    for bad in (
        {"step_size": 0.0},
        {"goal_bias": 1.5},
        {"near_bias": -0.1},
        {"max_iterations": 0},
        {"step_size": np.nan},
    ):
        with pytest.raises(InvalidConfig, check=about(next(iter(bad)))):
            RrtSettings(**bad)  # type: ignore[arg-type]
    world = maze()
    with pytest.raises(InvalidConfig, check=about("weights")):
        Rrt(RrtSettings(distance_metric_weights=(1.0,))).plan(world.request((1, 1), (9, 9)))


def test_direct_motion_goes_straight_or_says_where_it_is_blocked() -> None:
    world = maze()
    straight = DirectMotion().plan(world.request((0.5, 0.5), (0.5, 9.0)))
    assert straight.success
    assert straight.path is not None
    assert len(straight.path) == 2
    blocked = DirectMotion().plan(world.request((0.5, 0.5), (9.5, 0.5)))
    assert blocked.status is PlanStatus.BLOCKED
    assert "wall_1" in blocked.reason
    assert "%" in blocked.reason
