# SPDX-License-Identifier: Apache-2.0
"""Actions of the task server: pick and place as in MoveIt, and tasks as text."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moveit_msgs.action import Pickup, Place
from moveit_msgs.msg import MoveItErrorCodes
from nav2_msgs.action import DummyBehavior

from motion_nodes.errors import MotionError
from motion_nodes.nodes.task.task_goals import TaskGoals
from motion_nodes.ros.concurrency.loop_action_server import LoopActionServer
from motion_nodes.ros.concurrency.threaded_action_server import ActionGoal, ActionOutcome
from motion_nodes.ros.messages.moveit_messages import RequestRejected, set_code
from motion_nodes.ros.messages.trajectory_messages import fill_seconds
from motion_nodes.tasks.served_task import ServedTask
from motion_nodes.tasks.task_codes import Reason, TaskCode, reason_of

if TYPE_CHECKING:
    from motion_nodes.nodes.task_server import TaskServerNode

Codes = MoveItErrorCodes
OUTCOMES = {
    "succeeded": ActionOutcome.SUCCEEDED,
    "planned": ActionOutcome.SUCCEEDED,
    "canceled": ActionOutcome.CANCELED,
}
"""Outcome by the state of a task; others are aborted."""
SHUT_DOWN = Reason(TaskCode.SHUT_DOWN, "the task server is shutting down")
MOVEIT_CODES = {
    TaskCode.NONE: Codes.SUCCESS,
    TaskCode.UNKNOWN_OBJECT: Codes.INVALID_OBJECT_NAME,
    TaskCode.AMBIGUOUS_OBJECT: Codes.INVALID_OBJECT_NAME,
    TaskCode.UNKNOWN_LOCATION: Codes.INVALID_GOAL_CONSTRAINTS,
    TaskCode.OUT_OF_REACH: Codes.NO_IK_SOLUTION,
    TaskCode.IN_COLLISION: Codes.GOAL_IN_COLLISION,
    TaskCode.OBJECT_MOVED: Codes.MOTION_PLAN_INVALIDATED_BY_ENVIRONMENT_CHANGE,
    TaskCode.NOT_DETECTED: Codes.UNABLE_TO_AQUIRE_SENSOR_DATA,
    TaskCode.STATE_UNKNOWN: Codes.UNABLE_TO_AQUIRE_SENSOR_DATA,
    TaskCode.MOTION_FAILED: Codes.CONTROL_FAILED,
    TaskCode.TIMEOUT: Codes.TIMED_OUT,
    TaskCode.NODE_MISSING: Codes.COMMUNICATION_FAILURE,
    TaskCode.CANCELED: Codes.PREEMPTED,
    TaskCode.STOPPED_MEANWHILE: Codes.PREEMPTED,
    TaskCode.SHUT_DOWN: Codes.PREEMPTED,
}
"""MoveIt's error code by that of the reason; FAILURE for others."""


@dataclass
class TaskExecution:
    """Execution of a goal."""

    goal: ActionGoal
    task: ServedTask
    begun: float = field(default_factory=time.monotonic)
    reported: str = ""
    """Newest feedback."""

    @property
    def ended(self) -> bool:
        """Whether the task has ended."""
        return self.task.ended


class TaskActionServer(LoopActionServer[TaskExecution]):
    """Serves ``~/pickup``, ``~/place`` and ``~/execute_task``."""

    def __init__(self, node: TaskServerNode, goals: TaskGoals) -> None:
        """Create the servers.

        Args:
            node: the task server.
            goals: converts goal messages.
        """
        self._server, self._goals, self._log = node, goals, node.get_logger()
        actions = (
            (Pickup, "~/pickup"), (Place, "~/place"), (DummyBehavior, "~/execute_task"),
        )  # fmt: skip
        super().__init__(node, actions)

    def start(self, goal: ActionGoal) -> TaskExecution | None:
        """Begin a task; abort the goal if it is invalid."""
        try:
            task = self._node.in_loop(lambda: self._server.begin(self._goals.text_of(goal)))
        except RequestRejected as error:
            reason = Reason(TaskCode.INVALID_PLAN, str(error))
            self._finish(goal, ActionOutcome.ABORTED, reason, error.code)
        except MotionError as error:
            self._finish(goal, ActionOutcome.ABORTED, reason_of(error))
        except TimeoutError as error:
            self._finish(goal, ActionOutcome.ABORTED, Reason(TaskCode.TIMEOUT, str(error)))
        else:
            if not task.refusal:
                return TaskExecution(goal, task)
            self._finish(goal, ActionOutcome.ABORTED, task.refusal)
        return None

    def stop(self, execution: TaskExecution) -> None:
        """Cancel the task."""
        execution.task.cancel()

    def answer(self, execution: TaskExecution) -> None:
        """Send the result."""
        task, goal = execution.task, execution.goal
        outcome = OUTCOMES.get(task.state, ActionOutcome.ABORTED)
        reason = task.reason if task.ended else SHUT_DOWN
        took = time.monotonic() - execution.begun
        if goal.kind is DummyBehavior:
            fill_seconds(goal.result.total_elapsed_time, took)
        elif goal.kind is Place and goal.request.place_locations:
            goal.result.place_location = goal.request.place_locations[0]
        self._finish(goal, outcome, reason)

    def poll(self) -> None:
        """Send feedback of each new skill or phase, and results; in the loop."""
        for execution in list(self._works):
            goal, text = execution.goal, execution.task.progress
            if text != execution.reported and goal.kind is not DummyBehavior:
                execution.reported = text
                goal.feedback(goal.feedback_type(state=text))
        super().poll()

    # ---- inside

    def _finish(
        self, goal: ActionGoal, outcome: ActionOutcome, reason: Reason, code: int | None = None
    ) -> None:
        """Send a result; a code of MoveIt replaces that of the reason."""
        text = reason.text
        if text:
            self._log.info(f"goal of {goal.action_name} ended: {text}")
        if goal.kind is DummyBehavior:
            goal.result.error_code = int(reason.code)
            goal.result.error_msg = text
        else:
            chosen = MOVEIT_CODES.get(reason.code, Codes.FAILURE) if code is None else code
            set_code(goal.result.error_code, chosen, text, "task_server")
        goal.finish(outcome, goal.result)
