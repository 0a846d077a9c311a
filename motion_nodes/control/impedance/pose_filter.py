# SPDX-License-Identifier: Apache-2.0
"""Filter of a target pose with velocity and acceleration limits."""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.control.impedance.impedance_settings import ImpedanceSettings
from motion_nodes.model.rotation_vectors import rotation_vector, turned
from motion_nodes.typing import Array

_NEAR = 1e-9
"""Distance at which a target is reached [m or rad]."""


class PoseFilter:
    """Moves a pose towards a goal within limits of velocity and acceleration, on a straight line.

    A moving goal is followed without lag while its acceleration is within the limits. Position and
    orientation move independently, the orientation about one axis.
    """

    def __init__(self, X: Array) -> None:
        """Start at rest at a pose, shape (4, 4)."""
        self.goal = X
        """Goal pose, shape (4, 4)."""
        self.goal_twist = np.zeros(6)
        """Velocity of the goal in the base's axes [m/s, rad/s], shape (6,)."""
        self.pose = X.copy()
        """Current pose, shape (4, 4)."""
        self.twist = np.zeros(6)
        """Its velocity in the base's axes [m/s, rad/s], shape (6,)."""

    def step(self, dt: float, settings: ImpedanceSettings) -> None:
        """Advance by a time [s]."""
        s, X, goal = settings, self.pose, self.goal
        away = goal[:3, 3] - X[:3, 3]
        turn = np.array(rotation_vector(goal[:3, :3] @ X[:3, :3].T))
        v, w = (
            _limited(along + _next_velocity(to, twist - along, max_v, max_a, dt), max_v)
            for to, twist, along, max_v, max_a in (
                (away, self.twist[:3], self.goal_twist[:3], s.max_velocity, s.max_acceleration),
                (turn, self.twist[3:], self.goal_twist[3:], s.max_angular_velocity,
                 s.max_angular_acceleration),
            )
        )  # fmt: skip
        pose = np.eye(4)
        pose[:3, 3] = X[:3, 3] + dt * v
        pose[:3, :3] = turned(X[:3, :3], dt * w)
        self.pose, self.twist = pose, np.concatenate((v, w))


def _limited(v: Array, max_v: float) -> Array:
    size = math.sqrt(v @ v)
    return v if size <= max_v else v * (max_v / size)


def _next_velocity(away: Array, v: Array, max_v: float, max_a: float, dt: float) -> Array:
    """Return the velocity of the next step, relative to the goal.

    Args:
        away: vector from the current value to the goal, shape (3,).
        v: current velocity relative to the goal, shape (3,).
        max_v: max velocity.
        max_a: max acceleration.
        dt: duration of a step [s].

    The speed is that from which braking in steps of ``dt`` ends at the goal: with ``v = k a dt``
    the distance is ``a dt^2 k (k + 1) / 2``.
    """
    distance = math.sqrt(away @ away)
    if distance < _NEAR and math.sqrt(v @ v) <= max_a * dt:
        return away / dt
    half = 0.5 * max_a * dt
    speed = min(max_v, math.sqrt(half * half + 2.0 * max_a * distance) - half, distance / dt)
    desired = away * (speed / distance) if distance > 0.0 else np.zeros(3)
    change = desired - v
    size = math.sqrt(change @ change)
    if size > max_a * dt:
        change *= max_a * dt / size
    return np.asarray(v + change)
