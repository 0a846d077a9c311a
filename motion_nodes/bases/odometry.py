# SPDX-License-Identifier: Apache-2.0
"""Planar odometry: exact integration of constant twists."""

from __future__ import annotations

import math

from motion_nodes.bases.base import Twist2
from motion_nodes.errors import BadCommand


def wrap_angle(angle: float) -> float:
    """Return the angle [rad] in (-pi, pi]."""
    wrapped = math.remainder(angle, math.tau)
    return math.pi if wrapped == -math.pi else wrapped


def arc_displacement(path: Twist2) -> tuple[float, float]:
    """Return where a constant twist ends, in the frame where it began [m].

    Args:
        path: twist times duration: (x, y, yaw) travelled along the body's own axes.

    Source: exponential of a planar twist (Lynch and Park, Modern Robotics, eq. 3.84 in the plane),
    written as the arc's chord: its length is ``sin(a/2)/(a/2)`` of the path's and it points half
    the angle aside. So no digits cancel at any angle.
    """
    half = 0.5 * path.wz
    chord = math.sin(half) / half if abs(half) > 1e-9 else 1.0
    c, s = chord * math.cos(half), chord * math.sin(half)
    return c * path.vx - s * path.vy, s * path.vx + c * path.vy


class Odometry:
    """The pose that a base reached by adding up its own motion."""

    def __init__(self) -> None:
        """Begin at the origin, standing."""
        self.x = 0.0
        """[m]"""
        self.y = 0.0
        """[m]"""
        self.yaw = 0.0
        """[rad], in (-pi, pi]."""
        self.twist = Twist2()
        """Newest velocity in the body frame."""

    def set_pose(self, x: float, y: float, yaw: float) -> None:
        """Put the base at a pose [m, m, rad].

        Raises:
            BadCommand: for numbers that are not finite; the pose stays.
        """
        if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(yaw)):
            raise BadCommand(f"pose ({x}, {y}, {yaw}) is not finite; odometry stays as it is")
        self.x, self.y, self.yaw = x, y, wrap_angle(yaw)

    def advance(self, path: Twist2, dt: float) -> None:
        """Add the motion of one step.

        Args:
            path: (x, y, yaw) travelled in the body frame [m, m, rad], a constant twist's share;
                one that is not finite is passed over.
            dt: duration of the step [s]; 0 or less leaves the velocity as it was.
        """
        if not path.finite:
            return
        forward, left = arc_displacement(path)
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        self.x += c * forward - s * left
        self.y += s * forward + c * left
        self.yaw = wrap_angle(self.yaw + path.wz)
        if dt > 0.0:
            self.twist = path.scaled(1.0 / dt)
