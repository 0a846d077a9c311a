# SPDX-License-Identifier: Apache-2.0
"""A loop with absolute deadlines in a thread of its own: the fast part of a control node."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

WAKE_EARLY = 0.05
"""[s] Longer sleeps can be ended by a stop; the last stretch before a deadline is slept exactly."""


@dataclass(frozen=True)
class LoopStatistics:
    """What a loop did since the last look."""

    rate: float
    """Achieved rate [Hz]."""
    late: int
    """Periods without a tick of their own: the one before took too long, or began too late."""
    worst_lateness: float
    """Largest delay behind a deadline [s]: a tick began so late, or kept the next one waiting."""
    busy: float
    """Share of time spent inside ticks, 0..1."""


class RateLoop:
    """Calls ``tick`` at a fixed rate until stopped.

    Ticks that were missed are not repeated: the deadlines move on by whole periods, and the missed
    ones are counted. What has to be done once for each deadline, the tick that comes late does
    (:class:`~motion_nodes.ros.ros_time.StepClock`). An exception in ``tick`` ends the loop and
    goes to ``on_crash``, for a control loop that fails must be seen, not repeated.
    """

    def __init__(
        self,
        rate: float,
        tick: Callable[[], None],
        on_crash: Callable[[BaseException], None],
        name: str = "loop",
    ) -> None:
        """Prepare a loop of ``rate`` [Hz]; :meth:`start` begins it."""
        if not 0.0 < rate <= 10_000.0:
            raise ValueError(f"rate of {name} is {rate} Hz; allowed: above 0 and up to 10000")
        self.period = 1.0 / rate
        self._tick = tick
        self._on_crash = on_crash
        self._stop = threading.Event()
        self._at_end: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._lock = threading.Lock()
        self.deadline = time.monotonic()
        """When the tick under way should have begun [s of ``time.monotonic()``]."""
        self._clear(self.deadline)

    def start(self) -> None:
        """Begin ticking."""
        self._thread.start()

    def stop(self, timeout: float = 2.0) -> bool:
        """Stop, and wait until the tick under way has ended; True when it has."""
        self._stop.set()
        if self._thread is threading.current_thread() or not self._thread.is_alive():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def at_end(self, action: Callable[[], None]) -> None:
        """Have ``action`` called by the loop's thread when that ends, for a tick that hangs now."""
        self._at_end = action

    @property
    def inside(self) -> bool:
        """True when called from within a tick."""
        return self._thread is threading.current_thread()

    def statistics(self) -> LoopStatistics:
        """Return the figures since the last call."""
        now = time.monotonic()
        with self._lock:
            elapsed = max(now - self._since, 1e-9)
            result = LoopStatistics(
                self._ticks / elapsed, self._late, self._worst, self._busy / elapsed
            )
            self._clear(now)
        return result

    def _clear(self, now: float) -> None:
        self._since = now
        self._ticks = 0
        self._late = 0
        self._worst = 0.0
        self._busy = 0.0

    def _run(self) -> None:
        try:
            self._tick_until_stopped()
            if self._at_end is not None:
                self._at_end()
        except BaseException as error:
            self._on_crash(error)

    def _tick_until_stopped(self) -> None:
        deadline = time.monotonic()
        while not self._stop.is_set():
            if self._sleep_until(deadline):
                return
            begin = time.monotonic()
            self.deadline = deadline
            self._tick()
            end = time.monotonic()
            lateness = begin - deadline
            deadline += self.period
            missed = max(int((end - deadline) / self.period), 0)
            self._count(max(lateness, end - deadline), end - begin, missed)
            deadline += missed * self.period

    def _sleep_until(self, deadline: float) -> bool:
        """Sleep; True when the loop was stopped meanwhile."""
        left = deadline - time.monotonic()
        if left > 2.0 * WAKE_EARLY and self._stop.wait(left - WAKE_EARLY):
            return True
        left = deadline - time.monotonic()
        if left > 0.0:
            time.sleep(left)
        return self._stop.is_set()

    def _count(self, lateness: float, duration: float, missed: int) -> None:
        with self._lock:
            self._ticks += 1
            self._busy += duration
            self._worst = max(self._worst, lateness)
            self._late += missed
