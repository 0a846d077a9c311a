# SPDX-License-Identifier: Apache-2.0
"""Why a joint goal may be out of reach of every search: a value that a joint cannot pass.

The shoulder of an arm with a range of a turn to either side cannot move its upper arm through the
floor: a goal beyond is valid, but unreachable. Such values are found by samples of the other
joints, which is evidence and no proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.typing import Array

VALUES, OTHERS = 32, 24
"""Values of a joint that are checked, and positions of the other joints for each."""
_FAR = 0.3
"""[rad or m] Joints that move less are not checked."""


def separation(checker: CollisionChecker, start: Array, goal: Array) -> str:
    """Return which joint cannot pass which value on any way, as text; empty if none is found.

    Args:
        checker: robot, joints and scene.
        start: positions, shape (n,) [rad or m].
        goal: positions, shape (n,) [rad or m].
    """
    for i in np.argsort(-np.abs(goal - start)).tolist():
        found = _blocked(checker, i, float(start[i]), float(goal[i]))
        if found is None:
            continue
        value, (first, second) = found
        name = checker.joint_names[i]
        text = (
            f"{name} would have to pass {value:.2f}, where {first} and {second} collide at all of "
            f"{OTHERS} random positions of the other joints"
        )
        for other in (goal[i] - math.tau, goal[i] + math.tau):
            within = checker.limits.lower[i] <= other <= checker.limits.upper[i]
            if within and _blocked(checker, i, float(start[i]), float(other)) is None:
                return f"{text}; {other:.4g} is the same angle on this side"
        return text
    return ""


def _blocked(
    checker: CollisionChecker, joint: int, start: float, goal: float
) -> tuple[float, Sequence[str]] | None:
    """Return a value between two at which one pair of bodies always collides, and the pair.

    Of several values the middle one.
    """
    if abs(goal - start) < _FAR or not np.isfinite(checker.limits.upper[joint]):
        return None
    lower, upper = checker.limits.lower, checker.limits.upper
    bounded = np.isfinite(upper - lower)
    rng = np.random.default_rng(0)
    low, high = np.where(bounded, lower, -np.pi), np.where(bounded, upper, np.pi)
    others = rng.uniform(low, high, (OTHERS, len(low)))
    blocked: list[tuple[float, tuple[str, ...]]] = []
    for value in np.linspace(start, goal, VALUES + 2)[1:-1].tolist():
        others[:, joint] = value
        if checker.are_free(others).any():
            continue
        always: set[tuple[str, ...]] | None = None
        for q in others:
            pairs = {tuple(c.pair) for c in checker.explain(q) if c.kind != "limit"}
            always = pairs if always is None else always & pairs
            if not always:
                break
        if always and not any(checker.exact.is_free(q) for q in others):
            blocked.append((value, min(always)))
    return blocked[len(blocked) // 2] if blocked else None
