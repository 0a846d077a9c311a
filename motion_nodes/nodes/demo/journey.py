# SPDX-License-Identifier: Apache-2.0
"""Show "journey": the Jetbot drives a square while the Franka moves to its named states."""

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
"""Named states of the arm; those that the robot does not have are omitted."""
ARM_CHECKS = tuple(f"Franka reached '{name}'" for name in ARM_POSES)
"""Checks of a round, see :meth:`DemoFindings.conclude`."""
ARM_TOLERANCE = 0.01
"""Tolerance of named states [rad or m]."""


class DemoClient(BaseClient):
    """Endpoints of both robots and their newest messages."""

    def __init__(self, base: str = "jetbot", arm: str = "franka") -> None:
        """Create the client; ``base`` and ``arm`` are the robots' namespaces."""
        super().__init__(base)
        self.joints: dict[str, float] = {}
        arm_topic = f"/{arm}/{JOINT_CONTROLLER}/reference"
        self.subscribe(JointState, f"/{arm}/joint_states", self._on_arm, qos.NEWEST)
        self.subscribe(JointState, arm_topic, self._on_arm_command, qos.COMMANDS)
        self._arm = self.node.create_publisher(JointState, arm_topic, qos.STREAM)

    @property
    def ready(self) -> bool:
        """Whether states of both robots were received and their controllers have subscribed."""
        return self.base_ready and bool(self.joints) and self._arm.get_subscription_count() > 0

    def move(self, goal: dict[str, float]) -> None:
        """Command joint positions by name [rad or m]."""
        message = JointState(name=list(goal), position=list(goal.values()))
        message.header.frame_id = FRAME
        self._arm.publish(message)

    def _on_arm(self, message: JointState) -> None:
        self.joints = dict(zip(message.name, message.position, strict=False))

    def _on_arm_command(self, message: Any) -> None:
        if message.header.frame_id != FRAME:
            self.release("arm")


def journey(client: DemoClient, findings: DemoFindings) -> None:
    """Drive one square and move to the named states, and check both."""
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
            findings.check(False, "the journey timed out after 90 s")
            return
    square.check(findings)


def _there(client: DemoClient, goal: dict[str, float]) -> bool:
    now = [client.joints.get(joint, math.inf) for joint in goal]
    return arrived(list(goal.values()), now, ARM_TOLERANCE / 2)
