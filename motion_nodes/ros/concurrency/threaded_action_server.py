# SPDX-License-Identifier: Apache-2.0
"""Action servers whose goals are executed outside the executor.

The executor accepts a goal and passes it on; a node's loop or a thread executes it, and reports
feedback and the result. A goal that cannot be executed is accepted and aborted, since only a result
can contain the reason.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from typing import Any

from rclpy.action import CancelResponse, GoalResponse
from rclpy.action.server import GoalEvent
from rclpy.task import Future

from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.action_clock import ActionClockNode
from motion_nodes.ros.concurrency.executor_queue import ExecutorQueue
from motion_nodes.ros.concurrency.responding_action_server import RespondingActionServer
from motion_nodes.ros.messages.failure_responses import fill_failure
from motion_nodes.ros.messages.message_bounds import fault_of
from motion_nodes.ros.node import MotionNode

RESULT_TIMEOUT = 10
"""[s] How long results are kept; rclpy's default of 15 minutes would keep every trajectory."""


class ActionOutcome(enum.Enum):
    """Final status of a goal."""

    SUCCEEDED = "succeeded"
    CANCELED = "canceled"
    """At the request of a client; aborted if there was none."""
    PREEMPTED = "preempted"
    """Canceled by the server."""
    ABORTED = "aborted"


class ActionGoal:
    """One accepted goal; thread-safe."""

    def __init__(self, server: GoalServer, handle: Any) -> None:
        self._server = server
        self._handle = handle
        self._ended = threading.Event()
        self.kind = server.kind
        """Action type."""
        self.request = handle.request
        """The goal message."""
        self.result = server.kind.Result()
        """Result message, to be filled in by the execution."""
        self.feedback_type = server.kind.Feedback
        self.action_name = server.kind.__name__
        self.label = bytes(handle.goal_id.uuid).hex()[:8]
        """Short id of the goal, for logs."""

    @property
    def ended(self) -> bool:
        """Whether the result is set."""
        return self._ended.is_set()

    def feedback(self, message: Any) -> None:
        """Publish feedback; ignored after the result, as in :meth:`publish`."""
        if not self.ended:
            self._server.jobs.submit(lambda: self._server.send_feedback(self, message))

    def publish(self, message: Any) -> None:
        """Publish feedback; in the executor."""
        if not self.ended:
            self._server.send_feedback(self, message)

    def finish(self, outcome: ActionOutcome, result: Any) -> None:
        """Send the result; only the first call has an effect."""
        if not self._ended.is_set():
            self._ended.set()
            self._server.jobs.submit(lambda: self._server.answer(self, outcome, result))


class GoalServer:
    """One action of a node."""

    def __init__(
        self,
        node: MotionNode[Any],
        jobs: ExecutorQueue,
        kind: Any,
        name: str,
        begin: Callable[[ActionGoal], None],
        cancel: Callable[[ActionGoal], bool],
    ) -> None:
        """Create the action server.

        Args:
            node: the node; goals are rejected while it is inactive.
            jobs: queue of the node's executor.
            kind: action type.
            name: action name.
            begin: starts the execution of an accepted goal; must not block.
            cancel: requests cancellation of a goal, returns whether it is accepted; must not block
                for long. The goal still needs a result.
        """
        self.jobs = jobs
        self.kind = kind
        self._node = node
        self._begin = begin
        self._cancel = cancel
        self._goals: dict[bytes, tuple[ActionGoal, Any, Future]] = {}
        self._results: dict[bytes, Future] = {}
        self._clocked_node = ActionClockNode(node)
        self._server = RespondingActionServer(
            self._clocked_node,
            kind,
            name,
            execute_callback=self._execute,
            goal_callback=self._on_goal,
            handle_accepted_callback=self._accept,
            cancel_callback=self._on_cancel,
            result_timeout=RESULT_TIMEOUT,
            goal_service_qos_profile=qos.SERVICES,
            result_service_qos_profile=qos.SERVICES,
            cancel_service_qos_profile=qos.SERVICES,
        )
        self._name = name
        self.refusal: Callable[[Any], str] = lambda _request: ""
        """Returns why a goal is rejected when it is sent; empty: it is accepted."""
        node.goal_servers.append(self)

    @property
    def goals(self) -> list[ActionGoal]:
        """Goals without a result."""
        return [goal for goal, _, _ in list(self._goals.values()) if not goal.ended]

    def destroy(self) -> None:
        """Destroy the server; all goals must have ended."""
        if self in self._node.goal_servers:
            self._node.goal_servers.remove(self)
        self._server.destroy()

    # ---- in the executor

    def abort_all(self, text: str) -> None:
        """Abort all goals without a result, regardless of their execution.

        Args:
            text: the reason.
        """
        for goal in self.goals:
            goal.finish(ActionOutcome.ABORTED, fill_failure(goal.result, text))

    def answer(self, goal: ActionGoal, outcome: ActionOutcome, result: Any) -> None:
        """Send a result."""
        entry = self._goals.pop(_key(goal._handle), None)
        if entry is None:
            return
        _, handle, future = entry
        if outcome is ActionOutcome.SUCCEEDED:
            handle.succeed()
        elif outcome is ActionOutcome.CANCELED and handle.is_cancel_requested:
            handle.canceled()
        elif outcome is ActionOutcome.PREEMPTED:
            if not handle.is_cancel_requested:
                handle._update_state(GoalEvent.CANCEL_GOAL)
            handle.canceled()
        else:
            handle.abort()
        future.set_result(result)

    def send_feedback(self, goal: ActionGoal, message: Any) -> None:
        """Publish feedback."""
        if _key(goal._handle) in self._goals and goal._handle.is_active:
            goal._handle.publish_feedback(message)

    def _on_goal(self, request: Any) -> GoalResponse:
        refusal = self.refusal(request)
        if refusal:
            self._node.warn(f"refused {self._name}", f"goal of {self._name} rejected: {refusal}")
            return GoalResponse.REJECT
        if self._node.active:
            # rclpy stamps the accepted goal with this clock.
            self._clocked_node.set_clock()
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
        entry = self._goals.get(_key(handle))
        # The result is queued, so rclpy marks the goal as canceling first.
        if entry is None or entry[0].ended or not self._cancel(entry[0]):
            return CancelResponse.REJECT
        return CancelResponse.ACCEPT

    async def _execute(self, handle: Any) -> Any:
        return await self._results.pop(_key(handle))


def _key(handle: Any) -> bytes:
    return bytes(handle.goal_id.uuid)
