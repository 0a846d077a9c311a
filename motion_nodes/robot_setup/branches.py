# SPDX-License-Identifier: Apache-2.0
"""The moving joints of a robot as a tree, and the classification of its branches."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from motion_nodes.model.tree import Joint, JointKind, KinematicTree

_FINGER = re.compile(r"finger|grip|thumb|knuckle|jaw|claw|palm|pinch|hand_(?!e)", re.IGNORECASE)
_DIGIT = re.compile(r"(?<![a-z])(index|middle|ring|pinky|little)(?![a-z])", re.IGNORECASE)
"""Finger names that are also common words."""
_TURNED = re.compile(r"wrist|yaw|pitch|roll(?![a-z])", re.IGNORECASE)
_PART = re.compile(r"finger|thumb|knuckle|jaw|claw|pinch", re.IGNORECASE)
"""A wrist's joint may be named after the gripper or hand that it turns; parts of a hand may not."""
_DIGITS = 2
"""Min number of joints with such names on one link."""
_LONGEST_FINGER = 5
_CONTINUED = 3
"""Min number of driven joints of the chain parallel to a linkage."""


def is_named_finger(joint: Joint) -> bool:
    """Return whether the name of a joint or its child suggests a part of a hand."""
    return _is_part(joint) or bool(_DIGIT.search(f"{joint.name} {joint.child}"))


def is_finger(name: str) -> bool:
    """Return whether a link is named like a moving part of a hand: not palm, hand or gripper."""
    return bool(_PART.search(name) or _DIGIT.search(name))


def _is_part(joint: Joint) -> bool:
    text = f"{joint.name} {joint.child}"
    if _TURNED.search(joint.name) and not _PART.search(text):
        return False
    return bool(_FINGER.search(text))


class Branches:
    """The moving joints with their children, without parallel linkages."""

    def __init__(self, tree: KinematicTree, left_out: Collection[str]) -> None:
        """Create the branches.

        Args:
            tree: the robot.
            left_out: joints to ignore.
        """
        self.tree = tree
        movable = [
            joint
            for link in tree.frame_names[1:]
            if (joint := tree.parent_joint[link]).movable and joint.name not in left_out
        ]
        kept = {joint.name for joint in movable}
        self.below: dict[str | None, list[Joint]] = {None: []}
        for joint in movable:
            self.below[joint.name] = []
        for joint in movable:
            above = tree.parent_joint.get(joint.parent)
            while above is not None and above.name not in kept:
                above = tree.parent_joint.get(above.parent)
            self.below[above.name if above else None].append(joint)
        for name, joints in self.below.items():
            self.below[name] = [joint for joint in joints if not self._is_linkage(joint, joints)]

    def all_below(self, joints: Iterable[Joint]) -> list[Joint]:
        """Return joints and all their descendants."""
        found = []
        for joint in joints:
            found += [joint, *self.all_below(self.below[joint.name])]
        return found

    def hand(self, joints: Sequence[Joint]) -> list[Joint]:
        """Return the siblings among joints that are first joints of parts of a hand."""
        digits = [j for j in joints if _DIGIT.search(f"{j.name} {j.child}")]
        digits = digits if len(digits) >= _DIGITS else []
        several = len(joints) > 1
        return [
            joint
            for joint in joints
            if self.is_hand(joint, several)
            or (joint in digits and self._depth(joint) <= _LONGEST_FINGER)
        ]

    def is_hand(self, joint: Joint, several: bool) -> bool:
        """Return whether a joint and all its descendants are (part of) a hand.

        Args:
            joint: the joint.
            several: whether it has siblings.
        """
        below = self.all_below([joint])
        if not several and self._continues(below):
            return False
        if len(below) > 1 and not several and not _FINGER.search(joint.name):
            # The wrist that carries the body of a gripper, which has the gripper's name.
            return False
        if any(not _is_part(j) and j.mimic is None for j in below):
            # Independent of names: parallel prismatic or mimic joints.
            small = all(j.mimic is not None or j.kind is JointKind.PRISMATIC for j in below)
            return several and small and len(below) <= 3 and self._ends_something(joint)
        # An arm may be attached to a "gripper_base"; a long chain is not a hand.
        return self._depth(joint) <= _LONGEST_FINGER

    def _continues(self, joints: Sequence[Joint]) -> bool:
        """Return whether the last joints of a chain mimic joints above them, as a leveled wrist."""
        return all(
            joint.mimic is not None
            and not is_named_finger(joint)
            and joint.mimic.joint in {j.name for j in self.tree.path(self.tree.root, joint.parent)}
            for joint in joints
        )

    def _ends_something(self, joint: Joint) -> bool:
        """Return whether a joint is at the end of a chain, or of a gripper without an arm."""
        if joint.parent != self.tree.root:
            return True
        every = self.all_below(self.below[None])
        return len(every) <= 3 and all(
            j.mimic is not None or j.kind is JointKind.PRISMATIC for j in every
        )

    def _depth(self, joint: Joint) -> int:
        """Return the number of joints from a joint to its first leaf."""
        depth = 1
        while self.below[joint.name]:
            joint = self.below[joint.name][0]
            depth += 1
        return depth

    def _is_linkage(self, joint: Joint, siblings: Sequence[Joint]) -> bool:
        """Return whether a joint has only mimic descendants, parallel to a longer chain.

        Rods of a parallelogram linkage branch the tree, but do not branch the arm.
        """
        below = self.all_below([joint])
        if any(j.mimic is None or _is_part(j) for j in below):
            return False
        longest = max(sum(j.mimic is None for j in self.all_below([s])) for s in siblings)
        return longest >= _CONTINUED
