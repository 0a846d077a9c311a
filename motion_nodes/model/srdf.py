# SPDX-License-Identifier: Apache-2.0
"""A robot's semantics as SRDF, the form in which MoveIt's clients want groups and states.

Source: the SRDF specification (wiki.ros.org/srdf), elements group, group_state, end_effector,
passive_joint and disable_collisions.
"""

from __future__ import annotations

from collections.abc import Collection
from xml.etree import ElementTree as Xml

from motion_nodes.model.robot import Group, Robot


def srdf(robot: Robot, never_checked: Collection[tuple[str, str]]) -> str:
    """Return the SRDF of a robot.

    There is no virtual joint: the planning frame is the root link.

    Args:
        robot: its groups, also under their aliases, its states, and its passive joints are told.
        never_checked: pairs of links that are not checked for collision.
    """
    root = Xml.Element("robot", name=robot.tree.name)
    for group in robot.groups.values():
        _add_group(root, group)
    for group in robot.groups.values():
        _add_states(root, robot, group)
    for group in robot.groups.values():
        _add_end_effector(root, robot, group)
    for joint in robot.passive_joints:
        Xml.SubElement(root, "passive_joint", name=joint)
    for a, b in sorted(never_checked):
        reason = "Adjacent" if _adjacent(robot, a, b) else "Never"
        Xml.SubElement(root, "disable_collisions", link1=a, link2=b, reason=reason)
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_group(root: Xml.Element, group: Group) -> None:
    element = Xml.SubElement(root, "group", name=group.name)
    if group.base is not None and group.tip is not None:
        Xml.SubElement(element, "chain", base_link=group.base, tip_link=group.tip)
    else:
        for joint in group.joints:
            Xml.SubElement(element, "joint", name=joint)
    for alias in group.aliases:
        named = Xml.SubElement(root, "group", name=alias)
        Xml.SubElement(named, "group", name=group.name)


def _add_states(root: Xml.Element, robot: Robot, group: Group) -> None:
    for name, state in robot.states.items():
        if not set(state) & set(group.joints):
            continue
        element = Xml.SubElement(root, "group_state", name=name, group=group.name)
        values = robot.named_state(name, group.name)
        for joint, value in zip(group.joints, values.tolist(), strict=True):
            Xml.SubElement(element, "joint", name=joint, value=repr(value))


def _add_end_effector(root: Xml.Element, robot: Robot, group: Group) -> None:
    """Tell of a group that is no chain and hangs on one: a gripper on its arm."""
    if group.tip is not None:
        return
    ways = [robot.tree.path(robot.tree.root, robot.tree.joint(j).child) for j in group.joints]
    above = [joint.name for joint in ways[0] if all(joint in way for way in ways[1:])]
    for arm in robot.groups.values():
        last = arm.joints[-1]
        if arm.tip is not None and last in above:
            Xml.SubElement(
                root,
                "end_effector",
                name=f"{group.name}_end_effector",
                parent_link=robot.tree.joint(ways[0][above.index(last)].name).child,
                group=group.name,
                parent_group=arm.name,
            )
            return


def _adjacent(robot: Robot, a: str, b: str) -> bool:
    """Return whether a joint, or fixed ones on the way to it, joins two links directly."""
    for upper, lower in ((a, b), (b, a)):
        way = []
        joint = robot.tree.parent_joint.get(lower)
        while joint is not None:
            way.append(joint)
            if joint.parent == upper:
                return sum(j.movable for j in way) <= 1
            joint = robot.tree.parent_joint.get(joint.parent)
    return False
