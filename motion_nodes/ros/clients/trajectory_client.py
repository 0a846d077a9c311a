# SPDX-License-Identifier: Apache-2.0
"""Client of a controller's FollowJointTrajectory action; thread-safe and non-blocking.

rclpy's action client is accessed in the executor only.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from action_msgs.msg import GoalStatus
from control_msgs.action import FollowJointTrajectory
from trajectory_msgs.msg import JointTrajectory

from motion_nodes.ros.clients.action_clients import action_client
from motion_nodes.ros.concurrency.executor_queue import ExecutorQueue
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.trajectory_messages import seconds
from motion_nodes.ros.node import MotionNode

ANSWER_TIMEOUT = 3.0
"""[s] Timeout of the controller's response and of its feedback, in wall time; feedback is not
expected while simulated time does not advance."""

Codes = FollowJointTrajectory.Result


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
        self._handle: Any = None

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
        sent.accepted, sent._handle = True, handle
        handle.get_result_async().add_done_callback(lambda done: _on_result(sent, done.result()))
        if sent.cancel_requested:
            self._cancel(sent)

    def _cancel(self, sent: SentTrajectory) -> None:
        # Also of a trajectory that counts as lost: the controller may still execute it.
        if sent._handle is not None and sent.status == GoalStatus.STATUS_UNKNOWN:
            sent._handle.cancel_goal_async()


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
