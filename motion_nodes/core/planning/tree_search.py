# SPDX-License-Identifier: Apache-2.0
"""Common parts of tree planners: start and goals, batches of iterations, path extraction.

Roots are valid, collision-free configurations that satisfy the goals. A joint goal without
tolerance is one configuration; for goals with tolerances, and for poses, several are sampled, all
of which become roots of the search, because it is unknown which of them is easiest to reach.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.planning.planning_problem import (
    Goal,
    JointGoal,
    JointSpace,
    PlanRequest,
    PlanResult,
    PlanStatus,
    PoseGoal,
    PosesGoal,
    check_search_start,
    configuration,
    in_words,
)
from motion_nodes.core.planning.several_poses import PoseSampler, PosesSampler, pose_sampler
from motion_nodes.core.robot.tree import frozen
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.errors import InvalidConfig
from motion_nodes.kernels.bridges import Checker
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.kernels.search.classic_trees import (
    CONTINUE,
    FOUND,
    FULL,
    NO_SAMPLE,
    Tree,
    TreeSpace,
)
from motion_nodes.tolerances import DUPLICATE_GOALS
from motion_nodes.typing import Array


@dataclass(frozen=True)
class GoalOptions:
    """Limits of goal sampling."""

    configurations: int = 8
    """Max number of configurations per goal."""
    samples: int = 1000
    """Max number of tries per goal until the first configuration is found."""
    more_samples: int = 12
    """Max number of further tries per goal."""
    share: float = 0.5
    """Max fraction of the planning time until the first configuration is found."""
    patience: float = 1.0
    """Max duration until the first configuration is found [s], or a tenth of the planning time if
    that is longer."""
    beside_spheres: int | None = None
    """Max number of configurations for a pose at which spheres alone collide, until the first one
    is found; None: no limit."""


@dataclass(frozen=True, eq=False)
class GoalConfigurations:
    """Configurations that satisfy goals, or the reason of the failure."""

    Q: Array
    """Collision-free and within limits, shape (m, n)."""
    index: tuple[int, ...]
    """Index of the goal that each satisfies."""
    status: PlanStatus | None = None
    """None on success."""
    reason: str = ""


@dataclass
class _SampledStates:
    """Configurations found for one goal."""

    Q: list[Array] = field(default_factory=list)
    status: PlanStatus = PlanStatus.GOAL_UNREACHABLE
    reason: str = ""


def goal_configurations(
    request: PlanRequest, start: Array, options: GoalOptions | None = None
) -> GoalConfigurations:
    """Return configurations for the goals of a request.

    Equal requests give equal results, unless the timeout expires.

    Args:
        request: the goals, and the collision checker.
        start: start configuration, shape (n,); solutions close to it come first.
        options: limits of the sampling.

    Raises:
        InvalidCommand: a goal of wrong length, or an invalid pose.
        UnknownFrame: a pose for a link that the robot does not have.
        InvalidConfig: a pose for a link that none of the joints moves.
    """
    options = options or GoalOptions()
    n = len(request.checker.joint_names)
    if not request.goals:
        return GoalConfigurations(np.empty((0, n)), (), PlanStatus.NO_GOAL, "no goal was given")
    began = compute_time()
    patience = max(options.patience, 0.1 * request.timeout)
    latest = began + min(patience, options.share * request.timeout)
    all_found: list[_SampledStates] = []
    for number, goal in enumerate(request.goals):
        if request.cancelled():
            return GoalConfigurations(np.empty((0, n)), (), PlanStatus.CANCELLED, "cancelled")
        exact = _exactly(request.checker, goal)
        if exact is not None:
            all_found.append(exact)
            continue
        rng = np.random.default_rng([request.random_seed, number])
        # For reproducible results the limits are counts, not times.
        anything = any(found.Q for found in all_found)
        tries = options.more_samples if anything else options.samples
        chosen = replace(options, samples=tries)
        all_found.append(_configurations(request.checker, goal, start, rng, chosen, latest))
    index = tuple(k for k, found in enumerate(all_found) for _ in found.Q)
    if index:
        return GoalConfigurations(np.array([q for f in all_found for q in f.Q]), index)
    status, reason = _why_none(all_found)
    return GoalConfigurations(np.empty((0, n)), (), status, reason)


def _why_none(all_found: Sequence[_SampledStates]) -> tuple[PlanStatus, str]:
    """Return the status of the goal that came closest to success, and all reasons."""
    order = (
        PlanStatus.TIMED_OUT,
        PlanStatus.GOAL_IN_COLLISION,
        PlanStatus.GOAL_OUTSIDE_LIMITS,
        PlanStatus.GOAL_UNREACHABLE,
    )
    status = min((found.status for found in all_found), key=order.index)
    reasons = list(dict.fromkeys(found.reason for found in all_found))
    more = f" (and {len(reasons) - 3} more goals)" if len(reasons) > 3 else ""
    return status, "; ".join(reasons[:3]) + more


def _configurations(
    checker: CollisionChecker,
    goal: Goal,
    start: Array,
    rng: np.random.Generator,
    options: GoalOptions,
    end: float,
) -> _SampledStates:
    if isinstance(goal, JointGoal):
        return _of_joint_goal(checker, goal, rng, options, end)
    return _of_pose_goal(checker, goal, start, rng, options, end)


def _exactly(checker: CollisionChecker, goal: Goal) -> _SampledStates | None:
    """Return the simple case, a collision-free joint goal without tolerance; None otherwise."""
    if not isinstance(goal, JointGoal) or not goal.exact:
        return None
    q = checker.limits.settled(configuration(checker, goal.q, "a joint goal"))
    if not (checker.limits.within(q) and checker.is_free(q) and checker.exact.is_free(q)):
        return None
    return _SampledStates([q])


def _of_joint_goal(
    checker: CollisionChecker,
    goal: JointGoal,
    rng: np.random.Generator,
    options: GoalOptions,
    end: float,
) -> _SampledStates:
    found, room = _SampledStates(), goal.range_in(checker)
    if room.fault:
        found.status, found.reason = PlanStatus.GOAL_OUTSIDE_LIMITS, room.fault
        return found
    nominal, wide = room.nominal, room.wide
    narrow = bool((room.high - room.low).max() < DUPLICATE_GOALS)  # treated as one goal
    tries = min(options.samples, 200) if wide else 0
    for sample in _samples(nominal, room.low, room.high, rng, tries):
        if checker.is_free(sample) and checker.exact.is_free(sample):
            _add(found, sample)
            if narrow or len(found.Q) >= options.configurations:
                break
        if compute_time() > end:
            break
    if not found.Q:
        tried = f"; none of {tries} samples within the tolerances is free" if wide else ""
        found.status = PlanStatus.GOAL_IN_COLLISION
        found.reason = f"the goal is in collision: {in_words(checker, nominal)}{tried}"
    return found


def _samples(
    nominal: Array, low: Array, high: Array, rng: np.random.Generator, count: int
) -> Iterator[Array]:
    """Yield the nominal positions, then random ones with increasing distance from them."""
    yield nominal
    for k in range(count):
        reach = min(1.0, 0.1 + k / 50.0)
        drawn = low + rng.uniform(size=len(low)) * (high - low)
        yield nominal + reach * (drawn - nominal)


def _of_pose_goal(
    checker: CollisionChecker,
    goal: PoseGoal | PosesGoal,
    start: Array,
    rng: np.random.Generator,
    options: GoalOptions,
    end: float,
) -> _SampledStates:
    found = _SampledStates()
    sampler = pose_sampler(checker, goal, start, rng)
    k, last = 0, options.samples
    while k < last and len(found.Q) < options.configurations:
        # For reproducible results the further tries are limited by their count alone.
        left = options.patience if found.Q else end - compute_time()
        if left <= 0.0:
            break
        q = sampler.draw(first=k == 0, timeout=left)
        k += 1
        if q is not None:
            if not found.Q:
                last = min(last, k + options.more_samples)
            _add(found, q)
        elif sampler.impossible or (not found.Q and _is_beside_spheres(sampler, k, options)):
            break
    if not found.Q:
        found.status, found.reason = sampler.why_none()
    return found


def _is_beside_spheres(
    sampler: PoseSampler | PosesSampler, draws: int, options: GoalOptions
) -> bool:
    """Return whether enough configurations for a pose are free, but by exact shapes alone."""
    least, most = (options.configurations if sampler.samples_region else 1), options.beside_spheres
    return most is not None and draws >= least and sampler.beside_spheres >= most


def _add(found: _SampledStates, q: Array) -> None:
    if all(np.abs(q - known).max() > DUPLICATE_GOALS for known in found.Q):
        found.Q.append(q)


BESIDE_SPHERES = 24
"""Configurations at which spheres alone collide, after which a pose is taken for one beside them;
one in five that spheres permit is missed with a probability of 0.5 %."""
MAX_COUNT = 2**31 - 1
"""Max number of iterations and tries, more than any search can do."""
MAX_NODES = 2_000_000
"""Max capacity of a tree; its memory is allocated in advance."""
_BATCH_TIME = 2e-3
"""Approximate duration of a kernel call between checks of timeout and cancellation [s]."""


@dataclass(frozen=True, eq=False)
class SearchTree:
    """A tree for visualization."""

    nodes: Array
    """Shape (m, n)."""
    parents: NDArray[np.int64]
    """Index of each node's parent, -1 for roots, shape (m,)."""


@dataclass(frozen=True, eq=False)
class SearchEnds:
    """Start and goals of a search."""

    start: Array
    """Collision-free and within the limits, shape (n,)."""
    goals: GoalConfigurations


def find_ends(request: PlanRequest) -> SearchEnds | PlanResult:
    """Return start and goals of a request, or the result if they are invalid."""
    began = compute_time()
    start = check_search_start(request.checker, request.start)
    if start.status is not None:
        return PlanResult(start.status, None, start.reason, time=compute_time() - began)
    # The pipeline serves poses beside spheres by exact shapes.
    goals = goal_configurations(request, start.q, GoalOptions(beside_spheres=BESIDE_SPHERES))
    if goals.status is not None:
        return PlanResult(goals.status, None, goals.reason, time=compute_time() - began)
    return SearchEnds(start.q, goals)


def space_of(request: PlanRequest, weights: ArrayLike | None) -> JointSpace:
    """Return the joints of a request with weights; default: 1 each.

    Raises:
        InvalidConfig: weights of wrong length or sign.
    """
    chosen = None if weights is None or np.size(weights) == 0 else weights
    return JointSpace.of_robot(request.checker.robot, request.checker.joint_names, chosen)


def kernel_space(space: JointSpace, *points: ArrayLike) -> TreeSpace:
    """Return a space for kernels; points define the sampling range of unlimited joints."""
    low, high = space.bounds(*points)
    return TreeSpace(low, high, space.wraps.copy(), np.array(space.weights))


def new_tree(root: Array, room: int, seed: int) -> Tree:
    """Return a tree of one node, shape (n,), with capacity for more, at most MAX_NODES."""
    room = min(room, MAX_NODES)
    nodes = np.empty((room, len(root)))
    parent = np.full(room, -1, np.int64)
    nodes[0] = root
    count = np.array([1, 0], np.int64)
    return Tree(nodes, parent, count, np.array([seed % 2**64], np.uint64))


@dataclass(frozen=True)
class SearchOutcome:
    """Outcome of a search."""

    found: bool
    status: PlanStatus
    reason: str


SOLVED = SearchOutcome(True, PlanStatus.SOLVED, "")


class Growth:
    """Grows a tree in batches until a path is found or the search has to end."""

    def __init__(self, request: PlanRequest, began: float, max_iterations: int, tries: int) -> None:
        self._request, self._began = request, began
        self._most, self._tries = max_iterations, tries
        self._batch = 4

    @property
    def spent(self) -> float:
        """Time since planning began [s]."""
        return compute_time() - self._began

    def ended(self, request: PlanRequest) -> PlanStatus | None:
        """Return why a search must end now, or None."""
        if request.cancelled():
            return PlanStatus.CANCELLED
        late = compute_time() > self._began + request.timeout
        return PlanStatus.TIMED_OUT if late else None

    def failed(self, status: PlanStatus, iterations: int) -> SearchOutcome:
        """Return the outcome of a failed search."""
        words = {
            PlanStatus.CANCELLED: "cancelled",
            PlanStatus.TIMED_OUT: f"no path in {self._request.timeout:.3g} s; more time may find "
            "one",
        }
        usual = f"no path in {iterations} iterations; more may find one"
        return SearchOutcome(False, status, words.get(status, usual))

    def run(
        self, grow: Callable[[int], int], tree: Tree, done: Callable[[], bool] = lambda: False
    ) -> SearchOutcome:
        """Call ``grow`` with numbers of iterations until it finds a path or has to end.

        Args:
            grow: grows the tree and returns one of the kernels' outcomes.
            tree: the tree.
            done: called after each batch; True ends the search.
        """
        request = self._request
        if grow(0) == FOUND:
            return SOLVED
        while True:
            left = self._most - int(tree.count[1])
            if left <= 0:
                return self.failed(PlanStatus.ITERATION_LIMIT, self._most)
            status = self.ended(request)
            if status is not None:
                return self.failed(status, self._most)
            now = compute_time()
            code = grow(min(self._batch, left))
            if code == FOUND:
                return SOLVED
            if code == FULL:
                words = f"no path with {len(tree.nodes)} nodes; the tree has no room for more"
                return SearchOutcome(False, PlanStatus.ITERATION_LIMIT, words)
            if code == NO_SAMPLE:
                words = f"none of {self._tries} random configurations is collision-free"
                return SearchOutcome(False, PlanStatus.ITERATION_LIMIT, words)
            assert code == CONTINUE
            if done():
                return SOLVED
            spent = compute_time() - now
            factor = _BATCH_TIME / spent if spent > 0.0 else 2.0
            self._batch = max(1, int(self._batch * min(2.0, max(0.25, factor))))


@dataclass(frozen=True, eq=False)
class TreeSearch:
    """One search for one request."""

    request: PlanRequest
    space: JointSpace
    start: Array
    goals: Array
    """Alternative goal configurations, shape (g, n)."""
    tree: Tree
    kernel_space: TreeSpace
    checker: Checker
    growth: Growth

    @property
    def shortest(self) -> float:
        """Length of the line to the nearest goal [weighted rad or m]: a bound of any path."""
        return float(self.space.distance(self.goals, self.start).min())

    def path_to(self, node: int, end: Array | None = None) -> Array:
        """Return the path, (k, n), from the root to a node, and on to an end; ends are exact."""
        parent = self.tree.parent
        rows = [node]
        while parent[rows[-1]] >= 0:
            rows.append(int(parent[rows[-1]]))
        points = self.tree.nodes[rows[::-1]]
        if end is not None:
            points = np.concatenate([points, end[np.newaxis]])
        return self.space.unwrapped(points)


class FoundPath(NamedTuple):
    """Path found by a search."""

    outcome: SearchOutcome
    path: Array | None = None
    goal: int = 0
    """Index of the goal that the path leads to."""


class TreePlanner(ABC):
    """Plans with one tree from the start to configurations that satisfy the goals."""

    name: str

    def __init__(self) -> None:
        self._tree: SearchTree | None = None

    def tree(self) -> SearchTree | None:
        """Return the tree of the last search, for visualization."""
        return self._tree

    def run(
        self,
        request: PlanRequest,
        weights: Sequence[float],
        max_iterations: int,
        max_sampling: int,
        room: int,
    ) -> PlanResult:
        """Check start and goals, search, and return the result."""
        space = space_of(request, weights)
        began = compute_time()
        ends = find_ends(request)
        if isinstance(ends, PlanResult):
            return replace(ends, planner=self.name)
        started = compute_time()
        goals = ends.goals.Q
        kernel = request.checker.kernel()
        search = TreeSearch(
            request,
            space,
            ends.start,
            goals,
            new_tree(ends.start, room, request.random_seed),
            kernel_space(space, ends.start, goals),
            Checker(kernel.state, kernel.edge, kernel.memory),
            Growth(request, began, max_iterations, max_sampling),
        )
        here = int(np.argmin(space.distance(goals, ends.start)))
        if space.distance(goals[here], ends.start) == 0.0:
            found = FoundPath(SOLVED, np.stack([ends.start, goals[here]]), here)
        else:
            found = self.search(search)
        del kernel
        return self.result(search, found, ends.goals.index, began, started)

    def result(
        self,
        search: TreeSearch,
        found: FoundPath,
        goal_index: Sequence[int],
        began: float,
        started: float,
    ) -> PlanResult:
        """Return the result of a search, and store the tree."""
        self._tree = drawn(search.tree)
        now = compute_time()
        return PlanResult(
            found.outcome.status,
            found.path,
            found.outcome.reason,
            self.name,
            int(search.tree.count[1]),
            (int(search.tree.count[0]), 0),
            search.space.length(found.path) if found.path is not None else math.inf,
            now - started,
            now - began,
            goal_index[found.goal] if found.path is not None else None,
        )

    @abstractmethod
    def search(self, search: TreeSearch) -> FoundPath:
        """Search a path; the start is not a goal."""


def drawn(tree: Tree) -> SearchTree:
    """Return a copy of a tree, for visualization."""
    count = int(tree.count[0])
    return SearchTree(frozen(tree.nodes[:count]), tree.parent[:count].copy())


def check_weights(weights: Sequence[float]) -> None:
    """Raise InvalidConfig unless weights of joints are finite numbers above 0."""
    for x in weights:
        if not isinstance(x, int | float | np.number) or not 0.0 < x < math.inf:
            raise InvalidConfig(
                f"distance_metric_weights is {weights!r}; it must hold finite numbers above 0.",
                field="distance_metric_weights",
            )


def check_number(name: str, value: float, least: float, most: float = math.inf) -> None:
    """Raise InvalidConfig unless a setting is a finite number within bounds."""
    if not (least <= value <= most) or not math.isfinite(value):
        allowed = f"at least {least:g}" if math.isinf(most) else f"from {least:g} to {most:g}"
        raise InvalidConfig(f"{name} is {value!r}; it must be {allowed}.", field=name)
