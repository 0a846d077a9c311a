# SPDX-License-Identifier: Apache-2.0
"""Calls now and then, such as reports, in one thread for all nodes of a process.

A Python executor looks through all services of all its nodes each time that it wakes, some
milliseconds of work: what only has to happen regularly need not wake it.
"""

from __future__ import annotations

import threading
import time
import traceback
import weakref
from collections.abc import Callable


class RegularCall:
    """One method that is called regularly until :meth:`end`; it must not raise.

    Its object is not kept alive by this; the calls end with it.
    """

    def __init__(self, method: Callable[[], None], period: float) -> None:
        """Begin one ``period`` [s] from now."""
        self.period = period
        self.due = time.monotonic() + period
        """When it is called next, by ``time.monotonic()`` [s]."""
        self._method = weakref.WeakMethod(method)
        self._busy = threading.RLock()
        self._ended = False
        _THREAD.add(self)

    def end(self) -> None:
        """Call it no more; a call under way in another thread has ended when this returns."""
        _THREAD.remove(self)
        with self._busy:
            self._ended = True

    def run(self) -> None:
        """Call it now, unless it has ended."""
        with self._busy:
            method = None if self._ended else self._method()
            if method is not None:
                method()
                return
        _THREAD.remove(self)


class _CallingThread:
    """Makes calls when they are due; there is a thread while there are calls."""

    def __init__(self) -> None:
        self._calls: set[RegularCall] = set()
        self._changed = threading.Condition()
        self._running = False

    def add(self, call: RegularCall) -> None:
        with self._changed:
            self._calls.add(call)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="reports", daemon=True).start()
            self._changed.notify()

    def remove(self, call: RegularCall) -> None:
        with self._changed:
            self._calls.discard(call)
            self._changed.notify()

    def _run(self) -> None:
        while (call := self._next()) is not None:
            try:
                call.run()
            except Exception:
                # One report that fails must not end those of all nodes of the process.
                traceback.print_exc()

    def _next(self) -> RegularCall | None:
        """Wait for the next that is due; None when there are no more."""
        with self._changed:
            while self._calls:
                call = min(self._calls, key=lambda each: each.due)
                now = time.monotonic()
                if call.due <= now:
                    # One that came late is not made up for.
                    call.due = max(call.due + call.period, now)
                    return call
                self._changed.wait(call.due - now)
            self._running = False
            return None


_THREAD = _CallingThread()
