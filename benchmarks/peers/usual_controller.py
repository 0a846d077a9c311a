# SPDX-License-Identifier: Apache-2.0
"""Peer of bench_control_loop.py: the joint controller as a node in the style of rclpy's tutorials.

``python peers/usual_controller.py RATE``: callbacks and a timer in a SingleThreadedExecutor, with
new messages per call. It uses the suite's core, without actions, diagnostics and lifecycle. Writes
the start times of its ticks [ns] to the file BENCH_TICKS.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from sensor_msgs.msg import JointState

from motion_nodes.core.control.joint_command import JointCommand
from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.robot.loader import load_robot

CONTROLLER = "joint_trajectory_controller"


class UsualController(Node):
    """A node with callbacks and a timer; records the start times of its ticks."""

    def __init__(self, rate: float) -> None:
        """Create a node with a timer of ``rate`` [Hz]."""
        super().__init__(CONTROLLER)
        robot = load_robot("franka")
        self.names = list(robot.joint_names)
        self.ticks: list[int] = []
        self.controller = ArticulationController(robot.limits)
        self.measured = np.full(len(self.names), np.nan)
        self.before = time.monotonic()
        self.create_subscription(JointState, "joint_states", self._on_state, 10)
        self.create_subscription(JointState, f"{CONTROLLER}/reference", self._on_reference, 10)
        self.publisher = self.create_publisher(JointState, "joint_command", 10)
        self.create_timer(1.0 / rate, self._tick)

    def _on_state(self, message: JointState) -> None:  # joints are in the robot's order
        self.measured = np.array(message.position)
        if not self.controller.ready:
            self.controller.reset(self.measured)

    def _on_reference(self, message: JointState) -> None:
        if self.controller.ready:
            self.controller.apply(JointCommand(names=message.name, positions=message.position))

    def _tick(self) -> None:
        self.ticks.append(time.monotonic_ns())
        now = time.monotonic()
        dt, self.before = now - self.before, now
        if not self.controller.ready:
            return
        reference = self.controller.step(dt, self.measured)
        message = JointState(
            name=self.names, position=reference.positions.tolist(),
            velocity=reference.velocities.tolist(), effort=reference.efforts.tolist(),
        )  # fmt: skip
        message.header.stamp = self.get_clock().now().to_msg()
        self.publisher.publish(message)


def main() -> None:
    """Spin the node until interrupted."""
    rclpy.init(args=[])
    node = UsualController(float(sys.argv[1]))
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    print("configured in", flush=True)
    try:
        executor.spin()
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    Path(os.environ["BENCH_TICKS"]).write_text(json.dumps(node.ticks))


if __name__ == "__main__":
    main()
