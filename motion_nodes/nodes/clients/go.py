# SPDX-License-Identifier: Apache-2.0
"""Client of ``motion go``: sends a motion goal to a running suite and waits for its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import rclpy
from action_msgs.msg import GoalStatus
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import Constraints
from nav2_msgs.action import NavigateToPose
from rclpy.node import Node
from rclpy.task import Future

from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.ros import signals
from motion_nodes.ros.clients.action_clients import action_client
from motion_nodes.ros.clients.client_node import client_node
from motion_nodes.ros.clients.move_client import (
    TOLERANCE,
    joint_constraints,
    pose_constraints,
)
from motion_nodes.ros.messages.planar_messages import stamped_pose
from motion_nodes.typing import Array

JOINT_TOLERANCE = 1e-4
"""Tolerance of joint goals [rad or m]."""
NOTICE_AFTER = 2.0
"""Waiting time after which the user is informed [s]."""
RETRY_DELAY = 0.3
"""Delay before a goal is sent again to a server that is not active yet [s]."""
LOST_AFTER = 5.0
"""Period of checks whether the server still exists [s]."""
CANCEL_TIMEOUT = 5.0
"""Timeout of a cancellation [s]."""


@dataclass(frozen=True)
class GoalRequest:
    """A goal and its action."""

    kind: Any
    """Type of the action."""
    action: str
    """Full name of the action."""
    goal: Any
    """Goal message."""


def arm_to_joints(prefix: str, group: str, joints: Mapping[str, float]) -> GoalRequest:
    """Return a goal of joint positions.

    Args:
        prefix: namespace of the action, empty or beginning with a slash.
        group: planning group.
        joints: positions by name [rad or m].
    """
    return _move(prefix, group, joint_constraints(joints, JOINT_TOLERANCE))


def arm_to_pose(
    prefix: str, group: str, link: str, frame: str, X_FL: Array, *, oriented: bool
) -> GoalRequest:
    """Return a goal of a link's pose.

    Args:
        prefix: namespace of the action, empty or beginning with a slash.
        group: planning group.
        link: to move.
        frame: reference frame of the pose.
        X_FL: target, shape (4, 4).
        oriented: whether to include the orientation.
    """
    orientation = TOLERANCE if oriented else None
    return _move(prefix, group, pose_constraints(link, frame, X_FL, orientation=orientation))


def base_to_pose(prefix: str, frame: str, pose: Pose2) -> GoalRequest:
    """Return a goal of a base's pose in a frame; see :func:`arm_to_pose`."""
    goal = NavigateToPose.Goal(pose=stamped_pose(pose, frame, 0))
    return GoalRequest(NavigateToPose, f"{prefix}/navigate_to_pose", goal)


def _move(prefix: str, group: str, constraints: Constraints) -> GoalRequest:
    goal = MoveGroup.Goal()
    goal.request.group_name = group
    goal.request.goal_constraints = [constraints]
    goal.request.allowed_planning_time = 10.0
    goal.planning_options.planning_scene_diff.is_diff = True
    goal.planning_options.planning_scene_diff.robot_state.is_diff = True
    return GoalRequest(MoveGroup, f"{prefix}/move_action", goal)


def execute(request: GoalRequest, timeout: float, report: Callable[[str], None]) -> str:
    """Execute a goal; Ctrl-C cancels it.

    Args:
        request: the goal.
        timeout: of its acceptance [s].
        report: receives lines about the progress.

    Returns:
        Why it failed; empty on success.
    """
    with client_node("motion_go") as node:
        client = _Client(node, request, report)
        handle = client.accepted_goal(time.monotonic() + timeout)
        return handle if isinstance(handle, str) else client.result_of(handle)


class _Client:
    """Sends one goal and waits for its result."""

    def __init__(self, node: Node, request: GoalRequest, report: Callable[[str], None]) -> None:
        self._node = node
        self._request = request
        self._action = request.action
        self._report = report
        self._client = action_client(node, request.kind, request.action)
        self._reported = ""

    def accepted_goal(self, end: float) -> Any:
        """Return the handle of the accepted goal, or the reason of its rejection."""
        began = time.monotonic()
        while not self._client.server_is_ready():
            now = time.monotonic()
            if signals.STOP.is_set():
                return "stopped"
            if now > end:
                return f"there is no action {self._action}"
            if now - began > NOTICE_AFTER:
                self._report_once(
                    f"waiting for {self._action}; is `motion up` running, with this robot and the "
                    "same ROS_DOMAIN_ID?"
                )
            rclpy.spin_once(self._node, timeout_sec=0.05)
        while True:
            sent = self._client.send_goal_async(self._request.goal, self._on_feedback)
            if not self._spin(sent, end):
                self._cancel_late(sent)
                return "stopped" if signals.STOP.is_set() else f"no response of {self._action}"
            handle = sent.result()
            if handle.accepted:
                return handle
            if time.monotonic() > end:
                return f"{self._action} rejects goals; is its node active?"
            self._report_once(f"{self._action} rejects goals; retrying")
            signals.STOP.wait(RETRY_DELAY)

    def result_of(self, handle: Any) -> str:
        """Wait for the result of a goal; return why it failed, empty on success."""
        done = handle.get_result_async()
        while not self._spin(done, time.monotonic() + LOST_AFTER) and not signals.STOP.is_set():
            if not self._client.server_is_ready():
                return f"{self._action} is no longer available"
        if not done.done():
            self._spin(handle.cancel_goal_async(), time.monotonic() + CANCEL_TIMEOUT, stop=False)
            if self._spin(done, time.monotonic() + CANCEL_TIMEOUT, stop=False):
                return "stopped; the motion was cancelled"
            return f"stopped; {self._action} did not confirm that the motion was cancelled"
        wrapped = done.result()
        if wrapped.status == GoalStatus.STATUS_SUCCEEDED:
            return ""
        result = wrapped.result
        if isinstance(result, MoveGroup.Result):
            return result.error_code.message or f"MoveIt error code {result.error_code.val}"
        return result.error_msg or f"Nav2 error code {result.error_code}"

    def _cancel_late(self, sent: Future[Any]) -> None:
        """Cancel a goal that is accepted after the client has given up."""
        end = time.monotonic() + CANCEL_TIMEOUT
        if self._spin(sent, end, stop=False) and sent.result().accepted:
            self._spin(sent.result().cancel_goal_async(), end, stop=False)

    def _spin(self, future: Future[Any], end: float, *, stop: bool = True) -> bool:
        """Spin until a future is done; return False on a timeout or stop signal."""
        while not future.done():
            if time.monotonic() > end or (stop and signals.STOP.is_set()):
                return False
            rclpy.spin_once(self._node, timeout_sec=0.05)
        return True

    def _on_feedback(self, message: Any) -> None:
        state = getattr(message.feedback, "state", "").lower().replace("monitor", "moving")
        if state and state != "idle":
            self._report_once(state)

    def _report_once(self, text: str) -> None:
        if text != self._reported:
            self._reported = text
            self._report(text)
