# SPDX-License-Identifier: Apache-2.0
"""Paths of tool and joints from YAML files.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from motion_nodes.core.robot.yaml_schema import decode, parse_yaml, read_yaml
from motion_nodes.errors import InvalidDescription

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
