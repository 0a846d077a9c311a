# SPDX-License-Identifier: Apache-2.0
"""The peer of the benchmarks: the same loops as rclpy's tutorials write them.

``python benchmarks/usual_way.py sim|controller|relay --rate HZ``: a node with subscription
callbacks and a timer, spun by a SingleThreadedExecutor, that makes its messages anew. The work
inside is the suite's own (the mock world, the articulation controller's core), so that only the
way of running it differs. The peer does less beside it: no /clock, no ground truth, no
diagnostics, no lifecycle, wall time.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from sensor_msgs.msg import JointState

from motion_nodes.control.joint_command import JointCommand
from motion_nodes.control.joint_controller import ArticulationController
from motion_nodes.model.loader import load_robot
from motion_nodes.sim.drive_targets import JointTargets
from motion_nodes.sim.mock import MockWorld
from motion_nodes.sim.placement import RobotPlacement


class UsualNode(Node):
    """A node with a timer; it notes when its ticks began."""

    def __init__(self, name: str, rate: float) -> None:
        """Begin ticking at ``rate`` [Hz]."""
        super().__init__(name)
        self.robot = load_robot("franka")
        self.ticks: list[int] = []
        self.set_up()
        self.create_timer(1.0 / rate, self._note_and_tick)

    def set_up(self) -> None:
        """Create what the node needs."""
        raise NotImplementedError

    def tick(self) -> None:
        """Do one step of work."""
        raise NotImplementedError

    def _note_and_tick(self) -> None:
        self.ticks.append(time.monotonic_ns())
        self.tick()


class UsualSim(UsualNode):
    """The mock world behind joint_command and joint_states."""

    def set_up(self) -> None:
        """Create world and topics."""
        self.world = MockWorld([RobotPlacement(self.robot, "franka", np.eye(4))])
        self.began = time.monotonic()
        self.create_subscription(JointState, "joint_command", self.hear_command, 10)
        self.publisher = self.create_publisher(JointState, "joint_states", 10)

    def hear_command(self, message: JointState) -> None:
        """Take a command."""
        names = list(self.robot.joint_names)
        where = [names.index(name) for name in message.name]
        channels = []
        for values in (message.position, message.velocity, message.effort):
            full = np.full(len(names), np.nan)
            if len(values):
                full[where] = values
            channels.append(full)
        self.world.command("franka", JointTargets(*channels))

    def tick(self) -> None:
        """Advance to where the wall clock is, and publish."""
        due = time.monotonic() - self.began - self.world.time
        self.world.step(int(due / self.world.time_step + 1e-6))
        sample = self.world.state("franka")
        message = JointState()
        message.header.stamp = self.get_clock().now().to_msg()
        message.name = list(self.robot.joint_names)
        message.position = sample.position.tolist()
        message.velocity = sample.velocity.tolist()
        message.effort = sample.effort.tolist()
        self.publisher.publish(message)


class UsualController(UsualNode):
    """The articulation controller's core."""

    def set_up(self) -> None:
        """Create core and topics."""
        self.controller = ArticulationController(self.robot.limits)
        self.measured = np.full(len(self.robot.joint_names), np.nan)
        self.before = time.monotonic()
        self.create_subscription(JointState, "joint_states", self.hear_state, 10)
        self.create_subscription(
            JointState, "joint_trajectory_controller/reference", self.hear_reference, 10
        )
        self.publisher = self.create_publisher(JointState, "joint_command", 10)

    def hear_state(self, message: JointState) -> None:
        """Take a measured state."""
        position = dict(zip(message.name, message.position, strict=True))
        self.measured = np.array([position[name] for name in self.robot.joint_names])
        if not self.controller.ready:
            self.controller.reset(self.measured)

    def hear_reference(self, message: JointState) -> None:
        """Take a command."""
        if self.controller.ready:
            self.controller.apply(
                JointCommand(names=message.name, positions=message.position or None)
            )

    def tick(self) -> None:
        """Lead the joints one step on."""
        now = time.monotonic()
        dt, self.before = now - self.before, now
        if not self.controller.ready:
            return
        reference = self.controller.step(dt, self.measured)
        message = JointState()
        message.header.stamp = self.get_clock().now().to_msg()
        message.name = list(self.robot.joint_names)
        message.position = reference.positions.tolist()
        message.velocity = reference.velocities.tolist()
        message.effort = reference.efforts.tolist()
        self.publisher.publish(message)


class UsualRelay(UsualNode):
    """Hands the newest reference on: a control loop without a controller."""

    def set_up(self) -> None:
        """Create topics."""
        self.newest: JointState | None = None
        self.create_subscription(
            JointState, "joint_trajectory_controller/reference", self.hear_reference, 10
        )
        self.publisher = self.create_publisher(JointState, "joint_command", 10)

    def hear_reference(self, message: JointState) -> None:
        """Keep the newest."""
        self.newest = message

    def tick(self) -> None:
        """Send it on."""
        if self.newest is None:
            return
        message = JointState()
        message.header.stamp = self.get_clock().now().to_msg()
        message.name = self.newest.name
        message.position = self.newest.position
        self.publisher.publish(message)


NODES = {"sim": UsualSim, "controller": UsualController, "relay": UsualRelay}


def main() -> None:
    """Spin one node until interrupted; then write when its ticks began, where a file is given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("node", choices=NODES)
    parser.add_argument("--rate", type=float, required=True, help="[Hz]")
    parser.add_argument("--ticks", type=Path, help="file for the beginnings of the ticks [ns]")
    options = parser.parse_args()
    rclpy.init(args=[])
    node = NODES[options.node](f"usual_{options.node}", options.rate)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    print("ready", flush=True)
    try:
        executor.spin()
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    if options.ticks is not None:
        options.ticks.write_text(json.dumps(node.ticks))


if __name__ == "__main__":
    main()
