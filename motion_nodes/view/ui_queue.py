# SPDX-License-Identifier: Apache-2.0
"""A queue with one thread that calls the viewer's callbacks in order, newest value only.

viser runs callbacks in a thread pool, where a later slider value may overtake an earlier one. Here
all calls go through one queue in which a newer value replaces a pending one with the same key, so a
slow callback gets the current command and not a backlog.
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
"""Period at which an active twist command is repeated [s]."""


class CallbackQueue:
    """Calls queued functions on its own thread.

    Args:
        repeat: called on the same thread every ``REPEAT_PERIOD`` while it returns True.
    """

    def __init__(self, repeat: Callable[[], bool]) -> None:
        """Start the thread."""
        self._repeat = repeat
        self._condition = threading.Condition()
        self._queue: dict[Hashable, Callable[[], None]] = {}
        self._repeating = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="viewer-callbacks", daemon=True)
        self._thread.start()

    def put(self, key: Hashable, call: Callable[[], None]) -> None:
        """Queue a call; replaces a pending call with the same key.

        Args:
            key: identifies calls that supersede each other, such as those of one slider.
            call: function to call.
        """
        with self._condition:
            self._queue.pop(key, None)
            self._queue[key] = call
            self._condition.notify()

    def start_repeating(self) -> None:
        """Call ``repeat`` periodically from now on, until it returns False."""
        with self._condition:
            self._repeating = True
            self._condition.notify()

    def close(self, timeout: float = 2.0) -> None:
        """Execute pending calls, then end the thread.

        Args:
            timeout: max time to wait for it [s]; a call that blocks longer is abandoned.
        """
        with self._condition:
            self._closed = True
            self._condition.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _run(self) -> None:
        """Execute calls until closed and empty."""
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
                self._repeat_once()
            if closed and not self._queue:
                return

    def _repeat_once(self) -> None:
        """Call ``repeat``; stop repeating when it returns False."""
        with self._condition:
            # Before the call, so that a concurrent start_repeating() is not lost.
            self._repeating = False
        more = _guarded(self._repeat)
        if more:
            with self._condition:
                self._repeating = True


def _guarded(call: Callable[[], _T]) -> _T | None:
    """Call a function; log its exceptions."""
    try:
        return call()
    except Exception:
        _log.exception("A viewer callback failed; the viewer continues.")
        return None
