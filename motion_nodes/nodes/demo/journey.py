# SPDX-License-Identifier: Apache-2.0
"""The journey: the Jetbot drives around a square while the Franka visits its named poses."""

from __future__ import annotations

import math
import time
from typing import Any

from sensor_msgs.msg import JointState

from motion_nodes.model.loader import load_robot
from motion_nodes.nodes.demo.base import BaseClient, Square
from motion_nodes.nodes.demo.client import FRAME, DemoFindings
from motion_nodes.nodes.demo.tour import arrived
from motion_nodes.ros import qos
from motion_nodes.ros.names import JOINT_CONTROLLER

ARM_POSES = ("extended", "transport", "ready")
"""Named states that the arm visits; those that the robot has."""
ARM_TOLERANCE = 0.01
"""[rad or m]"""


class DemoClient(BaseClient):
    """The endpoints of the demo and the newest messages on them."""

    def __init__(self, base: str = "jetbot", arm: str = "franka") -> None:
        """Create the client; ``base`` and ``arm`` are the robots' namespaces."""
        super().__init__(base)
        self.joints: dict[str, float] = {}
        arm_topic = f"/{arm}/{JOINT_CONTROLLER}/reference"
        listen = self.hear
        listen(JointState, f"/{arm}/joint_states", self._hear_arm, qos.NEWEST)
        listen(JointState, arm_topic, self._hear_arm_command, qos.COMMANDS)
        self._arm = self.node.create_publisher(JointState, arm_topic, qos.STREAM)

    @property
    def ready(self) -> bool:
        """True when both robots speak and their controllers listen."""
        return self.base_ready and bool(self.joints) and self._arm.get_subscription_count() > 0

    def move(self, goal: dict[str, float]) -> None:
        """Send joint positions."""
        message = JointState(name=list(goal), position=list(goal.values()))
        message.header.frame_id = FRAME
        self._arm.publish(message)

    def _hear_arm(self, message: JointState) -> None:
        self.joints = dict(zip(message.name, message.position, strict=False))

    def _hear_arm_command(self, message: Any) -> None:
        if message.header.frame_id != FRAME:
            self.welcome("arm")


def journey(client: DemoClient, findings: DemoFindings) -> None:
    """Drive one square and visit the arm's poses, and check both."""
    robot = load_robot("franka")
    poses = [name for name in ARM_POSES if name in robot.state_names]
    square = Square(client)
    goals = [dict(zip(robot.joint_names, map(float, robot.named_state(n)), strict=True))
             for n in poses]  # fmt: skip
    goal: dict[str, float] = {}
    sent = deadline = 0.0
    begin = time.monotonic()
    while not (square.done and not goals and not goal):
        square.step()
        now = time.monotonic()
        if "arm" in client.guests:
            goals, goal = [], {}
        if not goal and goals:
            goal, sent = goals.pop(0), 0.0
            deadline = now + 15.0
        if goal and now - sent > 1.0:
            client.move(goal)
            sent = now
        if goal and (_there(client, goal) or now > deadline):
            worst = max(abs(goal[j] - client.joints[j]) for j in goal)
            findings.check(
                worst <= ARM_TOLERANCE,
                f"Franka reached '{poses[len(poses) - len(goals) - 1]}' within {worst:.4f} rad",
            )
            goal = {}
        if not client.spin(0.05):
            return
        if now - begin > 90.0:
            findings.check(False, "the journey did not end within 90 s")
            return
    square.check(findings)


def _there(client: DemoClient, goal: dict[str, float]) -> bool:
    now = [client.joints.get(joint, math.inf) for joint in goal]
    return arrived(list(goal.values()), now, ARM_TOLERANCE / 2)
