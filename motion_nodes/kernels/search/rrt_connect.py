# SPDX-License-Identifier: Apache-2.0
"""RRT-Connect as one kernel that works in batches: two trees grow until an edge connects them.

Source: J. Kuffner and S. LaValle, "RRT-Connect: an efficient approach to single-query path
planning", 2000; the reach of nodes: L. Jaillet et al., "Adaptive tuning of the sampling domain for
dynamic-domain RRTs", 2005, with the parameters of W. Thomason et al., "Motions in microseconds via
vectorized sampling-based planning", 2024, who also grow the smaller tree first.

Samples of joint space have a low discrepancy, at the cost of one addition per joint. Most solutions
pass near the region between start and goals, so a fraction of the samples is drawn from the
bounding box of start and goals with a margin, the others from the whole space.

Additive recurrence: each joint's sample advances by an irrational fraction of its range and is
wrapped back into it. A random offset makes sequences of different random seeds differ.

Source: M. Roberts, "The unreasonable effectiveness of quasirandom sequences", 2018: the fractions
are powers of the root of ``x^(n + 1) = x + 1``; the random offset is Cranley and Patterson's.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.bridges import Checker, address, edge_free, reader, state_free
from motion_nodes.kernels.jit import bare_kernel, bare_part, inlined
from motion_nodes.kernels.search import rrt_trees
from motion_nodes.kernels.search.classic_trees import INCREMENT, mixed
from motion_nodes.kernels.search.rrt_trees import GOAL, START, ConnectSpace, Trees
from motion_nodes.typing import Array

RUNNING, JOINED, EXHAUSTED, FULL = 0, 1, 2, 3
"""Outcome of a batch: not finished; trees connected; no iterations left; no memory left."""
# Indices into `counts`.
ITERATIONS, SAMPLES, CONNECTIONS, SIDE, MET_START, MET_GOAL, EDGES, WAYPOINTS, REACHED = range(9)
COUNTS = 9
MOST_PIECES = 60
"""Max number of edges of a connection to the other tree."""
MOST_CONNECTIONS = 16
"""Max number of further connections tried after one sample."""
PATIENCE = 20_000
"""Number of edges after which extensions are half as long for as many, and so on in turns."""
LONG, STAY = 5000, 0.3
"""Number of edges after which each joint stays in an extension with this probability: such a search
is in a narrow passage, where hardly a motion of all joints is free."""


class Samples(NamedTuple):
    """Two sequences of samples: in the whole space, and near start and goals."""

    lower: Array
    """Lower bounds of both [rad or m], shape (2, n)."""
    width: Array
    """Ranges of both [rad or m], shape (2, n)."""
    place: Array
    """Current values of both, 0..1, shape (2, n)."""
    steps: Array
    """Increments, shape (n,)."""
    turn: Array
    """Fraction of samples near start and goals, and its accumulated remainder, shape (2,)."""
    margin: float
    """Margin of the box around start and goals, as a fraction of the joint ranges."""


def make_samples(lower: Array, upper: Array, margin: float, share: float) -> Samples:
    """Return sequences for one space; call :func:`begin` before the first sample.

    Args:
        lower: lower bounds [rad or m], shape (n,).
        upper: upper bounds [rad or m], shape (n,).
        margin: of the box around start and goals, as a fraction of the joint ranges.
        share: fraction of samples drawn from that box, 0..1.
    """
    n = len(lower)
    return Samples(
        lower=np.array((lower, lower)),
        width=np.array((upper - lower, upper - lower)),
        place=np.empty((2, n)),
        steps=_steps(n),
        turn=np.array([share, 0.0]),
        margin=margin,
    )


@functools.cache
def _steps(n: int) -> Array:
    """Return the increments of samples of n joints."""
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (n + 1))
    return root ** -np.arange(1.0, n + 1)


@inlined
def begin(samples: Samples, random_seed: int) -> None:
    """Reset both sequences; equal random seeds give equal sequences."""
    n, state = samples.place.shape[1], np.uint64(random_seed) * np.uint64(0xD1342543DE82EF95)
    for k in range(2 * n):
        state += INCREMENT
        samples.place[k // n, k % n] = mixed(state)
    samples.turn[1] = 0.0


@inlined
def draw_near(samples: Samples, d: int, lowest: float, highest: float) -> None:
    """Set the box of a joint from its min and max position [rad or m] in start and goals."""
    low, width = samples.lower[0, d], samples.width[0, d]
    room = samples.margin * width
    near = max(low, lowest - room)
    samples.lower[1, d] = near
    samples.width[1, d] = max(min(low + width, highest + room) - near, 0.0)


@inlined
def sample(samples: Samples, out: Array) -> None:
    """Write the next sample to ``out``, shape (n,)."""
    due = samples.turn[1] + samples.turn[0]
    which = 1 if due >= 1.0 else 0
    samples.turn[1] = due - which
    for d in range(out.shape[0]):
        x = samples.place[which, d] + samples.steps[d]
        if x >= 1.0:
            x -= 1.0
        samples.place[which, d] = x
        out[d] = samples.lower[which, d] + x * samples.width[which, d]


class ConnectRules(NamedTuple):
    """Growth of the trees; lengths in the metric [weighted rad or m]."""

    longest: float
    """Max length of an edge."""
    reach: float
    """Reach of a node after its first failure."""
    least_reach: float
    """Min reach of a node."""
    reach_change: float
    """Relative change of the reach after each success or failure."""
    exploration: float
    """Fraction of steps towards samples; the others try to connect the trees."""
    max_sampling: int
    """Max number of samples drawn per step; the last one is used even if out of reach."""
    max_iterations: int
    """Max number of steps towards samples."""


class ConnectResult(NamedTuple):
    """The path found."""

    path: Array
    """Waypoints, shape (room, n)."""
    length: Array
    """Length in the metric [weighted rad or m], shape (1,)."""


class ConnectSearch(NamedTuple):
    """Complete state of a search."""

    checker: Checker
    space: ConnectSpace
    limits: Array
    """Lower and upper limits of start and goals [rad or m], shape (2, n)."""
    trees: Trees
    rules: ConnectRules
    samples: Samples
    counts: NDArray[np.int64]
    """Progress counters, shape (COUNTS,)."""
    found: ConnectResult


def make_search(
    weights: Array, turn: Array, limits: Array, rules: ConnectRules, samples: Samples, room: int
) -> ConnectSearch:
    """Return the memory of a search without roots.

    Args:
        weights: of the joints in the metric, shape (n,).
        turn: 2 pi for continuous joints, else 0 [rad], shape (n,).
        limits: lower and upper limits of start and goals [rad or m], shape (2, n).
        rules: growth of the trees.
        samples: sample sequences.
        room: max number of nodes of each tree.
    """
    n, space = len(weights), ConnectSpace(weights.copy(), turn)
    return ConnectSearch(
        checker=Checker(0, 0, 0),
        space=space,
        limits=limits,
        trees=rrt_trees.make_trees(space, np.zeros(n), np.zeros((1, n)), room),
        rules=rules,
        samples=samples,
        counts=np.zeros(COUNTS, np.int64),
        found=ConnectResult(np.empty((2 * room, n)), np.empty(1)),
    )


def grown(search: ConnectSearch) -> ConnectSearch:
    """Return a search that continues with twice the memory."""
    trees = rrt_trees.grown(search.trees)
    path = np.empty((trees.parents.size, trees.nodes.shape[2]))
    return search._replace(trees=trees, found=search.found._replace(path=path))


def _smallest() -> ConnectSearch:
    """Return a search for a robot with one joint and no roots."""
    nothing = np.full((2, 1), np.nan)
    rules = ConnectRules(1.0, 1.0, 1.0, 1.0, 1.0, 1, 1)
    samples = make_samples(np.zeros(1), np.ones(1), 1.0, 1.0)
    return make_search(np.ones(1), np.zeros(1), nothing, rules, samples, 1)


_read = reader(_smallest())


@bare_kernel
def plant(table: NDArray[np.int64], random_seed: int) -> bool:
    """Begin a search from the start and goals stored in the trees.

    Args:
        table: of a :class:`ConnectSearch`.
        random_seed: random seed of the samples.

    Returns:
        Whether start and goals are collision-free and within the limits.
    """
    checker, _, limits, trees, _, samples, counts, _ = _read(address(table))
    nodes = trees.nodes
    counts[:] = 0
    begin(samples, random_seed)
    for d in range(nodes.shape[2]):
        lowest = highest = nodes[START, 0, d]
        for goal in range(trees.sizes[GOAL]):
            lowest = min(lowest, nodes[GOAL, goal, d])
            highest = max(highest, nodes[GOAL, goal, d])
        draw_near(samples, d, lowest, highest)
    for tree in range(2):
        for root in range(trees.sizes[tree]):
            for d in range(nodes.shape[2]):
                # NaN is not within limits.
                if not limits[0, d] <= nodes[tree, root, d] <= limits[1, d]:
                    return False
            if not state_free(checker, nodes[tree], root):
                return False
    return True


@bare_kernel
def search(table: NDArray[np.int64], budget: int) -> int:
    """Grow the trees until they meet, or until about ``budget`` edges have been checked.

    The result does not depend on the batch size.

    Args:
        table: of a :class:`ConnectSearch` after :func:`plant`.
        budget: number of edges to check; 16 samples out of reach count as one.

    Returns:
        One of RUNNING, JOINED, EXHAUSTED, FULL. If the trees met, the path is in ``found``.
    """
    state = _read(address(table))
    checker, space, _, trees, rules, _, counts, found = state
    if counts[EDGES] == 0:
        rrt_trees.index_roots(space, trees)
        if _join_directly(checker, space, trees, counts, trees.work):
            return _joined(space, trees, counts, found)
    most = MOST_PIECES + 1
    if rules.exploration < 0.5:
        most += MOST_CONNECTIONS * MOST_PIECES
    end = counts[EDGES] * 16 + counts[SAMPLES] + budget * 16
    while counts[EDGES] * 16 + counts[SAMPLES] < end:
        if counts[ITERATIONS] >= rules.max_iterations:
            return EXHAUSTED
        # Checked before any change, so that a search with more memory finds the same path.
        if not (rrt_trees.has_room(trees, START, most) and rrt_trees.has_room(trees, GOAL, most)):
            return FULL
        side = _side(trees, counts)
        counts[ITERATIONS] += 1
        node = _explore(state, side)
        desired = counts[ITERATIONS] * (1.0 - rules.exploration)
        due = counts[CONNECTIONS] * rules.exploration < desired
        # If no connection is due, one is tried only within an edge length.
        gap = math.inf if due else rules.longest
        if node >= 0 and _connect(state, side, node, gap):
            return _joined(space, trees, counts, found)
        for _ in range(MOST_CONNECTIONS):
            if rules.exploration >= 0.5 or counts[CONNECTIONS] * rules.exploration >= desired:
                break
            node = counts[CONNECTIONS] * 40503 % trees.sizes[side]
            if _connect(state, side, node, math.inf):
                return _joined(space, trees, counts, found)
    return RUNNING


@bare_part
def _joined(
    space: ConnectSpace, trees: Trees, counts: NDArray[np.int64], found: ConnectResult
) -> int:
    """Write the path and its length; return JOINED."""
    a, b, path = counts[MET_START], counts[MET_GOAL], found.path
    count = rrt_trees.path_between(space, trees, a, b, path)
    total = 0.0
    for k in range(count - 1):
        total += rrt_trees.difference(space, path[k], path[k + 1], trees.work[0])
    found.length[0] = total
    counts[WAYPOINTS] = count
    counts[REACHED] = rrt_trees.root_of(trees, GOAL, b)
    return JOINED


@bare_part
def _join_directly(
    checker: Checker, space: ConnectSpace, trees: Trees, counts: NDArray[np.int64], work: Array
) -> bool:
    """Return whether the start connects directly to a goal; the closest goal is tried first."""
    goals, away = trees.sizes[GOAL], trees.reach[GOAL]
    start = trees.nodes[START, 0]
    for goal in range(goals):
        away[goal] = rrt_trees.difference(space, start, trees.nodes[GOAL, goal], work[0])
    for _ in range(goals):
        goal = 0
        for other in range(1, goals):
            goal = other if away[other] < away[goal] else goal
        away[goal] = math.inf  # the initial reach of a root
        rrt_trees.difference(space, start, trees.nodes[GOAL, goal], work[0])
        for d in range(work.shape[1]):
            work[1, d] = start[d]
            work[2, d] = start[d] + work[0, d]
        counts[EDGES] += 1
        if edge_free(checker, work, 1, work, 2):
            counts[MET_START], counts[MET_GOAL] = 0, goal
            return True
    return False


@inlined
def _side(trees: Trees, counts: NDArray[np.int64]) -> int:
    """Return the tree to grow next: they alternate while neither is twice as large as the other."""
    side = int(counts[SIDE])
    mine, other = trees.sizes[side], trees.sizes[1 - side]
    if abs(mine - other) < mine:
        side = 1 - side
        counts[SIDE] = side
    return side


@inlined
def _explore(state: ConnectSearch, side: int) -> int:
    """Extend a tree towards a sample; return the new node, or -1."""
    checker, space, _, trees, rules, samples, counts, _ = state
    work = trees.work
    target, step, new = work[0], work[1], work[2]
    near = 0
    for _ in range(rules.max_sampling):
        sample(samples, target)
        counts[SAMPLES] += 1
        near, away = rrt_trees.nearest(space, trees, side, target)
        if away <= trees.reach[side, near]:
            break
    nodes = trees.nodes[side]
    if counts[EDGES] > LONG:
        _keep_some(counts[ITERATIONS], nodes, near, target)
    away = rrt_trees.difference(space, nodes[near], target, step)
    if away == 0.0:
        return -1
    # A long search is in a narrow passage, where full steps may all be in collision.
    halved = counts[EDGES] // PATIENCE % 2 == 1
    length = min(away, 0.5 * rules.longest if halved else rules.longest)
    for d in range(new.shape[0]):
        new[d] = nodes[near, d] + step[d] * (length / away)
    counts[EDGES] += 1
    reach = trees.reach[side, near]
    if edge_free(checker, nodes, near, work, 2):
        trees.reach[side, near] = reach * (1.0 + rules.reach_change)
        return rrt_trees.add(space, trees, side, new, near)
    if reach == math.inf:
        trees.reach[side, near] = rules.reach
    else:
        trees.reach[side, near] = max(reach * (1.0 - rules.reach_change), rules.least_reach)
    return -1


@inlined
def _keep_some(number: int, nodes: Array, near: int, target: Array) -> None:
    """Replace some joints of a target by those of the closest node, by chance."""
    n = target.shape[0]
    for d in range(n):
        if mixed(np.uint64(number * n + d) * INCREMENT) < STAY:
            target[d] = nodes[near, d]


@bare_part
def _connect(state: ConnectSearch, side: int, node: int, gap: float) -> bool:
    """Connect straight to the other tree if within the gap; return whether it was reached."""
    checker, space, _, trees, rules, _, counts, _ = state
    other, work = 1 - side, trees.work
    step, new, last = work[1], work[2], work[3]
    nodes = trees.nodes[side]
    for d in range(new.shape[0]):
        last[d] = nodes[node, d]
    near, away = rrt_trees.nearest(space, trees, other, last)
    if away > gap:
        return False
    counts[CONNECTIONS] += 1
    away = rrt_trees.difference(space, last, trees.nodes[other, near], step)
    pieces = min(max(1, math.ceil(away / rules.longest)), MOST_PIECES)
    for k in range(1, pieces + 1):
        for d in range(new.shape[0]):
            new[d] = last[d] + step[d] * (k / pieces)
        counts[EDGES] += 1
        if not edge_free(checker, nodes, node, work, 2):
            return False
        if k < pieces:
            node = rrt_trees.add(space, trees, side, new, node)
    counts[MET_START] = node if side == START else near
    counts[MET_GOAL] = near if side == START else node
    return True
