# SPDX-License-Identifier: Apache-2.0
"""Playback time of a buffered stream: stops at the end of the buffer, catches up at a bounded rate.

The playback time ``p`` follows the nominal time ``p*`` (current time minus latency). If messages
are late, ``p`` passes the end of the buffer by a limited extrapolation and stops; when they arrive,
it runs faster than time until the lag ``p* - p`` is zero. As the reference is a function of ``p``,
a late reference follows the same path, at ``dp/dt`` times its velocity. The rate of change of
``dp/dt`` is bounded, which bounds the additional acceleration to ``|velocity| * RAMP``.
"""

from __future__ import annotations

import math

CATCH_UP = 1.0
"""Max excess of dp/dt above 1."""

RAMP = 20.0
"""[1/s] Max increase of dp/dt per second, and its decrease towards the end of a catch-up."""

BRAKED = 1.5
"""Distance by which the playback time passes the end of the buffer until it stops, in durations of
the extrapolation: one at rate 1, half of one while it brakes."""

_STEP = 0.002
"""[s] Max step of the integration while p lags or brakes."""


class PlaybackClock:
    """Integrates the playback time."""

    def __init__(self, extrapolation: float) -> None:
        """Create the clock.

        Args:
            extrapolation: time after the end of the buffer at which braking begins, and its
                duration [s].
        """
        self._hold = extrapolation
        self._nominal: int | None = None
        self._time = 0.0
        """Playback time minus nominal time (negative lag), at most 0 [s]."""
        self.rate = 1.0
        """dp/dt."""

    @property
    def played_ns(self) -> int | None:
        """Playback time of the last step [ns]; None before the first."""
        return None if self._nominal is None else self._nominal + round(self._time * 1e9)

    @property
    def lag(self) -> float:
        """Lag: nominal minus playback time [s]."""
        return -self._time

    def jump(self, nominal_ns: int) -> None:
        """Set the playback time to the nominal time [ns], at rate 1."""
        self._nominal, self._time, self.rate = nominal_ns, 0.0, 1.0

    def advance(self, nominal_ns: int, end_ns: int, max_rate: float = math.inf) -> int:
        """Integrate up to a nominal time.

        Args:
            nominal_ns: nominal time [ns]; must not decrease.
            end_ns: end of the buffer [ns].
            max_rate: bound of dp/dt while it catches up; below 1: 1.

        Returns:
            The playback time [ns].
        """
        if self._nominal is None:
            self._nominal, self._time = nominal_ns, min(end_ns - nominal_ns, 0) * 1e-9
        left, end = (nominal_ns - self._nominal) * 1e-9, (end_ns - nominal_ns) * 1e-9
        self._nominal = nominal_ns
        self._time -= left
        # Times below are relative to the nominal time at the end of the step.
        if self._time + left > -1e-9 and self.rate == 1.0 and end + self._hold >= 0.0:
            self._time = 0.0
        else:
            self._integrate(left, end, max(max_rate, 1.0))
        return nominal_ns + round(self._time * 1e9)

    def _integrate(self, left: float, end: float, max_rate: float) -> None:
        rest = end + BRAKED * self._hold
        while left > 1e-12:
            h = min(left, _STEP)
            left -= h
            # Lag at the end of this step if p stops.
            lag = -left - self._time
            fastest = 1.0 + min(CATCH_UP, math.sqrt(2.0 * RAMP * max(lag - h, 0.0)))
            self.rate = min(self.rate + RAMP * h, fastest, max_rate)
            self._brake(rest, h)
            if self._time >= -left:
                self._time, self.rate = -left, min(self.rate, 1.0)
            if self._time >= rest - 1e-12 and self.rate < 1e-9:
                return

    def _brake(self, rest: float, h: float) -> None:
        """Advance by ``h`` [s] at the rate, or along the braking curve that ends at ``rest``.

        On the curve ``dp/dt = sqrt(2 (rest - p) / hold)``: it decreases by 1/hold per second.
        """
        if self._hold <= 0.0:
            self._time = max(self._time, min(self._time + self.rate * h, rest))
            self.rate = self.rate if self._time < rest else 0.0
            return
        begin = rest - 0.5 * self.rate**2 * self._hold
        free = min(max((begin - self._time) / self.rate, 0.0), h) if self.rate > 0.0 else 0.0
        self._time += self.rate * free
        if free < h:
            root = math.sqrt(max(rest - self._time, 0.0)) - (h - free) / math.sqrt(2 * self._hold)
            self._time = max(self._time, rest - max(root, 0.0) ** 2)
            self.rate = math.sqrt(2.0 * max(rest - self._time, 0.0) / self._hold)
