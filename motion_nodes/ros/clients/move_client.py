# SPDX-License-Identifier: Apache-2.0
"""Client of a planner's MoveGroup action, for pose and joint goals; thread-safe and non-blocking.

rclpy's action client is accessed in the executor only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from action_msgs.msg import GoalStatus
from geometry_msgs.msg import Pose
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import (
    Constraints,
    JointConstraint,
    MoveItErrorCodes,
    OrientationConstraint,
    PositionConstraint,
)
from shape_msgs.msg import SolidPrimitive

from motion_nodes.ros.clients.client_node import action_client
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.ros.messages.trajectory_messages import seconds
from motion_nodes.ros.node import MotionNode
from motion_nodes.typing import Array

TOLERANCE = 1e-3
"""Default tolerance of pose goals [m and rad]."""


class MoveClient:
    """Client of one planner; a new motion replaces the previous one, a plan alone does not."""

    def __init__(self, node: MotionNode[Any], jobs: ExecutorQueue, action: str) -> None:
        """Create the client.

        Args:
            node: the node.
            jobs: queue of the node's executor.
            action: action name.
        """
        self.action = action
        self.failure = ""
        """Why the newest goal, or a motion during it, failed; empty while they did not."""
        self._text = ""
        self._jobs = jobs
        self._client = action_client(node, MoveGroup, action)
        self._count = 0
        self._motion = 0
        """Number of the newest goal that is executed, too."""
        self._canceled = 0
        """Number of the newest canceled goal."""
        self._handles: dict[int, Any] = {}
        """Of accepted goals without a result, by their numbers."""

    @property
    def words(self) -> str:
        """Status of the newest goal, as text; of a plan also whether a motion goes on meanwhile."""
        moving = self._motion in self._handles and self._motion < self._count
        return f"moving; {self._text}" if moving else self._text

    def move(self, group: str, constraints: Constraints, *, plan_only: bool, **fields: Any) -> None:
        """Send a goal that may be replanned; its status is reported in :attr:`words`.

        Args:
            group: planning group.
            constraints: of the goal; see :func:`pose_constraints` and :func:`joint_constraints`.
            plan_only: whether to plan without executing.
            **fields: further fields of the MotionPlanRequest.
        """
        goal = MoveGroup.Goal()
        goal.request.group_name = group
        goal.request.goal_constraints = [constraints]
        for name, value in fields.items():
            setattr(goal.request, name, value)
        goal.planning_options.plan_only = plan_only
        goal.planning_options.replan = True
        self._jobs.submit(lambda: self._send(goal))

    def stop(self) -> None:
        """Cancel all goals, even before they are accepted."""
        self._jobs.submit(self._cancel)

    def destroy(self) -> None:
        """Destroy the client."""
        self._client.destroy()

    # ---- in the executor

    def _send(self, goal: Any) -> None:
        if not self._client.server_is_ready():
            self._fail(f"action {self.action} is not available; is the planner running?")
            return
        self._count += 1
        self.failure = ""
        number = self._count
        if not goal.planning_options.plan_only:
            self._motion = number
        self._text = "planning"
        future = self._client.send_goal_async(goal, lambda m: self._on_feedback(number, m.feedback))
        future.add_done_callback(lambda done: self._on_response(number, goal, done.result()))

    def _on_feedback(self, number: int, feedback: Any) -> None:
        if number == self._count and feedback.state not in ("", "IDLE"):
            self._text = feedback.state.lower().replace("monitor", "moving")

    def _on_response(self, number: int, goal: Any, handle: Any) -> None:
        if not handle.accepted:
            if number == self._count:
                self._fail("the planner rejected the goal; is it active?")
            return
        if number <= self._canceled:
            # Stopped before this response; the planner may have begun to move.
            handle.cancel_goal_async()
        self._handles[number] = handle
        result = handle.get_result_async()
        result.add_done_callback(lambda done: self._on_result(number, goal, done.result()))

    def _on_result(self, number: int, goal: Any, wrapped: Any) -> None:
        self._handles.pop(number, None)
        # Other motions than the newest were replaced by it.
        if number not in (self._count, self._motion) or wrapped is None:
            return
        code = wrapped.result.error_code
        if wrapped.status == GoalStatus.STATUS_CANCELED:
            self._text = "stopped"
        elif code.val == MoveItErrorCodes.SUCCESS:
            self._text = code.message or _outcome(goal, wrapped.result)
        else:
            self._fail(code.message or f"failed with code {code.val}")

    def _fail(self, text: str) -> None:
        self._text = self.failure = text

    def _cancel(self) -> None:
        self._canceled = self._count
        for handle in self._handles.values():
            handle.cancel_goal_async()


def _outcome(goal: MoveGroup.Goal, result: MoveGroup.Result) -> str:
    """Return what a motion was, such as ``planned in 0.12 s: 2.4 s long``."""
    points = result.planned_trajectory.joint_trajectory.points
    length = f": {seconds(points[-1].time_from_start):.2f} s long" if points else ""
    planner = f" by {goal.request.planner_id}" if goal.request.planner_id else ""
    text = f"planned in {result.planning_time:.2f} s{planner}{length}"
    if goal.planning_options.plan_only:
        chosen = bool(goal.request.start_state.joint_state.name)
        return f"{text}, from the {'chosen' if chosen else 'present'} state"
    return f"executed; {text}"


def joint_constraints(joints: Mapping[str, float], tolerance: float = TOLERANCE) -> Constraints:
    """Return goal constraints for positions of joints.

    Args:
        joints: positions by joint [rad or m].
        tolerance: [rad or m].
    """
    return Constraints(
        joint_constraints=[
            JointConstraint(
                joint_name=name,
                position=position,
                tolerance_above=tolerance,
                tolerance_below=tolerance,
                weight=1.0,
            )
            for name, position in joints.items()
        ]
    )


def pose_constraints(
    link: str,
    frame: str,
    X_FL: Array,
    *,
    position: float = TOLERANCE,
    orientation: float | None = TOLERANCE,
) -> Constraints:
    """Return goal constraints for the pose of a link.

    Args:
        link: the link.
        frame: reference frame of the pose.
        X_FL: pose of the link in that frame, shape (4, 4).
        position: position tolerance, radius of a sphere [m].
        orientation: orientation tolerance about each axis [rad]; None for any orientation.
    """
    pose = pose_message(X_FL)
    at = PositionConstraint(link_name=link, weight=1.0)
    at.header.frame_id = frame
    at.constraint_region.primitives = [
        SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[position])
    ]
    at.constraint_region.primitive_poses = [Pose(position=pose.position)]
    constraints = Constraints(position_constraints=[at])
    if orientation is not None:
        oriented = OrientationConstraint(link_name=link, weight=1.0, orientation=pose.orientation)
        oriented.header.frame_id = frame
        oriented.absolute_x_axis_tolerance = orientation
        oriented.absolute_y_axis_tolerance = orientation
        oriented.absolute_z_axis_tolerance = orientation
        constraints.orientation_constraints = [oriented]
    return constraints
