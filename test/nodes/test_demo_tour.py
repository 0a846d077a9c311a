# SPDX-License-Identifier: Apache-2.0
"""The demo's square, driven by exact odometry without a node."""

from __future__ import annotations

import math

import pytest

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.odometry import Odometry, wrap_angle
from motion_nodes.nodes.demo.base import SquareDrive, arrived


@pytest.mark.parametrize("start", [(0.0, 0.0, 0.0), (3.0, -2.0, 3.0), (0.5, 0.5, math.pi)])
def test_the_square_is_closed_counter_clockwise(start):
    odometry, square = Odometry(), SquareDrive(1.0, speed=0.3, turn_rate=1.5)
    odometry.set_pose(*start)
    corners, legs = [], []
    for _ in range(2000):
        twist = square.step(odometry.x, odometry.y, odometry.yaw)
        if legs and square.leg != legs[-1] and square.leg % 2:
            corners.append((odometry.x, odometry.y))
        legs.append(square.leg)
        if square.done:
            break
        assert 0.0 <= twist.vx <= 0.3
        assert abs(twist.wz) <= 1.5
        assert twist.vy == 0.0
        odometry.advance(twist.scaled(0.02), 0.02)
    assert square.done
    assert sorted(legs) == legs
    assert square.step(odometry.x, odometry.y, odometry.yaw) == Twist2()
    c, s = math.cos(start[2]), math.sin(start[2])
    seen = [
        (c * (x - start[0]) + s * (y - start[1]), -s * (x - start[0]) + c * (y - start[1]))
        for x, y in corners
    ]
    for (x, y), expected in zip(seen, ((1, 0), (1, 1), (0, 1), (0, 0)), strict=True):
        assert math.hypot(x - expected[0], y - expected[1]) < 0.02
    assert abs(wrap_angle(odometry.yaw - start[2])) < 0.01


def test_a_base_beside_its_side_is_steered_back():
    square = SquareDrive(1.0, 0.3, 1.5)
    square.step(0.0, 0.0, 0.0)
    assert square.step(0.3, 0.05, 0.0).wz < 0.0 < square.step(0.3, -0.05, 0.0).wz
    assert square.step(0.3, 0.0, 0.2).wz < 0.0


def test_arrived():
    assert arrived([1.0, 2.0], [1.0, 2.01], 0.02)
    assert not arrived([1.0, 2.0], [1.0, 2.03], 0.02)
    assert not arrived([1.0], [math.nan], 0.02)
    with pytest.raises(ValueError):
        arrived([1.0], [1.0, 2.0], 0.1)
