# SPDX-License-Identifier: Apache-2.0
"""What joint values must fulfil besides reaching a pose: constraints, and no collisions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moveit_msgs.msg import MoveItErrorCodes

from motion_nodes.ik.problem import Validity
from motion_nodes.model.tree import Array
from motion_nodes.nodes.planner.state_checks import in_words
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.scene.checker import CollisionChecker

Codes = MoveItErrorCodes
Judging = Callable[[Sequence[str]], Validity | None]
"""Given the joints of a solution, makes what judges it."""

EXPLAINED = 4
"""So many refused configurations are told with a pair."""


def supported(constraints: Any) -> Sequence[Any]:
    """Return the joint constraints, the only ones that are understood.

    Raises:
        RequestRejected: for constraints of another kind, which must not be ignored.
    """
    for kind in ("position", "orientation", "visibility"):
        if getattr(constraints, f"{kind}_constraints"):
            raise RequestRejected(
                Codes.INVALID_GOAL_CONSTRAINTS,
                f"{kind} constraints are not understood here; only joint constraints are",
            )
    return list(constraints.joint_constraints)


class CollisionJudge:
    """Judges configurations by what the robot touches there with its true shapes."""

    def __init__(self, checker: CollisionChecker, joints: Sequence[str], q: Array) -> None:
        """Judge with a checker of all joints, those that are not solved for standing as in q."""
        self._checker = checker
        self._joints = list(joints)
        self._q = q.copy()
        self._refused: list[Array] = []

    @property
    def refused(self) -> bool:
        """Whether any configuration was refused."""
        return bool(self._refused)

    def words(self) -> str:
        """Return who touches whom in the first configurations that were refused.

        Asked only when there is no solution: to name pairs takes far longer than to check.
        """
        told: dict[str, None] = {}
        for q in self._refused[:EXPLAINED]:
            contacts = [c for c in self._checker.exact.explain(q) if c.kind != "limit"]
            # What is checked fast may take a touch of nothing for one.
            told[in_words(contacts[0]) if contacts else "the robot nearly touches something"] = None
        return ", ".join(told)

    def judge(self, names: Sequence[str]) -> Validity:
        """Return the check for the joints of a solution."""
        columns = [self._joints.index(name) for name in names]

        def check(solution: Array) -> bool | str:
            self._q[columns] = solution
            if self._checker.exact.is_free(self._q):
                return True
            self._refused.append(self._q.copy())
            return "in collision"

        return check


def all_of(judges: Sequence[Judging]) -> Judging:
    """Return what judges as several do, one after the other; the first refusal counts."""

    def judging(names: Sequence[str]) -> Validity | None:
        checks = [made for judge in judges if (made := judge(names)) is not None]

        def check(q: Array) -> bool | str:
            answers = (each(q) for each in checks)
            return next((answer for answer in answers if answer is not True), True)

        return check if checks else None

    return judging


def allowed(constraints: Any, everywhere: Mapping[str, float]) -> Judging:
    """Return what makes, for the joints of a solution, the check of joint constraints.

    Args:
        constraints: of the request.
        everywhere: where all joints are [rad or m]; those that are not solved for stay there.

    Raises:
        RequestRejected: for constraints of another kind, or of a joint that there is not.
    """
    wanted = supported(constraints)
    for constraint in wanted:
        beyond(constraint, everywhere)

    def check_for(names: Sequence[str]) -> Validity | None:
        def check(q: Array) -> bool | str:
            values = {**everywhere, **dict(zip(names, q.tolist(), strict=True))}
            for constraint in wanted:
                name = constraint.joint_name
                if beyond(constraint, values) > 0.0:
                    return f"{name} at {values[name]:.4f} breaks its constraint"
            return True

        return check if wanted else None

    return check_for


def beyond(constraint: Any, values: Mapping[str, float]) -> float:
    """Return how far a joint is beyond its constraint [rad or m]; 0 or less is inside.

    Raises:
        RequestRejected: for a joint that there is not, or numbers that are not finite.
    """
    name = constraint.joint_name
    if name not in values:
        raise RequestRejected(
            Codes.INVALID_GOAL_CONSTRAINTS,
            f"a constraint names joint '{name}'; there are: {', '.join(values)}",
        )
    numbers = (constraint.position, constraint.tolerance_above, constraint.tolerance_below)
    if not all(map(math.isfinite, numbers)):
        raise RequestRejected(
            Codes.INVALID_GOAL_CONSTRAINTS,
            f"the constraint of joint '{name}' holds numbers that are not finite: {numbers}",
        )
    off = values[name] - constraint.position
    return float(max(off - constraint.tolerance_above, -off - constraint.tolerance_below))
