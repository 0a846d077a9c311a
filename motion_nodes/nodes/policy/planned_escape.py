# SPDX-License-Identifier: Apache-2.0
"""Escape of a stuck arm by a planner: goals of move_action to the policy's target."""

from __future__ import annotations

import time
from typing import Any

from action_msgs.msg import GoalStatus
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import MoveItErrorCodes

from motion_nodes.core.reactive.target_follower import Follower
from motion_nodes.ros.clients.client_node import action_client
from motion_nodes.ros.clients.motion_clients import pose_constraints
from motion_nodes.ros.concurrency.queues import ExecutorQueue
from motion_nodes.ros.node import MotionNode
from motion_nodes.typing import Array

ANSWER_TIMEOUT = 3.0
"""Timeout of the planner's response to a goal, and of its presence afterwards, in wall time [s]."""
PRESENCE_PERIOD = 0.5
"""Period of checks whether the planner is still there [s]."""
POSITION, ORIENTATION = 2e-3, 1e-2
"""Position [m] and orientation [rad] tolerance of plans; the policy reduces the rest."""
TARGET_FAULTS = {
    MoveItErrorCodes.GOAL_IN_COLLISION: "the target is in collision",
    MoveItErrorCodes.GOAL_STATE_INVALID: "the target is outside limits",
    MoveItErrorCodes.NO_IK_SOLUTION: "the target is not reachable",
}
"""Faults of the target itself, by the planner's error code."""


class Escape:
    """Client of the planner with one goal at a time; all methods but destroy are for the loop."""

    def __init__(self, node: MotionNode[Any], jobs: ExecutorQueue, action: str) -> None:
        """Create the client.

        Args:
            node: the policy node.
            jobs: of its executor.
            action: name of the planner's MoveGroup action.
        """
        self._node, self._jobs, self.action = node, jobs, action
        self._client = action_client(node, MoveGroup, action)
        self._attempt: _Attempt | None = None
        self.count = 0
        """Number of escapes."""

    def update(self, follower: Follower, params: Any, frame: str, now: float) -> None:
        """Start, cancel or finish an escape, as the follower requires.

        Args:
            follower: of the policy.
            params: of the node.
            frame: of the target.
            now: ROS time [s].
        """
        target, attempt = follower.escape_target, self._attempt
        if target is None:
            if attempt is not None:
                self.cancel()
        elif attempt is None:
            self.start(
                goal_to(
                    target.X_WT,
                    oriented=target.oriented,
                    group=params.group,
                    tool=follower.policy.tool,
                    frame=frame,
                    planning_time=params.escape_planning_time,
                )
            )
        elif (fault := self._result(attempt)) is not None:
            if fault:
                self._node.warn("escape", f"escape failed: {fault}")
            follower.hand_back(now, fault, impossible=attempt.unreachable)

    def start(self, goal: Any) -> None:
        """Send a goal to the planner."""
        attempt = self._attempt = _Attempt()
        self.count += 1
        self._jobs.submit(lambda: self._send(attempt, goal))

    def cancel(self) -> None:
        """Cancel the goal without waiting for its result."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancelled = True
            self._jobs.submit(lambda: _cancel(attempt))

    def _result(self, attempt: _Attempt) -> str | None:
        """Return why an escape failed, empty if it succeeded, None while it is active."""
        if attempt.fault is not None:
            self._attempt = None
            return attempt.fault
        now = time.monotonic()
        # The result of a planner whose process has ended never arrives.
        due = attempt.accepted and now - attempt.present_at >= PRESENCE_PERIOD
        if due and self._client.server_is_ready():
            attempt.present_at = now
        if now - attempt.present_at < ANSWER_TIMEOUT:
            return None
        self.cancel()
        return f"no response of a planner at {self.action}"

    def destroy(self) -> None:
        """Destroy the client."""
        self._client.destroy()

    # ---- executor

    def _send(self, attempt: _Attempt, goal: Any) -> None:
        if not self._client.server_is_ready():
            attempt.fault = f"there is no planner at {self.action}"
            return
        future = self._client.send_goal_async(goal)
        future.add_done_callback(lambda done: _on_response(attempt, done.result()))


class _Attempt:
    """State of a goal."""

    def __init__(self) -> None:
        self.present_at = time.monotonic()
        """Time of sending, or at which the planner was last seen [s]."""
        self.accepted = False
        self.cancelled = False
        self.fault: str | None = None
        """Why it failed, empty if it succeeded, None while it is active."""
        self.unreachable = False
        """Whether it failed because of the target itself."""
        self.handle: Any = None


def _on_response(attempt: _Attempt, handle: Any) -> None:
    if not handle.accepted:
        attempt.fault = "the planner rejected the goal"
        return
    attempt.accepted, attempt.handle = True, handle
    handle.get_result_async().add_done_callback(lambda done: _finish(attempt, done.result()))
    if attempt.cancelled:
        _cancel(attempt)


def _cancel(attempt: _Attempt) -> None:
    if attempt.handle is not None and attempt.fault is None:
        attempt.handle.cancel_goal_async()


def _finish(attempt: _Attempt, wrapped: Any) -> None:
    if wrapped is None:
        attempt.fault = "the planner is no longer available"
        return
    code = wrapped.result.error_code
    done = wrapped.status == GoalStatus.STATUS_SUCCEEDED and code.val == MoveItErrorCodes.SUCCESS
    what = TARGET_FAULTS.get(code.val, "the planner failed")
    attempt.unreachable = code.val in TARGET_FAULTS
    attempt.fault = "" if done else f"{what}: {code.message or code.val}"


def goal_to(
    X_BT: Array, *, oriented: bool, group: str, tool: str, frame: str, planning_time: float
) -> Any:
    """Return a MoveGroup goal to a pose or position.

    Args:
        X_BT: target of the tool, shape (4, 4).
        oriented: whether to include the orientation.
        group: planning group.
        tool: end effector frame.
        frame: reference frame of the target.
        planning_time: allowed planning time [s].
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
