# SPDX-License-Identifier: Apache-2.0
"""Bidirectional search (RRT-Connect): the two trees, their memory, and the calls of the kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.kernels.array_bridge import table_of
from motion_nodes.kernels.collision.checker_bridge import Checker
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.kernels.search import rrt_connect, rrt_samples
from motion_nodes.kernels.search.rrt_connect import (
    EXHAUSTED,
    FULL,
    ITERATIONS,
    JOINED,
    REACHED,
    WAYPOINTS,
    ConnectRules,
)
from motion_nodes.model.limits import JointLimits
from motion_nodes.planning.joint_space import TURN, JointSpace
from motion_nodes.planning.planning_problem import PlanStatus
from motion_nodes.planning.search_settings import RrtConnectSettings
from motion_nodes.planning.tree_search import SearchTree, TreeSearch
from motion_nodes.scene.contacts import KernelChecker
from motion_nodes.typing import Array

_BATCH_TIME = 1.5e-3
"""Approximate duration of a kernel call between checks of timeout and cancellation [s]."""
_ROOM = 512
"""Initial capacity of each tree [nodes]."""
_LEAST_ACROSS, _ACROSS_PER_JOINT = 13.0, 2.4
"""Default number of edges along the diagonal of the space, at least and per joint: with every joint
more links sweep along an edge, so that fewer long ones are free."""
_REACH = 0.34
"""Reach of a node at an obstacle, as a fraction of the diagonal."""


class TwoTrees:
    """Sequential searches in the same memory: start and goals, and the growing trees."""

    def __init__(
        self,
        space: JointSpace,
        limits: JointLimits,
        settings: RrtConnectSettings,
        points: ArrayLike,
    ) -> None:
        """Allocate the memory.

        Args:
            space: the joints.
            limits: of the same joints; start and goals must be within them.
            settings: growth of the trees.
            points: start and goals, or others, for joints without limits; shape (m, n).
        """
        self.space = space
        lower, upper = space.bounds(points)
        self._memory = rrt_connect.make_search(
            space.weights,
            np.where(space.wraps, TURN, 0.0),
            np.array((limits.lower, limits.upper)),
            _rules(settings, space, lower, upper),
            rrt_samples.make_samples(lower, upper, settings.focus_margin, settings.focus),
            _ROOM,
        )
        self._table = table_of(self._memory)
        self.counts = self._memory.counts
        self._budget = 100
        self.time = 0.0
        """Duration of the search, without the allocation of its memory [s]."""

    def plant(
        self, checker: KernelChecker | Checker, ends: Sequence[Array], random_seed: int
    ) -> bool:
        """Begin a search.

        Args:
            checker: must be kept alive by the caller until the search has ended.
            ends: the start, then alternative goals, each of shape (n,).
            random_seed: of the samples.

        Returns:
            Whether start and goals are collision-free and within the limits.
        """
        while len(ends) > self._memory.trees.parents.shape[1]:
            self._grow()
        nodes, sizes, table = self._memory.trees.nodes, self._memory.trees.sizes, self._table
        nodes[0, 0] = ends[0]
        for k in range(1, len(ends)):
            nodes[1, k - 1] = ends[k]
        sizes[0], sizes[1] = 1, len(ends) - 1
        # The addresses of the checker come first.
        table[0], table[1], table[2] = checker.state, checker.edge, checker.memory
        self._budget, self.time = 100, 0.0
        return bool(rrt_connect.plant(table, random_seed % 2**63))

    def _grow(self) -> None:
        checker = self._table[:3].copy()
        self._memory = rrt_connect.grown(self._memory)
        self._table = table_of(self._memory)
        self._table[:3] = checker

    @property
    def iterations(self) -> int:
        """Number of extensions tried."""
        return int(self.counts[ITERATIONS])

    @property
    def sizes(self) -> tuple[int, int]:
        """Nodes of the trees from start and goals."""
        sizes = self._memory.trees.sizes
        return int(sizes[0]), int(sizes[1])

    @property
    def length(self) -> float:
        """Length of the path found, in the metric [weighted rad or m]."""
        return float(self._memory.found.length[0])

    def search(self, give_up: Callable[[], PlanStatus | None]) -> PlanStatus:
        """Search until the trees meet.

        Args:
            give_up: called every millisecond or two; a status it returns ends the search.
        """
        while True:
            began = compute_time()
            code = rrt_connect.search(self._table, self._budget)
            spent = compute_time() - began
            self.time += spent
            if code == JOINED:
                return PlanStatus.SOLVED
            if code == EXHAUSTED:
                return PlanStatus.ITERATION_LIMIT
            if code == FULL:
                self._grow()
            else:
                factor = min(_BATCH_TIME / max(spent, 1e-6), 4.0)
                self._budget = max(1, int(self._budget * factor))
            status = give_up()
            if status is not None:
                return status

    def path(self) -> tuple[Array, int]:
        """Return the path found [rad or m], shape (k, n), and the row of the goal it leads to."""
        count, goal = int(self.counts[WAYPOINTS]), int(self.counts[REACHED])
        return self._memory.found.path[:count].copy(), goal

    def drawn(self) -> SearchTree:
        """Return both trees as one for visualization, the start's nodes first."""
        first, second = self.sizes
        trees = self._memory.trees
        parents = trees.parents[:, : max(first, second)].astype(np.int64)
        parents[1][parents[1] >= 0] += first
        return SearchTree(
            np.concatenate((trees.nodes[0, :first], trees.nodes[1, :second])),
            np.concatenate((parents[0, :first], parents[1, :second])),
        )


def first_path(
    search: TreeSearch, goals: Array, settings: RrtConnectSettings
) -> tuple[Array | None, int]:
    """Return a path of RRT-Connect for another planner, and its goal's row.

    Args:
        search: with start, checker and clock.
        goals: collision-free alternative goals, shape (g, n).
        settings: growth of the trees.

    Returns:
        Waypoints, shape (k, n), and the row; None and 0 if time or iterations are used up.
    """
    request, growth = search.request, search.growth
    roots = [search.start, *goals]
    trees = TwoTrees(search.space, request.checker.limits, settings, np.array(roots))
    trees.plant(search.checker, roots, request.random_seed)
    if trees.search(lambda: growth.ended(request)) is not PlanStatus.SOLVED:
        return None, 0
    return trees.path()


def longest_edge(
    settings: RrtConnectSettings, space: JointSpace, lower: Array, upper: Array
) -> float:
    """Return the max length of an edge, in the metric [weighted rad or m]."""
    across = max(_LEAST_ACROSS, _ACROSS_PER_JOINT * len(lower))
    # If nothing can move, any length is valid.
    return settings.step_size or _diagonal(space, lower, upper) / across or 1.0


def _diagonal(space: JointSpace, lower: Array, upper: Array) -> float:
    """Return the length of the diagonal of the samples' box [weighted rad or m]."""
    if space.bounded:
        return space.diagonal
    return float(np.linalg.norm((upper - lower) * space.weights))


def _rules(
    settings: RrtConnectSettings, space: JointSpace, lower: Array, upper: Array
) -> ConnectRules:
    """Return the numeric settings of the kernel."""
    step = longest_edge(settings, space, lower, upper)
    reach = _REACH * _diagonal(space, lower, upper) if settings.dynamic_domain else math.inf
    return ConnectRules(
        longest=step,
        reach=max(step, reach),
        least_reach=step,
        reach_change=1e-4 if settings.dynamic_domain else 0.0,
        exploration=settings.exploration_fraction,
        max_sampling=settings.max_sampling,
        max_iterations=settings.iteration_bound,
    )
