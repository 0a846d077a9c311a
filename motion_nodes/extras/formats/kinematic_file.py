# SPDX-License-Identifier: Apache-2.0
"""Kinematic trees from ``<name>.kinematic.json`` files, the format of the Isaac SDK.

A file lists links. Each has a name and optionally a parent and a motor: the transform from the
parent to the link, which is constant or moved by one joint. The joint has the link's name.

    {"links": [
      {"name": "base"},
      {"name": "column", "parent": "base", "motor": {"type": "constant", "properties": {"pose": {
        "translation": [0, 0, 0.3], "rotation": {"axis": [0, 0, 1], "angle_degrees": 90}}}}},
      {"name": "turn", "parent": "column", "motor": {"type": "revolute", "properties": {
        "axis": [0, 0, 1], "limits": [-3.1, 3.1]}}}]}

A pose may also be a list ``[qw, qx, qy, qz, x, y, z]``. Lengths are in metres, limits in radians or
metres. ``prismatic`` motors are an extension of the format.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from motion_nodes.core.robot.poses import from_xyz_quat, rotation_about
from motion_nodes.core.robot.tree import Joint, JointKind, KinematicTree, Link, frozen
from motion_nodes.core.robot.yaml_schema import decode, read_text
from motion_nodes.errors import InvalidDescription, did_you_mean
from motion_nodes.typing import Array

SUFFIX = ".kinematic.json"
WORLD = "world"
"""Parent frame of a root with a motor."""

_Two = tuple[float, float]
_Three = tuple[float, float, float]
_NO_LIMITS: _Two = (-math.inf, math.inf)


@dataclass(frozen=True)
class _Motor:
    type: Literal["constant", "revolute", "prismatic"]
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _FileLink:
    name: str
    parent: str | None = None
    motor: _Motor | None = None


@dataclass(frozen=True)
class _File:
    links: list[_FileLink]


@dataclass(frozen=True)
class _Constant:
    pose: Any


@dataclass(frozen=True)
class _Moving:
    axis: _Three
    limits: tuple[float, float] | None = None


@dataclass(frozen=True)
class _Rotation:
    axis: _Three
    angle_radians: float | None = None
    angle_degrees: float | None = None


@dataclass(frozen=True)
class _Pose:
    translation: _Three = (0.0, 0.0, 0.0)
    rotation: _Rotation | None = None


def read_kinematic_file(file: str | Path) -> KinematicTree:
    """Return the tree described by a ``.kinematic.json`` file, named after the file.

    A root with a motor or an offset gets a parent frame ``world``, so that all poses are relative
    to the origin of the file.

    Raises:
        InvalidDescription: names the file, the field, and the allowed values.
    """
    path = Path(file)
    return read_kinematic_text(read_text(path), path.name.removesuffix(SUFFIX), str(path))


def read_kinematic_text(text: str, name: str, where: str) -> KinematicTree:
    """Return the tree described by a text.

    Args:
        text: JSON.
        name: name of the tree.
        where: name of the file, for errors.

    Raises:
        InvalidDescription: as :func:`read_kinematic_file`.
    """
    try:
        data = json.loads(text, object_pairs_hook=lambda pairs: _block(pairs, where))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidDescription(f"{where}, {place}: is not JSON: {error.msg}.") from None
    except RecursionError:
        raise InvalidDescription(f"{where}: is nested too deeply to be read.") from None
    links = decode(data, _File, where).links
    _check_links(links, where)
    joints = {}
    for index, link in enumerate(links):
        joint = _joint(link, f"links[{index}].motor", where)
        if joint is not None:
            joints[joint.name] = joint
    names = [link.name for link in links]
    if any(joint.parent == WORLD for joint in joints.values()) and WORLD not in names:
        names.insert(0, WORLD)
    return KinematicTree(name, {n: Link(n) for n in names}, joints)


def _block(pairs: list[tuple[str, Any]], where: str) -> dict[str, Any]:
    """Return a JSON object; reject duplicate keys."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidDescription(f"{where}: the field '{twice}' is defined twice in one block.")
    return found


def _fault(where: str, path: str, text: str) -> InvalidDescription:
    return InvalidDescription(f"{where}: {path}{text}", field=path)


def _check_links(links: list[_FileLink], where: str) -> None:
    """Validate names and parents; loops are detected when the tree is built."""
    first: dict[str, int] = {}
    for index, link in enumerate(links):
        if not link.name:
            raise _fault(where, f"links[{index}].name", " is empty.")
        if link.name in first:
            text = f" '{link.name}' is taken by links[{first[link.name]}]; names must differ."
            raise _fault(where, f"links[{index}].name", text)
        first[link.name] = index
    for index, link in enumerate(links):
        if link.parent is not None and link.parent not in first:
            text = f" '{link.parent}' is not a link.{did_you_mean(link.parent, first)}"
            raise _fault(where, f"links[{index}].parent", text)
    roots = [link.name for link in links if link.parent is None]
    if len(roots) != 1:
        found = f"there are {len(roots)}: {', '.join(roots)}"
        if not roots:
            found = "all have one, which is a loop" if links else "the list is empty"
        raise _fault(where, "links", f": exactly one must have no parent; {found}.")
    if WORLD in first and links[first[WORLD]].parent is not None:
        text = f": '{WORLD}' is reserved for the parent of the root link."
        raise _fault(where, f"links[{first[WORLD]}].name", text)
    _check_loops(links, where)


def _check_loops(links: list[_FileLink], where: str) -> None:
    """Reject loops of parents."""
    parent = {link.name: link.parent for link in links}
    for index, link in enumerate(links):
        above: str | None = link.name
        seen: list[str] = []
        while above is not None:
            if above in seen:
                loop = " -> ".join([*seen[seen.index(above) :], above])
                text = f" leads into a loop: {loop}."
                raise _fault(where, f"links[{index}].parent", text)
            seen.append(above)
            above = parent[above]


def _joint(link: _FileLink, path: str, where: str) -> Joint | None:
    """Return the joint between a link and its parent; None for a root at the origin."""
    motor = link.motor or _Motor("constant", {"pose": {}})
    kind, X, axis, limits = _motion(motor, path, where)
    parent = link.parent
    if parent is None:
        if kind is JointKind.FIXED and np.array_equal(X, np.eye(4)):
            return None
        parent = WORLD
        if link.name == WORLD:
            raise _fault(where, path, f": a root named '{WORLD}' cannot move.")
    return Joint(
        link.name,
        kind,
        parent,
        link.name,
        frozen(X),
        frozen(axis),
        lower=limits[0],
        upper=limits[1],
    )


def _motion(motor: _Motor, path: str, where: str) -> tuple[JointKind, Array, Array, _Two]:
    """Return kind, fixed pose, axis and limits."""
    inside = f"{path}.properties"
    if motor.type == "constant":
        pose = decode(motor.properties, _Constant, where, inside).pose
        return JointKind.FIXED, _pose(pose, f"{inside}.pose", where), np.zeros(3), _NO_LIMITS
    moving = decode(motor.properties, _Moving, where, inside)
    axis = _unit(moving.axis, f"{inside}.axis", where)
    limits = _NO_LIMITS if moving.limits is None else moving.limits
    if not limits[0] < limits[1]:
        text = f" are {list(limits)}; the first must be below the second."
        raise _fault(where, f"{inside}.limits", text)
    if motor.type == "prismatic":
        return JointKind.PRISMATIC, np.eye(4), axis, limits
    kind = JointKind.CONTINUOUS if moving.limits is None else JointKind.REVOLUTE
    return kind, np.eye(4), axis, limits


def _pose(given: Any, path: str, where: str) -> Array:
    """Return the pose from either encoding."""
    if isinstance(given, list):
        if len(given) != 7:
            text = f" has {len(given)} numbers; a pose as a list is [qw, qx, qy, qz, x, y, z]."
            raise _fault(where, path, text)
        qw, qx, qy, qz, x, y, z = decode(given, tuple[float, ...], where, path)
        try:
            return from_xyz_quat((x, y, z), (qx, qy, qz, qw))
        except ValueError:
            raise _fault(where, path, ": the quaternion is zero.") from None
    pose = decode(given, _Pose, where, path)
    X = np.eye(4)
    X[:3, 3] = pose.translation
    if pose.rotation is not None:
        X[:3, :3] = _rotation(pose.rotation, f"{path}.rotation", where)
    return X


def _rotation(rotation: _Rotation, path: str, where: str) -> Array:
    """Return the rotation matrix of an axis and an angle."""
    degrees, radians = rotation.angle_degrees, rotation.angle_radians
    if (degrees is None) == (radians is None):
        given = "none is" if degrees is None else "both are"
        text = f" needs one of angle_radians and angle_degrees; {given} given."
        raise _fault(where, path, text)
    angle = math.radians(degrees) if degrees is not None else radians
    axis = _unit(rotation.axis, f"{path}.axis", where)
    return rotation_about(axis, np.asarray(angle, dtype=np.float64))


def _unit(axis: _Three, path: str, where: str) -> Array:
    """Return the normalized axis; files contain rounded axes such as (0.7071, 0.7071, 0)."""
    length = math.hypot(*axis)
    if length < 1e-9:
        raise _fault(where, path, " is zero; give a direction such as [0, 0, 1].")
    return np.asarray(axis, dtype=np.float64) / length
