# SPDX-License-Identifier: Apache-2.0
"""Planar scenes of discs and boxes: exact ray casts and distances, and bases that drive there."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from base_navigation.rolling_base import DT, LIMITS, RollingBase

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.base_motion import BaseMotion, MotionLimits
from motion_nodes.core.navigation.footprint import Footprint, footprint_from, into_base
from motion_nodes.core.navigation.navigator import Blocked, NavigationTask, Navigator
from motion_nodes.core.navigation.obstacle_avoidance import (
    AvoidanceConfig,
    ObstacleAvoidance,
    SeenObstacles,
)
from motion_nodes.core.navigation.obstacle_memory import LaserReadings, ObstacleMemory, view_of_scan
from motion_nodes.core.navigation.planar_geometry import Pose2

Array = np.ndarray
BODY = footprint_from([(-0.12, -0.1), (0.06, -0.1), (0.08, 0.0), (0.06, 0.1), (-0.12, 0.1)])
"""Not symmetric: its back swings out when it turns."""
RAYS = 360
RANGE = (0.1, 4.0)


@dataclass
class Scene:
    """Obstacles on the floor."""

    discs: Array = field(default_factory=lambda: np.empty((0, 3)))
    """Centre and radius [m], shape (n, 3)."""
    boxes: Array = field(default_factory=lambda: np.empty((0, 4)))
    """Along the axes: min x, min y, max x, max y [m], shape (n, 4)."""

    def ranges(self, x: float, y: float, angles: Array) -> Array:
        """Return the exact ranges along rays [m], inf without a hit, shape (n,)."""
        d = np.column_stack((np.cos(angles), np.sin(angles)))
        best = np.full(len(angles), math.inf)
        for cx, cy, r in self.discs:
            b = d @ (cx - x, cy - y)
            root = b * b - ((cx - x) ** 2 + (cy - y) ** 2 - r * r)
            with np.errstate(invalid="ignore"):
                t = b - np.sqrt(root)
            best = np.where((root >= 0.0) & (t > 0.0), np.minimum(best, t), best)
        for low_x, low_y, high_x, high_y in self.boxes:
            with np.errstate(divide="ignore", invalid="ignore"):
                ts = np.array([(low_x - x, low_y - y), (high_x - x, high_y - y)])[:, None] / d
            near, far = ts.min(axis=0).max(axis=1), ts.max(axis=0).min(axis=1)
            best = np.where((near <= far) & (near > 0.0), np.minimum(best, near), best)
        return best

    def outlines(self, spacing: float = 0.01) -> Array:
        """Return points on all outlines [m], shape (n, 2)."""
        found = [np.empty((0, 2))]
        for cx, cy, r in self.discs:
            a = np.linspace(0.0, math.tau, max(int(math.tau * r / spacing), 8), endpoint=False)
            found.append(np.column_stack((cx + r * np.cos(a), cy + r * np.sin(a))))
        for ax, ay, bx, by in self.boxes:
            xs, ys = (
                np.linspace(p, q, int((q - p) / spacing) + 2) for p, q in ((ax, bx), (ay, by))
            )
            for y in (ay, by):
                found.append(np.column_stack((xs, np.full(len(xs), y))))
            for x in (ax, bx):
                found.append(np.column_stack((np.full(len(ys), x), ys)))
        return np.concatenate(found)


class SeeingRun:
    """A complete motion among obstacles that a scanner detects."""

    def __init__(
        self,
        kind: str,
        motion: BaseMotion,
        scene: Scene,
        start: Sequence[float] = (0.0, 0.0, 0.0),
        *,
        footprint: Footprint = BODY,
        limits: MotionLimits = LIMITS,
        config: AvoidanceConfig | None = None,
        seconds: float = 60.0,
        scan_period: float = 0.2,
        noise: float = 0.0,
        seed: int = 0,
        change: tuple[float, Scene] | None = None,
        blocked: Blocked = "detour",
    ) -> None:
        """Drive.

        Args:
            change: time at which another scene replaces the first one [s].
            blocked: what the task does at obstacles.
        """
        rng = np.random.default_rng(seed)
        self.base = RollingBase(kind, Pose2(*start))
        avoidance = ObstacleAvoidance(kind, footprint, limits, config)
        self.navigator = Navigator(limits, kind=kind, avoidance=avoidance)
        self.task: NavigationTask = self.navigator.start(motion, "test", Twist2(), blocked=blocked)
        memory = ObstacleMemory(footprint)
        angles = np.arange(RAYS) * math.tau / RAYS
        outline, poses = scene.outlines(), [self.base.pose]
        self.clearances: list[float] = []
        """Exact distance from the obstacles at each step [m]."""
        self.waits: list[str] = []
        due = 0.0
        for k in range(int(seconds / DT)):
            now, pose = k * DT, self.base.pose
            if change is not None and now >= change[0]:
                scene, change = change[1], None
                outline = scene.outlines()
            if now >= due:
                due += scan_period
                ranges = scene.ranges(pose.x, pose.y, pose.yaw + angles)
                ranges = ranges + noise * rng.normal(size=RAYS)
                ranges[ranges > RANGE[1]] = math.inf
                readings = LaserReadings(
                    ranges=ranges.astype(np.float32), angle_min=0.0,
                    angle_increment=math.tau / RAYS, range_min=0.02, range_max=RANGE[1],
                )  # fmt: skip
                memory.add(view_of_scan(readings, np.eye(4), 0.0, 1.0, 4.0), pose, now)
            seen = SeenObstacles(memory.around(pose))
            twist = self.navigator.step(pose, self.base.odometry.twist, DT, seen)
            if twist is None:
                break
            self.base.step(twist)
            poses.append(self.base.pose)
            self.waits.append(avoidance.text)
            near = into_base(outline, self.base.pose)
            near = near[np.hypot(near[:, 0], near[:, 1]) < footprint.radius + 0.5]
            self.clearances.append(float(footprint.distances(near).min(initial=0.5)))
        self.poses = np.array(poses)
