# SPDX-License-Identifier: Apache-2.0
"""Where the joints may be at a goal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.model.tree import Array
from motion_nodes.planning.planning_problem import JointGoal
from motion_nodes.planning.start_state import configuration
from motion_nodes.scene.checker import CollisionChecker

ROUNDING = 1e-6
"""A joint goal without tolerance may be so far outside a limit; it is moved to it [rad or m]."""


@dataclass(frozen=True, eq=False)
class JointRange:
    """What the tolerances of a goal and the limits leave of each joint's range."""

    nominal: Array
    """The values asked for, or what is nearest to them, shape (n,) [rad or m]."""
    low: Array
    high: Array
    trouble: str = ""
    """Why nothing is left; empty otherwise."""

    @property
    def wide(self) -> bool:
        """Whether there is more than one configuration in it."""
        return bool((self.high - self.low > ROUNDING).any())


def joint_range(checker: CollisionChecker, goal: JointGoal) -> JointRange:
    """Return where a goal lets the joints be.

    Raises:
        InvalidCommand: values of wrong length.
    """
    limits = checker.limits
    q = configuration(checker, goal.q, "a joint goal")
    if not np.isfinite(q).all():
        return JointRange(q, q, q, "the goal is not finite")
    below, above = (np.broadcast_to(np.abs(x), q.shape) for x in (goal.below, goal.above))
    low = np.maximum(q - below, limits.lower)
    high = np.minimum(q + above, limits.upper)
    if (low > high + ROUNDING).any() or not np.isfinite(below + above).all():
        wrong = "; ".join(limits.violations(q)) or "a tolerance is not finite"
        return JointRange(q, q, q, f"the goal is outside the limits: {wrong}")
    low, high = np.minimum(low, high), np.maximum(low, high)
    # What is within rounding of a limit ends at it; else the goal is what was asked for to the bit.
    return JointRange(limits.clip(np.clip(q, low, high)), low, high)


def in_words(checker: CollisionChecker, room: JointRange) -> str:
    """Return those joints of a range that have less room than their limits give them."""
    limits = checker.limits
    held = (room.low > limits.lower + ROUNDING) | (room.high < limits.upper - ROUNDING)
    said = [
        f"{name} in [{low:.4g}, {high:.4g}]"
        for name, low, high, less in zip(
            checker.joint_names, room.low, room.high, held, strict=True
        )
        if less
    ]
    return ", ".join(said)
