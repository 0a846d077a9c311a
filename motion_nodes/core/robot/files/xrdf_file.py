# SPDX-License-Identifier: Apache-2.0
"""Reader and writer of XRDF files (Extended Robot Description Format), versions 1.0 and 2.0.

XRDF contains planning data in addition to a URDF. An :class:`Xrdf` is also the common format of all
conversions: Lula and cuRobo files are converted to one (:mod:`~motion_nodes.core.robot.files.lula`,
:mod:`~motion_nodes.core.robot.files.curobo`), and with a URDF it becomes a robot
(:mod:`~motion_nodes.core.robot.import_robot`).

Source: the specification of the Extended Robot Description Format
(nvidia-isaac-ros.github.io/concepts/manipulation/xrdf.html) and, for 2.0, the files of cuMotion 1.1
(github.com/nvidia-isaac/cumotion).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from motion_nodes.core.robot.robot import Sphere
from motion_nodes.core.robot.robot_yaml import Name
from motion_nodes.core.robot.yaml_schema import decode, read_yaml, without_empty, yaml_text
from motion_nodes.errors import InvalidDescription, did_you_mean

_Three = tuple[float, float, float]
_Positive = Annotated[float, Meta(gt=0.0)]
SPHERES_GROUP = "collision_spheres"
"""Name of the sphere group of an XRDF converted from a format with a single group."""
Spheres = dict[str, tuple[Sphere, ...]]
_LOG = logging.getLogger(__name__)
VERSIONS = (1.0, 2.0)


@dataclass(frozen=True)
class Orientation:
    """A quaternion, normalized or not, but not zero."""

    w: float = 1.0
    xyz: _Three = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class FixedTransform:
    """Pose of an added frame in its parent."""

    position: _Three = (0.0, 0.0, 0.0)
    """[m]"""
    orientation: Orientation = Orientation()


@dataclass(frozen=True)
class AddFrame:
    """A frame added to the URDF."""

    frame_name: Name
    parent_frame_name: Name
    joint_name: Name
    """Name of the fixed joint between parent and frame."""
    joint_type: Literal["FIXED", "fixed"] = "FIXED"
    fixed_transform: FixedTransform = FixedTransform()


@dataclass(frozen=True)
class RemoveMimic:
    """A mimic joint of the URDF that becomes independent."""

    joint_name: Name
    position_limits: tuple[float, float]
    """Lower and upper position limit [rad or m]."""
    velocity_limit: _Positive
    """Velocity limit [rad/s or m/s]."""


@dataclass(frozen=True)
class Modifier:
    """One modification of the URDF: exactly one field is given."""

    add_frame: AddFrame | None = None
    set_base_frame: Name | None = None
    """The new root link; links that are not below it are removed."""
    remove_mimic_attributes: RemoveMimic | None = None


@dataclass(frozen=True)
class CSpace:
    """Planning joints; all others are fixed at their default positions."""

    joint_names: tuple[Name, ...]
    acceleration_limits: tuple[_Positive, ...]
    """Limit of each joint [rad/s^2 or m/s^2]; empty if another format has none."""
    jerk_limits: tuple[_Positive, ...]
    """Limit of each joint [rad/s^3 or m/s^3]; empty if another format has none."""


@dataclass(frozen=True)
class WorldCollision:
    """Geometry for collision checks with the world."""

    geometry: Name
    """Group of spheres."""
    buffer_distance: dict[Name, float] = field(default_factory=dict)
    """Distance added to the sphere radii of a link [m]."""


@dataclass(frozen=True)
class XrdfSelfCollision:
    """Geometry for self-collision checks."""

    geometry: Name
    buffer_distance: dict[Name, float] = field(default_factory=dict)
    ignore: dict[Name, tuple[Name, ...]] = field(default_factory=dict)
    """Excluded pairs of links: link -> others."""


@dataclass(frozen=True)
class SphereEntry:
    """A sphere in the frame of its link."""

    center: _Three
    """[m]"""
    radius: float
    """[m]"""


@dataclass(frozen=True)
class GeometryGroup:
    """Spheres by link, and other groups whose spheres are included."""

    spheres: dict[Name, tuple[SphereEntry, ...]] = field(default_factory=dict)
    clone: tuple[Name, ...] = ()


@dataclass(frozen=True)
class Xrdf:
    """A complete file."""

    cspace: CSpace
    modifiers: tuple[Modifier, ...] = ()
    default_joint_positions: dict[Name, float] = field(default_factory=dict)
    """Default positions by joint [rad or m]; missing ones: 0, or the closest limit."""
    tool_frames: tuple[Name, ...] = ()
    world_collision: WorldCollision | None = None
    self_collision: XrdfSelfCollision | None = None
    """Self-collision checks; None: none."""
    geometry: dict[Name, GeometryGroup] = field(default_factory=dict)

    def spheres(self, group: str) -> Spheres:
        """Return the spheres of a group by link, including those of cloned groups."""
        found: Spheres = {}
        for name in with_clones(self.geometry, group):
            for link, entries in self.geometry[name].spheres.items():
                spheres = tuple((*entry.center, entry.radius) for entry in entries)
                found[link] = found.get(link, ()) + spheres
        return found

    def ignored_pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the excluded pairs of links, each once, in the file's order."""
        ignore = {} if self.self_collision is None else self.self_collision.ignore
        found: dict[frozenset[str], tuple[str, str]] = {}
        for a, others in ignore.items():
            for b in others:
                if a != b:
                    found.setdefault(frozenset((a, b)), (a, b))
        return tuple(found.values())


@dataclass(frozen=True)
class FieldNames:
    """Field names in the file of an :class:`Xrdf`, for errors."""

    joints: str = "cspace.joint_names"
    home: str = "default_joint_positions"
    tools: str = "tool_frames"
    geometry: str = "geometry"
    base: str = "set_base_frame"
    frames: str = "add_frame"


def with_clones(geometry: dict[str, GeometryGroup], group: str) -> tuple[str, ...]:
    """Return a group and the groups that it clones, directly or not, each once."""
    found: list[str] = []
    waiting = [group]
    while waiting:
        name = waiting.pop(0)
        if name not in found and name in geometry:
            found.append(name)
            waiting += geometry[name].clone
    return tuple(found)


def read_xrdf(file: str | Path) -> Xrdf:
    """Read a file and check its consistency.

    Raises:
        InvalidDescription: names the file, the field, its value and the allowed values.
    """
    path = Path(file)
    return parse_xrdf(read_yaml(path), str(path))


def parse_xrdf(data: dict[str, Any], where: str) -> Xrdf:
    """Return the content of a file.

    Args:
        data: content of the YAML file.
        where: name of the file, for errors.

    Raises:
        InvalidDescription: as :func:`read_xrdf`.
    """
    given = without_empty(data)
    version = _version(given, where)
    ours, theirs = ("collision", "world_collision")[:: 1 if version == 1.0 else -1]
    if theirs in given:
        raise InvalidDescription(
            f"{where}: {theirs} is not a field of XRDF {version}; it is called {ours} there."
        )
    fields = {key: value for key, value in given.items() if key not in ("format", "format_version")}
    if fields.pop("dynamics", None) is not None:
        _LOG.warning("%s: dynamics has no effect: masses and inertias are those of the URDF", where)
    if ours in fields:
        fields["world_collision"] = fields.pop(ours)
    # Files may contain empty fields: a c-space without joints, a group without spheres.
    if isinstance(data.get("cspace"), dict) and "joint_names" in data["cspace"]:
        fields["cspace"] = {"joint_names": [], **fields["cspace"]}
    if isinstance(data.get("geometry"), dict):
        groups = {**{name: {} for name in data["geometry"]}, **fields["geometry"]}
        fields["geometry"] = {name: _group(group, name, where) for name, group in groups.items()}
    xrdf = decode(fields, Xrdf, where)
    for path, text in _complaints(xrdf, ours):
        raise InvalidDescription(f"{where}: {path} {text}")
    return xrdf


def xrdf_text(xrdf: Xrdf, version: float = 2.0, comment: str = "") -> str:
    """Return the text of a file.

    Args:
        xrdf: content.
        version: version of the format, 1.0 or 2.0.
        comment: comment at the top, possibly of several lines.

    Raises:
        InvalidDescription: a limit that the format requires is missing, or an unknown version.
    """
    if version not in VERSIONS:
        raise InvalidDescription(f"XRDF {version} cannot be written; allowed: 1.0, 2.0.")
    cspace = xrdf.cspace
    for name in ("acceleration_limits", "jerk_limits"):
        if len(getattr(cspace, name)) != len(cspace.joint_names):
            raise InvalidDescription(
                f"XRDF needs {name} for each joint of the c-space; the robot has none for some of "
                f"{', '.join(cspace.joint_names)}. Add them to limits in its robot.yaml."
            )
    data: dict[str, Any] = {"format": "xrdf", "format_version": version}
    if xrdf.modifiers:
        data["modifiers"] = [_modifier_data(modifier) for modifier in xrdf.modifiers]
    if xrdf.default_joint_positions:
        data["default_joint_positions"] = dict(xrdf.default_joint_positions)
    data["cspace"] = {
        "joint_names": list(cspace.joint_names),
        "acceleration_limits": list(cspace.acceleration_limits),
        "jerk_limits": list(cspace.jerk_limits),
    }
    if xrdf.tool_frames:
        data["tool_frames"] = list(xrdf.tool_frames)
    if xrdf.world_collision is not None:
        key = "collision" if version == 1.0 else "world_collision"
        data[key] = _without_defaults(vars(xrdf.world_collision))
    if xrdf.self_collision is not None:
        data["self_collision"] = _without_defaults(vars(xrdf.self_collision))
    if xrdf.geometry:
        data["geometry"] = {name: _group_data(group) for name, group in xrdf.geometry.items()}
    return yaml_text(data, comment)


def _version(data: dict[str, Any], where: str) -> float:
    if data.get("format") != "xrdf":
        raise InvalidDescription(f"{where}: format is {data.get('format')!r}; it must be xrdf.")
    version = data.get("format_version")
    # Some files contain it in quotes.
    known = {word: v for v in VERSIONS for word in (str(v), str(int(v)))}
    if str(version) not in known:
        raise InvalidDescription(f"{where}: format_version is {version!r}; allowed: 1.0, 2.0.")
    return known[str(version)]


def _group(group: Any, name: str, where: str) -> Any:
    """Return a geometry group without spheres of zero size."""
    if not isinstance(group, dict) or "spheres" not in group:
        return group
    spheres = real_spheres(group["spheres"], f"{where}: geometry.{name}.spheres")
    return {**group, "spheres": spheres}


def real_spheres(spheres: Any, path: str) -> Any:
    """Return spheres by link without those of zero size, which are placeholders in cuRobo's files.

    Args:
        spheres: content of a file before validation; anything but a mapping is returned unchanged.
        path: file and field, for the warning.
    """
    if not isinstance(spheres, dict):
        return spheres
    found = {}
    for link, entries in spheres.items():
        found[link] = entries
        if isinstance(entries, list) and any(map(_has_no_size, entries)):
            found[link] = [entry for entry in entries if not _has_no_size(entry)]
            _LOG.warning(
                "%s.%s: a sphere with a radius of 0 or less is a placeholder; it is ignored",
                *(path, link),
            )
    return found


def _has_no_size(entry: Any) -> bool:
    radius = entry.get("radius") if isinstance(entry, dict) else None
    return isinstance(radius, int | float) and not isinstance(radius, bool) and radius <= 0.0


def _complaints(xrdf: Xrdf, world: str) -> Iterator[tuple[str, str]]:
    """Yield inconsistencies: field, and description."""
    cspace = xrdf.cspace
    count = len(cspace.joint_names)
    for name in ("acceleration_limits", "jerk_limits"):
        given = len(getattr(cspace, name))
        if given != count:
            yield f"cspace.{name}", f"has {given} numbers for {count} joints; give one for each."
    for path, names in (
        ("cspace.joint_names", cspace.joint_names),
        ("tool_frames", xrdf.tool_frames),
    ):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            yield path, f"has '{twice}' twice."
    for i, modifier in enumerate(xrdf.modifiers):
        yield from _modifier_complaints(modifier, f"modifiers[{i}]")
    for name, group in xrdf.geometry.items():
        for other in group.clone:
            if other not in xrdf.geometry:
                hint = did_you_mean(other, xrdf.geometry)
                yield f"geometry.{name}.clone", f"names '{other}', which is not a group.{hint}"
            elif name in with_clones(xrdf.geometry, other):
                yield f"geometry.{name}.clone", f"leads back to itself over '{other}'."
    for path, part in ((world, xrdf.world_collision), ("self_collision", xrdf.self_collision)):
        if part is None:
            continue
        if part.geometry not in xrdf.geometry:
            hint = did_you_mean(part.geometry, xrdf.geometry)
            yield f"{path}.geometry", f"is '{part.geometry}', not a geometry group.{hint}"
            continue
        spheres = xrdf.spheres(part.geometry)
        for link, buffer in part.buffer_distance.items():
            smallest = min((sphere[3] for sphere in spheres.get(link, ())), default=None)
            if smallest is not None and smallest + buffer <= 0.0:
                yield (
                    f"{path}.buffer_distance.{link}",
                    f"is {buffer} m, with which a sphere of radius {smallest} m vanishes.",
                )


def _modifier_complaints(modifier: Modifier, path: str) -> Iterator[tuple[str, str]]:
    given = [name for name, value in vars(modifier).items() if value is not None]
    if len(given) != 1:
        names = ", ".join(vars(modifier))
        yield path, f"needs one of {names}; given: {', '.join(given) or 'none'}."
    mimic = modifier.remove_mimic_attributes
    if mimic is not None and not mimic.position_limits[0] < mimic.position_limits[1]:
        limits = list(mimic.position_limits)
        yield (
            f"{path}.remove_mimic_attributes.position_limits",
            f"are {limits}; the first must be below the second.",
        )
    frame = modifier.add_frame
    if frame is not None:
        turn = frame.fixed_transform.orientation
        if sum(x * x for x in (turn.w, *turn.xyz)) < 1e-12:
            yield f"{path}.add_frame.fixed_transform.orientation", "is zero; w: 1.0 is no rotation."


def _modifier_data(modifier: Modifier) -> dict[str, Any]:
    if modifier.set_base_frame is not None:
        return {"set_base_frame": modifier.set_base_frame}
    mimic = modifier.remove_mimic_attributes
    if mimic is not None:
        return {"remove_mimic_attributes": vars(mimic)}
    frame = modifier.add_frame
    assert frame is not None
    X, turn = frame.fixed_transform, frame.fixed_transform.orientation
    pose = {"position": list(X.position), "orientation": {"w": turn.w, "xyz": list(turn.xyz)}}
    return {"add_frame": {**vars(frame), "fixed_transform": pose}}


def _group_data(group: GeometryGroup) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if group.spheres:
        data["spheres"] = {
            link: [vars(entry) for entry in entries] for link, entries in group.spheres.items()
        }
    if group.clone:
        data["clone"] = list(group.clone)
    return data


def _without_defaults(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value != {}}
