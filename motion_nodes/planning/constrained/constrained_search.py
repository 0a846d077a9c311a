# SPDX-License-Identifier: Apache-2.0
"""Search of a path along a constraint manifold, and its shortening."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from motion_nodes.kernels.collision.checker_bridge import Checker
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.kernels.search.classic_trees import TreeSpace
from motion_nodes.kernels.search.constrained_rrt import (
    grow_on_manifold,
    shorten_on_manifold,
    smooth_on_manifold,
)
from motion_nodes.model.setting import check_settings, setting
from motion_nodes.planning.constrained.constrained_goals import goals_on_manifold
from motion_nodes.planning.constrained.constraint_set import ConstraintSet
from motion_nodes.planning.goal_sampling import GoalConfigurations
from motion_nodes.planning.joint_space import JointSpace
from motion_nodes.planning.planning_problem import PlanRequest, PlanResult, PlanStatus
from motion_nodes.planning.start_state import check_search_start
from motion_nodes.planning.tree_search import (
    MAX_COUNT,
    MAX_NODES,
    Growth,
    kernel_space,
    new_tree,
)
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.typing import Array

NAME = "CBiRRT"
"""Name of the planner."""
START_TOLERANCE = 0.005
"""Max violation of a constraint by the start [m or rad]."""


@dataclass(frozen=True)
class ConstrainedSettings:
    """Settings of the constrained bidirectional RRT."""

    step_size: float = setting(0.1, doc="Max length of an edge.", unit="rad or m", gt=0.0, le=1.0)
    max_iterations: int = setting(100_000, doc="Max number of iterations.", ge=1, le=MAX_COUNT)
    max_nodes: int = setting(20_000, doc="Max number of nodes of each tree.", ge=100, le=MAX_NODES)
    shortening_tries: int = setting(150, doc="Number of attempted shortcuts.", ge=0, le=10_000)
    smoothing_rounds: int = setting(6, doc="Number of rounds of smoothing.", ge=0, le=1000)

    def __post_init__(self) -> None:
        """Validate the numbers."""
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
        space = self._bounded(kernel_space(self._space, start, goals.Q))
        first = new_tree(start, settings.max_nodes, request.random_seed)
        second = new_tree(goals.Q[0], settings.max_nodes, request.random_seed)
        count = len(goals.Q)
        second.nodes[:count], second.parent[:count], second.count[0] = goals.Q, -1, count
        met = np.zeros(2, np.int64)
        growth = Growth(request, began, settings.max_iterations, 1)
        outcome = growth.run(
            lambda iterations: grow_on_manifold(
                first,
                second,
                space,
                self._addresses,
                self._manifold,
                settings.step_size,
                iterations,
                met,
            ),
            first,
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

    def _bounded(self, space: TreeSpace) -> TreeSpace:
        """Return a space within the bounds of the constraints; a bounded joint does not wrap."""
        low, high = self._bounds
        held = np.isfinite(low) & np.isfinite(high) & space.wraps
        low, high = (
            np.where(held, low, np.maximum(space.low, low)),
            np.where(held, high, np.minimum(space.high, high)),
        )
        return space._replace(low=low, high=high, wraps=space.wraps & ~held)

    def shortened(self, path: Array, random_seed: int) -> Array:
        """Return a shorter and smoother path with the same ends, shape (k, n)."""
        settings = self._settings
        space = self._bounded(kernel_space(self._space, path))
        room = np.empty((2 * len(path) + 200, path.shape[1]))
        room[: len(path)] = path
        random = np.array([random_seed % 2**64], np.uint64)
        count = shorten_on_manifold(
            room,
            len(path),
            space,
            self._addresses,
            self._manifold,
            settings.step_size,
            settings.shortening_tries,
            random,
        )
        found = room[:count].copy()
        smooth_on_manifold(found, space, self._addresses, self._manifold, settings.smoothing_rounds)
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
