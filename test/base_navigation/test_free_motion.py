# SPDX-License-Identifier: Apache-2.0
"""Contacts of a moving footprint: closed forms, and dense samples of the motion."""

from __future__ import annotations

import math

import numpy as np
import pytest
from base_navigation.obstacle_scenes import BODY

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.odometry import arc_displacement
from motion_nodes.core.navigation.footprint import (
    contact_times,
    footprint_from,
    into_base,
    keeps_clear,
    out_of_base,
)
from motion_nodes.core.navigation.planar_geometry import Pose2

SQUARE = footprint_from([(-0.2, -0.1), (0.2, -0.1), (0.2, 0.1), (-0.2, 0.1)])


def first(point, radius, twist, footprint=SQUARE):
    return float(contact_times(footprint, np.array([point]), np.array([radius]), twist)[0])


def moved(twist: Twist2, time: float) -> Pose2:
    return Pose2(*arc_displacement(twist.scaled(time)), twist.wz * time)


@pytest.mark.parametrize(
    ("point", "radius", "twist", "time"),
    [
        ((1.2, 0.05), 0.1, Twist2(0.5), 0.9 / 0.5),
        ((-1.2, 0.0), 0.1, Twist2(-0.5), 0.9 / 0.5),
        ((0.0, 0.7), 0.05, Twist2(0.0, 0.25), 0.55 / 0.25),
        # 0.06 beside the corner, which has the radius 0.1
        ((1.0, 0.16), 0.1, Twist2(1.0), 0.8 - 0.08),
        ((1.0, 0.21), 0.1, Twist2(1.0), math.inf),
        ((-1.0, 0.0), 0.1, Twist2(1.0), math.inf),
        # The front right corner reaches a place on its circle.
        ((0.3, 0.0), 0.0, Twist2(0.0, 0.0, 1.0), math.inf),
        (
            (math.hypot(0.2, 0.1), 0.0), 1e-6, Twist2(0.0, 0.0, 0.5),
            math.atan2(0.1, 0.2) / 0.5,
        ),
        ((0.0, 0.3), 0.0, Twist2(), math.inf),
    ],
)  # fmt: skip
def test_closed_forms(point, radius, twist, time):
    assert first(point, radius, twist) == pytest.approx(time, abs=1e-4)


def test_a_disc_on_an_arc():
    """A round footprint on a circular arc touches a disc on that arc."""
    a = np.linspace(0.0, math.tau, 200, endpoint=False)
    body = 0.1 / math.cos(math.pi / 200)
    round_one = footprint_from(np.column_stack((body * np.cos(a), body * np.sin(a))))
    radius, reach = 1.0, 0.1 + 0.15
    # The point is a quarter turn ahead; the chord between the centers is `reach`.
    expected = 0.5 * math.pi - 2.0 * math.asin(0.5 * reach / radius)
    assert first((1.0, 1.0), 0.15, Twist2(1.0, 0.0, 1.0), round_one) == pytest.approx(
        expected, abs=5e-3
    )


@pytest.mark.parametrize("seed", range(30))
def test_samples_of_the_motion(seed):
    """No obstacle is in contact before its contact time, and each touches at it."""
    rng = np.random.default_rng(seed)
    twist = Twist2(*(rng.uniform(-1.0, 1.0, 3) * (0.4, 0.4 * (seed % 2), 2.0 * (seed % 3 > 0))))
    points, radii = rng.uniform(-1.2, 1.2, (40, 2)), rng.uniform(0.0, 0.2, 40)
    outside = BODY.distances(points) > radii + 1e-3
    points, radii = points[outside], radii[outside]
    times = contact_times(BODY, points, radii, twist)
    assert (times > 0.0).all()
    for time in np.arange(0.0, 3.0, 0.02):
        near = BODY.distances(into_base(points, moved(twist, time))) < radii
        assert not (near & (time < times - 1e-9)).any()
    for time, point, radius in zip(times, points, radii, strict=True):
        if math.isfinite(time):
            local = into_base(point[None], moved(twist, time))
            assert BODY.distances(local)[0] == pytest.approx(radius, abs=1e-6)


def test_far_centres_of_rotation_are_straight():
    points, radii = np.array([(2.0, 0.05)]), np.array([0.1])
    straight = contact_times(SQUARE, points, radii, Twist2(0.5))
    for turn in (1e-9, 4e-5, 1e-4):
        bent = contact_times(SQUARE, points, radii, Twist2(0.5, 0.0, turn))
        assert bent == pytest.approx(straight, abs=1e-3)


def test_keeping_clear_of_points():
    points = np.array([(1.0, 0.0)])
    assert keeps_clear(SQUARE, points, Twist2(1.0), 0.69, 0.1)
    assert not keeps_clear(SQUARE, points, Twist2(1.0), 0.71, 0.1)
    close = np.array([(0.25, 0.0)])
    assert not keeps_clear(SQUARE, close, Twist2(-1.0), 1.0, 0.1)
    assert keeps_clear(SQUARE, close, Twist2(-1.0), 1.0, 0.1, lenient=True)
    assert not keeps_clear(SQUARE, close, Twist2(1.0), 1.0, 0.1, lenient=True)


def test_frames():
    points = np.array([(1.0, 2.0), (-0.5, 0.3)])
    pose = Pose2(0.4, -0.2, 1.1)
    local = into_base(points, pose)
    expected = [pose.inverse().compose(Pose2(*row, 0.0))[:2] for row in points]
    assert local == pytest.approx(np.array(expected))
    assert out_of_base(local, pose) == pytest.approx(points)
