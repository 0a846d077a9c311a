# SPDX-License-Identifier: Apache-2.0
"""Quintic paths: exact ends, exact extrema, and the shortest feasible duration."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motion_nodes.core.navigation import pose_curves
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.navigation.pose_curves import (
    SOURCE_DURATIONS,
    PathEnd,
    QuinticPath,
    plan_quintic,
)
from motion_nodes.errors import InvalidCommand

coordinates = st.floats(-5.0, 5.0)
ends = st.builds(
    PathEnd,
    pose=st.builds(Pose2, coordinates, coordinates, st.floats(-3.0, 3.0)),
    velocity=st.floats(0.05, 1.0),
    acceleration=st.floats(-0.2, 0.2),
)
NODE = {"max_acceleration": 1.5, "max_jerk": 0.3}
"""The source system's defaults, as are speed 0.5, acceleration 0.02 and step 0.1667."""


def end(x, y, yaw, velocity=0.5, acceleration=0.02):
    return PathEnd(pose=Pose2(x, y, yaw), velocity=velocity, acceleration=acceleration)


def max_by_samples(path, order):
    return np.hypot(*path.derivative(order, np.linspace(0.0, path.duration, 2001))).max()


@settings(derandomize=True, max_examples=60, deadline=None)
@given(ends, ends, st.floats(0.5, 60.0))
def test_boundary_conditions_are_exact(start, goal, duration):
    path = QuinticPath(start, goal, duration)
    for t, wanted in ((0.0, start), (duration, goal)):
        for order, values in enumerate(wanted.derivatives()):
            assert path.derivative(order, t) == pytest.approx(values, abs=1e-9)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(ends, ends, st.floats(0.5, 60.0))
def test_extremes_are_those_of_dense_samples_and_never_less(start, goal, duration):
    path = QuinticPath(start, goal, duration)
    for order in (1, 2, 3):
        sampled = max_by_samples(path, order)
        assert sampled <= path.max_derivative(order) * (1.0 + 1e-9)
        assert path.max_derivative(order) == pytest.approx(sampled, rel=1e-3)


@pytest.mark.long
@settings(derandomize=True, max_examples=25, deadline=None)
@given(ends, ends)
def test_first_duration_meets_the_limits_and_no_shorter_one_does(start, goal):
    limits = {"max_acceleration": 1.0, "max_jerk": 2.0}
    path = plan_quintic(start, goal, **limits, max_duration=1000.0)
    assert path.max_derivative(2) <= 1.0 + 1e-6
    assert path.max_derivative(3) <= 2.0 + 1e-6
    for shorter in np.geomspace(0.01, path.duration * (1.0 - 1e-4), 200):
        other = QuinticPath(start, goal, float(shorter))
        assert other.max_derivative(2) > 1.0 or other.max_derivative(3) > 2.0


def test_closed_form_of_rest_to_rest():
    """x = D (10 u^3 - 15 u^4 + 6 u^5): max acceleration 10/sqrt(3) D/T^2, jerk 60 D/T^3."""
    start, goal = end(0, 0, 0, 0.0, 0.0), end(3, 0, 0, 0.0, 0.0)
    path = QuinticPath(start, goal, 2.0)
    assert path.max_derivative(2) == pytest.approx(10.0 / math.sqrt(3.0) * 3.0 / 4.0)
    assert path.max_derivative(3) == pytest.approx(60.0 * 3.0 / 8.0)
    by_jerk = plan_quintic(start, goal, max_acceleration=100.0, max_jerk=0.3)
    assert by_jerk.duration == pytest.approx((60.0 * 3.0 / 0.3) ** (1 / 3), rel=1e-5)
    by_acceleration = plan_quintic(start, goal, max_acceleration=0.5, max_jerk=100.0)
    expected = math.sqrt(10.0 / math.sqrt(3.0) * 3.0 / 0.5)
    assert by_acceleration.duration == pytest.approx(expected, rel=1e-5)


def test_durations_with_a_gap_the_first_stretch_is_found():
    """10 m at 1 m/s: 10 s needs no acceleration, while some longer durations do."""
    start, goal = end(0, 0, 0, 1.0, 0.0), end(10, 0, 0, 1.0, 0.0)
    limits = {"max_acceleration": 0.1, "max_jerk": 0.05}
    path = plan_quintic(start, goal, **limits)
    assert 9.0 < path.duration < 10.0
    assert QuinticPath(start, goal, 20.0).max_derivative(2) > 0.1


def test_the_sources_grid():
    start, goal = end(0, 0, 0), end(5, 3, 1.0)
    path = plan_quintic(start, goal, **NODE, durations=SOURCE_DURATIONS)
    assert path.duration == 10.0
    assert plan_quintic(start, goal, **NODE).duration == pytest.approx(7.9031, abs=1e-3)


def test_samples():
    start, goal = end(1, 2, 0.3), end(5, 3, 1.0)
    samples = plan_quintic(start, goal, **NODE).sample(0.1667)
    assert np.diff(samples.t).max() <= 0.1667
    ends = ((0, start), (-1, goal))
    for i, wanted in ends:
        assert (samples.x[i], samples.y[i]) == pytest.approx(wanted.pose[:2], abs=1e-9)
        assert samples.yaw[i] == pytest.approx(wanted.pose.yaw)
        assert (samples.v[i], samples.a[i]) == pytest.approx((0.5, 0.02))
    assert np.abs(samples.a).max() <= 1.5
    assert np.abs(samples.jerk).max() <= 0.3 + 1e-6
    slope = np.gradient(samples.v, samples.t)
    clear = np.abs(slope) > 0.05
    assert (np.sign(slope[clear]) == np.sign(samples.a[clear])).all()
    assert np.abs(np.diff(samples.yaw)).max() < 0.5


def test_yaw_at_rest_is_that_of_setting_off_and_arriving():
    samples = QuinticPath(end(0, 0, 0, 0, 0), end(1, 1, 0, 0, 0), 3.0).sample(0.1)
    assert samples.yaw == pytest.approx(math.pi / 4.0)
    assert samples.path().length == pytest.approx(math.sqrt(2.0))


class TestRefusals:
    def test_no_duration_will_do(self):
        with pytest.raises(InvalidCommand):
            plan_quintic(end(0, 0, 0, 0.5, 2.0), end(1, 0, 0), **NODE)

    def test_none_of_the_grid(self):
        with pytest.raises(InvalidCommand):
            plan_quintic(end(0, 0, 0), end(9, 0, 0), **NODE, durations=[0.5, 1.0])

    def test_nowhere_to_go(self):
        with pytest.raises(InvalidCommand):
            plan_quintic(end(1, 1, 0, 0, 0), end(1, 1, 2, 0, 0), **NODE)

    @pytest.mark.parametrize("bad", [{"max_jerk": 0.0}, {"max_acceleration": math.nan}])
    def test_bad_limits(self, bad):
        with pytest.raises(InvalidCommand):
            plan_quintic(end(0, 0, 0), end(1, 0, 0), **{**NODE, **bad})

    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_bad_ends(self, bad):
        with pytest.raises(InvalidCommand):
            end(bad, 0, 0)
        with pytest.raises(InvalidCommand):
            end(0, 0, 0, velocity=bad)

    def test_bad_step(self):
        with pytest.raises(InvalidCommand):
            QuinticPath(end(0, 0, 0), end(1, 0, 0), 2.0).sample(0.0)


def test_a_straight_path_at_constant_speed_has_no_acceleration():
    straight = QuinticPath(end(0.0, 0.0, 0.0, 1.0, 0.0), end(1.0, 0.0, 0.0, 1.0, 0.0), 1.0)
    assert max(straight.max_derivative(2), straight.max_derivative(3)) < 1e-9


def test_an_end_beyond_the_limit_of_acceleration_is_refused_without_a_search(monkeypatch):
    monkeypatch.setattr(pose_curves._DurationSearch, "_steepness", None)
    with pytest.raises(InvalidCommand, match="at the start"):
        plan_quintic(
            end(0.0, 0.0, 0.0, 0.5, 1.000001), end(3.0, 0.0, 0.0, 0.5, 0.0),
            max_acceleration=1.0, max_jerk=1e6,
        )  # fmt: skip
