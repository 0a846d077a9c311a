# SPDX-License-Identifier: Apache-2.0
"""Search of a path along a constraint manifold: its goal configurations, trees and shortening.

Goal configurations satisfy the constraints of the path, or the reason is reported. The pose of a
goal is a further task constraint: solutions of inverse kinematics, then random seeds, are projected
onto all constraints together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from motion_nodes.core.planning.constraint_set import ConstraintSet
from motion_nodes.core.planning.planning_problem import (
    Goal,
    JointGoal,
    JointSpace,
    PlanRequest,
    PlanResult,
    PlanStatus,
    PoseGoal,
    PosesGoal,
    check_search_start,
    configuration,
    in_words,
)
from motion_nodes.core.planning.several_poses import pose_sampler
from motion_nodes.core.planning.tree_search import (
    MAX_COUNT,
    MAX_NODES,
    GoalConfigurations,
    Growth,
    goal_configurations,
    kernel_space,
    new_tree,
)
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.kernels.bridges import Checker
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.kernels.search.classic_trees import TreeSpace
from motion_nodes.kernels.search.constrained_rrt import (
    ConstrainedSpace,
    grow_on_manifold,
    shorten_on_manifold,
    smooth_on_manifold,
)
from motion_nodes.settings import check_settings, setting
from motion_nodes.tolerances import DUPLICATE_GOALS
from motion_nodes.typing import Array

_GOALS = 8
"""Max number of configurations per goal."""
_SOLUTIONS = 12
"""Max number of solutions of inverse kinematics that are projected first."""
_SEEDS, _BATCHES = 32, 40
"""Number of seeds that are projected at once, and max number of such batches."""
_SHARE = 0.4
"""Max fraction of the planning time."""
_Found = tuple[list[Array], tuple[PlanStatus, str] | None]
NAME = "CBiRRT"
"""Name of the planner."""
START_TOLERANCE = 0.005
"""Max violation of a constraint by the start [m or rad]."""


def goals_on_manifold(
    request: PlanRequest, start: Array, constraints: ConstraintSet
) -> GoalConfigurations:
    """Return collision-free goal configurations that satisfy the constraints.

    Args:
        request: goals, checker and timeout.
        start: a seed, shape (n,).
        constraints: of the path.
    """
    end = compute_time() + _SHARE * request.timeout
    found: list[Array] = []
    index: list[int] = []
    faults: list[tuple[PlanStatus, str]] = []
    for number, goal in enumerate(request.goals):
        rng = np.random.default_rng([request.random_seed, number])
        Q, fault = _of_goal(request, goal, start, constraints, rng, end)
        found += Q
        index += [number] * len(Q)
        if fault is not None:
            faults.append(fault)
    if found:
        return GoalConfigurations(np.array(found), tuple(index))
    n = len(start)
    if not faults:
        return GoalConfigurations(np.empty((0, n)), (), PlanStatus.NO_GOAL, "no goal was given")
    reasons = "; ".join(dict.fromkeys(reason for _, reason in faults[:3]))
    return GoalConfigurations(np.empty((0, n)), (), faults[0][0], reasons)


def _of_goal(
    request: PlanRequest,
    goal: Goal,
    start: Array,
    constraints: ConstraintSet,
    rng: np.random.Generator,
    end: float,
) -> _Found:
    checker = request.checker
    if isinstance(goal, JointGoal) and goal.exact:
        return _exactly(request, goal, constraints)
    held = goal if isinstance(goal, JointGoal) else goal.joints
    low, high = constraints.joint_bounds
    if held is not None:
        q = constraints.in_turn(configuration(checker, held.q, "a joint goal"))
        room = replace(held, q=q).range_in(checker)
        if room.fault:
            return [], (PlanStatus.GOAL_OUTSIDE_LIMITS, room.fault)
        low, high = np.maximum(low, room.low), np.minimum(high, room.high)
        if (low > high).any():
            k = int(np.argmax(low - high))
            return [], (
                PlanStatus.GOAL_VIOLATES_CONSTRAINTS,
                f"the goal contradicts the path constraints: {checker.joint_names[k]} must be in "
                f"[{room.low[k]:.4g}, {room.high[k]:.4g}] at the goal",
            )
    both = constraints.with_goal(goal, low, high)
    seeds = _Seeds(start, low, high, rng)
    solutions = np.empty((0, len(start)))
    if not isinstance(goal, JointGoal):
        solutions = constraints.in_turn(_ik_solutions(request, goal, start, rng, end))
    found: list[Array] = []
    nearest, collision = None, ""
    for batch in range(_BATCHES):
        drawn = seeds.draw(_SEEDS) if batch else np.vstack([start, solutions])
        points, converged = both.projected(drawn)
        for q in points[converged]:
            if any(np.abs(q - known).max() < DUPLICATE_GOALS for known in found):
                continue
            if checker.is_free(q) and checker.exact.is_free(q):
                found.append(q)
            else:
                collision = collision or in_words(checker, q)
        if nearest is None or not converged.all():
            nearest = _nearest(both, points, nearest)
        if len(found) >= _GOALS or compute_time() > end or request.cancelled():
            break
    if found:
        return found[:_GOALS], None
    if collision:
        return [], (
            PlanStatus.GOAL_IN_COLLISION,
            f"every goal that satisfies the path constraints is in collision: {collision}",
        )
    return [], _why_none(request, goal, start, both, nearest)


def _ik_solutions(
    request: PlanRequest,
    goal: PoseGoal | PosesGoal,
    start: Array,
    rng: np.random.Generator,
    end: float,
) -> Array:
    """Return solutions of inverse kinematics as seeds, shape (m, n): random ones rarely converge.

    A solution may violate the path constraints, if the goal leaves room for them.
    """
    sampler, found = pose_sampler(request.checker, goal, start, rng), []
    for number in range(_SOLUTIONS):
        left = end - compute_time()
        if left <= 0.0 or sampler.impossible:
            break
        q = sampler.draw(first=number == 0, timeout=left)
        if q is not None:
            found.append(q)
    return np.array(found).reshape(-1, len(start))


def _exactly(request: PlanRequest, goal: JointGoal, constraints: ConstraintSet) -> _Found:
    """Return a joint goal without tolerance, if it satisfies everything."""
    checker = request.checker
    q = constraints.in_turn(checker.limits.settled(configuration(checker, goal.q, "a joint goal")))
    if not checker.limits.within(q):
        words = "; ".join(checker.limits.violations(q)) or "it is not finite"
        return [], (PlanStatus.GOAL_OUTSIDE_LIMITS, f"the goal is outside the limits: {words}")
    violated = constraints.in_words(q)
    if violated:
        return [], (
            PlanStatus.GOAL_VIOLATES_CONSTRAINTS,
            f"the goal violates the path constraints: {violated}",
        )
    if not (checker.is_free(q) and checker.exact.is_free(q)):
        words = f"the goal is in collision: {in_words(checker, q)}"
        return [], (PlanStatus.GOAL_IN_COLLISION, words)
    return [q], None


class _Seeds:
    """Random seeds, increasingly far from the start."""

    def __init__(self, start: Array, low: Array, high: Array, rng: np.random.Generator) -> None:
        self._low = np.where(np.isfinite(low), low, start - np.pi)
        self._high = np.where(np.isfinite(high), high, start + np.pi)
        self._start, self._rng, self._reach = start, rng, 0.0

    def draw(self, count: int) -> Array:
        """Return seeds, shape (count, n)."""
        drawn = self._rng.uniform(self._low, self._high, (count, len(self._low)))
        points = self._start + self._reach * (drawn - self._start)
        self._reach = min(1.0, self._reach + 0.2)
        return np.asarray(np.clip(points, self._low, self._high))


def _nearest(constraints: ConstraintSet, points: Array, before: Array | None) -> Array:
    """Return the configuration with the smallest violation."""
    candidates = points if before is None else np.vstack([points, before])
    return np.asarray(candidates[int(np.argmin(constraints.excess(candidates)))])


def _why_none(
    request: PlanRequest, goal: Goal, start: Array, both: ConstraintSet, nearest: Array | None
) -> tuple[PlanStatus, str]:
    """Return whether the goal alone is impossible, or contradicts the constraints, and how."""
    alone = PlanRequest(request.checker, start, (goal,), 1.0, request.random_seed)
    reachable = goal_configurations(alone, start)
    if reachable.status is not None:
        return reachable.status, reachable.reason
    words = "" if nearest is None else both.in_words(nearest)
    return (
        PlanStatus.GOAL_VIOLATES_CONSTRAINTS,
        f"the goal is reachable, but not with the path constraints; at the nearest "
        f"configuration found, {words}",
    )


@dataclass(frozen=True)
class ConstrainedSettings:
    """Settings of the constrained bidirectional RRT."""

    step_size: float = setting(0.1, doc="Max length of an edge.", unit="rad or m", gt=0.0, le=1.0)
    max_iterations: int = setting(100_000, doc="Max number of iterations.", ge=1, le=MAX_COUNT)
    max_nodes: int = setting(20_000, doc="Max number of nodes of each tree.", ge=100, le=MAX_NODES)
    shortening_tries: int = setting(150, doc="Number of attempted shortcuts.", ge=0, le=10_000)
    smoothing_rounds: int = setting(6, doc="Number of rounds of smoothing.", ge=0, le=1000)

    def __post_init__(self) -> None:
        check_settings(self)


class ConstrainedSearch:
    """Plans along the manifold of a constraint set, in one scene."""

    def __init__(
        self, checker: CollisionChecker, constraints: ConstraintSet, settings: ConstrainedSettings
    ) -> None:
        self._kernel = checker.kernel()  # keeps the memory at these addresses alive
        self._addresses = Checker(self._kernel.state, self._kernel.edge, self._kernel.memory)
        self._manifold, self._settings = constraints.manifold, settings
        self._bounds = constraints.joint_bounds
        self._space = JointSpace.of_robot(checker.robot, checker.joint_names)

    def search(self, request: PlanRequest, start: Array, goals: GoalConfigurations) -> PlanResult:
        """Search a path from a start to one of the goals; both satisfy the constraints.

        Args:
            request: timeout, seed and cancellation.
            start: collision-free, shape (n,).
            goals: collision-free.
        """
        began, settings = compute_time(), self._settings
        held = self._held(kernel_space(self._space, start, goals.Q))
        first = new_tree(start, settings.max_nodes, request.random_seed)
        second = new_tree(goals.Q[0], settings.max_nodes, request.random_seed)
        count = len(goals.Q)
        second.nodes[:count], second.parent[:count], second.count[0] = goals.Q, -1, count
        met = np.zeros(2, np.int64)
        growth = Growth(request, began, settings.max_iterations, 1)
        outcome = growth.run(
            lambda iterations: grow_on_manifold(first, second, held, iterations, met), first
        )
        spent = compute_time() - began
        sizes, iterations = (int(first.count[0]), int(second.count[0])), int(first.count[1])
        if not outcome.found:
            words = f"{outcome.reason} (with path constraints, {iterations} iterations)"
            return PlanResult(outcome.status, None, words, NAME, iterations, sizes, time=spent)
        begin, end = _branch(first, int(met[0])), _branch(second, int(met[1]))
        root = end[-1]
        skip = 1 if np.array_equal(first.nodes[begin[0]], second.nodes[end[0]]) else 0
        points = np.vstack([first.nodes[begin[::-1]], second.nodes[end[skip:]]])
        path = self._space.unwrapped(points)
        length = self._space.length(path)
        return PlanResult(
            outcome.status,
            path,
            "",
            NAME,
            iterations,
            sizes,
            length,
            spent,
            spent,
            goals.index[root],
        )

    def _held(self, space: TreeSpace) -> ConstrainedSpace:
        """Return a space within the bounds of the constraints; a bounded joint does not wrap."""
        low, high = self._bounds
        held = np.isfinite(low) & np.isfinite(high) & space.wraps
        low, high = (
            np.where(held, low, np.maximum(space.low, low)),
            np.where(held, high, np.minimum(space.high, high)),
        )
        bounded = space._replace(low=low, high=high, wraps=space.wraps & ~held)
        return ConstrainedSpace(bounded, self._addresses, self._manifold, self._settings.step_size)

    def shortened(self, path: Array, random_seed: int) -> Array:
        """Return a shorter and smoother path with the same ends, shape (k, n)."""
        settings = self._settings
        held = self._held(kernel_space(self._space, path))
        room = np.empty((2 * len(path) + 200, path.shape[1]))
        room[: len(path)] = path
        random = np.array([random_seed % 2**64], np.uint64)
        count = shorten_on_manifold(room, len(path), held, settings.shortening_tries, random)
        found = room[:count].copy()
        smooth_on_manifold(found, held, settings.smoothing_rounds)
        return found


def _branch(tree: object, node: int) -> list[int]:
    """Return the nodes from a node to its root."""
    parent = tree.parent  # type: ignore[attr-defined]
    rows = [node]
    while parent[rows[-1]] >= 0:
        rows.append(int(parent[rows[-1]]))
    return rows


class ConstrainedRrt:
    """Constrained bidirectional RRT: paths on which all constraints of the request hold."""

    name = NAME

    def __init__(self, settings: ConstrainedSettings | None = None) -> None:
        self.settings = settings or ConstrainedSettings()

    def plan(self, request: PlanRequest) -> PlanResult:
        """Search a path; every edge of it satisfies the constraints and is collision-free.

        A start may violate constraints by 0.005 m or rad, as measured positions do: the path then
        begins there and enters them.

        Raises:
            InvalidCommand, InvalidConfig, UnknownFrame, UnknownJoint: invalid constraints.
        """
        began = compute_time()
        constraints = ConstraintSet(request.checker, request.constraints, start=request.start)
        start = check_search_start(request.checker, request.start)
        if start.status is not None:
            return PlanResult(start.status, None, start.reason, NAME, time=compute_time() - began)
        violated = constraints.violations(start.q)
        if any(violation.excess > START_TOLERANCE for violation in violated):
            words = f"the start violates the path constraints: {'; '.join(map(str, violated))}"
            status = PlanStatus.START_VIOLATES_CONSTRAINTS
            return PlanResult(status, None, words, NAME, time=compute_time() - began)
        goals = goals_on_manifold(request, start.q, constraints)
        if goals.status is not None:
            return PlanResult(goals.status, None, goals.reason, NAME, time=compute_time() - began)
        search = ConstrainedSearch(request.checker, constraints, self.settings)
        left = max(1e-3, request.timeout - (compute_time() - began))
        result = search.search(replace(request, timeout=left), start.q, goals)
        return replace(result, time=compute_time() - began)
