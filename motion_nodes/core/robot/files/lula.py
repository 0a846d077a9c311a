# SPDX-License-Identifier: Apache-2.0
"""Robot descriptions of Lula, the motion generation of Isaac Sim up to version 5.

They contain the data of an XRDF with one group of spheres and without self-collision, from and to
which they are converted. Source: files and description editor of Isaac Sim
(docs.isaacsim.omniverse.nvidia.com, "Lula Robot Description and XRDF Editor").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from motion_nodes.core.robot.files.xrdf_file import (
    SPHERES_GROUP,
    CSpace,
    FieldNames,
    GeometryGroup,
    Modifier,
    SphereEntry,
    WorldCollision,
    Xrdf,
    real_spheres,
)
from motion_nodes.core.robot.robot_yaml import Name
from motion_nodes.core.robot.yaml_schema import decode, read_yaml, without_empty, yaml_text
from motion_nodes.errors import InvalidDescription

NAMES = FieldNames(
    joints="cspace",
    home="default_q or cspace_to_urdf_rules",
    geometry="collision_spheres",
    base="root_link",
)

_UNUSED = ("api_version", "composite_task_spaces", "active_task_spaces", "subtree_root_link")
_Positive = Annotated[float, Meta(gt=0.0)]


@dataclass(frozen=True)
class _Rule:
    name: Name
    rule: Literal["fixed"]
    value: float


@dataclass(frozen=True)
class _LulaFile:
    cspace: Annotated[tuple[Name, ...], Meta(min_length=1)]
    default_q: tuple[float, ...]
    root_link: Name | None = None
    acceleration_limits: tuple[_Positive, ...] = ()
    jerk_limits: tuple[_Positive, ...] = ()
    cspace_to_urdf_rules: tuple[_Rule, ...] = ()
    collision_spheres: tuple[dict[Name, tuple[SphereEntry, ...]], ...] = field(default=())


def is_lula(data: Mapping[str, Any]) -> bool:
    """Return whether the content of a YAML file is that of a Lula file."""
    return isinstance(data.get("cspace"), list) and "default_q" in data


def read_lula(file: str | Path) -> Xrdf:
    """Read a file.

    Raises:
        InvalidDescription: names the file, the field, its value and the allowed values.
    """
    path = Path(file)
    return parse_lula(read_yaml(path), str(path))


def parse_lula(data: Mapping[str, Any], where: str) -> Xrdf:
    """Return the content of a file.

    Args:
        data: content of the YAML file.
        where: name of the file, for errors.

    Raises:
        InvalidDescription: as :func:`read_lula`.
    """
    given = without_empty(dict(data))
    fields = {key: value for key, value in given.items() if key not in _UNUSED}
    blocks = fields.get("collision_spheres")
    if isinstance(blocks, list):
        place = f"{where}: collision_spheres"
        fields["collision_spheres"] = [real_spheres(block, place) for block in blocks]
    lula = decode(fields, _LulaFile, where)
    joints = lula.cspace
    for name in ("default_q", "acceleration_limits", "jerk_limits"):
        values = getattr(lula, name)
        if len(values) != len(joints) and (values or name == "default_q"):
            raise InvalidDescription(
                f"{where}: {name} has {len(values)} numbers for the {len(joints)} joints of "
                "cspace; give one for each."
            )
    _refuse_twice(joints, f"{where}: cspace")
    fixed = [rule.name for rule in lula.cspace_to_urdf_rules]
    _refuse_twice(fixed, f"{where}: cspace_to_urdf_rules")
    both = next((name for name in fixed if name in joints), None)
    if both is not None:
        raise InvalidDescription(
            f"{where}: cspace_to_urdf_rules: joint '{both}' is fixed, and one of cspace as well."
        )
    spheres: dict[str, tuple[SphereEntry, ...]] = {}
    for block in lula.collision_spheres:
        for link, entries in block.items():
            spheres[link] = spheres.get(link, ()) + entries
    return Xrdf(
        cspace=CSpace(joints, lula.acceleration_limits, lula.jerk_limits),
        modifiers=() if lula.root_link is None else (Modifier(set_base_frame=lula.root_link),),
        default_joint_positions={
            **dict(zip(joints, lula.default_q, strict=True)),
            **{rule.name: rule.value for rule in lula.cspace_to_urdf_rules},
        },
        world_collision=WorldCollision(SPHERES_GROUP) if spheres else None,
        geometry={SPHERES_GROUP: GeometryGroup(spheres)} if spheres else {},
    )


def lula_text(xrdf: Xrdf, root_link: str, comment: str = "") -> str:
    """Return the text of a file.

    The format does not support self-collision, tool frames and added frames; buffers are added to
    the radii.

    Args:
        xrdf: content.
        root_link: root link of the URDF.
        comment: comment at the top, possibly of several lines.

    Raises:
        InvalidDescription: an added frame, which must be in the URDF.
    """
    added = [m.add_frame.frame_name for m in xrdf.modifiers if m.add_frame is not None]
    if added:
        raise InvalidDescription(
            f"a Lula file cannot add frames: put {', '.join(added)} into the URDF (converting to a "
            "robot folder does that)."
        )
    bases = [m.set_base_frame for m in xrdf.modifiers if m.set_base_frame is not None]
    joints, home = xrdf.cspace.joint_names, xrdf.default_joint_positions
    data: dict[str, Any] = {
        "api_version": 1.0,
        "cspace": list(joints),
        "root_link": bases[-1] if bases else root_link,
        "default_q": [home.get(name, 0.0) for name in joints],
    }
    for name in ("acceleration_limits", "jerk_limits"):
        if getattr(xrdf.cspace, name):
            data[name] = list(getattr(xrdf.cspace, name))
    data["cspace_to_urdf_rules"] = [
        {"name": name, "rule": "fixed", "value": value}
        for name, value in home.items()
        if name not in joints
    ]
    world = xrdf.world_collision
    data["composite_task_spaces"] = []
    data["collision_spheres"] = [] if world is None else _spheres_data(xrdf, world)
    return yaml_text(data, comment)


def _spheres_data(xrdf: Xrdf, world: WorldCollision) -> list[dict[str, Any]]:
    return [
        {
            link: [
                {
                    "center": list(sphere[:3]),
                    "radius": sphere[3] + world.buffer_distance.get(link, 0.0),
                }
                for sphere in spheres
            ]
        }
        for link, spheres in xrdf.spheres(world.geometry).items()
    ]


def _refuse_twice(names: list[str] | tuple[str, ...], path: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidDescription(f"{path}: '{twice}' is listed twice.")
