# SPDX-License-Identifier: Apache-2.0
"""Work that other threads hand to the executor's thread.

rclpy's action clients and servers keep their requests in dictionaries without locks, so whoever
works beside the executor has them touched only by it.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node

Job = Callable[[], None]


class ExecutorJobs:
    """A queue of jobs that a node's executor runs, in their order."""

    def __init__(self, node: Node) -> None:
        """Run jobs in the executor that spins ``node``."""
        self._node = node
        self._jobs: deque[Job] = deque()
        self._running = False
        # In a group of its own, so that a service handler that awaits something does not hold it.
        self._waiting = node.create_guard_condition(self.run, ReentrantCallbackGroup())

    def ask(self, job: Job) -> None:
        """Have a job run soon; any thread may call this."""
        self._jobs.append(job)
        self._waiting.trigger()

    def run(self) -> None:
        """Run what waits; in the executor. A job that raises is logged.

        Within a job this does nothing: what waits is run after that job, however many there are.
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
        """Run what waits, and take no more."""
        self.run()
        self._node.destroy_guard_condition(self._waiting)
