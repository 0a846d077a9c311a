# SPDX-License-Identifier: Apache-2.0
"""Tool paths composed of lines, rotations on the spot and arcs, each from the previous end."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.robot.bounds import finite_numbers
from motion_nodes.core.robot.poses import rigid_pose, rotation_about, rotation_vector
from motion_nodes.errors import InvalidCommand
from motion_nodes.tolerances import EQUAL_DIRECTIONS, EQUAL_POINTS
from motion_nodes.typing import Array

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
        return float(np.linalg.norm(self.way)) > EQUAL_POINTS

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
    if min(lengths) <= EQUAL_POINTS:
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
    if length <= EQUAL_POINTS:
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


class TaskSpacePathSpec:
    """Description of a path. A rejected segment leaves the description unchanged.

    Poses are of shape (4, 4), in the base frame of the chain.
    """

    def __init__(self, initial_pose: ArrayLike) -> None:
        self.initial_pose = rigid_pose(initial_pose, "initial pose")
        self._segments: list[Segment] = []
        self._blends: list[float] = []
        self._calls: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self._segments)

    def starting_at(self, pose: ArrayLike) -> TaskSpacePathSpec:
        """Return the same segments from another initial pose: only the first one differs.

        Raises:
            InvalidCommand: a segment is degenerate from there, such as an arc of collinear points.
        """
        spec = TaskSpacePathSpec(pose)
        for add, arguments in self._calls:
            add(spec, *arguments)
        return spec

    def led_to_from(self, pose: ArrayLike) -> TaskSpacePathSpec:
        """Return the same path with a preceding straight line from a pose to its start."""
        spec = TaskSpacePathSpec(pose)
        if not np.allclose(spec.initial_pose, self.initial_pose, rtol=0.0, atol=1e-6):
            spec.add_linear_path(self.initial_pose)
        for add, arguments in self._calls:
            add(spec, *arguments)
        return spec

    @property
    def final_pose(self) -> Array:
        """Current end of the path."""
        return self._segments[-1].pose(1.0) if self._segments else self.initial_pose

    def add_linear_path(self, pose: ArrayLike, blend_radius: float = 0.0) -> None:
        """Add a straight line to a pose with uniform rotation.

        Args:
            pose: end pose, shape (4, 4).
            blend_radius: if the previous segment is a line too, the corner is blended by an arc
                that touches both at this distance [m], at most half of the shorter.
        """
        end = rigid_pose(pose, "pose")
        line = Line(self.final_pose, end)
        if not line.translates and float(np.linalg.norm(line.turn)) <= EQUAL_DIRECTIONS:
            raise InvalidCommand(
                f"piece {len(self)} of the path ends where it starts", field=f"pieces[{len(self)}]"
            )
        self._add(line, blend_radius)
        self._calls.append((TaskSpacePathSpec.add_linear_path, (end, blend_radius)))

    def add_translation(self, position: ArrayLike, blend_radius: float = 0.0) -> None:
        """Add a straight line to a position [m], shape (3,), with constant orientation."""
        pose = self.final_pose.copy()
        pose[:3, 3] = point = finite_numbers(position, 3, "position")
        if np.linalg.norm(pose[:3, 3] - self.final_pose[:3, 3]) <= EQUAL_POINTS:
            raise InvalidCommand(
                f"piece {len(self)} of the path ends where it starts", field=f"pieces[{len(self)}]"
            )
        self._add(Line(self.final_pose, pose), blend_radius)
        self._calls.append((TaskSpacePathSpec.add_translation, (point, blend_radius)))

    def add_rotation(self, rotation: ArrayLike) -> None:
        """Add a rotation on the spot to an orientation, a matrix of shape (3, 3)."""
        pose = self.final_pose.copy()
        R = np.asarray(rotation, dtype=np.float64)
        if R.shape != (3, 3):
            raise InvalidCommand(
                f"rotation has shape {R.shape}; it must be a (3, 3) matrix", field="rotation"
            )
        pose[:3, :3] = R
        line = Line(self.final_pose, rigid_pose(pose, "rotation"))
        if float(np.linalg.norm(line.turn)) <= EQUAL_DIRECTIONS:
            raise InvalidCommand(
                f"piece {len(self)} of the path ends where it starts", field=f"pieces[{len(self)}]"
            )
        self._add(line)
        self._calls.append((TaskSpacePathSpec.add_rotation, (R,)))

    def add_three_point_arc(
        self, target: ArrayLike, mid: ArrayLike, constant_orientation: bool = True
    ) -> None:
        """Add an arc through a point to a position.

        Args:
            target: end position [m], shape (3,).
            mid: intermediate position [m], shape (3,).
            constant_orientation: False: the tool rotates with the direction of motion.
        """
        middle, end = finite_numbers(mid, 3, "mid point"), finite_numbers(target, 3, "target")
        arc = arc_through(self.final_pose, middle, end)
        self._add(arc if constant_orientation else dataclasses.replace(arc, orientation="tangent"))
        arguments = (end, middle, constant_orientation)
        self._calls.append((TaskSpacePathSpec.add_three_point_arc, arguments))

    def add_three_point_arc_with_orientation_target(self, pose: ArrayLike, mid: ArrayLike) -> None:
        """Add an arc through a point [m], shape (3,), to a pose, with uniform rotation."""
        end = rigid_pose(pose, "pose")
        middle = finite_numbers(mid, 3, "mid point")
        arc = arc_through(self.final_pose, middle, end[:3, 3])
        self._add(dataclasses.replace(arc, orientation="target", target=end[:3, :3]))
        self._calls.append(
            (TaskSpacePathSpec.add_three_point_arc_with_orientation_target, (end, middle))
        )

    def add_tangent_arc(self, target: ArrayLike, constant_orientation: bool = True) -> None:
        """Add an arc tangent to the end of the previous segment.

        Args:
            target: end position [m], shape (3,).
            constant_orientation: False: the tool rotates with the direction of motion.
        """
        end = finite_numbers(target, 3, "target")
        arc = arc_along(self.final_pose, self._tangent(), end)
        self._add(arc if constant_orientation else dataclasses.replace(arc, orientation="tangent"))
        self._calls.append((TaskSpacePathSpec.add_tangent_arc, (end, constant_orientation)))

    def add_tangent_arc_with_orientation_target(self, pose: ArrayLike) -> None:
        """Add a tangent arc to a pose, with uniform rotation."""
        end = rigid_pose(pose, "pose")
        arc = arc_along(self.final_pose, self._tangent(), end[:3, 3])
        self._add(dataclasses.replace(arc, orientation="target", target=end[:3, :3]))
        self._calls.append((TaskSpacePathSpec.add_tangent_arc_with_orientation_target, (end,)))

    def path(self) -> TaskSpacePath:
        """Return the path with blended corners.

        Raises:
            InvalidCommand: there is no segment.
        """
        if not self._segments:
            raise InvalidCommand("the path has no segments; add at least one")
        cut = [0.0] * (len(self._segments) + 1)
        arcs: list[Arc | None] = [None] * (len(self._segments) + 1)
        for i in range(1, len(self._segments)):
            before, after = self._segments[i - 1], self._segments[i]
            if self._blends[i] > 0.0 and isinstance(before, Line) and isinstance(after, Line):
                radius = min(self._blends[i], 0.5 * before.length, 0.5 * after.length)
                arcs[i] = _blend(before, after, radius)
                cut[i] = radius if arcs[i] is not None else 0.0
        pieces: list[Segment] = []
        for i, segment in enumerate(self._segments):
            arc = arcs[i]
            if arc is not None:
                pieces.append(arc)
            if isinstance(segment, Line) and cut[i] + cut[i + 1] > 0.0:
                begin, end = cut[i] / segment.length, 1.0 - cut[i + 1] / segment.length
                if (end - begin) * segment.length > EQUAL_POINTS:
                    pieces.append(segment.part(begin, end))
            else:
                pieces.append(segment)
        return TaskSpacePath(tuple(pieces))

    def _add(self, segment: Segment, blend_radius: float = 0.0) -> None:
        if not (math.isfinite(blend_radius) and blend_radius >= 0.0):
            raise InvalidCommand(
                f"blend radius is {blend_radius}; it must be finite and at least 0",
                field="blend_radius",
            )
        self._segments.append(segment)
        self._blends.append(blend_radius)

    def _tangent(self) -> Array:
        if not self._segments or not self._segments[-1].translates:
            raise InvalidCommand(
                "a tangent arc continues in the direction of the previous segment, which must "
                "move the tool",
                field="arc",
            )
        return self._segments[-1].direction(1.0)


def _blend(before: Line, after: Line, radius: float) -> Arc | None:
    """Return the arc that touches both lines at a distance from their corner; None if impossible.

    Collinear lines need no blend; reversing lines permit none.
    """
    if not (before.translates and after.translates):
        return None
    begin, end = before.pose(1.0 - radius / before.length), after.pose(radius / after.length)
    try:
        arc = arc_along(begin, before.direction(1.0), end[:3, 3])
    except InvalidCommand:
        return None
    return dataclasses.replace(arc, orientation="target", target=end[:3, :3])
