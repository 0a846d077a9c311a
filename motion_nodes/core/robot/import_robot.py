# SPDX-License-Identifier: Apache-2.0
"""Import of robots: a URDF with an XRDF, Lula, cuRobo or SRDF file.

The robot's folder (robot.yaml, URDF, spheres and further files) is written atomically.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lxml import etree  # type: ignore[import-untyped]

from motion_nodes.core.robot.files import curobo, lula, xrdf_robot
from motion_nodes.core.robot.files.srdf_file import Srdf, SrdfGroup, read_srdf
from motion_nodes.core.robot.files.xrdf_file import Spheres, parse_xrdf
from motion_nodes.core.robot.files.xrdf_robot import (
    SPHERES_FILE,
    DescribedRobot,
    describe,
    modified_urdf,
)
from motion_nodes.core.robot.loader import ROBOT_FILE
from motion_nodes.core.robot.meshes import resolve_mesh
from motion_nodes.core.robot.robot import GRIPPER_GROUP, Robot
from motion_nodes.core.robot.robot_builder import assemble
from motion_nodes.core.robot.robot_yaml import (
    CollisionDescription,
    FramesDescription,
    GroupDescription,
    RobotDescription,
)
from motion_nodes.core.robot.tree import KinematicTree
from motion_nodes.core.robot.urdf import parse_xml, read_urdf
from motion_nodes.core.robot.yaml_schema import read_text, read_yaml, yaml_text
from motion_nodes.errors import InvalidConfig, InvalidDescription

_LOG = logging.getLogger(__name__)
FORMATS = ("xrdf", "lula", "curobo", "srdf")
SPHERES_COMMENT = "Collision spheres: link -> [x, y, z, radius] in the link's frame [m]."


def describe_srdf(
    srdf: Srdf, tree: KinematicTree, *, name: str, urdf: str, where: str
) -> DescribedRobot:
    """Return the content of a robot.yaml.

    A group that consists of one other group becomes its alias. That of the only end effector is
    named gripper, with its own name as an alias. Virtual joints have no counterpart:
    the pose of a robot is that of its root link.

    Args:
        srdf: semantic description.
        tree: kinematic tree of the URDF.
        name: name of the robot.
        urdf: file name of the URDF.
        where: name of the SRDF file, for warnings.
    """
    passive = tuple(joint for joint in srdf.passive_joints if joint in tree.joint_names)
    groups = _groups(srdf, tree, passive, where)
    spheres = {link: items for link, items in srdf.spheres if items}
    description = RobotDescription(
        format=1,
        name=name,
        kind="arm",
        urdf=urdf,
        frames=FramesDescription(base=tree.root, tool=_tool(groups)),
        groups=groups,
        named_states=_states(srdf, tree, where),
        drives=xrdf_robot.guessed_drives(tree, passive),
        passive_joints=passive,
        collision=CollisionDescription(
            spheres=SPHERES_FILE if spheres else None,
            ignore=tuple((pair.link1, pair.link2) for pair in srdf.disabled),
        ),
        sources={"drives": xrdf_robot.SOURCE},
    )
    for joint in srdf.virtual_joints:
        if joint.type != "fixed":
            _LOG.warning(
                "%s: virtual_joint '%s' has no effect: a robot with a mobile base needs a kind and "
                "the block base in its robot.yaml",
                *(where, joint.name),
            )
    return DescribedRobot(description, spheres)


def _groups(
    srdf: Srdf, tree: KinematicTree, passive: tuple[str, ...], where: str
) -> dict[str, GroupDescription]:
    found: dict[str, GroupDescription] = {}
    same = {group.name: group.groups[0] for group in srdf.groups if _is_alias(group)}
    aliases: dict[str, tuple[str, ...]] = {}
    for name in same:
        other = name
        while other in same:  # also an alias of an alias
            other = same[other]
        aliases[other] = (*aliases.get(other, ()), name)
    for group in srdf.groups:
        if group.name in same:
            continue
        moving = srdf.group_joints(group.name, tree)
        joints = tuple(n for n in moving if n in tree.joint_names and n not in passive)
        if not joints:
            _LOG.warning("%s: group '%s' is ignored: it has no movable joints", where, group.name)
            continue
        base, tip = _ends(group, tree, joints, where)
        found[group.name] = GroupDescription(joints, base, tip)
    for name in aliases.keys() - found.keys():
        _LOG.warning(
            "%s: %s ignored: other names of group '%s', which has no movable joints",
            *(where, ", ".join(f"group '{alias}'" for alias in aliases[name]), name),
        )
    named = {
        name: GroupDescription(group.joints, group.base, group.tip, aliases.get(name, ()))
        for name, group in found.items()
    }
    if hand := _hand(srdf, named):
        own = named.pop(hand)
        named[GRIPPER_GROUP] = replace(own, aliases=(hand, *own.aliases))
    return named


def _hand(srdf: Srdf, groups: Mapping[str, GroupDescription]) -> str:
    """Return the group of the only hand, which grips are given to; empty: none, or several."""
    if any(GRIPPER_GROUP in (name, *group.aliases) for name, group in groups.items()):
        return ""
    first = {alias: name for name, group in groups.items() for alias in (name, *group.aliases)}
    hands = {
        first[effector.group]
        for effector in srdf.end_effectors
        if effector.group in first and effector.group != effector.parent_group
    }
    return hands.pop() if len(hands) == 1 else ""


def _ends(
    group: SrdfGroup, tree: KinematicTree, joints: tuple[str, ...], where: str
) -> tuple[str, str] | tuple[None, None]:
    """Return base and tip of a group that is a chain of driven joints and their mimic joints."""
    if len(group.chains) != 1 or group.joints or group.links or group.groups:
        return None, None
    base, tip = group.chains[0]
    try:
        own = tree.variables(base, tip)
    except InvalidDescription as error:
        why = str(error)
    else:
        if own == joints:
            return base, tip
        others = [name for name in own if name not in joints]
        why = f"{tree.name}: {', '.join(others)} between {base} and {tip} are passive joints"
    _LOG.warning(
        "%s: group '%s' has joints, but no base and tip, so no inverse kinematics: %s",
        *(where, group.name, why),
    )
    return None, None


def _is_alias(group: SrdfGroup) -> bool:
    """Return whether a group consists of one other group."""
    return len(group.groups) == 1 and not (group.chains or group.joints or group.links)


def _tool(groups: dict[str, GroupDescription]) -> str | None:
    return next((group.tip for group in groups.values() if group.tip is not None), None)


def _states(srdf: Srdf, tree: KinematicTree, where: str) -> dict[str, dict[str, float]]:
    """Return the states by name; equally named states of several groups are merged."""
    found: dict[str, dict[str, float]] = {}
    for state in srdf.states:
        values = found.setdefault(state.name, {})
        for joint, value in state.values:
            if joint not in tree.joint_names:
                continue
            if values.setdefault(joint, value) != value:
                _LOG.warning(
                    "%s: state '%s' has positions %g and %g of joint '%s'; the first is used",
                    *(where, state.name, values[joint], value, joint),
                )
    return found


@dataclass(frozen=True)
class ForeignRobot:
    """A robot described by files of another system."""

    format: str
    """One of :data:`FORMATS`."""
    urdf_file: Path
    urdf: str
    """Text of the URDF, with added frames and another root link if the file requires them."""
    tree: KinematicTree
    described: DescribedRobot


def format_of(file: Path) -> str | None:
    """Return the format of a file of another system; None: another format.

    Raises:
        InvalidDescription: the file cannot be read, or is not YAML.
    """
    if file.suffix == ".srdf":
        return "srdf"
    if file.suffix not in (".xrdf", ".yaml", ".yml"):
        return None
    data = read_yaml(file)
    if file.suffix == ".xrdf" or data.get("format") == "xrdf":
        return "xrdf"
    return "lula" if lula.is_lula(data) else "curobo" if curobo.is_curobo(data) else None


def read_foreign(
    file: Path,
    urdf: Path | None = None,
    name: str = "",
    read_text: Callable[[Path], str] = read_text,
) -> ForeignRobot:
    """Read a file of another system and its URDF.

    Args:
        file: XRDF, Lula, cuRobo or SRDF.
        urdf: the URDF; None: the one named by a cuRobo file, the one with the same name in the
            file's folder, or the only one there.
        name: name of the robot; empty: derived from the file.
        read_text: returns the text of a URDF file, possibly corrected.

    Raises:
        InvalidDescription: names the file, the field, its value and the allowed values.
    """
    kind = format_of(file)
    if kind is None:
        raise InvalidDescription(
            f"{file}: is no XRDF, Lula, cuRobo or SRDF file. XRDF begins with 'format: xrdf', Lula "
            "has cspace and default_q, cuRobo has robot_cfg.kinematics, SRDF ends in .srdf."
        )
    name = robot_name(name or file.stem)
    if kind == "srdf":
        urdf_file = _urdf_beside(file) if urdf is None else urdf
        text = read_text(urdf_file)
        tree = read_urdf(text, str(urdf_file))
        semantics = read_srdf(file, tree)
        described = describe_srdf(semantics, tree, name=name, urdf=urdf_file.name, where=str(file))
        return ForeignRobot(kind, urdf_file, text, tree, described)
    data = read_yaml(file)
    requested = ""
    if kind == "curobo":
        found = curobo.parse_curobo(data, file)
        xrdf, requested = found.xrdf, found.urdf_path
    elif kind == "lula":
        xrdf = lula.parse_lula(data, str(file))
    else:
        xrdf = parse_xrdf(data, str(file))
    urdf_file = _urdf_beside(file, requested) if urdf is None else urdf
    names = {"lula": lula.NAMES, "curobo": curobo.NAMES}.get(kind)
    text = modified_urdf(read_text(urdf_file), xrdf.modifiers, str(file), names)
    tree = read_urdf(text, str(urdf_file))
    described = describe(xrdf, tree, name=name, urdf=urdf_file.name, where=str(file), names=names)
    return ForeignRobot(kind, urdf_file, text, tree, described)


def load_foreign(file: Path, urdf: Path | None = None) -> Robot:
    """Load a robot from a file of another system and a URDF, without writing files.

    Args:
        file: XRDF, Lula, cuRobo or SRDF.
        urdf: the URDF; None: as for :func:`read_foreign`.

    Raises:
        InvalidDescription: as :func:`read_foreign`.
    """
    found = read_foreign(file, urdf)
    parts = found.described
    # Meshes are located relative to the URDF.
    place = found.urdf_file.parent / file.name
    return assemble(place, parts.description, found.tree, found.urdf, parts.spheres)


def robot_name(text: str) -> str:
    """Return a valid robot name derived from a text."""
    name = re.sub(r"[^a-z0-9_]+", "_", text.lower()).strip("_")
    return name if name[:1].isalpha() else f"robot_{name}".rstrip("_")


def _urdf_beside(file: Path, requested: str = "") -> Path:
    """Return the URDF named by a file or in its folder."""
    folder = file.parent
    candidates = [folder / requested, folder / Path(requested).name] if requested else []
    # In cuRobo's sources, configs/robot and assets are siblings.
    candidates += [above / "assets" / requested for above in folder.parents if requested]
    candidates.append(file.with_suffix(".urdf"))
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    beside = sorted(folder.glob("*.urdf"))
    if len(beside) == 1:
        return beside[0]
    found = f"there are {len(beside)}: {', '.join(p.name for p in beside)}" if beside else "none"
    named = f"the URDF '{requested}'" if requested else "its URDF"
    raise InvalidDescription(
        f"{file}: {named} is not found: {file.with_suffix('.urdf').name} or a single URDF must lie "
        f"beside it ({found} there), or it must be named (motion convert has --urdf)."
    )


def description_data(description: RobotDescription) -> dict[str, Any]:
    """Return the content of a robot.yaml: fields that differ from their defaults."""
    data = _without_defaults(description)
    return data if description.base is None else {**data, "base": description.base}


def write_robot_folder(
    folder: Path, description: RobotDescription, urdf: str, spheres: Spheres, *, comment: str = ""
) -> None:
    """Write a robot's folder, which must not exist yet.

    The files are written to a temporary folder, which is then renamed, so no partial folder exists.

    Args:
        folder: folder to create.
        description: content of the robot.yaml.
        urdf: text of the URDF, with mesh names valid from the new folder.
        spheres: spheres by link [m]; written if the description names a file for them.
        comment: comment at the top of the robot.yaml.

    Raises:
        InvalidConfig: the folder exists, or cannot be written.
    """
    files = {
        ROBOT_FILE: yaml_text(description_data(description), comment),
        description.urdf: urdf,
    }
    if description.collision.spheres is not None:
        data = {link: [list(sphere) for sphere in items] for link, items in spheres.items()}
        files[description.collision.spheres] = yaml_text(data, SPHERES_COMMENT)
    if folder.exists():
        raise InvalidConfig(f"{folder} exists already; nothing was written. Choose another name.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise InvalidConfig(f"{folder} cannot be written: {error.strerror}.") from None
    try:
        temporary.chmod(0o755)
        for name, text in files.items():
            (temporary / name).write_text(text, encoding="utf-8")
        temporary.rename(folder)
    except OSError as error:
        raise InvalidConfig(f"{folder} cannot be written: {error.strerror}.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def with_meshes_from(urdf: str, directory: Path, folder: Path, where: str) -> str:
    """Return a URDF with mesh names that are valid from another folder.

    Names of missing meshes are unchanged.

    Args:
        urdf: text of the URDF.
        directory: original folder of the URDF.
        folder: new folder of the URDF.
        where: name of the URDF, for errors.
    """
    root = parse_xml(urdf, where)
    changed = False
    for mesh in root.iter("mesh"):
        try:
            file = resolve_mesh(mesh.get("filename", ""), directory)
        except InvalidDescription:
            continue
        mesh.set("filename", os.path.relpath(file, folder))
        changed = True
    return str(etree.tostring(root, encoding="unicode")) + "\n" if changed else urdf


def _without_defaults(block: Any) -> dict[str, Any]:
    """Return the fields of a block that differ from their defaults."""
    data = {}
    for field in dataclasses.fields(block):
        value = getattr(block, field.name)
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if value != default or isinstance(default, type(dataclasses.MISSING)):
            data[field.name] = _plain(value)
    return data


def _plain(value: Any) -> Any:
    """Return a value as lists, dictionaries, numbers and text."""
    if dataclasses.is_dataclass(value):
        return _without_defaults(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
