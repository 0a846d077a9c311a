# SPDX-License-Identifier: Apache-2.0
"""Square drive of the demo's base; without ROS."""

from __future__ import annotations

import math
from collections.abc import Sequence

from motion_nodes.bases.base import Twist2
from motion_nodes.bases.odometry import wrap_angle


class SquareDrive:
    """Drives a base along a square, counter-clockwise, by its odometry."""

    def __init__(self, side: float, speed: float, turn_rate: float) -> None:
        """Create a square.

        Args:
            side: length of a side [m].
            speed: max speed [m/s].
            turn_rate: max yaw rate [rad/s].
        """
        self._side, self._speed, self._turn_rate = side, speed, turn_rate
        self._start: tuple[float, float, float] | None = None
        self.leg = 0
        """Current leg, 0 to 8: even ones are sides, odd ones corners, 8 is the end."""

    @property
    def done(self) -> bool:
        """Whether the square is complete."""
        return self.leg >= 8

    def step(self, x: float, y: float, yaw: float) -> Twist2:
        """Return the twist at a pose of the odometry [m, m, rad]."""
        if self._start is None:
            self._start = (x, y, yaw)
        while not self.done:
            twist = self._side_twist(x, y, yaw) if self.leg % 2 == 0 else self._corner_twist(yaw)
            if twist is not None:
                return twist
            self.leg += 1
        return Twist2()

    def _heading(self, corner: int) -> float:
        assert self._start is not None
        return wrap_angle(self._start[2] + 0.5 * math.pi * corner)

    def _corner(self, number: int) -> tuple[float, float]:
        """Return the position of a corner [m]; 0 and 4 are the start."""
        assert self._start is not None
        x, y = self._start[:2]
        for side in range(number):
            x += self._side * math.cos(self._heading(side))
            y += self._side * math.sin(self._heading(side))
        return x, y

    def _side_twist(self, x: float, y: float, yaw: float) -> Twist2 | None:
        number = self.leg // 2
        goal_x, goal_y = self._corner(number + 1)
        heading = self._heading(number)
        ahead = (goal_x - x) * math.cos(heading) + (goal_y - y) * math.sin(heading)
        beside = -(goal_x - x) * math.sin(heading) + (goal_y - y) * math.cos(heading)
        if ahead < 0.003:
            return None
        speed = min(self._speed, max(0.02, 1.5 * ahead))
        turn = 2.0 * wrap_angle(heading - yaw) + 3.0 * max(-0.1, min(0.1, beside))
        return Twist2(speed, 0.0, max(-1.0, min(1.0, turn)))

    def _corner_twist(self, yaw: float) -> Twist2 | None:
        error = wrap_angle(self._heading(self.leg // 2 + 1) - yaw)
        if abs(error) < 0.005:
            return None
        rate = min(self._turn_rate, max(0.1, 3.0 * abs(error)))
        return Twist2(0.0, 0.0, math.copysign(rate, error))


def arrived(goal: Sequence[float], now: Sequence[float], tolerance: float) -> bool:
    """Return whether all positions are within a tolerance of their goals [rad or m]."""
    return all(abs(g - n) <= tolerance for g, n in zip(goal, now, strict=True))
