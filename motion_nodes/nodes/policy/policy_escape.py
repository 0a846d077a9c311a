# SPDX-License-Identifier: Apache-2.0
"""Has a planner bring the arm out of a trap: a goal for move_action, to the policy's target."""

from __future__ import annotations

import time
from typing import Any

from action_msgs.msg import GoalStatus
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import MoveItErrorCodes

from motion_nodes.model.tree import Array
from motion_nodes.ros.clients.action_clients import action_client
from motion_nodes.ros.clients.move_client import pose_constraints
from motion_nodes.ros.concurrency.executor_queue import ExecutorJobs
from motion_nodes.ros.node import MotionNode

ANSWER_TIMEOUT = 3.0
"""[s] Wall time in which a planner takes a goal up."""
POSITION, ORIENTATION = 2e-3, 1e-2
"""[m], [rad] How near to the target a plan shall end; the policy goes the rest of the way."""

OF_THE_TARGET = {
    MoveItErrorCodes.GOAL_IN_COLLISION: "the target is in collision",
    MoveItErrorCodes.GOAL_STATE_INVALID: "the target is outside limits",
    MoveItErrorCodes.NO_IK_SOLUTION: "the target is not reachable",
}
"""What is wrong with a target where the planner ends with one of these codes."""


class Escape:
    """One goal at a time; :meth:`begin`, :meth:`cancel` and :meth:`ended` are for the loop."""

    def __init__(self, node: MotionNode[Any], jobs: ExecutorJobs, action: str) -> None:
        """Talk to the planner's action of that name."""
        self._node, self._jobs, self.action = node, jobs, action
        self._client = action_client(node, MoveGroup, action)
        self._attempt: _Attempt | None = None
        self.count = 0
        """How many escapes there were."""
        self.hopeless = False
        """Whether the newest that ended failed because of the target itself."""

    @property
    def busy(self) -> bool:
        """Whether a planner is at work, or its end was not asked for yet."""
        return self._attempt is not None

    def begin(self, goal: Any) -> None:
        """Have the planner go to a goal."""
        attempt = self._attempt = _Attempt()
        self.count += 1
        self._jobs.ask(lambda: self._send(attempt, goal))

    def cancel(self) -> None:
        """Have it end; nobody waits for that."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.unwanted = True
            self._jobs.ask(lambda: _cancel(attempt))

    def ended(self) -> str | None:
        """Return why it failed, empty if it did not, None as long as it goes on."""
        attempt = self._attempt
        if attempt is None:
            return "there was none"
        if attempt.trouble is None:
            waited = time.monotonic() - attempt.asked_at
            if attempt.accepted or waited < ANSWER_TIMEOUT:
                return None
            self.cancel()
            self.hopeless = False
            return f"no planner answers at {self.action}"
        self._attempt = None
        self.hopeless = attempt.hopeless
        return attempt.trouble

    def destroy(self) -> None:
        """Give the client up."""
        self._client.destroy()

    # ---- in the executor

    def _send(self, attempt: _Attempt, goal: Any) -> None:
        if not self._client.server_is_ready():
            attempt.trouble = f"there is no planner at {self.action}"
            return
        future = self._client.send_goal_async(goal)
        future.add_done_callback(lambda done: _answered(attempt, done.result()))


class _Attempt:
    def __init__(self) -> None:
        self.asked_at = time.monotonic()
        self.accepted = False
        self.unwanted = False
        self.trouble: str | None = None
        self.hopeless = False
        self.handle: Any = None


def _answered(attempt: _Attempt, handle: Any) -> None:
    if not handle.accepted:
        attempt.trouble = "the planner rejected the goal"
        return
    attempt.accepted, attempt.handle = True, handle
    handle.get_result_async().add_done_callback(lambda done: _finish(attempt, done.result()))
    if attempt.unwanted:
        _cancel(attempt)


def _cancel(attempt: _Attempt) -> None:
    if attempt.handle is not None and attempt.trouble is None:
        attempt.handle.cancel_goal_async()


def _finish(attempt: _Attempt, wrapped: Any) -> None:
    if wrapped is None:
        attempt.trouble = "the planner is gone"
        return
    code = wrapped.result.error_code
    done = wrapped.status == GoalStatus.STATUS_SUCCEEDED and code.val == MoveItErrorCodes.SUCCESS
    what = OF_THE_TARGET.get(code.val, "the planner failed")
    attempt.hopeless = code.val in OF_THE_TARGET
    attempt.trouble = "" if done else f"{what}: {code.message or code.val}"


def goal_to(
    X_BT: Array, *, oriented: bool, group: str, tool: str, frame: str, planning_time: float
) -> Any:
    """Return a goal of move_action that brings a tool to a pose, or to a position alone.

    Args:
        X_BT: pose of the tool, shape (4, 4).
        oriented: whether its orientation counts.
        group: joints to move.
        tool: the tool's frame.
        frame: in which the pose is.
        planning_time: longest planning [s].
    """
    goal = MoveGroup.Goal()
    goal.request.group_name = group
    goal.request.goal_constraints = [
        pose_constraints(
            tool, frame, X_BT, position=POSITION, orientation=ORIENTATION if oriented else None
        )
    ]
    goal.request.allowed_planning_time = planning_time
    goal.planning_options.replan = True
    return goal
