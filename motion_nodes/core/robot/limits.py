# SPDX-License-Identifier: Apache-2.0
"""Joint limits: position, velocity, effort, acceleration and jerk; differences of joint positions.

Positions of a continuous joint that differ by whole turns are the same place. Every room compares
states, starts, goals, constraints, tolerances and postures by :class:`JointTurns`, the one place
that knows which joints are continuous. Only the offset of a whole path is shifted by turns; turns
that a path makes by itself are part of the motion.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.robot.tree import KinematicTree, frozen
from motion_nodes.errors import InvalidCommand, InvalidConfig, InvalidDescription, UnknownJoint
from motion_nodes.kernels.cycle_code import cycle_part
from motion_nodes.tolerances import FILE_ROUNDING, LIMIT_ROUNDING
from motion_nodes.typing import Array, Mask

if TYPE_CHECKING:
    from motion_nodes.core.robot.tree import KinematicTree

TURN = 2.0 * math.pi
"""[rad]"""
HALF_TURN_ROUNDING = 1e-9
"""Excess over half a turn up to which positions stay as they are [rad]."""
LOWERED = {
    "max_velocity": "velocity",
    "max_acceleration": "acceleration",
    "max_jerk": "jerk",
}
"""Limits that MoveIt's ``joint_limits.yaml`` may lower, by their names there."""
_PRISMATIC = 2
"""Kind of a prismatic joint in a packed tree."""


@cycle_part
def _past_half(way: Any) -> Any:
    """Return displacements [rad] beyond half a turn in turns; rounded up: those to take back."""
    return (way - math.pi) / TURN


@cycle_part
def _is_far(way: Any) -> Any:
    """Return whether displacements are finite and beyond half a turn, not only by rounding."""
    return (abs(way) > math.pi + HALF_TURN_ROUNDING) & (abs(way) < math.inf)


@cycle_part
def nearest_turn(q: float, near: float) -> float:
    """Return the angle equal to ``q`` up to whole turns that is nearest to another [rad]."""
    way = q - near
    return q - TURN * math.ceil(_past_half(way)) if _is_far(way) else q


@dataclass(frozen=True, eq=False)
class JointTurns:
    """Which of n joints are continuous; positions have shape (..., n) [rad or m]."""

    continuous: Mask
    """Which joints are continuous, so that a full turn changes no pose, shape (n,)."""
    any: bool = field(init=False)
    """Whether a joint is continuous."""

    def __post_init__(self) -> None:
        """Copy the mask and make it read-only."""
        mask: Mask = np.array(self.continuous, dtype=np.bool_)
        mask.setflags(write=False)
        object.__setattr__(self, "continuous", mask)
        object.__setattr__(self, "any", bool(mask.any()))

    def select(self, joints: NDArray[np.intp]) -> JointTurns:
        """Return the same of some joints, by index, shape (k,)."""
        return JointTurns(self.continuous[joints])

    def difference(self, a: ArrayLike, b: ArrayLike) -> Array:
        """Return the displacement from a to b, the shorter one if continuous, shape (..., n).

        Of two equally short half turns the positive one is returned. NaN stays NaN.
        """
        way = np.asarray(b, np.float64) - np.asarray(a, np.float64)
        if not self.any:
            return np.asarray(way)
        turns = np.where(self.continuous, np.ceil(_past_half(way)), 0.0)
        return np.asarray(way - turns * TURN)

    def distance(self, a: ArrayLike, b: ArrayLike) -> Array:
        """Return the absolute displacement of each joint, shape (..., n)."""
        return np.asarray(np.abs(self.difference(a, b)))

    def offset(self, q: ArrayLike, near: ArrayLike) -> Array:
        """Return the whole turns that bring positions nearest to others [rad], shape (..., n).

        Zero for joints that are not continuous, and for positions that are not finite.

        Args:
            q: the positions.
            near: the others.
        """
        way = np.asarray(q, np.float64) - np.asarray(near, np.float64)
        if not self.any:
            return np.zeros(way.shape)
        shifted = self.continuous & _is_far(way)
        return np.asarray(np.where(shifted, -TURN * np.ceil(_past_half(way)), 0.0))

    def nearest(self, q: ArrayLike, near: ArrayLike) -> Array:
        """Return the positions equal to ``q`` up to whole turns that are nearest to others.

        Args:
            q: the positions, shape (..., n).
            near: the others, shape (..., n).

        Returns:
            A new array of shape (..., n); positions that need no shift are unchanged to the bit.
        """
        if not self.any:
            return np.array(q, np.float64)
        return np.asarray(np.asarray(q, np.float64) + self.offset(q, near))

    def interval_offset(self, lower: ArrayLike, upper: ArrayLike, q: ArrayLike) -> Array:
        """Return the whole turns that bring intervals around, or nearest to, positions [rad].

        Args:
            lower: lower ends, shape (..., n).
            upper: upper ends, not below the lower ones.
            q: the positions.
        """
        low, high = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
        held = np.isfinite(low) & np.isfinite(high)
        middle = 0.5 * (np.where(held, low, q) + np.where(held, high, q))
        return self.offset(middle, q)

    def excess(self, q: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Array:
        """Return the distances of positions outside intervals, 0 or less inside, shape (..., n).

        Of continuous joints all intervals that are whole turns away are considered.

        Args:
            q: the positions.
            lower: lower ends; -inf for none.
            upper: upper ends, not below the lower ones; inf for none.
        """
        q, low, high = (np.asarray(x, np.float64) for x in (q, lower, upper))
        if self.any:
            q = q - self.interval_offset(low, high, q)
        return np.asarray(np.maximum(low - q, q - high))

    def unwrapped(self, path: ArrayLike) -> Array:
        """Return waypoints so that straight lines between them are the shortest motion.

        Args:
            path: waypoints, shape (k, n).

        Returns:
            A new array; the first waypoint is unchanged, continuous joints of the others are
            shifted by whole turns.
        """
        points = np.array(path, np.float64)
        for k in np.flatnonzero(self.continuous):
            steps = np.diff(points[:, k])
            turns = np.cumsum(np.ceil(_past_half(steps)))
            points[1:, k] -= turns * TURN
        return points


def no_turns(n: int) -> JointTurns:
    """Return the differences of n joints of which none is continuous."""
    return JointTurns(np.zeros(n, np.bool_))


def turns_of(tree: KinematicTree, names: Sequence[str]) -> JointTurns:
    """Return which joints are continuous.

    A joint whose mimics turn by a fraction of its angle is not: a full turn changes their poses.

    Args:
        tree: kinematic tree of the robot.
        names: joints.

    Raises:
        UnknownJoint: a joint that the tree does not have.
    """
    from motion_nodes.core.robot.tree import JointKind

    packed = tree.packed
    moving = packed.q_index >= 0
    fractions = moving & ((packed.kind == _PRISMATIC) | (packed.multiplier % 1.0 != 0.0))
    changed = {packed.joint_names[i] for i in packed.q_index[fractions]}
    joints = [tree.joint(name) for name in names]
    turning = [j.kind is JointKind.CONTINUOUS and j.name not in changed for j in joints]
    return JointTurns(np.array(turning, np.bool_))


@dataclass(frozen=True, eq=False)
class JointLimits:
    """Limits of n joints as read-only arrays of shape (n,); infinite if unlimited."""

    names: tuple[str, ...]
    """Names of the joints, in the order of the arrays."""
    lower: Array
    """Lower position limit [rad or m]."""
    upper: Array
    """Upper position limit [rad or m]."""
    velocity: Array
    """Velocity limit [rad/s or m/s]."""
    effort: Array
    """Effort limit [N m or N]."""
    acceleration: Array
    """Acceleration limit [rad/s^2 or m/s^2]."""
    jerk: Array
    """Jerk limit [rad/s^3 or m/s^3]."""
    continuous: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Which joints are continuous, if their positions are unlimited; default: none."""

    def __post_init__(self) -> None:
        """Freeze the arrays and check their lengths."""
        given = np.asarray(self.continuous, np.bool_)
        unlimited = np.isinf(self.lower) & np.isinf(self.upper)
        continuous = unlimited & given if given.size else np.zeros(len(self.names), np.bool_)
        object.__setattr__(self, "continuous", continuous)
        for name in ("lower", "upper", "velocity", "effort", "acceleration", "jerk"):
            object.__setattr__(self, name, frozen(getattr(self, name), (len(self.names),)))

    @classmethod
    def of_tree(cls, tree: KinematicTree) -> JointLimits:
        """Return the limits of a URDF; acceleration and jerk are infinite.

        Positions and velocities keep the joints and their mimic joints within their limits.
        Efforts are those of the drives, which move the mimic joints, too.

        Args:
            tree: kinematic tree of the robot.

        Raises:
            InvalidDescription: the ranges of a joint and its mimic joints have no point in common.
        """
        ranges = [_common_range(tree, name) for name in tree.joint_names]
        joints = [tree.joints[name] for name in tree.joint_names]
        endless = np.full(len(joints), np.inf)
        return cls(
            names=tree.joint_names,
            lower=frozen([low for low, _ in ranges]),
            upper=frozen([high for _, high in ranges]),
            velocity=of_members(tree, {j.name: j.velocity for j in tree.joints.values()}),
            effort=frozen([joint.effort for joint in joints]),
            acceleration=endless,
            jerk=endless,
            continuous=turns_of(tree, tree.joint_names).continuous,
        )

    def lowered(self, entries: Sequence[str]) -> JointLimits:
        """Return these limits where they are lower than others, and the others elsewhere.

        Args:
            entries: each as JOINT.NAME=VALUE, with one of :data:`LOWERED` as NAME, as in
                ``joint_limits.yaml`` of MoveIt.

        Raises:
            InvalidConfig: an entry of another form, or a value that is not above 0.
            UnknownJoint: a joint that is not one of these.
        """
        arrays = {kind: np.array(getattr(self, kind)) for kind in LOWERED.values()}
        for entry in entries:
            word, _, number = entry.partition("=")
            joint, _, name = word.rpartition(".")
            try:
                value = float(number)
            except ValueError:
                value = math.nan
            if name not in LOWERED or not value > 0.0:
                raise InvalidConfig(
                    f"joint_limits has '{entry}'; each entry is JOINT.NAME=VALUE, with NAME one of "
                    f"{', '.join(LOWERED)} and VALUE above 0",
                    field="joint_limits",
                )
            if joint not in self.names:
                raise UnknownJoint(joint, self.names)
            array, k = arrays[LOWERED[name]], self.names.index(joint)
            array[k] = min(array[k], value)
        return replace(
            self,
            velocity=arrays["velocity"],
            acceleration=arrays["acceleration"],
            jerk=arrays["jerk"],
        )

    @cached_property
    def turns(self) -> JointTurns:
        """Differences of positions of these joints."""
        return JointTurns(self.continuous)

    def clip(self, q: ArrayLike) -> Array:
        """Return positions clamped to their limits; NaN stays NaN.

        Args:
            q: positions [rad or m], shape (..., n).

        Returns:
            Clamped positions [rad or m], a new array of the same shape.

        Raises:
            InvalidCommand: another number of joints.
        """
        return np.asarray(np.clip(self._checked(q), self.lower, self.upper), dtype=np.float64)

    def settled(self, q: ArrayLike) -> Array:
        """Return positions of which those outside a limit by rounding are at the limit.

        Args:
            q: positions [rad or m], shape (..., n).

        Returns:
            A new array; positions farther outside than :data:`.LIMIT_ROUNDING`, and NaN, stay.

        Raises:
            InvalidCommand: another number of joints.
        """
        values = self._checked(q)
        inside = values.clip(self.lower, self.upper)
        with np.errstate(invalid="ignore"):
            return np.where(np.abs(values - inside) <= LIMIT_ROUNDING, inside, values)

    def within(self, q: ArrayLike, tolerance: float = 0.0) -> bool:
        """Return whether all positions are within limits; NaN is not.

        Args:
            q: positions [rad or m], shape (..., n).
            tolerance: tolerance of the limits [rad or m].

        Raises:
            InvalidCommand: another number of joints.
        """
        values = self._checked(q)
        return bool(np.all((values >= self.lower - tolerance) & (values <= self.upper + tolerance)))

    def violations(self, q: ArrayLike, tolerance: float = 0.0) -> tuple[str, ...]:
        """Return the violations of position limits, as text.

        Args:
            q: positions [rad or m], shape (n,).
            tolerance: tolerance of the limits [rad or m].

        Returns:
            One text per violation; empty if all are within limits.

        Raises:
            InvalidCommand: another number of joints.
        """
        values = self._checked(q)
        return tuple(
            f"{name} is {beyond(value, low, high)}, allowed is {low:.6g} to {high:.6g}"
            + (" (in degrees? Angles are in rad)" if _like_degrees(value, low, high) else "")
            for name, value, low, high in zip(
                self.names, values, self.lower, self.upper, strict=True
            )
            if not low - tolerance <= value <= high + tolerance
        )

    def select(self, names: Sequence[str]) -> JointLimits:
        """Return the limits of some joints, in the given order.

        Args:
            names: names of the joints.

        Raises:
            UnknownJoint: lists the joints.
        """
        index = joint_indices(names, self.names)
        return JointLimits(
            tuple(names),
            self.lower[index],
            self.upper[index],
            self.velocity[index],
            self.effort[index],
            self.acceleration[index],
            self.jerk[index],
            self.continuous[index],
        )

    def __repr__(self) -> str:
        """Return the joints with their ranges."""
        ranges = zip(self.names[:8], self.lower.tolist(), self.upper.tolist(), strict=False)
        shown = ", ".join(f"{name} {low:.3g}..{high:.3g}" for name, low, high in ranges)
        return f"JointLimits({shown}{', ...' if len(self.names) > 8 else ''})"

    def _checked(self, q: ArrayLike) -> Array:
        """Return ``q`` as floats, or raise an error for a wrong length."""
        values = np.asarray(q, dtype=np.float64)
        if values.shape[-1:] != (len(self.names),):
            raise InvalidCommand(
                f"{values.size} positions were given for {len(self.names)} joints: "
                f"{', '.join(self.names)}."
            )
        return values


def of_members(tree: KinematicTree, values: Mapping[str, float]) -> Array:
    """Return limits of derivatives that keep joints and their mimic joints within theirs.

    Args:
        tree: the robot.
        values: limit of the velocity, acceleration or jerk of joints, mimic joints included; others
            are unlimited.

    Returns:
        Limits of the actuated joints, shape (n,).
    """
    return frozen(
        [
            min(
                values.get(joint.name, np.inf) / abs(joint.law.multiplier)
                for joint in tree.members[name]
            )
            for name in tree.joint_names
        ]
    )


def _common_range(tree: KinematicTree, name: str) -> tuple[float, float]:
    """Return the range [rad or m] in which a joint and its mimic joints are within their limits."""
    lower, upper = -np.inf, np.inf
    for joint in tree.members[name]:
        ends = [joint.law.leader_value(end) for end in (joint.lower, joint.upper)]
        low, high = min(ends), max(ends)
        if joint.mimic is not None:
            # Rounding in the file must not move the limits of the leader.
            same = {"rel_tol": FILE_ROUNDING, "abs_tol": FILE_ROUNDING}
            low = lower if math.isclose(low, lower, **same) else low
            high = upper if math.isclose(high, upper, **same) else high
        if max(lower, low) > min(upper, high):
            raise InvalidDescription(
                f"{tree.name}: joint '{joint.name}' mimics '{name}' and may move from "
                f"{joint.lower:.6g} to {joint.upper:.6g}, where '{name}' would be at {low:.6g} to "
                f"{high:.6g}; its range is {lower:.6g} to {upper:.6g}. Correct the limits, the "
                "multiplier or the offset of one of them."
            )
        lower, upper = max(lower, low), min(upper, high)
    return lower, upper


def joint_indices(names: Iterable[str], among: Sequence[str], where: str = "") -> NDArray[np.intp]:
    """Return the index of each name in ``among``, shape (len(names),).

    Args:
        names: names to find.
        among: known names.
        where: place of the known names, for the error.

    Raises:
        UnknownJoint: names the first unknown name and the closest known one.
    """
    position = {name: i for i, name in enumerate(among)}
    found = []
    for name in names:
        if name not in position:
            raise UnknownJoint(name, among, where)
        found.append(position[name])
    return np.array(found, dtype=np.intp)


def _like_degrees(value: float, lower: float, upper: float) -> bool:
    """Return whether a position is far beyond limits of some turns, but an angle in degrees."""
    turns = 4.0 * math.pi
    return max(abs(lower), abs(upper)) <= turns < abs(value) <= 360.0


def beyond(value: float, lower: float, upper: float) -> str:
    """Return a position as text that differs from the limits it exceeds, in the same format.

    Args:
        value: the position [rad or m].
        lower: lower limit.
        upper: upper limit.
    """
    for digits in (6, 9, 12):
        text = f"{value:.{digits}g}"
        if text not in (f"{lower:.6g}", f"{upper:.6g}"):
            return text
    return f"{value:.17g}"
