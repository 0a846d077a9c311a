# SPDX-License-Identifier: Apache-2.0
"""Two trees of configurations, one from the start and one from the goals, for the tree searches."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.jit import bare_kernel, inlined
from motion_nodes.kernels.search import rrt_nearest
from motion_nodes.kernels.search.rrt_nearest import Index
from motion_nodes.typing import Array

START, GOAL = 0, 1
"""Index of the tree."""
NO_PARENT = -1


class ConnectSpace(NamedTuple):
    """Joints of the searches, each array of shape (n,)."""

    weights: Array
    """Weights in the metric, the 2-norm of weighted differences."""
    turn: Array
    """2 pi for continuous joints, else 0 [rad]."""


class Trees(NamedTuple):
    """Nodes of both trees; the first index of each array is the tree."""

    nodes: Array
    """Configurations, shape (2, room, n)."""
    parents: NDArray[np.int32]
    """Parent of each node, shape (2, room); NO_PARENT for roots."""
    reach: Array
    """Max distance of samples that extend a node [weighted rad or m], shape (2, room)."""
    sizes: NDArray[np.int64]
    """Number of nodes, shape (2,)."""
    places: Index
    work: Array
    """Scratch of the searches, shape (5, n)."""


def make_trees(space: ConnectSpace, start: Array, goals: Array, room: int) -> Trees:
    """Return trees that consist of their roots.

    Args:
        space: the joints.
        start: root of the first tree [rad or m], shape (n,).
        goals: roots of the other tree [rad or m], shape (g, n).
        room: max number of nodes of each tree.
    """
    n = len(space.weights)
    period = np.full(n, rrt_nearest.NO_TURN, np.float32)
    round_about = space.turn > 0.0
    period[round_about] = (space.turn * space.weights)[round_about]
    leaves = max(8, 4 * room // rrt_nearest.LEAF)
    trees = Trees(
        nodes=np.empty((2, room, n)),
        parents=np.empty((2, room), np.int32),
        reach=np.empty((2, room)),
        sizes=np.array([1, len(goals)]),
        places=rrt_nearest.make_index(period, leaves),
        work=np.empty((5, n)),
    )
    trees.nodes[START, 0] = start
    trees.nodes[GOAL, : len(goals)] = goals
    trees.parents[:, : len(goals)] = NO_PARENT
    return trees


def grown(trees: Trees) -> Trees:
    """Return trees with the same nodes and twice the memory."""
    room = 2 * trees.parents.shape[1]
    bigger = Trees(
        nodes=np.empty((2, room, trees.nodes.shape[2])),
        parents=np.empty((2, room), np.int32),
        reach=np.empty((2, room)),
        sizes=trees.sizes.copy(),
        places=rrt_nearest.grown(trees.places),
        work=trees.work,
    )
    for name in ("nodes", "parents", "reach"):
        old = getattr(trees, name)
        getattr(bigger, name)[:, : old.shape[1]] = old
    return bigger


@inlined
def has_room(trees: Trees, tree: int, count: int) -> bool:
    """Return whether a tree has memory for ``count`` more nodes."""
    room = trees.parents.shape[1]
    leaves = trees.places.names.shape[1] - trees.places.used[tree, 1]
    # Inserting `count` nodes splits at most about 2 + count / LEAF leaves.
    return bool(trees.sizes[tree] + count <= room and leaves > 2 + count // rrt_nearest.LEAF)


@inlined
def add(space: ConnectSpace, trees: Trees, tree: int, q: Array, parent: int) -> int:
    """Add a node and return its index; there must be room."""
    node = int(trees.sizes[tree])
    trees.sizes[tree] = node + 1
    for d in range(q.shape[0]):
        trees.nodes[tree, node, d] = q[d]
    trees.parents[tree, node] = parent
    trees.reach[tree, node] = math.inf
    rrt_nearest.query(trees.places, q, space.weights)
    rrt_nearest.insert(trees.places, tree, node)
    return node


@inlined
def index_roots(space: ConnectSpace, trees: Trees) -> None:
    """Build the index of the roots of new trees."""
    trees.places.used[:] = 0
    for tree in range(2):
        for node in range(trees.sizes[tree]):
            trees.parents[tree, node] = NO_PARENT
            trees.reach[tree, node] = math.inf
            rrt_nearest.query(trees.places, trees.nodes[tree, node], space.weights)
            rrt_nearest.insert(trees.places, tree, node)


@inlined
def nearest(space: ConnectSpace, trees: Trees, tree: int, q: Array) -> tuple[int, float]:
    """Return the node closest to a configuration and its distance [weighted rad or m]."""
    rrt_nearest.query(trees.places, q, space.weights)
    return rrt_nearest.nearest(trees.places, tree)


@inlined
def difference(space: ConnectSpace, a: Array, b: Array, out: Array) -> float:
    """Write the shortest displacement from a to b to ``out``, shape (n,); return its length."""
    total = 0.0
    for d in range(a.shape[0]):
        x, turn = b[d] - a[d], space.turn[d]
        if turn > 0.0:
            x -= turn * math.floor(x / turn + 0.5)
        out[d] = x
        total += (space.weights[d] * x) ** 2
    return math.sqrt(total)


@bare_kernel
def path_between(space: ConnectSpace, trees: Trees, a: int, b: int, out: Array) -> int:
    """Write the path from the start's root through the connected nodes to a goal's root.

    Continuous joints are unwrapped, so the end may differ from the goal by full turns.

    Args:
        space: the joints.
        trees: the trees.
        a: node of the start's tree.
        b: node of the goals' tree.
        out: memory for all nodes of both branches, shape (m, n).

    Returns:
        Number of rows written.
    """
    n, count = out.shape[1], 0
    node = a
    while node != NO_PARENT:
        count += 1
        node = trees.parents[START, node]
    node = a
    for row in range(count - 1, -1, -1):
        for d in range(n):
            out[row, d] = trees.nodes[START, node, d]
        node = trees.parents[START, node]
    node = b
    while node != NO_PARENT:
        for d in range(n):
            x, turn = trees.nodes[GOAL, node, d], space.turn[d]
            if turn > 0.0:
                x -= turn * math.floor((x - out[count - 1, d]) / turn + 0.5)
            out[count, d] = x
        count += 1
        node = trees.parents[GOAL, node]
    return count


@bare_kernel
def root_of(trees: Trees, tree: int, node: int) -> int:
    """Return the root of a node's branch."""
    while trees.parents[tree, node] != NO_PARENT:
        node = trees.parents[tree, node]
    return node
