# SPDX-License-Identifier: Apache-2.0
"""Asks a robot's planner (``move_action``) to bring its tool to a pose, and watches it.

May be used from any thread; what touches rclpy's client runs in the executor, and nobody waits
there.
"""

from __future__ import annotations

from typing import Any

from action_msgs.msg import GoalStatus
from geometry_msgs.msg import Pose
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import (
    Constraints,
    MoveItErrorCodes,
    OrientationConstraint,
    PositionConstraint,
)
from shape_msgs.msg import SolidPrimitive

from motion_nodes.model.tree import Array
from motion_nodes.ros.clients.action_clients import action_client
from motion_nodes.ros.concurrency.executor_queue import ExecutorJobs
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.ros.node import MotionNode

TOLERANCE = 1e-3
"""[m], [rad] How near to the pose the tool is to come."""


class MoveClient:
    """The client of one planner; one goal at a time, a newer one takes the place of the older."""

    def __init__(self, node: MotionNode[Any], jobs: ExecutorJobs, action: str) -> None:
        """Talk to the planner that serves an action."""
        self.action = action
        self.words = ""
        """What became of the newest goal."""
        self._jobs = jobs
        self._client = action_client(node, MoveGroup, action)
        self._count = 0
        self._handle: Any = None

    def move(self, group: str, link: str, frame: str, X_FL: Array, *, plan_only: bool) -> None:
        """Send a goal and return at once; :attr:`words` tell of it.

        Args:
            group: whose joints move.
            link: that is to come to the pose.
            frame: in which the pose is given.
            X_FL: the pose, shape (4, 4).
            plan_only: whether the plan is only shown.
        """
        goal = MoveGroup.Goal()
        goal.request.group_name = group
        goal.request.goal_constraints = [pose_constraints(link, frame, X_FL)]
        goal.planning_options.plan_only = plan_only
        self._jobs.ask(lambda: self._send(goal))

    def stop(self) -> None:
        """Have the motion end."""
        self._jobs.ask(self._cancel)

    def destroy(self) -> None:
        """Give the client up."""
        self._client.destroy()

    # ---- in the executor

    def _send(self, goal: Any) -> None:
        if not self._client.server_is_ready():
            self.words = f"there is no action {self.action}; is the planner running?"
            return
        self._count += 1
        number, self._handle = self._count, None
        self.words = "planning"
        future = self._client.send_goal_async(goal, lambda m: self._hear(number, m.feedback))
        future.add_done_callback(lambda done: self._answered(number, done.result()))

    def _hear(self, number: int, feedback: Any) -> None:
        if number == self._count and feedback.state not in ("", "IDLE"):
            self.words = feedback.state.lower().replace("monitor", "moving")

    def _answered(self, number: int, handle: Any) -> None:
        if not handle.accepted:
            if number == self._count:
                self.words = "the planner rejected the goal; is it active?"
            return
        if number == self._count:
            self._handle = handle
        result = handle.get_result_async()
        result.add_done_callback(lambda done: self._end(number, done.result()))

    def _end(self, number: int, wrapped: Any) -> None:
        if number != self._count or wrapped is None:
            return
        self._handle = None
        code = wrapped.result.error_code
        if wrapped.status == GoalStatus.STATUS_CANCELED:
            self.words = "stopped"
        elif code.val == MoveItErrorCodes.SUCCESS:
            self.words = code.message or "done"
        else:
            self.words = code.message or f"failed with code {code.val}"

    def _cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel_goal_async()


def pose_constraints(
    link: str,
    frame: str,
    X_FL: Array,
    *,
    position: float = TOLERANCE,
    orientation: float | None = TOLERANCE,
) -> Constraints:
    """Return that a link is to be at a pose, as MoveIt's clients say it.

    Args:
        link: that is to come there.
        frame: in which the pose is given.
        X_FL: the pose, shape (4, 4).
        position: how near it is to come [m].
        orientation: about each axis [rad]; None: any orientation will do.
    """
    pose = pose_message(X_FL)
    place = PositionConstraint(link_name=link, weight=1.0)
    place.header.frame_id = frame
    place.constraint_region.primitives = [
        SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[position])
    ]
    place.constraint_region.primitive_poses = [Pose(position=pose.position)]
    constraints = Constraints(position_constraints=[place])
    if orientation is not None:
        turn = OrientationConstraint(link_name=link, weight=1.0, orientation=pose.orientation)
        turn.header.frame_id = frame
        turn.absolute_x_axis_tolerance = orientation
        turn.absolute_y_axis_tolerance = orientation
        turn.absolute_z_axis_tolerance = orientation
        constraints.orientation_constraints = [turn]
    return constraints
