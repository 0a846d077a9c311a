# SPDX-License-Identifier: Apache-2.0
"""Conversion between XRDF with URDF and the content of a robot.yaml."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from motion_nodes.errors import InvalidDescription, did_you_mean
from motion_nodes.model import default_drives
from motion_nodes.model.files.xrdf_schema import (
    CSpace,
    FieldNames,
    GeometryGroup,
    Modifier,
    SphereEntry,
    Spheres,
    WorldCollision,
    Xrdf,
    XrdfSelfCollision,
)
from motion_nodes.model.limits import LIMIT_ROUNDING
from motion_nodes.model.robot import Group, Robot
from motion_nodes.model.robot_yaml import (
    CollisionDescription,
    FramesDescription,
    GroupDescription,
    LimitsDescription,
    RobotDescription,
)
from motion_nodes.model.tree import KinematicTree

_LOG = logging.getLogger(__name__)

SPHERES_FILE = "spheres.yaml"


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
        drives=default_drives.guessed_drives(tree),
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
            chosen.joints,
            _finite(limits.acceleration.tolist()),
            _finite(limits.jerk.tolist()),
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
        sources["drives"] = default_drives.SOURCE
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
            _LOG.warning(
                "%s: no section self_collision: no self-collision checks",
                where,
            )
        return tuple(itertools.combinations(bodies, 2))
    pairs = xrdf.ignored_pairs()
    strangers = sorted({link for pair in pairs for link in pair} - set(tree.links))
    if strangers:
        _LOG.warning(
            "%s: self_collision.ignore names links that the URDF does not have: %s",
            *(where, ", ".join(strangers)),
        )
    return tuple(pair for pair in pairs if not set(pair) & set(strangers))
