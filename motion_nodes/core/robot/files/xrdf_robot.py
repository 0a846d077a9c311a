# SPDX-License-Identifier: Apache-2.0
"""Conversion between XRDF with URDF and the content of a robot.yaml.

The modifiers of an XRDF are applied to the URDF. A robot described only by a URDF gets default
drives for the simulation.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lxml import etree  # type: ignore[import-untyped]

from motion_nodes.core.robot.files.xrdf_file import (
    AddFrame,
    CSpace,
    FieldNames,
    GeometryGroup,
    Modifier,
    RemoveMimic,
    SphereEntry,
    Spheres,
    WorldCollision,
    Xrdf,
    XrdfSelfCollision,
)
from motion_nodes.core.robot.poses import from_xyz_quat, to_rpy
from motion_nodes.core.robot.robot import Group, Robot
from motion_nodes.core.robot.robot_yaml import (
    CollisionDescription,
    DriveDescription,
    FramesDescription,
    GroupDescription,
    LimitsDescription,
    RobotDescription,
)
from motion_nodes.core.robot.tree import JointKind, KinematicTree
from motion_nodes.core.robot.urdf import parse_xml
from motion_nodes.errors import InvalidDescription, did_you_mean
from motion_nodes.tolerances import LIMIT_ROUNDING

SOURCE = "guessed: full effort at an error of 0.05 rad (0.01 m), critically damped, 8 Hz"
_FULL_EFFORT_AT = {JointKind.PRISMATIC: 0.01}
"""Position error at max effort, by joint type [m]; other types: ``_OTHERS_AT`` [rad]."""
_OTHERS_AT = 0.05
_BANDWIDTH = 2.0 * math.pi * 8.0
"""Natural frequency of a drive [rad/s]."""
_UNKNOWN_EFFORT = 100.0
"""Default if the URDF has no effort limit [N m or N]."""
_LOG = logging.getLogger(__name__)
SPHERES_FILE = "spheres.yaml"


def modified_urdf(
    urdf: str, modifiers: Sequence[Modifier], where: str, names: FieldNames | None = None
) -> str:
    """Return a URDF with added frames, another root link, and independent mimic joints.

    Modifiers are applied in the order of the file.

    Args:
        urdf: text of the URDF.
        modifiers: modifiers of an XRDF.
        where: name of the file, for errors.
        names: field names of the file; None: those of an XRDF.

    Raises:
        InvalidDescription: an unknown link or joint, or an added one that already exists.
    """
    if not modifiers:
        return urdf
    root = parse_xml(urdf, where)
    for i, modifier in enumerate(modifiers):
        path = f"{where}: modifiers[{i}]." if names is None else f"{where}: "
        words = names or FieldNames()
        if modifier.add_frame is not None:
            _add_frame(root, modifier.add_frame, path + words.frames)
        elif modifier.set_base_frame is not None:
            _set_base(root, modifier.set_base_frame, path + words.base)
        elif modifier.remove_mimic_attributes is not None:
            _let_move(root, modifier.remove_mimic_attributes, path + "remove_mimic_attributes")
    etree.indent(root)
    return str(etree.tostring(root, encoding="unicode")) + "\n"


def _named(root: Any, tag: str) -> dict[str, Any]:
    return {element.get("name"): element for element in root.findall(tag)}


def _add_frame(root: Any, frame: AddFrame, path: str) -> None:
    """Add a link with its fixed joint."""
    links, joints = _named(root, "link"), _named(root, "joint")
    if frame.parent_frame_name not in links:
        raise InvalidDescription(
            f"{path}.parent_frame_name: '{frame.parent_frame_name}' is not a link of the URDF."
            f"{did_you_mean(frame.parent_frame_name, links)}"
        )
    for key, taken in (("frame_name", links), ("joint_name", joints)):
        if getattr(frame, key) in taken:
            raise InvalidDescription(
                f"{path}.{key}: '{getattr(frame, key)}' is in the URDF already; take another name."
            )
    turn = frame.fixed_transform.orientation
    X = from_xyz_quat(frame.fixed_transform.position, (*turn.xyz, turn.w))
    etree.SubElement(root, "link", name=frame.frame_name)
    joint = etree.SubElement(root, "joint", name=frame.joint_name, type="fixed")
    xyz, rpy = (" ".join(map(repr, values.tolist())) for values in (X[:3, 3], to_rpy(X)))
    etree.SubElement(joint, "origin", xyz=xyz, rpy=rpy)
    etree.SubElement(joint, "parent", link=frame.parent_frame_name)
    etree.SubElement(joint, "child", link=frame.frame_name)


def _set_base(root: Any, base: str, path: str) -> None:
    """Keep only the subtree of a link."""
    links = _named(root, "link")
    if base not in links:
        raise InvalidDescription(
            f"{path}: '{base}' is not a link of the URDF.{did_you_mean(base, links)}"
        )
    kept, waiting = {base}, [base]
    joints = root.findall("joint")
    while waiting:
        parent = waiting.pop()
        below = [_end(j, "child") for j in joints if _end(j, "parent") == parent]
        waiting += [link for link in below if link not in kept]
        kept |= set(below)
    for name, link in links.items():
        if name not in kept:
            root.remove(link)
    for joint in joints:
        if _end(joint, "parent") not in kept:
            root.remove(joint)


def _end(joint: Any, tag: str) -> str:
    """Return the link at one end of a joint."""
    element = joint.find(tag)
    return "" if element is None else str(element.get("link"))


def _let_move(root: Any, change: RemoveMimic, path: str) -> None:
    """Make a mimic joint independent, with its own limits."""
    joints = _named(root, "joint")
    mimics = [name for name, joint in joints.items() if joint.find("mimic") is not None]
    if change.joint_name not in mimics:
        raise InvalidDescription(
            f"{path}.joint_name: '{change.joint_name}' is not a mimic joint of the URDF."
            f"{did_you_mean(change.joint_name, mimics)}"
        )
    joint = joints[change.joint_name]
    joint.remove(joint.find("mimic"))
    limit = joint.find("limit")
    if limit is None:
        limit = etree.SubElement(joint, "limit", effort="0")
    lower, upper = change.position_limits
    for key, value in (("lower", lower), ("upper", upper), ("velocity", change.velocity_limit)):
        limit.set(key, repr(value))


def guessed_drives(
    tree: KinematicTree, passive: Collection[str] = ()
) -> tuple[DriveDescription, ...]:
    """Return position drives for all actuated joints of a tree.

    The stiffness follows from the effort limit. With its armature alone a drive is a critically
    damped oscillator, so attached loads do not make it oscillate.

    Args:
        tree: kinematic tree of the robot.
        passive: joints without a drive.
    """
    joints = tuple(name for name in tree.joint_names if name not in passive)
    if not joints:
        return ()
    stiffness = []
    for name in joints:
        joint = tree.joints[name]
        effort = joint.effort if math.isfinite(joint.effort) else _UNKNOWN_EFFORT
        stiffness.append(_rounded(effort / _FULL_EFFORT_AT.get(joint.kind, _OTHERS_AT)))
    return (
        DriveDescription(
            joints=joints,
            mode="position",
            stiffness=tuple(stiffness),
            damping=tuple(_rounded(2.0 * k / _BANDWIDTH) for k in stiffness),
            armature=tuple(_rounded(k / _BANDWIDTH**2) for k in stiffness),
        ),
    )


def _rounded(value: float) -> float:
    """Return an estimate, rounded to three significant digits."""
    return float(f"{value:.3g}")


@dataclass(frozen=True)
class DescribedRobot:
    """Content of a robot's folder besides the URDF."""

    description: RobotDescription
    spheres: Spheres


def describe(
    xrdf: Xrdf,
    tree: KinematicTree,
    *,
    name: str,
    urdf: str,
    where: str,
    names: FieldNames | None = None,
) -> DescribedRobot:
    """Return the content of a robot.yaml.

    World buffers are added to the sphere radii; self-collision buffers have no counterpart. Spheres
    for self-collision only are also checked against the world. Without the section self_collision
    there are no self-collision checks.

    Args:
        xrdf: content of the XRDF.
        tree: kinematic tree of the URDF, with the modifiers applied.
        name: name of the robot.
        urdf: file name of the URDF.
        where: name of the file, for errors and warnings.
        names: field names of the file; None: those of an XRDF.

    Raises:
        InvalidDescription: an unknown joint or link, or a default position outside its limits.
    """
    names = names or FieldNames()
    _check_names(xrdf, tree, where, names)
    joints = tuple(joint for joint in tree.joint_names if joint in xrdf.cspace.joint_names)
    ends = {tool: _last_link(tree, tool, joints, where) for tool in xrdf.tool_frames}
    groups, tool = _groups(tuple(dict.fromkeys(ends.values())), tree, joints, where)
    spheres = _spheres(xrdf, where)
    description = RobotDescription(
        format=1,
        name=name,
        kind="arm",
        urdf=urdf,
        frames=FramesDescription(base=tree.root, tool=tool),
        groups=groups,
        limits=LimitsDescription(
            dict(zip(xrdf.cspace.joint_names, xrdf.cspace.acceleration_limits, strict=False)),
            dict(zip(xrdf.cspace.joint_names, xrdf.cspace.jerk_limits, strict=False)),
        ),
        named_states={"home": _home(xrdf, tree, where, names)},
        drives=guessed_drives(tree),
        collision=CollisionDescription(
            spheres=SPHERES_FILE if spheres else None, ignore=_ignored(xrdf, tree, spheres, where)
        ),
        sources=_sources(xrdf, tree, where),
    )
    return DescribedRobot(description, spheres)


def xrdf_of(
    robot: Robot, never_checked: Collection[tuple[str, str]], group: str | None = None
) -> Xrdf:
    """Return a robot as XRDF.

    Args:
        robot: the robot; joints outside the group are fixed at ``home``.
        never_checked: pairs of links excluded from collision checks.
        group: planning group; None: the first that is a chain.

    Raises:
        UnknownGroup: lists the groups.
        InvalidDescription: no group has base and tip.
    """
    chosen = _main_group(robot) if group is None else robot.group(group)
    limits = chosen.limits
    spheres = f"{robot.name}_spheres"
    ignore: dict[str, tuple[str, ...]] = {}
    for a, b in sorted(never_checked):
        ignore[a] = (*ignore.get(a, ()), b)
    tools = dict.fromkeys(name for name in (chosen.tip, robot.tool_frame) if name is not None)
    base = Modifier(set_base_frame=robot.base_frame)
    entries = {
        link: tuple(SphereEntry(sphere[:3], sphere[3]) for sphere in items)
        for link, items in robot.spheres.items()
    }
    return Xrdf(
        cspace=CSpace(
            chosen.joints, _finite(limits.acceleration.tolist()), _finite(limits.jerk.tolist())
        ),
        modifiers=() if robot.base_frame == robot.tree.root else (base,),
        default_joint_positions=dict(zip(robot.joint_names, robot.home.tolist(), strict=True)),
        tool_frames=tuple(tools),
        world_collision=WorldCollision(spheres) if entries else None,
        self_collision=XrdfSelfCollision(spheres, ignore=ignore) if entries else None,
        geometry={spheres: GeometryGroup(entries)} if entries else {},
    )


def _finite(values: list[float]) -> tuple[float, ...]:
    """Return limits, or an empty tuple if any is missing."""
    return tuple(values) if all(map(math.isfinite, values)) else ()


def _main_group(robot: Robot) -> Group:
    found = next((group for group in robot.groups.values() if group.tip is not None), None)
    if found is None:
        raise InvalidDescription(
            f"{robot.name} has no group with base and tip; only arms can be written as XRDF, Lula "
            "or cuRobo files."
        )
    return found


def _check_names(xrdf: Xrdf, tree: KinematicTree, where: str, names: FieldNames) -> None:
    """Reject unknown joints and links."""
    for name in xrdf.cspace.joint_names:
        if name not in tree.joint_names:
            why = "is not a joint of the URDF that can be moved by itself"
            hint = did_you_mean(name, tree.joint_names)
            raise InvalidDescription(f"{where}: {names.joints}: '{name}' {why}.{hint}")
    links: list[tuple[str, Iterable[str]]] = [(names.tools, xrdf.tool_frames)]
    for name, group in xrdf.geometry.items():
        links.append(
            (names.geometry + (f".{name}" if len(xrdf.geometry) > 1 else ""), group.spheres)
        )
    for path, given in links:
        for link in given:
            if link not in tree.links:
                hint = did_you_mean(link, tree.frame_names)
                raise InvalidDescription(
                    f"{where}: {path}: '{link}' is not a link of the URDF.{hint}"
                )


def _home(xrdf: Xrdf, tree: KinematicTree, where: str, names: FieldNames) -> dict[str, float]:
    """Return the default positions of all joints [rad or m]."""
    home = {}
    for name, value in xrdf.default_joint_positions.items():
        path = f"{where}: {names.home}: {name}"
        joint = tree.joints.get(name)
        if joint is None:
            hint = did_you_mean(name, tree.joint_names)
            raise InvalidDescription(f"{path} is not a joint.{hint}")
        if name not in tree.joint_names:
            why = "is fixed" if joint.mimic is None else f"mimics {joint.mimic.joint}"
            _LOG.warning("%s has no effect: the joint %s", path, why)
            continue
        inside = min(max(value, joint.lower), joint.upper)
        if not abs(value - inside) <= LIMIT_ROUNDING:
            raise InvalidDescription(
                f"{path} is {value:g}; the URDF allows {joint.lower:g} to {joint.upper:g}."
            )
        home[name] = inside
    return home


def _groups(
    tools: tuple[str, ...], tree: KinematicTree, joints: tuple[str, ...], where: str
) -> tuple[dict[str, GroupDescription], str | None]:
    """Return the derived groups and the tool frame."""
    groups: dict[str, GroupDescription] = {}
    if not joints:
        return groups, tools[0] if tools else None
    ends = tools or (tree.joints[joints[-1]].child,)
    chains = {tool: _variables(tree, tool, where) for tool in ends}
    whole = next((tool for tool, chain in chains.items() if chain == joints), None)
    if whole is not None:
        groups["arm"] = GroupDescription(joints, tree.root, whole)
    else:
        groups["arm"] = GroupDescription(joints)
        for tool, chain in chains.items():
            if (
                chain
                and set(chain) < set(joints)
                and chain not in [g.joints for g in groups.values()]
            ):
                groups[f"{tool}_arm"] = GroupDescription(chain, tree.root, tool)
    others = tuple(name for name in tree.joint_names if name not in joints)
    if others:
        last = tree.joints[joints[-1]].child
        below = all(_is_below(tree, tree.joints[name].child, last) for name in others)
        groups["gripper" if below and whole is not None else "others"] = GroupDescription(others)
    return groups, whole or (tools[0] if tools else None)


def _variables(tree: KinematicTree, tool: str, where: str) -> tuple[str, ...]:
    """Return the actuated joints from the root to a tool; none if its pose needs others."""
    try:
        return tree.variables(tree.root, tool)
    except InvalidDescription as error:
        _LOG.warning("%s: tool_frames: '%s' has no group: %s", *(where, tool, error))
        return ()


def _last_link(tree: KinematicTree, tool: str, joints: tuple[str, ...], where: str) -> str:
    """Return the tool frame; if movable joints outside the c-space end its chain, the link above.

    The chain of a group contains only joints of the group and their mimic joints.
    """
    way = tree.path(tree.root, tool)
    own = {joint.name for joint in way} & set(joints)
    for joint in reversed(way):
        if joint.law.joint in own:
            break
        if joint.movable and own:
            why = f"'{joint.name}', which is not in the c-space"
            if joint.mimic is not None:
                why = (
                    f"'{joint.name}', which mimics '{joint.mimic.joint}'; that one is not a joint "
                    "of the c-space above it"
                )
            _LOG.warning(
                "%s: tool_frames: '%s' moves with joint %s; the tool frame is '%s'",
                *(where, tool, why, joint.parent),
            )
            tool = joint.parent
    return tool


def _sources(xrdf: Xrdf, tree: KinematicTree, where: str) -> dict[str, str]:
    """Return the sources of the numbers."""
    sources = {}
    if xrdf.cspace.acceleration_limits or xrdf.cspace.jerk_limits:
        sources["limits"] = where
    if tree.joint_names:
        sources["drives"] = SOURCE
    return sources


def _is_below(tree: KinematicTree, link: str, above: str) -> bool:
    while link != above and link in tree.parent_joint:
        link = tree.parent_joint[link].parent
    return link == above


def _spheres(xrdf: Xrdf, where: str) -> Spheres:
    """Return the spheres for collision checks."""
    found: Spheres = {}
    world, own = xrdf.world_collision, xrdf.self_collision
    if world is not None:
        for link, spheres in xrdf.spheres(world.geometry).items():
            buffer = world.buffer_distance.get(link, 0.0)
            found[link] = tuple((x, y, z, radius + buffer) for x, y, z, radius in spheres)
    if own is not None:
        if any(own.buffer_distance.values()):
            _LOG.warning(
                "%s: self_collision.buffer_distance has no effect: the same spheres are used for "
                "the world and for self-collision",
                where,
            )
        more = {k: v for k, v in xrdf.spheres(own.geometry).items() if k not in found}
        if more and world is not None:
            _LOG.warning(
                "%s: %s has spheres for self-collision only; it is checked against the world, too",
                *(where, ", ".join(more)),
            )
        found |= more
    return {link: spheres for link, spheres in found.items() if spheres}


def _ignored(
    xrdf: Xrdf, tree: KinematicTree, spheres: Spheres, where: str
) -> tuple[tuple[str, str], ...]:
    """Return the pairs of links excluded from collision checks."""
    if xrdf.self_collision is None:
        bodies = [n for n in tree.frame_names if n in spheres or tree.links[n].collisions]
        if len(bodies) > 1:
            _LOG.warning("%s: no section self_collision: no self-collision checks", where)
        return tuple(itertools.combinations(bodies, 2))
    pairs = xrdf.ignored_pairs()
    strangers = sorted({link for pair in pairs for link in pair} - set(tree.links))
    if strangers:
        _LOG.warning(
            "%s: self_collision.ignore names links that the URDF does not have: %s",
            *(where, ", ".join(strangers)),
        )
    return tuple(pair for pair in pairs if not set(pair) & set(strangers))
