# SPDX-License-Identifier: Apache-2.0
"""Obstacles as points on the floor, from a laser scan or a point cloud.

A :class:`SensorView` is the content of one message: points in the frame of the base, and the
visible range in each direction, which clears previous points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array

MOST_READINGS = 20_000
"""Max number of readings of a scan."""
FARTHEST = 1000.0
"""Max range_max of a scanner [m]; larger values indicate millimetres."""
BLIND = 0.95
"""Max fraction of invalid readings; with more, a scanner counts as blind."""
_BINS = 720
"""Number of directions of a cloud around its sensor."""


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
