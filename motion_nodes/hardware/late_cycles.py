# SPDX-License-Identifier: Apache-2.0
"""Reference time of a driver's loop with late cycles.

During a late cycle a robot holds its last command while the references advance. A robot at its
limits could not catch up before it has to brake, and would overshoot. So the reference time
advances by at most a few periods per cycle; the rest is a delay along the path. The delay is
reduced where the references are below the limits of velocity and acceleration, and at rest.
"""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.hardware.robot_driver import DriverFault
from motion_nodes.model.limits import JointLimits
from motion_nodes.typing import Array

CATCH_UP = 0.15
"""Max excess of the rate of the references' time above 1."""
RAMP_SHARE = 0.3
"""Fraction of the acceleration limits that changes of that rate may use."""
CATCH_UP_LIMITS = 0.4
"""Max velocities and accelerations of references during a catch-up, as a fraction of the limits."""
_SHORTEST = 1e-6
"""Min duration of a cycle [s]."""


class LateCycles:
    """Delay of the references of one robot."""

    def __init__(
        self, limits: JointLimits, period: float, longest: float, max_delay: float
    ) -> None:
        """Create without a delay.

        Args:
            limits: of the joints; of velocity and acceleration.
            period: nominal period of the cycles [s].
            longest: max time by which the references advance in one cycle [s].
            max_delay: delay above which the robot is held [s].
        """
        self._max_delay = max_delay
        self._velocity, self._acceleration = limits.velocity, limits.acceleration
        self._period, self._longest = period, longest
        self.reset()

    def reset(self) -> None:
        """Restart without a delay."""
        self._last: int | None = None
        self._moved = 0
        self.delay, self.rate = 0.0, 1.0

    def note(self, now_ns: int, *, moves: bool) -> None:
        """Process a message; the delay is reset after the references were at rest long enough.

        Args:
            now_ns: time of arrival [ns].
            moves: whether a reference has a velocity.
        """
        self._moved = now_ns if moves else self._moved
        if now_ns - self._moved > 1.2e9 * self._max_delay:
            self.delay, self.rate = 0.0, 1.0

    def advance(self, now_ns: int, velocity: Array, acceleration: Array) -> tuple[float, int]:
        """Begin a cycle.

        Args:
            now_ns: its time [ns].
            velocity: of the references in the last cycle [rad/s or m/s], shape (n,).
            acceleration: the same [rad/s^2 or m/s^2], shape (n,).

        Returns:
            Time by which the robot's reference advances [s], and the time of the references [ns].

        Raises:
            DriverFault: the delay has become too long.
        """
        last, self._last = self._last, now_ns
        elapsed = self._period if last is None else max((now_ns - last) * 1e-9, _SHORTEST)
        dt = min(elapsed, self._longest)
        self.delay += elapsed - dt
        if self.delay > self._max_delay:
            self.reset()
            raise DriverFault(
                f"the accumulated delay of the driver's cycles exceeds {self._max_delay:g} s "
                "(max_delay); the computer is too busy for the rate of this robot"
            )
        if self.delay > 0.0:
            self._catch_up(min(dt, self._period), velocity, acceleration)
        return dt, now_ns - round(self.delay * 1e9)

    def _catch_up(self, dt: float, velocity: Array, acceleration: Array) -> None:
        moving = np.abs(velocity) > 0.0
        steepest = np.min(self._acceleration[moving] / np.abs(velocity[moving]), initial=math.inf)
        ramp = RAMP_SHARE * float(steepest)  # of the rate [1/s]
        room = (np.abs(velocity) <= CATCH_UP_LIMITS * self._velocity) & (
            np.abs(acceleration) <= CATCH_UP_LIMITS * self._acceleration
        )
        desired = 1.0
        if room.all():
            desired += min(CATCH_UP, math.sqrt(2.0 * ramp * self.delay))
        self.rate += min(max(desired - self.rate, -ramp * dt), ramp * dt)
        self.delay -= min((self.rate - 1.0) * dt, self.delay)
        if self.delay <= 0.0:
            self.rate = 1.0
