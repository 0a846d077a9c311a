# SPDX-License-Identifier: Apache-2.0
"""Common parts of tree planners: start and goals, batches of iterations, path extraction."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.planning.goal_sampling import GoalConfigurations, goal_configurations
from motion_nodes.core.planning.joint_space import JointSpace
from motion_nodes.core.planning.planning_problem import PlanRequest, PlanResult, PlanStatus
from motion_nodes.core.planning.start_state import check_search_start
from motion_nodes.core.robot.tree import frozen
from motion_nodes.errors import InvalidConfig
from motion_nodes.kernels.bridges import Checker
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.kernels.search.classic_trees import (
    CONTINUE,
    FOUND,
    FULL,
    NO_SAMPLE,
    Tree,
    TreeSpace,
)
from motion_nodes.typing import Array

MAX_COUNT = 2**31 - 1
"""Max number of iterations and tries, more than any search can do."""
MAX_NODES = 2_000_000
"""Max capacity of a tree; its memory is allocated in advance."""
_BATCH_TIME = 2e-3
"""Approximate duration of a kernel call between checks of timeout and cancellation [s]."""


@dataclass(frozen=True, eq=False)
class SearchTree:
    """A tree for visualization."""

    nodes: Array
    """Shape (m, n)."""
    parents: NDArray[np.int64]
    """Index of each node's parent, -1 for roots, shape (m,)."""


@dataclass(frozen=True, eq=False)
class SearchEnds:
    """Start and goals of a search."""

    start: Array
    """Collision-free and within the limits, shape (n,)."""
    goals: GoalConfigurations


def find_ends(request: PlanRequest) -> SearchEnds | PlanResult:
    """Return start and goals of a request, or the result if they are invalid."""
    began = compute_time()
    start = check_search_start(request.checker, request.start)
    if start.status is not None:
        return PlanResult(start.status, None, start.reason, time=compute_time() - began)
    goals = goal_configurations(request, start.q)
    if goals.status is not None:
        return PlanResult(goals.status, None, goals.reason, time=compute_time() - began)
    return SearchEnds(start.q, goals)


def space_of(request: PlanRequest, weights: ArrayLike | None) -> JointSpace:
    """Return the joints of a request with weights; default: 1 each.

    Raises:
        InvalidConfig: weights of wrong length or sign.
    """
    chosen = None if weights is None or np.size(weights) == 0 else weights
    return JointSpace.of_robot(request.checker.robot, request.checker.joint_names, chosen)


def kernel_space(space: JointSpace, *points: ArrayLike) -> TreeSpace:
    """Return a space for kernels; points define the sampling range of unlimited joints."""
    low, high = space.bounds(*points)
    return TreeSpace(low, high, space.wraps.copy(), np.array(space.weights))


def new_tree(root: Array, room: int, seed: int) -> Tree:
    """Return a tree of one node, shape (n,), with capacity for more, at most MAX_NODES."""
    room = min(room, MAX_NODES)
    nodes = np.empty((room, len(root)))
    parent = np.full(room, -1, np.int64)
    nodes[0] = root
    count = np.array([1, 0], np.int64)
    return Tree(nodes, parent, count, np.array([seed % 2**64], np.uint64))


@dataclass(frozen=True)
class SearchOutcome:
    """Outcome of a search."""

    found: bool
    status: PlanStatus
    reason: str


SOLVED = SearchOutcome(True, PlanStatus.SOLVED, "")


class Growth:
    """Grows a tree in batches until a path is found or the search has to end."""

    def __init__(self, request: PlanRequest, began: float, max_iterations: int, tries: int) -> None:
        self._request, self._began = request, began
        self._most, self._tries = max_iterations, tries
        self._batch = 4

    @property
    def spent(self) -> float:
        """Time since planning began [s]."""
        return compute_time() - self._began

    def ended(self, request: PlanRequest) -> PlanStatus | None:
        """Return why a search must end now, or None."""
        if request.cancelled():
            return PlanStatus.CANCELLED
        late = compute_time() > self._began + request.timeout
        return PlanStatus.TIMED_OUT if late else None

    def failed(self, status: PlanStatus, iterations: int) -> SearchOutcome:
        """Return the outcome of a failed search."""
        words = {
            PlanStatus.CANCELLED: "cancelled",
            PlanStatus.TIMED_OUT: f"no path in {self._request.timeout:.3g} s; more time may find "
            "one",
        }
        usual = f"no path in {iterations} iterations; more may find one"
        return SearchOutcome(False, status, words.get(status, usual))

    def run(
        self,
        grow: Callable[[int], int],
        tree: Tree,
        done: Callable[[], bool] = lambda: False,
    ) -> SearchOutcome:
        """Call ``grow`` with numbers of iterations until it finds a path or has to end.

        Args:
            grow: grows the tree and returns one of the kernels' outcomes.
            tree: the tree.
            done: called after each batch; True ends the search.
        """
        request = self._request
        if grow(0) == FOUND:
            return SOLVED
        while True:
            left = self._most - int(tree.count[1])
            if left <= 0:
                return self.failed(PlanStatus.ITERATION_LIMIT, self._most)
            status = self.ended(request)
            if status is not None:
                return self.failed(status, self._most)
            now = compute_time()
            code = grow(min(self._batch, left))
            if code == FOUND:
                return SOLVED
            if code == FULL:
                words = f"no path with {len(tree.nodes)} nodes; the tree has no room for more"
                return SearchOutcome(False, PlanStatus.ITERATION_LIMIT, words)
            if code == NO_SAMPLE:
                words = f"none of {self._tries} random configurations is collision-free"
                return SearchOutcome(False, PlanStatus.ITERATION_LIMIT, words)
            assert code == CONTINUE
            if done():
                return SOLVED
            spent = compute_time() - now
            factor = _BATCH_TIME / spent if spent > 0.0 else 2.0
            self._batch = max(1, int(self._batch * min(2.0, max(0.25, factor))))


@dataclass(frozen=True, eq=False)
class TreeSearch:
    """One search for one request."""

    request: PlanRequest
    space: JointSpace
    start: Array
    goals: Array
    """Alternative goal configurations, shape (g, n)."""
    tree: Tree
    kernel_space: TreeSpace
    checker: Checker
    growth: Growth

    @property
    def shortest(self) -> float:
        """Length of the line to the nearest goal [weighted rad or m]: a bound of any path."""
        return float(self.space.distance(self.goals, self.start).min())

    def path_to(self, node: int, end: Array | None = None) -> Array:
        """Return the path, (k, n), from the root to a node, and on to an end; ends are exact."""
        parent = self.tree.parent
        rows = [node]
        while parent[rows[-1]] >= 0:
            rows.append(int(parent[rows[-1]]))
        points = self.tree.nodes[rows[::-1]]
        if end is not None:
            points = np.concatenate([points, end[np.newaxis]])
        return self.space.unwrapped(points)


class FoundPath(NamedTuple):
    """Path found by a search."""

    outcome: SearchOutcome
    path: Array | None = None
    goal: int = 0
    """Index of the goal that the path leads to."""


class TreePlanner(ABC):
    """Plans with one tree from the start to configurations that satisfy the goals."""

    name: str

    def __init__(self) -> None:
        self._tree: SearchTree | None = None

    def tree(self) -> SearchTree | None:
        """Return the tree of the last search, for visualization."""
        return self._tree

    def run(
        self,
        request: PlanRequest,
        weights: Sequence[float],
        max_iterations: int,
        max_sampling: int,
        room: int,
    ) -> PlanResult:
        """Check start and goals, search, and return the result."""
        space = space_of(request, weights)
        began = compute_time()
        ends = find_ends(request)
        if isinstance(ends, PlanResult):
            return replace(ends, planner=self.name)
        started = compute_time()
        goals = ends.goals.Q
        kernel = request.checker.kernel()
        search = TreeSearch(
            request,
            space,
            ends.start,
            goals,
            new_tree(ends.start, room, request.random_seed),
            kernel_space(space, ends.start, goals),
            Checker(kernel.state, kernel.edge, kernel.memory),
            Growth(request, began, max_iterations, max_sampling),
        )
        here = int(np.argmin(space.distance(goals, ends.start)))
        if space.distance(goals[here], ends.start) == 0.0:
            found = FoundPath(SOLVED, np.stack([ends.start, goals[here]]), here)
        else:
            found = self.search(search)
        del kernel
        return self.result(search, found, ends.goals.index, began, started)

    def result(
        self,
        search: TreeSearch,
        found: FoundPath,
        goal_index: Sequence[int],
        began: float,
        started: float,
    ) -> PlanResult:
        """Return the result of a search, and store the tree."""
        self._tree = drawn(search.tree)
        now = compute_time()
        return PlanResult(
            found.outcome.status,
            found.path,
            found.outcome.reason,
            self.name,
            int(search.tree.count[1]),
            (int(search.tree.count[0]), 0),
            search.space.length(found.path) if found.path is not None else math.inf,
            now - started,
            now - began,
            goal_index[found.goal] if found.path is not None else None,
        )

    @abstractmethod
    def search(self, search: TreeSearch) -> FoundPath:
        """Search a path; the start is not a goal."""


def drawn(tree: Tree) -> SearchTree:
    """Return a copy of a tree, for visualization."""
    count = int(tree.count[0])
    return SearchTree(frozen(tree.nodes[:count]), tree.parent[:count].copy())


def check_weights(weights: Sequence[float]) -> None:
    """Raise InvalidConfig unless weights of joints are finite numbers above 0."""
    for x in weights:
        if not isinstance(x, int | float | np.number) or not 0.0 < x < math.inf:
            raise InvalidConfig(
                f"distance_metric_weights is {weights!r}; it must hold finite numbers above 0.",
                field="distance_metric_weights",
            )


def check_number(name: str, value: float, least: float, most: float = math.inf) -> None:
    """Raise InvalidConfig unless a setting is a finite number within bounds."""
    if not (least <= value <= most) or not math.isfinite(value):
        allowed = f"at least {least:g}" if math.isinf(most) else f"from {least:g} to {most:g}"
        raise InvalidConfig(f"{name} is {value!r}; it must be {allowed}.", field=name)
