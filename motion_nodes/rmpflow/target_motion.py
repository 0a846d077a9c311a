# SPDX-License-Identifier: Apache-2.0
"""Estimates the twist of a target from its successive poses.

A policy that is only attracted to the current pose lags behind a moving target by centimetres.
"""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.model.rotation_vectors import rotation_vector
from motion_nodes.typing import Array

_SETTLING = 0.12  # [s] time constant of the estimate
# [m/s, rad/s] faster changes are teleports, not motion
_FASTEST = np.array([1.0, 1.0, 1.0, 4.0, 4.0, 4.0])
_LEAST_HOLD = 0.15  # [s] min time (or two intervals) that the estimate is held without new poses
_LONGEST = 0.5  # [s] max interval between two poses of one motion
_STILL = np.zeros(6)


class TargetMotion:
    """Filtered twist of a target."""

    def __init__(self) -> None:
        self._X: Array | None = None
        self._at = 0.0
        self._interval = 0.0
        self._twist = _STILL

    def see(self, X: Array, at: float) -> None:
        """Update with the pose of the target at a time.

        Args:
            X: its pose in the world, shape (4, 4).
            at: time [s]; one that is not after the last does not change the estimate.
        """
        known, interval = self._X, at - self._at
        if known is not None and 0.0 < interval <= _LONGEST:
            turn = np.array(rotation_vector(X[:3, :3] @ known[:3, :3].T))
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
        """Return linear [m/s] and angular velocity [rad/s], shape (6,); 0 after the hold time."""
        held = max(2.0 * self._interval, _LEAST_HOLD)
        return self._twist if now - self._at <= held else _STILL

    def age(self, now: float) -> float:
        """Return the bounded age of the last pose [s]."""
        return min(max(now - self._at, 0.0), _LEAST_HOLD)
