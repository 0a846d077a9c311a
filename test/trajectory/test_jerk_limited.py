# SPDX-License-Identifier: Apache-2.0
"""Time-optimal motions with jerk limits: Ruckig as oracle on lines, dense checks on paths."""

import dataclasses

import numba
import numpy as np
import pytest
import ruckig
from hypothesis import given, settings
from hypothesis import strategies as st
from trajectory.retime_limits import JERK, arm_limits, excess, limits_of, without_jerk

from motion_nodes.core.trajectory.joint_path import CornerBlending
from motion_nodes.core.trajectory.time_parameterization import retime
from motion_nodes.kernels.timing.jerk_barriers import END, GROUPS, PLACES, mark_limits


def least_time(way, velocity, acceleration, jerk):
    """Return the min duration of one joint from rest to rest, by Ruckig [s]."""
    task = ruckig.InputParameter(1)
    task.current_position, task.target_position = [0.0], [way]
    task.max_velocity, task.max_acceleration, task.max_jerk = [velocity], [acceleration], [jerk]
    answer = ruckig.Trajectory(1)
    ruckig.Ruckig(1).calculate(task, answer)
    return answer.duration


@pytest.mark.parametrize("way", [1e-3, 0.05, 1.0, 6.0])
@pytest.mark.parametrize(
    ("velocity", "acceleration", "jerk"),
    [(2.175, 15.0, 7500.0), (2.175, 15.0, 100.0), (1.0, 2.0, 4.0), (0.3, 20.0, 5.0)],
)
def test_one_line_takes_as_long_as_ruckig(way, velocity, acceleration, jerk):
    limits = limits_of(velocity, acceleration, jerk)
    trajectory = retime([[0.0], [way]], limits)
    best = least_time(way, velocity, acceleration, jerk)
    assert trajectory.duration == pytest.approx(best, rel=1e-9)
    assert excess(trajectory, limits) <= 1e-9
    q, v, a, _ = trajectory.states([0.0, trajectory.end_time])
    np.testing.assert_allclose(q[:, 0], [0.0, way], atol=1e-12)
    np.testing.assert_allclose([v, a], 0.0, atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("deviation", [0.0, 0.02, 0.3])
def test_no_limit_is_exceeded(seed, scale, deviation):
    waypoints = np.random.default_rng(seed).uniform(-2.5, 2.5, (6, 7))
    limits = arm_limits(JERK * scale)
    blending = CornerBlending(deviation)
    trajectory = retime(waypoints, limits, blending=blending)
    assert excess(trajectory, limits) <= 1e-6
    use = trajectory.limit_use(limits)
    assert max(use) > 0.98
    free = retime(waypoints, without_jerk(limits), blending=blending)
    assert trajectory.duration > 0.99 * free.duration
    q, v, a, _ = trajectory.states([0.0, trajectory.end_time])
    np.testing.assert_allclose(q, waypoints[[0, -1]], atol=1e-9)
    np.testing.assert_allclose(v, 0.0, atol=1e-9)
    np.testing.assert_allclose(a, 0.0, atol=1e-5)


def test_accelerations_are_continuous_and_jerk_is_their_derivative():
    waypoints = np.random.default_rng(5).uniform(-2.0, 2.0, (5, 7))
    trajectory = retime(waypoints, arm_limits(JERK * 0.05), blending=CornerBlending(0.05))
    edges, h = trajectory.times[1:-1], 1e-9
    before, after = trajectory.states(edges - h), trajectory.states(edges + h)
    for order in range(3):
        np.testing.assert_allclose(before[order], after[order], atol=1e-5)
    times, h = np.linspace(0.01, trajectory.end_time - 0.01, 300), 1e-6
    times = times[np.abs(times[:, None] - trajectory.times).min(axis=1) > 2.0 * h]
    (_, _, low, _), (_, _, _, jerk), (_, _, high, _) = (
        trajectory.states(times + d) for d in (-h, 0.0, h)
    )
    np.testing.assert_allclose(jerk, (high - low) / (2.0 * h), rtol=1e-3, atol=1e-2)


def test_lower_jerks_take_longer():
    waypoints = np.random.default_rng(6).uniform(-2.0, 2.0, (5, 7))
    durations = [
        retime(waypoints, arm_limits(JERK * scale), blending=CornerBlending(0.1)).duration
        for scale in (1.0, 0.1, 0.01, 0.001)
    ]
    assert durations == sorted(durations)


def test_joints_without_jerk_limit_do_not_slow_down_the_others():
    limits = limits_of([1.0, 1.0], 5.0, [50.0, np.inf])
    alone = retime([[0.0], [1.0]], limits_of(1.0, 5.0, 50.0)).duration
    both = retime([[0.0, 0.0], [1.0, 0.1]], limits).duration
    assert both == pytest.approx(alone, rel=1e-3)
    second = retime([[0.0, 0.0], [0.0, 1.0]], limits)
    assert second.duration == pytest.approx(1.0 + 1.0 / 5.0, rel=1e-2)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(2, 12), st.integers(1, 8), st.integers(0, 10_000), st.floats(-5.0, 0.5))
def test_any_path_is_timed_within_limits_of_jerk(count, n, seed, size):
    rng = np.random.default_rng(seed)
    waypoints = 10.0**size * rng.normal(size=(count, n)).clip(-3.0, 3.0)
    waypoints[rng.random(count) < 0.2] = waypoints[0]
    if np.ptp(waypoints, axis=0).max() < 1e-6:
        return
    limits = limits_of(rng.uniform(0.1, 5.0, n), rng.uniform(0.5, 30.0, n))
    limits = dataclasses.replace(limits, jerk=10.0 ** rng.uniform(0.5, 4.0, n))
    trajectory = retime(waypoints, limits, blending=CornerBlending(rng.choice([0.0, 0.01, 0.3])))
    assert np.all(np.diff(trajectory.times) > 0.0)
    assert excess(trajectory, limits) <= 1e-6


def test_many_waypoints_on_a_smooth_curve_cost_little_time():
    angles = np.linspace(0.0, 2.0 * np.pi, 150)
    waypoints = np.stack([np.sin(angles + i) for i in range(7)], axis=1)
    limits = arm_limits(JERK)
    trajectory = retime(waypoints, limits)
    assert excess(trajectory, limits) <= 1e-6
    free = retime(waypoints, without_jerk(limits))
    assert trajectory.duration < 1.05 * free.duration


@pytest.mark.parametrize("corners", [2, 4])
def test_only_needed_points_are_kept_and_the_interpolation_is_the_motion(corners):
    rng = np.random.default_rng(4)
    limits = arm_limits(JERK)
    motion = retime(rng.uniform(-1.0, 1.0, (corners, len(limits.names))), limits)
    points, step = motion.points(0.01), 0.01
    bent = motion.path.bent[motion.piece]
    interval = np.clip(
        np.searchsorted(motion.times, points.times[:-1], "right") - 1, 0, len(bent) - 1
    )
    gaps = np.diff(points.times)
    assert (gaps <= np.where(bent[interval], 1.0, 10.0) * step + 1e-3).all()
    every = len(np.union1d(motion.sample_times(step), motion.times))
    assert len(points.times) < (0.2 if corners == 2 else 0.4) * every
    times = np.linspace(0.0, motion.end_time, 1000)[1:-1]
    found = (np.array(x) for x in zip(*(points.sample(t) for t in times), strict=True))
    tolerances = (1e-5, 1e-3, 0.04 * limits.acceleration)
    for x, wanted, tolerance in zip(found, motion.states(times)[:3], tolerances, strict=True):
        assert (np.abs(x - wanted) <= tolerance).all()


@numba.njit
def needed_limits(D, inverse):
    """Return which limits are needed."""
    marks = np.zeros((len(D), GROUPS, D.shape[3]), np.int8)
    mark_limits(D, inverse, marks, np.empty(len(D)), np.empty(len(D)))
    return marks


@pytest.mark.long
def test_limits_that_are_left_out_follow_from_the_others():
    rng = np.random.default_rng(8)
    count, n = 300, 6
    D = rng.normal(size=(count, PLACES, 3, n)) * 10.0 ** rng.uniform(-1.0, 1.0, (count, 1, 1, n))
    D[::3, :, 1:] *= 0.1
    limits = rng.uniform(0.5, 2.0, (3, n)) * np.array([[1.0], [2.0], [20.0]])
    marks = needed_limits(D, 1.0 / limits) > 0
    assert 0.2 < marks.mean() < 0.8
    for i, place in np.ndindex(count, END):
        p1, p2, p3 = D[i, place]
        X = np.min(limits[0] / np.abs(p1)) ** 2 * rng.random(400)
        factor = np.where(marks[i, place], np.abs(p1) / limits[1], 0.0).max()
        U = rng.uniform(-1.5, 1.5, 400) / factor
        a = np.abs(p2 * X[:, None] + p1 * U[:, None]) / limits[1]
        held = (a[:, marks[i, place]] <= 1.0).all(axis=1)
        assert (a[held] <= 1.0 + 1e-9).all()
        X, U, needed = X[held], U[held], marks[i, END + place]
        factor = np.where(needed, np.abs(p1) / limits[2], 0.0).max()
        K = rng.uniform(-2.0, 2.0, len(X)) / factor / np.sqrt(X)
        j = np.abs(np.outer(X, p3) + 3.0 * np.outer(U, p2) + np.outer(K, p1)) / limits[2]
        j *= np.sqrt(X)[:, None]
        held = (j[:, needed] <= 1.0).all(axis=1)
        assert (j[held] <= 1.0 + 1e-9).all()


@pytest.mark.parametrize("jerk", [1e2, 2e3, 1e4, 1e6])
def test_points_of_a_motion_with_short_ramps_are_within_its_limits(jerk):
    """Ramps of the acceleration may be shorter than the min time between points."""
    motion = retime([[0.0], [0.5], [0.1]], limits_of(2.0, 1.0, jerk), blending=CornerBlending(0.0))
    points = motion.points(0.01)
    assert np.diff(points.times)[1:].min() > 0.99e-4
    times = np.linspace(0.0, points.end_time, 3000)
    samples = [points.sample(t) for t in times]
    long = np.diff(points.times)[np.searchsorted(points.times, times[1:-1], "right") - 1] > 5e-4
    accelerations = np.array([s.acceleration[0] for s in samples[1:-1]])
    assert np.abs(accelerations[long]).max() < 1.03
    positions = np.array([s.position[0] for s in samples])
    np.testing.assert_allclose(positions, motion.states(times)[0][:, 0], atol=1e-6)
