# SPDX-License-Identifier: Apache-2.0
"""RRT-Connect for paths with bounded cost: trees in the space of configurations and costs.

Repeated searches, each bounded by the cost of the last path, are asymptotically optimal. A node's
last coordinate is the length of its branch. Samples are drawn from the ellipsoid that contains all
paths within the bound.

Source: K. Hauser and Y. Zhou, "Asymptotically optimal planning by feasible kinodynamic planning in
a state-cost space", 2016; with two trees: T. Wilson et al., "AORRTC: almost-surely asymptotically
optimal planning with RRT-Connect", 2025; the ellipsoid: J. Gammell et al., "Informed RRT*", 2014.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.bridges import Checker, edge_free
from motion_nodes.kernels.jit import bare_kernel, bare_part, inlined
from motion_nodes.kernels.search import rrt_trees
from motion_nodes.kernels.search.classic_trees import uniform
from motion_nodes.kernels.search.rrt_connect import (
    EDGES,
    EXHAUSTED,
    FULL,
    ITERATIONS,
    JOINED,
    MET_GOAL,
    MET_START,
    MOST_PIECES,
    RUNNING,
    SAMPLES,
    SIDE,
)
from motion_nodes.kernels.search.rrt_trees import GOAL, START, ConnectSpace, Trees
from motion_nodes.typing import Array

_ANYWHERE = 0.1
"""Fraction of samples from the whole space; continuous joints may leave the ellipsoid."""


class CostBound(NamedTuple):
    """Cost bound, and settings of the search; lengths in the metric [weighted rad or m]."""

    cost: float
    """Max length of a path."""
    longest: float
    """Max length of an edge."""
    max_iterations: int
    """Max number of extensions."""
    lower: Array
    """Lower joint limits [rad or m], shape (n,)."""
    upper: Array
    """Upper joint limits [rad or m], shape (n,)."""


class BoundedSearch(NamedTuple):
    """Complete state of a search."""

    checker: Checker
    space: ConnectSpace
    """The joints and, last, the cost: arrays of shape (n + 1,)."""
    trees: Trees
    """Before the first batch, only roots with cost 0."""
    bound: CostBound
    random: NDArray[np.uint64]
    """State of the random number generator, shape (1,)."""
    counts: NDArray[np.int64]
    """Progress counters, as for RRT-Connect, shape (COUNTS,)."""


@bare_kernel
def search(state: BoundedSearch, budget: int) -> int:
    """Grow the trees until a path within the bound connects them, or for one batch.

    The result does not depend on the batch size.

    Args:
        state: the search.
        budget: number of edges to check; 16 samples count as one.

    Returns:
        One of RUNNING, JOINED, EXHAUSTED, FULL.
    """
    _, space, trees, bound, _, counts = state
    if counts[SAMPLES] == 0:
        rrt_trees.index_roots(space, trees)
    end = counts[EDGES] * 16 + counts[SAMPLES] + budget * 16
    while counts[EDGES] * 16 + counts[SAMPLES] < end:
        if counts[ITERATIONS] >= bound.max_iterations:
            return EXHAUSTED
        side = 1 - counts[SIDE]
        if not rrt_trees.has_room(trees, side, MOST_PIECES + 1):
            return FULL
        counts[SIDE] = side
        counts[SAMPLES] += 1
        node = _explore(state, side)
        if node >= 0 and _connect(state, side, node):
            return JOINED
    return RUNNING


@inlined
def _way(space: ConnectSpace, a: Array, b: Array, out: Array) -> float:
    """Write the shortest joint displacement from a to b; return its length without the cost."""
    return rrt_trees.displacement(space, a.shape[0] - 1, a, b, out)


@inlined
def _to_go(space: ConnectSpace, trees: Trees, side: int, q: Array, out: Array) -> float:
    """Return a lower bound of the distance from a configuration to a root of a tree."""
    least = math.inf
    for root in range(trees.sizes[side]):
        if trees.parents[side, root] >= 0:
            break
        least = min(least, _way(space, q, trees.nodes[side, root], out))
    return least


@bare_part
def _sample(
    space: ConnectSpace,
    trees: Trees,
    bound: CostBound,
    random: NDArray[np.uint64],
    out: Array,
    axis: Array,
) -> bool:
    """Write a sample of the ellipsoid or of the whole space; return whether it is within limits."""
    n = out.shape[0] - 1
    goals = 0
    while goals < trees.sizes[GOAL] and trees.parents[GOAL, goals] < 0:
        goals += 1
    start = trees.nodes[START, 0]
    goal = min(int(uniform(random) * goals), goals - 1)
    direct = _way(space, start, trees.nodes[GOAL, goal], axis)
    anywhere = uniform(random) < _ANYWHERE or not bound.cost < math.inf
    if anywhere or not direct < bound.cost:
        for d in range(n):
            out[d] = bound.lower[d] + uniform(random) * (bound.upper[d] - bound.lower[d])
        return True
    # A point of the unit ball, scaled and reflected so that the first axis points to the goal.
    radius = uniform(random) ** (1.0 / n)
    square, spare = 0.0, math.sqrt(bound.cost**2 - direct**2)
    for d in range(n):
        u, v = uniform(random), uniform(random)
        out[d] = math.sqrt(-2.0 * math.log(1.0 - u)) * math.cos(2.0 * math.pi * v)
        square += out[d] ** 2
    scale = 0.5 * radius / math.sqrt(square) if square > 0.0 else 0.0
    for d in range(n):
        out[d] *= scale * (bound.cost if d == 0 else spare)
    if direct > 0.0:
        dot, norm = 0.0, 0.0
        for d in range(n):
            mirror = (1.0 if d == 0 else 0.0) - space.weights[d] * axis[d] / direct
            dot += mirror * out[d]
            norm += mirror * mirror
        for d in range(n):
            mirror = (1.0 if d == 0 else 0.0) - space.weights[d] * axis[d] / direct
            out[d] -= 2.0 * dot * mirror / norm if norm > 0.0 else 0.0
    inside = True
    for d in range(n):
        x = out[d] / space.weights[d] + start[d] + 0.5 * axis[d]
        out[d] = x
        if space.turn[d] == 0.0 and not bound.lower[d] <= x <= bound.upper[d]:
            inside = False
    return inside


@bare_part
def _explore(state: BoundedSearch, side: int) -> int:
    """Extend a tree towards a sample of joints and cost; return the new node, or -1."""
    checker, space, trees, bound, random, counts = state
    work = trees.work
    target, step, new = work[0], work[1], work[2]
    if not _sample(space, trees, bound, random, target, step):
        return -1
    n = target.shape[0] - 1
    behind = _to_go(space, trees, side, target, step)
    ahead = _to_go(space, trees, 1 - side, target, step)
    if behind + ahead >= bound.cost:
        return -1
    most = bound.cost - ahead if bound.cost < math.inf else 2.0 * behind
    target[n] = behind + uniform(random) * (most - behind)
    near, _ = rrt_trees.nearest(space, trees, side, target)
    nodes = trees.nodes[side]
    away = _way(space, nodes[near], target, step)
    if away == 0.0:
        return -1
    length = min(away, bound.longest)
    for d in range(n):
        new[d] = nodes[near, d] + step[d] * (length / away)
    new[n] = nodes[near, n] + length
    if new[n] + _to_go(space, trees, 1 - side, new, step) >= bound.cost:
        return -1
    counts[ITERATIONS] += 1
    counts[EDGES] += 1
    if not edge_free(checker, nodes, near, work, 2):
        return -1
    return rrt_trees.add(space, trees, side, new, near)


@bare_part
def _connect(state: BoundedSearch, side: int, node: int) -> bool:
    """Connect straight to the other tree within the bound; return whether it was reached."""
    checker, space, trees, bound, _, counts = state
    work = trees.work
    other, n = 1 - side, space.weights.shape[0] - 1
    step, new, last = work[1], work[2], work[3]
    nodes = trees.nodes[side]
    for d in range(n):
        last[d] = nodes[node, d]
    # The ideal partner is at the same configuration, with the shortest possible branch.
    last[n] = _to_go(space, trees, other, last, step)
    near, _ = rrt_trees.nearest(space, trees, other, last)
    away = _way(space, last, trees.nodes[other, near], step)
    cost = nodes[node, n]
    if cost + away + trees.nodes[other, near, n] >= bound.cost:
        return False
    pieces = min(max(1, math.ceil(away / bound.longest)), MOST_PIECES)
    for k in range(1, pieces + 1):
        for d in range(n):
            new[d] = last[d] + step[d] * (k / pieces)
        new[n] = cost + away * (k / pieces)
        counts[EDGES] += 1
        if not edge_free(checker, nodes, node, work, 2):
            return False
        if k < pieces:
            node = rrt_trees.add(space, trees, side, new, node)
    counts[MET_START] = node if side == START else near
    counts[MET_GOAL] = near if side == START else node
    return True
