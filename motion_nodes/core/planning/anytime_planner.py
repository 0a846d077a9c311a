# SPDX-License-Identifier: Apache-2.0
"""Anytime planning: paths are improved until the time is used up.

Three methods alternate, because they complement each other: new searches with other seeds, which
find paths in other homotopy classes (R. Luna et al., "Anytime solution optimization for
sampling-based motion planning", 2013), in three of four turns; random shortcuts of the best path,
which find the closest local minimum; and, in one of 32 turns, cost-bounded trees, which are
asymptotically optimal (``kernels/search/rrt_bounded.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from motion_nodes.core.planning.planning_problem import (
    JointSpace,
    PlanRequest,
    PlanResult,
    PlanStatus,
)
from motion_nodes.core.planning.rrt_connect import (
    RrtConnect,
    RrtConnectSettings,
    TwoTrees,
    deadline,
    longest_edge,
)
from motion_nodes.core.planning.shortcut import ShorteningSettings, shorten_rows
from motion_nodes.core.planning.tree_search import SearchTree, check_number, find_ends, space_of
from motion_nodes.core.robot.limits import TURN
from motion_nodes.kernels.bridges import Checker
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.kernels.search import rrt_bounded, rrt_trees
from motion_nodes.kernels.search.rrt_bounded import BoundedSearch, CostBound
from motion_nodes.kernels.search.rrt_connect import (
    COUNTS,
    EXHAUSTED,
    FULL,
    ITERATIONS,
    JOINED,
    MET_GOAL,
    MET_START,
)
from motion_nodes.tolerances import RATIO_ROUNDING
from motion_nodes.typing import Array

_BATCH_TIME = 1.5e-3
"""Approximate duration of a kernel call between checks of timeout and cancellation [s]."""
_ROOM = 2048
"""Initial capacity of each tree [nodes]."""
_COST_WEIGHT = 0.5
"""Weight of the branch length in the distance between nodes."""
_TURN_TIME = 3e-3
"""Approximate duration of one method before the next one takes over [s]."""
_CYCLE = 32
"""Period of the cost-bounded trees [turns]; new searches improve the path faster."""
_PROMISING = 1.1
"""New paths longer than this multiple of the best cost are dropped."""
_WORTH = 1e-4
"""Min relative improvement of the cost."""


@dataclass(frozen=True)
class AnytimeSettings:
    """Settings of anytime optimization."""

    optimization_time: float = 0.1
    """Duration after which the best path is returned, at most the request's timeout [s]."""
    least_gain: float = 0.002
    """Min relative improvement over the best path."""
    search: RrtConnectSettings = field(default_factory=RrtConnectSettings)
    """Search for the first path; metric (default: 1 for each joint, because lengths in it are
    minimized), step size and iterations apply to all searches."""
    shortening: ShorteningSettings = field(
        default_factory=lambda: ShorteningSettings(rounds=8, jumps=10, corner_tries=3)
    )
    """Shortening of each path found."""

    def __post_init__(self) -> None:
        check_number("optimization_time", self.optimization_time, 0.0)
        check_number("least_gain", self.least_gain, 0.0, 1.0)


@dataclass
class _Best:
    """The best path found."""

    path: Array
    cost: float
    goal: int


class AnytimeRrtConnect:
    """Returns the shortest path found within its time.

    The first path is that of RRT-Connect, shortened. The cost decreases monotonically and converges
    to the optimum.
    """

    name = "AnytimeRRTConnect"

    def __init__(
        self,
        settings: AnytimeSettings | None = None,
        improved: Callable[[PlanResult], None] | None = None,
    ) -> None:
        """Create a planner.

        Args:
            settings: search settings and duration.
            improved: called with each improved path, including the first one.
        """
        self.settings = settings or AnytimeSettings()
        self._improved = improved
        self._first: TwoTrees | None = None

    def tree(self) -> SearchTree | None:
        """Return both trees of the search for the first path as one, for visualization."""
        return self._first.drawn() if self._first is not None else None

    def plan(self, request: PlanRequest) -> PlanResult:
        """Search until the time is used up, the optimum is reached, or the request is cancelled.

        After a cancellation the best path found is returned.
        """
        began = compute_time()
        settings = self.settings
        space = space_of(request, settings.search.distance_metric_weights)
        ends = find_ends(request)
        if isinstance(ends, PlanResult):
            return replace(ends, planner=self.name)
        kernel = request.checker.kernel()
        checker = Checker(kernel.state, kernel.edge, kernel.memory)
        started = compute_time()
        roots = (ends.start, *ends.goals.Q)
        search = TwoTrees(space, request.checker.limits, settings.search, roots)
        search.plant(checker, roots, request.random_seed)
        self._first = search
        status = search.search(deadline(request, began + request.timeout))
        if status is not PlanStatus.SOLVED:
            found = RrtConnect.failed(status, request, settings.search, search, began)
            return replace(found, planner=self.name)

        def result(best: _Best, iterations: int) -> PlanResult:
            now = compute_time()
            return PlanResult(
                PlanStatus.SOLVED,
                best.path,
                "",
                self.name,
                iterations,
                search.sizes,
                best.cost,
                now - started,
                now - began,
                ends.goals.index[best.goal],
            )

        path, goal = search.path()
        # Quickly: it may be all that the time allows for.
        quick = ShorteningSettings()
        path = shorten_rows(checker, space.weights, path, quick, request.random_seed, np.inf)
        best = _Best(path, space.length(path), goal)
        if self._improved is not None:
            self._improved(result(best, search.iterations))
        end = began + min(request.timeout, settings.optimization_time)
        give_up = deadline(request, end)
        least = float(space.distance(ends.goals.Q, ends.start).min()) * (1.0 + RATIO_ROUNDING)
        other = TwoTrees(space, request.checker.limits, settings.search, roots)
        ways = _Ways(checker, other, ends.start, ends.goals.Q, settings, request.random_seed)
        while best.cost > least and give_up() is None:
            better = ways.next(best, give_up)
            if better is not None and better.cost < best.cost * (1.0 - _WORTH):
                best = better
                if self._improved is not None:
                    self._improved(result(best, search.iterations + ways.iterations))
        iterations = search.iterations + ways.iterations
        del kernel  # until here it keeps the memory at these addresses alive
        return result(best, iterations)


class _Ways:
    """The methods of improvement, which alternate."""

    def __init__(
        self,
        checker: Checker,
        search: TwoTrees,
        start: Array,
        goals: Array,
        settings: AnytimeSettings,
        random_seed: int,
    ) -> None:
        self._checker, self._search, self._space = checker, search, search.space
        self._start, self._goals = start, goals
        self._settings, self._seed = settings, random_seed
        self._turn = 0
        self._trees: _BoundedTrees | None = None
        self.iterations = 0
        """Number of extensions tried."""

    def next(self, best: _Best, give_up: Callable[[], PlanStatus | None]) -> _Best | None:
        """Return a possibly better path, or None."""
        self._turn += 1
        self._seed += 1
        end = compute_time() + _TURN_TIME

        def over() -> PlanStatus | None:
            return give_up() or (PlanStatus.TIMED_OUT if compute_time() > end else None)

        if self._turn % _CYCLE == 0:
            return self._bounded(best, over)
        return self._shorter(best) if self._turn % 4 == 1 else self._anew(best, over)

    def _shorter(self, best: _Best) -> _Best:
        path = self._shortened(best.path, self._settings.shortening)
        return _Best(path, self._space.length(path), best.goal)

    def _anew(self, best: _Best, over: Callable[[], PlanStatus | None]) -> _Best | None:
        search = self._search
        search.plant(self._checker, (self._start, *self._goals), self._seed)
        status = search.search(over)
        self.iterations += search.iterations
        if status is not PlanStatus.SOLVED:
            return None
        path, goal = search.path()
        path = self._shortened(path, ShorteningSettings())
        # A much longer path belongs to another homotopy class; shortcuts cannot compensate.
        if self._space.length(path) > _PROMISING * best.cost:
            return None
        return self._shorter(_Best(path, self._space.length(path), goal))

    def _bounded(self, best: _Best, over: Callable[[], PlanStatus | None]) -> _Best | None:
        trees = self._trees
        if trees is None or trees.cost > best.cost or trees.exhausted:
            roots = np.vstack((self._start, self._goals))
            trees = _BoundedTrees(
                self._checker, self._space, roots, self._settings, best.cost, self._seed
            )
        before, self._trees = trees.iterations, trees
        found = trees.search(over)
        self.iterations += trees.iterations - before
        return self._shorter(found) if found is not None else None

    def _shortened(self, path: Array, settings: ShorteningSettings) -> Array:
        weights = self._space.weights
        return shorten_rows(self._checker, weights, path, settings, self._seed, np.inf)


class _BoundedTrees:
    """One search for a path shorter than the best one, from the first root to the others."""

    def __init__(
        self,
        checker: Checker,
        space: JointSpace,
        roots: Array,
        settings: AnytimeSettings,
        cost: float,
        seed: int,
    ) -> None:
        start, goals = roots[0], roots[1:]
        lower, upper = space.bounds(start, goals)
        longest = longest_edge(settings.search, space, lower, upper)
        self._checker, self._joints = checker, space
        # The cost is an additional coordinate, which is never periodic.
        self._space = rrt_trees.ConnectSpace(
            np.append(space.weights, _COST_WEIGHT), np.append(np.where(space.wraps, TURN, 0.0), 0.0)
        )
        desired = cost * (1.0 - settings.least_gain)
        self._bound = CostBound(desired, longest, settings.search.iteration_bound, lower, upper)
        room = max(_ROOM, 2 * len(goals))
        self._trees = rrt_trees.make_trees(
            self._space, np.append(start, 0.0), np.pad(goals, ((0, 0), (0, 1))), room
        )
        self._counts = np.zeros(COUNTS, np.int64)
        self._random = np.array([seed % 2**64], np.uint64)
        self._budget = 100
        self.cost, self.exhausted = cost, False

    @property
    def iterations(self) -> int:
        """Number of extensions tried."""
        return int(self._counts[ITERATIONS])

    def search(self, give_up: Callable[[], PlanStatus | None]) -> _Best | None:
        """Return a shorter path; None on timeout, or if the search is exhausted."""
        while give_up() is None:
            began = compute_time()
            state = BoundedSearch(
                self._checker, self._space, self._trees, self._bound, self._random, self._counts
            )
            code = rrt_bounded.search(state, self._budget)
            if code == JOINED:
                return self._path()
            if code == EXHAUSTED:
                self.exhausted = True
                return None
            if code == FULL:
                self._trees = rrt_trees.grown(self._trees)
            else:
                spent = max(compute_time() - began, 1e-6)
                self._budget = max(1, int(self._budget * min(_BATCH_TIME / spent, 4.0)))
        return None

    def _path(self) -> _Best:
        a = int(self._counts[MET_START])
        b = int(self._counts[MET_GOAL])
        rows = np.empty((int(self._trees.sizes.sum()), len(self._space.weights)))
        count = rrt_trees.path_between(self._space, self._trees, a, b, rows)
        path = rows[:count, :-1].copy()
        goal = rrt_trees.root_of(self._trees, rrt_trees.GOAL, b)
        return _Best(path, self._joints.length(path), goal)
