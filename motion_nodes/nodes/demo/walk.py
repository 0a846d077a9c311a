# SPDX-License-Identifier: Apache-2.0
"""Show "walk": a Go2 walks by twists, with a published policy.

Velocities and tilt are checked against the simulation's ground truth. When another client (the
browser page, a teleop) commands the robot, the demo releases it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from geometry_msgs.msg import TwistStamped
from nav_msgs.msg import Odometry
from std_msgs.msg import String

from motion_nodes.model.poses import from_xyz_quat
from motion_nodes.nodes.demo.client import FRAME, ClientNode, DemoFindings
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.typing import Array

POLICY = "go2_walk"
"""Published policy that the show runs."""


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
CHECKS = (*(f"Go2 walked {segment.text}" for segment in SEGMENTS), "Go2 stands")
"""Checks of a round, see :meth:`DemoFindings.conclude`."""
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
        z = from_xyz_quat((0.0, 0.0, 0.0), (q.x, q.y, q.z, q.w))[2, 2]
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
