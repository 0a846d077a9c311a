# SPDX-License-Identifier: Apache-2.0
"""Configurations given by users and clients: validation, and values of mimic joints.

Clients with a robot description of their own name all joints, MoveGroupInterface for example. Only
the leaders are moved; a value of a mimic joint is checked against its leader, or determines it if
that one is not named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import JointKind, KinematicTree, Mimic
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.tolerances import LIMIT_ROUNDING
from motion_nodes.typing import Array


class MimicAgreement(NamedTuple):
    """Max deviation of a mimic joint's given value from that of its leader."""

    angle: float
    """Of turning joints [rad], or [rad/s] of velocities."""
    length: float
    """Of sliding joints [m], or [m/s] of velocities."""


COMMANDED = MimicAgreement(1e-3, 1e-3)
MEASURED = MimicAgreement(0.05, 0.005)
"""Of states, which may be measured: couplings have play and elasticity."""


class NamedJoints:
    """A client's list of joints, with mimic joints replaced by their leaders."""

    names: tuple[str, ...]
    """Joints that move by themselves, each once, in the order of their first mention; a name that
    the robot does not have is kept."""
    trivial: bool
    """Whether no mimic joint is named, so that values are unchanged."""

    def __init__(self, tree: KinematicTree | None, given: Sequence[str]) -> None:
        """Resolve names.

        Args:
            tree: the robot; None: one without mimic joints.
            given: names of joints, mimic joints included.
        """
        self.given = tuple(given)
        joints = {} if tree is None else tree.joints
        laws = [j.law if (j := joints.get(name)) else Mimic(name) for name in self.given]
        self.trivial = all(law.joint == name for law, name in zip(laws, self.given, strict=True))
        # Names that occur twice are for the caller to reject.
        self.names = self.given
        if self.trivial:
            return
        self.names = tuple(dict.fromkeys(law.joint for law in laws))
        self._target = np.array([self.names.index(law.joint) for law in laws], np.intp)
        self._multiplier = np.array([law.multiplier for law in laws])
        self._offset = np.array([law.offset for law in laws])
        self._slides = np.array(
            [n in joints and joints[n].kind is JointKind.PRISMATIC for n in self.given]
        )
        self._source = np.array([self._best(k) for k in range(len(self.names))], np.intp)

    def _best(self, k: int) -> int:
        """Return the column that determines a joint: its own, or that of its first mimic joint."""
        name = self.names[k]
        if name in self.given:
            return self.given.index(name)
        return int(np.flatnonzero(self._target == k)[0])

    @property
    def twice(self) -> tuple[str, ...]:
        """Names that are given more than once."""
        return tuple(dict.fromkeys(n for n in self.given if self.given.count(n) > 1))

    def positions(
        self, values: ArrayLike, agreement: MimicAgreement = COMMANDED, *, missing: bool = False
    ) -> Array:
        """Return the positions of :attr:`names` [rad or m], shape (..., m).

        Args:
            values: positions of the given joints [rad or m], shape (..., n).
            agreement: max deviation of a mimic joint.
            missing: whether NaN stands for no value; otherwise it is passed to the leader.

        Raises:
            InvalidCommand: names a mimic joint that disagrees, and both values.
        """
        return self._reduced(values, self._offset_or_none(), agreement, missing, "at")

    def rates(self, values: ArrayLike, *, missing: bool = False) -> Array:
        """Return velocities, or accelerations, of :attr:`names`; as :meth:`positions`."""
        return self._reduced(values, None, COMMANDED, missing, "moving with")

    def efforts(self, values: ArrayLike) -> Array:
        """Return the efforts of :attr:`names`, shape (..., m): by virtual work, of all members.

        Args:
            values: efforts of the given joints [N m or N], shape (..., n); NaN: none.
        """
        given = np.asarray(values, np.float64)
        if self.trivial:
            return given
        result = np.full((*given.shape[:-1], len(self.names)), np.nan)
        for i, k in enumerate(self._target):
            own = self._multiplier[i] * given[..., i]
            sum_ = np.where(np.isnan(result[..., k]), 0.0, result[..., k]) + own
            result[..., k] = np.where(np.isnan(own), result[..., k], sum_)
        return result

    def _offset_or_none(self) -> Array | None:
        return None if self.trivial else self._offset

    def _reduced(
        self,
        values: ArrayLike,
        offset: Array | None,
        agreement: MimicAgreement,
        missing: bool,
        verb: str,
    ) -> Array:
        given = np.asarray(values, np.float64)
        if self.trivial:
            return given
        shift = 0.0 if offset is None else offset
        own = (given - shift) / self._multiplier
        result: Array = own[..., self._source]
        if missing:
            for i, k in enumerate(self._target):
                result[..., k] = np.where(np.isnan(result[..., k]), own[..., i], result[..., k])
        with np.errstate(invalid="ignore"):
            expected = result[..., self._target] * self._multiplier + shift
            allowed = np.where(self._slides, agreement.length, agreement.angle)
            wrong = np.abs(given - expected) > allowed
        # Infinite values are for the caller to reject; a value beside one cannot agree.
        wrong |= ~np.isfinite(given) & ~np.isnan(given) & (given != expected)
        if not missing:
            lost = np.isnan(given)
            for i, k in enumerate(self._target):
                result[..., k] = np.where(lost[..., i], np.nan, result[..., k])
        if wrong.any():
            raise InvalidCommand(self._disagreement(given, expected, wrong, verb))
        return result

    def _disagreement(self, given: Array, expected: Array, wrong: Array, verb: str) -> str:
        row = tuple(int(k) for k in np.argwhere(wrong)[0])
        i = row[-1]
        name, k = self.given[i], int(self._target[i])
        source = self.given[int(self._source[k])]
        leader = float(given[(*row[:-1], int(self._source[k]))])
        where = f" at point {row[0]}" if len(row) > 1 else ""
        return (
            f"{name} is given as {given[row]:.6g}{where}, but {source} as {leader:.6g}: {name} "
            f"mimics {self.names[k]} and is {verb} {expected[row]:.6g} then. Give values that "
            f"agree, or {self.names[k]} alone."
        )


def leader_values(
    tree: KinematicTree, given: Mapping[str, float], *, measured: bool = False
) -> dict[str, float]:
    """Return positions by joint with those of mimic joints replaced by their leaders'.

    Args:
        tree: the robot.
        given: positions [rad or m]; names that the robot does not have are kept.
        measured: whether they may be measured, so that mimic joints may deviate more.

    Raises:
        InvalidCommand: names a mimic joint that disagrees, and both values.
    """
    joints = NamedJoints(tree, tuple(given))
    values = joints.positions(list(given.values()), MEASURED if measured else COMMANDED)
    return dict(zip(joints.names, values.tolist(), strict=True))


def follower_names(tree: KinematicTree) -> tuple[str, ...]:
    """Return the mimic joints of a robot, by the order of their leaders."""
    return tuple(joint.name for name in tree.joint_names for joint in tree.members[name][1:])


class Followers:
    """The mimic joints of a robot as a function of all its actuated joints."""

    def __init__(self, tree: KinematicTree) -> None:
        self.names = follower_names(tree)
        laws = [tree.joints[name].law for name in self.names]
        self._leaders = np.array([tree.joint_names.index(law.joint) for law in laws], np.intp)
        self._multiplier = np.array([law.multiplier for law in laws])
        self._offset = np.array([law.offset for law in laws])

    def positions(self, q: Array) -> Array:
        """Return their positions [rad or m], shape (..., m), for ``q``, shape (..., n)."""
        positions: Array = self.rates(q) + self._offset
        return positions

    def rates(self, v: Array) -> Array:
        """Return their velocities, or accelerations, shape (..., m), for ``v``, shape (..., n)."""
        rates: Array = v[..., self._leaders] * self._multiplier
        return rates


def checked_configurations(q: ArrayLike, joints: Sequence[str], dimensions: int) -> Array:
    """Return configurations as a contiguous array; values that are not finite are accepted.

    Args:
        q: positions, shape (n,) or (m, n).
        joints: names of the joints.
        dimensions: number of dimensions, 1 or 2.

    Raises:
        InvalidCommand: wrong shape.
    """
    values = np.ascontiguousarray(q, dtype=np.float64)
    if values.ndim != dimensions or values.shape[-1] != len(joints):
        required = "(m, n)" if dimensions == 2 else "(n,)"
        raise InvalidCommand(
            f"positions of shape {values.shape} were given; required is {required} for "
            f"n = {len(joints)} joints: {', '.join(joints)}."
        )
    return values


def changed_positions(robot: Robot, before: Array, given: Mapping[str, float] | ArrayLike) -> Array:
    """Return the positions of all joints of a robot, with some or all replaced.

    Args:
        robot: the robot.
        before: previous positions [rad or m], in the order of its joints.
        given: new positions [rad or m], by joint or in the order of the robot's joints. Mimic
            joints must agree with their leaders, or determine those that are not given.

    Raises:
        UnknownJoint: unknown joint.
        InvalidCommand: a value that is not finite, a mimic joint that disagrees with its leader, or
            wrong length.
    """
    values = before.copy()
    if isinstance(given, Mapping):
        leaders = leader_values(robot.tree, {name: float(given[name]) for name in given})
        values[robot.indices(list(leaders))] = list(leaders.values())
    else:
        values = np.array(given, dtype=np.float64)
        if values.shape != before.shape:
            raise InvalidCommand(
                f"{values.size} positions were given for {len(before)} joints: "
                f"{', '.join(robot.joint_names)}."
            )
    bad = [n for n, v in zip(robot.joint_names, values, strict=True) if not np.isfinite(v)]
    if bad:
        raise InvalidCommand(f"the position of {', '.join(bad)} is not a finite number.")
    return values


def checked_state(robot: Robot, given: Mapping[str, float] | ArrayLike | str) -> Array:
    """Return the positions of all joints of a robot for a state that a user gives, shape (N,).

    Values beyond a limit by rounding are those of the limit. Positions of mimic joints are accepted
    if they follow from those of the joints that they mimic.

    Args:
        robot: the robot; joints that are not given are at ``home``.
        given: positions by joint, or of all joints, shape (N,), or a named state [rad or m].

    Raises:
        UnknownJoint, UnknownState: unknown name.
        InvalidCommand: a value that is not finite or outside of its limits, the wrong number of
            values, or a mimic joint elsewhere than its joint says.
    """
    if isinstance(given, str):
        return robot.named_state(given)
    values = changed_positions(robot, robot.home, given)
    limits = robot.limits
    off = np.maximum(limits.lower - values, values - limits.upper)
    if (off > LIMIT_ROUNDING).any():
        k = int(np.argmax(off))
        raise InvalidCommand(
            f"the state has {limits.names[k]} at {values[k]:.6g}; its limits are "
            f"{limits.lower[k]:.6g} to {limits.upper[k]:.6g}.",
            field=limits.names[k],
        )
    return np.asarray(limits.clip(values))


def selected_joints(robot: Robot, joints: Sequence[str] | str | None) -> tuple[str, ...]:
    """Return joints given by name, by their group, or by default: all commanded joints.

    Raises:
        UnknownGroup: unknown group.
        InvalidConfig: a duplicate joint.
    """
    if isinstance(joints, str):
        return robot.group(joints).joints
    names = robot.joint_names if joints is None else tuple(joints)
    if len(set(names)) != len(names):
        raise InvalidConfig(f"joints to check are named twice: {', '.join(names)}.")
    return names


def checked_distance(value: float, name: str) -> float:
    """Return a required distance [m].

    Raises:
        InvalidConfig: it is negative or not finite.
    """
    if not (np.isfinite(value) and value >= 0.0):
        raise InvalidConfig(f"{name} is {value} m; it must be finite and not negative.", field=name)
    return float(value)
