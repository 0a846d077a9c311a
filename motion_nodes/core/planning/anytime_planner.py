# SPDX-License-Identifier: Apache-2.0
"""Anytime planning: paths are improved until the time is used up.

Two methods alternate, because they complement each other: new searches with other seeds, which find
paths in other homotopy classes, in three of four turns, and random shortcuts of the best path,
which find the closest local minimum. Trees bounded by the cost of the best path (AORRTC) gained
nothing beyond that in the time they took.

Source: R. Luna et al., "Anytime solution optimization for sampling-based motion planning", 2013.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from motion_nodes.core.planning.planning_problem import PlanRequest, PlanResult, PlanStatus
from motion_nodes.core.planning.rrt_connect import (
    RrtConnect,
    RrtConnectSettings,
    TwoTrees,
    deadline,
)
from motion_nodes.core.planning.shortcut import ShorteningSettings, shorten_rows
from motion_nodes.core.planning.tree_search import SearchTree, check_number, find_ends, space_of
from motion_nodes.kernels.bridges import Checker
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.tolerances import RATIO_ROUNDING
from motion_nodes.typing import Array

_TURN_TIME = 3e-3
"""Approximate duration of one method before the next one takes over [s]."""
_PROMISING = 1.1
"""New paths longer than this multiple of the best cost are dropped."""
_WORTH = 1e-4
"""Min relative improvement of the cost."""


@dataclass(frozen=True)
class AnytimeSettings:
    """Settings of anytime optimization."""

    optimization_time: float = 0.1
    """Duration after which the best path is returned, at most the request's timeout [s]."""
    search: RrtConnectSettings = field(default_factory=RrtConnectSettings)
    """Search for the first path; metric (default: 1 for each joint, because lengths in it are
    minimized), step size and iterations apply to all searches."""
    shortening: ShorteningSettings = field(
        default_factory=lambda: ShorteningSettings(rounds=8, jumps=10, corner_tries=3)
    )
    """Shortening of each path found."""

    def __post_init__(self) -> None:
        check_number("optimization_time", self.optimization_time, 0.0)


@dataclass
class _Best:
    """The best path found."""

    path: Array
    cost: float
    goal: int


class AnytimeRrtConnect:
    """Returns the shortest path found within its time.

    The first path is that of RRT-Connect, shortened. The cost decreases monotonically.
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
        ways = _Ways(checker, other, roots, settings, request.random_seed)
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
        roots: tuple[Array, ...],
        settings: AnytimeSettings,
        random_seed: int,
    ) -> None:
        self._checker, self._search, self._space = checker, search, search.space
        self._roots, self._settings, self._seed = roots, settings, random_seed
        self._turn = 0
        self.iterations = 0
        """Number of extensions tried."""

    def next(self, best: _Best, give_up: Callable[[], PlanStatus | None]) -> _Best | None:
        """Return a possibly better path, or None."""
        self._turn += 1
        self._seed += 1
        end = compute_time() + _TURN_TIME

        def over() -> PlanStatus | None:
            return give_up() or (PlanStatus.TIMED_OUT if compute_time() > end else None)

        return self._shorter(best) if self._turn % 4 == 1 else self._anew(best, over)

    def _shorter(self, best: _Best) -> _Best:
        path = self._shortened(best.path, self._settings.shortening)
        return _Best(path, self._space.length(path), best.goal)

    def _anew(self, best: _Best, over: Callable[[], PlanStatus | None]) -> _Best | None:
        search = self._search
        search.plant(self._checker, self._roots, self._seed)
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

    def _shortened(self, path: Array, settings: ShorteningSettings) -> Array:
        weights = self._space.weights
        return shorten_rows(self._checker, weights, path, settings, self._seed, np.inf)
