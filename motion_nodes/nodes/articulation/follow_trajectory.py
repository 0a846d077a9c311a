# SPDX-License-Identifier: Apache-2.0
"""FollowJointTrajectory action of the articulation controller; the loop executes its goals."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from control_msgs.action import FollowJointTrajectory

from motion_nodes.control.active_commands import TrajectoryRun
from motion_nodes.control.trajectory_follower import FollowStatus
from motion_nodes.errors import MotionError, UnknownJoint
from motion_nodes.nodes.articulation.trajectory_requests import OldTrajectory, goal_of, start
from motion_nodes.ros.concurrency.loop_action_server import LoopActionServer
from motion_nodes.ros.concurrency.threaded_action_server import ActionGoal, ActionOutcome
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.messages.trajectory_messages import fill_seconds

if TYPE_CHECKING:
    from motion_nodes.nodes.articulation_controller import ArticulationControllerNode

Result = FollowJointTrajectory.Result

CODES = {
    FollowStatus.SUCCEEDED: Result.SUCCESSFUL,
    FollowStatus.PATH_TOLERANCE_VIOLATED: Result.PATH_TOLERANCE_VIOLATED,
    FollowStatus.GOAL_TOLERANCE_VIOLATED: Result.GOAL_TOLERANCE_VIOLATED,
    FollowStatus.PREEMPTED: Result.INVALID_GOAL,
    FollowStatus.CANCELED: Result.SUCCESSFUL,
    FollowStatus.ABORTED: Result.INVALID_GOAL,
}
"""Error code of the action by final status."""

OUTCOMES = {
    FollowStatus.SUCCEEDED: ActionOutcome.SUCCEEDED,
    FollowStatus.CANCELED: ActionOutcome.CANCELED,
}
"""Outcome of the action by final status; others are aborted."""


@dataclass(frozen=True)
class _Execution:
    """Execution of a goal."""

    goal: ActionGoal
    run: TrajectoryRun

    @property
    def ended(self) -> bool:
        return self.run.follower.status.ended


class FollowTrajectoryServer(LoopActionServer[_Execution]):
    """Serves ``~/follow_joint_trajectory``."""

    def __init__(self, host: ArticulationControllerNode, monitor_rate: float) -> None:
        """Create the server.

        Args:
            host: the controller.
            monitor_rate: publish rate of the feedback [Hz].
        """
        self._host = host
        names = ("~", *host.params.aliases)
        actions = [(FollowJointTrajectory, f"{name}/follow_joint_trajectory") for name in names]
        super().__init__(host, actions, monitor_rate)
        if host.params.reject_invalid_goals:
            self.refuse_by(self._refusal)

    def start(self, goal: ActionGoal) -> _Execution | None:
        """Start the trajectory; abort the goal if it cannot be executed."""
        trajectory = goal.request.trajectory
        stamp, label = trajectory.header.stamp, f"action goal {goal.label}"
        try:
            # Long messages are converted outside the loop.
            follow_goal = goal_of(self._host, trajectory, goal.request)
            run = self._host.in_loop(lambda: start(self._host, follow_goal, stamp, label))
        except OldTrajectory as error:
            self._finish(goal, Result.OLD_HEADER_TIMESTAMP, str(error))
        except UnknownJoint as error:
            self._finish(goal, Result.INVALID_JOINTS, str(error))
        except (MotionError, TimeoutError) as error:
            self._finish(goal, Result.INVALID_GOAL, str(error))
        else:
            return _Execution(goal, run)
        return None

    def _refusal(self, request: Any) -> str:
        """Return why a goal is rejected when it is sent; empty if it is accepted."""
        try:
            goal_of(self._host, copy.deepcopy(request.trajectory), request)
        except (MotionError, TimeoutError) as error:
            return str(error)
        return ""

    def stop(self, execution: _Execution) -> None:
        """Cancel a trajectory: bring its joints to rest."""
        self._host.runner.cancel(execution.run, "canceled by its client")

    def answer(self, execution: _Execution) -> None:
        """Send the result."""
        follower = execution.run.follower
        if execution.ended:
            outcome = OUTCOMES.get(follower.status, ActionOutcome.ABORTED)
            self._finish(execution.goal, CODES[follower.status], follower.text, outcome)
        else:
            text = "the controller is shutting down"
            self._finish(execution.goal, Result.INVALID_GOAL, text)

    def feedback(self, execution: _Execution) -> Any:
        """Return the feedback message; None before the first step."""
        now = execution.run.progress
        if now is None:
            return None
        names = execution.run.follower.joint_names
        message = FollowJointTrajectory.Feedback(joint_names=list(names))
        set_stamp(message, self._host.now_ns())
        position, velocity = now.desired.position, now.desired.velocity
        _fill(message.desired, position, velocity, now.time)
        _fill(message.actual, now.position, now.velocity, now.elapsed)
        _fill(message.error, position - now.position, velocity - now.velocity, now.time)
        return message

    def _finish(
        self, goal: ActionGoal, code: int, text: str, outcome: ActionOutcome = ActionOutcome.ABORTED
    ) -> None:
        if text:
            self._host.get_logger().info(f"goal ended: {text}")
        goal.result.error_code, goal.result.error_string = code, text
        goal.finish(outcome, goal.result)


def _fill(point: Any, position: np.ndarray, velocity: np.ndarray, time: float) -> None:
    point.positions, point.velocities = position.tolist(), velocity.tolist()
    fill_seconds(point.time_from_start, time)
