# SPDX-License-Identifier: Apache-2.0
"""The Jetbot's part in the demo: a square, driven by its odometry and checked by the truth.

An ordinary client in a process of its own: it knows topics and messages, nothing else. Once
somebody else commands the robot (the browser page, a teleop) it leaves it to them.
"""

from __future__ import annotations

import math
from typing import Any

from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState

from motion_nodes.bases.base import Twist2
from motion_nodes.nodes.demo.client import FRAME, ClientNode, DemoFindings
from motion_nodes.nodes.demo.tour import SquareDrive
from motion_nodes.ros import qos
from motion_nodes.ros.names import BASE_CONTROLLERS

SIDE = 1.0
"""Side of the square [m]."""
SQUARE_TOLERANCE = 0.05
"""[m]"""

Pose = tuple[float, float, float]


class BaseClient(ClientNode):
    """The endpoints of a base and the newest messages on them."""

    def __init__(self, base: str = "jetbot") -> None:
        """Create the client; ``base`` is the robot's namespace."""
        super().__init__()
        self.odom: Odometry | None = None
        self.truth: Odometry | None = None
        self.wheel_speeds: dict[str, float] = {}
        drive = f"/{base}/{BASE_CONTROLLERS['differential']}"
        listen = self.hear
        listen(Odometry, f"{drive}/odom", lambda m: setattr(self, "odom", m), qos.NEWEST)
        listen(Odometry, f"/{base}/ground_truth", lambda m: setattr(self, "truth", m), qos.NEWEST)
        listen(JointState, f"/{base}/joint_states", self._hear_wheels, qos.NEWEST)
        listen(TwistStamped, f"{drive}/cmd_vel", self._hear_twist, qos.COMMANDS)
        self._stamped = self.node.create_publisher(TwistStamped, f"{drive}/cmd_vel", qos.STREAM)
        self._plain = self.node.create_publisher(Twist, f"{drive}/cmd_vel_unstamped", qos.STREAM)

    @property
    def base_ready(self) -> bool:
        """True when the base speaks and its controller listens."""
        heard = self.odom is not None and self.truth is not None
        return heard and all(p.get_subscription_count() > 0 for p in (self._stamped, self._plain))

    def drive(self, twist: Twist2, *, stamped: bool) -> None:
        """Send a twist, as TwistStamped or Twist."""
        message = TwistStamped()
        message.twist.linear.x, message.twist.angular.z = twist.vx, twist.wz
        message.header.frame_id = FRAME
        (self._stamped if stamped else self._plain).publish(message if stamped else message.twist)

    def _hear_wheels(self, message: JointState) -> None:
        self.wheel_speeds = dict(zip(message.name, message.velocity, strict=False))

    def _hear_twist(self, message: Any) -> None:
        if message.header.frame_id != FRAME and message.twist.linear.x:
            self.welcome("base")


class Square:
    """One square of a base."""

    def __init__(self, client: BaseClient) -> None:
        """Begin where the base is."""
        self._client = client
        self._drive = SquareDrive(SIDE, speed=0.3, turn_rate=1.5)
        self._start, self._truth_start = pose(client.odom), pose(client.truth)

    @property
    def done(self) -> bool:
        """True when the square is closed, or somebody else drives."""
        return self._drive.done or "base" in self._client.guests

    def step(self) -> None:
        """Send the next twist: two sides with stamped ones, two with plain ones."""
        if not self.done:
            twist = self._drive.step(*pose(self._client.odom))
            self._client.drive(twist, stamped=self._drive.leg < 4)

    def check(self, findings: DemoFindings) -> None:
        """Have the base stand, and compare what it claims with the truth."""
        if "base" in self._client.guests:
            return
        self._client.drive(Twist2(), stamped=True)
        self._client.spin(1.0)
        claimed = _moved(self._start, pose(self._client.odom))
        true = _moved(self._truth_start, pose(self._client.truth))
        apart = math.hypot(claimed[0] - true[0], claimed[1] - true[1])
        home = math.hypot(*true)
        findings.check(
            apart <= SQUARE_TOLERANCE,
            f"Jetbot drove a {SIDE:g} m square: back within {100 * home:.1f} cm, "
            f"{100 * apart:.1f} cm from where its odometry says",
        )
        fastest = max(map(abs, self._client.wheel_speeds.values()), default=math.inf)
        findings.check(fastest < 0.05, f"Jetbot stands: wheels turn at {fastest:.3f} rad/s")


def pose(message: Odometry | None) -> Pose:
    """Return x, y [m] and yaw [rad] of an odometry message."""
    assert message is not None
    p, q = message.pose.pose.position, message.pose.pose.orientation
    return p.x, p.y, math.atan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y**2 + q.z**2))


def _moved(start: Pose, end: Pose) -> tuple[float, float]:
    """Return the displacement in the frame of the start [m]."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    c, s = math.cos(start[2]), math.sin(start[2])
    return c * dx + s * dy, -s * dx + c * dy
