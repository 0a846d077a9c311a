# SPDX-License-Identifier: Apache-2.0
"""Stop of a trajectory along its path, within acceleration and jerk limits.

The playback rate r is reduced from its current value to 0. With velocity v and acceleration a of
the trajectory, the joints have the velocity ``v r`` and the acceleration ``a r^2 + v dr/dt``, so
the limits A and J of each joint bound the slope of the rate:

    dr/dt >= -(A + sign(v) a r^2) / |v|,    |d^2 r/dt^2| <= J / |v|

Source: the path-velocity decomposition of time-optimal control along a path, Bobrow, Dubowsky and
Gibson 1985.
"""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.model.limits import JointLimits
from motion_nodes.trajectory.joint_trajectory import JointTrajectory, TrajectorySample

_SHARE = 0.95
"""Fraction of the limits that is used, a margin for changes within a step."""
_STILL = 1e-9
"""Velocity below which a joint does not bound the stop [rad/s or m/s]."""


class PathBrake:
    """Stop of one trajectory."""

    def __init__(
        self, trajectory: JointTrajectory, limits: JointLimits, time: float, rate: float
    ) -> None:
        """Start the stop.

        Args:
            trajectory: trajectory within the limits.
            limits: limits of its joints, in its order.
            time: current time within the trajectory [s].
            rate: current playback rate.
        """
        self._trajectory, self._time, self._rate = trajectory, time, rate
        self._acceleration, self._jerk = _SHARE * limits.acceleration, _SHARE * limits.jerk
        self._slope = 0.0

    @property
    def ended(self) -> bool:
        """Whether the trajectory is at rest."""
        return self._rate == 0.0 or self._time >= self._trajectory.end_time

    def step(self, dt: float) -> TrajectorySample:
        """Advance by ``dt`` [s] and return the reference."""
        # The accelerations of the trajectory may change within the step.
        ahead = self._time + self._rate * dt * np.array([0.0, 0.5, 1.0])
        bounds = np.array([self._bounds(self._trajectory.sample(t)) for t in ahead.tolist()])
        slope, curvature = float(bounds[:, 0].max()), float(bounds[:, 1].min())
        slower = max(slope, self._slope - curvature * dt)
        # Slope and rate reach 0 at the same time.
        self._slope = min(max(slower, -math.sqrt(2.0 * curvature * self._rate)), 0.0)
        rate = max(self._rate + self._slope * dt, 0.0)
        self._time += 0.5 * (self._rate + rate) * dt
        self._rate = rate
        slope = self._slope if rate > 0.0 else 0.0
        return self._trajectory.sample(self._time).at_rate(rate, slope)

    def _bounds(self, sample: TrajectorySample) -> tuple[float, float]:
        """Return the min slope of the rate [1/s], and the max change of the slope [1/s^2]."""
        moving = np.abs(sample.velocity) > _STILL
        if not moving.any():
            return -math.inf, math.inf
        v = sample.velocity[moving]
        a = np.sign(v) * sample.acceleration[moving] * self._rate**2
        slope = -(self._acceleration[moving] + a) / np.abs(v)
        curvature = self._jerk[moving] / np.abs(v)
        return min(float(slope.max()), 0.0), float(curvature.min())
