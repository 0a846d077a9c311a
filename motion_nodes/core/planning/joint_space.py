# SPDX-License-Identifier: Apache-2.0
"""Joint space of planning: joints, limits, continuous joints, metric.

Joint ranges at a goal.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.planning.planning_problem import JointGoal
from motion_nodes.core.planning.start_state import configuration
from motion_nodes.core.robot.joint_turns import TURN as TURN
from motion_nodes.core.robot.joint_turns import JointTurns
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import JointKind, frozen
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.tolerances import LIMIT_ROUNDING, POSITION_ROUNDING
from motion_nodes.typing import Array


@dataclass(frozen=True, eq=False)
class JointSpace:
    """n joints; all arrays have shape (n,), configurations shape (..., n) [rad or m]."""

    names: tuple[str, ...]
    lower: Array
    """Lower limits, -inf for none."""
    upper: Array
    """Upper limits, inf for none."""
    wraps: NDArray[np.bool_]
    """Which joints are continuous, so that a full turn does not change the pose."""
    prismatic: NDArray[np.bool_]
    """Which joints are prismatic, so that their positions are metres."""
    weights: Array = field(default_factory=lambda: np.empty(0))
    """Joint weights in distances; default: 1 each."""
    bounded: bool = field(init=False, default=False)
    """Whether each joint has two limits and none is continuous."""

    def __post_init__(self) -> None:
        """Validate the numbers, make the arrays read-only."""
        n = len(self.names)
        weights = np.ones(n) if np.size(self.weights) == 0 else np.asarray(self.weights, float)
        if weights.shape != (n,) or not (np.isfinite(weights) & (weights > 0.0)).all():
            raise InvalidConfig(
                f"weights of joint distances must be {n} finite numbers above 0 "
                f"({', '.join(self.names)}), got {self.weights!r}.",
                field="weights",
            )
        object.__setattr__(self, "weights", frozen(weights))
        for name in ("lower", "upper"):
            object.__setattr__(self, name, frozen(getattr(self, name), (n,)))

        ends = np.isfinite(self.lower).all() and np.isfinite(self.upper).all()
        object.__setattr__(self, "bounded", bool(ends) and not self.wraps.any())

    @classmethod
    def of_robot(
        cls, robot: Robot, joints: Sequence[str], weights: ArrayLike | None = None
    ) -> JointSpace:
        """Return the space of some of a robot's joints.

        Raises:
            UnknownJoint: a joint that the robot does not have.
            InvalidConfig: weights of wrong length or sign.
        """
        given = () if weights is None else tuple(np.ravel(np.asarray(weights, float)).tolist())
        return _space(robot, tuple(joints), given)

    @functools.cached_property
    def turns(self) -> JointTurns:
        """Differences of positions of these joints."""
        return JointTurns(self.wraps)

    @functools.cached_property
    def diagonal(self) -> float:
        """Weighted distance between the lower and the upper limits; inf without limits."""
        return float(np.linalg.norm((self.upper - self.lower) * self.weights))

    def difference(self, a: ArrayLike, b: ArrayLike) -> Array:
        """Return the displacement from a to b [rad or m], the shorter one if continuous, (..., n).

        Of two equally short half turns the positive one is returned.
        """
        return self.turns.difference(a, b)

    def distance(self, a: ArrayLike, b: ArrayLike, norm: float = 2.0) -> Array:
        """Return the p-norm of the weighted difference, shape (...)."""
        way = np.abs(self.difference(a, b)) * self.weights
        if math.isinf(norm):
            return np.asarray(way.max(axis=-1))
        if norm == 2.0:
            return np.asarray(np.sqrt((way * way).sum(axis=-1)))
        return np.asarray((way**norm).sum(axis=-1) ** (1.0 / norm))

    def length(self, path: ArrayLike, norm: float = 2.0) -> float:
        """Return the sum of the distances between waypoints, shape (k, n)."""
        points = np.asarray(path, np.float64)
        return float(self.distance(points[:-1], points[1:], norm).sum())

    def unwrapped(self, path: ArrayLike) -> Array:
        """Return waypoints [rad or m] unwrapped so that straight lines between them are the motion.

        Continuous joints are shifted by full turns; the first waypoint is unchanged, and so are all
        others if no joint is continuous.
        """
        return self.turns.unwrapped(path)

    def bounds(self, *points: ArrayLike) -> tuple[Array, Array]:
        """Return finite bounds for sampling [rad or m], shape (n,) each.

        A continuous joint is sampled within one turn; other unlimited joints within one radian or
        metre around the points.
        """
        if self.bounded:
            return self.lower, self.upper
        known = np.concatenate([np.atleast_2d(np.asarray(p, float)) for p in points])
        low = np.where(np.isinf(self.lower), known.min(axis=0) - 1.0, self.lower)
        high = np.where(np.isinf(self.upper), known.max(axis=0) + 1.0, self.upper)
        low, high = np.where(self.wraps, -math.pi, low), np.where(self.wraps, math.pi, high)
        return low, high

    def checked(self, q: ArrayLike, what: str) -> Array:
        """Return a validated copy of a configuration [rad or m], shape (n,).

        Raises:
            InvalidCommand: wrong length, or a value that is not finite.
        """
        return self._checked(q, what, 1)

    def checked_path(self, path: ArrayLike, what: str = "the path") -> Array:
        """Return a validated copy of waypoints, shape (k, n).

        Raises:
            InvalidCommand: no waypoint, wrong length, or a value that is not finite.
        """
        points = self._checked(path, what, 2)
        if not len(points):
            raise InvalidCommand(f"{what} has no waypoint.", field=what)
        return points

    def _checked(self, value: ArrayLike, what: str, dimensions: int) -> Array:
        try:
            array = np.array(value, dtype=np.float64, order="C")
        except (TypeError, ValueError):
            array = np.empty((0,) * 5)
        names = ", ".join(self.names)
        if array.ndim != dimensions or array.shape[-1] != len(self.names):
            rows = "rows of " if dimensions == 2 else ""
            raise InvalidCommand(
                f"{what} must be {rows}{len(self.names)} joint values ({names}), got {value!r}.",
                field=what,
            )
        if not np.isfinite(array).all():
            raise InvalidCommand(
                f"{what} holds numbers that are not finite: {array.tolist()} ({names}).", field=what
            )
        return array


@functools.lru_cache(maxsize=64)
def _space(robot: Robot, joints: tuple[str, ...], weights: tuple[float, ...]) -> JointSpace:
    """Return the space of some joints: each plan needs it several times."""
    limits = robot.limits.select(joints)
    kinds = [robot.tree.joint(name).kind for name in joints]
    return JointSpace(
        joints,
        limits.lower,
        limits.upper,
        limits.continuous,
        np.array([k is JointKind.PRISMATIC for k in kinds], bool),
        np.array(weights),
    )


def travel_weights(checker: CollisionChecker) -> Array:
    """Return weights with which distances are how far the robot's spheres move, shape (n,).

    In this metric edges of equal length sweep equally far and need equally many checks, whichever
    joints they move; a metre of a prismatic joint counts like the radian that moves a sphere by a
    metre. The root mean square of the weights is 1.

    Args:
        checker: its steps are those of equal displacement.
    """
    rates = 1.0 / checker.resolution
    return np.asarray(rates / math.sqrt(float(np.mean(rates * rates))))


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
        return bool((self.high - self.low > POSITION_ROUNDING).any())


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
    held = (room.low > limits.lower + POSITION_ROUNDING) | (
        room.high < limits.upper - POSITION_ROUNDING
    )
    texts = [
        f"{name} in [{low:.4g}, {high:.4g}]"
        for name, low, high, less in zip(
            checker.joint_names, room.low, room.high, held, strict=True
        )
        if less
    ]
    return ", ".join(texts)
