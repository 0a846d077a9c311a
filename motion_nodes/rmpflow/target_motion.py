# SPDX-License-Identifier: Apache-2.0
"""How a target moves, from where it was said to be.

A policy that only pulls towards where the target is lags behind one that moves, by centimetres.
"""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.model.tree import Array
from motion_nodes.rmpflow.servo import rotation_vector

_SETTLING = 0.12  # [s] time constant of the estimate
_FASTEST = np.array([1.0, 1.0, 1.0, 4.0, 4.0, 4.0])  # [m/s, rad/s] faster ones were put elsewhere
_LEAST_HOLD = 0.15  # [s] so long, or two of its intervals, a target is taken to move on
_LONGEST = 0.5  # [s] between two poses that tell of one motion
_STILL = np.zeros(6)


class TargetMotion:
    """Twist of a target, smoothed."""

    def __init__(self) -> None:
        self._X: Array | None = None
        self._at = 0.0
        self._interval = 0.0
        self._twist = _STILL

    def see(self, X: Array, at: float) -> None:
        """Note where the target is at a time.

        Args:
            X: its pose, shape (4, 4).
            at: time [s]; one that is not after the last tells nothing of the motion.
        """
        known, interval = self._X, at - self._at
        if known is not None and 0.0 < interval <= _LONGEST:
            turn = rotation_vector(X[:3, :3] @ known[:3, :3].T)
            twist = np.concatenate((X[:3, 3] - known[:3, 3], turn)) / interval
            if (np.abs(twist) > _FASTEST).any():
                self._twist = _STILL
            else:
                new = 1.0 - math.exp(-interval / _SETTLING)
                self._twist = self._twist + new * (twist - self._twist)
            self._interval = interval
        elif known is not None and interval > _LONGEST:
            self._twist = _STILL
        if known is None or interval > 0.0:
            self._at = at
        self._X = X

    def twist(self, now: float) -> Array:
        """Return linear [m/s] and angular velocity [rad/s], shape (6,); 0 once nothing comes."""
        held = max(2.0 * self._interval, _LEAST_HOLD)
        return self._twist if now - self._at <= held else _STILL

    def age(self, now: float) -> float:
        """Return how long ago the target was where it was said to be, bounded [s]."""
        return min(max(now - self._at, 0.0), _LEAST_HOLD)
