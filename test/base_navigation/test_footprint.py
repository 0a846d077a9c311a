# SPDX-License-Identifier: Apache-2.0
"""Footprints of robots, and distances from them."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from raised_errors import about
from scipy.spatial import ConvexHull

from motion_nodes.core.navigation.footprint import convex_hull, footprint_from, footprint_of
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidConfig


def test_the_outline_of_a_turtlebot():
    """Body: 0.14 m around x = -0.032; wheels: 4 mm wide, 0.16 m apart; height of the scanner."""
    footprint = footprint_of(load_robot("turtlebot3_burger"))
    low, high = footprint.corners.min(axis=0), footprint.corners.max(axis=0)
    assert low == pytest.approx((-0.102, -0.082), abs=1e-3)
    # The scanner's cylinder is the front-most part.
    assert high == pytest.approx((0.038, 0.082), abs=2e-3)
    assert footprint.floor == pytest.approx(0.0, abs=1e-3)
    assert footprint.top == pytest.approx(0.19125, abs=1e-3)


@pytest.mark.parametrize("name", ["jetbot", "nova_carter", "kaya", "leatherback"])
def test_shipped_bases_have_convex_outlines(name):
    corners = footprint_of(load_robot(name)).corners
    assert 3 <= len(corners) <= 16
    edges = np.roll(corners, -1, axis=0) - corners
    turn = edges[:, 0] * np.roll(edges[:, 1], -1) - edges[:, 1] * np.roll(edges[:, 0], -1)
    assert (turn > 0.0).all()


def test_a_footprint_of_robot_yaml_prevails():
    robot = load_robot("jetbot")
    base = dataclasses.replace(robot.base, footprint=((0.2, 0.1), (-0.2, 0.1), (0.0, -0.3)))
    footprint = footprint_of(dataclasses.replace(robot, base=base))
    assert sorted(map(tuple, footprint.corners.tolist())) == [(-0.2, 0.1), (0.0, -0.3), (0.2, 0.1)]
    assert footprint.top == footprint_of(robot).top


@pytest.mark.parametrize(
    "corners",
    [[], [(0, 0), (1, 1)], [(0, 0), (1, 1), (2, 2)], [(0, 0), (1, 0), (0, math.nan)],
     [(0, 0), (1, 0), (0, 1e6)], [(0, 0, 0), (1, 0, 0), (0, 1, 0)]],
)  # fmt: skip
def test_invalid_corners(corners):
    with pytest.raises(InvalidConfig, check=about("footprint")):
        footprint_from(corners)


@pytest.mark.parametrize("seed", range(5))
def test_the_hull_is_scipys(seed):
    points = np.random.default_rng(seed).normal(size=(40, 2))
    expected, found = points[ConvexHull(points).vertices], convex_hull(points)
    assert found[found[:, 0].argsort()] == pytest.approx(
        expected[expected[:, 0].argsort()], abs=1e-8
    )


def test_many_corners_become_fewer_around_them():
    a = np.linspace(0.0, math.tau, 300)
    circle = np.column_stack((0.3 * np.cos(a), 0.3 * np.sin(a)))
    footprint = footprint_from(circle)
    assert len(footprint.corners) <= 16
    assert footprint.distances(circle).max() == pytest.approx(0.0, abs=1e-9)
    assert footprint.radius < 0.31


def test_distances():
    square = footprint_from([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    points = np.array([(0, 0), (2, 0), (0, -3), (2, 2), (0.9, 0.9)], float)
    distances, nearest = square.nearest(points)
    assert distances == pytest.approx([0, 1, 2, math.sqrt(2), 0])
    assert nearest[1:4] == pytest.approx(np.array([(1, 0), (0, -1), (1, 1)]))
    assert square.radius == pytest.approx(math.sqrt(2))
