# SPDX-License-Identifier: Apache-2.0
"""RRT-Connect: two trees, from the start and from the goals, that grow until they meet.

:class:`TwoTrees` has the memory of the trees and calls the kernels.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.planning.planning_problem import (
    JointGoal,
    JointSpace,
    PlanRequest,
    PlanResult,
    PlanStatus,
    travel_weights,
)
from motion_nodes.core.planning.tree_search import (
    MAX_COUNT,
    SearchTree,
    TreeSearch,
    check_number,
    check_weights,
    find_ends,
    space_of,
)
from motion_nodes.core.robot.limits import TURN, JointLimits
from motion_nodes.core.scene.contacts import KernelChecker
from motion_nodes.kernels.bridges import Checker
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.kernels.memory_layout import table_of
from motion_nodes.kernels.search import rrt_connect
from motion_nodes.kernels.search.rrt_connect import (
    EXHAUSTED,
    FULL,
    ITERATIONS,
    JOINED,
    REACHED,
    WAYPOINTS,
    ConnectRules,
)
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
_LEFT, _MOST_LEFT = 4, 20_000
"""Number of searches whose memory is left to later planners, and the max nodes of each."""


@dataclass(frozen=True)
class RrtConnectSettings:
    """Growth of two trees towards each other; the defaults suit one arm and two."""

    step_size: float = 0.0
    """Max length of an edge, in the weighted metric; 0: the space's diagonal divided
    by 13, or by 2.4 times the number of joints if that is more.

    Every edge is checked over its whole length.
    """
    max_iterations: int = 0
    """Max number of extensions towards samples; 0: limited by the planning time only."""
    max_sampling: int = 100
    """Max number of samples out of reach of the trees before one is tried anyway."""
    distance_metric_weights: tuple[float, ...] = ()
    """Joint weights in distances; default: how far joints move the robot's spheres."""
    exploration_fraction: float = 0.5
    """Fraction of steps towards samples; the others connect the trees. Below 0.5 further
    connections start at random nodes; above it not every new node is tried."""
    focus: float = 0.25
    """Fraction of the samples from the box around start and goals, 0..1."""
    focus_margin: float = 0.25
    """Margin of that box, as a fraction of the joint ranges."""
    dynamic_domain: bool = True
    """Whether nodes at obstacles are extended only towards samples close to them."""

    def __post_init__(self) -> None:
        check_number("step_size", self.step_size, 0.0)
        check_number("max_iterations", self.max_iterations, 0, MAX_COUNT)
        check_number("max_sampling", self.max_sampling, 1, MAX_COUNT)
        check_weights(self.distance_metric_weights)
        check_number("exploration_fraction", self.exploration_fraction, 0.0, 1.0)
        check_number("focus", self.focus, 0.0, 1.0)
        check_number("focus_margin", self.focus_margin, 0.0, 1.0)

    @property
    def iteration_bound(self) -> int:
        """The max number of extensions for kernels."""
        return int(self.max_iterations) or MAX_COUNT


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
        self.space, self.settings = space, settings
        lower, upper = space.bounds(points)
        self._memory = rrt_connect.make_search(
            space.weights,
            np.where(space.wraps, TURN, 0.0),
            np.array((limits.lower, limits.upper)),
            _rules(settings, space, lower, upper),
            rrt_connect.make_samples(lower, upper, settings.focus_margin, settings.focus),
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


_left: list[TwoTrees] = []
"""Memory of planners that no longer exist, the newest last."""


def _leave(idle: list[TwoTrees]) -> None:
    """Leave the memory of a planner to later ones."""
    _left.extend(search for search in idle if sum(search.sizes) <= _MOST_LEFT)
    del _left[:-_LEFT]


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


class RrtConnect:
    """Returns the first path found, usually within a millisecond; not optimal."""

    name = "RRTConnect"

    def __init__(self, settings: RrtConnectSettings | None = None) -> None:
        self.settings = settings or RrtConnectSettings()
        self._last: TwoTrees | None = None
        self._idle: list[TwoTrees] = []
        # Most plans have a planner of their own.
        weakref.finalize(self, _leave, self._idle).atexit = False

    def tree(self) -> SearchTree | None:
        """Return both trees of the last search as one, for visualization."""
        return self._last.drawn() if self._last is not None else None

    def plan(self, request: PlanRequest) -> PlanResult:
        """Search a path; every edge of it is checked.

        The path begins exactly with the start and ends exactly with a goal; continuous joints may
        end some full turns from the goal's positions, so that nothing jumps. If the start is a
        goal, the path has two equal waypoints.
        """
        began = compute_time()
        kernel = request.checker.kernel()
        planted = self._planted(request, kernel)
        if isinstance(planted, PlanResult):
            return planted
        search, index = planted
        status = search.search(deadline(request, began + request.timeout))
        self._last = search
        if status is PlanStatus.SOLVED:
            path, goal = search.path()
            result = PlanResult(
                status,
                path,
                "",
                self.name,
                search.iterations,
                search.sizes,
                search.length,
                search.time,
                compute_time() - began,
                index[goal],
            )
        else:
            result = self.failed(status, request, self.settings, search, began)
        self._keep(search)
        del kernel  # until here it keeps the memory at these addresses alive
        return result

    def _planted(
        self, request: PlanRequest, kernel: KernelChecker
    ) -> tuple[TwoTrees, Sequence[int]] | PlanResult:
        """Return a started search, and the index of each of its goals."""
        ends = _plain_ends(request)
        if ends is not None:
            search = self._trees(request, ends)
            planted = search.plant(kernel, ends, request.random_seed)
            if planted and request.checker.exact.are_free(np.array(ends)).all():
                return search, range(len(request.goals))
            self._keep(search)
        # Goals must be sampled, or there is an error to report.
        found = find_ends(request)
        if isinstance(found, PlanResult):
            return replace(found, planner=self.name)
        ends = [found.start, *found.goals.Q]
        search = self._trees(request, ends)
        search.plant(kernel, ends, request.random_seed)
        return search, found.goals.index

    def _trees(self, request: PlanRequest, ends: Sequence[Array]) -> TwoTrees:
        """Return the memory of a search, reused from the previous one for the same joints."""
        checker = request.checker
        weights = self.settings.distance_metric_weights or travel_weights(checker)
        space = space_of(request, weights)
        for idle in (self._idle, _left):
            with contextlib.suppress(IndexError):
                # Other threads may use the same memory: pop makes it exclusive.
                last = idle.pop()
                if last.space is space and last.settings == self.settings:
                    return last
        return TwoTrees(space, checker.limits, self.settings, np.array(ends))

    def _keep(self, search: TwoTrees) -> None:
        """Store the memory for the next search."""
        if search.space.bounded:  # else it depends on start and goals
            self._idle[:] = [search]

    @classmethod
    def failed(
        cls,
        status: PlanStatus,
        request: PlanRequest,
        settings: RrtConnectSettings,
        search: TwoTrees,
        began: float,
    ) -> PlanResult:
        """Return the result of a failed search."""
        now = compute_time()
        return PlanResult(
            status,
            None,
            _why(status, request, settings),
            cls.name,
            search.iterations,
            search.sizes,
            search_time=search.time,
            time=now - began,
        )


def _plain_ends(request: PlanRequest) -> list[Array] | None:
    """Return start and goals if each is one configuration; else None."""
    shape = (len(request.checker.joint_names),)
    ends = [request.start]
    for goal in request.goals:
        if not isinstance(goal, JointGoal) or not goal.exact:
            return None
        ends.append(goal.q)
    try:
        arrays = [np.asarray(q, np.float64) for q in ends]
    except (TypeError, ValueError):
        return None
    return arrays if len(ends) > 1 and all(q.shape == shape for q in arrays) else None


def deadline(request: PlanRequest, end: float) -> Callable[[], PlanStatus | None]:
    """Return the function that ends a search on timeout [s] or cancellation."""

    def give_up() -> PlanStatus | None:
        if request.cancelled():
            return PlanStatus.CANCELLED
        return PlanStatus.TIMED_OUT if compute_time() > end else None

    return give_up


def _why(status: PlanStatus, request: PlanRequest, settings: RrtConnectSettings) -> str:
    """Return the reason why there is no path."""
    if status is PlanStatus.CANCELLED:
        return "cancelled"
    if status is PlanStatus.TIMED_OUT:
        return f"no path in {request.timeout:.3g} s; more time may find one"
    return f"no path in {settings.max_iterations} iterations; more may find one"
