# SPDX-License-Identifier: Apache-2.0
"""RRT-Connect: two trees, from the start and from the goals, that grow until they meet."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.planning.bidirectional_search import TwoTrees
from motion_nodes.planning.goal_sampling import is_exact
from motion_nodes.planning.planning_problem import JointGoal, PlanRequest, PlanResult, PlanStatus
from motion_nodes.planning.search_settings import RrtConnectSettings
from motion_nodes.planning.tree_search import SearchTree, find_ends, space_of
from motion_nodes.scene.contacts import KernelChecker
from motion_nodes.typing import Array

_PATIENCE = 1e-3
"""Time that one thread searches alone [s]: most searches end before another could begin."""


@dataclass
class _Portfolio:
    """Parallel searches, of which the first success wins."""

    searches: list[TwoTrees]
    give_up: Callable[[], PlanStatus | None]
    won: threading.Event = field(default_factory=threading.Event)
    winner: int = 0

    def run(self) -> PlanStatus:
        """Search in this thread and in one for each further search."""
        with ThreadPoolExecutor(len(self.searches) - 1) as threads:
            others = [threads.submit(self._one, k) for k in range(1, len(self.searches))]
            statuses = [self._one(0), *(other.result() for other in others)]
        return statuses[self.winner]

    def _one(self, number: int) -> PlanStatus:
        status = self.searches[number].search(self._stop)
        if status is PlanStatus.SOLVED and not self.won.is_set():
            self.winner = number
            self.won.set()
        return status

    def _stop(self) -> PlanStatus | None:
        return PlanStatus.CANCELLED if self.won.is_set() else self.give_up()


class RrtConnect:
    """Returns the first path found, usually within a millisecond; not optimal."""

    name = "RRTConnect"

    def __init__(self, settings: RrtConnectSettings | None = None) -> None:
        self.settings = settings or RrtConnectSettings()
        self._last: TwoTrees | None = None
        self._idle: list[tuple[object, TwoTrees]] = []

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
        first, ends, index = planted
        search, status = self._search(request, kernel, first, ends, began)
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
        self._keep(request, search)
        del kernel  # until here it keeps the memory at these addresses alive
        return result

    def _planted(
        self, request: PlanRequest, kernel: KernelChecker
    ) -> tuple[TwoTrees, Sequence[Array], Sequence[int]] | PlanResult:
        """Return a started search, its start and goals, and the index of each goal."""
        ends = _plain_ends(request)
        if ends is not None:
            search = self._trees(request, ends)
            planted = search.plant(kernel, ends, request.random_seed)
            if planted and request.checker.exact.are_free(np.array(ends)).all():
                return search, ends, range(len(request.goals))
            self._keep(request, search)
        # Goals must be sampled, or there is an error to report.
        found = find_ends(request)
        if isinstance(found, PlanResult):
            return replace(found, planner=self.name)
        ends = [found.start, *found.goals.Q]
        search = self._trees(request, ends)
        search.plant(kernel, ends, request.random_seed)
        return search, ends, found.goals.index

    def _trees(self, request: PlanRequest, ends: Sequence[Array]) -> TwoTrees:
        """Return the memory of a search, reused from the previous one for the same joints."""
        checker = request.checker
        with contextlib.suppress(IndexError):
            # Other threads may use the same planner: pop makes the memory exclusive.
            joints, search = self._idle.pop()
            if joints == (checker.robot, checker.joint_names):
                return search
        space = space_of(request, self.settings.distance_metric_weights)
        return TwoTrees(space, checker.limits, self.settings, np.array(ends))

    def _keep(self, request: PlanRequest, search: TwoTrees) -> None:
        """Store the memory for the next search."""
        if search.space.bounded:  # else it depends on start and goals
            self._idle[:] = [((request.checker.robot, request.checker.joint_names), search)]

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

    def _search(
        self,
        request: PlanRequest,
        kernel: KernelChecker,
        first: TwoTrees,
        ends: Sequence[Array],
        began: float,
    ) -> tuple[TwoTrees, PlanStatus]:
        """Search with one thread or several; return the successful search, if any."""
        give_up = deadline(request, began + request.timeout)
        if self.settings.threads == 1:
            return first, first.search(give_up)
        patience = compute_time() + _PATIENCE

        def impatient() -> PlanStatus | None:
            status = give_up()
            return status or (PlanStatus.TIMED_OUT if compute_time() > patience else None)

        status = first.search(impatient)
        if status is not PlanStatus.TIMED_OUT or give_up() is not None:
            return first, status
        searches = [first]
        for number in range(1, self.settings.threads):
            searches.append(TwoTrees(first.space, request.checker.limits, self.settings, ends))
            searches[-1].plant(kernel, ends, request.random_seed + number)
        portfolio = _Portfolio(searches, give_up)
        status = portfolio.run()
        return portfolio.searches[portfolio.winner], status


def _plain_ends(request: PlanRequest) -> list[Array] | None:
    """Return start and goals if each is one configuration; else None."""
    shape = (len(request.checker.joint_names),)
    ends = [request.start]
    for goal in request.goals:
        if not isinstance(goal, JointGoal) or not is_exact(goal):
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
