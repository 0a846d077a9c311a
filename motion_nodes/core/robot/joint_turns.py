# SPDX-License-Identifier: Apache-2.0
"""Differences of joint positions: the one place that knows which joints are continuous.

Positions of a continuous joint that differ by whole turns are the same place. Every room compares
states, starts, goals, constraints, tolerances and postures by :class:`JointTurns`. Only the offset
of a whole path is shifted by turns; turns that a path makes by itself are part of the motion.

Max plausible change of a measured joint position between two measurements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.kernels.cycle_code import cycle_part
from motion_nodes.tolerances import MEASURED_NOISE
from motion_nodes.typing import Array, Mask

if TYPE_CHECKING:
    from motion_nodes.core.robot.tree import KinematicTree

TURN = 2.0 * math.pi
"""[rad]"""
HALF_TURN_ROUNDING = 1e-9
"""Excess over half a turn up to which positions stay as they are [rad]."""
_PRISMATIC = 2
"""Kind of a prismatic joint in a packed tree."""
SPEED_FACTOR = 2.0
"""Max measured velocity as a multiple of the velocity limit."""
LATENESS = 0.05
"""Max delay of a message [s]."""


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


def max_plausible_step(max_velocity: Array, dt: Array | float) -> Array:
    """Return the max plausible change of joint positions between two measurements.

    Args:
        max_velocity: velocity limits [rad/s or m/s], shape (n,); infinite if unlimited.
        dt: time between the measurements [s], scalar or shape (n,).

    Returns:
        Max changes [rad or m], shape (n,).
    """
    return MEASURED_NOISE + SPEED_FACTOR * max_velocity * (dt + LATENESS)
