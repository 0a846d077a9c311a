# SPDX-License-Identifier: Apache-2.0
"""Threads that run the parts of a node: loops, periodic calls, and the jobs that others submit.

A loop with absolute deadlines in its own thread is the fast part of a control node; other threads
submit jobs to it, which it runs between two cycles.

Periodic calls, such as reports, are made in one thread for all nodes of a process. A Python
executor polls all services of all its nodes each time it wakes, which takes some milliseconds;
periodic calls in a separate thread do not wake it.

rclpy's action clients and servers are not thread-safe, so other threads access them by jobs for the
executor's thread only.
"""

from __future__ import annotations

import math
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node

WAKE_EARLY = 0.05
"""[s] A stop can interrupt the sleep until this long before a deadline."""


class Pause(Protocol):
    """What ends a pause of several periods, besides its time."""

    def wait(self, seconds: float) -> bool:
        """Wait at most for a time [s]; return whether the pause is over before."""

    def wake(self) -> None:
        """End a wait, or the next one; thread-safe."""


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
        self._called = threading.Event()
        self._at_end: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._lock = threading.Lock()
        self.stride = 1
        """Number of periods until the next cycle; a tick that has nothing to do may set it."""
        self.pause: Pause | None = None
        """Ends a pause of several periods early; None: only :meth:`wake` does."""
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
        self.wake()
        if self._thread is threading.current_thread() or not self._thread.is_alive():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def wake(self) -> None:
        """Begin the next cycle at the next period, whatever the stride; thread-safe."""
        self._called.set()
        if self.pause is not None:
            self.pause.wake()

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
        while True:
            deadline = self._sleep_until(deadline)
            if self._stop.is_set():
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

    def _sleep_until(self, deadline: float) -> float:
        """Sleep until a deadline, or an earlier one of the grid after a wake; return it."""
        if self._interrupted(deadline - time.monotonic()):
            cut = max(int((deadline - time.monotonic()) / self.period), 0)
            deadline -= cut * self.period
            with self._lock:
                self._periods -= cut
        self._called.clear()
        left = deadline - time.monotonic()
        if left > 0.0 and not self._stop.is_set():
            time.sleep(left)
        return deadline

    def _interrupted(self, left: float) -> bool:
        """Wait for most of a time [s]; return whether the next cycle is due before."""
        if self.pause is not None and self.stride > 1:
            return left > 0.0 and (self._called.is_set() or self.pause.wait(left))
        return left > 2.0 * WAKE_EARLY and self._called.wait(left - WAKE_EARLY)

    def _count(self, lateness: float, duration: float, missed: int) -> None:
        with self._lock:
            self._ticks += 1
            self._periods += self.stride
            self._busy += duration
            self._worst = max(self._worst, lateness)
            self._late += missed


class PeriodicCall:
    """Periodic calls of one method until :meth:`end`; it must not raise.

    The method's object is referenced weakly; the calls end with it.
    """

    def __init__(self, method: Callable[[], None], period: float) -> None:
        """Schedule the first call half a period to one and a half periods from now.

        Calls are due at multiples of their period, those of all nodes together: a wake-up of the
        process costs more than most of them.

        Args:
            method: bound method to call.
            period: period of the calls [s].
        """
        self.period = period
        self.due = _on_grid(time.monotonic() + 0.5 * period, period)
        """Time of the next call on ``time.monotonic()`` [s]."""
        self._method = weakref.WeakMethod(method)
        self._busy = threading.RLock()
        self._ended = False
        _THREAD.add(self)

    def end(self) -> None:
        """End the calls; waits for a call under way in another thread."""
        _THREAD.remove(self)
        with self._busy:
            self._ended = True

    def run(self) -> None:
        """Call the method now, unless ended."""
        with self._busy:
            method = None if self._ended else self._method()
            if method is not None:
                method()
                return
        _THREAD.remove(self)


def _on_grid(after: float, period: float) -> float:
    """Return the first multiple of a period after a time [s]."""
    return (math.floor(after / period) + 1) * period


class _CallingThread:
    """Makes calls when they are due; the thread exists while there are calls."""

    def __init__(self) -> None:
        self._calls: set[PeriodicCall] = set()
        self._changed = threading.Condition()
        self._running = False

    def add(self, call: PeriodicCall) -> None:
        with self._changed:
            self._calls.add(call)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="reports", daemon=True).start()
            self._changed.notify()

    def remove(self, call: PeriodicCall) -> None:
        with self._changed:
            self._calls.discard(call)
            self._changed.notify()

    def _run(self) -> None:
        while (call := self._next()) is not None:
            try:
                call.run()
            except Exception:
                # A failed report must not end those of other nodes.
                traceback.print_exc()

    def _next(self) -> PeriodicCall | None:
        """Wait for the next call that is due; None if there are no more."""
        with self._changed:
            while self._calls:
                call = min(self._calls, key=lambda each: each.due)
                now = time.monotonic()
                if call.due <= now:
                    # Missed calls are not repeated.
                    call.due = max(call.due + call.period, _on_grid(now, call.period))
                    return call
                self._changed.wait(call.due - now)
            self._running = False
            return None


_THREAD = _CallingThread()


Job = Callable[[], None]
T = TypeVar("T")


class ExecutorQueue:
    """Queue of jobs that a node's executor runs in order."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._jobs: deque[Job] = deque()
        self._running = False
        # In its own callback group, which no awaiting service handler blocks.
        self._waiting = node.create_guard_condition(self.run, ReentrantCallbackGroup())

    def submit(self, job: Job) -> None:
        """Submit a job; thread-safe."""
        self._jobs.append(job)
        self._waiting.trigger()

    def run(self) -> None:
        """Run pending jobs; in the executor. Exceptions are logged.

        Calls from within a job have no effect: pending jobs are run after it.
        """
        if self._running:
            return
        self._running = True
        try:
            while self._jobs:
                job = self._jobs.popleft()
                try:
                    job()
                except MemoryError:
                    raise
                except Exception:
                    self._node.get_logger().error(f"a job failed:\n{traceback.format_exc()}")
        finally:
            self._running = False

    def destroy(self) -> None:
        """Run pending jobs, and destroy the queue."""
        self.run()
        self._node.destroy_guard_condition(self._waiting)


class LoopQueue:
    """Queue of function calls with results; thread-safe."""

    def __init__(self) -> None:
        self._pending: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self.wake: Callable[[], None] | None = None
        """Called with each new job."""

    def call(self, job: Callable[[], T], timeout: float, *, keep: bool = False) -> T:
        """Call a function in the loop, and wait for its result.

        Args:
            job: the function; its exceptions are raised here.
            timeout: max time until it starts [s]; what has started is waited for.
            keep: whether it is still called after the timeout.

        Raises:
            TimeoutError: the loop did not call it in time.
        """
        future: Future[T] = Future()
        self._pending.append((job, future))
        if self.wake is not None:
            self.wake()
        try:
            return future.result(timeout)
        except TimeoutError as error:
            # A job that has started takes effect, so its caller is not refused.
            if future.done() or not (keep or future.cancel()):
                return future.result()
            raise TimeoutError(str(error) or "the node's loop did not respond in time") from None

    def __len__(self) -> int:
        """Return the number of pending jobs."""
        return len(self._pending)

    def run(self, count: int | None = None) -> None:
        """Run pending jobs; called by the loop.

        Args:
            count: max number of jobs; None for all.
        """
        left = len(self) if count is None else count
        # A deactivation runs the jobs of a blocked loop, too.
        while left > 0 and self._pending:
            left -= 1
            job, future = self._pending.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(job())
            except Exception as error:
                future.set_exception(error)
