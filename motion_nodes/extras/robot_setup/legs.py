# SPDX-License-Identifier: Apache-2.0
"""Limbs: the chains on which a body stands, a standing configuration, and pairs of arms."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import KinematicTree
from motion_nodes.core.scene.link_geometry import LinkGeometry
from motion_nodes.core.scene.robot_spheres import rigid_links
from motion_nodes.extras.robot_setup.groups import GroupGuess, Groups, is_finger, words_of
from motion_nodes.extras.robot_setup.notes import Confidence, Notes, Question, listed
from motion_nodes.extras.robot_setup.wheels import in_base, link_poses
from motion_nodes.typing import Array

_LOW = 0.1
"""Max height of the end of a leg above the lowest point, relative to the robot's height."""
_ABOVE = 0.25
"""Min height of the body above the lowest point, relative to the robot's height."""
_BENT = 0.85
"""Length of a standing leg, relative to the stretched leg."""
_SAMPLES = 4000
_LEG_WORDS = {"leg", "hip", "knee", "ankle", "thigh", "calf", "shank", "haa", "hfe", "kfe", "femur",
              "tibia", "shin"}  # fmt: skip
_FOOT_WORDS = {"foot", "feet", "toe", "toes", "sole", "paw"}
_LONGEST_LEG, _MANY_LEGS = 7, 4
"""Max number of joints of a leg, and min number of legs that are known by their number alone."""
_SOLE = 0.01
"""Max height of points of a sole above its lowest point [m]."""
_ROUNDS = 3
"""Number of iterations of placing the legs below the centre of mass."""
_ASIDE, _BENDING = 0.3, 0.02
"""Weights of a lateral foot offset and of joint positions, relative to a forward foot offset."""
_WITH_ANKLE = 5
"""Min number of joints of a leg with an ankle."""
_HAND_BODY = re.compile(r"palm|hand(?![a-z])|gripper", re.IGNORECASE)
_DIGITS_OF_A_HAND = 4
"""Min number of chains at one body, legs aside, that are fingers."""
_LEAST_OF_AN_ARM = 3
"""Min number of joints of each arm of a pair."""
_BELOW = re.compile(
    r"leg|hip|knee|ankle|foot|thigh|calf|shank|femur|tibia|toe|h[af][ae]|kfe|wheel", re.IGNORECASE
)
"""Words in the names of joints of legs."""
BOTH_ARMS = "both_arms"


@dataclass(frozen=True)
class Leg:
    """A chain with a foot."""

    group: GroupGuess
    link: str
    """Link that the last joint moves."""
    foot: Array
    """Point of this link, or of a link fixed to it, in contact with the floor, in its frame [m]:
    the middle of the sole of a leg with an ankle, else the farthest point from the joint."""


def find_legs(
    tree: KinematicTree, geometries: Mapping[str, LinkGeometry], groups: Groups, base: str
) -> tuple[Leg, ...]:
    """Return the chains on which a body stands: two or more alike, without hands, with lowest ends.

    Args:
        tree: the robot.
        geometries: geometries of its links.
        groups: its groups.
        base: frame in which z is up; the body is fixed to it.
    """
    if not geometries:
        return ()
    poses, rigid = link_poses(tree, base), rigid_links(tree)
    points = {link: in_base(poses[link], g) for link, g in geometries.items()}
    floor = min(float(p[:, 2].min()) for p in points.values())
    height = max(float(p[:, 2].max()) for p in points.values()) - floor
    body = [float(p[:, 2].min()) for link, p in points.items() if rigid[link] == rigid[base]]
    # A base without a body is a point of the world.
    if not body or min(body) < floor + _ABOVE * height:
        return ()
    legs = []
    with_hands = {rigid[tree.joints[hand.joints[0]].parent] for hand in groups.grippers}
    for group in groups.groups:
        link = tree.joints[group.joints[-1]].child
        ends = [p for name, p in points.items() if rigid[name] == rigid[link]]
        if group.tip is None or len(group.joints) < 2 or not ends or rigid[link] in with_hands:
            continue
        end = np.concatenate(ends)
        if end[:, 2].min() < floor + _LOW * height:
            away = end - poses[link][:3, 3]
            foot = away[int(np.argmax(np.linalg.norm(away, axis=1)))]
            if len(group.joints) >= _WITH_ANKLE:
                foot = away[away[:, 2] < away[:, 2].min() + _SOLE].mean(axis=0)
            legs.append(Leg(group, link, poses[link][:3, :3].T @ foot))
    counts = [len(leg.group.joints) for leg in legs]
    alike = [leg for leg in legs if len(leg.group.joints) == max(counts, key=counts.count)]
    return tuple(alike) if len(alike) > 1 else ()


class Standing(NamedTuple):
    """Legs, and why they are taken for legs."""

    legs: tuple[Leg, ...]
    reason: str
    confidence: Confidence


def guess_legs(
    tree: KinematicTree, geometries: Mapping[str, LinkGeometry], groups: Groups, base: str
) -> Standing:
    """Return the legs of a robot whose file does not say whether its base is fixed.

    Those of :func:`find_legs`; else two or more chains with the names of legs; else four or more
    chains of equal length at one body that is no hand.

    Args:
        tree: the robot.
        geometries: geometries of its links.
        groups: its groups.
        base: frame in which z is up.
    """
    measured = find_legs(tree, geometries, groups, base)
    if measured:
        return Standing(measured, "its lowest points are their ends", "high")
    rigid = rigid_links(tree)
    with_hands = {rigid[tree.joints[hand.joints[0]].parent] for hand in groups.grippers}
    chains = [
        group
        for group in groups.groups
        if group.tip is not None
        and 2 <= len(group.joints) <= _LONGEST_LEG
        and rigid[tree.joints[group.joints[-1]].child] not in with_hands
    ]
    named = [group for group in chains if _is_named_leg(group)]
    counts = [len(group.joints) for group in named]
    named = [group for group in named if counts.count(len(group.joints)) > 1]
    if named:
        legs = tuple(_leg(tree, geometries, group) for group in named)
        return Standing(legs, "they have the names of legs", "medium")
    body = rigid[base]
    around = [g for g in chains if rigid[tree.joints[g.joints[0]].parent] == body]
    alike = len(around) == len(chains) and len({len(group.joints) for group in around}) == 1
    ends = [name for name in rigid if rigid[name] == body] + [str(g.tip) for g in around]
    hand = any(is_finger(name) or _HAND_BODY.search(name) for name in ends)
    if alike and len(around) >= _MANY_LEGS and len(around) % 2 == 0 and not hand:
        legs = tuple(_leg(tree, geometries, group) for group in around)
        return Standing(legs, f"{len(legs)} chains alike at one body", "low")
    return Standing((), "", "high")


def _is_named_leg(group: GroupGuess) -> bool:
    """Return whether a joint is named like one of a leg, or the tip like a foot."""
    joints = {word for name in group.joints for word in words_of(name)}
    ends = {word for word in words_of(str(group.tip))}
    legs = joints & _LEG_WORDS or any(word[1:] == "leg" for word in joints)
    return bool(legs or ends & (_FOOT_WORDS | _LEG_WORDS)) and "wheel" not in joints


def _leg(tree: KinematicTree, geometries: Mapping[str, LinkGeometry], group: GroupGuess) -> Leg:
    """Return a chain as a leg, with the farthest point of its last body as foot."""
    link = tree.joints[group.joints[-1]].child
    rigid = rigid_links(tree)
    X = link_poses(tree, link)
    ends = [in_base(X[n], g) for n, g in geometries.items() if rigid[n] == rigid[link]]
    points = np.concatenate([X[str(group.tip)][None, :3, 3], *ends])
    return Leg(group, link, points[int(np.argmax(np.linalg.norm(points, axis=1)))])


@dataclass(frozen=True)
class GivenBase:
    """What is known of a robot's base before its legs are looked for."""

    kind: str
    """``arm`` without wheels, else the kind of wheeled base."""
    floating: bool
    """Whether the file states that it moves freely."""
    stated: bool
    """Whether the file states that it moves freely or is fixed."""
    has_wheels: bool
    """Whether there are wheels, of any base."""


def guess_kind(
    tree: KinematicTree,
    geometries: Mapping[str, LinkGeometry],
    groups: Groups,
    base: str,
    given: GivenBase,
    findings: Notes,
) -> tuple[str, tuple[Leg, ...]]:
    """Return the kind of robot and its legs; the kind is noted with its evidence.

    Args:
        tree: the robot.
        geometries: geometries of its links.
        groups: its groups.
        base: frame in which z is up.
        given: what is known of its base.
        findings: notes are added; asked whether a robot with chains like legs stands on them.
    """
    kind = given.kind
    confidence: Confidence = "high"
    if given.stated or kind != "arm":
        found = Standing(find_legs(tree, geometries, groups, base), "", "high")
    else:
        found = guess_legs(tree, geometries, groups, base)
    legs, names = found.legs, listed(leg.group.name for leg in found.legs)
    if kind != "arm":
        reason = "from its wheels"
    elif given.floating:
        kind, reason = "floating", "the file has a floating base"
    elif legs:
        question = Question(
            "kind", f"Does the robot stand on {names}, or is its base fixed?", ("floating", "arm"),
            "floating", found.confidence, found.reason,
        )  # fmt: skip
        kind, confidence = findings.answer(question), found.confidence
        legs = legs if kind == "floating" else ()
        reason = f"it stands on {names}" + (f"; {found.reason}" if found.reason else "")
        reason = reason if legs else "its base is fixed, as chosen"
    elif given.stated:
        reason = "the file has a fixed base"
    else:
        reason, confidence = "neither wheels nor legs were found; its base is fixed", "medium"
        if given.has_wheels:
            reason, confidence = "its wheels form no known base", "low"
    findings.add("guessed", "kind", f"{kind}: {reason}", confidence)
    return kind, legs


def standing(robot: Robot, legs: Sequence[Leg], home: Array, seed: int) -> Array:
    """Return a configuration in which each foot is below its hip, and its leg slightly bent.

    Feet of legs with ankles (five joints or more) keep their orientation at joint positions zero.
    All feet are at the same height.

    Args:
        robot: the robot.
        legs: its legs.
        home: configuration of the other joints, shape (n,).
        seed: seed of random numbers.
    """
    stances = [_Stance(robot, leg, home) for leg in legs]
    rng, found = np.random.default_rng(seed), home.copy()
    drawn = [rng.uniform(s.low, s.high, (_SAMPLES, len(s.low))) for s in stances]
    depth = _BENT * min(
        float(-s.feet(Q)[0][:, 2].min()) for s, Q in zip(stances, drawn, strict=True)
    )
    for _ in range(_ROUNDS):
        # The centre of mass is above the middle of the feet.
        hips = np.mean([stance.hip(found)[0] for stance in stances])
        ahead = float(_centre_of_mass(robot, found)[0] - hips)
        shared: Array | None = None
        for stance, Q in zip(stances, drawn, strict=True):
            # Also try another leg's configuration, mirrored: most robots are symmetric.
            tried = Q if shared is None else shared * _signs(len(shared))
            shared = stance.nearest(tried.clip(stance.low, stance.high), depth, ahead)
            found[stance.columns] = shared
    return found


def _signs(count: int) -> Array:
    """Return all combinations of signs, shape (2^n, n)."""
    return np.array(list(itertools.product((1.0, -1.0), repeat=count)))


def _centre_of_mass(robot: Robot, q: Array) -> Array:
    """Return the centre of mass in the base frame [m], shape (3,); the origin without masses."""
    kinematics = Kinematics(robot.tree, base=robot.base_frame, generic=True)
    poses = dict(zip(kinematics.frame_names, kinematics.frames(q), strict=True))
    bodies = [(link.inertial, poses[name]) for name, link in robot.tree.links.items()]
    masses = np.array([i.mass for i, _ in bodies if i is not None])
    centres = [(X @ i.X_LC)[:3, 3] for i, X in bodies if i is not None]
    return masses @ np.array(centres) / masses.sum() if len(masses) else np.zeros(3)


class _Stance:
    """Configurations of one leg."""

    def __init__(self, robot: Robot, leg: Leg, home: Array) -> None:
        self._kinematics = Kinematics(robot.tree, base=robot.base_frame, generic=True)
        names = list(self._kinematics.frame_names)
        self._hip = names.index(robot.tree.joints[leg.group.joints[0]].child)
        self._end, self._foot, self._home = names.index(leg.link), leg.foot, home
        self.columns = robot.indices(leg.group.joints)
        limits = robot.limits.select(leg.group.joints)
        self.low = np.where(np.isfinite(limits.lower), limits.lower, -np.pi)
        self.high = np.where(np.isfinite(limits.upper), limits.upper, np.pi)
        self._zero = np.clip(0.0, self.low, self.high)
        self._flat = self.feet(self._zero[None])[1][0]
        self._has_ankle = len(self.columns) >= _WITH_ANKLE

    def feet(self, Q: Array) -> tuple[Array, Array]:
        """Return positions relative to the hip [m], (m, 3), and orientations, (m, 3, 3)."""
        full = np.tile(self._home, (len(Q), 1))
        full[:, self.columns] = Q
        frames = self._kinematics.frames_batch(full)
        R, hip = frames[:, self._end, :3, :3], frames[:, self._hip, :3, 3]
        return R @ self._foot + frames[:, self._end, :3, 3] - hip, R

    def hip(self, q: Array) -> Array:
        """Return the position of the hip in the base frame [m], shape (3,)."""
        return np.asarray(self._kinematics.frames(q)[self._hip, :3, 3])

    def nearest(self, Q: Array, depth: float, ahead: float) -> Array:
        """Return the configuration closest to the desired stance; starts from the best samples."""
        from scipy.optimize import least_squares

        start = Q[int(np.argmin((self._errors(Q, depth, ahead) ** 2).sum(axis=1)))]
        inside = np.clip(start, self.low + 1e-6, self.high - 1e-6)
        found = least_squares(
            lambda q: self._errors(q[None], depth, ahead)[0], inside, bounds=(self.low, self.high)
        )
        return np.asarray(found.x)

    def _errors(self, Q: Array, depth: float, ahead: float) -> Array:
        place, R = self.feet(Q)
        aside, height = _ASIDE * place[:, 1], 3.0 * (place[:, 2] + depth)
        terms = [np.stack([3.0 * (place[:, 0] - ahead), aside, height], axis=1) / depth]
        terms.append(_BENDING * (Q - self._zero))
        if self._has_ankle:
            terms.append((R - self._flat).reshape(len(Q), 9))
        return np.concatenate(terms, axis=1)


def add_both_arms(
    tree: KinematicTree, groups: Groups, legs: Collection[str], findings: Notes
) -> None:
    """Add the group of both arms, if there are exactly two chains alike that are no legs.

    Chains are alike if their names differ by left and right, or those of their joints do or differ
    by one number. Arms of one robot may have different numbers of joints.

    Args:
        tree: the robot.
        groups: its groups, to which the group is added.
        legs: names of the groups that are legs.
        findings: a note is added.
    """
    arms = [
        group
        for group in groups.groups
        if group.tip is not None
        and group.name not in legs
        and len(group.joints) >= _LEAST_OF_AN_ARM
        and not any(_BELOW.search(name) for name in group.joints)
    ]
    pairs = [
        (one, other)
        for k, one in enumerate(arms)
        for other in arms[k + 1 :]
        if are_sides(one.joints, other.joints) or is_other_side(one.name, other.name)
    ]
    pairs = [pair for pair in pairs if not _are_fingers(tree, arms, pairs, pair)]
    if len(pairs) != 1:
        return
    together = {name for group in pairs[0] for name in group.joints}
    joints = tuple(name for name in tree.joint_names if name in together)
    taken = {word for group in groups.groups for word in (group.name, *group.aliases)}
    if BOTH_ARMS in taken or any(set(group.joints) == together for group in groups.groups):
        return
    groups.groups.append(GroupGuess(BOTH_ARMS, joints))
    names = " and ".join(group.name for group in pairs[0])
    findings.add("guessed", f"groups.{BOTH_ARMS}", f"{names}: named alike", "high")


def _are_fingers(
    tree: KinematicTree,
    arms: Sequence[GroupGuess],
    pairs: Sequence[tuple[GroupGuess, GroupGuess]],
    pair: tuple[GroupGuess, GroupGuess],
) -> bool:
    """Return whether two chains are among four or more at one body, or carried by another pair."""
    rigid = rigid_links(tree)
    parents = {group.name: tree.joints[group.joints[0]].parent for group in arms}
    bodies = [rigid[parent] for parent in parents.values()]
    paired = {name for group in itertools.chain(*pairs) for name in group.joints}
    above = [parents[group.name] for group in pair]
    return any(
        bodies.count(rigid[link]) >= _DIGITS_OF_A_HAND
        or any(joint.name in paired for joint in tree.path(tree.root, link))
        for link in above
    )


def are_sides(joints: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether the names of joints differ from others by left and right, or one number."""
    if len(joints) != len(others):
        return False
    differences = {_difference(a.lower(), b.lower()) for a, b in zip(joints, others, strict=True)}
    if len(differences) != 1:
        return False
    one, other = differences.pop()
    return is_other_side(one, other) or (one.isdecimal() and other.isdecimal())


def is_other_side(name: str, other: str) -> bool:
    """Return whether two names differ by left and right alone."""
    return set(_difference(name, other)) in ({"l", "r"}, {"lef", "righ"}, {"left", "right"})


def _difference(one: str, other: str) -> tuple[str, str]:
    """Return what remains of two names without their common beginning and end."""
    shortest = min(len(one), len(other))
    start = next((k for k in range(shortest) if one[k] != other[k]), shortest)
    one, other = one[start:], other[start:]
    shortest = min(len(one), len(other))
    end = next((k for k in range(shortest) if one[-1 - k] != other[-1 - k]), shortest)
    return one[: len(one) - end], other[: len(other) - end]
