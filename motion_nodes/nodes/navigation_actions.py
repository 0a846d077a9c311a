# SPDX-License-Identifier: Apache-2.0
"""The actions of the base navigator, under the names that clients of Nav2 know.

The core runs in the node's loop; this part runs in the executor, which the loop wakes when a task
has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nav2_msgs.action import FollowPath, NavigateToPose

from motion_nodes.base_motion.navigator import Ending, Task
from motion_nodes.nodes.navigation_requests import (
    NavigationHost,
    Plan,
    Refused,
    plan_along,
    plan_to_pose,
)
from motion_nodes.ros.action_server import Goal, GoalServer, Outcome
from motion_nodes.ros.executor_jobs import ExecutorJobs
from motion_nodes.ros.planar_messages import stamped_pose

Codes = FollowPath.Result

CODES = {
    Ending.SUCCEEDED: Codes.NONE,
    Ending.CANCELED: Codes.NONE,
    Ending.PREEMPTED: Codes.UNKNOWN,
    Ending.STUCK: Codes.FAILED_TO_MAKE_PROGRESS,
    Ending.FAILED: Codes.NO_VALID_CONTROL,
    Ending.LOST: Codes.TF_ERROR,
    Ending.ABORTED: Codes.UNKNOWN,
}
"""Error code of each ending, in both actions: Nav2's NavigateToPose passes on FollowPath's."""

OUTCOMES = {Ending.SUCCEEDED: Outcome.SUCCEEDED, Ending.CANCELED: Outcome.CANCELED}
"""All others are aborted."""

LOOP_SILENT = "the navigator's loop did not answer"


@dataclass(frozen=True)
class _Drive:
    """What is done for a goal."""

    goal: Goal
    task: Task
    frame: str


class NavigationServer:
    """Serves ``navigate_to_pose`` and ``follow_path``."""

    def __init__(self, host: NavigationHost, feedback_rate: float) -> None:
        """Create the servers; feedback goes out at ``feedback_rate`` [Hz]."""
        self._host = host
        self._drives: list[_Drive] = []
        node = host.node
        self._jobs = ExecutorJobs(node)
        self._timer = node.create_timer(1.0 / feedback_rate, self._send_feedback)
        self._timer.cancel()
        self._servers = [
            GoalServer(node, self._jobs, kind, name, begin=self._begin, cancel=self._cancel)
            for kind, name in ((NavigateToPose, "navigate_to_pose"), (FollowPath, "follow_path"))
        ]

    def look(self) -> None:
        """Wake the executor when a goal's task has ended; called in the loop."""
        if any(drive.task.ended for drive in self._drives):
            self._jobs.ask(self.finish)

    def finish(self) -> None:
        """Answer the goals whose tasks have ended; in the executor."""
        for drive in list(self._drives):
            if drive.task.ended:
                ending = drive.task.ending
                self._end(drive, CODES[ending], drive.task.text, OUTCOMES.get(ending))
        self._jobs.run()

    def destroy(self) -> None:
        """Abort what is left and take the servers down."""
        for drive in list(self._drives):
            self._end(drive, Codes.UNKNOWN, "the navigator is being taken down")
        self._jobs.destroy()
        for server in self._servers:
            server.destroy()
        self._host.node.destroy_timer(self._timer)

    # ---- in the executor

    def _begin(self, goal: Goal) -> None:
        label = f"{goal.action_name} goal {goal.label}"
        try:
            plan = self._plan(goal.request)
            task = self._host.node.in_loop(lambda: self._host.begin(plan, label))
        except Refused as error:
            self._answer(goal, error.code, str(error))
        except TimeoutError:
            self._answer(goal, Codes.CONTROLLER_TIMED_OUT, LOOP_SILENT)
        else:
            self._drives.append(_Drive(goal, task, plan.frame))
            self._timer.reset()

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

    def _cancel(self, goal: Goal) -> bool:
        drive = next((drive for drive in self._drives if drive.goal is goal), None)
        if drive is None:
            return False
        try:
            self._host.node.in_loop(lambda: self._host.cancel(drive.task))
        except TimeoutError:
            return False
        return True

    def _end(self, drive: _Drive, code: int, text: str, outcome: Outcome | None = None) -> None:
        self._drives.remove(drive)
        if not self._drives:
            self._timer.cancel()
        self._answer(drive.goal, code, text, outcome or Outcome.ABORTED)

    def _answer(self, goal: Goal, code: int, text: str, outcome: Outcome = Outcome.ABORTED) -> None:
        if text:
            self._host.node.get_logger().info(f"goal ended: {text}")
        goal.result.error_code, goal.result.error_msg = code, text
        goal.finish(outcome, goal.result)

    def _send_feedback(self) -> None:
        for drive in self._drives:
            if not drive.task.ended:
                drive.goal.feedback(self._feedback(drive))

    def _feedback(self, drive: _Drive) -> Any:
        view = self._host.progress()
        if isinstance(drive.goal.request, FollowPath.Goal):
            return FollowPath.Feedback(distance_to_goal=view.remaining, speed=view.speed)
        message = NavigateToPose.Feedback(distance_remaining=view.remaining)
        now = self._host.node.now_ns()
        message.current_pose = stamped_pose(view.pose, drive.frame, now)
        _fill(message.navigation_time, drive.task.time)
        _fill(message.estimated_time_remaining, view.time_remaining)
        return message


def _fill(duration: Any, seconds: float) -> None:
    duration.sec = int(seconds)
    duration.nanosec = int((seconds - duration.sec) * 1e9)
