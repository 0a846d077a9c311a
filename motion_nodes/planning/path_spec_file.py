# SPDX-License-Identifier: Apache-2.0
"""Tool and joint paths from files."""

from __future__ import annotations

from pathlib import Path

from motion_nodes.errors import InvalidCommand, InvalidDescription
from motion_nodes.model.files.path_spec_yaml import (
    CSpaceEntry,
    LinearEntry,
    PathSpecEntry,
    RotationEntry,
    TangentArcEntry,
    TaskSpaceEntry,
    ThreePointArcEntry,
    TranslationEntry,
    pieces_of,
    read_path_spec,
)
from motion_nodes.model.poses import from_xyz_quat
from motion_nodes.planning.composite_path import (
    CompositePathSpec,
    CSpacePathSpec,
    TransitionMode,
)
from motion_nodes.planning.task_space_path_spec import TaskSpacePathSpec

PathSpec = TaskSpacePathSpec | CSpacePathSpec | CompositePathSpec


def load_path_spec(file: Path | str) -> PathSpec:
    """Return the path described by a YAML file: :mod:`motion_nodes.model.files.path_spec_yaml`.

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
