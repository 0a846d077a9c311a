# SPDX-License-Identifier: Apache-2.0
"""Links that may touch an object attached to a link: MoveIt's ``touch_links``."""

from __future__ import annotations

from collections.abc import Iterable

from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import KinematicTree


def touch_links(robot: Robot, link: str) -> frozenset[str]:
    """Return the links with which an object attached to a link may collide.

    For a link of a gripper these are the links of the gripper: its fingers, the link that carries
    them, and what is fixed to the fingers. For other links, such as the flange of an arm without a
    gripper, those that no joint moves relative to the link.

    Args:
        robot: the robot.
        link: the link that carries the object.

    Raises:
        UnknownFrame: there is no such link.
    """
    robot.tree.link(link)
    rigid = _fixed_to(robot.tree, (link,))
    for group in robot.groups.values():
        if group.tips or set(group.joints) & set(robot.base_joints):
            continue
        joints = [
            joint
            for joint in robot.tree.joints.values()
            if joint.name in group.joints
            or (joint.mimic is not None and joint.mimic.joint in group.joints)
        ]
        fingers = _fixed_below(robot.tree, [joint.child for joint in joints])
        palms = {joint.parent for joint in joints}
        if link in fingers or rigid & palms:
            return fingers | palms | {link}
    return rigid


def _fixed_to(tree: KinematicTree, links: Iterable[str]) -> frozenset[str]:
    """Return links, and all that are fixed to them."""
    found = set(links)
    while True:
        more = {
            end
            for joint in tree.joints.values()
            if not joint.movable and found & {joint.parent, joint.child}
            for end in (joint.parent, joint.child)
        } - found
        if not more:
            return frozenset(found)
        found |= more


def _fixed_below(tree: KinematicTree, links: Iterable[str]) -> frozenset[str]:
    """Return links, and those below that are fixed to them."""
    found = set(links)
    # Parents precede their children in the order of the tree.
    for name in tree.frame_names:
        joint = tree.parent_joint.get(name)
        if joint is not None and not joint.movable and joint.parent in found:
            found.add(name)
    return frozenset(found)
