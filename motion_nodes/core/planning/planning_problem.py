# SPDX-License-Identifier: Apache-2.0
"""Planning problems: joint space, goals, requests and results; valid starts; planners."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.ik.problem import IkTolerance
from motion_nodes.core.planning.path_constraints import PathConstraint
from motion_nodes.core.robot.limits import JointTurns
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import JointKind, frozen
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.trajectory.figures import trajectory_figure
from motion_nodes.core.trajectory.joint_path import JointPath
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.core.trajectory.timed_path import TimedPath
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.tolerances import LIMIT_ROUNDING, POSITION_ROUNDING
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.core.planning.tree_search import SearchTree


@dataclass(frozen=True, eq=False)
class JointGoal:
    """Joint positions to reach."""

    q: ArrayLike
    """Shape (n,), in the order of the request's checker [rad or m]."""
    below: ArrayLike | float = 0.0
    """Tolerance below each joint position [rad or m]."""
    above: ArrayLike | float = 0.0
    """Tolerance above each joint position [rad or m]."""

    @property
    def exact(self) -> bool:
        """Whether it is one configuration, without tolerances."""
        return all(isinstance(x, float) and x == 0.0 for x in (self.below, self.above))

    def range_in(self, checker: CollisionChecker) -> JointRange:
        """Return the intersection of the tolerances with the joint limits.

        Args:
            checker: its joints, in the order of the positions.

        Raises:
            InvalidCommand: positions or tolerances of wrong length.
        """
        limits = checker.limits
        q = configuration(checker, self.q, "a joint goal")
        if not np.isfinite(q).all():
            return JointRange(q, q, q, "the goal is not finite")
        try:
            tolerances = [np.asarray(x, np.float64) for x in (self.below, self.above)]
            below, above = (np.broadcast_to(np.abs(x), q.shape) for x in tolerances)
        except (TypeError, ValueError):
            raise InvalidCommand(
                f"tolerances of a joint goal must be one number, or {len(q)} values "
                f"({', '.join(checker.joint_names)}): {self.below!r} and {self.above!r}.",
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


@dataclass(frozen=True, eq=False)
class PoseGoal:
    """A pose of a link, or only its position or orientation."""

    link: str
    """Name of the link."""
    X_BT: ArrayLike
    """Pose in the robot's base, shape (4, 4)."""
    tolerance: IkTolerance = field(default_factory=IkTolerance)
    """Tolerance per axis or of the norm; infinite: unconstrained."""
    X_LT: ArrayLike | None = None
    """The goal frame in the link; None: its origin."""
    joints: JointGoal | None = None
    """Additional joint constraints."""


@dataclass(frozen=True, eq=False)
class PosesGoal:
    """Poses of several links at once, such as of the tools of two arms."""

    poses: tuple[PoseGoal, ...]
    """The poses, all reached at once; their own joint constraints are not used."""
    joints: JointGoal | None = None
    """Additional joint constraints."""

    def __post_init__(self) -> None:
        """Validate that there is a pose."""
        if not self.poses:
            raise InvalidCommand("a goal of several poses must contain at least one pose.")

    @property
    def label(self) -> str:
        """Name for messages."""
        return f"the goal of {' and '.join(pose.link for pose in self.poses)}"


Goal = JointGoal | PoseGoal | PosesGoal


class PlanStatus(enum.Enum):
    """Outcome of planning."""

    SOLVED = "solved"
    NO_GOAL = "no goal"
    """The request has no goal."""
    START_IN_COLLISION = "start in collision"
    START_OUTSIDE_LIMITS = "start outside limits"
    START_VIOLATES_CONSTRAINTS = "start violates path constraints"
    GOAL_IN_COLLISION = "goal in collision"
    """Every configuration that satisfies a goal is in collision."""
    GOAL_OUTSIDE_LIMITS = "goal outside limits"
    GOAL_VIOLATES_CONSTRAINTS = "goal violates path constraints"
    GOAL_UNREACHABLE = "goal unreachable"
    """No configuration that satisfies a goal was found."""
    TIMED_OUT = "timed out"
    ITERATION_LIMIT = "iteration limit"
    CANCELLED = "cancelled"
    BLOCKED = "blocked"
    """The straight line is blocked, and the planner does not search further."""
    INVALID_PATH = "invalid path"
    """Verification rejected the planner's path; an internal error."""


@dataclass(frozen=True, eq=False)
class PlanRequest:
    """Start, goals, scene and timeout."""

    checker: CollisionChecker
    """Robot, joints and scene; its joints define the order of all configurations."""
    start: ArrayLike
    """Current joint positions [rad or m], shape (n,)."""
    goals: tuple[Goal, ...]
    """Alternative goals."""
    timeout: float = 5.0
    """Max duration of planning [s]."""
    random_seed: int = 123456
    """Equal seeds, requests and settings give equal paths (unless a timeout expires)."""
    cancelled: Callable[[], bool] = lambda: False
    """Polled every few milliseconds; True cancels planning."""
    constraints: tuple[PathConstraint, ...] = ()
    """Path constraints; every configuration of the path satisfies all of them."""

    def __post_init__(self) -> None:
        """Validate the timeout: a search until NaN would never end."""
        if math.isnan(self.timeout):
            raise InvalidCommand(f"the timeout of planning is {self.timeout} s.", field="timeout")


@dataclass(frozen=True, eq=False)
class PlanResult:
    """Result of planning."""

    status: PlanStatus
    path: Array | None
    """Waypoints joined by straight lines, shape (k, n), from start to goal, or None."""
    reason: str = ""
    """Why there is no path; empty on success."""
    planner: str = ""
    """Name of the planner."""
    iterations: int = 0
    """Number of extensions tried."""
    tree_sizes: tuple[int, int] = (0, 0)
    """Nodes of the trees from start and goal."""
    cost: float = float("inf")
    """Length of the path in the planner's metric [rad, weighted]."""
    search_time: float = 0.0
    """Duration of the search alone [s]."""
    time: float = 0.0
    """Total duration: goals, search, shortening, checks [s]."""
    goal_index: int | None = None
    """Index of the goal that was reached."""
    curve: JointPath | None = None
    """A smooth curve to execute instead of the path; the path then consists of points on it."""

    @property
    def success(self) -> bool:
        """Whether a path was found."""
        return self.status is PlanStatus.SOLVED


@dataclass(frozen=True)
class PlanStage:
    """One stage of the pipeline."""

    name: str
    """``path``, ``shorten``, ``retime``, ``sample`` or ``verify``."""
    time: float
    """Duration [s]."""
    words: str
    """Result as text."""


@dataclass(frozen=True, eq=False)
class MotionPlan:
    """Result of planning."""

    result: PlanResult
    """Status, path and statistics of the search; the motion follows its path."""
    trajectory: JointTrajectory | None
    """Sampled trajectory from rest to rest, or None."""
    motion: TimedPath | None
    """The same as an exact function of time."""
    stages: tuple[PlanStage, ...]
    """In order of execution, including unsuccessful searches."""
    notes: tuple[str, ...]
    """Notes for the client, e.g. that another planner was used."""
    time: float
    """Total duration [s]."""
    tree: SearchTree | None = None
    """Tree of the successful search, for visualization; None for planners without one."""
    recovery: JointTrajectory | None = None
    """Slow motion from an invalid start to a valid one; path and trajectory begin with it,
    ``motion`` begins after it. None: the start was valid."""

    def __repr__(self) -> str:
        """Return status, length, waypoints and planning time, or the reason of the failure."""
        facts = [self.status.value]
        if self.trajectory is not None:
            waypoints = 0 if self.path is None else len(self.path)
            facts.append(f"{self.duration:.4g} s long, {waypoints} waypoints")
        facts.append(f"planned in {1e3 * self.time:.1f} ms")
        return f"MotionPlan({', '.join([*facts, *filter(None, [self.reason])])})"

    @property
    def duration(self) -> float:
        """Duration of the motion [s]; NaN without one. ``time`` is that of planning."""
        return math.nan if self.trajectory is None else self.trajectory.duration

    def plot(self, *, svg: bool | None = None) -> Any:
        """Plot the motion over time.

        Args:
            svg: whether to draw SVG; None: only where Matplotlib is missing.

        Returns:
            As :meth:`JointTrajectory.plot`.

        Raises:
            InvalidCommand: there is no motion; names the reason.
        """
        return trajectory_figure(self._found(), repr(self), svg)

    def save(self, path: str | Path) -> None:
        """Write the trajectory to a file, which ``motion_nodes.load`` reads.

        Args:
            path: ``.csv``, ``.json``, ``.npz`` or ``.mcap``; see :meth:`JointTrajectory.save`.

        Raises:
            InvalidCommand: there is no motion; names the reason.
            InvalidConfig: another suffix, or the file cannot be written.
        """
        self._found().save(path)

    def show(self, robot: Any) -> Any:
        """Show the motion in the browser.

        Args:
            robot: a :class:`.RobotModel` or :class:`.JointGroup`.

        Returns:
            The page; see ``RobotModel.show``.

        Raises:
            InvalidCommand: there is no motion; names the reason.
        """
        return robot.show(self._found())

    def _found(self) -> JointTrajectory:
        if self.trajectory is None:
            raise InvalidCommand(f"there is no motion: {self.reason}", field="trajectory")
        return self.trajectory

    @property
    def success(self) -> bool:
        """Whether a motion was found."""
        return self.result.success

    @property
    def status(self) -> PlanStatus:
        """Status of planning."""
        return self.result.status

    @property
    def reason(self) -> str:
        """Why there is no motion; empty on success."""
        return self.result.reason

    @property
    def path(self) -> Array | None:
        """Waypoints joined by straight lines, shape (k, n), or None."""
        return self.result.path


class Planner(Protocol):
    """Interface of planners; created by :func:`.planners.make_planner`."""

    name: str

    def plan(self, request: PlanRequest) -> PlanResult:
        """Search a path; never raises for a well-formed request."""


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


def range_words(checker: CollisionChecker, room: JointRange) -> str:
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
