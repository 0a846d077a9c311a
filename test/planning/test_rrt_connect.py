# SPDX-License-Identifier: Apache-2.0
"""RRT-Connect: free paths, exact ends, seeds, limits, several goals, memory."""

import math
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from raised_errors import about

import motion_nodes as mn
from motion_nodes.core.planning.anytime_planner import AnytimeRrtConnect
from motion_nodes.core.planning.planar_world import PlanarWorld, Wall, maze
from motion_nodes.core.planning.planning_problem import (
    JointGoal,
    JointSpace,
    PlanRequest,
    PlanStatus,
    travel_weights,
)
from motion_nodes.core.planning.rrt_connect import RrtConnect, RrtConnectSettings, longest_edge
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand, InvalidConfig

START, GOAL = (0.7, 0.7), (9.3, 9.3)


@pytest.fixture(scope="module")
def world():
    return maze()


@pytest.fixture(scope="module", autouse=True)
def compiled(world):
    RrtConnect().plan(world.request(START, GOAL, timeout=100.0))


def finer(world):
    """Return a checker with ten times the resolution."""
    return CollisionChecker(
        world.robot, scene=world.checker.scene, resolution=world.checker.resolution / 10.0
    )


def blocked_edges(checker, path):
    return [k for k in range(len(path) - 1) if not checker.edge_free(path[k], path[k + 1])]


@pytest.mark.parametrize("seed", range(20))
def test_paths_through_the_maze_are_free_and_end_exactly(world, seed):
    result = RrtConnect().plan(world.request(START, GOAL, random_seed=seed, timeout=60.0))
    assert result.status is PlanStatus.SOLVED
    assert result.reason == ""
    assert tuple(result.path[0]) == START
    assert tuple(result.path[-1]) == GOAL
    assert blocked_edges(world.checker, result.path) == []
    lengths = np.linalg.norm(np.diff(result.path, axis=0), axis=1)
    assert result.cost == pytest.approx(lengths.sum())
    assert result.goal_index == 0
    assert result.iterations > 0
    assert min(result.tree_sizes) >= 1


def unequal(world, *steps):
    """Return the world's checker with a step for each joint."""
    return CollisionChecker(world.robot, scene=world.checker.scene, resolution=steps)


def test_lengths_are_those_that_the_spheres_move_unless_weights_are_given(world):
    """A joint of a quarter of the steps moves the spheres four times as far."""
    checker, ends = unequal(world, 0.04, 0.01), (np.array(START), np.array((1.2, 3.0)))
    weights = travel_weights(checker)
    np.testing.assert_allclose(weights, np.array([1.0, 4.0]) / math.sqrt(8.5))
    np.testing.assert_allclose(travel_weights(world.checker), 1.0)
    request = PlanRequest(checker, ends[0], (JointGoal(ends[1]),))
    for given, expected in (((), weights), ((2.0, 1.0), np.array([2.0, 1.0]))):
        result = RrtConnect(RrtConnectSettings(distance_metric_weights=given)).plan(request)
        assert len(result.path) == 2
        assert result.cost == pytest.approx(np.linalg.norm((ends[1] - ends[0]) * expected))


def test_memory_of_planners_that_are_gone_changes_no_path_and_no_tree(world):
    """Each planner begins with memory of others: of the same space, or of other settings."""
    kept = RrtConnect()
    kept.plan(world.request(START, GOAL, timeout=60.0, random_seed=1))
    drawn = kept.tree().nodes.copy()
    first = RrtConnect().plan(world.request(START, GOAL, timeout=60.0, random_seed=2))
    for settings in (RrtConnectSettings(step_size=0.3), RrtConnectSettings(), None):
        again = RrtConnect(settings).plan(world.request(START, GOAL, timeout=60.0, random_seed=2))
        if settings is None or settings.step_size == 0.0:
            np.testing.assert_array_equal(again.path, first.path)
        else:
            edges = np.linalg.norm(np.diff(again.path, axis=0), axis=1)
            assert edges.max() <= 0.3 + 1e-12
    np.testing.assert_array_equal(kept.tree().nodes, drawn)


def test_memory_suits_the_steps_of_the_checker_it_is_used_for(world):
    planner = RrtConnect()
    for steps in ((0.01, 0.01), (0.01, 0.04), (0.01, 0.01)):
        request = PlanRequest(unequal(world, *steps), START, (JointGoal(GOAL),), timeout=60.0)
        used, fresh = planner.plan(request), RrtConnect().plan(request)
        np.testing.assert_array_equal(used.path, fresh.path)
        assert used.cost == fresh.cost


@pytest.mark.long
def test_edges_keep_to_the_step_size_and_to_the_checkers_steps_at_a_finer_look(world):
    settings = RrtConnectSettings(step_size=0.4)
    result = RrtConnect(settings).plan(world.request(START, GOAL, timeout=60.0))
    lengths = np.linalg.norm(np.diff(result.path, axis=0), axis=1)
    assert lengths.max() <= 0.4 + 1e-12
    # The max depth between two checks is the sagitta of a step at a pillar.
    close = CollisionChecker(
        world.robot, scene=world.checker.scene, resolution=world.checker.resolution / 10.0
    )
    deepest = 0.0
    for a, b in zip(result.path[:-1], result.path[1:], strict=True):
        for share in np.linspace(0.0, 1.0, 80):
            deepest = min(deepest, close.distance(a + share * (b - a)).value)
    assert deepest > -(0.05**2)


def test_equal_seeds_give_equal_paths_and_others_others(world):
    plan = RrtConnect().plan
    one, same = (plan(world.request(START, GOAL, random_seed=5, timeout=60.0)) for _ in range(2))
    other = plan(world.request(START, GOAL, random_seed=6, timeout=60.0))
    np.testing.assert_array_equal(one.path, same.path)
    assert one.iterations == same.iterations
    assert one.path.shape != other.path.shape or (one.path != other.path).any()


def test_one_planner_plans_again_and_again_in_its_memory(world):
    """Results do not change later, and equal those of a new planner."""
    planner = RrtConnect()
    others = [(JointGoal(GOAL),), (JointGoal(GOAL), JointGoal((1.2, 9.0)), JointGoal((9.0, 1.0)))]
    requests = [
        PlanRequest(world.checker, START, others[k % 2], timeout=60.0, random_seed=k)
        for k in range(8)
    ]
    results = [planner.plan(request) for request in requests]
    assert not planner.plan(world.request((2.5, 3.5), GOAL)).success  # start in collision
    for request, result in zip(requests, results, strict=True):
        fresh = RrtConnect().plan(request)
        np.testing.assert_array_equal(result.path, fresh.path)
        assert (result.goal_index, result.cost) == (fresh.goal_index, fresh.cost)
        assert result.tree_sizes == fresh.tree_sizes


def test_memory_suits_the_robot_it_is_used_for(world):
    planner, other = RrtConnect(), PlanarWorld([Wall((5.0, 3.0), (0.2, 6.0))], radius=0.1)
    for _ in range(2):
        assert planner.plan(world.request(START, GOAL, timeout=60.0)).success
        result = planner.plan(other.request((2.0, 2.0), (8.0, 2.0), timeout=60.0))
        assert blocked_edges(other.checker, result.path) == []


def test_threads_may_share_a_planner(world):
    planner = RrtConnect(RrtConnectSettings(step_size=0.2))
    requests = [world.request(START, GOAL, timeout=60.0, random_seed=k) for k in range(24)]
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(planner.plan, requests))
    for request, result in zip(requests, results, strict=True):
        alone = RrtConnect(planner.settings).plan(request)
        np.testing.assert_array_equal(result.path, alone.path)


def test_a_start_that_is_the_goal_is_a_path_of_two_equal_waypoints(world):
    result = RrtConnect().plan(world.request(START, START, timeout=60.0))
    np.testing.assert_array_equal(result.path, [START, START])
    assert result.cost == 0.0


def test_a_straight_way_is_taken_without_a_search(world):
    result = RrtConnect().plan(world.request(START, (1.2, 3.0), timeout=60.0))
    np.testing.assert_array_equal(result.path, [START, (1.2, 3.0)])
    assert result.iterations == 0


def test_of_several_goals_the_nearest_that_is_seen_is_taken_and_named(world):
    goals = (JointGoal(GOAL), JointGoal((1.2, 3.0)), JointGoal((1.0, 1.0)))
    request = PlanRequest(world.checker, START, goals, timeout=60.0)
    result = RrtConnect().plan(request)
    assert result.goal_index == 2
    np.testing.assert_array_equal(result.path[-1], (1.0, 1.0))


def test_goals_that_cannot_be_reached_do_not_keep_from_one_that_can():
    walls = [Wall((8.0, y), (2.4, 0.2)) for y in (7.9, 10.0)]
    walls += [Wall((x, 9.0), (0.2, 2.2)) for x in (6.9, 9.1)]
    world = PlanarWorld(walls)
    inside, outside = (8.0, 9.0), (6.0, 9.5)
    request = PlanRequest(
        world.checker, START, (JointGoal(inside), JointGoal(outside)), timeout=60.0
    )
    result = RrtConnect().plan(request)
    assert result.goal_index == 1
    only = RrtConnect(RrtConnectSettings(max_iterations=300)).plan(
        world.request(START, inside, timeout=60.0)
    )
    assert only.status is PlanStatus.ITERATION_LIMIT
    assert "300" in only.reason
    assert only.path is None
    assert only.iterations == 300


def test_walls_thinner_than_a_step_are_not_jumped():
    world = PlanarWorld([Wall((5.0, 5.0), (0.02, 10.0))], resolution=0.02)
    settings = RrtConnectSettings(max_iterations=500, step_size=3.0)
    result = RrtConnect(settings).plan(world.request(START, GOAL, timeout=60.0))
    assert result.status is PlanStatus.ITERATION_LIMIT


def test_the_time_allowed_is_used_unless_iterations_are_bounded():
    # The goal is walled in: trees cannot meet, and each iteration takes microseconds.
    world = PlanarWorld([Wall((5.0, 5.0), (0.3, 10.0))])
    request = world.request(START, GOAL, timeout=0.5)
    for planner in (RrtConnect(), AnytimeRrtConnect()):
        result = planner.plan(request)
        assert result.status is PlanStatus.TIMED_OUT
        assert result.time >= 0.5
    assert RrtConnectSettings().max_iterations == 0


def test_time_and_cancelling_end_the_search():
    world = PlanarWorld([Wall((5.0, 5.0), (0.3, 10.0))])
    planner = RrtConnect(RrtConnectSettings(max_iterations=10**9))
    late = planner.plan(world.request(START, GOAL, timeout=0.05))
    assert late.status is PlanStatus.TIMED_OUT
    assert "0.05 s" in late.reason
    asked = iter([False] * 3)
    cancelled = planner.plan(
        world.request(START, GOAL, timeout=60.0, cancelled=lambda: next(asked, True))
    )
    assert cancelled.status is PlanStatus.CANCELLED


def test_trees_grow_beyond_their_first_memory_and_can_be_drawn():
    world = PlanarWorld([Wall((5.0, 5.0), (0.3, 10.0))])
    planner = RrtConnect(RrtConnectSettings(max_iterations=6000, dynamic_domain=False))
    result = planner.plan(world.request(START, GOAL, timeout=60.0))
    assert max(result.tree_sizes) > 1500
    tree = planner.tree()
    assert len(tree.nodes) == sum(result.tree_sizes)
    assert (tree.parents < 0).sum() == 2
    has = tree.parents >= 0
    assert (tree.parents[has] < np.flatnonzero(has)).all()
    # Each tree stays on its side of the wall.
    first = result.tree_sizes[0]
    assert (tree.nodes[:first, 0] < 5.0).all()
    assert (tree.nodes[first:, 0] > 5.0).all()


@pytest.mark.parametrize("fraction", [0.0, 0.2, 0.8, 1.0])
def test_other_shares_of_exploration_find_paths_too(world, fraction):
    settings = RrtConnectSettings(exploration_fraction=fraction)
    result = RrtConnect(settings).plan(world.request(START, GOAL, timeout=60.0))
    assert result.success
    assert blocked_edges(world.checker, result.path) == []


def test_less_exploration_means_more_attempts_to_join_the_trees():
    world = PlanarWorld([Wall((5.0, 5.0), (0.3, 10.0))])
    sizes = []
    for fraction in (0.2, 0.5, 1.0):
        settings = RrtConnectSettings(exploration_fraction=fraction, max_iterations=300)
        sizes.append(RrtConnect(settings).plan(world.request(START, GOAL, timeout=60.0)))
    grown = [sum(result.tree_sizes) for result in sizes]
    # Attempts add nodes where the first part of their segment is free.
    assert grown[0] > grown[1] > grown[2]


def test_weights_shape_the_metric(world):
    settings = RrtConnectSettings(distance_metric_weights=(3.0, 1.0))
    result = RrtConnect(settings).plan(world.request(START, GOAL, timeout=60.0))
    lengths = np.linalg.norm(np.diff(result.path, axis=0) * (3.0, 1.0), axis=1)
    assert result.cost == pytest.approx(lengths.sum())


def test_what_is_wrong_with_start_and_goal_is_said(world):
    plan = RrtConnect().plan
    assert plan(world.request((2.5, 3.5), GOAL)).status is PlanStatus.START_IN_COLLISION
    assert plan(world.request(START, (2.5, 3.5))).status is PlanStatus.GOAL_IN_COLLISION
    assert plan(world.request((-5.0, 0.5), GOAL)).status is PlanStatus.START_OUTSIDE_LIMITS
    assert plan(world.request((math.nan, 0.5), GOAL)).path is None
    with pytest.raises(InvalidCommand):
        plan(world.request((0.5, 0.5, 0.5), GOAL))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step_size", -1.0),
        ("step_size", math.nan),
        ("max_iterations", -1),
        ("max_sampling", 0),
        ("exploration_fraction", 1.5),
        ("focus", -0.1),
    ],
)
def test_wrong_settings_are_refused_by_name(name, value):
    with pytest.raises(InvalidConfig, check=about(name)):
        RrtConnectSettings(**{name: value})


def test_wrong_number_of_weights_is_refused(world):
    with pytest.raises(InvalidConfig, check=about("weights")):
        RrtConnect(RrtConnectSettings(distance_metric_weights=(1.0,) * 3)).plan(
            world.request(START, GOAL)
        )


@pytest.mark.long
def test_a_batch_is_short_enough_to_cancel_soon(world):
    """A search of a second polls ``cancelled`` many times, even on a busy machine."""
    asked = []
    blocked = PlanarWorld([Wall((5.0, 5.0), (0.3, 10.0))])
    planner = RrtConnect(RrtConnectSettings(max_iterations=10**9))

    def cancelled():
        asked.append(time.perf_counter())
        return False

    planner.plan(blocked.request(START, GOAL, timeout=1.0, cancelled=cancelled))
    assert len(asked) > 20


def test_edges_are_shorter_with_more_joints():
    limits, steps = mn.load_robot("franka")["arm"].checker(World()).limits, []
    for count in (1, 2):
        space = JointSpace(
            tuple(f"{name}_{k}" for k in range(count) for name in limits.names),
            *(np.tile(x, count) for x in (limits.lower, limits.upper)),
            wraps=np.zeros(7 * count, bool), prismatic=np.zeros(7 * count, bool),
        )  # fmt: skip
        steps.append(longest_edge(RrtConnectSettings(), space, space.lower, space.upper))
    assert steps[1] == pytest.approx(steps[0] / math.sqrt(2.0))
