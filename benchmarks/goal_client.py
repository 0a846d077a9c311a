# SPDX-License-Identifier: Apache-2.0
"""An action client of the articulation controller, written as any client is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from control_msgs.action import FollowJointTrajectory
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

LIMIT = 30.0
"""[s] Longest wait for an answer."""
ACTION = "joint_trajectory_controller/follow_joint_trajectory"


class Goal:
    """A goal on its way; moments are of ``time.monotonic_ns``."""

    def __init__(self, future: Any) -> None:
        """Note when it was sent: now."""
        self.sent = time.monotonic_ns()
        self.answered = self.ended = 0
        self.handle: Any = None
        self.result: Any = None
        future.add_done_callback(self._on_answer)

    @property
    def code(self) -> int:
        """Error code of the result."""
        return int(self.result.result.error_code)

    @property
    def text(self) -> str:
        """Error string of the result."""
        return str(self.result.result.error_string)

    def _on_answer(self, future: Any) -> None:
        self.answered = time.monotonic_ns()
        self.handle = future.result()
        if self.handle.accepted:
            self.handle.get_result_async().add_done_callback(self._on_result)
        else:
            self.ended = self.answered

    def _on_result(self, future: Any) -> None:
        self.ended = time.monotonic_ns()
        self.result = future.result()


class GoalClient:
    """Sends goals; answers arrive while it waits."""

    def __init__(self, node: Node, action: str = ACTION, kind: Any = FollowJointTrajectory) -> None:
        """Create the client on a node that it spins."""
        self.node = node
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(node)
        self._kind = kind
        self._clients: dict[str, tuple[Any, Any]] = {}
        self._default = action
        self.add(action, kind)

    def add(self, action: str, kind: Any) -> None:
        """Serve another action as well."""
        self._clients[action] = kind, ActionClient(self.node, kind, action)

    def close(self) -> None:
        """Take the clients down."""
        for _, client in self._clients.values():
            client.destroy()
        self._executor.shutdown()

    def wait_for_servers(self) -> None:
        """Wait until all servers are there."""
        for _, client in self._clients.values():
            self.wait(client.server_is_ready, "action server")

    def wait(self, condition: Callable[[], Any], what: str, within: float = LIMIT) -> None:
        """Hear answers until a condition is true.

        Raises:
            TimeoutError: it did not become true within so many seconds.
        """
        end = time.monotonic() + within
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"not within {within:g} s: {what}")
            self._executor.spin_once(timeout_sec=0.05)

    def spin(self, seconds: float) -> None:
        """Hear answers for a while."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.0:
            self._executor.spin_once(timeout_sec=left)

    def send(self, trajectory: Any, stamp_ns: int = 0) -> Goal:
        """Send a trajectory as a goal; a stamp [ns] says when it begins, 0 means now."""
        trajectory.header.stamp.sec, trajectory.header.stamp.nanosec = divmod(
            stamp_ns, 1_000_000_000
        )
        return self.send_goal(self._kind.Goal(trajectory=trajectory))

    def send_goal(self, goal: Any, action: str = "") -> Goal:
        """Send any goal."""
        _, client = self._clients[action or self._default]
        return Goal(client.send_goal_async(goal))

    def finish(self, goal: Goal, within: float = LIMIT) -> Goal:
        """Wait for a goal's result, or its rejection."""
        self.wait(lambda: goal.ended, "a goal's result", within)
        return goal
