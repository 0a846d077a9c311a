# SPDX-License-Identifier: Apache-2.0
"""Show "follow": a Franka tracks a moving target around a moving obstacle, a Jetbot drives.

The target is sent to RMPflow or inverse kinematics, the obstacle to the planning scene. Checks use
measured joint states, and target and obstacle at their stamps. When a user drags the target or the
obstacle in the browser, the demo releases it.

Checked are the tracking error and the distances from the obstacle and between links.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from geometry_msgs.msg import Pose, PoseStamped
from moveit_msgs.msg import CollisionObject, PlanningScene
from numpy.typing import ArrayLike, NDArray
from sensor_msgs.msg import JointState
from shape_msgs.msg import SolidPrimitive

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_description
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.nodes.demo.arm import DemoFindings
from motion_nodes.nodes.demo.base import BaseClient, Square
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import set_stamp, stamp_ns
from motion_nodes.ros.names import REACTIVE_POLICY
from motion_nodes.typing import Array

BALL, RADIUS = "ball", 0.06
"""Name and radius [m] of the obstacle."""
LAG = 0.01
"""Max tracking error without late loops, 95th percentile [m]."""
LATE_PERIOD = 0.015
"""Period of joint states above which loops were late [s]; it is about 8 ms otherwise."""
LOOPS = 3
"""Number of loops in series: policy, controller and simulation."""
SETTLING_TIME = 2.5
"""Time without checks after the start, and after the obstacle was near the target [s]."""
NEAR = 0.3
"""Distance between target and obstacle below which the obstacle blocks the target [m]."""
_CHECK_PERIOD = 0.05
"""Period of distance checks in simulated time [s]."""
DOWN = (1.0, 0.0, 0.0, 0.0)
"""Quaternion (x, y, z, w) of a tool that points down."""
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


class Seen(NamedTuple):
    """A measured state of the arm."""

    at: float
    """Stamp [s]."""
    q: Array
    """Joint positions [rad], shape (n,)."""


class Round(NamedTuple):
    """One round of the target, in simulated time."""

    begin: float
    end: float
    target: Callable[[float], Array]
    """Position at a time [s]: [m], shape (3,)."""
    ball: Callable[[float], Array] | None
    """Centre of the obstacle at a time [s]: [m], shape (3,); None without an obstacle."""
    last: bool = True
    """False for a round that was repeated because loops were late."""


class Lag(NamedTuple):
    """Tracking error of the tool in a round."""

    median: float
    """Median [m]; NaN if there was no time to check."""
    most: float
    """95th percentile [m]."""
    period: float
    """95th percentile of the period of joint states [s]."""
    away: float
    """Max while the obstacle was near [m]."""

    def allowed(self, speed: float) -> float:
        """Return the allowed error for a target's speed [m/s]: [m]."""
        return LAG + LOOPS * self.period * speed

    def small(self, speed: float) -> bool:
        """Return whether the error is allowed for a target's speed [m/s]."""
        return self.most < self.allowed(speed)


def came_late(arm: FollowClient, part: Round, speed: float) -> str:
    """Return evidence of late loops in a round, as text; empty for none."""
    lag = lag_of(arm, part)
    if not lag.small(speed):
        return "the arm was late"
    if part.ball is None or BALL in arm.guests or lag.period < LATE_PERIOD:
        return ""
    collided = least_distances(arm, part, _seen_in(arm, part))[0] <= 0.0
    return "the arm avoided the obstacle late" if collided else ""


def lag_of(arm: FollowClient, part: Round) -> Lag:
    """Return the tracking error of a round."""
    seen = _seen_in(arm, part)
    poses = arm.kinematics.pose_batch(np.array([state.q for state in seen]), arm.tool)
    targets = np.array([part.target(state.at) for state in seen])
    errors = np.linalg.norm(poses[:, :3, 3] - targets, axis=1)
    free = _free_to_follow(part, np.array([state.at for state in seen]), targets)
    if not free.any():
        return Lag(np.nan, np.nan, np.nan, float(errors.max()))
    median, most = (float(np.percentile(errors[free], share)) for share in (50, 95))
    period = float(np.percentile(np.diff([state.at for state in seen]), 95))
    return Lag(median, most, period, float(errors[~free].max(initial=0.0)))


def _seen_in(arm: FollowClient, part: Round) -> list[Seen]:
    return [state for state in arm.seen if part.begin <= state.at <= part.end]


def check_round(arm: FollowClient, part: Round, findings: DemoFindings, speed: float) -> None:
    """Check tracking error, and distances from the obstacle and between links."""
    lag = lag_of(arm, part)
    if part.last:
        findings.check(
            lag.small(speed),
            f"Franka tracked a target at up to {speed:.2f} m/s by {arm.who}: error "
            f"{1e3 * lag.median:.1f} mm (median), {1e3 * lag.most:.1f} mm (95 %), "
            f"{1e3 * lag.allowed(speed):.0f} mm allowed with states every "
            f"{1e3 * lag.period:.0f} ms",
        )
    world, own = least_distances(arm, part, _seen_in(arm, part))
    if part.ball is None or (not part.last and lag.period >= LATE_PERIOD):
        findings.check(own > 0.0, f"min distance between links {100 * own:.1f} cm")
        return
    findings.check(
        world > 0.0 and own > 0.0,
        f"a ball crossed the path: the arm deviated by {100 * lag.away:.0f} cm, min distance "
        f"{100 * world:.1f} cm, between links {100 * own:.1f} cm",
    )


def _free_to_follow(part: Round, times: Array, targets: Array) -> NDArray[np.bool_]:
    """Return at which times [s] the tool can track the target [m], shape (m,)."""
    since = part.begin
    free = []
    for t, target in zip(times, targets, strict=True):
        if part.ball is not None and np.linalg.norm(part.ball(t) - target) < NEAR:
            since = t
        free.append(t - since >= SETTLING_TIME)
    return np.array(free, np.bool_)


def least_distances(arm: FollowClient, part: Round, seen: list[Seen]) -> tuple[float, float]:
    """Return the min distances from the obstacle and between links [m]."""
    checker = CollisionChecker(arm.robot, arm.joints)
    item = world_object(BALL, Sphere(RADIUS))
    world, own, checked = np.inf, np.inf, -np.inf
    for state in seen:
        if state.at - checked < _CHECK_PERIOD:
            continue
        checked = state.at
        if part.ball is not None:
            ball = replace(item, X_WO=from_xyz_rpy(part.ball(state.at)))
            checker.set_scene(Scene(objects={BALL: ball}))
            world = min(world, float(checker.sphere_distances(state.q).distance.min()))
            checker.set_scene(Scene())
        own = min(own, checker.distance(state.q).value)
    return world, own


@dataclass(frozen=True)
class Eight:
    """A target on a figure eight, which starts and ends at rest."""

    centre: tuple[float, float, float] = (0.48, 0.0, 0.42)
    """[m]"""
    width: float = 0.2
    """Half width, along y [m]."""
    height: float = 0.07
    """Half height, along z [m]."""
    duration: float = 12.0
    """Duration at full speed [s]."""
    ease: float = 1.0
    """Duration of the acceleration, and of the deceleration [s]."""
    turns: float = 1.0
    """Number of turns; multiples of 0.5 end in the centre."""

    def at(self, t: float) -> Array:
        """Return the position at a time since the start [m], shape (3,)."""
        turn = 2.0 * np.pi * self.turns * self.progress(t) / self.duration
        x, y, z = self.centre
        return np.array(
            (x, y + self.width * np.sin(turn), z + self.height * np.sin(2.0 * turn)), np.float64
        )

    def progress(self, t: float) -> float:
        """Return the scaled time, with constant acceleration at the start and end [s]."""
        t = min(max(t, 0.0), self.duration + self.ease)
        braking = max(t - self.duration, 0.0)
        started = 0.5 * t * t / self.ease if t < self.ease else t - 0.5 * self.ease
        return started - 0.5 * braking * braking / self.ease

    @property
    def whole(self) -> float:
        """Total duration [s]."""
        return self.duration + self.ease

    @property
    def speed(self) -> float:
        """Max speed [m/s]."""
        t = np.linspace(self.ease, self.duration, 400)
        points = np.array([self.at(x) for x in t])
        return float(np.linalg.norm(np.diff(points, axis=0), axis=1).max() / (t[1] - t[0]))


@dataclass(frozen=True)
class Pass:
    """An obstacle on a straight line."""

    start: tuple[float, float, float] = (0.5, -0.62, 0.42)
    end: tuple[float, float, float] = (0.5, 0.62, 0.42)
    duration: float = 12.0
    """[s]"""

    def at(self, t: float) -> Array:
        """Return the position at a time since the start [m], shape (3,)."""
        share = min(max(t / self.duration, 0.0), 1.0)
        a, b = np.array(self.start), np.array(self.end)
        return np.asarray(a + share * (b - a))


class Pace:
    """Time along a path: that of the clock, without jumps when the client was delayed."""

    STEP = 0.06
    """Max time step [s]."""

    def __init__(self, begin: float) -> None:
        """Start at a clock time [s]."""
        self._clock, self._elapsed = [begin], [0.0]

    def to(self, now: float) -> float:
        """Advance to a clock time [s]; return the time along the path [s]."""
        step = min(max(now - self._clock[-1], 0.0), self.STEP)
        self._clock.append(max(now, self._clock[-1]))
        self._elapsed.append(self._elapsed[-1] + step)
        return self._elapsed[-1]

    def at(self, time: float) -> float:
        """Return the time along the path at an earlier clock time [s], interpolated."""
        return float(np.interp(time, self._clock, self._elapsed))


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
        message = target_at(position, self.frame, self.now)
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


def target_at(position: ArrayLike, frame: str, now: float) -> PoseStamped:
    """Return a target of a tool that points down.

    Args:
        position: of the tool in the frame [m], shape (3,).
        frame: full name of the frame.
        now: simulated time [s].
    """
    message = PoseStamped(pose=pose_at(np.asarray(position), DOWN))
    message.header.frame_id = frame
    set_stamp(message, round(now * 1e9))
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
