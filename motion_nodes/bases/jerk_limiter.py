# SPDX-License-Identifier: Apache-2.0
"""Jerk limits: the moving average of a ramp is an S-curve."""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

INSTANT = 1e-9
"""Durations below this are rounding errors [s]."""


class _Corner(NamedTuple):
    """A corner of a piecewise linear ramp."""

    time: float
    velocity: float
    travel: float
    """Integral of the velocity up to here."""


class Smoother:
    """Moving average of one axis's ramp over the time in which its acceleration builds up.

    A ramp of acceleration A, averaged over A/J, has the jerk J. As an average of feasible
    velocities, the result satisfies every limit that they satisfy.

    Source: Biagiotti and Melchiorri, "FIR filters for online trajectory planning with time- and
    frequency-domain specifications", Control Engineering Practice 20 (2012), section 2; here in
    continuous time, for commands that change at any time (see :meth:`rates`).
    """

    def __init__(self, window: float, jerk: float, velocity: float = 0.0) -> None:
        """Start at a constant velocity.

        Args:
            window: length of the average [s]; at least the max acceleration divided by ``jerk``.
                With 0 the ramp is unchanged.
            jerk: limit, may be infinite.
            velocity: initial velocity.
        """
        self.window = window
        self._change = jerk * window if window > 0.0 else math.inf
        self._start(velocity)

    def _start(self, velocity: float) -> None:
        self._ramp = deque((_Corner(0.0, velocity, 0.0),))
        self._steady_since = -math.inf

    def rates(self, dt: float) -> tuple[float, float]:
        """Return the min and max acceleration of the ramp for the next ``dt`` [s].

        The average's jerk is the ramp's acceleration minus that of one window ago, divided by the
        window. Zero is always allowed.
        """
        lower, upper = -self._change, self._change
        if len(self._ramp) == 1 or math.isinf(self._change):
            return lower, upper
        end = self._ramp[-1].time - self.window + dt
        corners = iter(self._ramp)
        begin = next(corners)
        for corner in corners:
            if begin.time >= end:
                break
            time, change = corner.time - begin.time, corner.velocity - begin.velocity
            begin = corner
            if time < INSTANT:
                continue
            past = min(max(change / time, -self._change), self._change)
            lower, upper = max(lower, past - self._change), min(upper, past + self._change)
        return lower, upper

    def advance(self, velocity: float, time: float) -> None:
        """Continue the ramp linearly to ``velocity`` in a time [s]; 0 is a jump."""
        last = self._ramp[-1]
        if velocity == last.velocity and time == 0.0:
            return
        now = last.time + time
        if velocity != last.velocity:
            self._steady_since = now
        elif now - self._steady_since >= self.window:
            self._start(velocity)
            return
        travel = last.travel + 0.5 * (last.velocity + velocity) * time
        self._ramp.append(_Corner(now, velocity, travel))
        while self._ramp[1].time <= now - self.window and len(self._ramp) > 2:
            self._ramp.popleft()

    @property
    def mean(self) -> float:
        """Average of the ramp's velocity over the current window [m/s or rad/s]."""
        newest = self._ramp[-1]
        if len(self._ramp) == 1 or self.window == 0.0:
            return newest.velocity
        return (newest.travel - self._travel(newest.time - self.window)) / self.window

    def _travel(self, time: float) -> float:
        """Return the integral of the velocity until ``time``, not after the second corner."""
        first, second = self._ramp[0], self._ramp[1]
        since = time - first.time
        if since <= 0.0:
            return first.travel + first.velocity * since
        rise = (second.velocity - first.velocity) / (second.time - first.time)
        return first.travel + (first.velocity + 0.5 * rise * since) * since
