# SPDX-License-Identifier: Apache-2.0
"""Planners that improve: anytime search and trajectory optimization."""

import itertools
import math
import time
from dataclasses import replace

import numpy as np
import pytest
from raised_errors import about

import motion_nodes as mn
from motion_nodes.core.planning.anytime_planner import AnytimeRrtConnect, AnytimeSettings
from motion_nodes.core.planning.path_verification import sweep_path
from motion_nodes.core.planning.pipeline import PlanOptions
from motion_nodes.core.planning.planar_world import PlanarWorld, Wall, maze
from motion_nodes.core.planning.planning_problem import JointGoal, PlanStatus
from motion_nodes.core.planning.rrt_connect import RrtConnect, RrtConnectSettings
from motion_nodes.core.planning.trajopt import Clearances, TrajOptSettings, bspline
from motion_nodes.errors import InvalidConfig

# The first search compiles its kernels.
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


@pytest.mark.timeout(900)
def test_cost_only_falls_and_the_last_one_is_returned(wall):
    result, seen = plan(wall, (2.0, 3.0), (8.0, 3.0), 0.3)
    costs = [one.cost for one in seen]
    assert costs == sorted(costs, reverse=True)
    assert len(set(costs)) == len(costs)
    assert result.cost == costs[-1]
    np.testing.assert_array_equal(result.path, seen[-1].path)
    times = [one.time for one in seen]
    assert times == sorted(times)


@pytest.mark.timeout(900)
def test_every_path_is_free_and_as_long_as_it_says(wall):
    _, seen = plan(wall, (2.0, 3.0), (8.0, 3.0), 0.3)
    for one in seen:
        assert tuple(one.path[0]) == (2.0, 3.0)
        assert tuple(one.path[-1]) == (8.0, 3.0)
        assert one.cost == pytest.approx(np.linalg.norm(np.diff(one.path, axis=0), axis=1).sum())
        for a, b in itertools.pairwise(one.path):
            assert wall.checker.edge_free(a, b)


@pytest.mark.timeout(900)
@pytest.mark.long
def test_the_shortest_path_is_approached(wall):
    result, _ = plan(wall, (2.0, 3.0), (8.0, 3.0), 1.0)
    assert WAY_ROUND < result.cost < 1.02 * WAY_ROUND


@pytest.mark.timeout(900)
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


@pytest.mark.timeout(900)
def test_a_straight_way_ends_the_search_at_once(wall):
    result, seen = plan(wall, (2.0, 3.0), (4.0, 3.0), 30.0)
    assert result.time < 20.0
    assert len(seen) == 1
    assert result.cost == pytest.approx(2.0)


@pytest.mark.timeout(900)
def test_cancelling_ends_with_the_best_path_so_far(wall):
    planner = AnytimeRrtConnect(AnytimeSettings(optimization_time=60.0))
    began = time.perf_counter()
    request = wall.request((2.0, 3.0), (8.0, 3.0), timeout=60.0, cancelled=_after(30))
    result = planner.plan(request)
    assert time.perf_counter() - began < 30.0
    assert result.success


@pytest.mark.timeout(900)
def test_without_a_first_path_the_reason_is_that_of_the_search(wall):
    closed = PlanarWorld([Wall((5.0, 5.0), (0.3, 10.0))])
    planner = AnytimeRrtConnect(AnytimeSettings(search=RrtConnectSettings(max_iterations=100)))
    result = planner.plan(closed.request(START, GOAL, timeout=60.0))
    assert result.status is PlanStatus.ITERATION_LIMIT
    assert result.planner == planner.name
    assert "100" in result.reason
    assert planner.tree() is not None


@pytest.mark.timeout(900)
def test_the_maze_is_planned_and_its_trees_can_be_drawn():
    world = maze()
    planner = AnytimeRrtConnect(AnytimeSettings(optimization_time=0.2))
    result = planner.plan(world.request(START, GOAL, timeout=60.0))
    first = RrtConnect().plan(world.request(START, GOAL, timeout=60.0))
    assert result.cost < 0.9 * first.cost
    assert len(planner.tree().nodes) == sum(result.tree_sizes)


@pytest.mark.timeout(900)
def test_wrong_settings_are_refused_by_name():
    with pytest.raises(InvalidConfig, check=about("optimization_time")):
        AnytimeSettings(optimization_time=-1.0)


LEFT = np.array([0.9, 0.5, 0.0, -1.9, 0.0, 2.4, 0.8])
RIGHT = LEFT * [-1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
OPTIMIZED = PlanOptions(planner="TrajOpt", preferred_clearance=0.0)  # without a short timeout
LONG = 60.0
"""Timeout that a busy machine does not reach [s]."""


@pytest.fixture(scope="module")
def arm():
    return mn.load_robot("franka")["arm"]


@pytest.fixture(scope="module")
def wall_of_trajopt():
    world = mn.World()
    world.add("wall", mn.Box(0.5, 0.04, 0.5), mn.pose(xyz=(0.6, 0.0, 0.25)))
    return world


def test_a_motion_around_a_wall_becomes_faster_and_keeps_everything(arm, wall_of_trajopt):
    plain, best = (
        arm.plan(LEFT, RIGHT, wall_of_trajopt, timeout=LONG, options=o) for o in (None, OPTIMIZED)
    )
    assert plain.success
    assert best.success
    assert best.result.planner == "TrajOpt"
    assert best.motion.duration < 0.97 * plain.motion.duration
    assert max(best.motion.limit_use(arm.limits)) <= 1.0 + 1e-9
    q = best.motion.states(np.linspace(0.0, best.motion.end_time, 500))[0]
    np.testing.assert_allclose(q[[0, -1]], [LEFT, RIGHT], atol=1e-9)
    assert (q >= arm.limits.lower).all()
    assert (q <= arm.limits.upper).all()
    assert sweep_path(arm.checker(wall_of_trajopt), q).free
    again = arm.plan(LEFT, RIGHT, wall_of_trajopt, timeout=LONG, options=OPTIMIZED)
    np.testing.assert_array_equal(again.trajectory.positions, best.trajectory.positions)


@pytest.mark.long
def test_slower_motions_keep_the_curve(arm, wall_of_trajopt):
    slow = replace(OPTIMIZED, velocity_scaling=0.2)
    fast, slow = (arm.plan(LEFT, RIGHT, wall_of_trajopt, options=o) for o in (OPTIMIZED, slow))
    assert slow.motion.duration > fast.motion.duration
    assert slow.motion.limit_use(arm.limits).velocity <= 0.2 + 1e-9


def test_a_straight_line_stays_one(arm):
    plan = arm.plan(LEFT, RIGHT, options=OPTIMIZED)
    assert plan.success
    assert plan.result.curve is None
    assert len(plan.path) == 2


def test_poses_and_goal_sets_are_reached(arm, wall_of_trajopt):
    plan = arm.plan(LEFT, arm.fk(RIGHT), wall_of_trajopt, options=OPTIMIZED)
    assert plan.success
    np.testing.assert_allclose(
        arm.fk(plan.trajectory.positions[-1])[:3, 3], arm.fk(RIGHT)[:3, 3], atol=2e-3
    )
    goals = (JointGoal(np.full(7, 50.0)), JointGoal(RIGHT))
    plan = arm.plan(LEFT, goals, wall_of_trajopt, options=OPTIMIZED)
    assert plan.success
    assert plan.result.goal_index == 1


@pytest.mark.long
def test_a_previous_path_is_a_candidate(arm, wall_of_trajopt):
    before = arm.plan(LEFT, RIGHT, wall_of_trajopt, options=OPTIMIZED)
    settings = TrajOptSettings(
        paths=1, candidates=1, warm_start=tuple(map(tuple, before.path.tolist()))
    )
    after = arm.plan(LEFT, RIGHT, wall_of_trajopt, options=replace(OPTIMIZED, settings=settings))
    assert after.motion.duration <= 1.02 * before.motion.duration
    wrong = replace(settings, warm_start=((0.0, 1.0), (1.0, 1.0)))
    with pytest.raises(InvalidConfig):
        arm.plan(LEFT, RIGHT, wall_of_trajopt, options=replace(OPTIMIZED, settings=wrong))


def test_goals_in_collision_are_refused_with_the_reason(arm, wall_of_trajopt):
    blocked = mn.World()
    blocked.add("rock", mn.Box(0.3, 0.3, 0.3), mn.pose(xyz=arm.fk(RIGHT)[:3, 3]))
    plan = arm.plan(LEFT, RIGHT, blocked, options=OPTIMIZED)
    assert not plan.success
    assert "rock" in plan.reason


def test_gradients_of_clearances_are_their_slopes(arm, wall_of_trajopt):
    Q = np.array([LEFT, 0.5 * (LEFT + RIGHT) + 0.1, RIGHT])
    clearances = Clearances(arm.checker(wall_of_trajopt), 0.1, 0.02)
    found = clearances.shortfalls(Q)
    assert len(found.missing) > 5
    assert set(found.row) >= {1}
    step = np.random.default_rng(1).normal(size=Q.shape) * 1e-4
    ahead, behind = clearances.shortfalls(Q + step), clearances.shortfalls(Q - step)
    assert len(ahead.missing) == len(behind.missing) == len(found.missing)
    slope = 0.5 * (behind.missing - ahead.missing)
    expected = np.einsum("kj,kj->k", found.gradient, step[found.row])
    np.testing.assert_allclose(slope, expected, atol=2e-6)


def test_splines_are_polynomials_between_their_ends():
    spline = bspline(9, 41)
    u = np.linspace(0.0, 1.0, 41)
    points = np.stack([3.0 * u - 1.0, u**3 - u], axis=1)
    P = spline.fitted(points)
    np.testing.assert_allclose(spline.samples @ P, points, atol=1e-4)
    path = spline.path(("a", "b"), P)
    np.testing.assert_allclose(path.evaluate(u), spline.samples @ P, atol=1e-9)
    fine = np.linspace(0.0, 1.0, 20_001)
    for order, form in ((1, spline.rate), (2, spline.curvature)):
        squares = path.evaluate(fine, order) ** 2
        integral = np.trapezoid(squares, fine, axis=0)
        np.testing.assert_allclose(np.diag(P.T @ form @ P), integral, rtol=1e-5, atol=1e-6)
    for order in (1, 2, 3):  # continuous at the knots
        jumps = [
            path.evaluate(path.breaks[1:-1], order, np.arange(k, k + 3, dtype=np.int32))
            for k in (0, 1)
        ]
        np.testing.assert_allclose(*jumps, atol=1e-6)


@pytest.mark.parametrize("wrong", [{"control_points": 3}, {"paths": 0}, {"clearance": np.nan}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(InvalidConfig):
        TrajOptSettings(**wrong)
