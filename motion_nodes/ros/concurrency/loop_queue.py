# SPDX-License-Identifier: Apache-2.0
"""Jobs that one thread wants done between two ticks of another thread's loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopJobs:
    """A queue of calls with results; safe between threads."""

    def __init__(self) -> None:
        """Begin empty."""
        self._waiting: deque[tuple[Callable[[], Any], Future[Any]]] = deque()

    def ask(self, job: Callable[[], T], timeout: float) -> T:
        """Have ``job`` done by the loop and return its result, or raise what it raised.

        Raises:
            TimeoutError: the loop did not come to it in ``timeout`` [s]; it will not be done later.
        """
        future: Future[T] = Future()
        self._waiting.append((job, future))
        try:
            return future.result(timeout)
        except TimeoutError as error:
            raise TimeoutError(str(error) or "the node's loop did not respond in time") from None
        finally:
            future.cancel()

    def run(self) -> None:
        """Do what waits; called by the loop."""
        while self._waiting:
            job, future = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(job())
            except Exception as error:
                future.set_exception(error)
