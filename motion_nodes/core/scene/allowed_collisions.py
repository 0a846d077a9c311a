# SPDX-License-Identifier: Apache-2.0
"""Allowed collision matrix: pairs of links and objects that are not checked.

Links that may touch an object attached to a link: MoveIt's ``touch_links``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

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


Pair = tuple[str, str]


def pair_of(a: str, b: str) -> Pair:
    """Return two names as an unordered pair."""
    return (a, b) if a <= b else (b, a)


@dataclass(frozen=True)
class AllowedCollisions:
    """Allowed collisions, by names of links, objects and attached bodies; immutable.

    Lookup order: explicit pair entry; then per-name defaults (both must allow if both exist);
    otherwise the pair is checked.
    """

    pairs: Mapping[Pair, bool] = field(default_factory=lambda: MappingProxyType({}))
    """True for a pair whose collision is allowed, False for one that is checked although a name's
    default allows it; keys from :func:`pair_of`."""
    defaults: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))
    """Default per name, for all pairs that contain it."""

    def allows(self, a: str, b: str) -> bool:
        """Return whether a collision is allowed."""
        allowed = self.pairs.get(pair_of(a, b))
        if allowed is not None:
            return allowed
        defaults = [self.defaults[name] for name in (a, b) if name in self.defaults]
        return bool(defaults) and all(defaults)

    def with_pairs(self, pairs: Iterable[Pair], allowed: bool | None = True) -> AllowedCollisions:
        """Return a copy with other entries of pairs; None removes the entry."""
        changed = dict(self.pairs)
        for a, b in pairs:
            if allowed is None:
                changed.pop(pair_of(a, b), None)
            else:
                changed[pair_of(a, b)] = allowed
        return AllowedCollisions(MappingProxyType(changed), self.defaults)

    def with_default(self, name: str, allowed: bool | None) -> AllowedCollisions:
        """Return a copy with another default of a name; None removes it."""
        changed = dict(self.defaults)
        if allowed is None:
            changed.pop(name, None)
        else:
            changed[name] = allowed
        return AllowedCollisions(self.pairs, MappingProxyType(changed))
