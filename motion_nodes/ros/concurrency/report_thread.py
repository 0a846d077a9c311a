# SPDX-License-Identifier: Apache-2.0
"""Periodic calls, such as reports, in one thread for all nodes of a process.

A Python executor polls all services of all its nodes each time it wakes, which takes some
milliseconds; periodic calls in a separate thread do not wake it.
"""

from __future__ import annotations

import threading
import time
import traceback
import weakref
from collections.abc import Callable


class PeriodicCall:
    """Periodic calls of one method until :meth:`end`; it must not raise.

    The method's object is referenced weakly; the calls end with it.
    """

    def __init__(self, method: Callable[[], None], period: float) -> None:
        """Schedule the first call one period from now.

        Args:
            method: bound method to call.
            period: period of the calls [s].
        """
        self.period = period
        self.due = time.monotonic() + period
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
                    call.due = max(call.due + call.period, now)
                    return call
                self._changed.wait(call.due - now)
            self._running = False
            return None


_THREAD = _CallingThread()
