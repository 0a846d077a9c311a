# SPDX-License-Identifier: Apache-2.0
"""Joint groups derived from a tree: chains become arms, hands at their ends become grippers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.tree import Joint, JointKind, KinematicTree
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.robot_setup.notes import Confidence, Notes, Question, listed

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
_CERTAIN = 3
"""Number of patterns for tool centre points; the other patterns also match parts."""
_HAND = 5
"""Rank of the pattern for the body of a hand, to which fingers are attached."""
_SENSOR = re.compile(
    r"camera|optical|imu|sensor|lidar|laser|depth|stereo|led_|radar|realsense|livox|zed_|touch|"
    r"fsr|gyro|accelero",
    re.IGNORECASE,
)
"""Names of frames that are not tools."""
_FINGER_RANGE = np.pi
"""Max range of a finger's joint [rad]."""
_ARM = 3
"""Min number of joints of an arm that is named like a finger."""
_NOT_IN_NAMES = {"joint", "link", "motor", "servo", "fwd", "axis"}
_SIDES = {"l", "r", "f", "b", "h"}
"""Left, right, front, back, hind: the single letters that are kept in names."""
_LEFT_RIGHT = {"l", "r", "left", "right"}
_PARTS = {"arm": {"shoulder", "elbow"}, "leg": {"hip", "knee"}}
"""Words in the names of joints by part of a body, for chains named by their side alone."""


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


def _is_wide(joint: Joint) -> bool:
    """Return whether a joint turns further than a finger does."""
    return joint.kind is not JointKind.PRISMATIC and joint.upper - joint.lower > _FINGER_RANGE


def _is_next(name: str, other: str) -> bool:
    """Return whether two names differ by one number only, which is greater by one."""
    numbers, others = (re.findall(r"\d+", text) for text in (name, other))
    alike = re.sub(r"\d+", "#", name) == re.sub(r"\d+", "#", other)
    changed = [(int(a), int(b)) for a, b in zip(numbers, others, strict=False) if a != b]
    return alike and len(changed) == 1 and changed[0][1] == changed[0][0] + 1


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
        found = [
            joint
            for joint in joints
            if self.is_hand(joint, several)
            or (joint in digits and self._depth(joint) <= _LONGEST_FINGER)
        ]
        return [j for j in joints if j in found or (found and self._belongs(j, found))]

    def _belongs(self, joint: Joint, hand: Sequence[Joint]) -> bool:
        """Return whether a sibling of parts of a hand moves another one, or ends as a finger."""
        below = self.all_below([joint])
        if len(below) > _LONGEST_FINGER:
            return False
        moved = [j for j in self.all_below(hand) if j.mimic and j.mimic.joint == joint.name]
        follows = all(j is joint or j.mimic is not None for j in below)
        beside = any(is_named_finger(j) for j in hand) and self._depth(joint) == len(below)
        return bool(moved and follows) or (beside and is_finger(below[-1].child))

    def following(self, joint: Joint) -> Joint | None:
        """Return the joint that continues a chain: the only one below, or the next by number.

        The latter beside short chains only, as of a head that is mounted on the first link of an
        arm: ``right_j0`` carries ``head_pan`` and ``right_j1``.
        """
        below = self.below[joint.name]
        following = below[0] if len(below) == 1 else None
        if len(below) > 1:
            numbered = [other for other in below if _is_next(joint.name, other.name)]
            others = [other for other in below if other not in numbered]
            if len(numbered) == 1 and all(len(self.all_below([j])) < _ARM for j in others):
                following = numbered[0]
        return None if following is None or self.is_hand(following, False) else following

    def is_hand(self, joint: Joint, several: bool) -> bool:
        """Return whether a joint and all its descendants are (part of) a hand.

        Args:
            joint: the joint.
            several: whether it has siblings.
        """
        below = self.all_below([joint])
        if not several and self._continues(below):
            return False
        wrist = len(below) > 1 or (_is_wide(joint) and not is_finger(joint.child))
        if wrist and not several and not _FINGER.search(joint.name):
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


_TIPS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        *(r"tcp|tool_?center|pinch", r"grasp", r"^(.*_)?tool0?$|_tool(_link)?$"),
        *(
            r"end_?effector|(^|_)end_?link$|^ee_(?![xyz]$)|_ee(_|$)",
            r"flange|(^|_)tips?(_|$)|tool|attachment",
            r"hand|gripper|palm",
            r"wrist|foot|sole(?![a-z])",
            r"(^|_)toes?|_contact$",
        ),
    )
]
"""Names of frames at the end of an arm or a leg, in order of preference."""


@dataclass
class GroupGuess:
    """A group for robot.yaml."""

    name: str
    joints: tuple[str, ...]
    base: str | None = None
    tip: str | None = None
    aliases: tuple[str, ...] = ()
    reason: str = ""
    """Evidence for the tip."""
    confidence: Confidence = "high"


@dataclass
class Groups:
    """All groups, and the main one."""

    groups: list[GroupGuess] = field(default_factory=list)
    main: GroupGuess | None = None
    """The longest chain; its tip is the robot's tool."""
    grippers: list[GroupGuess] = field(default_factory=list)


def guess_groups(
    tree: KinematicTree, left_out: Collection[str], findings: Notes, base: str | None = None
) -> Groups:
    """Return groups of the joints of a robot.

    Consecutive joints between branchings form a chain. Joints at the end of a chain form a gripper
    if they have names of fingers, mimic each other, or slide in parallel.

    Args:
        tree: the robot.
        left_out: joints that belong to the mobile base.
        findings: notes are added; asked about uncertain tips and hands.
        base: the robot's base frame, at which chains begin if possible; default: the root.
    """
    branches = Branches(tree, left_out)
    chains: list[list[Joint]] = []
    hands: list[list[Joint]] = []
    _split(branches, branches.below[None], chains, hands)
    moving = [joint for joints in (*chains, *hands) for joint in joints]
    if _is_lone_hand(moving):
        chains, hands = [], [moving]
    elif not chains and _is_serial(branches, moving):
        chains, hands = [moving], []
    chains, hands = _confirmed(tree, chains, hands, findings)
    result = Groups()
    # Mimic joints may be anywhere in a chain, also at its end.
    chains = [chain for chain in chains if any(joint.mimic is None for joint in chain)]
    actuated = [[j for j in chain if j.mimic is None] for chain in chains]
    longest = max(actuated, key=len, default=None)
    many = sum(len(chain) > 2 for chain in actuated) > 1
    longer = sum(len(chain) == len(longest or ()) for chain in actuated) == 1
    found = [_name(chain, f"chain_{k + 1}") for k, chain in enumerate(actuated)]
    both_sides = sum(name in _LEFT_RIGHT for name in found) > 1
    for k, chain in enumerate(actuated):
        name = found[k]
        if chain is longest and longer and not (both_sides and name in _LEFT_RIGHT):
            name = _name(chain, "arm") if many else "arm"
        palms = {_palm(tree, joint.parent) for hand in hands for joint in hand}
        unique = _unique(name, result.groups)
        group = _chain(tree, unique, chains[k], base or tree.root, palms, findings)
        result.groups.append(group)
        if chain is longest:
            result.main = group
            group.aliases = tuple(a for a in ("arm", "manipulator") if a != name)
    hands = [hand for hand in hands if any(joint.mimic is None for joint in hand)]
    # A sliding joint at the end of a chain may be a bellows, unless it has the name of a finger.
    named = [hand for hand in hands if any(map(is_named_finger, hand))]
    only = (named or hands)[0] if len(named or hands) == 1 else None
    for hand in hands:
        joints = tuple(joint.name for joint in hand if joint.mimic is None)
        name = "gripper" if hand is only else _name(hand, "gripper")
        if any(group.name == name for group in result.groups):
            name = f"{name}_hand"
        group = GroupGuess(_unique(name, result.groups), joints)
        group.reason, group.confidence = _hand_evidence(hand)
        result.groups.append(group)
        result.grippers.append(group)
    # The first group is the default group.
    result.groups.sort(key=lambda group: group is not result.main)
    names = {alias for group in result.groups for alias in group.aliases}
    taken = {group.name for group in result.groups}
    if result.main is not None and names & taken:
        result.main.aliases = tuple(a for a in result.main.aliases if a not in taken)
    for group in result.groups:
        ends = f", {group.base} to {group.tip}" if group.tip else ""
        text = f"{listed(group.joints, 8)}{ends}" + (f"; {group.reason}" if group.reason else "")
        findings.add("guessed", f"groups.{group.name}", text, group.confidence)
    return result


def _split(
    branches: Branches,
    joints: Sequence[Joint],
    chains: list[list[Joint]],
    hands: list[list[Joint]],
    continued: Joint | None = None,
) -> None:
    """Divide joints with a common parent into chains and hands; one of them may be in a chain."""
    fingers = [joint for joint in branches.hand(joints) if joint is not continued]
    if fingers:
        hands.append(branches.all_below(fingers))
    for joint in joints:
        if joint in fingers or joint is continued:
            continue
        chain = [joint]
        while (following := branches.following(chain[-1])) is not None:
            chain.append(following)
        chains.append(chain)
        for above, following in itertools.zip_longest(chain, chain[1:]):
            _split(branches, branches.below[above.name], chains, hands, following)


def _palm(tree: KinematicTree, link: str) -> str:
    """Return the body to which a finger is attached, directly or by parts of fingers."""
    above = tree.parent_joint.get(link)
    return link if above is None or not is_finger(link) else _palm(tree, above.parent)


def _is_lone_hand(moving: Sequence[Joint]) -> bool:
    """Return whether the robot has one driven joint, and otherwise only joints that mimic it."""
    driven = [joint.name for joint in moving if joint.mimic is None]
    leaders = {joint.mimic.joint for joint in moving if joint.mimic is not None}
    return len(driven) == 1 and leaders == set(driven)


def _is_serial(branches: Branches, moving: Sequence[Joint]) -> bool:
    """Return whether the robot is one chain of driven joints, and long enough for an arm."""
    driven = all(joint.mimic is None for joint in moving)
    return driven and len(moving) >= _ARM and max(map(len, branches.below.values())) == 1


def _confirmed(
    tree: KinematicTree, chains: list[list[Joint]], hands: list[list[Joint]], findings: Notes
) -> tuple[list[list[Joint]], list[list[Joint]]]:
    """Return chains and hands; hands that the user declares to be arms become chains."""
    kept = []
    for hand in hands:
        reason, confidence = _hand_evidence(hand)
        joints = listed((joint.name for joint in hand), 8)
        question = Question(
            "groups", f"Do the joints {joints} belong to a gripper or to an arm?",
            ("gripper", "arm"), "gripper", confidence, reason,
        )  # fmt: skip
        if findings.answer(question) == "gripper":
            kept.append(hand)
            continue
        above = next((chain for chain in chains if _carries(tree, chain[-1], hand[0])), None)
        if above is not None and len({joint.parent for joint in hand}) == len(hand):
            above += hand
        else:
            chains = [*chains, hand]
    return chains, kept


def _carries(tree: KinematicTree, joint: Joint, other: Joint) -> bool:
    """Return whether there is no moving joint between a joint and its descendant."""
    return joint.child == other.parent or _moving(tree, joint.child, other.child) == (other.name,)


def _hand_evidence(hand: Sequence[Joint]) -> tuple[str, Confidence]:
    """Return the evidence that joints form a hand, and its confidence."""
    named = sum(is_named_finger(joint) for joint in hand)
    if named == len(hand):
        return "named like parts of a hand", "high"
    if named:
        return f"{named} of {len(hand)} joints are named like parts of a hand", "medium"
    return "they mimic or slide beside each other at the end of a chain", "medium"


def _chain(
    tree: KinematicTree,
    name: str,
    chain: Sequence[Joint],
    start: str,
    palms: Collection[str],
    findings: Notes,
) -> GroupGuess:
    base = chain[0].parent
    question = _tip_question(tree, name, chain[-1].child, palms)
    tip = findings.answer(question)
    if start in tree.frame_names and _moving(tree, start, tip) == _moving(tree, base, tip):
        base = start
    joints = tuple(joint.name for joint in chain if joint.mimic is None)
    try:
        own = tree.variables(base, tip)
    except InvalidDescription as error:
        return GroupGuess(name, joints, reason=f"no base and tip: {error}", confidence="low")
    if own != joints:
        why = f"no base and tip: {listed(own)} are between {base} and {tip}"
        return GroupGuess(name, joints, reason=why, confidence="low")
    if tip != question.guess:
        return GroupGuess(name, joints, base, tip, reason="the tip was chosen")
    return GroupGuess(
        name, joints, base, tip, reason=question.reason, confidence=question.confidence
    )


def _moving(tree: KinematicTree, base: str, tip: str) -> tuple[str, ...]:
    """Return the moving joints between two links; none if the tip is not below the base."""
    joints, link = [], tip
    while link != base:
        joint = tree.parent_joint.get(link)
        if joint is None:
            return ()
        joints += [joint.name] if joint.movable else []
        link = joint.parent
    return tuple(reversed(joints))


def _tip_question(tree: KinematicTree, group: str, link: str, palms: Collection[str]) -> Question:
    """Return the question for the tool frame at the end of a chain, with the most likely answer.

    Links that carry fingers (``palms``) are as likely as those with the name of a hand; fingers are
    no answers where there is anything else.
    """
    found = [link]
    for name in tree.frame_names:
        joint = tree.parent_joint.get(name)
        fixed = joint is not None and not joint.movable and joint.parent in found
        if fixed and not _SENSOR.search(name):
            found.append(name)

    def question(guess: str, confidence: Confidence, reason: str) -> Question:
        return Question(
            f"groups.{group}.tip", f"Which frame is the tool frame of {group}?", tuple(found),
            guess, confidence if len(found) > 1 else "high", reason,
        )  # fmt: skip

    likely = [name for name in found if not is_finger(name)] or found
    for rank, pattern in enumerate(_TIPS):
        fitting = [name for name in likely if pattern.search(name)]
        if rank == _HAND:
            # The link of a wrist's joint may be named after the gripper that it turns.
            fitting = [
                name for name in likely if name in palms or (name in fitting and not _turned(name))
            ]
        # A frame without a body is preferred to a part with a matching name.
        frames = [name for name in fitting if _is_frame(tree, name)]
        if fitting:
            sure = rank < _CERTAIN and len(frames or fitting) == 1
            what = "a tool centre point" if rank < _CERTAIN else "the end of a chain"
            text = f"the tip is named like {what}"
            return question((frames or fitting)[-1], "high" if sure else "medium", text)
    flanges = [name for name in likely if _is_frame(tree, name)]
    # A trunk that carries arms has no tool; its frames belong to sensors.
    carries = any(joint.movable and joint.parent in found for joint in tree.joints.values())
    if flanges and not carries:
        alone: Confidence = "medium" if len(flanges) == 1 else "low"
        return question(flanges[-1], alone, "the tip is the last frame without a body")
    attached = [name for name in likely if name != link]
    if len(attached) == 1 and not carries:
        return question(attached[0], "low", "the tip is the only part at the end")
    return question(link, "low", "the tip is the last moving link")


def _turned(link: str) -> bool:
    return not {"yaw", "pitch", "roll"}.isdisjoint(words_of(link))


def _is_frame(tree: KinematicTree, name: str) -> bool:
    """Return whether a link has no body, and nothing is attached to it."""
    link = tree.links[name]
    bare = link.inertial is None and not link.visuals and not link.collisions
    return bare and not any(joint.parent == name for joint in tree.joints.values())


def _name(joints: Sequence[Joint], default: str) -> str:
    """Return the words common to the names of joints."""
    words = [words_of(joint.name) for joint in joints]
    shared = [word for word in dict.fromkeys(words[0]) if all(word in other for other in words)]
    kept = [w for w in shared if w not in _NOT_IN_NAMES and (len(w) > 1 or w in _SIDES)]
    if len(kept) == 1 and kept[0] in _LEFT_RIGHT:
        parts = [part for part, own in _PARTS.items() if any(own.intersection(w) for w in words)]
        kept += parts or [default] * (default in ("arm", "gripper"))
    return "_".join(kept) or default


def words_of(name: str) -> list[str]:
    """Return the words of a name in lower case, without numbers."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return [word for word in re.split(r"[^a-z]+", spaced.lower()) if word]


def _unique(name: str, groups: Sequence[GroupGuess]) -> str:
    taken = {group.name for group in groups}
    return next(n for n in (name, *(f"{name}_{k}" for k in range(2, 999))) if n not in taken)


def open_and_close(
    tree: KinematicTree, group: GroupGuess
) -> tuple[dict[str, float], dict[str, float]] | None:
    """Return the joint positions [rad or m] of an open and a closed gripper.

    The gripper is open where the distance of the fingertips is greater.

    Returns:
        Open, closed; None if both ends of the joint ranges are equivalent.
    """
    columns = [tree.joint_names.index(name) for name in group.joints]
    moved = {link for name in group.joints for link in _driven(tree, name)}
    ends = [link for link in moved if not any(j.parent == link for j in tree.joints.values())]
    if len(ends) < 2:
        return None
    widths, limits = [], JointLimits.of_tree(tree)
    for end in (limits.lower, limits.upper):
        q = np.zeros(len(tree.joint_names))
        q[columns] = end[columns]
        if not np.isfinite(q).all():
            return None
        kinematics = Kinematics(tree, generic=True)
        poses = dict(zip(kinematics.frame_names, kinematics.frames(q), strict=True))
        places = np.array([poses[link][:3, 3] for link in ends])
        widths.append(float(np.linalg.norm(places - places.mean(axis=0), axis=1).mean()))
    if abs(widths[0] - widths[1]) < 1e-3:
        return None
    low = {name: float(limits.lower[k]) for name, k in zip(group.joints, columns, strict=True)}
    high = {name: float(limits.upper[k]) for name, k in zip(group.joints, columns, strict=True)}
    return (low, high) if widths[0] > widths[1] else (high, low)


def _driven(tree: KinematicTree, name: str) -> set[str]:
    """Return the links moved by a joint, directly or through mimic joints."""
    moved = {
        joint.child
        for joint in tree.joints.values()
        if joint.name == name or (joint.mimic and joint.mimic.joint == name)
    }
    for link in tree.frame_names:
        joint_above = tree.parent_joint.get(link)
        if joint_above is not None and joint_above.parent in moved:
            moved.add(link)
    return moved
