# SPDX-License-Identifier: Apache-2.0
"""Show "follow": a Franka tracks a moving target around a moving obstacle, a Jetbot drives.

The target is sent to RMPflow or inverse kinematics, the obstacle to the planning scene. Checks use
measured joint states, and target and obstacle at their stamps. When a user drags the target or the
obstacle in the browser, the demo releases it.
"""

from __future__ import annotations

import time
from collections import deque

import numpy as np
from geometry_msgs.msg import Pose, PoseStamped
from moveit_msgs.msg import CollisionObject, PlanningScene
from sensor_msgs.msg import JointState
from shape_msgs.msg import SolidPrimitive

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.nodes.demo.base import BaseClient, Square
from motion_nodes.nodes.demo.client import DemoFindings
from motion_nodes.nodes.demo.follow_checks import (
    BALL,
    LAG,
    RADIUS,
    Round,
    Seen,
    came_late,
    check_round,
)
from motion_nodes.nodes.demo.paths import DOWN, Eight, Pace, Pass
from motion_nodes.robot_setup.derived_robot import load_description
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import set_stamp, stamp_ns
from motion_nodes.ros.names import REACTIVE_POLICY
from motion_nodes.typing import Array

RMPFLOW, IK = "rmpflow", "ik"
TARGET_TOPICS = {RMPFLOW: f"{REACTIVE_POLICY}/reference", IK: "ik_service/target_pose"}
"""Target topic by follower, in the robot's namespace."""

MAX_ATTEMPTS = 6
"""Max number of attempts per round; on a loaded machine loops may be late."""
_TARGET_PERIOD = 0.02
"""Publish period of the target [s]."""
_OBSTACLE_PERIOD = 0.04
"""Publish period of the obstacle [s]."""
_REMEMBERED = 500
"""Number of stored stamps, which identify the client's own messages."""


class FollowClient(BaseClient):
    """Endpoints of both robots, and a record of the arm's states."""

    def __init__(self, who: str = RMPFLOW, arm: str = "franka", base: str = "jetbot") -> None:
        """Create the client.

        Args:
            who: follower of the target: rmpflow or ik.
            arm: name of the robot and its namespace.
            base: namespace of the Jetbot.
        """
        super().__init__(base)
        self.who, self.robot = who, load_description(arm)
        group = self.robot.group("arm")
        self.joints = group.joints
        self.kinematics = Kinematics(self.robot.tree, self.joints, base=self.robot.base_frame)
        self.tool = group.tip or ""
        self.frame = f"{arm}/{self.robot.base_frame}"
        self.seen: list[Seen] = []
        self._received_at = 0.0
        self._sent: deque[int] = deque(maxlen=_REMEMBERED)
        target = f"/{arm}/{TARGET_TOPICS[who]}"
        publish = self.node.create_publisher
        self.subscribe(JointState, f"/{arm}/joint_states", self._on_arm, qos.STATES)
        self.subscribe(PoseStamped, target, self._on_target, qos.COMMANDS)
        self.subscribe(PlanningScene, f"/{arm}/planning_scene", self._on_scene, qos.SCENES)
        self._target = publish(PoseStamped, target, qos.STREAM)
        self._objects = publish(CollisionObject, f"/{arm}/collision_object", qos.SCENES)

    @property
    def ready(self) -> bool:
        """Whether states were received, and follower and planning scene have subscribed."""
        # One of the target's subscribers is this client.
        return (
            self.base_ready
            and bool(self.seen)
            and self._target.get_subscription_count() > 1
            and (self.who != RMPFLOW or self._objects.get_subscription_count() > 0)
        )

    @property
    def now(self) -> float:
        """Simulated time [s]."""
        return self.seen[-1].at + min(time.monotonic() - self._received_at, 0.1)

    def send_target(self, position: Array) -> None:
        """Publish the target's position in the robot's base frame [m], shape (3,)."""
        if "target" in self.guests:
            return
        message = PoseStamped()
        message.header.frame_id = self.frame
        set_stamp(message, round(self.now * 1e9))
        message.pose = pose_at(position, DOWN)
        self._sent.append(stamp_ns(message))
        self._target.publish(message)

    def send_obstacle(self, position: Array, *, new: bool = False) -> None:
        """Publish the obstacle's position in the robot's base frame [m], shape (3,).

        Args:
            position: of its centre.
            new: add it to the scene, instead of moving it.
        """
        if BALL in self.guests:
            return
        message = CollisionObject(id=BALL, operation=CollisionObject.MOVE)
        message.header.frame_id = self.frame
        set_stamp(message, round(self.now * 1e9))
        message.pose = pose_at(position)
        message.pose.orientation.w = 1.0
        if new:
            message.operation = CollisionObject.ADD
            solid = SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[RADIUS])
            message.primitives, message.primitive_poses = [solid], [pose_at(np.zeros(3))]
        self._objects.publish(message)

    def remove_obstacle(self) -> None:
        """Remove the obstacle from the planning scene."""
        self._objects.publish(CollisionObject(id=BALL, operation=CollisionObject.REMOVE))

    def _on_arm(self, message: JointState) -> None:
        positions = dict(zip(message.name, message.position, strict=False))
        if all(name in positions for name in self.joints):
            q = np.array([positions[name] for name in self.joints])
            self.seen.append(Seen(stamp_ns(message) * 1e-9, q))
            self._received_at = time.monotonic()

    def _on_target(self, message: PoseStamped) -> None:
        if stamp_ns(message) not in self._sent:
            self.release("target")

    def _on_scene(self, message: PlanningScene) -> None:
        if any(item.id == BALL for item in message.world.collision_objects):
            self.release(BALL)


def pose_at(position: Array, orientation: tuple[float, ...] = (0.0, 0.0, 0.0, 1.0)) -> Pose:
    """Return a position [m], shape (3,), and a quaternion (x, y, z, w) as a message."""
    message = Pose()
    message.position.x, message.position.y, message.position.z = map(float, position)
    q = message.orientation
    q.x, q.y, q.z, q.w = orientation
    return message


def show_following(client: FollowClient, findings: DemoFindings) -> None:
    """Move the target along a figure eight, without and with an obstacle, and check the arm."""
    square = Square(client)
    half, eight, crossing = Eight(duration=6.0, turns=0.5), Eight(), Pass()
    with_obstacle = client.who == RMPFLOW
    if with_obstacle:
        client.send_obstacle(crossing.at(0.0), new=True)
    if not _settle(client, square, eight.at(0.0)):
        return
    rounds = []
    for path, ball in ((half, None), (eight, crossing)) if with_obstacle else ((eight, None),):
        for remaining in reversed(range(MAX_ATTEMPTS)):
            part = _round(client, square, path, ball)
            if part is None:
                return
            rounds.append(part)
            late = "target" not in client.guests and came_late(client, part, eight.speed)
            if not remaining or not late:
                break
            print(f"  {late}, as on a loaded machine; repeating the round", flush=True)
            rounds[-1] = part._replace(last=False)
    while not square.done:
        square.step()
        client.send_target(eight.at(eight.whole))
        if not client.spin(_TARGET_PERIOD):
            return
    if "target" not in client.guests:
        for part in rounds:
            check_round(client, part, findings, eight.speed)
    square.check(findings)
    if with_obstacle and BALL not in client.guests:
        client.remove_obstacle()
    client.seen[:] = client.seen[-1:]


def _settle(client: FollowClient, square: Square, position: Array) -> bool:
    """Move the tool to the target's start; return False after a stop signal."""
    end = client.now + 15.0
    near = 0
    while near < 25 and client.now < end and "target" not in client.guests:
        client.send_target(position)
        square.step()
        X = client.kinematics.pose(client.seen[-1].q, client.tool)
        near = near + 1 if np.linalg.norm(X[:3, 3] - position) < LAG else 0
        if not client.spin(_TARGET_PERIOD):
            return False
    return True


def _round(
    client: FollowClient, square: Square, eight: Eight, crossing: Pass | None
) -> Round | None:
    begin = now = client.now
    pace = Pace(begin)
    sent = -1.0
    while (t := pace.to(now)) < eight.whole:
        client.send_target(eight.at(t))
        if crossing is not None and t - sent >= _OBSTACLE_PERIOD:
            client.send_obstacle(crossing.at(t))
            sent = t
        square.step()
        if not client.spin(_TARGET_PERIOD):
            return None
        now = client.now
    return Round(
        begin,
        now,
        lambda at: eight.at(pace.at(at)),
        None if crossing is None else lambda at: crossing.at(pace.at(at)),
    )
