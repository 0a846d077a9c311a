# SPDX-License-Identifier: Apache-2.0
"""RRT-Connect: two trees, from the start and from the goals, that grow until they meet."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from motion_nodes.kernels import rrt_connect, rrt_samples, rrt_trees
from motion_nodes.kernels.checker_calls import Checker
from motion_nodes.kernels.rrt_connect import COUNTS, EXHAUSTED, FULL, ITERATIONS, JOINED, Rules
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array
from motion_nodes.planning.joint_space import TURN, JointSpace
from motion_nodes.planning.problem import PlanRequest, PlanResult, PlanStatus
from motion_nodes.planning.search_settings import RrtConnectSettings
from motion_nodes.planning.tree_search import SearchTree, find_ends, space_of

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
    """One search: start and goals, two trees, and how far they have come."""

    def __init__(
        self,
        checker: Checker,
        space: JointSpace,
        start: Array,
        goals: Array,
        settings: RrtConnectSettings,
        random_seed: int,
    ) -> None:
        """Plant the trees.

        Args:
            checker: addresses; what they point to must be kept by the caller.
            space: the joints.
            start: free, inside the limits, shape (n,).
            goals: the same, any of which will do, shape (g, n).
            settings: how the trees grow.
            random_seed: of the samples.
        """
        lower, upper = space.bounds(start, goals)
        near = np.concatenate((start[np.newaxis], goals))
        self._checker = checker
        self._space = rrt_trees.Space(space.weights.copy(), np.where(space.wraps, TURN, 0.0))
        self._rules = _rules(settings, space, lower, upper)
        self._samples = rrt_samples.make_samples(
            lower, upper, near, settings.focus_margin, settings.focus, random_seed
        )
        room = max(_ROOM, 2 * len(goals))
        self.trees = rrt_trees.make_trees(self._space, start, goals, room)
        self.counts = np.zeros(COUNTS, np.int64)
        self._budget = 100
        self.time = 0.0
        """Duration of the search, without making its memory [s]."""

    @property
    def iterations(self) -> int:
        """How many extensions were tried."""
        return int(self.counts[ITERATIONS])

    @property
    def sizes(self) -> tuple[int, int]:
        """Nodes of the trees from start and goals."""
        return int(self.trees.sizes[0]), int(self.trees.sizes[1])

    def search(self, give_up: Callable[[], PlanStatus | None]) -> PlanStatus:
        """Search until the trees meet.

        Args:
            give_up: asked every millisecond or two; what it returns ends the search.
        """
        while True:
            began = time.perf_counter()
            code = rrt_connect.search(
                self._checker,
                self._space,
                self.trees,
                self._rules,
                self._samples,
                self.counts,
                self._budget,
            )
            spent = time.perf_counter() - began
            self.time += spent
            if code == JOINED:
                return PlanStatus.SOLVED
            if code == EXHAUSTED:
                return PlanStatus.ITERATION_LIMIT
            if code == FULL:
                self.trees = rrt_trees.grown(self.trees)
            else:
                factor = min(_BATCH_TIME / max(spent, 1e-6), 4.0)
                self._budget = max(1, int(self._budget * factor))
            status = give_up()
            if status is not None:
                return status

    def path(self) -> tuple[Array, int]:
        """Return the path that was found, and to which row of the goals it leads."""
        a, b = int(self.counts[rrt_connect.MET_START]), int(self.counts[rrt_connect.MET_GOAL])
        rows = np.empty((sum(self.sizes), self.trees.nodes.shape[2]))
        count = rrt_trees.path_between(self._space, self.trees, a, b, rows)
        return rows[:count].copy(), rrt_trees.root_of(self.trees, rrt_trees.GOAL, b)

    def drawn(self) -> SearchTree:
        """Return both trees as one that can be drawn, the start's nodes first."""
        first, second = self.sizes
        parents = self.trees.parents[:, : max(first, second)].astype(np.int64)
        parents[1][parents[1] >= 0] += first
        return SearchTree(
            np.concatenate((self.trees.nodes[0, :first], self.trees.nodes[1, :second])),
            np.concatenate((parents[0, :first], parents[1, :second])),
        )


class _Kernels:
    """Whether the kernels are there: the first search of a process loads or compiles them."""

    ready = False


def load_kernels(search: TwoTrees) -> bool:
    """Load or compile the kernels at the first call of a process, which may take ten seconds.

    Args:
        search: is begun for that, and to be thrown away if this returns True.

    Returns:
        Whether anything had to be done; it is no part of planning then.
    """
    if _Kernels.ready:
        return False
    search.search(lambda: PlanStatus.CANCELLED)
    search.path()
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
        self._spaces: dict[tuple[Robot, tuple[str, ...]], JointSpace] = {}

    def tree(self) -> SearchTree | None:
        """Return both trees of the last search as one, to draw."""
        return self._last.drawn() if self._last is not None else None

    def plan(self, request: PlanRequest) -> PlanResult:
        """Search a path; every edge of it is checked.

        The path begins with the start and ends with a goal, exact to the last bit; joints that go
        round may end some full turns from the goal's values, so that nothing jumps on the way. A
        start that is a goal gives a path of two equal waypoints.
        """
        began = time.perf_counter()
        space = self._space(request)
        ends = find_ends(request)
        if isinstance(ends, PlanResult):
            return replace(ends, planner=self.name)
        kernel = request.checker.kernel()
        checker = Checker(kernel.state, kernel.edge, kernel.memory)
        search, status = self._search(request, checker, space, ends.start, ends.goals.Q, began)
        del kernel  # until here it keeps alive what the addresses point to
        self._last = search
        if status is not PlanStatus.SOLVED:
            return self.failed(status, request, self.settings, search, began)
        path, goal = search.path()
        return PlanResult(
            status,
            path,
            "",
            self.name,
            search.iterations,
            search.sizes,
            space.length(path),
            search.time,
            time.perf_counter() - began,
            ends.goals.index[goal],
        )

    def _space(self, request: PlanRequest) -> JointSpace:
        """Return the joints of a request; most requests are for the same ones."""
        key = (request.checker.robot, request.checker.joint_names)
        if key not in self._spaces:
            self._spaces = {key: space_of(request, self.settings.distance_metric_weights)}
        return self._spaces[key]

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
        checker: Checker,
        space: JointSpace,
        start: Array,
        goals: Array,
        began: float,
    ) -> tuple[TwoTrees, PlanStatus]:
        def make(number: int) -> TwoTrees:
            seed = request.random_seed + number
            return TwoTrees(checker, space, start, goals, self.settings, seed)

        first = make(0)
        if load_kernels(first):
            first, began = make(0), time.perf_counter()
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
        portfolio = _Portfolio(
            [first, *(make(k) for k in range(1, self.settings.threads))], give_up
        )
        status = portfolio.run()
        return portfolio.searches[portfolio.winner], status


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
