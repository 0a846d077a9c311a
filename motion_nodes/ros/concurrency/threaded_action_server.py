# SPDX-License-Identifier: Apache-2.0
"""Action servers whose goals are worked on by other threads than the executor's.

The executor accepts a goal, hands it over and is free; whoever works on it, a node's loop or a
thread, reports feedback and, in the end, the result. A goal that cannot be carried out is accepted
and aborted, for only a result can say why.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from typing import Any

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.task import Future

from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.action_clock import GoalNode
from motion_nodes.ros.concurrency.executor_queue import ExecutorJobs
from motion_nodes.ros.messages.failure_responses import fill_failure
from motion_nodes.ros.messages.message_bounds import fault_of
from motion_nodes.ros.node import MotionNode

RESULT_TIMEOUT = 10
"""[s] How long a result waits for its client; rclpy's 15 minutes would keep every trajectory."""


class ActionOutcome(enum.Enum):
    """How a goal ended, as its client sees it."""

    SUCCEEDED = "succeeded"
    CANCELED = "canceled"
    ABORTED = "aborted"


class ActionGoal:
    """One accepted goal; may be used from any thread."""

    def __init__(self, server: GoalServer, handle: Any) -> None:
        self._server = server
        self._handle = handle
        self._ended = threading.Event()
        self.request = handle.request
        """What the client wants."""
        self.result = server.kind.Result()
        """To be filled in by whoever works on the goal."""
        self.feedback_type = server.kind.Feedback
        self.action_name = server.kind.__name__
        self.label = bytes(handle.goal_id.uuid).hex()[:8]
        """Short name of the goal, for logs."""

    @property
    def ended(self) -> bool:
        """Whether it has its result."""
        return self._ended.is_set()

    def feedback(self, message: Any) -> None:
        """Tell the client how it goes; nothing is said after the end."""
        if not self.ended:
            self._server.jobs.ask(lambda: self._server.send_feedback(self, message))

    def finish(self, outcome: ActionOutcome, result: Any) -> None:
        """Give the result; only the first one counts."""
        if not self._ended.is_set():
            self._ended.set()
            self._server.jobs.ask(lambda: self._server.answer(self, outcome, result))


class GoalServer:
    """One action of a node."""

    def __init__(
        self,
        node: MotionNode[Any],
        jobs: ExecutorJobs,
        kind: Any,
        name: str,
        begin: Callable[[ActionGoal], None],
        cancel: Callable[[ActionGoal], bool],
    ) -> None:
        """Offer an action.

        Args:
            node: that offers it; goals are rejected while it is not active.
            jobs: of the node.
            kind: type of the action.
            name: of the action.
            begin: takes over an accepted goal; must not wait.
            cancel: called once a goal is to end before its time, returns whether it will; must not
                wait long. The goal still needs its result.
        """
        self.jobs = jobs
        self.kind = kind
        self._node = node
        self._begin = begin
        self._cancel = cancel
        self._goals: dict[bytes, tuple[ActionGoal, Any, Future]] = {}
        self._results: dict[bytes, Future] = {}
        self._seen_by_server = GoalNode(node)
        self._server = ActionServer(
            self._seen_by_server,
            kind,
            name,
            execute_callback=self._execute,
            goal_callback=self._judge,
            handle_accepted_callback=self._accept,
            cancel_callback=self._on_cancel,
            result_timeout=RESULT_TIMEOUT,
            goal_service_qos_profile=qos.ACTION_REQUESTS,
            result_service_qos_profile=qos.ACTION_REQUESTS,
            cancel_service_qos_profile=qos.ACTION_REQUESTS,
        )
        self._name = name
        node.goal_servers.append(self)

    @property
    def goals(self) -> list[ActionGoal]:
        """Goals without a result."""
        return [goal for goal, _, _ in list(self._goals.values()) if not goal.ended]

    def destroy(self) -> None:
        """Take the server down; whoever works on goals has finished them before."""
        if self in self._node.goal_servers:
            self._node.goal_servers.remove(self)
        self._server.destroy()

    # ---- in the executor

    def abort_all(self, text: str) -> None:
        """Abort the goals that have no result yet; whoever works on them is not asked."""
        for goal in self.goals:
            goal.finish(ActionOutcome.ABORTED, fill_failure(goal.result, text))

    def answer(self, goal: ActionGoal, outcome: ActionOutcome, result: Any) -> None:
        """Send a result."""
        found = self._goals.pop(_key(goal._handle), None)
        if found is None:
            return
        _, handle, future = found
        if outcome is ActionOutcome.SUCCEEDED:
            handle.succeed()
        elif outcome is ActionOutcome.CANCELED and handle.is_cancel_requested:
            handle.canceled()
        else:
            handle.abort()
        future.set_result(result)

    def send_feedback(self, goal: ActionGoal, message: Any) -> None:
        """Send feedback."""
        if _key(goal._handle) in self._goals and goal._handle.is_active:
            goal._handle.publish_feedback(message)

    def _judge(self, _request: Any) -> GoalResponse:
        if self._node.active:
            # By which the goal is stamped now.
            self._seen_by_server.set_clock()
            return GoalResponse.ACCEPT
        self._node.warn("inactive", f"goal of {self._name} rejected: the node is not active")
        return GoalResponse.REJECT

    def _accept(self, handle: Any) -> None:
        goal, future = ActionGoal(self, handle), Future()
        self._goals[_key(handle)] = (goal, handle, future)
        self._results[_key(handle)] = future
        handle.execute()
        fault = fault_of(goal.request)
        if fault:
            self._node.warn(f"refused {self._name}", f"goal of {self._name} refused: {fault}")
            goal.finish(ActionOutcome.ABORTED, fill_failure(goal.result, fault, rejected=True))
            return
        try:
            self._begin(goal)
        except MemoryError:
            raise
        except Exception as error:
            self._node.fault_in(f"action {self._name}", error)
            text = f"fault of the node: {error!r}"
            goal.finish(ActionOutcome.ABORTED, fill_failure(self.kind.Result(), text))

    def _on_cancel(self, handle: Any) -> CancelResponse:
        found = self._goals.get(_key(handle))
        # What the end leads to waits until rclpy has marked the goal as being cancelled.
        if found is None or found[0].ended or not self._cancel(found[0]):
            return CancelResponse.REJECT
        return CancelResponse.ACCEPT

    async def _execute(self, handle: Any) -> Any:
        return await self._results.pop(_key(handle))


def _key(handle: Any) -> bytes:
    return bytes(handle.goal_id.uuid)
