# SPDX-License-Identifier: Apache-2.0
"""Validity of IK solutions: joint constraints and collisions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moveit_msgs.msg import MoveItErrorCodes

from motion_nodes.ik.problem import Validity
from motion_nodes.model.limits import JointLimits, joint_indices
from motion_nodes.model.tree import Array
from motion_nodes.nodes.kinematics.state_checks import in_words
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.scene.checker import CollisionChecker

Codes = MoveItErrorCodes
ValidityFactory = Callable[[Sequence[str]], Validity | None]
"""Creates the validity check for the joints of a solution, in their order; None: all are valid."""

ROUNDING = 1e-9
"""Distance outside a constraint that is rounding [rad or m]."""
MAX_DESCRIBED = 4
"""Max number of rejected configurations whose contacts are described."""


def supported(constraints: Any) -> Sequence[Any]:
    """Return the joint constraints of moveit_msgs/Constraints, the only supported kind.

    Raises:
        RequestRejected: constraints of another kind.
    """
    for kind in ("position", "orientation", "visibility"):
        if getattr(constraints, f"{kind}_constraints"):
            raise RequestRejected(
                Codes.INVALID_GOAL_CONSTRAINTS,
                f"{kind} constraints are not supported here; only joint constraints are",
            )
    return list(constraints.joint_constraints)


class CollisionValidity:
    """Rejects configurations in collision, by the exact geometry."""

    def __init__(self, checker: CollisionChecker, joints: Sequence[str], q: Array) -> None:
        """Create a check.

        Args:
            checker: of all joints.
            joints: all joints, in the order of ``q``.
            q: positions of the joints that are not solved for [rad or m], shape (n,).
        """
        self._checker = checker
        self._joints = list(joints)
        self._q = q.copy()
        self._rejected: list[Array] = []

    @property
    def rejected(self) -> bool:
        """Whether any configuration was rejected."""
        return bool(self._rejected)

    def describe(self) -> str:
        """Return the pairs in contact in the first rejected configurations.

        Much slower than a check; for failures only.
        """
        texts: dict[str, None] = {}
        for q in self._rejected[:MAX_DESCRIBED]:
            contacts = [c for c in self._checker.exact.explain(q) if c.kind != "limit"]
            # The fast check may reject pairs at a distance of about zero.
            text = in_words(contacts[0]) if contacts else "the robot is nearly in contact"
            texts[text] = None
        return ", ".join(texts)

    def check_for(self, names: Sequence[str]) -> Validity:
        """Return the check of solutions for some joints; a :data:`ValidityFactory`."""
        columns = [self._joints.index(name) for name in names]

        def check(solution: Array) -> bool | str:
            self._q[columns] = solution
            if self._checker.exact.is_free(self._q):
                return True
            self._rejected.append(self._q.copy())
            return "in collision"

        return check


def all_of(factories: Sequence[ValidityFactory]) -> ValidityFactory:
    """Return the conjunction of several checks; the first rejection is reported."""

    def check_for(names: Sequence[str]) -> Validity | None:
        made = [factory(names) for factory in factories]
        checks = [each for each in made if each is not None]

        def check(q: Array) -> bool | str:
            results = (each(q) for each in checks)
            return next((result for result in results if result is not True), True)

        return check if checks else None

    return check_for


def constraint_validity(
    constraints: Any, positions: Mapping[str, float], limits: JointLimits
) -> ValidityFactory:
    """Return the check of joint constraints.

    Args:
        constraints: moveit_msgs/Constraints of the request.
        positions: of all joints [rad or m], for those that are not solved for.
        limits: of all joints.

    Raises:
        RequestRejected: constraints of another kind, or an invalid one.
    """
    joint_constraints = supported(constraints)
    for constraint in joint_constraints:
        violation(constraint, positions, limits)

    def check_for(names: Sequence[str]) -> Validity | None:
        def check(q: Array) -> bool | str:
            values = {**positions, **dict(zip(names, q.tolist(), strict=True))}
            for constraint in joint_constraints:
                name = constraint.joint_name
                if violation(constraint, values, limits) > 0.0:
                    return f"{name} at {values[name]:.4f} violates its joint constraint"
            return True

        return check if joint_constraints else None

    return check_for


def violation(constraint: Any, values: Mapping[str, float], limits: JointLimits) -> float:
    """Return the distance of a joint outside its constraint [rad or m]; 0 or less inside.

    Args:
        constraint: moveit_msgs/JointConstraint.
        values: joint positions by name [rad or m].
        limits: of these joints; positions of continuous ones are equal modulo a turn.

    Raises:
        RequestRejected: an unknown joint, or numbers that are not finite.
    """
    name = constraint.joint_name
    if name not in values:
        raise RequestRejected(
            Codes.INVALID_GOAL_CONSTRAINTS,
            f"unknown joint '{name}' in a joint constraint; allowed: {', '.join(values)}",
        )
    numbers = (constraint.position, constraint.tolerance_above, constraint.tolerance_below)
    if not all(map(math.isfinite, numbers)):
        raise RequestRejected(
            Codes.INVALID_GOAL_CONSTRAINTS,
            f"the constraint of joint '{name}' has numbers that are not finite: {numbers}",
        )
    lower = constraint.position - constraint.tolerance_below
    upper = constraint.position + constraint.tolerance_above
    turns = limits.turns.select(joint_indices([name], limits.names))
    excess = float(turns.excess([values[name]], [lower], [upper])[0])
    return 0.0 if 0.0 < excess <= ROUNDING else excess
