# SPDX-License-Identifier: Apache-2.0
"""Deadlines k * T of a stream of references, independent of when a thread wakes up.

When a thread wakes up late, or simulated time arrives in bursts, several deadlines are due at once.
Each deadline gets its own sample and stamp, in order, so that the motion is uniform both for
receivers that count samples and for receivers that use stamps.
"""

from __future__ import annotations

import math
from typing import NamedTuple

MAX_CATCH_UP = 0.1
"""[s] Deadlines missed by a longer stall are skipped; receivers of the stream have stopped."""

MIN_CATCH_UP = 10
"""Min number of late periods that are served."""


class Due(NamedTuple):
    """Deadlines due at a wake-up."""

    stamps: tuple[int, ...]
    """Stamps [ns], oldest first, one period apart; empty if none is due."""
    next_ns: int
    """First deadline not served before this wake-up, due or not [ns]."""
    skipped: int
    """Number of skipped deadlines, between ``next_ns`` and the first of ``stamps``."""


class Deadlines:
    """Serves each deadline of a grid once, in order.

    After a stall longer than :data:`MAX_CATCH_UP` only the newest deadline is due and the others
    are skipped: a reference that advances by one period per sample resumes where it was, delayed.
    """

    def __init__(self, period: float) -> None:
        """Create a grid of ``period`` [s]; :meth:`begin` sets its origin."""
        if not 0.0 < period < math.inf:
            raise ValueError(f"period is {period} s; it must be finite and above 0")
        self._period_ns = period * 1e9
        self._origin = 0
        self._next = 0

    def begin(self, origin_ns: int, now_ns: int) -> None:
        """Set the origin of the grid; the first deadline after ``now_ns`` is next."""
        self._origin = origin_ns
        self._next = self._last_due(now_ns) + 1

    @property
    def next_ns(self) -> int:
        """First deadline not served yet [ns]."""
        return self._stamp(self._next)

    def due(self, now_ns: int, pace: float = 1.0) -> Due:
        """Return the deadlines up to ``now_ns`` that were not served before.

        A time that runs backwards is not an error: nothing is due until the next deadline.

        Args:
            now_ns: time [ns].
            pace: rate of this clock relative to wall time; stalls are measured in wall time.
        """
        first = self._next
        next_ns = self._stamp(first)
        if now_ns < next_ns:
            return Due((), next_ns, 0)
        if now_ns < self._stamp(first + 1):  # the usual case
            self._next = first + 1
            return Due((next_ns,), next_ns, 0)
        last = self._last_due(now_ns)
        count = last - first + 1
        most = max(MIN_CATCH_UP, MAX_CATCH_UP * max(pace, 1.0) / (self._period_ns * 1e-9))
        skipped = 0 if count <= most + 1e-6 else count - 1
        self._next = last + 1
        stamps = tuple(self._stamp(k) for k in range(first + skipped, last + 1))
        return Due(stamps, stamps[0], skipped)

    def take(self) -> int:
        """Serve the next deadline early, for work that continues while the clock is paused."""
        self._next += 1
        return self._stamp(self._next - 1)

    def _stamp(self, k: int) -> int:
        return self._origin + round(k * self._period_ns)

    def _last_due(self, now_ns: int) -> int:
        """Return the index of the newest deadline not after ``now_ns``."""
        k = math.floor((now_ns - self._origin) / self._period_ns)
        # The quotient is rounded; stamps are whole nanoseconds.
        if self._stamp(k + 1) <= now_ns:
            return k + 1
        return k if self._stamp(k) <= now_ns else k - 1
