# SPDX-License-Identifier: Apache-2.0
"""The FollowJointTrajectory action of the articulation controller.

A goal becomes a run of the core, which the node's loop makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from control_msgs.action import FollowJointTrajectory

from motion_nodes.control.joint_arbiter import TrajectoryRun
from motion_nodes.control.trajectory_follower import FollowStatus
from motion_nodes.errors import MotionError, UnknownJoint
from motion_nodes.nodes.articulation.controller_host import ControllerHost
from motion_nodes.nodes.trajectory.trajectory_requests import (
    LOOP_SILENT,
    OldTrajectory,
    goal_of,
    start,
)
from motion_nodes.ros.concurrency.loop_action_server import LoopGoals
from motion_nodes.ros.concurrency.threaded_action_server import ActionGoal, ActionOutcome
from motion_nodes.ros.joint_topics import set_stamp

Result = FollowJointTrajectory.Result

CODES = {
    FollowStatus.SUCCEEDED: Result.SUCCESSFUL,
    FollowStatus.PATH_TOLERANCE_VIOLATED: Result.PATH_TOLERANCE_VIOLATED,
    FollowStatus.GOAL_TOLERANCE_VIOLATED: Result.GOAL_TOLERANCE_VIOLATED,
    FollowStatus.PREEMPTED: Result.INVALID_GOAL,
    FollowStatus.CANCELED: Result.SUCCESSFUL,
    FollowStatus.ABORTED: Result.INVALID_GOAL,
}
"""Error code of each way to end."""

OUTCOMES = {
    FollowStatus.SUCCEEDED: ActionOutcome.SUCCEEDED,
    FollowStatus.CANCELED: ActionOutcome.CANCELED,
}
"""All others are aborted."""


@dataclass(frozen=True)
class _Followed:
    """What is done for a goal."""

    goal: ActionGoal
    run: TrajectoryRun

    @property
    def ended(self) -> bool:
        return self.run.follower.status.ended


class FollowTrajectoryServer(LoopGoals[_Followed]):
    """Serves ``~/follow_joint_trajectory``."""

    def __init__(self, host: ControllerHost, monitor_rate: float) -> None:
        """Create the server; feedback goes out at ``monitor_rate`` [Hz]."""
        self._host = host
        actions = ((FollowJointTrajectory, "~/follow_joint_trajectory"),)
        super().__init__(host.node, actions, monitor_rate)

    def start(self, goal: ActionGoal) -> _Followed | None:
        """Start the trajectory, or say why it cannot be followed."""
        trajectory = goal.request.trajectory
        stamp, label = trajectory.header.stamp, f"action goal {goal.label}"
        try:
            # Reading a long message takes a while; only the start itself is for the loop.
            wish = goal_of(self._host, trajectory, goal.request)
            run = self._host.node.in_loop(lambda: start(self._host, wish, stamp, label))
        except OldTrajectory as error:
            self._answer(goal, Result.OLD_HEADER_TIMESTAMP, str(error))
        except UnknownJoint as error:
            self._answer(goal, Result.INVALID_JOINTS, str(error))
        except (MotionError, TimeoutError) as error:
            self._answer(goal, Result.INVALID_GOAL, str(error) or LOOP_SILENT)
        else:
            return _Followed(goal, run)
        return None

    def stop(self, followed: _Followed) -> None:
        """Bring the joints to rest."""
        self._host.runner.cancel(followed.run, "canceled by its client")

    def answer(self, followed: _Followed) -> None:
        """Tell how the trajectory ended."""
        follower = followed.run.follower
        if followed.ended:
            outcome = OUTCOMES.get(follower.status, ActionOutcome.ABORTED)
            self._answer(followed.goal, CODES[follower.status], follower.text, outcome)
        else:
            text = "the controller is being taken down"
            self._answer(followed.goal, Result.INVALID_GOAL, text)

    def feedback(self, followed: _Followed) -> Any:
        """Return where the joints are and should be; None before the first step."""
        now = followed.run.progress
        if now is None:
            return None
        names = followed.run.follower.joint_names
        message = FollowJointTrajectory.Feedback(joint_names=list(names))
        set_stamp(message, self._host.node.now_ns())
        position, velocity = now.wanted.position, now.wanted.velocity
        _fill(message.desired, position, velocity, now.time)
        _fill(message.actual, now.position, now.velocity, now.time)
        _fill(message.error, position - now.position, velocity - now.velocity, now.time)
        return message

    def _answer(
        self, goal: ActionGoal, code: int, text: str, outcome: ActionOutcome = ActionOutcome.ABORTED
    ) -> None:
        if text:
            self._host.node.get_logger().info(f"goal ended: {text}")
        goal.result.error_code, goal.result.error_string = code, text
        goal.finish(outcome, goal.result)


def _fill(point: Any, position: np.ndarray, velocity: np.ndarray, time: float) -> None:
    point.positions, point.velocities = position.tolist(), velocity.tolist()
    whole = int(max(time, 0.0))
    point.time_from_start.sec = whole
    point.time_from_start.nanosec = int((max(time, 0.0) - whole) * 1e9)
