# SPDX-License-Identifier: Apache-2.0
"""Composite paths: segments in joint space and in task space."""

from __future__ import annotations

import enum

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.planning.task_space_conversion import ConvertedPath, PathConverter
from motion_nodes.core.planning.task_space_path_spec import TaskSpacePathSpec
from motion_nodes.core.trajectory.joint_path import JointPath, chained, checked_waypoints
from motion_nodes.core.trajectory.spline import segment_shares, spline_path
from motion_nodes.errors import InvalidCommand
from motion_nodes.tolerances import EQUAL_POSITIONS
from motion_nodes.typing import Array


class TransitionMode(enum.Enum):
    """Transition from the end of a path to an added part."""

    SKIP = "skip"
    """Omit the start of the part: from the current end to the end of the part's first segment."""
    FREE = "free"
    """To the start of the part by a straight line in joint space."""
    LINEAR_TASK_SPACE = "linear_task_space"
    """To the start of the part by a straight line of the tool; for task-space parts only."""


class CSpacePathSpec:
    """Waypoints of the joints, for a smooth path through them."""

    def __init__(self, initial: ArrayLike) -> None:
        """Begin at joint positions [rad or m], shape (n,)."""
        self._points = [_values(initial, None)]

    def add_c_space_waypoint(self, waypoint: ArrayLike) -> None:
        """Add joint positions [rad or m], shape (n,)."""
        self._points.append(_values(waypoint, len(self._points[0])))

    @property
    def waypoints(self) -> Array:
        """All waypoints, the initial one first, shape (k, n)."""
        return np.array(self._points)


class CompositePathSpec:
    """Sequence of joint-space and task-space parts."""

    def __init__(self, initial: ArrayLike) -> None:
        """Begin at joint positions [rad or m], shape (n,)."""
        self.initial = _values(initial, None)
        self.parts: list[tuple[CSpacePathSpec | TaskSpacePathSpec, TransitionMode]] = []

    def add_c_space_path_spec(self, spec: CSpacePathSpec, mode: TransitionMode) -> None:
        """Add a joint-space part.

        Raises:
            InvalidCommand: other joints than before, or a mode for task-space parts only.
        """
        if mode is TransitionMode.LINEAR_TASK_SPACE:
            raise InvalidCommand("LINEAR_TASK_SPACE needs a path of the tool; use FREE or SKIP")
        if spec.waypoints.shape[1] != len(self.initial):
            raise InvalidCommand(
                f"waypoints have {spec.waypoints.shape[1]} joints; the path has {len(self.initial)}"
            )
        self.parts.append((spec, mode))

    def add_task_space_path_spec(self, spec: TaskSpacePathSpec, mode: TransitionMode) -> None:
        """Add a task-space part.

        Raises:
            InvalidCommand: it has no segments.
        """
        if not len(spec):
            raise InvalidCommand("the path has no segments; add at least one")
        self.parts.append((spec, mode))

    def convert(self, converter: PathConverter) -> ConvertedPath:
        """Return the joint path, at rest between parts, as far as it is feasible.

        Raises:
            InvalidCommand: wrong number of joints, no parts, or an arc that is degenerate at the
                start of a part with SKIP.
        """
        names = converter.chain.joint_names
        checked_waypoints(self.initial, names)
        if not self.parts:
            raise InvalidCommand("the path has no parts; add at least one")
        q, done = self.initial, _Progress(names)
        for i, (spec, mode) in enumerate(self.parts):
            if isinstance(spec, CSpacePathSpec):
                points = spec.waypoints[1:] if mode is TransitionMode.SKIP else spec.waypoints
                q, reason = done.add_joints(converter, np.vstack([q, points]))
            else:
                q, reason = _add_tool_path(done, converter, spec, mode, q)
            if reason:
                return done.result(self.initial, i / len(self.parts), f"part {i}: {reason}")
        return done.result(self.initial, 1.0, "")


class _Progress:
    """State of the conversion."""

    def __init__(self, joint_names: tuple[str, ...]) -> None:
        self._names = joint_names
        self._paths: list[JointPath] = []

    def add_joints(self, converter: PathConverter, points: Array) -> tuple[Array, str]:
        """Add a spline through waypoints; return its end, and the reason of a failure."""
        moved = np.max(np.abs(np.diff(points, axis=0)), axis=1, initial=0.0) > EQUAL_POSITIONS
        points = points[np.concatenate([[True], moved])]
        if len(points) > 1:
            path = spline_path(self._names, points, segment_shares(points, "centripetal"))
            reason = converter.problem(path)
            if reason:
                return points[0], reason
            self._paths.append(path)
        return points[-1], ""

    def add(self, path: JointPath) -> Array:
        """Add a path; return its end."""
        self._paths.append(path)
        return np.asarray(path.evaluate(path.length)[0])

    def result(self, start: Array, fraction: float, reason: str) -> ConvertedPath:
        """Return the complete result."""
        if not self._paths:
            reason = reason or "all parts end where they start: there is nothing to move"
            return ConvertedPath(None, start[None], np.zeros(1), fraction, reason)
        path = chained(self._paths)
        return ConvertedPath(path, path.evaluate(path.breaks), path.breaks, fraction, reason)


def _add_tool_path(
    done: _Progress,
    converter: PathConverter,
    spec: TaskSpacePathSpec,
    mode: TransitionMode,
    q: Array,
) -> tuple[Array, str]:
    """Add a task-space part; return the final joint positions, and the reason of a failure."""
    here = converter.chain.kinematics.pose(q, converter.chain.tip)
    if mode is TransitionMode.SKIP:
        spec = spec.starting_at(here)
    elif mode is TransitionMode.LINEAR_TASK_SPACE:
        spec = spec.led_to_from(here)
    else:
        start, reason = converter.start(spec.initial_pose, q)
        if start is None:
            return q, reason
        q, reason = done.add_joints(converter, np.stack([q, start]))
        if reason:
            return q, reason
    converted = converter.convert(spec.path(), q)
    if converted.path is not None:
        q = done.add(converted.path)
    return q, converted.reason


def _values(given: ArrayLike, count: int | None) -> Array:
    values = np.array(given, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise InvalidCommand(
            f"joint values are {values.tolist()}; they must be a row of finite numbers", field="q"
        )
    if count is not None and len(values) != count:
        raise InvalidCommand(f"{len(values)} joint values were given; there are {count} joints")
    return values
