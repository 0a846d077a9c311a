# SPDX-License-Identifier: Apache-2.0
"""Splines through waypoints, by all methods."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about
from scipy.interpolate import CubicSpline
from trajectory.retime_limits import JERK, arm_limits, excess, fault_of, limits_of, random_path

from motion_nodes.core.trajectory.joint_trajectory import Infeasible
from motion_nodes.core.trajectory.spline import position_excess, segment_shares, spline_path
from motion_nodes.core.trajectory.through_waypoints import (
    GENERATOR_METHODS,
    METHODS,
    JointTrajectoryGenerator,
    WaypointOptions,
    through_waypoints,
)
from motion_nodes.core.trajectory.time_parameterization import MOST_PIECES, retime
from motion_nodes.errors import InvalidCommand, InvalidConfig

WAYPOINTS = np.random.default_rng(7).uniform(-2.0, 2.0, (8, 7))
ONE = limits_of(2.175, 15.0, 7500.0)
UR10_TIMES = [0.0, 5.0, 10.0, 13.0]


def nearest_passes(trajectory, waypoints):
    """Return min distance and time [s] of the trajectory at each waypoint, in order."""
    times = np.linspace(trajectory.start_time, trajectory.end_time, 20_001)
    q, *_ = trajectory.states(times)
    passes, begin = [], 0
    for point in waypoints:
        distances = np.linalg.norm(q[begin:] - point, axis=1)
        k = begin + int(np.argmin(distances))
        near = np.linspace(times[max(k - 1, 0)], times[min(k + 1, 20_000)], 2001)
        best = np.linalg.norm(trajectory.states(near)[0] - point, axis=1)
        passes.append((float(best.min()), float(near[np.argmin(best)])))
        begin = k
    return np.array(passes)


@pytest.mark.parametrize("at_rest", [True, False])
@pytest.mark.parametrize("count", [2, 3, 9])
def test_spline_equals_scipys(count, at_rest):
    rng = np.random.default_rng(count)
    points, spans = rng.normal(size=(count, 3)), rng.uniform(0.1, 2.0, count - 1)
    path = spline_path(("a", "b", "c"), points, spans, at_rest=at_rest)
    oracle = CubicSpline(path.breaks, points, bc_type="clamped" if at_rest else "natural")
    s = np.linspace(0.0, path.length, 100)[:-1]
    for order in range(4):
        np.testing.assert_allclose(path.evaluate(s, order), oracle(s, order), rtol=1e-7, atol=1e-7)


def test_one_radian_takes_what_the_closed_form_says():
    trajectory = JointTrajectoryGenerator(ONE, "saturation").compute_c_space_trajectory([[0], [1]])
    assert trajectory.duration == pytest.approx(0.689655, abs=1e-5)
    sample = trajectory.sample(trajectory.duration / 2.0)
    assert sample.velocity[0] == pytest.approx(2.175, abs=1e-9)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.floats(1e-3, 5.0), st.floats(0.1, 5.0), st.floats(0.1, 50.0), st.floats(0.1, 1e4))
def test_one_segment_saturates_the_limit_that_binds(way, v, a, j):
    generator = JointTrajectoryGenerator(limits_of(v, a, j), "saturation")
    generator.set_solver_param("min_time_span", 1e-4)
    expected = max(1.5 * way / v, np.sqrt(6.0 * way / a), np.cbrt(12.0 * way / j))
    trajectory = generator.compute_c_space_trajectory([[0.0], [way]])
    assert trajectory.duration == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("method", GENERATOR_METHODS)
@pytest.mark.parametrize("jerk", [np.inf, 1.0, 0.02])
@pytest.mark.parametrize("count", [2, 3, 8])
def test_all_waypoints_are_met_within_limits(method, jerk, count):
    limits = arm_limits(JERK * jerk)
    trajectory = JointTrajectoryGenerator(limits, method).compute_c_space_trajectory(
        WAYPOINTS[:count]
    )
    passes = nearest_passes(trajectory, WAYPOINTS[:count])
    assert passes[:, 0].max() < 1e-3  # limited by the sampling
    values = trajectory.path.evaluate(trajectory.path.breaks)
    np.testing.assert_allclose(values, WAYPOINTS[:count], atol=1e-9)
    assert excess(trajectory, limits) <= 1e-6
    assert max(trajectory.limit_use(limits)) > 0.98
    for time in (trajectory.start_time, trajectory.end_time):
        np.testing.assert_allclose(trajectory.sample(time).velocity, 0.0, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_time_optimal_is_faster_than_saturation(seed):
    waypoints = np.random.default_rng(seed).uniform(-2.0, 2.0, (6, 7))
    limits = arm_limits(JERK)
    slow, fast = (
        JointTrajectoryGenerator(limits, method).compute_c_space_trajectory(waypoints).duration
        for method in ("saturation", "time_optimal")
    )
    assert fast < 0.95 * slow


@pytest.mark.parametrize("method", GENERATOR_METHODS)
def test_halving_a_limit_lengthens_the_motion(method):
    generator = JointTrajectoryGenerator(arm_limits(JERK), method)
    full = generator.compute_c_space_trajectory(WAYPOINTS).duration
    for kind, factor in (("velocity", 0.5), ("acceleration", 0.1), ("jerk", 1e-3)):
        get = getattr(generator, f"get_c_space_{kind}_limits")
        put = getattr(generator, f"set_c_space_{kind}_limits")
        before = get()
        put(before * factor)
        np.testing.assert_array_equal(get(), before * factor)
        assert generator.compute_c_space_trajectory(WAYPOINTS).duration > full
        put(before)
    assert generator.compute_c_space_trajectory(WAYPOINTS).duration == full


@pytest.mark.parametrize("mode", ["cubic_spline", "linear"])
def test_times_are_kept_exactly(mode):
    waypoints = WAYPOINTS[:4] * 0.5
    trajectory = JointTrajectoryGenerator(arm_limits()).compute_timestamped_c_space_trajectory(
        waypoints, np.add(UR10_TIMES, 2.0), mode
    )
    assert trajectory.start_time == 2.0
    assert trajectory.end_time == 15.0
    for time, point in zip(UR10_TIMES, waypoints, strict=True):
        np.testing.assert_allclose(trajectory.sample(time + 2.0).position, point, atol=1e-9)
    if mode == "cubic_spline":
        np.testing.assert_allclose(trajectory.sample(2.0).velocity, 0.0, atol=1e-12)
        np.testing.assert_allclose(trajectory.sample(15.0).velocity, 0.0, atol=1e-12)
    else:
        middle = trajectory.sample(4.5)
        np.testing.assert_allclose(middle.position, waypoints[:2].mean(axis=0), atol=1e-9)
        np.testing.assert_allclose(middle.acceleration, 0.0, atol=1e-12)


@pytest.mark.parametrize("mode", ["cubic_spline", "linear"])
def test_times_that_the_limits_do_not_allow_give_none_and_say_why(mode):
    generator = JointTrajectoryGenerator(arm_limits())
    assert generator.compute_timestamped_c_space_trajectory(WAYPOINTS[:2], [0, 0.2], mode) is None
    assert "times its limit" in generator.failure
    assert generator.compute_timestamped_c_space_trajectory(WAYPOINTS[:2], [0, 9], mode)
    assert generator.failure == ""


def test_a_spline_beyond_a_position_limit_gives_none_and_says_where():
    waypoints = [[0.0], [0.9], [1.0], [0.9], [0.0]]
    for method in GENERATOR_METHODS:
        generator = JointTrajectoryGenerator(ONE, method)
        generator.set_solver_param("time_split_method", "chord_length")
        assert generator.compute_c_space_trajectory(waypoints) is not None
        generator.set_c_space_position_limits([-0.1], [0.95])
        assert generator.compute_c_space_trajectory(waypoints) is None
        assert "waypoint 2 has joint joint1 at 1; its limits are -0.1 to 0.95" in generator.failure
    path = spline_path(("joint1",), np.array([[0.0], [0.9], [0.9], [0.0]]), np.ones(3))
    assert "between waypoints 1 and 2" in position_excess(path, limits_of(1.0, 1.0, span=0.95))


def test_extremes_of_splines_are_found():
    rng = np.random.default_rng(8)
    for _ in range(100):
        path = spline_path(("a",), rng.normal(size=(6, 1)), rng.uniform(0.5, 1.0, 5))
        dense = path.evaluate(np.linspace(0.0, path.length, 20_001))
        reach = float(np.abs(dense).max())
        assert position_excess(path, limits_of(1.0, 1.0, span=reach * 1.0001)) is None
        if reach > np.abs(path.evaluate(path.breaks)).max() * 1.001:
            assert position_excess(path, limits_of(1.0, 1.0, span=reach * 0.9995)) is not None


def test_settings_by_name():
    generator = JointTrajectoryGenerator(ONE)
    assert generator.set_solver_param("max_segment_iterations", 3)
    assert generator.settings.max_segment_iterations == 3
    assert generator.set_solver_param("time_split_method", "centripetal")
    for name, value in [
        ("no_such_setting", 1),
        ("convergence_dt", -1.0),
        ("convergence_dt", float("nan")),
        ("max_dilation_iterations", 1.5),
        ("min_time_span", "soon"),
        ("time_split_method", "sideways"),
    ]:
        assert generator.set_solver_param(name, value) is False
    assert generator.set_solver_param("max_segment_iterations", 0)
    assert generator.set_solver_param("max_aggregate_iterations", 0) is False
    assert generator.settings.max_aggregate_iterations == 50


def test_shares_of_segments():
    points = np.array([[0.0], [1.0], [5.0]])
    np.testing.assert_allclose(segment_shares(points, "uniform"), [0.5, 0.5])
    np.testing.assert_allclose(segment_shares(points, "chord_length"), [0.2, 0.8])
    np.testing.assert_allclose(segment_shares(points, "centripetal"), [1.0 / 3.0, 2.0 / 3.0])


@pytest.mark.parametrize("method", GENERATOR_METHODS)
def test_repeated_waypoints_are_left_out_and_equal_ones_give_none(method):
    generator = JointTrajectoryGenerator(ONE, method)
    once = generator.compute_c_space_trajectory([[0.0], [1.0]])
    twice = generator.compute_c_space_trajectory([[0.0], [0.0], [1.0], [1.0]])
    assert once.duration == twice.duration
    assert generator.compute_c_space_trajectory([[1.0], [1.0]]) is None
    assert "waypoints are equal" in generator.failure


@pytest.mark.parametrize(
    "waypoints", [[[0.0]], [[0.0, 1.0], [1.0, 2.0]], [[0.0], [np.nan]], [["a"], ["b"]]]
)
def test_waypoints_of_a_wrong_form_raise(waypoints):
    with pytest.raises(InvalidCommand):
        JointTrajectoryGenerator(ONE).compute_c_space_trajectory(waypoints)
    with pytest.raises(InvalidCommand):
        JointTrajectoryGenerator(ONE).compute_timestamped_c_space_trajectory(waypoints, [0.0, 1.0])


@pytest.mark.parametrize("times", [[0.0], [0.0, 0.0], [1.0, 0.0], [0.0, np.nan], [0.0, 1.0, 2.0]])
def test_times_of_a_wrong_form_raise(times):
    with pytest.raises(InvalidCommand):
        JointTrajectoryGenerator(ONE).compute_timestamped_c_space_trajectory([[0.0], [1.0]], times)


def test_limits_of_a_wrong_form_raise_and_change_nothing():
    generator = JointTrajectoryGenerator(ONE)
    for call in (
        lambda: generator.set_c_space_velocity_limits([1.0, 2.0]),
        lambda: generator.set_c_space_velocity_limits([0.0]),
        lambda: generator.set_c_space_velocity_limits([np.inf]),
        lambda: generator.set_c_space_acceleration_limits([np.nan]),
        lambda: generator.set_c_space_jerk_limits([-1.0]),
        lambda: generator.set_c_space_position_limits([1.0], [0.0]),
        lambda: JointTrajectoryGenerator(ONE, "fastest"),
    ):
        with pytest.raises(InvalidConfig):
            call()
    assert generator.limits is ONE


POINTS = np.random.default_rng(0).uniform(-2.0, 2.0, (10, 7))


@pytest.mark.parametrize("jerk_limited", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_keeps_scaled_limits_and_uses_one_of_them_up(method, jerk_limited):
    limits = arm_limits(JERK)
    options = WaypointOptions(method, jerk_limited, 0.5, 0.3)
    motion = through_waypoints(POINTS, limits, options)
    bounds = dataclasses.replace(
        limits,
        velocity=0.5 * limits.velocity,
        acceleration=0.3 * limits.acceleration,
        jerk=0.3 * limits.jerk if jerk_limited else np.full(7, np.inf),
    )
    assert excess(motion, bounds) <= 1e-6
    assert max(motion.limit_use(bounds)) > 0.98
    assert motion.duration > through_waypoints(POINTS, limits, WaypointOptions(method)).duration


def test_saturation_does_without_limits_of_acceleration_and_the_others_say_so():
    limits = limits_of(np.ones(7), np.inf)
    assert through_waypoints(POINTS, limits, WaypointOptions("saturation")).duration > 0.0
    with pytest.raises(InvalidConfig):
        through_waypoints(POINTS, limits, WaypointOptions("lines"))


def test_an_unknown_method_is_answered_with_the_nearest():
    with pytest.raises(InvalidConfig, check=about("method")):
        WaypointOptions("saturated")


def test_what_would_take_minutes_is_refused_at_once():
    many = np.cumsum(np.full((100_000, 7), 1e-5), axis=0)
    many[::2] += 1e-4
    limits = arm_limits(JERK)
    with pytest.raises(Infeasible, match=f"at most {MOST_PIECES} are timed. Thin the waypoints"):
        retime(many, limits)
    generator = JointTrajectoryGenerator(limits)
    assert generator.compute_c_space_trajectory(many) is None
    assert "omit jerk limits" in generator.failure


@pytest.mark.parametrize("with_jerk", [False, True])
def test_random_paths_with_repeated_waypoints_and_returns(with_jerk):
    for seed in range(40):
        points, limits, blending = random_path(seed, with_jerk, most=16)
        assert not fault_of(retime(points, limits, blending=blending), points, limits)
