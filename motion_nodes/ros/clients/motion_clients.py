# SPDX-License-Identifier: Apache-2.0
"""Clients of actions that move a robot: FollowJointTrajectory and MoveGroup.

Client of a controller's FollowJointTrajectory action; thread-safe and non-blocking. rclpy's action
client is accessed in the executor only.

Client of a planner's MoveGroup action, for pose and joint goals; thread-safe and non-blocking.
rclpy's action client is accessed in the executor only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from action_msgs.msg import GoalStatus
from control_msgs.action import FollowJointTrajectory
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
from trajectory_msgs.msg import JointTrajectory

from motion_nodes.ros.clients.client_node import action_client
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.ros.messages.trajectory_messages import seconds
from motion_nodes.ros.node import MotionNode
from motion_nodes.typing import Array

ANSWER_TIMEOUT = 3.0
"""[s] Timeout of the controller's response and of its feedback, in wall time; feedback is not
expected while simulated time does not advance."""
Codes = FollowJointTrajectory.Result
TOLERANCE = 1e-3
"""Default tolerance of pose goals [m and rad]."""


class SentTrajectory:
    """A trajectory sent to a controller, and its status."""

    def __init__(self, message: JointTrajectory) -> None:
        self.message = message
        self.joints = tuple(message.joint_names)
        last = message.points[-1].time_from_start if message.points else None
        self.duration = 0.0 if last is None else seconds(last)
        """Time from the start to the last point [s]."""
        self.ended = threading.Event()
        self.code = Codes.SUCCESSFUL
        """Error code of the result; valid once ended."""
        self.status = GoalStatus.STATUS_UNKNOWN
        """Status of the goal; valid once ended."""
        self.text = ""
        """Error text of the result."""
        self.lost = ""
        """Why the connection to the controller is lost; empty if it is not."""
        self.measured: list[tuple[float, list[float]]] = []
        """Stamps [s] and measured joint positions [rad or m], from the controller's feedback."""
        self.delay = 0.0
        """Delay of its execution after its stamp, by the newest feedback [s]."""
        self.cancel_requested = False
        self.last_reply = time.monotonic()
        """Time of the last response or feedback on ``time.monotonic()`` [s]."""
        self.discovering = False
        """Whether it waits for the discovery of the action server."""
        self.accepted = False
        self.handle: Any = None
        """Of rclpy's client; None until the goal is accepted."""

    @property
    def succeeded(self) -> bool:
        """Whether the controller executed it to the end."""
        ok: bool = self.status == GoalStatus.STATUS_SUCCEEDED and self.code == Codes.SUCCESSFUL
        return ok


class TrajectoryClient:
    """Client of one controller."""

    def __init__(self, node: MotionNode[Any], jobs: ExecutorQueue, controller: str) -> None:
        """Create the client.

        Args:
            node: the node.
            jobs: queue of the node's executor.
            controller: node name of the controller.
        """
        self._node = node
        self._jobs = jobs
        self.action = f"{controller}/follow_joint_trajectory"
        self._client = action_client(node, FollowJointTrajectory, self.action)

    @property
    def ready(self) -> bool:
        """Whether the action server is available."""
        return bool(self._client.server_is_ready())

    def send(self, message: JointTrajectory) -> SentTrajectory:
        """Send a trajectory, without waiting for its acceptance."""
        sent = SentTrajectory(message)
        self._jobs.submit(lambda: self._send(sent))
        return sent

    def cancel(self, sent: SentTrajectory) -> None:
        """Cancel a trajectory, even before it is accepted."""
        sent.cancel_requested = True
        self._jobs.submit(lambda: self._cancel(sent))

    def poll(self, sent: SentTrajectory) -> bool:
        """Check timeouts, and return whether a trajectory has ended or timed out."""
        if sent.discovering:
            self._discover(sent)
        elif not sent.ended.is_set():
            if sent.accepted and self._node.time_stands and self.ready:
                # No feedback is expected while simulated time does not advance.
                sent.last_reply = time.monotonic()
            elif time.monotonic() - sent.last_reply > ANSWER_TIMEOUT:
                what = "feedback" if sent.accepted else "response"
                sent.lost = f"no {what} of controller {self.action} for {ANSWER_TIMEOUT:g} s"
                self.cancel(sent)
                sent.ended.set()
        return sent.ended.is_set()

    def _discover(self, sent: SentTrajectory) -> None:
        if sent.cancel_requested:
            sent.ended.set()
        elif self.ready:
            sent.discovering = False
            self._jobs.submit(lambda: self._send(sent))
        elif time.monotonic() - sent.last_reply > ANSWER_TIMEOUT:
            sent.lost = f"action {self.action} is not available; is the controller active?"
            sent.ended.set()

    def record(self, sent: SentTrajectory, positions: list[float]) -> None:
        """Record measured joint positions of now, in addition to the controller's feedback.

        Args:
            sent: the trajectory.
            positions: of its joints [rad or m].
        """
        now = self._node.now_ns() * 1e-9
        if not sent.measured or now > sent.measured[-1][0]:
            sent.measured.append((now, positions))

    def destroy(self) -> None:
        """Destroy the client."""
        self._client.destroy()

    # ---- in the executor

    def _send(self, sent: SentTrajectory) -> None:
        if sent.cancel_requested:
            sent.ended.set()
            return
        if not self._client.server_is_ready():
            sent.discovering = True
            return
        goal = FollowJointTrajectory.Goal(trajectory=sent.message)
        future = self._client.send_goal_async(
            goal, lambda message: _on_feedback(sent, message.feedback)
        )
        future.add_done_callback(lambda done: self._on_response(sent, done.result()))

    def _on_response(self, sent: SentTrajectory, handle: Any) -> None:
        sent.last_reply = time.monotonic()
        if not handle.accepted:
            sent.lost = f"controller {self.action} rejected the trajectory; is it active?"
            sent.ended.set()
            return
        sent.accepted, sent.handle = True, handle
        handle.get_result_async().add_done_callback(lambda done: _on_result(sent, done.result()))
        if sent.cancel_requested:
            self._cancel(sent)

    def _cancel(self, sent: SentTrajectory) -> None:
        # Also of a trajectory that counts as lost: the controller may still execute it.
        if sent.handle is not None and sent.status == GoalStatus.STATUS_UNKNOWN:
            sent.handle.cancel_goal_async()


def _on_feedback(sent: SentTrajectory, feedback: Any) -> None:
    sent.last_reply = time.monotonic()
    begin = seconds(sent.message.header.stamp)
    if begin > 0.0:
        done = seconds(feedback.desired.time_from_start)
        sent.delay = stamp_ns(feedback) * 1e-9 - begin - done
    if list(feedback.joint_names) == list(sent.joints):
        sent.measured.append((stamp_ns(feedback) * 1e-9, list(feedback.actual.positions)))


def _on_result(sent: SentTrajectory, wrapped: Any) -> None:
    if wrapped is not None:
        sent.status = wrapped.status
        sent.code = wrapped.result.error_code
        sent.text = wrapped.result.error_string
    sent.ended.set()


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

    def move(
        self,
        group: str,
        constraints: Constraints,
        *,
        plan_only: bool,
        **fields: Any,
    ) -> None:
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
