# SPDX-License-Identifier: Apache-2.0
"""What ``motion go`` does: it has a running suite move a robot, and waits for the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import rclpy
from action_msgs.msg import GoalStatus
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import Constraints, JointConstraint
from nav2_msgs.action import NavigateToPose
from rclpy.node import Node
from rclpy.task import Future

from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.model.tree import Array
from motion_nodes.ros import signals
from motion_nodes.ros.clients.action_clients import action_client
from motion_nodes.ros.clients.client_node import client_node
from motion_nodes.ros.clients.move_client import TOLERANCE, pose_constraints
from motion_nodes.ros.messages.planar_messages import stamped_pose

JOINT_TOLERANCE = 1e-4
"""[rad or m] How near to its goal each joint is to come."""
TELL_AFTER = 2.0
"""[s] Whoever waits for so long is told what for."""
RETRY = 0.3
"""[s] A server that is not active yet is asked again after this pause."""
LOST_AFTER = 5.0
"""[s] A server that is gone for so long does not come back to a goal."""
CANCEL_WITHIN = 5.0
"""[s] How long a goal that was cancelled may take to end."""


@dataclass(frozen=True)
class Order:
    """A goal, and who is to carry it out."""

    kind: Any
    """Of the action."""
    action: str
    """Its full name."""
    goal: Any


def arm_to_joints(prefix: str, group: str, joints: Mapping[str, float]) -> Order:
    """Return the order that joints [rad or m] go to values; ``prefix`` stands before all names."""
    wanted = [
        JointConstraint(
            joint_name=name,
            position=value,
            tolerance_above=JOINT_TOLERANCE,
            tolerance_below=JOINT_TOLERANCE,
            weight=1.0,
        )
        for name, value in joints.items()
    ]
    return _move(prefix, group, Constraints(joint_constraints=wanted))


def arm_to_pose(
    prefix: str, group: str, link: str, frame: str, X_FL: Array, *, oriented: bool
) -> Order:
    """Return the order that a link comes to a pose, shape (4, 4), given in a frame."""
    orientation = TOLERANCE if oriented else None
    return _move(prefix, group, pose_constraints(link, frame, X_FL, orientation=orientation))


def base_to_pose(prefix: str, frame: str, pose: Pose2) -> Order:
    """Return the order that a base drives to a pose, given in a frame."""
    goal = NavigateToPose.Goal(pose=stamped_pose(pose, frame, 0))
    return Order(NavigateToPose, f"{prefix}/navigate_to_pose", goal)


def _move(prefix: str, group: str, constraints: Constraints) -> Order:
    goal = MoveGroup.Goal()
    goal.request.group_name = group
    goal.request.goal_constraints = [constraints]
    goal.request.allowed_planning_time = 10.0
    goal.planning_options.planning_scene_diff.is_diff = True
    goal.planning_options.planning_scene_diff.robot_state.is_diff = True
    return Order(MoveGroup, f"{prefix}/move_action", goal)


def carry_out(order: Order, patience: float, news: Callable[[str], None]) -> str:
    """Have an order carried out; Ctrl-C cancels it.

    Args:
        order: what is to be done.
        patience: how long at most to wait for whoever takes it [s].
        news: takes a line about how it goes.

    Returns:
        What went wrong, in words; empty when it was done.
    """
    with client_node("motion_go") as node:
        client = _Client(node, order, news)
        handle = client.accepted_goal(time.monotonic() + patience)
        return handle if isinstance(handle, str) else client.end_of(handle)


class _Client:
    """Sends one goal and follows it."""

    def __init__(self, node: Node, order: Order, news: Callable[[str], None]) -> None:
        self._node = node
        self._order = order
        self._news = news
        self._client = action_client(node, order.kind, order.action)
        self._said = ""

    def accepted_goal(self, end: float) -> Any:
        """Return the handle of the accepted goal, or why there is none."""
        began = time.monotonic()
        while not self._client.server_is_ready():
            now = time.monotonic()
            if signals.STOP.is_set():
                return "stopped"
            if now > end:
                return f"nobody serves {self._order.action}"
            if now - began > TELL_AFTER:
                self._say(f"waiting for {self._order.action}")
            rclpy.spin_once(self._node, timeout_sec=0.05)
        while True:
            sent = self._client.send_goal_async(self._order.goal, self._hear)
            if not self._spin(sent, end):
                return "stopped" if signals.STOP.is_set() else f"{self._order.action} is silent"
            handle = sent.result()
            if handle.accepted:
                return handle
            if time.monotonic() > end:
                return f"{self._order.action} takes no goals; is its node active?"
            self._say(f"{self._order.action} takes no goals yet; asking again")
            signals.STOP.wait(RETRY)

    def end_of(self, handle: Any) -> str:
        """Wait for the end of a goal; return what went wrong, or nothing."""
        done = handle.get_result_async()
        while not self._spin(done, time.monotonic() + LOST_AFTER) and not signals.STOP.is_set():
            if not self._client.server_is_ready():
                return f"{self._order.action} is gone"
        if not done.done():
            self._spin(handle.cancel_goal_async(), time.monotonic() + CANCEL_WITHIN, stop=False)
            self._spin(done, time.monotonic() + CANCEL_WITHIN, stop=False)
            return "stopped; the motion was cancelled"
        wrapped = done.result()
        if wrapped.status == GoalStatus.STATUS_SUCCEEDED:
            return ""
        result = wrapped.result
        if isinstance(result, MoveGroup.Result):
            return result.error_code.message or f"failed with MoveIt's code {result.error_code.val}"
        return result.error_msg or f"failed with Nav2's code {result.error_code}"

    def _spin(self, future: Future[Any], end: float, *, stop: bool = True) -> bool:
        """Serve until a future is done; False when time is over or a stop was asked for."""
        while not future.done():
            if time.monotonic() > end or (stop and signals.STOP.is_set()):
                return False
            rclpy.spin_once(self._node, timeout_sec=0.05)
        return True

    def _hear(self, message: Any) -> None:
        state = getattr(message.feedback, "state", "").lower().replace("monitor", "moving")
        if state and state != "idle":
            self._say(state)

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._news(text)
