# SPDX-License-Identifier: Apache-2.0
"""Validity of IK solutions: joint constraints and collisions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moveit_msgs.msg import MoveItErrorCodes

from motion_nodes.ik.problem import Validity
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array
from motion_nodes.nodes.kinematics.state_checks import in_words
from motion_nodes.ros.messages.goal_constraints import of_leaders
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.scene.checker import CollisionChecker

Codes = MoveItErrorCodes
ValidityFactory = Callable[[Sequence[str]], Validity | None]
"""Creates the validity check for the joints of a solution, in their order; None: all are valid."""

MAX_DESCRIBED = 4
"""Max number of rejected configurations whose contacts are described."""


def supported(constraints: Any, robot: Robot) -> Sequence[Any]:
    """Return the joint constraints of moveit_msgs/Constraints, the only supported kind.

    Those of mimic joints are converted to constraints of their leaders.

    Raises:
        RequestRejected: constraints of another kind, or that contradict each other.
    """
    for kind in ("position", "orientation", "visibility"):
        if getattr(constraints, f"{kind}_constraints"):
            raise RequestRejected(
                Codes.INVALID_GOAL_CONSTRAINTS,
                f"{kind} constraints are not supported here; only joint constraints are",
            )
    return of_leaders(constraints.joint_constraints, robot)


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
    constraints: Any, robot: Robot, positions: Mapping[str, float]
) -> ValidityFactory:
    """Return the check of joint constraints.

    Args:
        constraints: moveit_msgs/Constraints of the request.
        robot: the robot.
        positions: of all joints [rad or m], for those that are not solved for.

    Raises:
        RequestRejected: constraints of another kind, or an invalid one.
    """
    joint_constraints = supported(constraints, robot)
    for constraint in joint_constraints:
        violation(constraint, positions)

    def check_for(names: Sequence[str]) -> Validity | None:
        def check(q: Array) -> bool | str:
            values = {**positions, **dict(zip(names, q.tolist(), strict=True))}
            for constraint in joint_constraints:
                name = constraint.joint_name
                if violation(constraint, values) > 0.0:
                    return f"{name} at {values[name]:.4f} violates its joint constraint"
            return True

        return check if joint_constraints else None

    return check_for


def violation(constraint: Any, values: Mapping[str, float]) -> float:
    """Return the distance of a joint outside its constraint [rad or m]; 0 or less inside.

    Args:
        constraint: moveit_msgs/JointConstraint.
        values: joint positions by name [rad or m].

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
    error = values[name] - constraint.position
    return float(max(error - constraint.tolerance_above, -error - constraint.tolerance_below))
