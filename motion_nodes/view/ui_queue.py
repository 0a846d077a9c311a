# SPDX-License-Identifier: Apache-2.0
"""One thread that hands what people do on the page to the program, in order, newest value wins.

viser runs callbacks in a pool of threads, where a later slider value may overtake an earlier one.
Here everything goes through one queue in which a newer value replaces an older one of the same
key, so that a slow receiver gets the present wish and not the history of wishes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from typing import TypeVar

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

REPEAT_PERIOD = 1.0 / 15.0
"""How often a drive that is under way is repeated [s]."""


class Intents:
    """Calls queued functions on its own thread.

    Args:
        repeat: called every ``REPEAT_PERIOD`` while it returns True, on the same thread.
    """

    def __init__(self, repeat: Callable[[], bool]) -> None:
        """Start the thread."""
        self._repeat = repeat
        self._condition = threading.Condition()
        self._queue: dict[Hashable, Callable[[], None]] = {}
        self._repeating = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="viewer-intents", daemon=True)
        self._thread.start()

    def put(self, key: Hashable, call: Callable[[], None]) -> None:
        """Queue a call; one of the same key that has not been made yet is dropped."""
        with self._condition:
            self._queue.pop(key, None)
            self._queue[key] = call
            self._condition.notify()

    def start_repeating(self) -> None:
        """Have ``repeat`` called now and then on, until it returns False."""
        with self._condition:
            self._repeating = True
            self._condition.notify()

    def close(self, timeout: float = 2.0) -> None:
        """Make the calls still queued, then end the thread; a stuck call is left behind."""
        with self._condition:
            self._closed = True
            self._condition.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _run(self) -> None:
        """Work until closed and empty."""
        due = 0.0
        while True:
            with self._condition:
                while not (self._queue or self._closed or self._repeating):
                    self._condition.wait()
                if self._repeating and not self._queue and not self._closed:
                    self._condition.wait(max(0.0, due - time.monotonic()))
                calls, self._queue = list(self._queue.values()), {}
                repeating, closed = self._repeating, self._closed
            for call in calls:
                _guarded(call)
            if repeating and time.monotonic() >= due:
                due = time.monotonic() + REPEAT_PERIOD
                self._go_on_repeating()
            if closed and not self._queue:
                return

    def _go_on_repeating(self) -> None:
        """Call ``repeat``; stop when it has nothing more to do."""
        with self._condition:
            # Before the call: a start that comes during it must not be lost.
            self._repeating = False
        more = _guarded(self._repeat)
        if more:
            with self._condition:
                self._repeating = True


def _guarded(call: Callable[[], _T]) -> _T | None:
    """Make a call whose failure must not end the thread."""
    try:
        return call()
    except Exception:
        _log.exception("A viewer callback failed; the viewer goes on.")
        return None
