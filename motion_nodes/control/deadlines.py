# SPDX-License-Identifier: Apache-2.0
"""The deadlines k * T of a stream of references, whatever the moment a thread wakes.

A thread that wakes late, or a simulated clock that arrives in bunches, finds several deadlines due
at once. Each of them gets its own sample, stamped with it, in order; so a recorder that takes
samples in order and divides by the period sees an even motion, and one that goes by stamps does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MAX_CATCH_UP = 0.1
"""[s] Deadlines missed by a longer stall are skipped; whoever follows the stream has stopped."""

MIN_CATCH_UP = 10
"""Periods that are made up for at any rate."""


@dataclass(frozen=True)
class Due:
    """The deadlines that a wake-up has to serve."""

    stamps: tuple[int, ...]
    """[ns] Oldest first, one period apart; empty where the next lies ahead."""
    next_ns: int
    """[ns] The first deadline that was not served before this wake-up, due or not."""
    skipped: int
    """How many were given up for good, between ``next_ns`` and the first of ``stamps``."""


class Deadlines:
    """Hands out each deadline of a grid once, in order.

    After a stall longer than :data:`MAX_CATCH_UP` only the newest deadline is due and the others
    are skipped: a reference that advances by one period per sample goes on where it was, delayed.
    """

    def __init__(self, period: float) -> None:
        """Prepare a grid of ``period`` [s]; :meth:`begin` puts it in place."""
        if not 0.0 < period < math.inf:
            raise ValueError(f"period is {period} s; it must be finite and above 0")
        self._period_ns = period * 1e9
        self._origin = 0
        self._next = 0

    def begin(self, origin_ns: int, now_ns: int) -> None:
        """Lay the grid through ``origin_ns``; the first deadline after ``now_ns`` comes next."""
        self._origin = origin_ns
        self._next = self._last_due(now_ns) + 1

    @property
    def next_ns(self) -> int:
        """The first deadline that was not handed out yet [ns]."""
        return self._stamp(self._next)

    def due(self, now_ns: int, pace: float = 1.0) -> Due:
        """Return the deadlines up to ``now_ns`` that were not handed out before.

        A time before the last call is no error: nothing is due until the next deadline.

        Args:
            now_ns: time [ns].
            pace: how fast time runs, by the wall clock; a stall is measured by that.
        """
        first, last = self._next, self._last_due(now_ns)
        count = last - first + 1
        if count <= 0:
            return Due((), self._stamp(first), 0)
        most = max(MIN_CATCH_UP, MAX_CATCH_UP * max(pace, 1.0) / (self._period_ns * 1e-9))
        skipped = 0 if count <= most + 1e-6 else count - 1
        self._next = last + 1
        stamps = tuple(self._stamp(k) for k in range(first + skipped, last + 1))
        return Due(stamps, stamps[0], skipped)

    def take(self) -> int:
        """Hand out the next deadline before it has come, for what goes on while time stands."""
        self._next += 1
        return self._stamp(self._next - 1)

    def _stamp(self, k: int) -> int:
        return self._origin + round(k * self._period_ns)

    def _last_due(self, now_ns: int) -> int:
        """Return the number of the newest deadline not after ``now_ns``."""
        k = math.floor((now_ns - self._origin) / self._period_ns)
        # The quotient is rounded; stamps are whole nanoseconds.
        if self._stamp(k + 1) <= now_ns:
            return k + 1
        return k if self._stamp(k) <= now_ns else k - 1
