# SPDX-License-Identifier: Apache-2.0
"""Trajectories along paths of the tool and of joints, and composites of both; their YAML files.

A tool path, with poses in the robot's base [m], quaternions scalar last:

    task_space:
      start: {position: [0.4, 0.0, 0.5], quat_xyzw: [1, 0, 0, 0]}
      pieces:
        - linear: {position: [0.4, 0.2, 0.5], quat_xyzw: [1, 0, 0, 0], blend_radius: 0.05}
        - translation: {position: [0.4, 0.2, 0.3], blend_radius: 0.05}
        - rotation: {quat_xyzw: [0, 1, 0, 0]}
        - three_point_arc: {mid: [0.4, 0.1, 0.2], target: [0.4, 0.0, 0.3]}
        - tangent_arc: {target: [0.4, -0.1, 0.4], orientation: tangent}

The orientation on an arc is ``constant`` (default), ``tangent`` (follows the direction of motion)
or ``target`` (interpolated to ``quat_xyzw``). A joint path [rad or m]:

    c_space: {start: [0, 0, 0], waypoints: [[0.1, 0, 0], [0.2, 0, 0.3]]}

A composite path, whose parts state the transition to them (``skip``, ``free`` or
``linear_task_space``):

    composite:
      start: [0, 0, 0]
      parts:
        - {mode: skip, c_space: {...}}
        - {mode: free, task_space: {...}}
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.ik.chain import IkChain, joints_between
from motion_nodes.core.planning.task_space_conversion import (
    ConvertedPath,
    PathConversionConfig,
    PathConverter,
)
from motion_nodes.core.planning.task_space_path_spec import TaskSpacePathSpec
from motion_nodes.core.robot.poses import from_xyz_quat
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.yaml_schema import decode, parse_yaml, read_yaml
from motion_nodes.core.trajectory.joint_path import FreeCheck, JointPath, chained, checked_waypoints
from motion_nodes.core.trajectory.joint_trajectory import Infeasible
from motion_nodes.core.trajectory.spline import segment_shares, spline_path
from motion_nodes.core.trajectory.through_waypoints import JointTrajectoryGenerator, WaypointOptions
from motion_nodes.core.trajectory.time_parameterization import scaled_limits, time_optimal
from motion_nodes.core.trajectory.timed_path import TimedPath
from motion_nodes.errors import InvalidCommand, InvalidConfig, InvalidDescription
from motion_nodes.tolerances import EQUAL_POSITIONS
from motion_nodes.typing import Array

_Three = tuple[float, float, float]
_Four = tuple[float, float, float, float]


@dataclass(frozen=True)
class PoseEntry:
    """A pose."""

    position: _Three
    quat_xyzw: _Four


@dataclass(frozen=True)
class LinearEntry:
    """A straight line to a pose."""

    position: _Three
    quat_xyzw: _Four
    blend_radius: float = 0.0


@dataclass(frozen=True)
class TranslationEntry:
    """A straight line to a position."""

    position: _Three
    blend_radius: float = 0.0


@dataclass(frozen=True)
class RotationEntry:
    """A rotation about a fixed position."""

    quat_xyzw: _Four


@dataclass(frozen=True)
class TangentArcEntry:
    """An arc tangent to the previous segment."""

    target: _Three
    orientation: Literal["constant", "tangent", "target"] = "constant"
    quat_xyzw: _Four | None = None


@dataclass(frozen=True)
class ThreePointArcEntry:
    """An arc through an intermediate point."""

    mid: _Three
    target: _Three
    orientation: Literal["constant", "tangent", "target"] = "constant"
    quat_xyzw: _Four | None = None


@dataclass(frozen=True)
class PieceEntry:
    """One segment of a tool path: exactly one field is given."""

    linear: LinearEntry | None = None
    translation: TranslationEntry | None = None
    rotation: RotationEntry | None = None
    three_point_arc: ThreePointArcEntry | None = None
    tangent_arc: TangentArcEntry | None = None


@dataclass(frozen=True)
class TaskSpaceEntry:
    """A tool path."""

    start: PoseEntry
    pieces: list[PieceEntry]


@dataclass(frozen=True)
class CSpaceEntry:
    """A joint path [rad or m]."""

    start: list[float]
    waypoints: list[list[float]]


@dataclass(frozen=True)
class PartEntry:
    """A part of a composite path: exactly one path is given."""

    mode: Literal["skip", "free", "linear_task_space"]
    task_space: TaskSpaceEntry | None = None
    c_space: CSpaceEntry | None = None


@dataclass(frozen=True)
class CompositeEntry:
    """Consecutive parts."""

    start: list[float]
    parts: list[PartEntry] = dataclasses.field(default_factory=list)


@dataclass(frozen=True)
class PathSpecEntry:
    """A complete file: exactly one field is given."""

    task_space: TaskSpaceEntry | None = None
    c_space: CSpaceEntry | None = None
    composite: CompositeEntry | None = None


def read_path_spec(file: Path | str) -> PathSpecEntry:
    """Read a path from a file.

    Raises:
        InvalidDescription: the file cannot be read, is not YAML, or a field is missing, unknown or
            malformed; names file and field.
    """
    return _checked(read_yaml(Path(file)), str(file))


def parse_path_spec(text: str, where: str) -> PathSpecEntry:
    """Read a path from YAML text.

    Args:
        text: content of a file.
        where: name of the file, for errors.

    Raises:
        InvalidDescription: as :func:`read_path_spec`.
    """
    return _checked(parse_yaml(text, where), where)


def _checked(data: object, where: str) -> PathSpecEntry:
    spec = decode(data, PathSpecEntry, where)
    _one_of(spec, where, "")
    for i, part in enumerate(spec.composite.parts if spec.composite else ()):
        _one_of(part, where, f"composite.parts[{i}]", but=("mode",))
    return spec


def pieces_of(entry: TaskSpaceEntry, where: str = "path") -> list[tuple[str, object]]:
    """Return type and content of each segment.

    Args:
        entry: tool path.
        where: name of the file, for errors.

    Raises:
        InvalidDescription: a segment without type or of several types, or an arc whose quaternion
            is missing or not allowed.
    """
    found = []
    for i, piece in enumerate(entry.pieces):
        kind = _one_of(piece, where, f"pieces[{i}]")
        content = getattr(piece, kind)
        if isinstance(content, TangentArcEntry | ThreePointArcEntry):
            required = content.orientation == "target"
            if required != (content.quat_xyzw is not None):
                raise InvalidDescription(
                    f"{where}: pieces[{i}].{kind}: quat_xyzw is required for, and only allowed "
                    "for, orientation: target",
                    field=f"pieces[{i}].{kind}",
                )
        found.append((kind, content))
    return found


def _one_of(
    entry: PathSpecEntry | PartEntry | PieceEntry, where: str, path: str, but: tuple[str, ...] = ()
) -> str:
    """Return the name of the only given field."""
    fields = [field.name for field in dataclasses.fields(entry) if field.name not in but]
    given = [name for name in fields if getattr(entry, name) is not None]
    if len(given) != 1:
        raise InvalidDescription(
            f"{where}: {path or 'the file'}: one of {', '.join(fields)} is needed, "
            f"{' and '.join(given) if given else 'none'} given",
            field=path,
        )
    return given[0]


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


PathSpec = TaskSpacePathSpec | CSpacePathSpec | CompositePathSpec


class TaskSpaceTrajectoryGenerator(JointTrajectoryGenerator):
    """Generates trajectories for a group of a robot from paths of its tool.

    Time-optimal within the limits; tolerances are those of
    :class:`~motion_nodes.core.planning.task_space_conversion.PathConversionConfig`. The setters of
    joint limits are inherited.
    """

    def __init__(
        self,
        robot: Robot,
        group: str,
        is_free: FreeCheck | None = None,
        *,
        config: PathConversionConfig | None = None,
        options: WaypointOptions | None = None,
    ) -> None:
        """Create with the limits of a robot's group.

        Args:
            robot: the robot.
            group: a chain of it.
            is_free: collision check of the joint path; None: no check.
            config: settings of the conversion; None: the default.
            options: its scalings and jerk limits are used; None: full limits.
        """
        chain = IkChain.of_group(robot, group)
        super().__init__(robot.limits.select(chain.joint_names))
        self._robot, self._is_free = robot, is_free
        self._chains = {chain.tip: chain}
        self._base, self._default = chain.base, chain.tip
        self._config = config or PathConversionConfig()
        self._options = options or WaypointOptions()
        self.last: ConvertedPath | None = None
        """Result of the last conversion: converted fraction, and why it ended early."""

    def get_all_frame_names(self) -> tuple[str, ...]:
        """Return the frames of the robot; those moved by the group can follow a path."""
        return self._robot.tree.frame_names

    def get_path_conversion_config(self) -> PathConversionConfig:
        """Return the settings of the conversion."""
        return self._config

    def set_path_conversion_param(self, name: str, value: float) -> bool:
        """Set a parameter of the conversion; return False if it is unknown or the value invalid."""
        if name not in {field.name for field in dataclasses.fields(self._config)}:
            return False
        try:
            self._config = PathConversionConfig(
                **(dataclasses.asdict(self._config) | {name: value})
            )
        except (InvalidConfig, TypeError):
            return False
        return True

    def compute_task_space_trajectory_from_points(
        self,
        positions: ArrayLike,
        quats_xyzw: ArrayLike,
        frame: str | None = None,
        seed: ArrayLike | None = None,
    ) -> TimedPath | None:
        """Return the trajectory along straight lines with uniform rotation between orientations.

        Args:
            positions: in the group's base [m], shape (k, 3), k >= 2; repeated poses are skipped.
            quats_xyzw: orientations in the group's base, shape (k, 4).
            frame: the controlled frame; None: the group's tip.
            seed: initial joint positions, shape (n,).

        Returns:
            The trajectory, or None; with the reason in :attr:`failure`.
        """
        points, quats = np.asarray(positions, float), np.asarray(quats_xyzw, float)
        if points.ndim != 2 or points.shape[1:] != (3,) or quats.shape != (len(points), 4):
            raise InvalidCommand(
                f"positions have shape {points.shape} and quaternions {quats.shape}; they must be "
                "(k, 3) and (k, 4)"
            )
        if len(points) < 2:
            raise InvalidCommand(f"{len(points)} point given; a path needs at least 2")
        try:
            poses = [from_xyz_quat(p, q) for p, q in zip(points, quats, strict=True)]
        except ValueError as error:
            raise InvalidCommand(str(error)) from None
        spec = TaskSpacePathSpec(poses[0])
        for pose in poses[1:]:
            if not np.allclose(pose, spec.final_pose, rtol=0.0, atol=1e-6):
                spec.add_linear_path(pose)
        return self.compute_task_space_trajectory_from_path_spec(spec, frame, seed)

    def compute_task_space_trajectory_from_path_spec(
        self,
        spec: TaskSpacePathSpec | CompositePathSpec,
        frame: str | None = None,
        seed: ArrayLike | None = None,
    ) -> TimedPath | None:
        """Return the trajectory along a path.

        Args:
            spec: poses are in the group's base.
            frame: the controlled frame; None: the group's tip.
            seed: initial joint positions, shape (n,); composite paths have their own.

        Returns:
            The trajectory, or None; :attr:`failure` then has the reason, and :attr:`last` the joint
            positions up to there.
        """
        converter = PathConverter(self._chain(frame), self._config, self._is_free)
        limits = scaled_limits(
            self.limits.select(converter.chain.joint_names),
            self._options.velocity_scaling,
            self._options.acceleration_scaling,
            self._options.jerk_limited,
        )

        def make() -> TimedPath:
            if isinstance(spec, CompositePathSpec):
                self.last = spec.convert(converter)
            else:
                self.last = converter.convert(spec.path(), seed)
            if self.last.path is None or self.last.reason:
                raise Infeasible(self.last.reason)
            return time_optimal(self.last.path, limits)

        return self._attempt(make)

    def joints_of(self, frame: str | None = None) -> tuple[str, ...]:
        """Return the joints that move a frame; None: the group's tip."""
        return self._chain(frame).joint_names

    def _chain(self, frame: str | None) -> IkChain:
        """Return the chain to a frame (cached): those of the group's joints that move it."""
        tip = frame or self._default
        if tip not in self._chains:
            group = self._chains[self._default]
            every = joints_between(self._robot.tree, self._base, tip)
            joints = [name for name in every if name in group.joint_names]
            others = zip(self._robot.joint_names, self._robot.home, strict=True)
            fixed = {name: float(q) for name, q in others if name not in joints}
            self._chains[tip] = IkChain(
                self._robot.tree,
                self._base,
                tip,
                joints or group.joint_names,
                limits=self._robot.limits,
                fixed=fixed,
            )
        return self._chains[tip]


def load_path_spec(file: Path | str) -> PathSpec:
    """Return the path of a YAML file, see :mod:`motion_nodes.core.planning.task_space_generator`.

    Raises:
        InvalidDescription: invalid file format, or invalid path.
    """
    return path_spec_of(read_path_spec(file), str(file))


def path_spec_of(entry: PathSpecEntry, where: str = "path") -> PathSpec:
    """Return the path described by the content of a file.

    Args:
        entry: the content.
        where: for errors.

    Raises:
        InvalidDescription: it describes no valid path.
    """
    try:
        if entry.task_space is not None:
            return _task_space(entry.task_space, where)
        if entry.c_space is not None:
            return _c_space(entry.c_space)
        assert entry.composite is not None
        spec = CompositePathSpec(entry.composite.start)
        for part in entry.composite.parts:
            mode = TransitionMode(part.mode)
            if part.task_space is not None:
                spec.add_task_space_path_spec(_task_space(part.task_space, where), mode)
            elif part.c_space is not None:
                spec.add_c_space_path_spec(_c_space(part.c_space), mode)
        return spec
    except (InvalidCommand, ValueError) as error:
        if isinstance(error, InvalidDescription):
            raise
        raise InvalidDescription(f"{where}: {error}", field=getattr(error, "field", "")) from None


def _c_space(entry: CSpaceEntry) -> CSpacePathSpec:
    spec = CSpacePathSpec(entry.start)
    for waypoint in entry.waypoints:
        spec.add_c_space_waypoint(waypoint)
    return spec


def _task_space(entry: TaskSpaceEntry, where: str) -> TaskSpacePathSpec:
    spec = TaskSpacePathSpec(from_xyz_quat(entry.start.position, entry.start.quat_xyzw))
    for _, piece in pieces_of(entry, where):
        _add(spec, piece)
    return spec


def _add(spec: TaskSpacePathSpec, piece: object) -> None:
    """Add a segment to a path."""
    match piece:
        case LinearEntry():
            pose = from_xyz_quat(piece.position, piece.quat_xyzw)
            spec.add_linear_path(pose, piece.blend_radius)
        case TranslationEntry():
            spec.add_translation(piece.position, piece.blend_radius)
        case RotationEntry():
            spec.add_rotation(from_xyz_quat((0.0, 0.0, 0.0), piece.quat_xyzw)[:3, :3])
        case ThreePointArcEntry(quat_xyzw=None):
            spec.add_three_point_arc(piece.target, piece.mid, piece.orientation == "constant")
        case ThreePointArcEntry():
            assert piece.quat_xyzw is not None
            pose = from_xyz_quat(piece.target, piece.quat_xyzw)
            spec.add_three_point_arc_with_orientation_target(pose, piece.mid)
        case TangentArcEntry(quat_xyzw=None):
            spec.add_tangent_arc(piece.target, piece.orientation == "constant")
        case TangentArcEntry():
            assert piece.quat_xyzw is not None
            pose = from_xyz_quat(piece.target, piece.quat_xyzw)
            spec.add_tangent_arc_with_orientation_target(pose)
