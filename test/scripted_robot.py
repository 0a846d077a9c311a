# SPDX-License-Identifier: Apache-2.0
"""A robot that follows its commands, except for joints that a test blocks."""

import math
import threading
import time
from collections import deque
from collections.abc import Mapping

import numpy as np
from rclpy.node import Node
from ros_client import BEST_EFFORT, RELIABLE
from sensor_msgs.msg import JointState

from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription

MAX_SPEED = 3.0
"""Of joints [rad/s or m/s], above the velocity limits, so that it counts only after a block."""


class ScriptedRobot:
    """Publishes joint_states in wall time at 100 Hz in its own thread, until ``close``."""

    def __init__(self, home: Mapping[str, float]) -> None:
        self.q = dict(home)
        self.blocked: dict[str, tuple[float, float]] = {}
        """Ranges to which joints are blocked [rad or m]."""
        self.frozen = False
        """Whether the last measurement is repeated with new stamps."""
        self.silent = False
        """Whether nothing is published."""
        self.delay = 0.0
        """Time by which states are published late [s]."""
        self.held = False
        """Whether states are kept back, to be published later, twice as fast as measured."""
        self._late: deque[tuple[float, JointState]] = deque()
        self.wraps: frozenset[str] = frozenset()
        """Joints whose positions are reported in [-pi, pi)."""
        self.offsets: dict[str, float] = {}
        """Errors of encoders [rad or m]."""
        self._velocities = dict.fromkeys(home, 0.0)
        self._targets = dict(home)
        self._node = Node("test_scripted_robot", use_global_arguments=False)
        self._out = self._node.create_publisher(JointState, "/joint_states", RELIABLE)
        # All pending commands are taken at once, so that the robot does not lag behind.
        self._commands = PolledSubscription(self._node, JointState, "/joint_command", BEST_EFFORT)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scripted robot")
        self._thread.start()

    def close(self) -> None:
        """Leave the graph."""
        self._stop.set()
        self._thread.join()
        self._node.destroy_node()

    def _hear(self, message: JointState) -> None:
        for name, position in zip(message.name, message.position, strict=True):
            if name in self.q and abs(position) < 1e6:
                self._targets[name] = position

    def _run(self) -> None:
        before = time.monotonic()
        due = before
        while not self._stop.is_set():
            time.sleep(max(due - time.monotonic(), 0.0))
            for command in self._commands.all():
                self._hear(command)
            now = time.monotonic()
            if now >= due:
                self._publish(max(now - before, 1e-3))
                before, due = now, max(due + 0.01, now)

    def _publish(self, dt: float) -> None:
        message = JointState(name=list(self.q))
        for name, target in self._targets.items():
            lower, upper = self.blocked.get(name, (-np.inf, np.inf))
            if not self.frozen:
                within = MAX_SPEED * dt
                q = min(max(target, self.q[name] - within), self.q[name] + within)
                q = float(min(max(q, lower), upper))
                self._velocities[name] = (q - self.q[name]) / dt
                self.q[name] = q
            reported = self.q[name] + self.offsets.get(name, 0.0)
            if name in self.wraps:
                reported = (reported + math.pi) % math.tau - math.pi
            message.position.append(reported)
            message.velocity.append(self._velocities[name])
        message.header.stamp = self._node.get_clock().now().to_msg()
        if not self.silent:
            self._late.append((time.monotonic() + self.delay, message))
        for _ in range(0 if self.held else 2):
            if self._late and self._late[0][0] <= time.monotonic():
                self._out.publish(self._late.popleft()[1])
