# SPDX-License-Identifier: Apache-2.0
"""URDF of a group of joints."""

from __future__ import annotations

import copy
from collections.abc import Collection

from lxml import etree  # type: ignore[import-untyped]

from motion_nodes.model.tree import KinematicTree
from motion_nodes.model.urdf.robot_xml import robot_root


def group_urdf(
    urdf: str, tree: KinematicTree, name: str, joints: Collection[str], ends: Collection[str]
) -> str:
    """Return a URDF of the links of a group and the joints between them.

    Args:
        urdf: text of the robot's URDF.
        tree: kinematic tree of the robot.
        name: name of the group, used as name of the robot.
        joints: joints of the group; their mimic joints are included.
        ends: further links of the group, such as base and tip of a chain.
    """
    links = group_links(tree, joints, ends)
    root = robot_root(urdf, name)
    part = etree.Element("robot", name=name)
    for element in root:
        if element.tag == "link":
            kept = element.get("name") in links
        elif element.tag == "joint":
            joint = tree.joints.get(element.get("name"))
            kept = joint is not None and {joint.parent, joint.child} <= links
        else:
            kept = element.tag == "material"
        if kept:
            part.append(copy.deepcopy(element))
    return str(etree.tostring(part, encoding="unicode"))


def group_links(tree: KinematicTree, joints: Collection[str], further: Collection[str]) -> set[str]:
    """Return the links of a group: those of its joints, further ones, and all between them.

    Args:
        tree: kinematic tree of the robot.
        joints: joints of the group; their mimic joints are included.
        further: further links.
    """
    moved = [
        joint
        for joint in tree.joints.values()
        if joint.name in joints or (joint.mimic is not None and joint.mimic.joint in joints)
    ]
    ends = {link for joint in moved for link in (joint.parent, joint.child)}.union(further)
    paths = [[tree.root, *(j.child for j in tree.path(tree.root, end))] for end in ends]
    shared = 0
    while all(len(path) > shared and path[shared] == paths[0][shared] for path in paths):
        shared += 1
    return {link for path in paths for link in path[shared - 1 :]}
