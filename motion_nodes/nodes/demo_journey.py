# SPDX-License-Identifier: Apache-2.0
"""The demo's client: drives the Jetbot around a square and moves the Franka, over ROS alone.

It is an ordinary client in a process of its own: it knows topics and messages, nothing else. Once
somebody else commands a robot (the browser page, a teleop) it leaves that robot to them.
"""

from __future__ import annotations

import math
import time
from typing import Any

from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState

from motion_nodes.bases.base import Twist2
from motion_nodes.model.loader import load_robot
from motion_nodes.nodes.demo_client import FRAME, ClientNode, Findings
from motion_nodes.nodes.demo_tour import SquareDrive, arrived
from motion_nodes.ros import qos
from motion_nodes.ros.names import BASE_CONTROLLERS, JOINT_CONTROLLER

SIDE = 1.0
"""Side of the square [m]."""
ARM_POSES = ("extended", "transport", "ready")
"""Named states that the arm visits; those that the robot has."""
ARM_TOLERANCE = 0.01
"""[rad or m]"""
SQUARE_TOLERANCE = 0.05
"""[m]"""


class DemoClient(ClientNode):
    """The endpoints of the demo and the newest messages on them."""

    def __init__(self, base: str = "jetbot", arm: str = "franka") -> None:
        """Create the client; ``base`` and ``arm`` are the robots' namespaces."""
        super().__init__()
        self.odom: Odometry | None = None
        self.truth: Odometry | None = None
        self.joints: dict[str, float] = {}
        self.wheel_speeds: dict[str, float] = {}
        drive = f"/{base}/{BASE_CONTROLLERS['differential']}"
        arm_topic = f"/{arm}/{JOINT_CONTROLLER}/reference"
        listen = self.node.create_subscription
        listen(Odometry, f"{drive}/odom", lambda m: setattr(self, "odom", m), qos.NEWEST)
        listen(Odometry, f"/{base}/ground_truth", lambda m: setattr(self, "truth", m), qos.NEWEST)
        listen(JointState, f"/{arm}/joint_states", self._hear_arm, qos.NEWEST)
        listen(JointState, f"/{base}/joint_states", self._hear_wheels, qos.NEWEST)
        listen(JointState, arm_topic, self._hear_arm_command, qos.COMMANDS)
        listen(TwistStamped, f"{drive}/cmd_vel", self._hear_twist, qos.COMMANDS)
        self._stamped = self.node.create_publisher(TwistStamped, f"{drive}/cmd_vel", qos.STREAM)
        self._plain = self.node.create_publisher(Twist, f"{drive}/cmd_vel_unstamped", qos.STREAM)
        self._arm = self.node.create_publisher(JointState, arm_topic, qos.STREAM)

    @property
    def ready(self) -> bool:
        """True when both robots speak and their controllers listen."""
        heard = self.odom is not None and self.truth is not None and bool(self.joints)
        return heard and all(
            p.get_subscription_count() > 0 for p in (self._stamped, self._plain, self._arm)
        )

    def drive(self, twist: Twist2, *, stamped: bool) -> None:
        """Send a twist, as TwistStamped or Twist."""
        message = TwistStamped()
        message.twist.linear.x, message.twist.angular.z = twist.vx, twist.wz
        message.header.frame_id = FRAME
        (self._stamped if stamped else self._plain).publish(message if stamped else message.twist)

    def move(self, goal: dict[str, float]) -> None:
        """Send joint positions."""
        message = JointState(name=list(goal), position=list(goal.values()))
        message.header.frame_id = FRAME
        self._arm.publish(message)

    def pose(self, message: Odometry | None) -> tuple[float, float, float]:
        """Return x, y [m] and yaw [rad] of an odometry message."""
        assert message is not None
        p, q = message.pose.pose.position, message.pose.pose.orientation
        return p.x, p.y, math.atan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y**2 + q.z**2))

    def _hear_arm(self, message: JointState) -> None:
        self.joints = dict(zip(message.name, message.position, strict=False))

    def _hear_wheels(self, message: JointState) -> None:
        self.wheel_speeds = dict(zip(message.name, message.velocity, strict=False))

    def _hear_arm_command(self, message: Any) -> None:
        if message.header.frame_id != FRAME:
            self.welcome("arm")

    def _hear_twist(self, message: Any) -> None:
        if message.header.frame_id != FRAME and message.twist.linear.x:
            self.welcome("base")


def journey(client: DemoClient, findings: Findings) -> None:
    """Drive one square and visit the arm's poses, and check both."""
    robot = load_robot("franka")
    poses = [name for name in ARM_POSES if name in robot.state_names]
    square = SquareDrive(SIDE, speed=0.3, turn_rate=1.5)
    start, truth_start = client.pose(client.odom), client.pose(client.truth)
    goals = [dict(zip(robot.joint_names, map(float, robot.named_state(n)), strict=True))
             for n in poses]  # fmt: skip
    goal: dict[str, float] = {}
    sent = deadline = 0.0
    begin = time.monotonic()
    while not (square.done and not goals and not goal):
        if "base" in client.guests:
            square.leg = 8
        if not square.done:
            # Two sides with stamped twists, two with plain ones.
            client.drive(square.step(*client.pose(client.odom)), stamped=square.leg < 4)
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
    client.drive(Twist2(), stamped=True)
    client.spin(1.0)
    if "base" not in client.guests:
        _check_square(client, findings, start, truth_start)


def _there(client: DemoClient, goal: dict[str, float]) -> bool:
    now = [client.joints.get(joint, math.inf) for joint in goal]
    return arrived(list(goal.values()), now, ARM_TOLERANCE / 2)


def _check_square(
    client: DemoClient,
    findings: Findings,
    start: tuple[float, float, float],
    truth_start: tuple[float, float, float],
) -> None:
    claimed = _moved(start, client.pose(client.odom))
    true = _moved(truth_start, client.pose(client.truth))
    apart = math.hypot(claimed[0] - true[0], claimed[1] - true[1])
    home = math.hypot(*true)
    findings.check(
        apart <= SQUARE_TOLERANCE,
        f"Jetbot drove a {SIDE:g} m square: back within {100 * home:.1f} cm, "
        f"{100 * apart:.1f} cm from where its odometry says",
    )
    fastest = max(map(abs, client.wheel_speeds.values()), default=math.inf)
    findings.check(fastest < 0.05, f"Jetbot stands: wheels turn at {fastest:.3f} rad/s")


def _moved(
    start: tuple[float, float, float], end: tuple[float, float, float]
) -> tuple[float, float]:
    """Return the displacement in the frame of the start [m]."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    c, s = math.cos(start[2]), math.sin(start[2])
    return c * dx + s * dy, -s * dx + c * dy
