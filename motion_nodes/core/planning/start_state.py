# SPDX-License-Identifier: Apache-2.0
"""Validation of start states, with reasons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.planning.planning_problem import PlanStatus
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array

START_TOLERANCE = 0.01
"""Max measured violation of a joint limit; planning starts at the limit [rad or m]."""


@dataclass(frozen=True, eq=False)
class Checked:
    """A valid configuration, or why it is invalid."""

    q: Array
    """Within the limits, shape (n,)."""
    status: PlanStatus | None = None
    """None: valid."""
    reason: str = ""
    clipped: float = 0.0
    """Max limit violation [rad or m]."""


def check_start(
    checker: CollisionChecker, start: ArrayLike, tolerance: float = START_TOLERANCE
) -> Checked:
    """Return the configuration from which to plan.

    Args:
        checker: robot and scene.
        start: current joint positions [rad or m], shape (n,).
        tolerance: max limit violation that is clamped [rad or m].

    Raises:
        InvalidCommand: wrong length.
    """
    q = configuration(checker, start, "the start")
    inside, clipped = q, 0.0
    if not checker.limits.within(q):
        if not np.isfinite(q).all():
            bad = [n for n, x in zip(checker.joint_names, q, strict=True) if not np.isfinite(x)]
            reason = f"the start is unknown: no finite value of {', '.join(bad)}"
            return Checked(q, PlanStatus.START_OUTSIDE_LIMITS, reason)
        wrong = checker.limits.violations(q, tolerance)
        if wrong:
            reason = f"the start is outside the limits: {'; '.join(wrong)}"
            return Checked(q, PlanStatus.START_OUTSIDE_LIMITS, reason)
        inside = checker.limits.clip(q)
        clipped = float(np.abs(inside - q).max(initial=0.0))
    if not checker.exact.is_free(inside):
        return _in_collision(checker, inside, clipped)
    return Checked(inside, clipped=clipped)


def check_search_start(checker: CollisionChecker, start: ArrayLike) -> Checked:
    """Return the configuration, shape (n,), from which to search; its spheres must be free, too.

    Raises:
        InvalidCommand: wrong length.
    """
    begin = check_start(checker, start)
    if begin.status is None and not checker.is_free(begin.q):
        return _in_collision(checker, begin.q, begin.clipped)
    return begin


def _in_collision(checker: CollisionChecker, q: Array, clipped: float) -> Checked:
    reason = f"the start is in collision: {in_words(checker, q)}"
    return Checked(q, PlanStatus.START_IN_COLLISION, reason, clipped)


def check_initial_end(
    checker: CollisionChecker,
    start: ArrayLike,
    end: ArrayLike,
    tolerance: float = START_TOLERANCE,
) -> tuple[str, ...]:
    """Return the faults of start and end of a motion, as text; empty without any.

    Args:
        checker: robot and scene.
        start: joint positions [rad or m], shape (n,).
        end: joint positions [rad or m], shape (n,).
        tolerance: max limit violation that is accepted [rad or m].

    Raises:
        InvalidCommand: wrong lengths.
    """
    first, last = check_start(checker, start, tolerance), check_start(checker, end, tolerance)
    return tuple(
        reason for reason in (first.reason, last.reason.replace("the start", "the end")) if reason
    )


def in_words(checker: CollisionChecker, q: Array) -> str:
    """Return the faults of a configuration, shape (n,): the worst first, at most three.

    Sphere collisions are reported only if the exact geometry is collision-free.
    """
    texts = checker.exact.problems(q)
    if not texts:
        texts = tuple(f"{words} (by collision spheres)" for words in checker.problems(q))
    more = f" and {len(texts) - 3} more" if len(texts) > 3 else ""
    return "; ".join(texts[:3]) + more


def configuration(checker: CollisionChecker, q: ArrayLike, what: str) -> Array:
    """Return joint positions as a new array, shape (n,); they need not be finite.

    Raises:
        InvalidCommand: wrong length.
    """
    names = checker.joint_names
    try:
        values = np.array(q, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (len(names),):
        raise InvalidCommand(
            f"{what} must be {len(names)} joint values ({', '.join(names)}): {q!r}.", field=what
        )
    return values
