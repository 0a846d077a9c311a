# SPDX-License-Identifier: Apache-2.0
"""Action servers whose goals are executed outside the executor: by threads, or by a node's loop.

Action servers whose goals are executed outside the executor. The executor accepts a goal and passes
it on; a node's loop or a thread executes it, and reports feedback and the result. A goal that
cannot be executed is accepted and aborted, since only a result can contain the reason.

Clock of a node's action servers, which is set only when a goal arrives. An action server has a
timer on its node's clock, which expires old results. In simulated time each ``/clock`` message of
the node therefore wakes the executor, several hundred times per second in a process of many nodes,
and each time it polls everything it serves. Goals only need the right stamp when they are accepted.

Action servers whose goals are executed by a node's loop. A goal starts between two cycles. When it
has ended, the loop wakes the executor, which sends the result; until then the executor publishes
feedback. The node polls its servers after each cycle, whatever the cycle did, and a goal that has
ended before its server knows it is sent its result at once: each goal gets exactly one.
"""

from __future__ import annotations

import enum
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from rclpy.action import CancelResponse, GoalResponse
from rclpy.clock import Clock, ClockType
from rclpy.task import Future
from rclpy.time import Time

from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.queues import ExecutorQueue
from motion_nodes.ros.concurrency.rclpy_internals import (
    RespondingActionServer,
    begin_cancel,
    set_simulated,
)
from motion_nodes.ros.messages.message_bounds import fault_of, fill_failure
from motion_nodes.ros.node import MotionNode

RESULT_TIMEOUT = 30
"""[s] How long results are kept; rclpy's default of 15 minutes would keep every trajectory."""

MOST_GOALS = 256
"""Max number of goals of one action that have no result yet; further ones are aborted."""


class ActionClockNode:
    """Proxy of a node with another clock, for its action server."""

    def __init__(self, node: MotionNode[Any]) -> None:
        """Create the proxy; the clock is set to the node's time."""
        self._node = node
        self._clock: Any = Clock(clock_type=ClockType.ROS_TIME)
        self.set_clock()

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the node."""
        return getattr(self._node, name)

    def get_clock(self) -> Any:
        """Return the clock of the server."""
        return self._clock

    def set_clock(self) -> None:
        """Set the clock to the node's time, which may expire old results."""
        simulated = self._node.get_clock().ros_time_is_active
        set_simulated(self._clock, simulated)
        if simulated:
            now = Time(nanoseconds=self._node.now_ns(), clock_type=ClockType.ROS_TIME)
            self._clock.set_ros_time_override(now)


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
        self.handle = handle
        """Of rclpy."""
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
        self.fill_state: Callable[[Any], None] = lambda _result: None
        """Fills in what is measured in the result of a goal that is not executed."""
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
            self._abort(goal, text)

    def answer(self, goal: ActionGoal, outcome: ActionOutcome, result: Any) -> None:
        """Send a result."""
        entry = self._goals.pop(_key(goal.handle), None)
        if entry is None:
            return
        _, handle, future = entry
        if outcome is ActionOutcome.SUCCEEDED:
            handle.succeed()
        elif outcome is ActionOutcome.CANCELED and handle.is_cancel_requested:
            handle.canceled()
        elif outcome is ActionOutcome.PREEMPTED:
            if not handle.is_cancel_requested:
                begin_cancel(handle)
            handle.canceled()
        else:
            handle.abort()
        future.set_result(result)

    def send_feedback(self, goal: ActionGoal, message: Any) -> None:
        """Publish feedback."""
        if _key(goal.handle) in self._goals and goal.handle.is_active:
            goal.handle.publish_feedback(message)

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
        if len(self._goals) > MOST_GOALS:
            fault = f"{MOST_GOALS} goals have no result yet; send it again later"
        if fault:
            self._node.warn(f"refused {self._name}", f"goal of {self._name} refused: {fault}")
            self._abort(goal, fault, rejected=True)
            return
        try:
            self._begin(goal)
        except MemoryError:
            raise
        except Exception as error:
            self._node.fault_in(f"action {self._name}", error)
            goal.result = self.kind.Result()
            self._abort(goal, f"fault of the node: {error!r}")

    def _abort(self, goal: ActionGoal, text: str, *, rejected: bool = False) -> None:
        """Abort a goal that is not executed."""
        self.fill_state(goal.result)
        goal.finish(ActionOutcome.ABORTED, fill_failure(goal.result, text, rejected=rejected))

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


class LoopGoal(Protocol):
    """Execution of one goal by the loop."""

    @property
    def goal(self) -> ActionGoal:
        """The goal."""

    @property
    def ended(self) -> bool:
        """Whether the execution has ended."""


W = TypeVar("W", bound=LoopGoal)


class LoopActionServer(ABC, Generic[W]):
    """Servers of one or more actions with the same kind of execution."""

    def __init__(
        self,
        node: MotionNode[Any],
        actions: Iterable[tuple[Any, str]],
        feedback_rate: float | None = None,
    ) -> None:
        """Create the action servers.

        Args:
            node: the node.
            actions: type and name of each action.
            feedback_rate: rate of feedback [Hz]; None for no feedback.
        """
        self._node = node
        self._works: list[W] = []
        self._finishing = False
        """Whether a job that sends results is pending in the executor."""
        self._jobs = ExecutorQueue(node)
        self._timer = None
        if feedback_rate is not None:
            # In wall time: in simulated time each /clock message would wake the executor.
            steady = Clock(clock_type=ClockType.STEADY_TIME)
            self._timer = node.create_timer(1.0 / feedback_rate, self._send_feedback, clock=steady)
            self._timer.cancel()
        self._servers = [
            GoalServer(node, self._jobs, kind, name, begin=self._begin, cancel=self._cancel)
            for kind, name in actions
        ]
        node.loop_servers.append(self)

    def refuse_by(self, refusal: Callable[[Any], str]) -> None:
        """Reject goals for which a function of the request returns a reason."""
        for server in self._servers:
            server.refusal = refusal

    def fill_state_by(self, fill_state: Callable[[Any], None]) -> None:
        """Fill in what is measured in results of goals that are not executed."""
        for server in self._servers:
            server.fill_state = fill_state

    # ---- overridden by servers

    @abstractmethod
    def start(self, goal: ActionGoal) -> W | None:
        """Start the execution of a goal; None if it was rejected with a result."""

    @abstractmethod
    def stop(self, work: W) -> None:
        """Cancel an execution; called in the loop."""

    @abstractmethod
    def answer(self, work: W) -> None:
        """Send the result of a goal: its execution has ended, or the servers are destroyed."""

    def feedback(self, work: W) -> Any:
        """Return a feedback message of an execution; None for none."""

    def is_over(self, work: W) -> bool:
        """Return whether an ended execution is to be answered; False if it goes on."""
        return work.ended

    # ---- called by the node

    def poll(self) -> None:
        """Wake the executor if an execution has ended; called after each cycle of the loop."""
        if self._works and not self._finishing and any(work.ended for work in self._works):
            self._finishing = True
            self._jobs.submit(self.finish)

    def finish(self) -> None:
        """Send the results of executions that have ended; in the executor."""
        self._finishing = False
        for work in list(self._works):
            if self.is_over(work):
                self._end(work)
        self._jobs.run()

    def destroy(self) -> None:
        """Send the results of all goals, and destroy the servers."""
        if self in self._node.loop_servers:
            self._node.loop_servers.remove(self)
        for work in list(self._works):
            self._end(work)
        self._jobs.destroy()
        for server in self._servers:
            server.destroy()
        if self._timer is not None:
            self._node.destroy_timer(self._timer)

    # ---- in the executor

    def _begin(self, goal: ActionGoal) -> None:
        work = self.start(goal)
        if work is None:
            return
        self._works.append(work)
        if self._timer is not None:
            self._timer.reset()
        # The loop may have ended it before it was in the list, and will not end it again.
        self.poll()

    def _cancel(self, goal: ActionGoal) -> bool:
        work = next((work for work in self._works if work.goal is goal), None)
        if work is None:
            return False
        try:
            self._node.in_loop(lambda: self.stop(work))
        except TimeoutError:
            return False
        except Exception as error:
            self._node.fault_in("canceling a goal", error)
            return False
        self._jobs.submit(self.finish)
        return True

    def _end(self, work: W) -> None:
        self._works.remove(work)
        try:
            self.answer(work)
        except Exception as error:
            self._node.fault_in("answering a goal", error)
            text = f"fault of the node: {error!r}"
            work.goal.finish(ActionOutcome.ABORTED, fill_failure(work.goal.result, text))
        if self._timer is not None and not self._works:
            self._timer.cancel()

    def _send_feedback(self) -> None:
        for work in self._works:
            try:
                message = None if work.ended else self.feedback(work)
            except Exception as error:
                self._node.fault_in("feedback of a goal", error)
                continue
            if message is not None:
                work.goal.publish(message)
