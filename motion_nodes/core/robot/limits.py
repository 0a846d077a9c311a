# SPDX-License-Identifier: Apache-2.0
"""Joint limits: position, velocity, effort, acceleration and jerk."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.robot.joint_turns import JointTurns, turns_of
from motion_nodes.core.robot.tree import KinematicTree, frozen
from motion_nodes.errors import InvalidCommand, InvalidDescription, UnknownJoint
from motion_nodes.tolerances import FILE_ROUNDING, LIMIT_ROUNDING
from motion_nodes.typing import Array


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
