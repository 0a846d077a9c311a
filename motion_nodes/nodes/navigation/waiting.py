# SPDX-License-Identifier: Apache-2.0
"""Nav2's action ``wait``, and its actions that the navigator does not execute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nav2_msgs.action import DockRobot, FollowGPSWaypoints, UndockRobot, Wait

from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.concurrency.servers import (
    ActionGoal,
    ActionOutcome,
    GoalServer,
    LoopActionServer,
)
from motion_nodes.ros.messages.trajectory_messages import fill_seconds, seconds

if TYPE_CHECKING:
    from motion_nodes.nodes.base_navigator import BaseNavigatorNode

ABSENT = (
    (DockRobot, "dock_robot"),
    (UndockRobot, "undock_robot"),
    (FollowGPSWaypoints, "follow_gps_waypoints"),
)
"""Actions of Nav2 whose goals are rejected."""


@dataclass
class _Wait:
    """A goal and its time."""

    host: BaseNavigatorNode
    goal: ActionGoal
    begin: float
    time: float
    """To wait [s]."""
    stopped: ActionOutcome | None = None

    @property
    def elapsed(self) -> float:
        """Time since its start [s]."""
        return self.host.now() - self.begin

    @property
    def ended(self) -> bool:
        return self.stopped is not None or self.elapsed >= self.time


class WaitServer(LoopActionServer[_Wait]):
    """Serves ``wait``: it ends after a time; motions of the base go on. A newer one replaces it."""

    def __init__(self, host: BaseNavigatorNode, feedback_rate: float) -> None:
        """Create the server.

        Args:
            host: the navigator.
            feedback_rate: publish rate of the feedback [Hz].
        """
        self._host = host
        super().__init__(host, [(Wait, "wait")], feedback_rate)

    def start(self, goal: ActionGoal) -> _Wait:
        """Start to wait."""
        for other in self._works:
            other.stopped = other.stopped or ActionOutcome.ABORTED
        return _Wait(self._host, goal, self._host.now(), seconds(goal.request.time))

    def stop(self, work: _Wait) -> None:
        """Cancel a goal."""
        work.stopped = ActionOutcome.CANCELED

    def answer(self, work: _Wait) -> None:
        """Send the result."""
        result = work.goal.result
        fill_seconds(result.total_elapsed_time, max(work.elapsed, 0.0))
        outcome = work.stopped or (ActionOutcome.SUCCEEDED if work.ended else ActionOutcome.ABORTED)
        if outcome is ActionOutcome.ABORTED:
            result.error_msg = (
                "preempted by a newer goal" if work.stopped else "the navigator is shutting down"
            )
        work.goal.finish(outcome, result)

    def feedback(self, work: _Wait) -> Any:
        """Return the time that is left."""
        message = Wait.Feedback()
        fill_seconds(message.time_left, max(work.time - work.elapsed, 0.0))
        return message


class AbsentActions:
    """Rejects goals that only another node could execute, so that their clients do not wait."""

    def __init__(self, host: BaseNavigatorNode) -> None:
        """Create the servers."""
        self._jobs = ExecutorQueue(host)
        self._servers = []
        for kind, name in ABSENT:
            server = GoalServer(host, self._jobs, kind, name, lambda _goal: None, lambda _: False)
            server.refusal = lambda _request, name=name: (  # type: ignore[misc]
                f"{name} is not offered by this navigator; a node that does can serve it if its "
                "parameter refuse_absent is false"
            )
            self._servers.append(server)

    def destroy(self) -> None:
        """Destroy the servers."""
        for server in self._servers:
            server.destroy()
        self._jobs.destroy()
