# SPDX-License-Identifier: Apache-2.0
"""Planar paths: Dubins, quintic and given ones; geometry, sections, speeds."""

import math

import numpy as np
import pytest
from base_navigation.rolling_base import LIMITS, circle, figure_of_eight, square
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.navigation import pose_curves
from motion_nodes.core.navigation.follow_path import (
    PathPosition,
    SpeedLimit,
    braking_speeds,
    facing,
    sections_of,
)
from motion_nodes.core.navigation.planar_geometry import MOST_POINTS, PlanarPath, Pose2
from motion_nodes.core.navigation.pose_curves import (
    SOURCE_DURATIONS,
    TURN,
    PathEnd,
    QuinticPath,
    dubins_path,
    plan_quintic,
    shortest_dubins,
)
from motion_nodes.errors import InvalidCommand

numbers = st.floats(-10.0, 10.0)
poses2 = st.builds(Pose2, numbers, numbers, st.floats(-3.1, 3.1))


class TestPose:
    @settings(derandomize=True, max_examples=100)
    @given(poses2, poses2)
    def test_inverse_and_composition(self, a, b):
        there = a.inverse().compose(a.compose(b))
        assert there.distance(b) < 1e-9
        assert abs(math.remainder(there.yaw - b.yaw, math.tau)) < 1e-9

    def test_bearing(self):
        assert Pose2(1.0, 1.0, 0.5).bearing(Pose2(1.0, 3.0)) == pytest.approx(0.5 * math.pi)


class TestChecks:
    @pytest.mark.parametrize(
        ("rows", "text"),
        [
            ([], "path"),
            ([(0, 0)], "path"),
            ([(0, 0, 0)], "path"),
            ([(1, 2, 0), (1, 2, 1), (1, 2 + 1e-9, 2)], "path"),
            ([(0, 0, 0), (1, math.nan, 0)], "path"),
            ([(0, 0, math.inf), (1, 0, 0)], "path"),
        ],
    )
    def test_refused_in_words(self, rows, text):
        with pytest.raises(InvalidCommand, check=about(text)):
            PlanarPath(rows)

    def test_duplicate_points_are_one_and_the_last_heading_counts(self):
        path = PlanarPath([(0, 0, 0), (0, 0, 0.3), (1, 0, 0), (1, 0, 0), (2, 0, 0), (2, 0, 1.5)])
        assert path.xy[:, 0].tolist() == [0.0, 1.0, 2.0]
        assert path.yaw[0] == 0.3
        assert path.end == Pose2(2.0, 0.0, 1.5)

    def test_arrays_cannot_be_written(self):
        with pytest.raises(ValueError, match="read-only"):
            circle().curvature[0] = 1.0


class TestGeometry:
    @pytest.mark.parametrize("radius", [0.3, 1.0, 5.0])
    def test_circle_has_the_curvature_and_direction_of_a_circle(self, radius):
        path = circle(radius, int(math.tau * radius / 0.01))
        assert path.length == pytest.approx(math.tau * radius, rel=1e-4)
        assert path.curvature == pytest.approx(1.0 / radius, rel=5e-3)
        assert path.direction == pytest.approx(path.yaw, abs=1e-9)

    def test_straight_line_has_none(self):
        path = PlanarPath([(0, 0, 0), (1, 1, 0), (3, 3, 0)])
        assert path.curvature == pytest.approx(0.0, abs=1e-12)
        assert path.length == pytest.approx(3.0 * math.sqrt(2.0))

    def test_right_turn_is_negative(self):
        left = circle()
        mirrored = PlanarPath(left.poses() * [1.0, -1.0, -1.0])
        assert mirrored.curvature == pytest.approx(-left.curvature)

    def test_steps_of_a_grid_planner_are_no_curve(self):
        """A staircase of 1 cm steps along a diagonal: adjacent points alone would yield 140 1/m."""
        rows = [(0.01 * ((i + 1) // 2), 0.01 * (i // 2), 0.0) for i in range(200)]
        assert np.abs(PlanarPath(rows).curvature).max() < 3.0

    def test_resampling_keeps_points_and_length(self):
        path = square(1.0).resampled(0.03)
        assert np.diff(path.s).max() <= 0.03 + 1e-12
        assert path.length == pytest.approx(4.0)
        for corner in square(1.0).xy:
            assert np.hypot(*(path.xy - corner).T).min() < 1e-12

    @pytest.mark.long
    def test_a_very_long_path_gets_a_wider_spacing(self):
        assert len(PlanarPath([(0, 0, 0), (1e5, 0, 0)]).resampled()) <= 50_001


class TestSections:
    def test_corners_end_sections(self):
        parts = sections_of(square(2.0))
        directions = [float(part.path.direction[0]) % math.tau for part in parts]
        assert directions == pytest.approx([0.0, 0.5 * math.pi, math.pi, 1.5 * math.pi])
        assert sum(part.path.length for part in parts) == pytest.approx(8.0)

    def test_none_where_corners_are_not_looked_for(self):
        assert len(sections_of(square(2.0), corner=math.inf)) == 1
        assert len(sections_of(figure_of_eight())) == 1

    def test_poses_that_look_back_are_driven_in_reverse_if_that_is_allowed(self):
        rows = [(0, 0, 0), (1, 0, 0), (2, 0, 0), (1, 0.5, 0), (0, 1, 0)]
        ahead, back = sections_of(PlanarPath(rows), reversing=True)
        assert (ahead.backward, back.backward) == (False, True)
        assert ahead.path.end.x == 2.0
        assert abs(facing(float(back.path.direction[0]), backward=True)) < 0.6
        assert not any(part.backward for part in sections_of(PlanarPath(rows)))


class TestSpeeds:
    @pytest.mark.parametrize("path", [circle(0.4), figure_of_eight(0.7), square(1.0)])
    def test_no_limit_is_exceeded_anywhere(self, path):
        path = path.resampled(0.02)
        v = braking_speeds(path, LIMITS)
        acceleration = np.diff(v**2) / (2.0 * np.diff(path.s))
        assert v.max() <= LIMITS.max_velocity
        assert acceleration.min() >= -LIMITS.max_deceleration - 1e-9
        assert (v**2 * np.abs(path.curvature)).max() <= LIMITS.max_lateral_acceleration + 1e-9
        assert (v * np.abs(path.curvature)).max() <= LIMITS.max_yaw_velocity + 1e-9
        assert v[-1] == 0.0

    def test_closed_form_on_a_straight_line(self):
        """0.5 m/s up to 0.125 m before the end, then even braking."""
        path = PlanarPath([(0, 0, 0), (2, 0, 0)]).resampled(0.005)
        expected = np.minimum(np.sqrt(2.0 * (2.0 - path.s)), 0.5)
        assert braking_speeds(path, LIMITS) == pytest.approx(expected, abs=1e-9)

    def test_speed_limit_between_points_is_that_of_even_braking(self):
        path = PlanarPath([(0, 0, 0), (1, 0, 0)]).resampled(0.05)
        limit = SpeedLimit(path, LIMITS)
        for s in np.linspace(0.9, 1.0, 37):
            assert limit.at(float(s)) == pytest.approx(math.sqrt(2.0 * (1.0 - s)), abs=1e-9)
        assert limit.at(-1.0) == limit.at(0.3) == 0.5
        assert limit.at(2.0) == 0.0

    def test_a_holonomic_base_is_slowed_by_headings_and_not_by_turning_with_the_path(self):
        line = PlanarPath([(0, 0, 0), (1, 0, 0), (1.1, 0, 1.5), (2, 0, 1.5)]).resampled(0.01)
        v = braking_speeds(line, LIMITS, holonomic=True)
        turning = np.abs(np.diff(line.yaw) / np.diff(line.s)) > 1.0
        assert v[:-1][turning].max() <= LIMITS.max_yaw_velocity * 0.1 / 1.5 + 1e-9
        assert braking_speeds(line, LIMITS)[50] == 0.5


class TestNearestPoint:
    def test_progress_on_a_figure_of_eight_is_monotone(self):
        """At the crossing the other branch is equally near; it must not be taken."""
        path = figure_of_eight().resampled()
        position = PathPosition(path)
        rng = np.random.default_rng(3)
        before = 0.0
        for s in np.arange(0.0, path.length, 0.01):
            x, y = (np.interp(s, path.s, path.xy[:, axis]) for axis in (0, 1))
            dx, dy = rng.uniform(-0.03, 0.03, 2)
            point = position.update(float(x + dx), float(y + dy))
            assert point.s >= before - 0.05
            assert point.s == pytest.approx(s, abs=0.08)
            before = point.s

    def test_a_closed_path_is_begun_at_its_start(self):
        position = PathPosition(circle().resampled())
        assert abs(position.update(0.0, 0.0).s) < 1e-9
        assert abs(PathPosition(circle().resampled()).update(-0.1, 0.05).s) < 0.2

    def test_a_start_beside_the_middle_of_the_path_is_found(self):
        position = PathPosition(PlanarPath([(0, 0, 0), (10, 0, 0)]).resampled())
        assert position.update(3.0, 0.5).s == pytest.approx(3.0)

    def test_side_and_ends(self):
        path = PlanarPath([(0, 0, 0), (1, 0, 0)]).resampled()
        assert PathPosition(path).update(0.5, 0.2).cross_track == pytest.approx(0.2)
        assert PathPosition(path).update(0.5, -0.2).cross_track == pytest.approx(-0.2)
        assert PathPosition(path).update(-0.3, 0.1).s == pytest.approx(-0.3)
        past = PathPosition(path)
        past.update(0.9, 0.0)
        assert past.update(1.3, 0.1).s == pytest.approx(1.3)

    def test_on_a_circle_it_is_the_radial_distance(self):
        path = circle(1.0, 1000).resampled()
        for a in np.linspace(0.3, 1.0, 8):
            position = PathPosition(path)
            point = position.update(1.2 * math.sin(a), 1.0 - 1.2 * math.cos(a))
            assert point.cross_track == pytest.approx(-0.2, abs=1e-4)
            assert point.direction == pytest.approx(a, abs=1e-3)


poses2_of_dubins = st.builds(
    Pose2, st.floats(-4.0, 4.0), st.floats(-4.0, 4.0), st.floats(-3.1, 3.1)
)


def tangent_lengths(start, goal, radius):
    """Return the lengths of all six words [m], independently by circle geometry."""

    def centre(pose, side):
        return np.array(pose[:2]) + radius * side * np.array([-math.sin(pose.yaw),
                                                              math.cos(pose.yaw)])  # fmt: skip

    def arc(side, at, to):
        """Angle driven about a centre from one heading to another."""
        return (side * (to - at)) % math.tau

    lengths = []
    for s1 in (1, -1):
        for s2 in (1, -1):
            gap = centre(goal, s2) - centre(start, s1)
            d, phi = float(np.hypot(*gap)), math.atan2(gap[1], gap[0])
            if s1 == s2:
                line, heading = d, phi
            elif d >= 2.0 * radius:
                line = math.sqrt(d * d - 4.0 * radius * radius)
                heading = phi + s1 * math.atan2(2.0 * radius, line)
            else:
                continue
            arcs = arc(s1, start.yaw, heading) + arc(s2, heading, goal.yaw)
            lengths.append(line + radius * arcs)
        gap = centre(goal, s1) - centre(start, s1)
        d, phi = float(np.hypot(*gap)), math.atan2(gap[1], gap[0])
        if d <= 4.0 * radius:
            for side in (1, -1):
                # Center of the middle circle, on one side of the line between the outer ones.
                bend = side * math.acos(d / (4.0 * radius))
                first = phi + bend + s1 * 0.5 * math.pi
                back = phi + math.pi - bend
                second = back + s1 * 0.5 * math.pi
                arcs = (
                    arc(s1, start.yaw, first) + arc(-s1, first, second) + arc(s1, second, goal.yaw)
                )
                lengths.append(radius * arcs)
    return lengths


@pytest.mark.long
@settings(derandomize=True, max_examples=300, deadline=None)
@given(poses2_of_dubins, poses2_of_dubins, st.floats(0.3, 2.0))
def test_it_arrives_and_no_other_word_is_shorter(start, goal, radius):
    curve = shortest_dubins(start, goal, radius)
    there = curve.pose_at(start, curve.length)
    assert there.distance(goal) < 1e-6
    assert abs(math.remainder(there.yaw - goal.yaw, math.tau)) < 1e-6
    assert curve.length <= min(tangent_lengths(start, goal, radius)) + 1e-6


@pytest.mark.parametrize(
    ("goal", "length"),
    [
        (Pose2(5.0, 0.0, 0.0), 5.0),
        (Pose2(0.0, 2.0, math.pi), math.pi),
        (Pose2(1.0, 1.0, 0.5 * math.pi), 0.5 * math.pi),
        (Pose2(0.0, 0.0, math.pi), 7.0 * math.pi / 3.0),
    ],
)
def test_closed_forms(goal, length):
    """Straight; half a circle; a quarter circle; turning around in place by three arcs."""
    assert shortest_dubins(Pose2(), goal, 1.0).length == pytest.approx(length)


@pytest.mark.long
@settings(derandomize=True, max_examples=60, deadline=None)
@given(poses2_of_dubins, poses2_of_dubins)
def test_points_lie_on_the_curve_and_are_never_tighter(start, goal):
    if start.distance(goal) < 0.1:
        return
    path = dubins_path(start, goal, 0.8, spacing=0.05)
    assert path.poses()[0] == pytest.approx(start, abs=1e-9)
    assert path.end.distance(goal) < 1e-6
    # Chords of 5 cm instead of arcs: some percent at this radius.
    assert np.abs(path.curvature).max() <= 1.05 / 0.8
    assert path.length == pytest.approx(shortest_dubins(start, goal, 0.8).length, rel=1e-3)
    assert np.diff(path.s).max() <= 0.05 + 1e-9


def test_in_reverse_where_that_is_shorter():
    behind = Pose2(-2.0, 0.0, 0.0)
    assert dubins_path(Pose2(), behind, 1.0).length > 6.0
    path = dubins_path(Pose2(), behind, 1.0, reversing=True)
    assert path.length == pytest.approx(2.0)
    assert path.yaw == pytest.approx(0.0, abs=1e-9)
    ahead = dubins_path(Pose2(), Pose2(2.0, 0.0, 0.0), 1.0, reversing=True)
    assert ahead.length == pytest.approx(2.0)


def test_turns_are_named():
    assert {"L": 1.0, "S": 0.0, "R": -1.0} == TURN
    assert shortest_dubins(Pose2(), Pose2(4.0, 4.0, 0.0), 1.0).word == "LSR"


@pytest.mark.parametrize("radius", [0.0, -1.0, math.nan, math.inf])
def test_bad_radius(radius):
    with pytest.raises(InvalidCommand):
        shortest_dubins(Pose2(), Pose2(1.0, 0.0, 0.0), radius)


def test_bad_poses():
    with pytest.raises(InvalidCommand, check=about("poses")):
        shortest_dubins(Pose2(), Pose2(math.nan, 0.0, 0.0), 1.0)
    with pytest.raises(InvalidCommand, check=about("path")):
        dubins_path(Pose2(), Pose2(), 1.0)


def test_a_goal_in_another_country_has_a_bounded_number_of_points():
    path = dubins_path(Pose2(), Pose2(5e6, 0.0, 0.0), 1.0)
    assert path.length == pytest.approx(5e6)
    assert len(path) <= MOST_POINTS + 3


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
