# SPDX-License-Identifier: Apache-2.0
"""The actions of the base navigator, under the names that clients of Nav2 know.

A goal becomes a task of the core, which the node's loop carries out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nav2_msgs.action import FollowPath, NavigateToPose

from motion_nodes.base_navigation.navigator import MotionResult, NavigationTask
from motion_nodes.nodes.navigation.navigation_requests import (
    NavigationHost,
    Plan,
    Refused,
    plan_along,
    plan_to_pose,
)
from motion_nodes.ros.concurrency.loop_action_server import LoopGoals
from motion_nodes.ros.concurrency.threaded_action_server import ActionGoal, ActionOutcome
from motion_nodes.ros.messages.planar_messages import stamped_pose

Codes = FollowPath.Result

CODES = {
    MotionResult.SUCCEEDED: Codes.NONE,
    MotionResult.CANCELED: Codes.NONE,
    MotionResult.PREEMPTED: Codes.UNKNOWN,
    MotionResult.STUCK: Codes.FAILED_TO_MAKE_PROGRESS,
    MotionResult.FAILED: Codes.NO_VALID_CONTROL,
    MotionResult.LOST: Codes.TF_ERROR,
    MotionResult.ABORTED: Codes.UNKNOWN,
}
"""Error code of each ending, in both actions: Nav2's NavigateToPose passes on FollowPath's."""

OUTCOMES = {
    MotionResult.SUCCEEDED: ActionOutcome.SUCCEEDED,
    MotionResult.CANCELED: ActionOutcome.CANCELED,
}
"""All others are aborted."""

LOOP_SILENT = "the navigator's loop did not answer"


@dataclass(frozen=True)
class _Drive:
    """What is done for a goal."""

    goal: ActionGoal
    task: NavigationTask
    frame: str

    @property
    def ended(self) -> bool:
        return self.task.ended


class NavigationServer(LoopGoals[_Drive]):
    """Serves ``navigate_to_pose`` and ``follow_path``."""

    def __init__(self, host: NavigationHost, feedback_rate: float) -> None:
        """Create the servers; feedback goes out at ``feedback_rate`` [Hz]."""
        self._host = host
        actions = ((NavigateToPose, "navigate_to_pose"), (FollowPath, "follow_path"))
        super().__init__(host.node, actions, feedback_rate)

    def start(self, goal: ActionGoal) -> _Drive | None:
        """Begin the task, or say why not."""
        label = f"{goal.action_name} goal {goal.label}"
        try:
            plan = self._plan(goal.request)
            task = self._host.node.in_loop(lambda: self._host.begin(plan, label))
        except Refused as error:
            self._answer(goal, error.code, str(error))
        except TimeoutError:
            self._answer(goal, Codes.CONTROLLER_TIMED_OUT, LOOP_SILENT)
        else:
            return _Drive(goal, task, plan.frame)
        return None

    def _plan(self, request: Any) -> Plan:
        if isinstance(request, FollowPath.Goal):
            return plan_along(self._host, request.path, request.controller_id)
        if request.behavior_tree:
            raise Refused(
                Codes.INVALID_CONTROLLER,
                f"behavior_tree '{request.behavior_tree}': this navigator has no behavior trees; "
                "leave it empty",
            )
        return plan_to_pose(self._host, request.pose)

    def stop(self, drive: _Drive) -> None:
        """Have the base come to rest."""
        self._host.cancel(drive.task)

    def answer(self, drive: _Drive) -> None:
        """Tell the ending."""
        task = drive.task
        if task.ended:
            outcome = OUTCOMES.get(task.ending, ActionOutcome.ABORTED)
            self._answer(drive.goal, CODES[task.ending], task.text, outcome)
        else:
            self._answer(drive.goal, Codes.UNKNOWN, "the navigator is being taken down")

    def feedback(self, drive: _Drive) -> Any:
        """Return how far and how long it still is."""
        view = self._host.progress()
        if isinstance(drive.goal.request, FollowPath.Goal):
            return FollowPath.Feedback(distance_to_goal=view.remaining, speed=view.speed)
        message = NavigateToPose.Feedback(distance_remaining=view.remaining)
        now = self._host.node.now_ns()
        message.current_pose = stamped_pose(view.pose, drive.frame, now)
        _fill(message.navigation_time, drive.task.time)
        _fill(message.estimated_time_remaining, view.time_remaining)
        return message

    def _answer(
        self, goal: ActionGoal, code: int, text: str, outcome: ActionOutcome = ActionOutcome.ABORTED
    ) -> None:
        if text:
            self._host.node.get_logger().info(f"goal ended: {text}")
        goal.result.error_code, goal.result.error_msg = code, text
        goal.finish(outcome, goal.result)


def _fill(duration: Any, seconds: float) -> None:
    duration.sec = int(seconds)
    duration.nanosec = int((seconds - duration.sec) * 1e9)
