# SPDX-License-Identifier: Apache-2.0
"""A Franka follows a moving target around a moving obstacle, a Jetbot drives beside it.

Everything goes over ROS: the target to RMPflow or to inverse kinematics, the obstacle to the
planning scene. What is checked is measured: forward kinematics and distances of the joint states
that come back, against where target and obstacle were at their stamps. Who drags the target or the
obstacle in the browser has it from then on.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import numpy as np
from geometry_msgs.msg import Pose, PoseStamped
from moveit_msgs.msg import CollisionObject, PlanningScene
from sensor_msgs.msg import JointState
from shape_msgs.msg import SolidPrimitive

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.tree import Array
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
from motion_nodes.ros.names import REACTIVE_POLICY

RMPFLOW, IK = "rmpflow", "ik"
TARGET_TOPICS = {RMPFLOW: f"{REACTIVE_POLICY}/reference", IK: "ik_service/target_pose"}
"""Who can follow, and the topic that it follows, below the robot's namespace."""

ATTEMPTS = 6
"""Where something else wants the processors, loops come late for a while."""
_TICK = 0.02  # [s]
_SCENE_TICK = 0.04  # [s]
_REMEMBERED = 500  # own messages, to tell them from those of others


class FollowClient(BaseClient):
    """The endpoints of both robots, and what the arm did."""

    def __init__(self, who: str = RMPFLOW, arm: str = "franka", base: str = "jetbot") -> None:
        """Create the client.

        Args:
            who: follows the target: rmpflow or ik.
            arm: the robot and its namespace.
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
        self._heard_at = 0.0
        self._sent: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)
        target = f"/{arm}/{TARGET_TOPICS[who]}"
        listen, publish = self.hear, self.node.create_publisher
        listen(JointState, f"/{arm}/joint_states", self._hear_arm, qos.STATES)
        listen(PoseStamped, target, self._hear_target, qos.COMMANDS)
        listen(PlanningScene, f"/{arm}/planning_scene", self._hear_scene, qos.SCENES)
        self._target = publish(PoseStamped, target, qos.STREAM)
        self._objects = publish(CollisionObject, f"/{arm}/collision_object", qos.SCENES)

    @property
    def ready(self) -> bool:
        """True when both robots speak, and who follows and the scene listen."""
        # The client itself listens to the target, too.
        return (
            self.base_ready
            and bool(self.seen)
            and self._target.get_subscription_count() > 1
            and (self.who != RMPFLOW or self._objects.get_subscription_count() > 0)
        )

    @property
    def now(self) -> float:
        """Simulated time [s]."""
        return self.seen[-1].at + min(time.monotonic() - self._heard_at, 0.1)

    def lead(self, position: Array) -> None:
        """Say where the target is now."""
        if "target" in self.guests:
            return
        message = PoseStamped()
        message.header.frame_id = self.frame
        now = self.now
        message.header.stamp.sec = int(now)
        message.header.stamp.nanosec = int((now - int(now)) * 1e9)
        message.pose = _pose(position, DOWN)
        self._sent.append(_stamp(message))
        self._target.publish(message)

    def place(self, position: Array, *, new: bool = False) -> None:
        """Say where the obstacle is; the first time what it is, too."""
        if BALL in self.guests:
            return
        message = CollisionObject(id=BALL, operation=CollisionObject.MOVE)
        message.header.frame_id = self.frame
        message.pose = _pose(position)
        message.pose.orientation.w = 1.0
        if new:
            message.operation = CollisionObject.ADD
            solid = SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[RADIUS])
            message.primitives, message.primitive_poses = [solid], [_pose(np.zeros(3))]
        self._objects.publish(message)

    def remove(self) -> None:
        """Take the obstacle away."""
        self._objects.publish(CollisionObject(id=BALL, operation=CollisionObject.REMOVE))

    def _hear_arm(self, message: JointState) -> None:
        places = dict(zip(message.name, message.position, strict=False))
        if all(name in places for name in self.joints):
            stamp = message.header.stamp
            q = np.array([places[name] for name in self.joints])
            self.seen.append(Seen(stamp.sec + 1e-9 * stamp.nanosec, q))
            self._heard_at = time.monotonic()

    def _hear_target(self, message: PoseStamped) -> None:
        if _stamp(message) not in self._sent:
            self.welcome("target")

    def _hear_scene(self, message: PlanningScene) -> None:
        if any(item.id == BALL for item in message.world.collision_objects):
            self.welcome(BALL)


def _stamp(message: Any) -> tuple[int, int]:
    return message.header.stamp.sec, message.header.stamp.nanosec


def _pose(position: Array, orientation: tuple[float, ...] = (0.0, 0.0, 0.0, 1.0)) -> Pose:
    message = Pose()
    message.position.x, message.position.y, message.position.z = map(float, position)
    q = message.orientation
    q.x, q.y, q.z, q.w = orientation
    return message


def show_following(client: FollowClient, findings: DemoFindings) -> None:
    """Lead the arm around, then again with an obstacle in its way, and check it."""
    square = Square(client)
    half, eight, crossing = Eight(duration=6.0, turns=0.5), Eight(), Pass()
    around = client.who == RMPFLOW
    if around:
        client.place(crossing.at(0.0), new=True)
    if not _settle(client, square, eight.at(0.0)):
        return
    rounds = []
    for path, ball in ((half, None), (eight, crossing)) if around else ((eight, None),):
        for left in reversed(range(ATTEMPTS)):
            part = _round(client, square, path, ball)
            if part is None:
                return
            rounds.append(part)
            late = "target" not in client.guests and came_late(client, part, eight.speed)
            if not left or not late:
                break
            print(f"  {late}, as on a busy machine; once more around", flush=True)
            rounds[-1] = part._replace(last=False)
    while not square.done:
        square.step()
        client.lead(eight.at(eight.whole))
        if not client.spin(_TICK):
            return
    if "target" not in client.guests:
        for part in rounds:
            check_round(client, part, findings, eight.speed)
    square.check(findings)
    if around and BALL not in client.guests:
        client.remove()
    client.seen[:] = client.seen[-1:]


def _settle(client: FollowClient, square: Square, position: Array) -> bool:
    """Have the tool get to where the target begins; False when a stop is asked for."""
    end = client.now + 15.0
    near = 0
    while near < 25 and client.now < end and "target" not in client.guests:
        client.lead(position)
        square.step()
        X = client.kinematics.pose(client.seen[-1].q, client.tool)
        near = near + 1 if np.linalg.norm(X[:3, 3] - position) < LAG else 0
        if not client.spin(_TICK):
            return False
    return True


def _round(
    client: FollowClient, square: Square, eight: Eight, crossing: Pass | None
) -> Round | None:
    begin = now = client.now
    pace = Pace(begin)
    placed = -1.0
    while (t := pace.to(now)) < eight.whole:
        client.lead(eight.at(t))
        if crossing is not None and t - placed >= _SCENE_TICK:
            client.place(crossing.at(t))
            placed = t
        square.step()
        if not client.spin(_TICK):
            return None
        now = client.now
    return Round(
        begin,
        now,
        lambda at: eight.at(pace.at(at)),
        None if crossing is None else lambda at: crossing.at(pace.at(at)),
    )
