# SPDX-License-Identifier: Apache-2.0
"""Tool paths composed of lines, rotations and arcs, each starting at the previous end."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand
from motion_nodes.ik.problem import rigid_pose
from motion_nodes.planning.task_space_segments import (
    NO_TURN,
    NO_WAY,
    Arc,
    Line,
    Segment,
    TaskSpacePath,
    arc_along,
    arc_through,
)
from motion_nodes.typing import Array


class TaskSpacePathSpec:
    """Description of a path. A rejected segment leaves the description unchanged.

    Poses are of shape (4, 4), in the base frame of the chain.
    """

    def __init__(self, initial_pose: ArrayLike) -> None:
        """Begin at a pose."""
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
        if not line.translates and float(np.linalg.norm(line.turn)) <= NO_TURN:
            raise InvalidCommand(
                f"piece {len(self)} of the path ends where it starts", field=f"pieces[{len(self)}]"
            )
        self._add(line, blend_radius)
        self._calls.append((TaskSpacePathSpec.add_linear_path, (end, blend_radius)))

    def add_translation(self, position: ArrayLike, blend_radius: float = 0.0) -> None:
        """Add a straight line to a position [m], shape (3,), with constant orientation."""
        pose = self.final_pose.copy()
        pose[:3, 3] = point = _checked_point(position, "position")
        if np.linalg.norm(pose[:3, 3] - self.final_pose[:3, 3]) <= NO_WAY:
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
        if float(np.linalg.norm(line.turn)) <= NO_TURN:
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
        middle, end = _checked_point(mid, "mid point"), _checked_point(target, "target")
        arc = arc_through(self.final_pose, middle, end)
        self._add(arc if constant_orientation else dataclasses.replace(arc, orientation="tangent"))
        arguments = (end, middle, constant_orientation)
        self._calls.append((TaskSpacePathSpec.add_three_point_arc, arguments))

    def add_three_point_arc_with_orientation_target(self, pose: ArrayLike, mid: ArrayLike) -> None:
        """Add an arc through a point [m], shape (3,), to a pose, with uniform rotation."""
        end = rigid_pose(pose, "pose")
        middle = _checked_point(mid, "mid point")
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
        end = _checked_point(target, "target")
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
                if (end - begin) * segment.length > NO_WAY:
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


def _checked_point(value: ArrayLike, what: str) -> Array:
    point = np.asarray(value, dtype=np.float64)
    if point.shape != (3,) or not np.isfinite(point).all():
        raise InvalidCommand(
            f"{what} is {point.tolist()}; it must be three finite numbers [m]", field=what
        )
    return point
