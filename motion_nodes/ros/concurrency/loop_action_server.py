# SPDX-License-Identifier: Apache-2.0
"""Action servers whose goals are executed by a node's loop.

A goal starts between two cycles. When it has ended, the loop wakes the executor, which sends the
result; until then the executor publishes feedback. The node polls its servers after each cycle,
whatever the cycle did, and a goal that has ended before its server knows it is sent its result at
once: each goal gets exactly one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from rclpy.clock import Clock, ClockType

from motion_nodes.ros.concurrency.executor_queue import ExecutorQueue
from motion_nodes.ros.concurrency.threaded_action_server import (
    ActionGoal,
    ActionOutcome,
    GoalServer,
)
from motion_nodes.ros.messages.failure_responses import fill_failure
from motion_nodes.ros.node import MotionNode


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
