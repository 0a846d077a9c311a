# SPDX-License-Identifier: Apache-2.0
"""Link of a policy in another process, such as LeRobot's, to an arm of a running suite.

Actions are streamed to the joint controller, which follows them within the limits of velocity,
acceleration and jerk; before that, the kinematics service checks the path for collisions with the
planning scene. The link has its own middleware context and thread, and handles no signals.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import rclpy
from moveit_msgs.srv import GetStateValidity
from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState

from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.concurrency.rclpy_internals import LeanExecutor
from motion_nodes.ros.environment import init_arguments
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.names import JOINT_CONTROLLER
from motion_nodes.ros.stop_latch import StopLatch

SENDER = "lerobot"
"""Name of the stream in the controller's reports."""
MAX_AGE = 0.5
"""Max age of measured positions [s]."""
POLL_PERIOD = 0.001
"""[s]"""


class LinkFailed(MotionError):
    """No response from the suite within a timeout."""


class ActionLink:
    """Measured positions, collision checks and references of one robot; not thread-safe."""

    def __init__(self, namespace: str, group: str, joints: Sequence[str]) -> None:
        """Create the endpoints and start their thread.

        Args:
            namespace: of the robot; may be empty.
            group: that moves; only its collisions are checked.
            joints: that are read and commanded.
        """
        prefix = f"/{namespace}" if namespace else ""
        self._group, self._joints = group, tuple(joints)
        self._positions: dict[str, float] = {}
        self._heard = dict.fromkeys(self._joints, -math.inf)
        """Time of the newest position of each joint, on ``time.monotonic()`` [s]."""
        self._context = rclpy.Context()
        rclpy.init(
            args=init_arguments([]),
            context=self._context,
            signal_handler_options=SignalHandlerOptions.NO,
        )
        self._node = Node(
            f"{SENDER}_{os.getpid()}", context=self._context, use_global_arguments=False
        )
        self._jobs = ExecutorQueue(self._node)
        self._latch = StopLatch(self._node)
        self._node.create_subscription(
            JointState, f"{prefix}/joint_states", self._on_state, qos.STATES
        )
        self._references = self._node.create_publisher(
            JointState, f"{prefix}/{JOINT_CONTROLLER}/reference", qos.STREAM
        )
        self._validity = self._node.create_client(
            GetStateValidity, f"{prefix}/check_state_validity", qos_profile=qos.SERVICES
        )
        self._executor = LeanExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._executor.spin, name="spin", daemon=True)
        self._thread.start()

    def wait(self, timeout: float, *, checked: bool) -> None:
        """Wait until the robot is available.

        Args:
            timeout: max time [s].
            checked: also wait for the service that checks collisions.

        Raises:
            LinkFailed: timeout; names the missing endpoints.
        """
        end = time.monotonic() + timeout
        while True:
            missing = self._missing(checked=checked)
            if not missing:
                return
            if time.monotonic() > end:
                raise LinkFailed(f"no {missing} for {timeout:g} s; is `motion up` running?")
            time.sleep(0.02)

    @property
    def stop_reason(self) -> str:
        """Why commands are refused; empty if they are not."""
        return self._latch.reason

    def positions(self) -> Mapping[str, float]:
        """Return measured positions by joint [rad or m].

        Raises:
            LinkFailed: they are unknown or old.
        """
        joint, age = self._oldest()
        if age > MAX_AGE:
            raise LinkFailed(f"the robot has reported no position of {joint} for {age:.1f} s")
        return {name: self._positions[name] for name in self._joints}

    def problem(self, configurations: NDArray[Any], timeout: float) -> str:
        """Return why the first invalid configuration is invalid; empty if all are valid.

        Args:
            configurations: of the link's joints [rad or m], shape (k, n).
            timeout: max time for all responses [s].

        Raises:
            LinkFailed: no response in time.
        """
        answers: dict[int, Any] = {}
        requests = [self._request(q.tolist()) for q in configurations]

        def note(index: int, done: Any) -> None:
            answers[index] = done.result()

        def send() -> None:
            for index, request in enumerate(requests):
                future = self._validity.call_async(request)
                future.add_done_callback(lambda done, i=index: note(i, done))

        self._jobs.submit(send)
        end = time.monotonic() + timeout
        while len(answers) < len(requests):
            if time.monotonic() > end:
                raise LinkFailed(f"collisions could not be checked within {timeout:g} s")
            time.sleep(POLL_PERIOD)
        for index in range(len(requests)):
            if not answers[index].valid:
                return _words(answers[index])
        return ""

    def send(self, position: NDArray[Any], velocity: NDArray[Any]) -> None:
        """Stream a reference [rad or m, rad/s or m/s], shape (n,) each.

        Raises:
            InvalidCommand: the suite is stopped.
        """
        if self.stop_reason:
            raise InvalidCommand(self.stop_reason)
        message = JointState(name=list(self._joints))
        message.header.frame_id = SENDER
        set_stamp(message, self._node.get_clock().now().nanoseconds)
        message.position, message.velocity = position.tolist(), velocity.tolist()
        self._references.publish(message)

    def close(self) -> None:
        """End the thread and destroy the endpoints; the arm comes to rest at its last target."""
        if self._context.ok():
            self._latch.end()
            self._executor.shutdown()
            self._thread.join(1.0)
            self._node.destroy_node()
            rclpy.try_shutdown(context=self._context)

    # ---- inside

    def _on_state(self, message: JointState) -> None:
        now = time.monotonic()
        for name, value in zip(message.name, message.position, strict=False):
            if name in self._heard and math.isfinite(value):
                self._positions[name], self._heard[name] = float(value), now

    def _oldest(self) -> tuple[str, float]:
        """Return the joint whose position is the oldest, and its age [s]."""
        joint = min(self._joints, key=self._heard.__getitem__)
        return joint, time.monotonic() - self._heard[joint]

    def _missing(self, *, checked: bool) -> str:
        if self._oldest()[1] > MAX_AGE:
            absent = [name for name in self._joints if name not in self._positions]
            return f"joint_states of {', '.join(absent)}" if absent else "new joint_states"
        if not self._references.get_subscription_count():
            return JOINT_CONTROLLER
        return "check_state_validity" if checked and not self._validity.service_is_ready() else ""

    def _request(self, position: list[float]) -> Any:
        request = GetStateValidity.Request(group_name=self._group)
        state = request.robot_state
        state.is_diff = True
        state.joint_state.name = list(self._joints)
        state.joint_state.position = position
        return request


def _words(answer: Any) -> str:
    pairs = {f"{c.contact_body_1} and {c.contact_body_2}" for c in answer.contacts}
    return f"collision of {', '.join(sorted(pairs))}" if pairs else "the state is not valid"
