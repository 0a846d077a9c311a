# SPDX-License-Identifier: Apache-2.0
"""Segments of a tool path: lines, rotations on the spot, circular arcs, and their chain."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.poses import rotation_about
from motion_nodes.model.rotation_vectors import rotation_vector
from motion_nodes.typing import Array

NO_WAY = 1e-6
"""Shorter translations are ignored [m]."""
NO_TURN = 1e-6
"""Smaller rotations are ignored [rad]."""
_SMOOTH = 1e-4
"""Changes of direction below this are not corners [rad]."""


class Segment(Protocol):
    """One segment of a path, parameterized from 0 to 1."""

    @property
    def length(self) -> float:
        """Path length of the tool [m], or its rotation angle if it does not translate [rad]."""

    @property
    def translates(self) -> bool:
        """Whether the tool's position changes."""

    def pose(self, share: float) -> Array:
        """Return the tool's pose, shape (4, 4)."""

    def direction(self, share: float) -> Array:
        """Return the unit tangent or, on the spot, the rotation axis, (3,)."""


@dataclass(frozen=True, eq=False)
class Line:
    """A straight line with uniform rotation about a fixed axis (slerp).

    Either may be zero, but not both.
    """

    start: Array
    """Pose, shape (4, 4)."""
    end: Array
    """Pose, shape (4, 4)."""

    @cached_property
    def way(self) -> Array:
        """Displacement from start to end [m], shape (3,)."""
        return np.asarray(self.end[:3, 3] - self.start[:3, 3])

    @cached_property
    def turn(self) -> Array:
        """Rotation vector from start to end, in the frame of the start [rad], shape (3,)."""
        return np.array(rotation_vector(self.start[:3, :3].T @ self.end[:3, :3]))

    @property
    def translates(self) -> bool:
        """Whether the tool's position changes."""
        return float(np.linalg.norm(self.way)) > NO_WAY

    @property
    def length(self) -> float:
        """Path length of the tool [m], or its rotation angle if it does not translate [rad]."""
        return float(np.linalg.norm(self.way if self.translates else self.turn))

    def pose(self, share: float) -> Array:
        """Return the tool's pose, shape (4, 4)."""
        X = np.eye(4)
        X[:3, 3] = self.start[:3, 3] + share * self.way
        X[:3, :3] = self.start[:3, :3] @ rotation(share * self.turn)
        return X

    def direction(self, share: float) -> Array:
        """Return the unit tangent or, on the spot, the rotation axis, (3,)."""
        vector = self.way if self.translates else self.start[:3, :3] @ self.turn
        return np.asarray(vector / np.linalg.norm(vector))

    def part(self, begin: float, end: float) -> Line:
        """Return the line between two path parameters."""
        return Line(self.pose(begin), self.pose(end))


@dataclass(frozen=True, eq=False)
class Arc:
    """A circular arc."""

    start: Array
    """Pose, shape (4, 4)."""
    center: Array
    """Centre [m], shape (3,)."""
    axis: Array
    """Unit axis of rotation (right-hand rule), shape (3,)."""
    angle: float
    """Angle [rad], above 0."""
    orientation: Literal["kept", "tangent", "target"] = "kept"
    """Constant; rotating with the direction of motion; or to a target (slerp)."""
    target: Array | None = None
    """Rotation at the end, shape (3, 3)."""

    @cached_property
    def radius(self) -> float:
        """Radius of the circle [m]."""
        return float(np.linalg.norm(self.start[:3, 3] - self.center))

    @property
    def length(self) -> float:
        """Path length of the tool [m]."""
        return self.radius * self.angle

    @property
    def translates(self) -> bool:
        """Whether the tool's position changes: always."""
        return True

    def pose(self, share: float) -> Array:
        """Return the tool's pose, shape (4, 4)."""
        R = rotation_about(self.axis, np.asarray(share * self.angle))
        X = np.eye(4)
        X[:3, 3] = self.center + R @ (self.start[:3, 3] - self.center)
        R_start = self.start[:3, :3]
        if self.orientation == "tangent":
            X[:3, :3] = R @ R_start
        elif self.target is not None:
            X[:3, :3] = R_start @ rotation(
                share * np.array(rotation_vector(R_start.T @ self.target))
            )
        else:
            X[:3, :3] = R_start
        return X

    def direction(self, share: float) -> Array:
        """Return the unit tangent, shape (3,)."""
        arm = self.pose(share)[:3, 3] - self.center
        return np.asarray(np.cross(self.axis, arm) / self.radius)


@dataclass(frozen=True, eq=False)
class TaskSpacePath:
    """Consecutive segments."""

    segments: tuple[Segment, ...]

    @cached_property
    def breaks(self) -> Array:
        """Distances at which segments begin and end, shape (m + 1,)."""
        return np.concatenate([[0.0], np.cumsum([segment.length for segment in self.segments])])

    @property
    def length(self) -> float:
        """Total length [m; rad for rotations on the spot]."""
        return float(sum(segment.length for segment in self.segments))

    @property
    def corners(self) -> Array:
        """Distances [m] between segments at which the direction jumps: the tool must stop there."""
        found = []
        for at, before, after in zip(
            self.breaks[1:-1], self.segments[:-1], self.segments[1:], strict=True
        ):
            straight = float(before.direction(1.0) @ after.direction(0.0)) > math.cos(_SMOOTH)
            if before.translates != after.translates or not straight:
                found.append(at)
        return np.array(found)

    def pose(self, distance: float) -> Array:
        """Return the tool's pose at a distance from the start, shape (4, 4)."""
        breaks = self.breaks
        i = int(np.clip(np.searchsorted(breaks, distance, side="right") - 1, 0, len(breaks) - 2))
        share = (distance - breaks[i]) / (breaks[i + 1] - breaks[i])
        return self.segments[i].pose(float(np.clip(share, 0.0, 1.0)))


def rotation(vector: Array) -> Array:
    """Return the rotation matrix of a rotation vector [rad], shape (3, 3)."""
    angle = float(np.linalg.norm(vector))
    axis = vector / angle if angle > 0.0 else np.array([0.0, 0.0, 1.0])
    return rotation_about(axis, np.asarray(angle))


def arc_through(start: Array, mid: Array, end: Array) -> Arc:
    """Return the arc from a pose through a point to a point.

    Args:
        start: pose, shape (4, 4).
        mid: intermediate position [m], shape (3,).
        end: end position [m], shape (3,).

    Raises:
        InvalidCommand: two of the points are equal, or all are collinear.

    Source: centre of the circumscribed circle of a triangle, from the chords a and b from start: c
    = start + ((|a|^2 b - |b|^2 a) x (a x b)) / (2 |a x b|^2).
    """
    a, b = mid - start[:3, 3], end - start[:3, 3]
    lengths = np.linalg.norm(a), np.linalg.norm(b), np.linalg.norm(b - a)
    if min(lengths) <= NO_WAY:
        raise InvalidCommand(
            "two of an arc's three points are the same; it needs three different ones", field="arc"
        )
    normal = np.cross(a, b)
    if np.linalg.norm(normal) <= 1e-6 * lengths[0] * lengths[1]:
        raise InvalidCommand(
            "the three points of an arc are on a line; use a linear path, or move one", field="arc"
        )
    offset = np.cross((a @ a) * b - (b @ b) * a, normal) / (2.0 * (normal @ normal))
    axis = normal / np.linalg.norm(normal)
    return Arc(start, start[:3, 3] + offset, axis, _angle(-offset, b - offset, axis))


def arc_along(start: Array, tangent: Array, end: Array) -> Arc:
    """Return the arc from a pose with an initial direction to a point.

    Args:
        start: pose, shape (4, 4).
        tangent: unit vector, shape (3,).
        end: end position [m], shape (3,).

    Raises:
        InvalidCommand: the end is equal to the start, or straight ahead or behind.

    Source: the angle between tangent and chord is half the arc's (tangent-chord theorem), so the
    radius is |chord| / (2 sin).
    """
    chord = end - start[:3, 3]
    length = float(np.linalg.norm(chord))
    if length <= NO_WAY:
        raise InvalidCommand("an arc's target is where it starts")
    normal = np.cross(tangent, chord)
    sine = float(np.linalg.norm(normal)) / length
    if sine <= 1e-6:
        raise InvalidCommand(
            "an arc's target is straight ahead of or behind where it starts; use a linear path"
        )
    axis = normal / np.linalg.norm(normal)
    center = start[:3, 3] + np.cross(axis, tangent) * (length / (2.0 * sine))
    angle = _angle(start[:3, 3] - center, end - center, axis)
    return Arc(start, center, axis, angle)


def _angle(begin: Array, end: Array, axis: Array) -> float:
    """Return the rotation from one vector to another about an axis [rad], 0 to 2 pi."""
    angle = math.atan2(float(np.cross(begin, end) @ axis), float(begin @ end))
    return angle if angle > 0.0 else angle + 2.0 * math.pi
