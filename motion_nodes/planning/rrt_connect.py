# SPDX-License-Identifier: Apache-2.0
"""RRT-Connect: two trees, from the start and from the goals, that grow until they meet."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.kernels import rrt_connect, rrt_samples
from motion_nodes.kernels.by_address import table_of
from motion_nodes.kernels.checker_calls import Checker
from motion_nodes.kernels.rrt_connect import (
    EXHAUSTED,
    FULL,
    ITERATIONS,
    JOINED,
    REACHED,
    WAYPOINTS,
    Rules,
)
from motion_nodes.model.limits import JointLimits
from motion_nodes.model.tree import Array
from motion_nodes.planning.goals import is_exact
from motion_nodes.planning.joint_space import TURN, JointSpace
from motion_nodes.planning.problem import JointGoal, PlanRequest, PlanResult, PlanStatus
from motion_nodes.planning.search_settings import RrtConnectSettings
from motion_nodes.planning.tree_search import SearchTree, find_ends, space_of
from motion_nodes.scene.contacts import KernelChecker

_BATCH_TIME = 1.5e-3
"""About so long a kernel runs before Python looks at clock and cancelling [s]."""
_ROOM = 512
"""Nodes of each tree at first."""
_STEPS_ACROSS = 13.0
"""Edges along the diagonal of the space, where none are asked for."""
_REACH = 3.0
"""Reach of a node at an obstacle, in greatest edges."""
_PATIENCE = 1e-3
"""So long one thread searches alone [s]: most searches end before another could begin."""


class TwoTrees:
    """One search after another in the same memory: start and goals, and the trees that grow."""

    def __init__(
        self,
        space: JointSpace,
        limits: JointLimits,
        settings: RrtConnectSettings,
        points: ArrayLike,
    ) -> None:
        """Make the memory.

        Args:
            space: the joints.
            limits: of the same joints; start and goals must keep to them.
            settings: how the trees grow.
            points: start and goals, or others, where a joint has no end; shape (m, n).
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
        """Duration of the search, without making its memory [s]."""

    def plant(
        self, checker: KernelChecker | Checker, ends: Sequence[Array], random_seed: int
    ) -> bool:
        """Begin a search.

        Args:
            checker: must be kept by the caller until the search has ended.
            ends: the start, then goals, any of which will do, each of shape (n,).
            random_seed: of the samples.

        Returns:
            Whether start and goals are free and within the limits.
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
        """How many extensions were tried."""
        return int(self.counts[ITERATIONS])

    @property
    def sizes(self) -> tuple[int, int]:
        """Nodes of the trees from start and goals."""
        sizes = self._memory.trees.sizes
        return int(sizes[0]), int(sizes[1])

    @property
    def length(self) -> float:
        """Length of the path that was found, in the metric."""
        return float(self._memory.found.length[0])

    def search(self, give_up: Callable[[], PlanStatus | None]) -> PlanStatus:
        """Search until the trees meet.

        Args:
            give_up: asked every millisecond or two; what it returns ends the search.
        """
        while True:
            began = time.perf_counter()
            code = rrt_connect.search(self._table, self._budget)
            spent = time.perf_counter() - began
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
        """Return the path that was found, and to which row of the goals it leads."""
        count, goal = int(self.counts[WAYPOINTS]), int(self.counts[REACHED])
        return self._memory.found.path[:count].copy(), goal

    def drawn(self) -> SearchTree:
        """Return both trees as one that can be drawn, the start's nodes first."""
        first, second = self.sizes
        trees = self._memory.trees
        parents = trees.parents[:, : max(first, second)].astype(np.int64)
        parents[1][parents[1] >= 0] += first
        return SearchTree(
            np.concatenate((trees.nodes[0, :first], trees.nodes[1, :second])),
            np.concatenate((parents[0, :first], parents[1, :second])),
        )


class _Kernels:
    """Whether the kernels are there: the first search of a process loads or compiles them."""

    ready = False


def load_kernels() -> bool:
    """Load or compile the kernels at the first call of a process, which may take ten seconds.

    Returns:
        Whether anything had to be done; it is no part of planning then.
    """
    if _Kernels.ready:
        return False
    rrt_connect.load()
    _Kernels.ready = True
    return True


def longest_edge(
    settings: RrtConnectSettings, space: JointSpace, lower: Array, upper: Array
) -> float:
    """Return the greatest length of an edge, in the metric."""
    if space.bounded:
        diagonal = space.diagonal
    else:
        diagonal = float(np.linalg.norm((upper - lower) * space.weights))
    # Where nothing can move, any length will do.
    return settings.step_size or diagonal / _STEPS_ACROSS or 1.0


def _rules(settings: RrtConnectSettings, space: JointSpace, lower: Array, upper: Array) -> Rules:
    """Return the numbers that the kernel works with."""
    step = longest_edge(settings, space, lower, upper)
    reach = _REACH * step if settings.dynamic_domain else math.inf
    return Rules(
        longest=step,
        reach=reach,
        least_reach=min(step, reach),
        reach_change=1e-4 if settings.dynamic_domain else 0.0,
        exploration=settings.exploration_fraction,
        max_sampling=settings.max_sampling,
        max_iterations=settings.max_iterations,
    )


@dataclass
class _Portfolio:
    """Searches side by side, of which the first to succeed wins."""

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
    """Returns the first path that it finds, usually within a millisecond; not the shortest."""

    name = "RRTConnect"

    def __init__(self, settings: RrtConnectSettings | None = None) -> None:
        self.settings = settings or RrtConnectSettings()
        self._last: TwoTrees | None = None
        self._idle: list[tuple[object, TwoTrees]] = []

    def tree(self) -> SearchTree | None:
        """Return both trees of the last search as one, to draw."""
        return self._last.drawn() if self._last is not None else None

    def plan(self, request: PlanRequest) -> PlanResult:
        """Search a path; every edge of it is checked.

        The path begins with the start and ends with a goal, exact to the last bit; joints that go
        round may end some full turns from the goal's values, so that nothing jumps on the way. A
        start that is a goal gives a path of two equal waypoints.
        """
        load_kernels()
        began = time.perf_counter()
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
                time.perf_counter() - began,
                index[goal],
            )
        else:
            result = self.failed(status, request, self.settings, search, began)
        self._keep(request, search)
        del kernel  # until here it keeps alive what the addresses point to
        return result

    def _planted(
        self, request: PlanRequest, kernel: KernelChecker
    ) -> tuple[TwoTrees, Sequence[Array], Sequence[int]] | PlanResult:
        """Return a search that has begun, its start and goals, and which goal each is."""
        ends = _plain_ends(request)
        if ends is not None:
            search = self._trees(request, ends)
            if search.plant(kernel, ends, request.random_seed):
                return search, ends, range(len(request.goals))
            self._keep(request, search)
        # Something has to be looked for, or there is something to be said.
        found = find_ends(request)
        if isinstance(found, PlanResult):
            return replace(found, planner=self.name)
        ends = [found.start, *found.goals.Q]
        search = self._trees(request, ends)
        search.plant(kernel, ends, request.random_seed)
        return search, ends, found.goals.index

    def _trees(self, request: PlanRequest, ends: Sequence[Array]) -> TwoTrees:
        """Return memory for a search: that of the one before, if its joints were the same."""
        checker = request.checker
        with contextlib.suppress(IndexError):
            # Another thread may be at the same planner: what is taken here it will not find.
            joints, search = self._idle.pop()
            if joints == (checker.robot, checker.joint_names):
                return search
        space = space_of(request, self.settings.distance_metric_weights)
        return TwoTrees(space, checker.limits, self.settings, np.array(ends))

    def _keep(self, request: PlanRequest, search: TwoTrees) -> None:
        """Keep memory for the next search."""
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
        """Return the result of a search that found nothing."""
        now = time.perf_counter()
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
        """Search with one thread or several; return the search that succeeded, if one did."""
        give_up = deadline(request, began + request.timeout)
        if self.settings.threads == 1:
            return first, first.search(give_up)
        patience = time.perf_counter() + _PATIENCE

        def impatient() -> PlanStatus | None:
            status = give_up()
            return status or (PlanStatus.TIMED_OUT if time.perf_counter() > patience else None)

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
    """Return start and goals where each is one configuration; None where they are not."""
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
    """Return what tells a search to give up: when time is over, or when it was cancelled."""

    def give_up() -> PlanStatus | None:
        if request.cancelled():
            return PlanStatus.CANCELLED
        return PlanStatus.TIMED_OUT if time.perf_counter() > end else None

    return give_up


def _why(status: PlanStatus, request: PlanRequest, settings: RrtConnectSettings) -> str:
    """Return in words why there is no path."""
    if status is PlanStatus.CANCELLED:
        return "cancelled"
    if status is PlanStatus.TIMED_OUT:
        return f"no path in {request.timeout:.3g} s; more time may find one"
    return f"no path in {settings.max_iterations} iterations; more may find one"
