# SPDX-License-Identifier: Apache-2.0
"""Sends trajectories to a controller's FollowJointTrajectory action and watches them.

May be used from any thread; what touches rclpy's client runs in the executor, and nobody waits
there.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from action_msgs.msg import GoalStatus
from control_msgs.action import FollowJointTrajectory
from trajectory_msgs.msg import JointTrajectory

from motion_nodes.ros.clients.action_clients import action_client
from motion_nodes.ros.concurrency.executor_queue import ExecutorJobs
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.trajectory_messages import seconds
from motion_nodes.ros.node import MotionNode

ANSWER_TIMEOUT = 3.0
"""[s] Wall time in which a controller accepts or rejects a trajectory, and sends feedback while the
time of ROS goes on."""

Codes = FollowJointTrajectory.Result


class SentTrajectory:
    """A trajectory that was sent, and what became of it."""

    def __init__(self, message: JointTrajectory) -> None:
        self.message = message
        self.joints = tuple(message.joint_names)
        last = message.points[-1].time_from_start if message.points else None
        self.duration = 0.0 if last is None else seconds(last)
        """From its start to its last point [s]."""
        self.ended = threading.Event()
        self.code = Codes.SUCCESSFUL
        """The controller's error code; counts once it has ended."""
        self.status = GoalStatus.STATUS_UNKNOWN
        self.text = ""
        """The controller's words, or what went wrong on the way to it."""
        self.lost = ""
        """Why nothing is heard of the controller; empty as long as it answers."""
        self.heard: list[tuple[float, list[float]]] = []
        """Time [s] and measured positions of the joints, from the controller's feedback."""
        self.cancel_wanted = False
        self.heard_at = time.monotonic()
        self.undiscovered = False
        """Whether it waits for the controller to be found, which takes a moment after a start."""
        self.accepted = False
        self._handle: Any = None

    @property
    def succeeded(self) -> bool:
        """Whether the controller led it to its end."""
        ok: bool = self.status == GoalStatus.STATUS_SUCCEEDED and self.code == Codes.SUCCESSFUL
        return ok


class TrajectoryClient:
    """The client of one controller."""

    def __init__(self, node: MotionNode[Any], jobs: ExecutorJobs, controller: str) -> None:
        """Talk to the controller node of that name."""
        self._node = node
        self._jobs = jobs
        self.action = f"{controller}/follow_joint_trajectory"
        self._client = action_client(node, FollowJointTrajectory, self.action)

    @property
    def ready(self) -> bool:
        """Whether the controller is there."""
        return bool(self._client.server_is_ready())

    def send(self, message: JointTrajectory) -> SentTrajectory:
        """Send a trajectory and return at once."""
        sent = SentTrajectory(message)
        self._jobs.ask(lambda: self._send(sent))
        return sent

    def cancel(self, sent: SentTrajectory) -> None:
        """Have a trajectory end before its time, also where it is not accepted yet."""
        sent.cancel_wanted = True
        self._jobs.ask(lambda: self._cancel(sent))

    def look(self, sent: SentTrajectory) -> bool:
        """Return whether it has ended; it has, too, once the controller is silent for too long."""
        if sent.undiscovered:
            self._look_for_controller(sent)
        elif not sent.ended.is_set():
            if sent.accepted and self._node.time_stands and self.ready:
                # A controller whose time stands has nothing to report.
                sent.heard_at = time.monotonic()
            elif time.monotonic() - sent.heard_at > ANSWER_TIMEOUT:
                what = "is silent" if sent.accepted else "did not answer"
                sent.lost = f"controller {self.action} {what} for {ANSWER_TIMEOUT:g} s"
                self.cancel(sent)
                sent.ended.set()
        return sent.ended.is_set()

    def _look_for_controller(self, sent: SentTrajectory) -> None:
        if sent.cancel_wanted:
            sent.ended.set()
        elif self.ready:
            sent.undiscovered = False
            self._jobs.ask(lambda: self._send(sent))
        elif time.monotonic() - sent.heard_at > ANSWER_TIMEOUT:
            sent.lost = f"there is no action {self.action}; is the controller running and active?"
            sent.ended.set()

    def heard(self, sent: SentTrajectory, positions: list[float]) -> None:
        """Note where its joints are now, beside what the controller says in its feedback."""
        now = self._node.now_ns() * 1e-9
        if not sent.heard or now > sent.heard[-1][0]:
            sent.heard.append((now, positions))

    def destroy(self) -> None:
        """Give the client up."""
        self._client.destroy()

    # ---- in the executor

    def _send(self, sent: SentTrajectory) -> None:
        if not self._client.server_is_ready():
            sent.undiscovered = True
            return
        goal = FollowJointTrajectory.Goal(trajectory=sent.message)
        future = self._client.send_goal_async(goal, lambda message: _hear(sent, message.feedback))
        future.add_done_callback(lambda done: self._answered(sent, done.result()))

    def _answered(self, sent: SentTrajectory, handle: Any) -> None:
        sent.heard_at = time.monotonic()
        if not handle.accepted:
            sent.lost = f"controller {self.action} rejected the trajectory; is it active?"
            sent.ended.set()
            return
        sent.accepted, sent._handle = True, handle
        handle.get_result_async().add_done_callback(lambda done: _end(sent, done.result()))
        if sent.cancel_wanted:
            self._cancel(sent)

    def _cancel(self, sent: SentTrajectory) -> None:
        if sent._handle is not None and not sent.ended.is_set():
            sent._handle.cancel_goal_async()


def _hear(sent: SentTrajectory, feedback: Any) -> None:
    sent.heard_at = time.monotonic()
    if list(feedback.joint_names) == list(sent.joints):
        when = stamp_ns(feedback) * 1e-9
        sent.heard.append((when, list(feedback.actual.positions)))


def _end(sent: SentTrajectory, wrapped: Any) -> None:
    if wrapped is not None:
        sent.status = wrapped.status
        sent.code = wrapped.result.error_code
        sent.text = wrapped.result.error_string
    sent.ended.set()
