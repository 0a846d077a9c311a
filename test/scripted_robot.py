# SPDX-License-Identifier: Apache-2.0
"""The driver of a robot that does what it is told, except where a test blocks a joint."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import numpy as np
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from ros_processes import BEST_EFFORT, RELIABLE
from sensor_msgs.msg import JointState


class ScriptedRobot:
    """Publishes joint_states in wall time at 100 Hz from a thread of its own; ends with close."""

    def __init__(self, home: Mapping[str, float]) -> None:
        self.q = dict(home)
        self.blocked: dict[str, tuple[float, float]] = {}
        """Range that a joint cannot leave, as if something were in its way."""
        self._targets = dict(home)
        self._node = Node("test_scripted_robot", use_global_arguments=False)
        self._out = self._node.create_publisher(JointState, "/joint_states", RELIABLE)
        self._node.create_subscription(JointState, "/joint_command", self._hear, BEST_EFFORT)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scripted robot")
        self._thread.start()

    def close(self) -> None:
        """Leave the graph."""
        self._stop.set()
        self._thread.join()
        self._executor.shutdown()
        self._node.destroy_node()

    def _hear(self, message: JointState) -> None:
        for name, position in zip(message.name, message.position, strict=True):
            if np.isfinite(position):
                self._targets[name] = position

    def _run(self) -> None:
        before = time.monotonic()
        due = before
        while not self._stop.is_set():
            self._executor.spin_once(timeout_sec=max(due - time.monotonic(), 0.0))
            now = time.monotonic()
            if now >= due:
                self._publish(max(now - before, 1e-3))
                before, due = now, max(due + 0.01, now)

    def _publish(self, dt: float) -> None:
        message = JointState(name=list(self.q))
        for name, target in self._targets.items():
            lower, upper = self.blocked.get(name, (-np.inf, np.inf))
            q = float(min(max(target, lower), upper))
            message.position.append(q)
            message.velocity.append((q - self.q[name]) / dt)
            self.q[name] = q
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._out.publish(message)
