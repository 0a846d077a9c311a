# SPDX-License-Identifier: Apache-2.0
"""A loop with absolute deadlines in its own thread: the fast part of a control node."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

WAKE_EARLY = 0.05
"""[s] A stop can interrupt the sleep until this long before a deadline."""


@dataclass(frozen=True)
class LoopStatistics:
    """Statistics of a loop since the last report."""

    rate: float
    """Achieved rate [Hz]."""
    nominal: float
    """Nominal rate [Hz]: that of the loop, less where cycles lasted several periods."""
    late: int
    """Number of missed periods: the previous cycle took too long or started late."""
    worst_lateness: float
    """Max delay of a cycle after its deadline, or overrun beyond the next one [s]."""
    busy: float
    """Ratio of time spent in cycles, 0..1."""


class RateLoop:
    """Calls ``tick`` at a fixed rate until stopped.

    Missed cycles are counted and not repeated; the next deadline is a multiple of the period later.
    Work that is due once per deadline is caught up by the late cycle
    (:class:`~motion_nodes.ros.ros_time.StepClock`). An exception in ``tick`` ends the loop and is
    passed to ``on_crash``.
    """

    def __init__(
        self,
        rate: float,
        tick: Callable[[], None],
        on_crash: Callable[[BaseException], None],
        name: str = "loop",
    ) -> None:
        """Create a loop; :meth:`start` starts it.

        Args:
            rate: nominal rate [Hz].
            tick: called in each cycle.
            on_crash: called with an exception of ``tick``, in the loop's thread.
            name: name of the thread.

        Raises:
            ValueError: a rate outside (0, 10000] Hz.
        """
        if not 0.0 < rate <= 10_000.0:
            raise ValueError(f"rate of {name} is {rate} Hz; allowed: above 0 and up to 10000")
        self.period = 1.0 / rate
        self._tick = tick
        self._on_crash = on_crash
        self._stop = threading.Event()
        self._at_end: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._lock = threading.Lock()
        self.stride = 1
        """Number of periods until the next cycle; a tick that has nothing to do may set it."""
        self.deadline = time.monotonic()
        """Deadline of the current cycle on ``time.monotonic()`` [s]."""
        self._clear(self.deadline)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout: float = 2.0) -> bool:
        """Stop the loop and wait for its current cycle; return whether that has ended.

        Args:
            timeout: max time to wait [s].
        """
        self._stop.set()
        if self._thread is threading.current_thread() or not self._thread.is_alive():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def at_end(self, action: Callable[[], None]) -> None:
        """Call ``action`` in the loop's thread when a blocked cycle returns."""
        self._at_end = action

    @property
    def inside(self) -> bool:
        """True if called from within a cycle."""
        return self._thread is threading.current_thread()

    @property
    def overdue(self) -> float:
        """Time since the next cycle should have begun [s]; 0 if it is not due yet."""
        return max(time.monotonic() - self.deadline - self.stride * self.period, 0.0)

    def statistics(self) -> LoopStatistics:
        """Return the statistics since the last call."""
        now = time.monotonic()
        with self._lock:
            elapsed = max(now - self._since, 1e-9)
            nominal = self._ticks / max(self._periods, 1) / self.period
            result = LoopStatistics(
                self._ticks / elapsed, nominal, self._late, self._worst, self._busy / elapsed
            )
            self._clear(now)
        return result

    def _clear(self, now: float) -> None:
        self._since = now
        self._ticks = 0
        self._periods = 0
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
            deadline += self.stride * self.period
            missed = max(int((end - deadline) / self.period), 0)
            self._count(max(lateness, end - deadline), end - begin, missed)
            deadline += missed * self.period

    def _sleep_until(self, deadline: float) -> bool:
        """Sleep until a deadline; return whether the loop was stopped meanwhile."""
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
            self._periods += self.stride
            self._busy += duration
            self._worst = max(self._worst, lateness)
            self._late += missed
