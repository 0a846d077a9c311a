# SPDX-License-Identifier: Apache-2.0
"""Trajectory optimization: faster than shortened paths, within limits, collision-free."""

from dataclasses import replace

import numpy as np
import pytest

import motion_nodes as mn
from motion_nodes.core.planning.path_verification import sweep_path
from motion_nodes.core.planning.pipeline import PlanOptions
from motion_nodes.core.planning.planning_problem import JointGoal
from motion_nodes.core.planning.trajopt import Clearances, TrajOptSettings, bspline
from motion_nodes.errors import InvalidConfig

LEFT = np.array([0.9, 0.5, 0.0, -1.9, 0.0, 2.4, 0.8])
RIGHT = LEFT * [-1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
OPTIMIZED = PlanOptions(planner="TrajOpt", preferred_clearance=0.0)  # without a short timeout
LONG = 60.0
"""Timeout that a busy machine does not reach [s]."""


@pytest.fixture(scope="module")
def arm():
    return mn.load_robot("franka")["arm"]


@pytest.fixture(scope="module")
def wall():
    world = mn.World()
    world.add("wall", mn.Box(0.5, 0.04, 0.5), mn.pose(xyz=(0.6, 0.0, 0.25)))
    return world


def test_a_motion_around_a_wall_becomes_faster_and_keeps_everything(arm, wall):
    plain, best = (arm.plan(LEFT, RIGHT, wall, timeout=LONG, options=o) for o in (None, OPTIMIZED))
    assert plain.success
    assert best.success
    assert best.result.planner == "TrajOpt"
    assert best.motion.duration < 0.97 * plain.motion.duration
    assert max(best.motion.limit_use(arm.limits)) <= 1.0 + 1e-9
    q = best.motion.states(np.linspace(0.0, best.motion.end_time, 500))[0]
    np.testing.assert_allclose(q[[0, -1]], [LEFT, RIGHT], atol=1e-9)
    assert (q >= arm.limits.lower).all()
    assert (q <= arm.limits.upper).all()
    assert sweep_path(arm.checker(wall), q).free
    again = arm.plan(LEFT, RIGHT, wall, timeout=LONG, options=OPTIMIZED)
    np.testing.assert_array_equal(again.trajectory.positions, best.trajectory.positions)


@pytest.mark.long
def test_slower_motions_keep_the_curve(arm, wall):
    slow = replace(OPTIMIZED, velocity_scaling=0.2)
    fast, slow = (arm.plan(LEFT, RIGHT, wall, options=o) for o in (OPTIMIZED, slow))
    assert slow.motion.duration > fast.motion.duration
    assert slow.motion.limit_use(arm.limits).velocity <= 0.2 + 1e-9


def test_a_straight_line_stays_one(arm):
    plan = arm.plan(LEFT, RIGHT, options=OPTIMIZED)
    assert plan.success
    assert plan.result.curve is None
    assert len(plan.path) == 2


def test_poses_and_goal_sets_are_reached(arm, wall):
    plan = arm.plan(LEFT, arm.fk(RIGHT), wall, options=OPTIMIZED)
    assert plan.success
    np.testing.assert_allclose(
        arm.fk(plan.trajectory.positions[-1])[:3, 3], arm.fk(RIGHT)[:3, 3], atol=2e-3
    )
    goals = (JointGoal(np.full(7, 50.0)), JointGoal(RIGHT))
    plan = arm.plan(LEFT, goals, wall, options=OPTIMIZED)
    assert plan.success
    assert plan.result.goal_index == 1


@pytest.mark.long
def test_a_previous_path_is_a_candidate(arm, wall):
    before = arm.plan(LEFT, RIGHT, wall, options=OPTIMIZED)
    settings = TrajOptSettings(
        paths=1, candidates=1, warm_start=tuple(map(tuple, before.path.tolist()))
    )
    after = arm.plan(LEFT, RIGHT, wall, options=replace(OPTIMIZED, settings=settings))
    assert after.motion.duration <= 1.02 * before.motion.duration
    wrong = replace(settings, warm_start=((0.0, 1.0), (1.0, 1.0)))
    with pytest.raises(InvalidConfig):
        arm.plan(LEFT, RIGHT, wall, options=replace(OPTIMIZED, settings=wrong))


def test_goals_in_collision_are_refused_with_the_reason(arm, wall):
    blocked = mn.World()
    blocked.add("rock", mn.Box(0.3, 0.3, 0.3), mn.pose(xyz=arm.fk(RIGHT)[:3, 3]))
    plan = arm.plan(LEFT, RIGHT, blocked, options=OPTIMIZED)
    assert not plan.success
    assert "rock" in plan.reason


def test_gradients_of_clearances_are_their_slopes(arm, wall):
    Q = np.array([LEFT, 0.5 * (LEFT + RIGHT) + 0.1, RIGHT])
    clearances = Clearances(arm.checker(wall), 0.1, 0.02)
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
