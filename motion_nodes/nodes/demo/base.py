# SPDX-License-Identifier: Apache-2.0
"""Jetbot in the demo: drives a square by its odometry, checked against ground truth.

An ordinary client of the suite. When another client (the browser page, a teleop) commands the
robot, the demo releases it.
"""

from __future__ import annotations

import math
from typing import Any

from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState

from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.bases.base import Twist2
from motion_nodes.nodes.demo.client import FRAME, ClientNode, DemoFindings
from motion_nodes.nodes.demo.tour import SquareDrive
from motion_nodes.ros import qos
from motion_nodes.ros.messages.planar_messages import pose2_from
from motion_nodes.ros.names import BASE_CONTROLLERS

SIDE = 1.0
"""Side of the square [m]."""
SQUARE_CHECKS = ("Jetbot drove", "Jetbot is at rest")
"""Checks of a round, see :meth:`DemoFindings.conclude`."""
SQUARE_TOLERANCE = 0.05
"""Max error of the odometry after the square [m]."""


class BaseClient(ClientNode):
    """Endpoints of a base and their newest messages."""

    def __init__(self, base: str = "jetbot") -> None:
        """Create the client; ``base`` is the robot's namespace."""
        super().__init__()
        self.odom: Odometry | None = None
        self.truth: Odometry | None = None
        self.wheel_speeds: dict[str, float] = {}
        drive = f"/{base}/{BASE_CONTROLLERS['differential']}"
        sub = self.subscribe
        sub(Odometry, f"{drive}/odom", lambda m: setattr(self, "odom", m), qos.NEWEST)
        sub(Odometry, f"/{base}/ground_truth", lambda m: setattr(self, "truth", m), qos.NEWEST)
        sub(JointState, f"/{base}/joint_states", self._on_wheels, qos.NEWEST)
        sub(TwistStamped, f"{drive}/cmd_vel", self._on_twist, qos.COMMANDS)
        self._stamped = self.node.create_publisher(TwistStamped, f"{drive}/cmd_vel", qos.STREAM)
        self._plain = self.node.create_publisher(Twist, f"{drive}/cmd_vel_unstamped", qos.STREAM)

    @property
    def base_ready(self) -> bool:
        """Whether odometry was received and the controller has subscribed."""
        received = self.odom is not None and self.truth is not None
        publishers = (self._stamped, self._plain)
        return received and all(p.get_subscription_count() > 0 for p in publishers)

    def drive(self, twist: Twist2, *, stamped: bool) -> None:
        """Send a twist, as TwistStamped or Twist."""
        message = TwistStamped()
        message.twist.linear.x, message.twist.angular.z = twist.vx, twist.wz
        message.header.frame_id = FRAME
        (self._stamped if stamped else self._plain).publish(message if stamped else message.twist)

    def _on_wheels(self, message: JointState) -> None:
        self.wheel_speeds = dict(zip(message.name, message.velocity, strict=False))

    def _on_twist(self, message: Any) -> None:
        if message.header.frame_id != FRAME and message.twist.linear.x:
            self.release("base")


class Square:
    """Drives one square."""

    def __init__(self, client: BaseClient) -> None:
        """Start at the current pose."""
        self._client = client
        self._drive = SquareDrive(SIDE, speed=0.3, turn_rate=1.5)
        self._start, self._truth_start = pose(client.odom), pose(client.truth)

    @property
    def done(self) -> bool:
        """Whether the square is complete, or another client drives."""
        return self._drive.done or "base" in self._client.guests

    def step(self) -> None:
        """Send the next twist: TwistStamped on two sides, Twist on the others."""
        if not self.done:
            X_OB = pose(self._client.odom)
            twist = self._drive.step(X_OB.x, X_OB.y, X_OB.yaw)
            self._client.drive(twist, stamped=self._drive.leg < 4)

    def check(self, findings: DemoFindings) -> None:
        """Stop the base, and compare its odometry with ground truth."""
        if "base" in self._client.guests:
            return
        self._client.drive(Twist2(), stamped=True)
        self._client.spin(1.0)
        odometry = self._start.inverse().compose(pose(self._client.odom))
        truth = self._truth_start.inverse().compose(pose(self._client.truth))
        error = odometry.distance(truth)
        findings.check(
            error <= SQUARE_TOLERANCE,
            f"Jetbot drove a {SIDE:g} m square: back within {100 * truth.distance(Pose2()):.1f} "
            f"cm, odometry error {100 * error:.1f} cm",
        )
        fastest = max(map(abs, self._client.wheel_speeds.values()), default=math.inf)
        findings.check(fastest < 0.05, f"Jetbot is at rest: wheels at {fastest:.3f} rad/s")


def pose(message: Odometry | None) -> Pose2:
    """Return the pose in an odometry message."""
    assert message is not None
    return pose2_from(message.pose.pose)
