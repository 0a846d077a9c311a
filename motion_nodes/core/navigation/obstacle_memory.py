# SPDX-License-Identifier: Apache-2.0
"""Obstacles around a base, in the odometry frame, with their ages.

Obstacles are points on the floor, from a laser scan or a point cloud. A :class:`SensorView` is the
content of one message: points in the frame of the base, and the visible range in each direction,
which clears previous points.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.odometry import wrap_angle
from motion_nodes.core.navigation.footprint import Footprint, into_base, out_of_base
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.errors import InvalidCommand
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

MOST_READINGS = 20_000
"""Max number of readings of a scan."""
FARTHEST = 1000.0
"""Max range_max of a scanner [m]; larger values indicate millimetres."""
BLIND = 0.95
"""Max fraction of invalid readings; with more, a scanner counts as blind."""
_BINS = 720
"""Number of directions of a cloud around its sensor."""
OWN = 0.01
"""Max distance from the footprint of points that belong to the base [m]."""
JUMP = (0.1, 0.2)
"""Min displacement of odometry beyond its velocity that counts as a jump [m, rad]."""
BLINDED = 0.8
"""Max fraction of a view's points on the base; with more, the sensor is obstructed by the base."""


@dataclass(frozen=True, kw_only=True)
class LaserReadings:
    """One planar scan, as in sensor_msgs/LaserScan."""

    ranges: NDArray[np.float32]
    """[m], shape (n,). inf: nothing in range; -inf: closer than range_min; NaN: not measured."""
    angle_min: float
    """Direction of the first reading in the plane of the sensor [rad]."""
    angle_increment: float
    """[rad]"""
    range_min: float
    """[m]"""
    range_max: float
    """[m]"""

    def __post_init__(self) -> None:
        """Validate the fields.

        Raises:
            InvalidCommand: names the field and its value.
        """
        n, step = len(self.ranges), self.angle_increment
        if not 1 <= n <= MOST_READINGS:
            raise InvalidCommand(f"the scan has {n} ranges; allowed are 1 to {MOST_READINGS}")
        if not (math.isfinite(self.angle_min) and abs(self.angle_min) < 10.0):
            raise InvalidCommand(f"angle_min is {self.angle_min}; it must be within 10 rad")
        if not (math.isfinite(step) and (0.0 < abs(step) and (n - 1) * abs(step) < 6.5)):
            raise InvalidCommand(
                f"angle_increment is {step} rad with {n} ranges; it must not be 0, and a scan is "
                "at most one turn"
            )
        low, high = self.range_min, self.range_max
        if not (math.isfinite(low) and math.isfinite(high) and 0.0 <= low < high):
            raise InvalidCommand(
                f"range_min is {low} m, range_max is {high} m; they must be finite and increasing"
            )
        if high > FARTHEST:
            raise InvalidCommand(
                f"range_max is {high:g} m; allowed is {FARTHEST:g} m (is it in millimetres?)"
            )
        finite = self.ranges[np.isfinite(self.ranges)]
        if (finite > 20.0 * high).sum() > 0.5 * len(finite):
            raise InvalidCommand(
                f"most ranges are far beyond range_max, {high:g} m, such as {finite.max():g} (are "
                "they in millimetres?)"
            )
        # 0 and other values below range_min are not measurements, and -inf is one (REP-117).
        below = (self.ranges < low) & ~np.isneginf(self.ranges)
        if (np.isnan(self.ranges) | below).mean() > BLIND:
            raise InvalidCommand(
                f"the scan has no valid ranges (NaN, or below range_min, {low:g} m): the scanner "
                "is blind"
            )

    @property
    def angles(self) -> Array:
        """Directions of the readings [rad], shape (n,)."""
        return np.asarray(
            self.angle_min + self.angle_increment * np.arange(len(self.ranges)), np.float64
        )


@dataclass(frozen=True, eq=False)
class SensorView:
    """Measurements of a sensor at one time."""

    points: Array
    """Obstacles in the base frame [m], shape (n, 2)."""
    origin: Array
    """Position of the sensor in the base frame [m], shape (2,)."""
    start: float
    """Direction of the first bin in the base frame [rad]."""
    step: float
    """Angle between two bins, may be negative [rad]."""
    nearest: Array
    """Min visible distance of each bin from the sensor [m], shape (bins,)."""
    seen: Array
    """Max visible distance of each bin [m], shape (bins,); 0: not visible."""
    own: int = 0
    """Number of points that were dropped because they are inside the footprint."""

    def clears(self, points: Array) -> NDArray[np.bool_]:
        """Return which points in the base frame are within the visible range, shape (n,)."""
        offsets = points - self.origin
        at = (np.arctan2(offsets[:, 1], offsets[:, 0]) - self.start) / self.step
        turn = abs(math.tau / self.step)
        at = np.mod(at, turn)
        at = np.where(at > turn - 0.5, at - turn, at)
        bins = len(self.seen)
        around = bins * abs(self.step) > math.tau - 1.5 * abs(self.step)
        low = np.floor(at).astype(int)
        pair = np.stack((low, low + 1))
        known = np.ones_like(pair, np.bool_) if around else (pair >= 0) & (pair < bins)
        pair = np.mod(pair, bins)
        distances = np.hypot(offsets[:, 0], offsets[:, 1])
        through = known & (distances < self.seen[pair]) & (distances > self.nearest[pair])
        return np.asarray(through.all(axis=0))


def view_of_scan(
    readings: LaserReadings, X_BS: Array, low: float, high: float, reach: float
) -> SensorView:
    """Return the obstacles in a scan.

    Args:
        readings: the scan.
        X_BS: pose of the sensor in the base frame, shape (4, 4); one per reading, shape (n, 4, 4),
            if the base moved during the scan: all in the base frame of one time.
        low: height above which a point is an obstacle [m, base frame].
        high: height below which a point is an obstacle [m, base frame].
        reach: max distance from the sensor [m].
    """
    ranges = readings.ranges.astype(np.float64)
    angles = readings.angles
    # -inf: closer than range_min (REP-117).
    ranges = np.where(np.isneginf(ranges), max(readings.range_min, 1e-3), ranges)
    hit = (ranges >= readings.range_min) & (ranges <= readings.range_max) & (ranges > 0.0)
    flat = np.column_stack((np.cos(angles), np.sin(angles), np.zeros(len(angles))))
    X = np.broadcast_to(X_BS, (len(angles), 4, 4))
    rays = np.einsum("nij,nj->ni", X[:, :3, :3], flat)
    places = X[:, :3, 3] + np.where(hit, ranges, 0.0)[:, None] * rays
    sensor = float(np.mean(X[:, 2, 3]))
    # A level scanner outside these heights measures obstacles that extend to its height.
    within = (places[:, 2] >= min(low, sensor - 0.01)) & (places[:, 2] <= max(high, sensor + 0.01))
    level = np.hypot(rays[:, 0], rays[:, 1])
    seen = np.where(np.isposinf(ranges), readings.range_max, np.where(hit, ranges, 0.0)) * level
    # Directions in the base frame; their order differs for an inclined or inverted scanner.
    middle = X[len(angles) // 2]
    first = np.array((math.cos(angles[0]), math.sin(angles[0]), 0.0))
    start = middle[:2, :3] @ first
    sense = 1.0 if middle[2, 2] >= 0.0 else -1.0
    near = hit & within & (ranges * level <= reach)
    return SensorView(
        places[near, :2],
        middle[:2, 3].copy(),
        math.atan2(start[1], start[0]),
        sense * readings.angle_increment,
        np.full(len(angles), readings.range_min),
        np.minimum(seen, reach) + 0.02 * (seen > 0.0),
    )


def view_of_cloud(
    points: NDArray[np.float32], X_BS: Array, low: float, high: float, reach: float
) -> SensorView:
    """Return the obstacles of a point cloud between two heights.

    The visible range of a direction is from its nearest point to its farthest point or its first
    obstacle.

    Args:
        points: points in the frame of the sensor [m], shape (n, 3); rows that are not finite are
            ignored.
        X_BS: pose of the sensor in the base frame, shape (4, 4).
        low: height above which a point is an obstacle [m, base frame].
        high: height below which a point is an obstacle [m, base frame].
        reach: max distance from the sensor [m].

    Raises:
        InvalidCommand: no finite point, or distances that indicate millimetres.
    """
    finite = points[np.isfinite(points).all(axis=1)].astype(np.float64)
    if not len(finite):
        raise InvalidCommand("the cloud has no finite points: the sensor is blind")
    lengths = np.abs(finite).max(axis=1)
    if np.median(lengths) > FARTHEST or lengths.max() > 1e6:
        raise InvalidCommand(
            f"points of the cloud are {float(np.median(lengths)):g} m away (are they in "
            "millimetres?)"
        )
    places = finite @ X_BS[:3, :3].T + X_BS[:3, 3]
    origin = np.array(X_BS[:2, 3])
    offsets = places[:, :2] - origin
    away = np.hypot(offsets[:, 0], offsets[:, 1])
    used = away <= reach
    places, offsets, away = places[used], offsets[used], away[used]
    obstacle = (places[:, 2] >= low) & (places[:, 2] <= high)
    step = math.tau / _BINS
    bins = (np.arctan2(offsets[:, 1], offsets[:, 0]) / step).astype(int) % _BINS
    nearest, seen = np.full(_BINS, math.inf), np.zeros(_BINS)
    np.minimum.at(nearest, bins, away)
    np.maximum.at(seen, bins, away)
    first = np.full(_BINS, math.inf)
    np.minimum.at(first, bins[obstacle], away[obstacle])
    seen = np.minimum(seen, first + 0.02)
    return SensorView(
        _thinned(places[obstacle, :2]), origin, 0.0, step, np.minimum(nearest, 1e6), seen
    )


def _thinned(points: Array, cell: float = 0.01) -> Array:
    """Return one of the points in each square of 1 cm."""
    if not len(points):
        return points
    _, first = np.unique(np.floor(points / cell).astype(np.int64), axis=0, return_index=True)
    return np.asarray(points[np.sort(first)])


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
        check_settings(self)


class PoseHistory:
    """Recent poses of the base."""

    SPAN = 2.0
    """[s]"""

    def __init__(self) -> None:
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

    def remove(self, pose: Pose2, size: float, *, inside: bool) -> None:
        """Remove the points in or outside of a square along the axes of the odometry frame.

        Args:
            pose: its centre, in the odometry frame.
            size: its edge [m].
            inside: whether those in it are removed, or the others.
        """
        within = (np.abs(self.points - (pose.x, pose.y)) <= 0.5 * size).all(axis=1)
        kept = within != inside
        self.points = self.points[kept]
        self._times, self._sources = self._times[kept], self._sources[kept]

    def around(self, pose: Pose2) -> Array:
        """Return the points in the base frame at a pose [m], shape (n, 2)."""
        return into_base(self.points, pose)
