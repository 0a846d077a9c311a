# SPDX-License-Identifier: Apache-2.0
"""Shortest paths between two poses for a car (Dubins): arcs of one radius and straight lines."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from motion_nodes.base_navigation.planar_path import MOST_POINTS, SPACING, PlanarPath
from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.bases.base import Twist2
from motion_nodes.bases.odometry import arc_displacement
from motion_nodes.errors import InvalidCommand

Word = tuple[float, float, float]

TURN = {"L": 1.0, "S": 0.0, "R": -1.0}


class DubinsCurve(NamedTuple):
    """Three consecutive segments, each a turn (L, R) or a straight line (S)."""

    word: str
    """Types of the segments, such as LSR."""
    lengths: Word
    """Lengths of the segments [m]."""
    radius: float
    """[m]"""

    @property
    def length(self) -> float:
        """Length of the curve [m]."""
        return sum(self.lengths)

    def pose_at(self, start: Pose2, s: float) -> Pose2:
        """Return the pose after ``s`` [m], starting at ``start``."""
        pose = start
        for letter, length in zip(self.word, self.lengths, strict=True):
            part = min(max(s, 0.0), length)
            angle = TURN[letter] * part / self.radius
            x, y = arc_displacement(Twist2(part, 0.0, angle))
            pose = pose.compose(Pose2(x, y, angle))
            s -= length
        return pose

    def joints(self) -> tuple[float, ...]:
        """Return the arc lengths of the segment bounds [m]."""
        a, b, _ = self.lengths
        return (0.0, a, a + b, self.length)


def shortest_dubins(start: Pose2, goal: Pose2, radius: float) -> DubinsCurve:
    """Return the shortest forward path with a min turning radius [m].

    Source: Shkel and Lumelsky, "Classification of the Dubins set" (2001), the six words in
    normalised coordinates: unit radius, start at the origin, goal on the x axis.

    Raises:
        InvalidCommand: a radius that is not above 0, or poses that are not finite.
    """
    if not (math.isfinite(radius) and radius > 0.0):
        raise InvalidCommand(f"turning radius is {radius} m; it must be a finite number above 0")
    if not (start.finite and goal.finite):
        raise InvalidCommand(
            f"poses {tuple(start)} and {tuple(goal)} must be finite", field="poses"
        )
    d = start.distance(goal) / radius
    theta = start.bearing(goal)
    a, b = _turn_angle(start.yaw - theta), _turn_angle(goal.yaw - theta)
    found = [(word, parts) for word, parts in _words(d, a, b).items() if parts is not None]
    word, parts = min(found, key=lambda entry: sum(entry[1]))
    return DubinsCurve(word, (parts[0] * radius, parts[1] * radius, parts[2] * radius), radius)


def dubins_path(
    start: Pose2, goal: Pose2, radius: float, *, reversing: bool = False, spacing: float = SPACING
) -> PlanarPath:
    """Return points of the shortest path from pose to pose.

    Args:
        start: current pose.
        goal: target pose.
        radius: min turning radius [m].
        reversing: whether the whole path may be driven in reverse, if shorter.
        spacing: max spacing of the points [m]; wider on paths of more than MOST_POINTS points.

    Raises:
        InvalidCommand: start and goal coincide; see also shortest_dubins.
    """
    curve = shortest_dubins(start, goal, radius)
    turned = Pose2(0.0, 0.0, math.pi)
    backward = shortest_dubins(start.compose(turned), goal.compose(turned), radius)
    reverse = reversing and backward.length < curve.length
    curve = backward if reverse else curve
    begin = start.compose(turned) if reverse else start
    spacing = max(spacing, curve.length / MOST_POINTS)
    knots = curve.joints()
    marks = [
        np.linspace(low, high, max(math.ceil((high - low) / spacing), 1), endpoint=False)
        for low, high in itertools.pairwise(knots)
        if high > low
    ]
    poses = [curve.pose_at(begin, float(s)) for s in np.concatenate([*marks, knots[-1:]])]
    if reverse:
        poses = [pose.compose(turned) for pose in poses]
    return PlanarPath([tuple(pose) for pose in poses])


def _turn_angle(angle: float) -> float:
    """Return the angle in [0, 2 pi); a full turn up to rounding becomes 0."""
    wrapped = angle % math.tau
    return 0.0 if math.tau - wrapped < 1e-9 else wrapped


def _words(d: float, a: float, b: float) -> dict[str, Word | None]:
    """Return the segments of each word [rad or radii], None if it does not reach the goal."""
    sa, ca, sb, cb, cab = math.sin(a), math.cos(a), math.sin(b), math.cos(b), math.cos(a - b)
    outer, inner = 2.0 - 2.0 * cab, 2.0 * cab - 2.0
    return {
        "LSL": _same("L", a, b, d * d + outer + 2.0 * d * (sa - sb), cb - ca, d + sa - sb),
        "RSR": _same("R", a, b, d * d + outer + 2.0 * d * (sb - sa), ca - cb, d - sa + sb),
        "LSR": _crossed("LSR", a, b, d * d + inner + 2.0 * d * (sa + sb), -ca - cb, d + sa + sb),
        "RSL": _crossed("RSL", a, b, d * d + inner - 2.0 * d * (sa + sb), ca + cb, d - sa - sb),
        "RLR": _three_turns("R", a, b, (6.0 - d * d + 2.0 * cab + 2.0 * d * (sa - sb)) / 8.0,
                            ca - cb, d - sa + sb),
        "LRL": _three_turns("L", a, b, (6.0 - d * d + 2.0 * cab + 2.0 * d * (sb - sa)) / 8.0,
                            cb - ca, d + sa - sb),
    }  # fmt: skip


def _same(side: str, a: float, b: float, square: float, y: float, x: float) -> Word | None:
    """Return LSL or RSR."""
    if square < -1e-12:
        return None
    turn, line = math.atan2(y, x), math.sqrt(max(square, 0.0))
    if side == "L":
        return _turn_angle(turn - a), line, _turn_angle(b - turn)
    return _turn_angle(a - turn), line, _turn_angle(turn - b)


def _crossed(word: str, a: float, b: float, square: float, y: float, x: float) -> Word | None:
    """Return LSR or RSL."""
    if square < -1e-12:
        return None
    line = math.sqrt(max(square, 0.0))
    if word == "LSR":
        turn = math.atan2(y, x) - math.atan2(-2.0, line)
        return _turn_angle(turn - a), line, _turn_angle(turn - b)
    turn = math.atan2(y, x) - math.atan2(2.0, line)
    return _turn_angle(a - turn), line, _turn_angle(b - turn)


def _three_turns(side: str, a: float, b: float, cosine: float, y: float, x: float) -> Word | None:
    """Return RLR or LRL."""
    if abs(cosine) > 1.0:
        return None
    middle = _turn_angle(math.tau - math.acos(cosine))
    turn = math.atan2(y, x)
    if side == "R":
        first = _turn_angle(a - turn + 0.5 * middle)
        return first, middle, _turn_angle(a - b - first + middle)
    first = _turn_angle(turn - a + 0.5 * middle)
    return first, middle, _turn_angle(b - a - first + middle)
