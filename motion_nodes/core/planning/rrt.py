# SPDX-License-Identifier: Apache-2.0
"""Rapidly-exploring random trees with one tree: the basic RRT, and the asymptotically optimal RRT*.

A path of RRT* improves with time. The first one comes from RRT-Connect, which solves problems that
a single tree does not (``first_path``). It becomes the first branch of the tree; from then on it is
RRT* with informed samples, so the cost never increases and the search remains asymptotically
optimal: samples are uniform over all configurations that a shorter path can contain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from motion_nodes.core.planning.planning_problem import PlanRequest, PlanResult, PlanStatus
from motion_nodes.core.planning.rrt_connect import RrtConnectSettings, first_path
from motion_nodes.core.planning.tree_search import (
    MAX_COUNT,
    SOLVED,
    FoundPath,
    SearchOutcome,
    TreePlanner,
    TreeSearch,
    check_number,
    check_weights,
)
from motion_nodes.errors import InvalidConfig
from motion_nodes.kernels.search.rrt import (
    Costs,
    RrtOptions,
    RrtSearch,
    StarOptions,
    grow,
    grow_star,
)
from motion_nodes.typing import Array

_BRANCH = 512
"""Max number of nodes of the first path."""
Progress = Callable[[int, float], None]
"""Called with iteration and length of the best path, whenever it improves."""


@dataclass(frozen=True)
class RrtSettings:
    """Settings of the RRT."""

    step_size: float = 0.3
    """Max length of an edge, in the weighted metric."""
    goal_bias: float = 0.1
    """Fraction of the samples that are a goal configuration."""
    near_bias: float = 0.3
    """Fraction of the samples near a goal configuration, on a logarithmic scale of distances; the
    rest is uniform over the joint ranges."""
    max_iterations: int = 50_000
    """Max number of samples."""
    max_sampling: int = 10_000
    """Max number of tries for a collision-free sample."""
    distance_metric_weights: tuple[float, ...] = ()
    """Joint weights in distances; default: 1 each."""

    def __post_init__(self) -> None:
        check_number("step_size", self.step_size, 1e-6)
        check_number("goal_bias", self.goal_bias, 0.0, 1.0)
        check_number("near_bias", self.near_bias, 0.0, 1.0)
        check_number("max_iterations", self.max_iterations, 1, MAX_COUNT)
        check_number("max_sampling", self.max_sampling, 1, MAX_COUNT)
        check_weights(self.distance_metric_weights)


def _state(search: TreeSearch) -> RrtSearch:
    return RrtSearch(search.tree, search.kernel_space, search.checker, search.goals)


class Rrt(TreePlanner):
    """Returns the first path found; not optimal."""

    name = "RRT"

    def __init__(self, settings: RrtSettings | None = None) -> None:
        super().__init__()
        self.settings = settings or RrtSettings()

    def plan(self, request: PlanRequest) -> PlanResult:
        """Search a path; every edge of it is checked, including the last one."""
        settings = self.settings
        iterations, tries = settings.max_iterations, settings.max_sampling
        weights = settings.distance_metric_weights
        return self.run(request, weights, iterations, tries, room=2 * iterations + 1)

    def search(self, search: TreeSearch) -> FoundPath:
        """Grow the tree until it reaches a goal."""
        settings, found = self.settings, np.zeros(2, np.int64)
        state = _state(search)
        options = RrtOptions(
            settings.step_size, settings.goal_bias, settings.near_bias, settings.max_sampling
        )

        def batch(iterations: int) -> int:
            return grow(state, options, iterations, found)

        outcome = search.growth.run(batch, search.tree)
        if not outcome.found:
            return FoundPath(outcome)
        node, goal = int(found[0]), int(found[1])
        return FoundPath(outcome, search.path_to(node, search.goals[goal]), goal)


@dataclass(frozen=True)
class RrtStarSettings(RrtSettings):
    """Growth and duration of the search."""

    neighbours: Literal["nearest", "radius"] = "nearest"
    """Candidates for parents: the ``e (1 + 1/n) log k`` nearest of k nodes, or those within ``gamma
    (log(k) / k)^(1/n)``, with the min gamma for asymptotic optimality."""
    rewire_radius: float = math.inf
    """Max distance of such nodes; a small value may lose optimality."""
    first_path: bool = True
    """Whether the tree begins with a path found by RRT-Connect; False: with the start only."""
    search_time: float | None = None
    """Duration of the search [s]; None: the request's timeout."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbours not in ("nearest", "radius"):
            raise InvalidConfig(
                f"neighbours is {self.neighbours!r}; allowed are nearest, radius.",
                field="neighbours",
            )
        if not self.rewire_radius > 0.0:
            raise InvalidConfig(
                f"rewire_radius is {self.rewire_radius}; it must be above 0.", field="rewire_radius"
            )
        if self.search_time is not None:
            check_number("search_time", self.search_time, 0.0)


class RrtStar(TreePlanner):
    """Searches for the full time, and returns the shortest path found."""

    name = "RRTstar"

    def __init__(
        self, settings: RrtStarSettings | None = None, progress: Progress | None = None
    ) -> None:
        super().__init__()
        self.settings = settings or RrtStarSettings()
        self._progress = progress

    def plan(self, request: PlanRequest) -> PlanResult:
        """Search until time or iterations are used up, or the request is cancelled."""
        settings = self.settings
        iterations, tries = settings.max_iterations, settings.max_sampling
        weights = settings.distance_metric_weights
        return self.run(request, weights, iterations, tries, room=iterations + 1 + _BRANCH)

    def search(self, search: TreeSearch) -> FoundPath:
        """Grow the tree and return its best path."""
        room = len(search.tree.nodes)
        costs = Costs(
            np.zeros(room),
            np.full(room, -1, np.int64),
            np.full(room, -1, np.int64),
            np.zeros((room, 2), np.int64),
            np.zeros(room),
            np.array([0, -1], np.int64),
        )
        if self.settings.first_path:
            outcome = self._begin(search, costs)
            if not outcome.found:
                return FoundPath(outcome)
        state, options, least = _state(search), self._options(search), [math.inf]
        until = None if self.settings.search_time is None else self.settings.search_time

        def batch(iterations: int) -> int:
            return grow_star(state, costs, options, iterations)

        def done() -> bool:
            cost = best_cost(costs)
            if cost < least[0]:
                least[0] = cost
                if self._progress is not None:
                    self._progress(int(search.tree.count[1]), cost)
            found = math.isfinite(cost)
            shortest = found and cost <= search.shortest * (1.0 + 1e-9)
            return shortest or (found and until is not None and search.growth.spent > until)

        outcome = search.growth.run(batch, search.tree, done)
        done()
        end = int(costs.best[1])
        if end < 0 or outcome.status is PlanStatus.CANCELLED:
            return FoundPath(outcome)
        node, goal = (int(x) for x in costs.ends[end])
        return FoundPath(SOLVED, search.path_to(node, search.goals[goal]), goal)

    def _begin(self, search: TreeSearch, costs: Costs) -> SearchOutcome:
        """Add a path of RRT-Connect, or the straight line to a goal, as the first branch."""
        request, settings = search.request, self.settings
        for goal in np.argsort(search.space.distance(search.goals, search.start)):
            end = search.start + search.space.difference(search.start, search.goals[goal])
            if request.checker.edge_free(search.start, end):
                _add_branch(search, costs, np.stack([search.start, end]), int(goal), self.settings)
                return SOLVED
        connect = RrtConnectSettings(
            max_iterations=settings.max_iterations,
            max_sampling=settings.max_sampling,
            distance_metric_weights=settings.distance_metric_weights,
        )
        path, row = first_path(search, search.goals, connect)
        if path is None:
            ended = search.growth.ended(request) or PlanStatus.ITERATION_LIMIT
            return search.growth.failed(ended, settings.max_iterations)
        _add_branch(search, costs, path, row, settings)
        return SOLVED

    def _options(self, search: TreeSearch) -> StarOptions:
        settings, space = self.settings, search.kernel_space
        n = len(space.low)
        gamma = 0.0
        if settings.neighbours == "radius":
            # Karaman and Frazzoli, theorem 38; the whole space counts as free, which is
            # conservative.
            ball = math.pi ** (n / 2.0) / math.gamma(n / 2.0 + 1.0)
            volume = float(np.prod((space.high - space.low) * space.weights))
            gamma = 1.001 * (2.0 * (1.0 + 1.0 / n) * volume / ball) ** (1.0 / n)
        return StarOptions(
            settings.step_size,
            settings.goal_bias,
            settings.near_bias,
            gamma,
            settings.rewire_radius,
            settings.max_sampling,
        )


def _add_branch(
    search: TreeSearch, costs: Costs, path: Array, goal: int, settings: RrtStarSettings
) -> None:
    """Add a collision-free path to a tree that contains only the start.

    Args:
        search: owner of the tree.
        costs: of its nodes.
        path: waypoints from the start to a goal, shape (k, n).
        goal: row of the goal it leads to.
        settings: edges are limited to the step size, within the capacity of the tree.
    """
    tree, space = search.tree, search.space
    lengths = [space.length(path[k : k + 2]) for k in range(len(path) - 1)]
    step = max(settings.step_size, sum(lengths) / (0.5 * _BRANCH))
    points = []
    for k, length in enumerate(lengths):
        count = max(1, math.ceil(length / step))
        points += [path[k] + (path[k + 1] - path[k]) * i / count for i in range(1, count + 1)]
    if len(points) > _BRANCH:
        points = list(path[1:])
    if len(points) > len(tree.nodes):
        return
    node = 0
    for point in points[:-1]:
        new = int(tree.count[0])
        edge = float(space.distance(point, tree.nodes[node]))
        tree.nodes[new], tree.parent[new] = point, node
        costs.cost[new], costs.child[new] = costs.cost[node] + edge, -1
        costs.sibling[new], costs.child[node] = costs.child[node], new
        tree.count[0] = new + 1
        node = new
    costs.ends[0] = node, goal
    costs.rest[0] = float(space.distance(search.goals[goal], tree.nodes[node]))
    costs.best[:] = 1, 0


def best_cost(costs: Costs) -> float:
    """Return the length of the best path [weighted rad or m], inf if there is none."""
    end = int(costs.best[1])
    return float(costs.cost[costs.ends[end, 0]] + costs.rest[end]) if end >= 0 else math.inf
