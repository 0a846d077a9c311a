# SPDX-License-Identifier: Apache-2.0
"""Show "drawer": a Franka opens a drawer by its learned policy.

This client replaces a detector: it publishes the opening and velocity of the drawer, and the
position of the handle relative to the tool.
"""

from __future__ import annotations

import time

import numpy as np
import rclpy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger

from motion_nodes.ik.tool_goal import ArticulationIk
from motion_nodes.nodes.demo.client import ClientNode, DemoFindings
from motion_nodes.robot_setup.derived_robot import load_description
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.names import POLICY_CONTROLLER
from motion_nodes.typing import Array

POLICY = "franka_drawer"
"""Shipped policy that the show runs."""
HANDLE = np.array((0.72, 0.0, 0.62))
"""Handle of the closed drawer in the world [m]; the drawer opens towards -x."""
ROBOTS = ("franka:=franka", "cabinet:=cabinet@0.976,0,3.14159265")
"""The cabinet faces the robot, as in the task of the training."""
OPEN = 0.2
"""Opening that counts as success [m]."""
OPENING_TIME = 30.0
"""Simulated time within which the drawer has to be open [s]; late observations slow the policy."""
TIMEOUT = 300.0
"""Timeout in real time [s], for a paused simulation."""
CHECKS = ("drawer opened",)
"""Checks of a round, see :meth:`DemoFindings.conclude`."""
_DRAWER = "drawer_joint"


class DrawerClient(ClientNode):
    """Publishes the policy's observations of the drawer, and starts the policy."""

    def __init__(self, arm: str = "franka", cabinet: str = "cabinet") -> None:
        """Create the client; the names are the robots' namespaces."""
        super().__init__()
        self.opening, self.mode, self.now = float("nan"), "", 0.0
        self._velocity = 0.0
        self._ik = ArticulationIk(load_description(arm), "arm")
        controller = f"/{arm}/{POLICY_CONTROLLER}"
        self.subscribe(JointState, f"/{arm}/joint_states", self._on_arm, qos.STATES)
        self.subscribe(JointState, f"/{cabinet}/joint_states", self._on_cabinet, qos.STATES)
        self.subscribe(String, f"{controller}/mode", self._on_mode, qos.STATUS)
        self._terms = {
            name: self.node.create_publisher(
                Float64MultiArray, f"{controller}/observations/{name}", qos.STREAM
            )
            for name in ("drawer_position", "drawer_velocity", "handle_from_tool")
        }
        self._run = self.node.create_client(Trigger, f"{controller}/run", qos_profile=qos.SERVICES)

    @property
    def ready(self) -> bool:
        """Whether the arm holds the policy's default position."""
        return self.mode == "holding" and self._run.service_is_ready()

    def start(self, timeout: float = 10.0) -> str:
        """Start the policy; return why it was not started, as text."""
        answer, end = self._run.call_async(Trigger.Request()), time.monotonic() + timeout
        while not answer.done():
            if time.monotonic() > end or not self.spin(0.02):
                return "no response"
            rclpy.spin_once(self.node, timeout_sec=0.0)
        response = answer.result()
        return "" if response.success else str(response.message)

    def _on_arm(self, message: JointState) -> None:
        if not np.isfinite(self.opening):
            return
        tool = self._ik.tool_pose(dict(zip(message.name, message.position, strict=True)))[:3, 3]
        handle = HANDLE - (self.opening, 0.0, 0.0)
        self._send("drawer_position", np.array([self.opening]))
        self._send("drawer_velocity", np.array([self._velocity]))
        self._send("handle_from_tool", handle - tool)

    def _on_cabinet(self, message: JointState) -> None:
        i = list(message.name).index(_DRAWER)
        self.opening, self._velocity = message.position[i], message.velocity[i]
        self.now = stamp_ns(message) * 1e-9

    def _on_mode(self, message: String) -> None:
        self.mode = message.data

    def _send(self, name: str, values: Array) -> None:
        self._terms[name].publish(Float64MultiArray(data=values.tolist()))


def show_drawer(client: DrawerClient, findings: DemoFindings) -> None:
    """Start the policy, and wait until the drawer is open."""
    problem, begin = client.start(), client.now
    if not problem:
        client.wait(lambda: client.opening > OPEN or client.now > begin + OPENING_TIME, TIMEOUT)
    findings.check(
        not problem and client.opening > OPEN,
        f"drawer opened by {100.0 * client.opening:.0f} cm in {client.now - begin:.1f} s "
        f"({problem or client.mode}); more than {100.0 * OPEN:.0f} cm are required",
    )
    # The policy keeps the drawer open; there is nothing to repeat.
    client.guests.add("arm")
