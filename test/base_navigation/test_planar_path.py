# SPDX-License-Identifier: Apache-2.0
"""Paths: checks, arc length, curvature, sections, speed profile, nearest point."""

import math

import numpy as np
import pytest
from base_navigation.rolling_base import LIMITS, circle, figure_of_eight, square
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.navigation.follow_path import SpeedLimit, braking_speeds, facing, sections_of
from motion_nodes.core.navigation.path_tracking import PathPosition
from motion_nodes.core.navigation.planar_geometry import PlanarPath, Pose2
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
