# SPDX-License-Identifier: Apache-2.0
"""Planning requests and results; the interface of planners."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import ArrayLike

from motion_nodes.core.ik.problem import IkTolerance
from motion_nodes.core.planning.constrained.path_constraints import PathConstraint
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.trajectory.figures import trajectory_figure
from motion_nodes.core.trajectory.joint_path import JointPath
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.core.trajectory.timed_path import TimedPath
from motion_nodes.errors import InvalidCommand
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
