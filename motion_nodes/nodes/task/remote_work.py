# SPDX-License-Identifier: Apache-2.0
"""Goals and requests to other nodes as generators: they yield while they wait.

Skills are generators, too; the loop of the node advances them in each cycle, without blocking and
without threads. rclpy's clients are accessed in the executor only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.node import Node

from motion_nodes.extras.tasks.task_codes import SkillFailed, TaskCode
from motion_nodes.ros import qos
from motion_nodes.ros.clients.client_node import action_client
from motion_nodes.ros.concurrency.loops import ExecutorQueue

Work = Generator[None, None, Any]
"""Yields while it waits; its return value is the result."""
Phase = Callable[[str], None]
"""Receives the name of the phase that a skill begins."""

RESPONSE_TIMEOUT = 5.0
"""Max time until a server is available and has responded [s]."""

CHECK_PERIOD = 0.2
"""Period of the check whether a server still exists, which takes half a millisecond [s]."""


class RemoteAction:
    """Client of one action, for one goal at a time."""

    def __init__(
        self,
        node: Node,
        jobs: ExecutorQueue,
        kind: Any,
        name: str,
        *,
        timeout: float = RESPONSE_TIMEOUT,
    ) -> None:
        """Create the client.

        Args:
            node: the node.
            jobs: queue of its executor.
            kind: type of the action.
            name: name of the action.
            timeout: max time until a server is available and has responded [s].
        """
        self._jobs, self.name, self._timeout = jobs, name, timeout
        self._client = action_client(node, kind, name)
        self._handle: Any = None
        self._desired: list[Any] | None = None
        """Replies to the newest goal; None once it is canceled. In the executor."""

    def execute(self, goal: Any) -> Work:
        """Send a goal and wait for its result.

        Returns:
            Status of the goal, and result.

        Raises:
            SkillFailed: there is no server, it rejects the goal, or it ends before the goal.
        """
        replies: list[Any] = []
        yield from _until(
            self._client.server_is_ready,
            f"there is no action {self.name}; is its node active?",
            self._timeout,
        )
        self._jobs.submit(lambda: self._send(goal, replies))
        try:
            yield from _until(lambda: bool(replies), f"no response of {self.name}", self._timeout)
        except SkillFailed:
            self.cancel()
            raise
        if replies[0] is None:
            raise SkillFailed(f"{self.name} rejected the goal", TaskCode.MOTION_FAILED)
        ready_at = checked_at = time.monotonic()
        while len(replies) < 2:
            now = time.monotonic()
            if now > checked_at + CHECK_PERIOD:
                checked_at = now
                if self._client.server_is_ready():
                    ready_at = now
                elif now > ready_at + self._timeout:
                    raise SkillFailed(f"{self.name} has ended", TaskCode.NODE_MISSING)
            yield
        self._handle = None
        return replies[1].status, replies[1].result

    def cancel(self) -> None:
        """Cancel the active goal, if any, or the one that is not accepted yet."""
        self._jobs.submit(self._cancel)

    def destroy(self) -> None:
        """Destroy the client."""
        self._client.destroy()

    def _send(self, goal: Any, replies: list[Any]) -> None:
        def accepted(done: Any) -> None:
            handle = done.result()
            if handle is None or not handle.accepted:
                replies.append(None)
                return
            if self._desired is not replies:
                handle.cancel_goal_async()
                return
            self._handle = handle
            handle.get_result_async().add_done_callback(
                lambda result: replies.append(result.result())
            )
            replies.append(handle)

        self._desired = replies
        self._client.send_goal_async(goal).add_done_callback(accepted)

    def _cancel(self) -> None:
        handle, self._handle, self._desired = self._handle, None, None
        if handle is not None:
            handle.cancel_goal_async()


class RemoteService:
    """Client of one service."""

    def __init__(self, node: Node, jobs: ExecutorQueue, kind: Any, name: str) -> None:
        """Create the client; arguments as for :class:`RemoteAction`."""
        self._jobs, self.name = jobs, name
        self._client = node.create_client(kind, name, qos_profile=qos.SERVICES)

    def call(self, request: Any, timeout: float = RESPONSE_TIMEOUT) -> Work:
        """Send a request and return its response.

        Raises:
            SkillFailed: no response within the timeout [s].
        """
        replies: list[Any] = []
        yield from _until(self._client.service_is_ready, f"there is no service {self.name}")
        self._jobs.submit(
            lambda: self._client.call_async(request).add_done_callback(
                lambda done: replies.append(done.result())
            )
        )
        yield from _until(lambda: bool(replies), f"no response of {self.name}", timeout)
        return replies[0]

    def send(self, request: Any) -> None:
        """Send a request whose response is not needed."""
        self._jobs.submit(lambda: self._client.call_async(request))


def beside(compute: Callable[[], Any]) -> Work:
    """Execute a function in a thread; return its result or raise its error."""
    done: Future[Any] = Future()

    def work() -> None:
        try:
            done.set_result(compute())
        except Exception as error:
            done.set_exception(error)

    threading.Thread(target=work, name="task-work", daemon=True).start()
    while not done.done():
        yield
    return done.result()


def _until(condition: Any, reason: str, timeout: float = RESPONSE_TIMEOUT) -> Work:
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise SkillFailed(reason, TaskCode.NODE_MISSING)
        yield


def require_success(outcome: tuple[int, Any], what: str) -> None:
    """Raise if a goal of MoveGroup or ExecuteTrajectory did not succeed.

    Raises:
        SkillFailed: with the reason that the server gave.
    """
    status, result = outcome
    code = getattr(result, "error_code", None)
    text = getattr(code, "message", "") or getattr(result, "error_msg", "")
    if status != GoalStatus.STATUS_SUCCEEDED:
        raise SkillFailed(f"{what}: {text or f'status {status}'}", TaskCode.MOTION_FAILED)
