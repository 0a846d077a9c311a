# SPDX-License-Identifier: Apache-2.0
"""RRT-Connect as one kernel that works in batches: two trees grow until an edge joins them.

Source: J. Kuffner and S. LaValle, "RRT-Connect: an efficient approach to single-query path
planning", 2000; the reach of nodes: L. Jaillet et al., "Adaptive tuning of the sampling domain for
dynamic-domain RRTs", 2005, with the numbers of W. Thomason et al., "Motions in microseconds via
vectorized sampling-based planning", 2024, who also grow the smaller tree first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels import rrt_trees
from motion_nodes.kernels.checker_calls import Checker, edge_free
from motion_nodes.kernels.jit import kernel, part
from motion_nodes.kernels.packed import Array
from motion_nodes.kernels.rrt_samples import Samples, sample
from motion_nodes.kernels.rrt_trees import GOAL, START, Space, Trees

RUNNING, JOINED, EXHAUSTED, FULL = 0, 1, 2, 3
"""How a batch ended: there is more to do, the trees met, no iterations or no room are left."""

# Places in `counts`.
ITERATIONS, SAMPLES, CONNECTIONS, SIDE, MET_START, MET_GOAL, EDGES = range(7)
COUNTS = 7
MOST_PIECES = 60
"""A way to the other tree has no more edges than this."""
MOST_CONNECTIONS = 16
"""Further ways to the other tree that are tried after one sample."""


class Rules(NamedTuple):
    """How the trees grow; lengths in the metric."""

    longest: float
    """Longest edge."""
    reach: float
    """Reach of a node after its first failure."""
    least_reach: float
    """Reach never gets less than this."""
    reach_change: float
    """Relative change of the reach with each success and failure."""
    exploration: float
    """Share of steps that go to samples; the others try to join the trees."""
    max_sampling: int
    """Samples that may be out of reach before one is taken all the same."""
    max_iterations: int
    """Steps to samples."""


@kernel
def search(
    checker: Checker,
    space: Space,
    trees: Trees,
    rules: Rules,
    samples: Samples,
    counts: NDArray[np.int64],
    budget: int,
) -> int:
    """Let the trees grow until they meet, or until about so many edges have been checked.

    Where a batch ends makes no difference to what is found.

    Args:
        checker: what tells whether an edge is free.
        space: the joints.
        trees: at least one root each, and before the first batch nothing else.
        rules: how they grow.
        samples: where the trees grow to.
        counts: what was done so far, shape (COUNTS,).
        budget: edges to check; 16 samples out of reach count as one.

    Returns:
        One of RUNNING, JOINED, EXHAUSTED, FULL.
    """
    n = space.weights.shape[0]
    work = np.empty((4, n))
    if counts[EDGES] == 0:
        rrt_trees.index_roots(space, trees)
        if _join_directly(checker, space, trees, counts, work):
            return JOINED
    end = counts[EDGES] * 16 + counts[SAMPLES] + budget * 16
    while counts[EDGES] * 16 + counts[SAMPLES] < end:
        if counts[ITERATIONS] >= rules.max_iterations:
            return EXHAUSTED
        side = _side(trees, counts)
        if not rrt_trees.has_room(trees, side, MOST_PIECES + 1):
            return FULL
        counts[ITERATIONS] += 1
        node = _explore(checker, space, trees, rules, samples, counts, side, work)
        wanted = counts[ITERATIONS] * (1.0 - rules.exploration)
        due = counts[CONNECTIONS] * rules.exploration < wanted
        # A step away the trees are joined, whosever turn it is.
        gap = math.inf if due else rules.longest
        if node >= 0 and _connect(checker, space, trees, rules, counts, side, node, gap, work):
            return JOINED
        for _ in range(MOST_CONNECTIONS):
            if rules.exploration >= 0.5 or counts[CONNECTIONS] * rules.exploration >= wanted:
                break
            node = counts[CONNECTIONS] * 40503 % trees.sizes[side]
            if not rrt_trees.has_room(trees, side, MOST_PIECES):
                return FULL
            if _connect(checker, space, trees, rules, counts, side, node, math.inf, work):
                return JOINED
    return RUNNING


@part
def _join_directly(
    checker: Checker, space: Space, trees: Trees, counts: NDArray[np.int64], work: Array
) -> bool:
    """Return whether the start sees a goal; the nearest goal is tried first."""
    goals = trees.sizes[GOAL]
    away = np.empty(goals)
    start = trees.nodes[START, 0]
    for goal in range(goals):
        away[goal] = rrt_trees.difference(space, start, trees.nodes[GOAL, goal], work[0])
    for _ in range(goals):
        goal = 0
        for other in range(1, goals):
            goal = other if away[other] < away[goal] else goal
        away[goal] = math.inf
        rrt_trees.difference(space, start, trees.nodes[GOAL, goal], work[0])
        for d in range(work.shape[1]):
            work[1, d] = start[d]
            work[2, d] = start[d] + work[0, d]
        counts[EDGES] += 1
        if edge_free(checker, work, 1, work, 2):
            counts[MET_START], counts[MET_GOAL] = 0, goal
            return True
    return False


@part
def _side(trees: Trees, counts: NDArray[np.int64]) -> int:
    """Return which tree grows next: they take turns while neither is twice the other."""
    side = int(counts[SIDE])
    mine, other = trees.sizes[side], trees.sizes[1 - side]
    if abs(mine - other) < mine:
        side = 1 - side
        counts[SIDE] = side
    return side


@part
def _explore(
    checker: Checker,
    space: Space,
    trees: Trees,
    rules: Rules,
    samples: Samples,
    counts: NDArray[np.int64],
    side: int,
    work: Array,
) -> int:
    """Extend a tree towards a sample; return the new node, or -1."""
    target, step, new = work[0], work[1], work[2]
    near = 0
    for _ in range(rules.max_sampling):
        sample(samples, target)
        counts[SAMPLES] += 1
        near, away = rrt_trees.nearest(space, trees, side, target)
        if away <= trees.reach[side, near]:
            break
    nodes = trees.nodes[side]
    away = rrt_trees.difference(space, nodes[near], target, step)
    if away == 0.0:
        return -1
    length = min(away, rules.longest)
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


@part
def _connect(
    checker: Checker,
    space: Space,
    trees: Trees,
    rules: Rules,
    counts: NDArray[np.int64],
    side: int,
    node: int,
    gap: float,
    work: Array,
) -> bool:
    """Go straight to the other tree, if it is within the gap; return whether that got there."""
    other = 1 - side
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
