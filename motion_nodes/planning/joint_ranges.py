# SPDX-License-Identifier: Apache-2.0
"""Joint ranges at a goal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.limits import LIMIT_ROUNDING
from motion_nodes.planning.planning_problem import JointGoal
from motion_nodes.planning.start_state import configuration
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.typing import Array

ROUNDING = 1e-6
"""Width below which a range is one position [rad or m]."""


@dataclass(frozen=True, eq=False)
class JointRange:
    """Intersection of a goal's tolerances with the joint limits."""

    nominal: Array
    """The requested positions, clamped to the range, shape (n,) [rad or m]."""
    low: Array
    high: Array
    fault: str = ""
    """Why the range is empty; empty otherwise."""

    @property
    def wide(self) -> bool:
        """Whether it contains more than one configuration."""
        return bool((self.high - self.low > ROUNDING).any())


def joint_range(checker: CollisionChecker, goal: JointGoal) -> JointRange:
    """Return the joint range of a goal.

    Raises:
        InvalidCommand: positions or tolerances of wrong length.
    """
    limits = checker.limits
    q = configuration(checker, goal.q, "a joint goal")
    if not np.isfinite(q).all():
        return JointRange(q, q, q, "the goal is not finite")
    try:
        tolerances = [np.asarray(x, np.float64) for x in (goal.below, goal.above)]
        below, above = (np.broadcast_to(np.abs(x), q.shape) for x in tolerances)
    except (TypeError, ValueError):
        raise InvalidCommand(
            f"tolerances of a joint goal must be one number, or {len(q)} values "
            f"({', '.join(checker.joint_names)}): {goal.below!r} and {goal.above!r}.",
            field="tolerances",
        ) from None
    low = np.maximum(q - below, limits.lower)
    high = np.minimum(q + above, limits.upper)
    if (low > high + LIMIT_ROUNDING).any() or not np.isfinite(below + above).all():
        wrong = "; ".join(limits.violations(q)) or "a tolerance is not finite"
        return JointRange(q, q, q, f"the goal is outside the limits: {wrong}")
    low, high = limits.clip(np.minimum(low, high)), limits.clip(np.maximum(low, high))
    # Within rounding of a limit the goal is clamped; otherwise it is kept exactly.
    return JointRange(limits.clip(np.clip(q, low, high)), low, high)


def in_words(checker: CollisionChecker, room: JointRange) -> str:
    """Return the joints whose range is smaller than their limits, as text."""
    limits = checker.limits
    held = (room.low > limits.lower + ROUNDING) | (room.high < limits.upper - ROUNDING)
    texts = [
        f"{name} in [{low:.4g}, {high:.4g}]"
        for name, low, high, less in zip(
            checker.joint_names, room.low, room.high, held, strict=True
        )
        if less
    ]
    return ", ".join(texts)
