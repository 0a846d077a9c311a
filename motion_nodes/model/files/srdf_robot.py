# SPDX-License-Identifier: Apache-2.0
"""Conversion of SRDF and URDF to the content of a robot.yaml."""

from __future__ import annotations

import logging

from motion_nodes.errors import InvalidDescription
from motion_nodes.model import default_drives
from motion_nodes.model.files.srdf_file import Srdf, SrdfGroup
from motion_nodes.model.files.xrdf_robot import SPHERES_FILE, DescribedRobot
from motion_nodes.model.robot_yaml import (
    CollisionDescription,
    FramesDescription,
    GroupDescription,
    RobotDescription,
)
from motion_nodes.model.tree import KinematicTree

_LOG = logging.getLogger(__name__)


def describe_srdf(
    srdf: Srdf, tree: KinematicTree, *, name: str, urdf: str, where: str
) -> DescribedRobot:
    """Return the content of a robot.yaml.

    A group that consists of one other group becomes its alias. Virtual joints have no counterpart:
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
        drives=default_drives.guessed_drives(tree, passive),
        passive_joints=passive,
        collision=CollisionDescription(
            spheres=SPHERES_FILE if spheres else None,
            ignore=tuple((pair.link1, pair.link2) for pair in srdf.disabled),
        ),
        sources={"drives": default_drives.SOURCE},
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
    return {
        name: GroupDescription(group.joints, group.base, group.tip, aliases.get(name, ()))
        for name, group in found.items()
    }


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
