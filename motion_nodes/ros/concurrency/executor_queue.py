# SPDX-License-Identifier: Apache-2.0
"""Jobs that other threads submit to the executor's thread.

rclpy's action clients and servers are not thread-safe, so other threads access them through the
executor only.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node

Job = Callable[[], None]


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
