# SPDX-License-Identifier: Apache-2.0
"""Shows of learned policies: "walk" and "drawer".

In "walk" a Go2 walks by twists, with a published policy. Velocities and tilt are checked against
the simulation's ground truth. When another client (the browser page, a teleop) commands the robot,
the demo releases it.

In "drawer" a Franka opens a drawer by its learned policy. This client replaces a detector: it
publishes the opening and velocity of the drawer, and the position of the handle relative to the
tool.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import rclpy
from geometry_msgs.msg import TwistStamped
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger

from motion_nodes.core.ik.tool_goal import ArticulationIk
from motion_nodes.core.robot.loader import load_description
from motion_nodes.nodes.demo.arm import FRAME, ClientNode, DemoFindings
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.rotations import matrix_of
from motion_nodes.ros.names import POLICY_CONTROLLER
from motion_nodes.typing import Array

WALK_POLICY = "go2_walk"
"""Published policy that the show runs."""
TOLERANCE = np.array((0.15, 0.15, 0.25))
"""Max error of the mean velocity: vx, vy [m/s], wz [rad/s]."""
MAX_TILT = 0.35
"""Max angle between the body's z axis and the vertical [rad]."""
SETTLING_TIME = 1.5
"""Settling time after each new command, excluded from the checks [s]."""
_PERIOD = 0.05
"""Publish period of the twist [s]."""
_REST = 1.5
"""Time without a command after the last segment [s]; the policy is replaced by holding later."""
DRAWER_POLICY = "franka_drawer"
"""Shipped policy that the show runs."""
HANDLE = np.array((0.72, 0.0, 0.62))
"""Handle of the closed drawer in the world [m]; the drawer opens towards -x."""
DRAWER_ROBOTS = ("franka:=franka", "cabinet:=cabinet@0.976,0,3.14159265")
"""The cabinet faces the robot, as in the task of the training."""
OPEN = 0.2
"""Opening that counts as success [m]."""
OPENING_TIME = 30.0
"""Simulated time within which the drawer has to be open [s]; late observations slow the policy."""
TIMEOUT = 300.0
"""Timeout in real time [s], for a paused simulation."""
DRAWER_CHECKS = ("drawer opened",)
"""Checks of a round, see :meth:`DemoFindings.conclude`."""
_DRAWER = "drawer_joint"


class WalkSegment(NamedTuple):
    """A constant command."""

    text: str
    twist: tuple[float, float, float]
    """vx, vy [m/s], wz [rad/s]."""
    duration: float
    """[s]"""


SEGMENTS = (
    WalkSegment("forward", (0.6, 0.0, 0.0), 4.0),
    WalkSegment("in a curve", (0.5, 0.0, 0.7), 5.0),
    WalkSegment("sideways", (0.0, 0.3, 0.0), 4.0),
    WalkSegment("backward", (-0.4, 0.0, 0.0), 3.0),
    WalkSegment("on the spot", (0.0, 0.0, 0.9), 4.0),
)
WALK_CHECKS = (*(f"Go2 walked {segment.text}" for segment in SEGMENTS), "Go2 stands")
"""Checks of a round, see :meth:`DemoFindings.conclude`."""


class WalkClient(ClientNode):
    """Endpoints of the walking robot, and a record of its motion."""

    def __init__(self, robot: str = "go2") -> None:
        """Create the client; ``robot`` is the robot's namespace."""
        super().__init__()
        self.mode = ""
        self.velocities: list[tuple[float, Array]] = []
        """Time [s] and measured vx, vy [m/s], wz [rad/s]."""
        self.tilt = 0.0
        """Max tilt of the body so far [rad]."""
        controller = f"/{robot}/policy_controller"
        self.subscribe(Odometry, f"/{robot}/ground_truth", self._on_truth, qos.COMMANDS)
        self.subscribe(String, f"{controller}/mode", self._on_mode, qos.STATUS)
        self.subscribe(TwistStamped, f"{controller}/cmd_vel", self._on_twist, qos.COMMANDS)
        self._twist = self.node.create_publisher(TwistStamped, f"{controller}/cmd_vel", qos.STREAM)

    @property
    def ready(self) -> bool:
        """Whether the robot stands, and its controller has subscribed."""
        # One of the subscribers is this client.
        return self.mode == "holding" and self._twist.get_subscription_count() > 1

    @property
    def now(self) -> float:
        """Newest simulated time [s]."""
        return self.velocities[-1][0] if self.velocities else 0.0

    def walk(self, twist: tuple[float, float, float]) -> None:
        """Send a twist: vx, vy [m/s], wz [rad/s]."""
        message = TwistStamped()
        message.header.frame_id = FRAME
        message.twist.linear.x, message.twist.linear.y, message.twist.angular.z = twist
        self._twist.publish(message)

    def _on_truth(self, message: Odometry) -> None:
        v, q = message.twist.twist, message.pose.pose.orientation
        velocity = np.array((v.linear.x, v.linear.y, v.angular.z))
        self.velocities.append((stamp_ns(message) * 1e-9, velocity))
        z = matrix_of((0.0, 0.0, 0.0), (q.x, q.y, q.z, q.w))[2, 2]
        self.tilt = max(self.tilt, float(np.arccos(np.clip(z, -1.0, 1.0))))

    def _on_mode(self, message: String) -> None:
        self.mode = message.data

    def _on_twist(self, message: Any) -> None:
        if message.header.frame_id != FRAME:
            self.release("robot")


def show_walking(client: WalkClient, findings: DemoFindings) -> None:
    """Walk all segments, and check velocities and tilt."""
    for segment in SEGMENTS:
        begin = client.now
        while client.now < begin + segment.duration:
            if "robot" in client.guests:
                return
            client.walk(segment.twist)
            if not client.spin(_PERIOD):
                return
        measured = [v for at, v in client.velocities if at > begin + SETTLING_TIME]
        mean = np.mean(measured, axis=0)
        findings.check(
            bool((np.abs(mean - segment.twist) <= TOLERANCE).all()),
            f"Go2 walked {segment.text}: {mean[0]:.2f}, {mean[1]:.2f} m/s, {mean[2]:.2f} rad/s, "
            "commanded {:.2f}, {:.2f} m/s, {:.2f} rad/s".format(*segment.twist),
        )
        client.velocities[:] = client.velocities[-1:]
    client.spin(_REST)
    findings.check(
        client.tilt < MAX_TILT and client.mode in ("running", "holding"),
        f"Go2 stands ({client.mode}); max tilt {client.tilt:.2f} rad",
    )


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
