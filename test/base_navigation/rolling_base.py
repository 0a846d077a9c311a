# SPDX-License-Identifier: Apache-2.0
"""A base that rolls without slip, with a delay of a few steps, for tests of motions."""

import math
from collections.abc import Sequence

import numpy as np

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.odometry import Odometry
from motion_nodes.core.navigation.base_motion import BaseMotion, MotionLimits
from motion_nodes.core.navigation.navigator import NavigationTask, Navigator
from motion_nodes.core.navigation.planar_geometry import PlanarPath, Pose2

DT = 0.02
LIMITS = MotionLimits(
    max_velocity=0.5,
    max_acceleration=1.0,
    max_deceleration=1.0,
    max_yaw_velocity=2.0,
    max_yaw_acceleration=4.0,
    max_yaw_deceleration=4.0,
)
WHEELBASE = 0.3
STEERING = 0.55
KINDS = ("differential", "holonomic", "ackermann")


class RollingBase:
    """Executes commands ``delay`` steps later; a car steers at 3 rad/s at most."""

    def __init__(self, kind: str, pose: Pose2, delay: int = 3) -> None:
        self.kind = kind
        self.odometry = Odometry()
        self.odometry.set_pose(*pose)
        self._waiting = [Twist2()] * delay
        self._steering = 0.0

    @property
    def pose(self) -> Pose2:
        return Pose2(self.odometry.x, self.odometry.y, self.odometry.yaw)

    def step(self, twist: Twist2) -> None:
        self._waiting.append(twist)
        told = self._waiting.pop(0)
        if self.kind == "differential":
            told = Twist2(told.vx, 0.0, told.wz)
        elif self.kind == "ackermann":
            told = self._steered(told)
        self.odometry.advance(told.scaled(DT), DT)

    def _steered(self, told: Twist2) -> Twist2:
        if abs(told.vx) > 1e-9:
            wanted = math.atan(WHEELBASE * told.wz / told.vx)
            wanted = min(max(wanted, -STEERING), STEERING)
            change = wanted - self._steering
            self._steering += min(max(change, -3.0 * DT), 3.0 * DT)
        return Twist2(told.vx, 0.0, told.vx * math.tan(self._steering) / WHEELBASE)


class Run:
    """A complete motion and its record."""

    def __init__(
        self,
        kind: str,
        motion: BaseMotion,
        start: Sequence[float] = (0.0, 0.0, 0.0),
        *,
        limits: MotionLimits = LIMITS,
        seconds: float = 120.0,
        delay: int = 3,
        share: float = 1.0,
    ) -> None:
        self.base = RollingBase(kind, Pose2(*start), delay)
        self.navigator = Navigator(limits, kind=kind)
        self.navigator.speed_share = share
        self.task: NavigationTask = self.navigator.start(motion, "test", Twist2())
        poses, twists = [self.base.pose], []
        for _ in range(int(seconds / DT)):
            twist = self.navigator.step(self.base.pose, self.base.odometry.twist, DT)
            if twist is None:
                break
            self.base.step(twist)
            poses.append(self.base.pose)
            twists.append(twist)
        self.poses, self.twists = np.array(poses), np.array(twists)

    @property
    def end(self) -> Pose2:
        return self.base.pose

    def away(self, goal: Pose2) -> tuple[float, float]:
        """Return the distance [m] and the heading error [rad] at the end."""
        return self.end.distance(goal), abs(math.remainder(self.end.yaw - goal.yaw, math.tau))

    def deviation(self, path: PlanarPath) -> float:
        """Return the max distance from a path [m]."""
        points = path.resampled(0.01).xy
        return max(float(np.hypot(*(points - p).T).min()) for p in self.poses[::4, :2])

    def max_accelerations(self) -> tuple[float, float]:
        """Return the max accelerations of the commands [m/s^2, rad/s^2].

        Over ground for a holonomic base, along its axis for the others.
        """
        vx, vy, wz = self.twists.T
        yaw = np.cumsum(wz) * DT if self.base.kind == "holonomic" else np.zeros_like(wz)
        ground = (vx + 1j * vy) * np.exp(1j * np.concatenate(([0.0], yaw[:-1])))
        return float(np.abs(np.diff(ground)).max() / DT), float(np.abs(np.diff(wz)).max() / DT)


def circle(radius: float = 1.0, points: int = 200) -> PlanarPath:
    """Counter-clockwise from the origin, heading along x."""
    a = np.linspace(0.0, math.tau, points)
    return PlanarPath(np.column_stack((radius * np.sin(a), radius * (1.0 - np.cos(a)), a)))


def figure_of_eight(size: float = 1.0, points: int = 400) -> PlanarPath:
    """Crosses itself at the origin, where it begins and ends."""
    a = np.linspace(0.0, math.tau, points)
    yaw = np.unwrap(np.arctan2(np.cos(2.0 * a), np.cos(a)))
    return PlanarPath(np.column_stack((2.0 * size * np.sin(a), size * np.sin(2.0 * a), yaw)))


def square(side: float = 2.0) -> PlanarPath:
    """Four corners, back to the origin; each pose heads along the next side."""
    h = 0.5 * math.pi
    return PlanarPath([(0, 0, 0), (side, 0, h), (side, side, 2 * h), (0, side, -h), (0, 0, 0)])


def rounded_square(side: float = 3.0, radius: float = 0.8) -> PlanarPath:
    """A square with rounded corners that a car can drive; begins in the middle of a side."""
    rows: list[tuple[float, float, float]] = [(0.0, 0.0, 0.0)]
    inner = 0.5 * side - radius
    for corner in range(4):
        turn = Pose2(0.0, 0.5 * side, 0.5 * math.pi * corner)
        centre = turn.compose(Pose2(inner, -inner, 0.0))
        for a in np.linspace(0.0, 0.5 * math.pi, 20):
            yaw = turn.yaw + a
            rows.append((centre.x + radius * math.sin(yaw), centre.y - radius * math.cos(yaw), yaw))
    return PlanarPath([*rows, (0.0, 0.0, math.tau)])
