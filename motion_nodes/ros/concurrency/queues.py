# SPDX-License-Identifier: Apache-2.0
"""Jobs that other threads submit to the executor's thread, or to a loop.

Jobs that other threads submit to a loop, which runs them between two cycles.

Jobs that other threads submit to the executor's thread. rclpy's action clients and servers are not
thread-safe, so other threads access them through the executor only.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node

Job = Callable[[], None]
T = TypeVar("T")


class ExecutorQueue:
    """Queue of jobs that a node's executor runs in order."""

    def __init__(self, node: Node) -> None:
        """Create the queue of the executor that spins ``node``."""
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
        """Create an empty queue."""
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
