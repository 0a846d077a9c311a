# SPDX-License-Identifier: Apache-2.0
"""Dubins curves: they reach the goal, keep the turning radius, and are the shortest."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.navigation.planar_geometry import MOST_POINTS, Pose2
from motion_nodes.core.navigation.pose_curves import TURN, dubins_path, shortest_dubins
from motion_nodes.errors import InvalidCommand

poses2 = st.builds(Pose2, st.floats(-4.0, 4.0), st.floats(-4.0, 4.0), st.floats(-3.1, 3.1))


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
@given(poses2, poses2, st.floats(0.3, 2.0))
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
@given(poses2, poses2)
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
