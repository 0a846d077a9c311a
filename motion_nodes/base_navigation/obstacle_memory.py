# SPDX-License-Identifier: Apache-2.0
"""Obstacles around a base, in the odometry frame, with their ages."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from motion_nodes.base_navigation.footprint import Footprint
from motion_nodes.base_navigation.free_motion import into_base, out_of_base
from motion_nodes.base_navigation.obstacle_points import SensorView
from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.bases.base import Twist2
from motion_nodes.bases.odometry import wrap_angle
from motion_nodes.errors import InvalidCommand
from motion_nodes.model.setting import check_settings, setting
from motion_nodes.typing import Array

OWN = 0.01
"""Max distance from the footprint of points that belong to the base [m]."""
JUMP = (0.1, 0.2)
"""Min displacement of odometry beyond its velocity that counts as a jump [m, rad]."""
BLINDED = 0.8
"""Max fraction of a view's points on the base; with more, the sensor is obstructed by the base."""


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """Settings of the stored obstacle points."""

    reach: float = setting(4.0, doc="Max distance of obstacles.", unit="m", gt=0.0, le=100.0)
    memory: float = setting(
        30.0, doc="Lifetime of obstacles that are no longer visible, such as those occluded or "
        "outside the field of view.", unit="s", ge=0.0, le=3600.0,
    )  # fmt: skip
    max_points: int = setting(
        4000, doc="Max number of stored points; the farthest ones are dropped.", ge=100,
        le=100_000,
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Validate the numbers."""
        check_settings(self)


class PoseHistory:
    """Recent poses of the base."""

    SPAN = 2.0
    """[s]"""

    def __init__(self) -> None:
        """Start empty."""
        self._rows: deque[tuple[float, float, float, float]] = deque()
        self._twist: Twist2 | None = None

    def clear(self) -> None:
        """Remove all poses."""
        self._rows.clear()

    @property
    def newest(self) -> float:
        """Time of the newest pose [s]; -inf without one."""
        return self._rows[-1][0] if self._rows else -math.inf

    def add(self, time: float, pose: Pose2, twist: Twist2 | None = None) -> bool:
        """Add the newest pose; backward time and jumps clear the others.

        Args:
            time: time of the pose [s].
            pose: pose in the odometry frame.
            twist: velocity of the base, to detect jumps; None: jumps are not detected.

        Returns:
            Whether odometry has jumped, which invalidates obstacles in its frame.
        """
        before, self._twist = self._twist, twist
        jumped = False
        if time < self.newest:
            self._rows.clear()
        elif self._rows and twist is not None:
            last = Pose2(*self._rows[-1][1:])
            within, speeds = 1.5 * (time - self.newest), [twist, before or twist]
            travel = within * max(math.hypot(each.vx, each.vy) for each in speeds)
            turn = within * max(abs(each.wz) for each in speeds)
            turned = abs(wrap_angle(pose.yaw - last.yaw))
            jumped = last.distance(pose) > JUMP[0] + travel or turned > JUMP[1] + turn
            if jumped:
                self._rows.clear()
        if time > self.newest:
            yaw = pose.yaw
            if self._rows:
                last_yaw = self._rows[-1][3]
                yaw = last_yaw + math.remainder(yaw - last_yaw, math.tau)
            self._rows.append((time, pose.x, pose.y, yaw))
        while self._rows and self._rows[-1][0] - self._rows[0][0] > self.SPAN:
            self._rows.popleft()
        return jumped

    def at(self, times: Array | float, tolerance: float = 0.1) -> Array:
        """Return interpolated poses (x, y, yaw), shape (n, 3).

        Args:
            times: times [s], shape (n,).
            tolerance: max extrapolation before the first or after the last pose [s].

        Raises:
            InvalidCommand: a time is not covered.
        """
        t = np.atleast_1d(np.asarray(times, np.float64))
        if not self._rows:
            raise InvalidCommand("no odometry was received")
        rows = np.array(self._rows)
        if t.min() < rows[0, 0] - tolerance:
            raise InvalidCommand(
                f"its stamp is {rows[0, 0] - t.min():.2f} s older than the known odometry"
            )
        if t.max() > rows[-1, 0] + tolerance:
            raise InvalidCommand(f"its stamp is {t.max() - rows[-1, 0]:.2f} s newer than odometry")
        return np.column_stack([np.interp(t, rows[:, 0], rows[:, k]) for k in (1, 2, 3)])

    def sensor_poses(self, X_BS: Array, begin: float, duration: float, count: int) -> Array:
        """Return the poses of a sensor during a scan, in the base frame at its end.

        Args:
            X_BS: pose of the sensor in the base frame, shape (4, 4).
            begin: time of the first reading [s].
            duration: time until the last one [s].
            count: number of readings.

        Returns:
            One pose for each reading, shape (count, 4, 4).

        Raises:
            InvalidCommand: a time is not covered.
        """
        rows = self.at(begin + np.linspace(0.0, duration, count))
        x, y, yaw = rows[-1].tolist()
        X = np.tile(np.eye(4), (count, 1, 1))
        c, s = np.cos(rows[:, 2] - yaw), np.sin(rows[:, 2] - yaw)
        X[:, 0, 0], X[:, 0, 1], X[:, 1, 0], X[:, 1, 1] = c, -s, s, c
        X[:, :2, 3] = into_base(rows[:, :2], Pose2(x, y, yaw))
        return np.asarray(X @ X_BS)


class ObstacleMemory:
    """Points with the time of their last measurement; not thread-safe."""

    def __init__(self, footprint: Footprint, config: MemoryConfig | None = None) -> None:
        """Start empty."""
        self.reconfigure(footprint, config or MemoryConfig())
        self.clear()

    def reconfigure(self, footprint: Footprint, config: MemoryConfig) -> None:
        """Replace footprint and settings; stored points are kept."""
        self._footprint, self.config = footprint, config

    def clear(self) -> None:
        """Remove all points."""
        self.points: Array = np.empty((0, 2))
        """In the odometry frame [m], shape (n, 2)."""
        self._times: Array = np.empty(0)
        self._sources: NDArray[np.int64] = np.empty(0, np.int64)

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.points)

    def add(self, view: SensorView, pose: Pose2, time: float, source: int = 0) -> SensorView:
        """Add the view of a sensor, and remove stored points that it contradicts.

        Args:
            view: view in the base frame.
            pose: pose of the base at the time of the view, in the odometry frame.
            time: time of the view [s].
            source: number of the sensor.

        Returns:
            The view, without points on the base.

        Raises:
            InvalidCommand: most points are on the base.
        """
        own = self._footprint.distances(view.points) <= OWN
        count = int(own.sum())
        if count > BLINDED * len(view.seen) or (len(own) > 20 and own.mean() > BLINDED):
            raise InvalidCommand(
                f"{count} of its {len(own)} points are on the base itself: the sensor is inside "
                "the footprint and obstructed by it, or its pose on the base is wrong"
            )
        view = replace(view, points=view.points[~own], own=count)
        config = self.config
        kept = time - self._times <= config.memory
        mine = kept & (self._sources == source)
        if mine.any():
            kept[mine] = ~view.clears(into_base(self.points[mine], pose))
        points = np.concatenate((self.points[kept], out_of_base(view.points, pose)))
        times = np.concatenate((self._times[kept], np.full(len(view.points), time)))
        sources = np.concatenate((self._sources[kept], np.full(len(view.points), source)))
        distances = np.hypot(points[:, 0] - pose.x, points[:, 1] - pose.y)
        near = np.flatnonzero(distances <= config.reach + self._footprint.radius)
        if len(near) > config.max_points:
            near = near[np.argpartition(distances[near], config.max_points)[: config.max_points]]
        self.points, self._times, self._sources = points[near], times[near], sources[near]
        return view

    def age(self, time: float) -> None:
        """Remove expired points at a time [s]."""
        kept = time - self._times <= self.config.memory
        if not kept.all():
            self.points = self.points[kept]
            self._times, self._sources = self._times[kept], self._sources[kept]

    def around(self, pose: Pose2) -> Array:
        """Return the points in the base frame at a pose [m], shape (n, 2)."""
        return into_base(self.points, pose)
