# SPDX-License-Identifier: Apache-2.0
"""Robot files of cuRobo, versions 1 and 2.

They name their URDF and otherwise contain the data of an XRDF, from and to which they are
converted. Source: files and reader in github.com/NVlabs/curobo, versions 1 and 2.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from motion_nodes.core.robot.files.xrdf_file import (
    SPHERES_GROUP,
    AddFrame,
    CSpace,
    FieldNames,
    FixedTransform,
    GeometryGroup,
    Modifier,
    Orientation,
    SphereEntry,
    WorldCollision,
    Xrdf,
    XrdfSelfCollision,
    real_spheres,
)
from motion_nodes.core.robot.robot_yaml import Name
from motion_nodes.core.robot.yaml_schema import decode, read_yaml, without_empty, yaml_text
from motion_nodes.errors import InvalidDescription, did_you_mean

_LOG = logging.getLogger(__name__)

NAMES = FieldNames(
    joints="kinematics.cspace.joint_names",
    home="kinematics.cspace.default_joint_position (or retract_config) and lock_joints",
    tools="kinematics.tool_frames (or ee_link)",
    geometry="kinematics.collision_spheres",
    base="kinematics.base_link",
    frames="kinematics.extra_links",
)

_Positive = Annotated[float, Meta(gt=0.0)]
_Spheres = dict[Name, tuple[SphereEntry, ...]]

_UNUSED = frozenset(
    {
        *("format_version", "asset_root_path", "collision_link_names", "mesh_link_names"),
        *("extra_collision_spheres", "use_global_cumul", "link_names", "grasp_contact_link_names"),
        *("usd_path", "usd_robot_root", "isaac_usd_path", "usd_flip_joints", "use_usd_kinematics"),
        *("usd_flip_joint_limits", "add_object_link", "use_external_assets", "external_asset_path"),
        *("external_robot_configs_path", "load_tool_frames_with_mesh", "use_robot_segmentation"),
        *("load_link_names_with_mesh", "load_meshes", "compute_jacobian"),
    }
)
_UNUSED_OF_CSPACE = frozenset(
    {"null_space_weight", "cspace_distance_weight", "velocity_scale", "acceleration_scale"}
    | {"jerk_scale", "position_limit_clip", "max_velocity", "null_space_maximum_distance"}
)


@dataclass(frozen=True)
class CuroboRobot:
    """Content of a robot file."""

    xrdf: Xrdf
    """Content as an XRDF."""
    urdf_path: str
    """URDF, relative to cuRobo's folder of assets."""


@dataclass(frozen=True)
class _ExtraLink:
    parent_link_name: Name
    link_name: Name
    joint_name: Name
    fixed_transform: tuple[float, float, float, float, float, float, float]
    """Pose x, y, z [m], qw, qx, qy, qz."""
    joint_type: str = "FIXED"


@dataclass(frozen=True)
class _CSpace:
    joint_names: Annotated[tuple[Name, ...], Meta(min_length=1)]
    default_joint_position: tuple[float, ...] = ()
    max_acceleration: tuple[_Positive, ...] | _Positive = ()
    max_jerk: tuple[_Positive, ...] | _Positive = ()


@dataclass(frozen=True)
class _Kinematics:
    urdf_path: Name
    cspace: _CSpace
    base_link: Name | None = None
    ee_link: Name | None = None
    tool_frames: tuple[Name, ...] = ()
    collision_spheres: _Spheres = field(default_factory=dict)
    collision_sphere_buffer: dict[Name, float] | float = 0.0
    self_collision_ignore: dict[Name, tuple[Name, ...]] = field(default_factory=dict)
    self_collision_buffer: dict[Name, float] = field(default_factory=dict)
    lock_joints: dict[Name, float] = field(default_factory=dict)
    extra_links: dict[Name, _ExtraLink] = field(default_factory=dict)


def is_curobo(data: Mapping[str, Any]) -> bool:
    """Return whether the content of a YAML file is that of a cuRobo file."""
    inner = data.get("robot_cfg", data)
    return isinstance(inner, dict) and isinstance(inner.get("kinematics"), dict)


def read_curobo(file: str | Path) -> CuroboRobot:
    """Read a file and its sphere file, if any.

    Raises:
        InvalidDescription: names the file, the field, its value and the allowed values.
    """
    path = Path(file)
    return parse_curobo(read_yaml(path), path)


def parse_curobo(data: Mapping[str, Any], file: Path) -> CuroboRobot:
    """Return the content of a file.

    Args:
        data: content of the YAML file.
        file: for errors, and to locate the sphere file.

    Raises:
        InvalidDescription: as :func:`read_curobo`.
    """
    prefix = "robot_cfg.kinematics" if "robot_cfg" in data else "kinematics"
    fields = without_empty(data.get("robot_cfg", data))["kinematics"]
    known = _fields(fields, _Kinematics, _UNUSED, f"{file}: {prefix}")
    if isinstance(known.get("cspace"), dict):
        cspace = dict(known["cspace"])
        # Name of the field in version 1.
        if "retract_config" in cspace:
            cspace["default_joint_position"] = cspace.pop("retract_config")
        known["cspace"] = _fields(cspace, _CSpace, _UNUSED_OF_CSPACE, f"{file}: {prefix}.cspace")
    spheres = known.get("collision_spheres")
    if isinstance(spheres, str):
        spheres = _spheres_of_file(file, spheres, f"{file}: {prefix}.collision_spheres")
    if spheres is not None:
        place = f"{file}: {prefix}.collision_spheres"
        known["collision_spheres"] = real_spheres(spheres, place)
    _refuse_moving_links(known.get("extra_links"), f"{file}: {prefix}.extra_links")
    robot = decode(known, _Kinematics, str(file), prefix)
    return CuroboRobot(_xrdf(robot, f"{file}: {prefix}"), robot.urdf_path)


def curobo_text(xrdf: Xrdf, urdf_path: str, root_link: str, comment: str = "") -> str:
    """Return the text of a file of cuRobo's version 2.

    Args:
        xrdf: content.
        urdf_path: path of the URDF, relative to cuRobo's folder of assets.
        root_link: root link of the URDF.
        comment: comment at the top, possibly of several lines.
    """
    home, joints = xrdf.default_joint_positions, xrdf.cspace.joint_names
    locked = {name: value for name, value in home.items() if name not in joints}
    names = (*joints, *locked)
    bases = [m.set_base_frame for m in xrdf.modifiers if m.set_base_frame is not None]
    cspace: dict[str, Any] = {
        "joint_names": list(names),
        "default_joint_position": [home.get(name, 0.0) for name in names],
        "null_space_weight": [1.0] * len(names),
        "cspace_distance_weight": [1.0] * len(names),
    }
    for name, values in (
        ("max_acceleration", xrdf.cspace.acceleration_limits),
        ("max_jerk", xrdf.cspace.jerk_limits),
    ):
        if values:
            cspace[name] = [*values, *([max(values)] * len(locked))]
    kinematics: dict[str, Any] = {
        "format_version": 2.0,
        "urdf_path": urdf_path,
        "base_link": bases[-1] if bases else root_link,
        "tool_frames": list(xrdf.tool_frames),
        "lock_joints": locked,
        "cspace": cspace,
    }
    world, own = xrdf.world_collision, xrdf.self_collision
    if world is not None:
        spheres = xrdf.spheres(world.geometry)
        kinematics["collision_link_names"] = list(spheres)
        kinematics["collision_sphere_buffer"] = dict(world.buffer_distance) or 0.0
        kinematics["collision_spheres"] = {
            link: [{"center": list(s[:3]), "radius": s[3]} for s in items]
            for link, items in spheres.items()
        }
    if own is not None:
        kinematics["self_collision_ignore"] = {a: list(b) for a, b in own.ignore.items()}
        kinematics["self_collision_buffer"] = dict(own.buffer_distance)
    frames = [m.add_frame for m in xrdf.modifiers if m.add_frame is not None]
    if frames:
        kinematics["extra_links"] = {frame.frame_name: _link_data(frame) for frame in frames}
    return yaml_text({"robot_cfg": {"kinematics": kinematics}}, comment)


def _fields(data: dict[str, Any], kind: type, unused: frozenset[str], place: str) -> dict[str, Any]:
    """Return the supported fields; warn about unknown ones."""
    names = list(kind.__dataclass_fields__)  # type: ignore[attr-defined]
    for key in data:
        if key not in names and key not in unused:
            hint = did_you_mean(str(key), names)
            _LOG.warning("%s.%s has no effect: it is not known.%s", place, key, hint)
    return {key: value for key, value in data.items() if key in names}


def _refuse_moving_links(links: Any, place: str) -> None:
    """Reject added links with moving joints, such as those of a floating base."""
    for name, link in links.items() if isinstance(links, dict) else ():
        kind = link.get("joint_type", "FIXED") if isinstance(link, dict) else "FIXED"
        if str(kind).upper() != "FIXED":
            raise InvalidDescription(
                f"{place}.{name}.joint_type is {kind!r}; only FIXED ones can be added here. Put "
                "moving joints into the URDF."
            )


def _spheres_of_file(file: Path, name: str, place: str) -> Any:
    """Return the content of the sphere file, relative to or directly in the robot file's folder."""
    for candidate in (file.parent / name, file.parent / Path(name).name):
        if candidate.is_file() and candidate != file:
            return without_empty(read_yaml(candidate)).get("collision_spheres", {})
    raise InvalidDescription(f"{place}: the file '{name}' does not exist in {file.parent}.")


def _xrdf(robot: _Kinematics, place: str) -> Xrdf:
    cspace, locked = robot.cspace, robot.lock_joints
    names = cspace.joint_names
    home = cspace.default_joint_position or (0.0,) * len(names)
    numbers: dict[str, tuple[float, ...]] = {"default_joint_position": home}
    for key in ("max_acceleration", "max_jerk"):
        values = getattr(cspace, key)
        numbers[key] = values if isinstance(values, tuple) else (values,) * len(names)
    for key, values in numbers.items():
        if values and len(values) != len(names):
            raise InvalidDescription(
                f"{place}.cspace.{key}: has {len(values)} numbers for the {len(names)} joints of "
                "joint_names; give one for each."
            )
    moving = [k for k, name in enumerate(names) if name not in locked]
    accelerations, jerks = (
        tuple(numbers[key][k] for k in moving) if numbers[key] else ()
        for key in ("max_acceleration", "max_jerk")
    )
    buffer = robot.collision_sphere_buffer
    if not isinstance(buffer, dict):
        buffer = dict.fromkeys(robot.collision_spheres, buffer) if buffer else {}
    frames = [_frame(link) for link in robot.extra_links.values()]
    base = [] if robot.base_link is None else [Modifier(set_base_frame=robot.base_link)]
    tools = robot.tool_frames or ((robot.ee_link,) if robot.ee_link else ())
    own = XrdfSelfCollision(SPHERES_GROUP, robot.self_collision_buffer, robot.self_collision_ignore)
    return Xrdf(
        cspace=CSpace(tuple(names[k] for k in moving), accelerations, jerks),
        modifiers=(*(Modifier(add_frame=frame) for frame in frames), *base),
        default_joint_positions={**dict(zip(names, home, strict=True)), **locked},
        tool_frames=tools,
        world_collision=WorldCollision(SPHERES_GROUP, buffer) if robot.collision_spheres else None,
        self_collision=own if robot.collision_spheres else None,
        geometry={SPHERES_GROUP: GeometryGroup(robot.collision_spheres)}
        if robot.collision_spheres
        else {},
    )


def _frame(link: _ExtraLink) -> AddFrame:
    x, y, z, qw, qx, qy, qz = link.fixed_transform
    pose = FixedTransform((x, y, z), Orientation(qw, (qx, qy, qz)))
    return AddFrame(link.link_name, link.parent_link_name, link.joint_name, "FIXED", pose)


def _link_data(frame: AddFrame) -> dict[str, Any]:
    X = frame.fixed_transform
    return {
        "parent_link_name": frame.parent_frame_name,
        "link_name": frame.frame_name,
        "joint_name": frame.joint_name,
        "joint_type": "FIXED",
        "fixed_transform": [*X.position, X.orientation.w, *X.orientation.xyz],
    }
