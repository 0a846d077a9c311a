# SPDX-License-Identifier: Apache-2.0
"""Position of a base along a path: the closest point, with continuous progress."""

from __future__ import annotations

import math
from typing import NamedTuple

from motion_nodes.base_navigation.planar_path import PlanarPath
from motion_nodes.bases.odometry import wrap_angle

AHEAD = 0.5
"""Search distance for the closest point along the path, from the previous one [m]."""


class PathPoint(NamedTuple):
    """The closest point of a path."""

    s: float
    """Arc length; below 0 before the start, above the length past the end [m]."""
    x: float
    """[m]"""
    y: float
    """[m]"""
    direction: float
    """Direction of travel [rad]."""
    yaw: float
    """Heading of the base given by the path [rad]."""
    yaw_slope: float
    """Derivative of that heading along the path [rad/m]."""
    curvature: float
    """[1/m]"""
    cross_track: float
    """Distance of the position from the path, positive to the left of it [m]."""
    away: float
    """Distance of the position from the path itself, without its straight extensions [m]."""


class PathPosition:
    """Tracks a base along a path.

    The search for the closest point starts at the previous one and covers a short distance, so that
    a path may cross itself or end at its start: a branch far away along the path is not considered.
    At both ends the path is extended by straight lines.
    """

    def __init__(self, path: PlanarPath) -> None:
        """Begin at the start of a densely sampled path."""
        self._path = path
        self._s: list[float] = path.s.tolist()
        self._x: list[float] = path.xy[:, 0].tolist()
        self._y: list[float] = path.xy[:, 1].tolist()
        self._direction: list[float] = path.direction.tolist()
        self._yaw: list[float] = path.yaw.tolist()
        self._curvature: list[float] = path.curvature.tolist()
        self._segment: int | None = None

    def update(self, x: float, y: float) -> PathPoint:
        """Return the closest point to a place [m, m], not behind the previous one's segment."""
        if self._segment is None:
            # The closest point is not much farther along than the distance of the base from the
            # start.
            first, reach = 0, AHEAD + 2.0 * math.hypot(x - self._x[0], y - self._y[0])
        else:
            first, reach = self._segment, self._s[self._segment] + AHEAD
        best, best_t, best_square = first, 0.0, math.inf
        for i in range(first, len(self._s) - 1):
            if self._s[i] > reach:
                break
            t = self._along(i, x, y)
            dx = self._x[i] + t * (self._x[i + 1] - self._x[i]) - x
            dy = self._y[i] + t * (self._y[i + 1] - self._y[i]) - y
            square = dx * dx + dy * dy
            if square < best_square:
                best, best_t, best_square = i, t, square
        self._segment = best
        return self._point(best, best_t, x, y)

    def _along(self, i: int, x: float, y: float) -> float:
        """Return the parameter of a place on a segment: 0 at its start, 1 at its end."""
        sx, sy = self._x[i + 1] - self._x[i], self._y[i + 1] - self._y[i]
        t = ((x - self._x[i]) * sx + (y - self._y[i]) * sy) / (sx * sx + sy * sy)
        least = -math.inf if i == 0 else 0.0
        most = math.inf if i == len(self._s) - 2 else 1.0
        return min(max(t, least), most)

    def _point(self, i: int, t: float, x: float, y: float) -> PathPoint:
        # The path is straight beyond its ends, with constant directions.
        inside = min(max(t, 0.0), 1.0)
        direction = _between(self._direction, i, inside)
        px, py = _between(self._x, i, t), _between(self._y, i, t)
        cross = math.cos(direction) * (y - py) - math.sin(direction) * (x - px)
        s, length = _between(self._s, i, t), self._s[-1]
        beyond = max(-s, s - length, 0.0)
        return PathPoint(
            s,
            px,
            py,
            wrap_angle(direction),
            wrap_angle(_between(self._yaw, i, inside)),
            (self._yaw[i + 1] - self._yaw[i]) / (self._s[i + 1] - self._s[i]),
            _between(self._curvature, i, inside),
            cross,
            math.hypot(x - px, y - py, beyond),
        )


def _between(values: list[float], i: int, t: float) -> float:
    return values[i] + t * (values[i + 1] - values[i])
