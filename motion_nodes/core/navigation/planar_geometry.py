# SPDX-License-Identifier: Apache-2.0
"""Planar poses, and planar paths: validated points with arc length, direction and curvature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from motion_nodes.core.bases.odometry import wrap_angle
from motion_nodes.errors import InvalidCommand
from motion_nodes.tolerances import EQUAL_POINTS
from motion_nodes.typing import Array

SPACING = 0.05
"""Max spacing of the points used by the controllers [m]."""
MOST_POINTS = 50_000
"""Max number of points; longer paths get a wider spacing."""


class Pose2(NamedTuple):
    """A planar pose; ``X_AB`` is the pose of B in A."""

    x: float = 0.0
    """[m]"""
    y: float = 0.0
    """[m]"""
    yaw: float = 0.0
    """[rad]"""

    @property
    def finite(self) -> bool:
        """True when no number is NaN or infinite."""
        return math.isfinite(self.x) and math.isfinite(self.y) and math.isfinite(self.yaw)

    def compose(self, X_BC: Pose2) -> Pose2:
        """Return ``X_AC`` for this pose ``X_AB``."""
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        return Pose2(
            self.x + c * X_BC.x - s * X_BC.y,
            self.y + s * X_BC.x + c * X_BC.y,
            wrap_angle(self.yaw + X_BC.yaw),
        )

    def inverse(self) -> Pose2:
        """Return ``X_BA`` for this pose ``X_AB``."""
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        return Pose2(-c * self.x - s * self.y, s * self.x - c * self.y, wrap_angle(-self.yaw))

    def distance(self, other: Pose2) -> float:
        """Return the distance to another position [m]."""
        return math.hypot(other.x - self.x, other.y - self.y)

    def bearing(self, other: Pose2) -> float:
        """Return the direction to another position, in the outer frame [rad]."""
        return math.atan2(other.y - self.y, other.x - self.x)


class PlanarPath:
    """A polyline of poses without duplicate points; all arrays are read-only.

    Attributes:
        xy: points [m], shape (n, 2).
        yaw: given heading of the base at each point [rad], continuous, shape (n,).
        s: arc length from the start [m], shape (n,).
        direction: direction of travel at each point [rad], continuous, shape (n,).
        curvature: curvature at each point, positive to the left [1/m], shape (n,).
    """

    def __init__(self, poses: Array | Sequence[Sequence[float]]) -> None:
        """Create from (x, y, yaw) rows [m, m, rad], shape (n, 3).

        Raises:
            InvalidCommand: fewer than two distinct points, a value that is not finite, or an array
                of wrong shape.
        """
        rows = np.array(poses, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1:] != (3,):
            raise InvalidCommand(
                f"a path needs rows of x, y, yaw; its shape is {rows.shape}", field="path"
            )
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if bad.size:
            i = int(bad[0])
            raise InvalidCommand(
                f"pose {i} of the path is {tuple(rows[i].tolist())}, not finite", field="path"
            )
        rows = _without_duplicates(rows)
        if len(rows) < 2:
            raise InvalidCommand(
                f"the path has {len(poses)} poses at {len(rows)} different places; it needs at "
                "least 2 places",
                field="path",
            )
        steps = np.diff(rows[:, :2], axis=0)
        lengths = np.hypot(steps[:, 0], steps[:, 1])
        self.xy = rows[:, :2].copy()
        self.yaw: Array = np.unwrap(rows[:, 2])
        self.s: Array = np.concatenate(([0.0], np.cumsum(lengths)))
        self._segment: Array = np.unwrap(np.arctan2(steps[:, 1], steps[:, 0]))
        self.direction = _at_points(self._segment, lengths)
        self.curvature = self._curvature(0.1)
        for values in (self.xy, self.yaw, self.s, self.direction, self.curvature):
            values.setflags(write=False)

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.s)

    @property
    def length(self) -> float:
        """Length [m]."""
        return float(self.s[-1])

    @property
    def end(self) -> Pose2:
        """The last pose."""
        return Pose2(float(self.xy[-1, 0]), float(self.xy[-1, 1]), float(self.yaw[-1]))

    @property
    def turns(self) -> Array:
        """Change of direction at each inner point [rad], shape (n - 2,)."""
        return np.diff(self._segment)

    def poses(self) -> Array:
        """Return (x, y, yaw) rows, shape (n, 3)."""
        return np.column_stack((self.xy, self.yaw))

    def resampled(self, spacing: float = SPACING) -> PlanarPath:
        """Return the same polyline with points at most ``spacing`` [m] apart, including corners."""
        spacing = max(spacing, self.length / MOST_POINTS)
        parts = np.maximum(np.ceil(np.diff(self.s) / spacing - 1e-9), 1).astype(int)
        if (parts == 1).all():
            return self
        inner = [
            np.linspace(a, b, n, endpoint=False)
            for a, b, n in zip(self.s[:-1], self.s[1:], parts, strict=True)
        ]
        s = np.concatenate([*inner, self.s[-1:]])
        columns = (self.xy[:, 0], self.xy[:, 1], self.yaw)
        return PlanarPath(np.column_stack([np.interp(s, self.s, values) for values in columns]))

    def slice(self, first: int, last: int) -> PlanarPath:
        """Return the part between two points, both included."""
        return PlanarPath(self.poses()[first : last + 1])

    def _curvature(self, window: float) -> Array:
        """Return the curvature of the circle through three points ``window`` [m] apart.

        With a window instead of neighbouring points, steps of grid planners do not count as curves.
        Source: Menger curvature, ``4 area / (a b c)``.
        """
        h = min(window, 0.5 * self.length)
        first = np.clip(self.s - h, 0.0, self.length - 2.0 * h)
        p, q, r = (
            np.column_stack([np.interp(first + shift, self.s, self.xy[:, axis]) for axis in (0, 1)])
            for shift in (0.0, h, 2.0 * h)
        )
        a, b, c = q - p, r - q, r - p
        twice_area = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
        sides = np.hypot(*a.T) * np.hypot(*b.T) * np.hypot(*c.T)
        # Where the path reverses, its end points coincide.
        turning_back = sides <= 1e-12
        return np.where(
            turning_back, math.pi / h, 2.0 * twice_area / np.where(turning_back, 1.0, sides)
        )


def _without_duplicates(rows: Array) -> Array:
    """Return the rows at distinct positions, each with the yaw of its last duplicate."""
    kept = [0] if len(rows) else []
    for i in range(1, len(rows)):
        dx, dy = rows[i, :2] - rows[kept[-1], :2]
        if math.hypot(dx, dy) > EQUAL_POINTS:
            kept.append(i)
        else:
            rows[kept[-1], 2] = rows[i, 2]
    return rows[kept]


def _at_points(segment: Array, lengths: Array) -> Array:
    """Return the direction at points from that of segments: exact on circles."""
    if len(segment) == 1:
        return np.repeat(segment, 2)
    before, after = lengths[:-1], lengths[1:]
    inner = (segment[:-1] * after + segment[1:] * before) / (before + after)
    turn_in, turn_out = segment[0] - inner[0], segment[-1] - inner[-1]
    return np.concatenate(([segment[0] + turn_in], inner, [segment[-1] + turn_out]))
