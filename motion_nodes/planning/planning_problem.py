# SPDX-License-Identifier: Apache-2.0
"""What planners are asked and what they answer; the interface they all share."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from numpy.typing import ArrayLike

from motion_nodes.ik.problem import IkTolerance
from motion_nodes.model.tree import Array
from motion_nodes.scene.checker import CollisionChecker


@dataclass(frozen=True, eq=False)
class JointGoal:
    """Joint values to get to."""

    q: ArrayLike
    """Shape (n,), in the order of the request's checker [rad or m]."""
    below: ArrayLike | float = 0.0
    """How far below each joint may end [rad or m]."""
    above: ArrayLike | float = 0.0
    """How far above each joint may end [rad or m]."""


@dataclass(frozen=True, eq=False)
class PoseGoal:
    """A pose, or only a position or an orientation, for a link to get to."""

    link: str
    """Name of the link."""
    X_BT: ArrayLike
    """Pose in the robot's base, shape (4, 4)."""
    tolerance: IkTolerance = field(default_factory=IkTolerance)
    """What counts as there, per axis or as a length; an infinite one means it does not matter."""
    X_LT: ArrayLike | None = None
    """The point of the link that is meant, in the link's frame; None: its origin."""
    joints: JointGoal | None = None
    """Where the joints are to be, too; they are held, the pose is looked for."""


Goal = JointGoal | PoseGoal


class PlanStatus(enum.Enum):
    """How planning ended."""

    SOLVED = "solved"
    NO_GOAL = "no goal"
    """Nothing was asked for."""
    START_IN_COLLISION = "start in collision"
    START_OUTSIDE_LIMITS = "start outside limits"
    GOAL_IN_COLLISION = "goal in collision"
    """Each configuration that fulfils a goal collides."""
    GOAL_OUTSIDE_LIMITS = "goal outside limits"
    GOAL_UNREACHABLE = "goal unreachable"
    """No configuration was found that fulfils a goal."""
    TIMED_OUT = "timed out"
    ITERATION_LIMIT = "iteration limit"
    CANCELLED = "cancelled"
    BLOCKED = "blocked"
    """The straight way is blocked, and no other was asked for."""
    INVALID_PATH = "invalid path"
    """The independent check refused what a planner had found; that is a fault of ours."""


@dataclass(frozen=True, eq=False)
class PlanRequest:
    """From where to where, in which world, and how long it may take."""

    checker: CollisionChecker
    """Robot, joints and scene; its joints give the order of all configurations."""
    start: ArrayLike
    """Joint values now, shape (n,)."""
    goals: tuple[Goal, ...]
    """Alternatives: any of them will do."""
    timeout: float = 5.0
    """Greatest duration of planning [s]."""
    random_seed: int = 123456
    """Equal seeds, requests and settings give equal paths (where no deadline cuts in)."""
    cancelled: Callable[[], bool] = lambda: False
    """Asked every few milliseconds; True ends planning."""


@dataclass(frozen=True, eq=False)
class PlanResult:
    """What planning found."""

    status: PlanStatus
    path: Array | None
    """Waypoints joined by straight lines, shape (k, n), from start to goal, or None."""
    reason: str = ""
    """For a person: why there is no path; empty if there is one."""
    planner: str = ""
    """Name of the planner that answered."""
    iterations: int = 0
    """Extensions tried."""
    tree_sizes: tuple[int, int] = (0, 0)
    """Nodes of the trees from start and goal."""
    cost: float = float("inf")
    """Length of the path in the planner's metric [rad, weighted]."""
    search_time: float = 0.0
    """Duration of the search alone [s]."""
    time: float = 0.0
    """Duration in all: goals, search, shortening, checks [s]."""
    goal_index: int | None = None
    """Which of the goals was reached."""

    @property
    def success(self) -> bool:
        """Whether there is a path."""
        return self.status is PlanStatus.SOLVED


class Planner(Protocol):
    """What every planner offers; made by :func:`motion_nodes.planning.planners.make_planner`."""

    name: str

    def plan(self, request: PlanRequest) -> PlanResult:
        """Search a path; never raises for a request that is well formed."""
