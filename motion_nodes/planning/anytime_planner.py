# SPDX-License-Identifier: Apache-2.0
"""Paths that get shorter as long as there is time.

Three ways to a better path take turns, for each is good where the others are weak: random shortcuts
of the best path, which find the nearest minimum; new searches with other seeds, which find other
ways round what stands there (R. Luna et al., "Anytime solution optimization for sampling-based
motion planning", 2013); and trees in which only shorter paths can be, by which the cost comes as
near to the least there is as is wished (``kernels/search/rrt_bounded.py``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from motion_nodes.kernels.collision.checker_bridge import Checker
from motion_nodes.kernels.search import rrt_bounded, rrt_trees
from motion_nodes.kernels.search.rrt_bounded import CostBound
from motion_nodes.kernels.search.rrt_connect import (
    COUNTS,
    EXHAUSTED,
    FULL,
    ITERATIONS,
    JOINED,
    MET_GOAL,
    MET_START,
)
from motion_nodes.model.tree import Array
from motion_nodes.planning.bidirectional_search import TwoTrees, load_kernels, longest_edge
from motion_nodes.planning.joint_space import TURN, JointSpace
from motion_nodes.planning.planning_problem import PlanRequest, PlanResult, PlanStatus
from motion_nodes.planning.rrt_connect import RrtConnect, deadline
from motion_nodes.planning.search_settings import AnytimeSettings, ShorteningSettings
from motion_nodes.planning.shortcut import shorten_rows
from motion_nodes.planning.tree_search import SearchTree, find_ends, space_of

_BATCH_TIME = 1.5e-3
"""About so long a kernel runs before Python looks at clock and cancelling [s]."""
_ROOM = 2048
"""Nodes of each tree at first."""
_COST_WEIGHT = 0.5
"""Of the length of branches in the distance of nodes."""
_TURN_TIME = 3e-3
"""About so long one way to a better path is tried before it is another's turn [s]."""
_PROMISING = 1.1
"""New paths that are longer than the best one by more are dropped."""
_WORTH = 1e-4
"""A path that is better by less is no improvement, as a part of the cost."""
_SLACK = 1e-9
"""Paths this little longer than the straight way are as short as can be, as a part of it."""


@dataclass
class _Best:
    """The best path so far."""

    path: Array
    cost: float
    goal: int


class AnytimeRrtConnect:
    """Returns the shortest path that it finds until its time is over.

    The first path is that of RRT-Connect, shortened. The cost never rises after it, and comes
    arbitrarily near to the least there is.
    """

    name = "AnytimeRRTConnect"

    def __init__(
        self,
        settings: AnytimeSettings | None = None,
        improved: Callable[[PlanResult], None] | None = None,
    ) -> None:
        """Make a planner.

        Args:
            settings: how it searches and for how long.
            improved: called with each path that is better than all before, the first one included.
        """
        self.settings = settings or AnytimeSettings()
        self._improved = improved
        self._first: TwoTrees | None = None

    def tree(self) -> SearchTree | None:
        """Return both trees of the search for the first path as one, to draw."""
        return self._first.drawn() if self._first is not None else None

    def plan(self, request: PlanRequest) -> PlanResult:
        """Search paths until the time for it is over, the shortest possible is found, or cancelled.

        Cancelling ends the search with what was found by then.
        """
        began = time.perf_counter()
        settings = self.settings
        space = space_of(request, settings.search.distance_metric_weights)
        ends = find_ends(request)
        if isinstance(ends, PlanResult):
            return replace(ends, planner=self.name)
        kernel = request.checker.kernel()
        checker = Checker(kernel.state, kernel.edge, kernel.memory)
        if load_kernels():
            began = time.perf_counter()
        started = time.perf_counter()
        roots = (ends.start, *ends.goals.Q)
        search = TwoTrees(space, request.checker.limits, settings.search, roots)
        search.plant(checker, roots, request.random_seed)
        self._first = search
        status = search.search(deadline(request, began + request.timeout))
        if status is not PlanStatus.SOLVED:
            found = RrtConnect.failed(status, request, settings.search, search, began)
            return replace(found, planner=self.name)

        def result(best: _Best, iterations: int) -> PlanResult:
            now = time.perf_counter()
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
        shorten = settings.shortening
        path = shorten_rows(checker, space.weights, path, shorten, request.random_seed, np.inf)
        best = _Best(path, space.length(path), goal)
        if self._improved is not None:
            self._improved(result(best, search.iterations))
        end = began + min(request.timeout, settings.optimization_time)
        give_up = deadline(request, end)
        least = float(space.distance(ends.goals.Q, ends.start).min()) * (1.0 + _SLACK)
        other = TwoTrees(space, request.checker.limits, settings.search, roots)
        ways = _Ways(checker, other, ends.start, ends.goals.Q, settings, request.random_seed)
        while best.cost > least and give_up() is None:
            better = ways.next(best, give_up)
            if better is not None and better.cost < best.cost * (1.0 - _WORTH):
                best = better
                if self._improved is not None:
                    self._improved(result(best, search.iterations + ways.iterations))
        iterations = search.iterations + ways.iterations
        del kernel  # until here it keeps alive what the addresses point to
        return result(best, iterations)


class _Ways:
    """The ways to a better path, which take turns."""

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
        """Extensions tried so far."""

    def next(self, best: _Best, give_up: Callable[[], PlanStatus | None]) -> _Best | None:
        """Return a path that may be better, or None."""
        self._turn += 1
        self._seed += 1
        end = time.perf_counter() + _TURN_TIME

        def over() -> PlanStatus | None:
            return give_up() or (PlanStatus.TIMED_OUT if time.perf_counter() > end else None)

        if self._turn % 3 == 0:
            return self._bounded(best, over)
        return self._anew(best, over) if self._turn % 3 == 1 else self._shorter(best)

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
        # What is still much longer leads another way, on which no shortcut makes up for it.
        if self._space.length(path) > _PROMISING * best.cost:
            return None
        return self._shorter(_Best(path, self._space.length(path), goal))

    def _bounded(self, best: _Best, over: Callable[[], PlanStatus | None]) -> _Best | None:
        trees = self._trees
        if trees is None or trees.cost > best.cost or trees.exhausted:
            start, goals, settings = self._start, self._goals, self._settings
            trees = _BoundedTrees(
                self._checker, self._space, start, goals, settings, best.cost, self._seed
            )
        before, self._trees = trees.iterations, trees
        found = trees.search(over)
        self.iterations += trees.iterations - before
        return self._shorter(found) if found is not None else None

    def _shortened(self, path: Array, settings: ShorteningSettings) -> Array:
        weights = self._space.weights
        return shorten_rows(self._checker, weights, path, settings, self._seed, np.inf)


class _BoundedTrees:
    """One search for a path that is shorter than the best one."""

    def __init__(
        self,
        checker: Checker,
        space: JointSpace,
        start: Array,
        goals: Array,
        settings: AnytimeSettings,
        cost: float,
        seed: int,
    ) -> None:
        lower, upper = space.bounds(start, goals)
        longest = longest_edge(settings.search, space, lower, upper)
        self._checker, self._joints = checker, space
        # The cost is one coordinate more, which never goes round.
        self._space = rrt_trees.ConnectSpace(
            np.append(space.weights, _COST_WEIGHT), np.append(np.where(space.wraps, TURN, 0.0), 0.0)
        )
        wanted = cost * (1.0 - settings.least_gain)
        self._bound = CostBound(wanted, longest, settings.search.iteration_bound, lower, upper)
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
        """How many extensions were tried."""
        return int(self._counts[ITERATIONS])

    def search(self, give_up: Callable[[], PlanStatus | None]) -> _Best | None:
        """Return a shorter path; None when there is no more time, or nothing more to try."""
        while give_up() is None:
            began = time.perf_counter()
            code = rrt_bounded.search(
                self._checker,
                self._space,
                self._trees,
                self._bound,
                self._random,
                self._counts,
                self._budget,
            )
            if code == JOINED:
                return self._path()
            if code == EXHAUSTED:
                self.exhausted = True
                return None
            if code == FULL:
                self._trees = rrt_trees.grown(self._trees)
            else:
                spent = max(time.perf_counter() - began, 1e-6)
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
