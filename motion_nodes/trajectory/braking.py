# SPDX-License-Identifier: Apache-2.0
"""Velocities of one joint from which it can stop, or stop accelerating, within its limits."""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.typing import Array


def stopping_speed(room: float, acceleration: float, jerk: float) -> float:
    """Return the max velocity [rad/s or m/s] from which a joint can stop within a distance.

    Args:
        room: the distance [rad or m]; 0 or less gives 0.
        acceleration: limit, may be infinite [rad/s^2 or m/s^2].
        jerk: limit, may be infinite [rad/s^3 or m/s^3].

    Source: braking from v takes ``v/a + a/j`` at the mean velocity v/2, or ``2 sqrt(v/j)`` if the
    acceleration limit is not reached (v below ``a^2/j``); solved for v.
    """
    if room <= 0.0:
        return 0.0
    corner = acceleration * acceleration / jerk if math.isfinite(acceleration) else math.inf
    by_jerk = float(np.cbrt(room * room * jerk))
    if by_jerk <= corner:
        return by_jerk
    return 0.5 * (math.sqrt(corner * corner + 8.0 * acceleration * room) - corner)


def peak_velocity(velocity: Array, acceleration: Array, jerk: Array) -> Array:
    """Return velocities [rad/s or m/s] of joints whose acceleration decreases to 0 at the max jerk.

    Args:
        velocity: current velocities [rad/s or m/s], shape (n,).
        acceleration: current accelerations [rad/s^2 or m/s^2], shape (n,).
        jerk: limits, may be infinite [rad/s^3 or m/s^3], shape (n,).

    Source: the acceleration a falls linearly in the time ``a/j``.
    """
    return np.asarray(velocity + 0.5 * acceleration * np.abs(acceleration) / jerk)
