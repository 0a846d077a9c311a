# SPDX-License-Identifier: Apache-2.0
"""Jetbot in the demo: drives a square by its odometry, checked against ground truth.

An ordinary client of the suite. When another client (the browser page, a teleop) commands the
robot, the demo releases it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.odometry import wrap_angle
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.nodes.demo.arm import FRAME, ClientNode, DemoFindings
from motion_nodes.ros import qos
from motion_nodes.ros.messages.planar_messages import pose2_from
from motion_nodes.ros.names import BASE_CONTROLLERS, JOINT_CONTROLLER

SIDE = 1.0
"""Side of the square [m]."""
SQUARE_CHECKS = ("Jetbot drove", "Jetbot is at rest")
"""Checks of a round, see :meth:`DemoFindings.conclude`."""
SQUARE_TOLERANCE = 0.05
"""Max error of the odometry after the square [m]."""
ARM_POSES = ("extended", "transport", "ready")
"""Named states of the arm; those that the robot does not have are omitted."""
ARM_TOLERANCE = 0.01
"""Tolerance of named states [rad or m]."""


class SquareDrive:
    """Drives a base along a square, counter-clockwise, by its odometry."""

    def __init__(self, side: float, speed: float, turn_rate: float) -> None:
        """Create a square.

        Args:
            side: length of a side [m].
            speed: max speed [m/s].
            turn_rate: max yaw rate [rad/s].
        """
        self._side, self._speed, self._turn_rate = side, speed, turn_rate
        self._start: tuple[float, float, float] | None = None
        self.leg = 0
        """Current leg, 0 to 8: even ones are sides, odd ones corners, 8 is the end."""

    @property
    def done(self) -> bool:
        """Whether the square is complete."""
        return self.leg >= 8

    def step(self, x: float, y: float, yaw: float) -> Twist2:
        """Return the twist at a pose of the odometry [m, m, rad]."""
        if self._start is None:
            self._start = (x, y, yaw)
        while not self.done:
            twist = self._side_twist(x, y, yaw) if self.leg % 2 == 0 else self._corner_twist(yaw)
            if twist is not None:
                return twist
            self.leg += 1
        return Twist2()

    def _heading(self, corner: int) -> float:
        assert self._start is not None
        return wrap_angle(self._start[2] + 0.5 * math.pi * corner)

    def _corner(self, number: int) -> tuple[float, float]:
        """Return the position of a corner [m]; 0 and 4 are the start."""
        assert self._start is not None
        x, y = self._start[:2]
        for side in range(number):
            x += self._side * math.cos(self._heading(side))
            y += self._side * math.sin(self._heading(side))
        return x, y

    def _side_twist(self, x: float, y: float, yaw: float) -> Twist2 | None:
        number = self.leg // 2
        goal_x, goal_y = self._corner(number + 1)
        heading = self._heading(number)
        ahead = (goal_x - x) * math.cos(heading) + (goal_y - y) * math.sin(heading)
        beside = -(goal_x - x) * math.sin(heading) + (goal_y - y) * math.cos(heading)
        if ahead < 0.003:
            return None
        speed = min(self._speed, max(0.02, 1.5 * ahead))
        turn = 2.0 * wrap_angle(heading - yaw) + 3.0 * max(-0.1, min(0.1, beside))
        return Twist2(speed, 0.0, max(-1.0, min(1.0, turn)))

    def _corner_twist(self, yaw: float) -> Twist2 | None:
        error = wrap_angle(self._heading(self.leg // 2 + 1) - yaw)
        if abs(error) < 0.005:
            return None
        rate = min(self._turn_rate, max(0.1, 3.0 * abs(error)))
        return Twist2(0.0, 0.0, math.copysign(rate, error))


def arrived(goal: Sequence[float], now: Sequence[float], tolerance: float) -> bool:
    """Return whether all positions are within a tolerance of their goals [rad or m]."""
    return all(abs(g - n) <= tolerance for g, n in zip(goal, now, strict=True))


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


ARM_CHECKS = tuple(f"Franka reached '{name}'" for name in ARM_POSES)
"""Checks of a round, see :meth:`DemoFindings.conclude`."""


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
