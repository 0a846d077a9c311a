# SPDX-License-Identifier: Apache-2.0
"""Paths that get shorter as long as there is time: RRT-Connect, again and again below a bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from motion_nodes.kernels import rrt_bounded, rrt_trees
from motion_nodes.kernels.checker_calls import Checker
from motion_nodes.kernels.rrt_bounded import Bound
from motion_nodes.kernels.rrt_connect import (
    COUNTS,
    EXHAUSTED,
    FULL,
    ITERATIONS,
    JOINED,
    MET_GOAL,
    MET_START,
)
from motion_nodes.model.tree import Array
from motion_nodes.planning.joint_space import TURN, JointSpace
from motion_nodes.planning.problem import PlanRequest, PlanResult, PlanStatus
from motion_nodes.planning.rrt_connect import RrtConnect, TwoTrees, deadline, longest_edge
from motion_nodes.planning.search_settings import AnytimeSettings
from motion_nodes.planning.shortcut import shorten_rows
from motion_nodes.planning.tree_search import SearchTree, find_ends, space_of

_BATCH_TIME = 1.5e-3
"""About so long a kernel runs before Python looks at clock and cancelling [s]."""
_ROOM = 2048
"""Nodes of each tree at first."""
_COST_WEIGHT = 0.5
"""Of the length of branches in the distance of nodes."""
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

    The first path is that of RRT-Connect, shortened. Then trees grow in which only paths shorter
    than the best one can be, and begin anew with each that is found. The cost never rises, and
    comes arbitrarily near to the least there is.
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
        started = time.perf_counter()
        kernel = request.checker.kernel()
        checker = Checker(kernel.state, kernel.edge, kernel.memory)
        search = TwoTrees(
            checker, space, ends.start, ends.goals.Q, settings.search, request.random_seed
        )
        self._first = search
        status = search.search(deadline(request, began + request.timeout))
        if status is not PlanStatus.SOLVED:
            found = RrtConnect.failed(status, request, settings.search, search, started, began)
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
        best = _Best(path, space.length(path), goal)
        self._shorten(checker, space, best, request.random_seed)
        if self._improved is not None:
            self._improved(result(best, search.iterations))
        end = began + min(request.timeout, settings.optimization_time)
        give_up = deadline(request, end)
        least = float(space.distance(ends.goals.Q, ends.start).min()) * (1.0 + _SLACK)
        iterations, number = search.iterations, 0
        while best.cost > least and give_up() is None:
            number += 1
            seed = request.random_seed + number
            bounded = _BoundedTrees(
                checker, space, ends.start, ends.goals.Q, settings, best.cost, seed
            )
            found_path = bounded.search(give_up)
            iterations += bounded.iterations
            if found_path is not None:
                best = _Best(*found_path)
                self._shorten(checker, space, best, seed)
                if self._improved is not None:
                    self._improved(result(best, iterations))
        del kernel  # until here it keeps alive what the addresses point to
        return result(best, iterations)

    def _shorten(self, checker: Checker, space: JointSpace, best: _Best, seed: int) -> None:
        settings = self.settings.shortening
        shorter = shorten_rows(checker, space.weights, best.path, settings, seed, np.inf)
        best.path, best.cost = shorter, min(best.cost, space.length(shorter))


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
        self._space = rrt_trees.Space(
            np.append(space.weights, _COST_WEIGHT), np.append(np.where(space.wraps, TURN, 0.0), 0.0)
        )
        wanted = cost * (1.0 - settings.least_gain)
        self._bound = Bound(wanted, longest, settings.search.max_iterations, lower, upper)
        room = max(_ROOM, 2 * len(goals))
        self._trees = rrt_trees.make_trees(
            self._space, np.append(start, 0.0), np.pad(goals, ((0, 0), (0, 1))), room
        )
        self._counts = np.zeros(COUNTS, np.int64)
        self._random = np.array([seed % 2**64], np.uint64)
        self._budget = 100

    @property
    def iterations(self) -> int:
        """How many extensions were tried."""
        return int(self._counts[ITERATIONS])

    def search(self, give_up: Callable[[], PlanStatus | None]) -> tuple[Array, float, int] | None:
        """Return a shorter path, its cost and its goal; None when there is no more time."""
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
                return None
            if code == FULL:
                self._trees = rrt_trees.grown(self._trees)
            else:
                spent = max(time.perf_counter() - began, 1e-6)
                self._budget = max(1, int(self._budget * min(_BATCH_TIME / spent, 4.0)))
        return None

    def _path(self) -> tuple[Array, float, int]:
        a = int(self._counts[MET_START])
        b = int(self._counts[MET_GOAL])
        rows = np.empty((int(self._trees.sizes.sum()), len(self._space.weights)))
        count = rrt_trees.path_between(self._space, self._trees, a, b, rows)
        path = rows[:count, :-1].copy()
        goal = rrt_trees.root_of(self._trees, rrt_trees.GOAL, b)
        return path, self._joints.length(path), goal
