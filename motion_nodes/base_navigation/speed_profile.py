# SPDX-License-Identifier: Apache-2.0
"""Velocity profiles of paths."""

from __future__ import annotations

import bisect
import math

import numpy as np

from motion_nodes.base_navigation.motion_limits import MotionLimits
from motion_nodes.base_navigation.planar_path import PlanarPath
from motion_nodes.typing import Array


def curve_speeds(path: PlanarPath, limits: MotionLimits, *, holonomic: bool = False) -> Array:
    """Return the max velocity at each point, independent of the others [m/s], shape (n,).

    A non-holonomic base turns with the path; a holonomic base follows the path's headings.

    Source: ``v^2 |k| <= a_lateral``, ``v |d yaw/ds| <= yaw rate``.
    """
    if not holonomic:
        return np.array([limits.velocity_in_curve(k) for k in path.curvature.tolist()])
    slope = np.abs(np.diff(path.yaw) / np.diff(path.s))
    turning = np.maximum(np.append(slope, 0.0), np.append(0.0, slope))
    with np.errstate(divide="ignore"):
        sideways = np.sqrt(limits.max_lateral_acceleration / np.abs(path.curvature))
        slower: Array = np.minimum(sideways, limits.max_yaw_velocity / turning)
    return slower.clip(max=limits.max_velocity)


def braking_speeds(path: PlanarPath, limits: MotionLimits, *, holonomic: bool = False) -> Array:
    """Return the max velocity at each point that satisfies all later limits [m/s], shape (n,).

    The base comes to rest at the end.

    Args:
        path: densely sampled path; between two points the max curvature of both applies.
        limits: limits of the base.
        holonomic: see curve_speeds.

    Source: ``v_i^2 = min(v_limit^2, v_(i+1)^2 + 2 d ds)``, backward from the end.
    """
    squares = curve_speeds(path, limits, holonomic=holonomic) ** 2
    squares[-1] = 0.0
    gains = 2.0 * limits.max_deceleration * np.diff(path.s)
    for i in range(len(squares) - 2, -1, -1):
        squares[i] = min(squares[i], squares[i + 1] + gains[i])
    return np.sqrt(squares)


class SpeedLimit:
    """Max velocity at any point of a path that satisfies all later limits."""

    def __init__(self, path: PlanarPath, limits: MotionLimits, *, holonomic: bool = False) -> None:
        """Precompute the profile of a path; see braking_speeds."""
        self._s: list[float] = path.s.tolist()
        self._curve: list[float] = curve_speeds(path, limits, holonomic=holonomic).tolist()
        braking = braking_speeds(path, limits, holonomic=holonomic)
        self._braking: list[float] = braking.tolist()
        self._deceleration = limits.max_deceleration

    def at(self, s: float) -> float:
        """Return the velocity [m/s] at an arc length [m], also beyond both ends."""
        i = bisect.bisect_left(self._s, s)
        if i == len(self._s):
            return self._braking[-1]
        ahead = self._braking[i]
        braking = math.sqrt(ahead * ahead + 2.0 * self._deceleration * (self._s[i] - s))
        return min(braking, self._curve[max(i - 1, 0)])
