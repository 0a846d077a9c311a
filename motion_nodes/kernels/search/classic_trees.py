# SPDX-License-Identifier: Apache-2.0
"""Common parts of the tree search kernels: memory, samples, distances, steps.

Positions of continuous joints are stored as sampled; edges take the shorter direction. For all
other joints, the displacement is the plain difference.

Equal seeds give equal sequences of random numbers on every machine. Source: G. Steele, D. Lea and
C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 (SplitMix64).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from motion_nodes.kernels.bridges import Checker, edge_free, state_free
from motion_nodes.kernels.jit import inlined, part
from motion_nodes.typing import Array

INCREMENT = np.uint64(0x9E3779B97F4A7C15)
"""Added to the state of the generator for each number."""
CONTINUE = 0
"""All iterations of the batch are done, without a solution."""
FOUND = 1
FULL = 2
"""No memory left for nodes."""
NO_SAMPLE = 3
"""No collision-free configuration was sampled within the max number of tries."""
_TURN = 2.0 * math.pi


@inlined
def mixed(state: np.uint64) -> float:
    """Return the random number in [0, 1) of a state."""
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return float((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 9007199254740992.0


@inlined
def uniform(random: Any) -> float:
    """Return a uniform random number in [0, 1); the state has shape (1,), uint64."""
    random[0] += INCREMENT
    return mixed(random[0])


class TreeSpace(NamedTuple):
    """Sampling bounds [rad or m] and metric; arrays of shape (n,)."""

    low: Array
    high: Array
    wraps: Any
    """Whether each joint is continuous, bool."""
    weights: Array


class Tree(NamedTuple):
    """Nodes in order of insertion; the root is node 0."""

    nodes: Array
    """Configurations, shape (room, n)."""
    parent: Any
    """Shape (room,), int64; -1 for the root."""
    count: Any
    """Number of nodes, and of iterations, shape (2,), int64."""
    random: Any
    """State of the random number generator, shape (1,), uint64."""


@part
def normal(random: Any) -> float:
    """Return a random number of the standard normal distribution.

    Source: G. Box and M. Muller, "A note on the generation of random normal deviates", 1958.
    """
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(random)))
    return radius * math.cos(_TURN * uniform(random))


@part
def way(space: TreeSpace, k: int, a: float, b: float) -> float:
    """Return the displacement of joint k from a to b [rad or m], the shorter one if continuous."""
    d = b - a
    if space.wraps[k]:
        d -= _TURN * math.ceil((d - math.pi) / _TURN)
    return d


@part
def distance(space: TreeSpace, a: Array, b: Array) -> float:
    """Return the distance between two configurations, shape (n,) [weighted rad or m]."""
    total = 0.0
    for k in range(a.shape[0]):
        d = way(space, k, a[k], b[k]) * space.weights[k]
        total += d * d
    return math.sqrt(total)


@part
def nearest(space: TreeSpace, nodes: Array, count: int, q: Array) -> int:
    """Return the node closest to a configuration, shape (n,)."""
    best, least, turning = 0, math.inf, space.wraps.any()
    for i in range(count):
        square = square_below(space, nodes, i, q, least, turning)
        if square < least:
            best, least = i, square
    return best


@part
def square_below(
    space: TreeSpace, nodes: Array, i: int, q: Array, limit: float, turning: bool
) -> float:
    """Return a node's squared distance if it is below the limit, else a value not below it.

    Args:
        space: the joints.
        nodes: shape (room, n).
        i: index of the node.
        q: shape (n,).
        limit: of the squared distance.
        turning: whether any joint is continuous.
    """
    total = 0.0
    for k in range(q.shape[0]):
        d = way(space, k, nodes[i, k], q[k]) if turning else q[k] - nodes[i, k]
        d *= space.weights[k]
        total += d * d
        if total >= limit:
            break
    return total


@part
def steer(space: TreeSpace, a: Array, b: Array, step: float, out: Array) -> float:
    """Write the end of a step from a towards b; return its length [weighted rad or m]."""
    length = distance(space, a, b)
    share = min(1.0, step / length) if length > 0.0 else 0.0
    for k in range(a.shape[0]):
        out[k] = a[k] + share * way(space, k, a[k], b[k])
    return share * length


@part
def draw(space: TreeSpace, random: Any, checker: Checker, tries: int, out: Array) -> bool:
    """Write a random collision-free configuration, shape (n,); return False if none was found."""
    n = out.shape[0]
    for _ in range(tries):
        for k in range(n):
            out[k] = space.low[k] + uniform(random) * (space.high[k] - space.low[k])
        if state_free(checker, out.reshape(1, n), 0):
            return True
    return False


@part
def draw_near(
    space: TreeSpace, random: Any, checker: Checker, place: Array, tries: int, out: Array
) -> bool:
    """Write a random collision-free configuration near another; return False if none was found.

    Each joint deviates by up to a fraction of its range. The fraction is the same for all joints
    and log-uniform from 1/200 to 1/4.
    """
    n = out.shape[0]
    for _ in range(tries):
        share = 0.25 * math.exp(-3.9 * uniform(random))
        for k in range(n):
            reach = share * (space.high[k] - space.low[k])
            value = place[k] + reach * (2.0 * uniform(random) - 1.0)
            out[k] = value if space.wraps[k] else min(max(value, space.low[k]), space.high[k])
        if state_free(checker, out.reshape(1, n), 0):
            return True
    return False


@part
def free_way(space: TreeSpace, checker: Checker, a: Array, b: Array, work: Array) -> bool:
    """Return whether the edge from a (unchecked) to b (checked), shape (n,), is collision-free."""
    n = a.shape[0]
    for k in range(n):
        work[k] = a[k] + way(space, k, a[k], b[k])
    return edge_free(checker, a.reshape(1, n), 0, work.reshape(1, n), 0)


@part
def add(tree: Tree, q: Array, parent: int) -> int:
    """Add a node and return its index."""
    at = int(tree.count[0])
    for k in range(q.shape[0]):
        tree.nodes[at, k] = q[k]
    tree.parent[at] = parent
    tree.count[0] = at + 1
    return at
