# SPDX-License-Identifier: Apache-2.0
"""Kernels of the constrained bidirectional RRT, and of shortening and smoothing its paths.

Both trees grow along the constraint manifold: each step towards a target is projected onto it by
Newton's method, and the edge between two nodes is checked for constraints and collisions.

Source: D. Berenson, S. Srinivasa and J. Kuffner, "Task space regions: a framework for
pose-constrained manipulation planning", IJRR 30(12), 2011 (CBiRRT2).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from motion_nodes.kernels.bridges import Checker, edge_free
from motion_nodes.kernels.jit import bare_part, kernel
from motion_nodes.kernels.search.classic_trees import (
    CONTINUE,
    FOUND,
    FULL,
    Tree,
    TreeSpace,
    add,
    distance,
    nearest,
    uniform,
    way,
)
from motion_nodes.kernels.search.manifold import Manifold, Work, make_work, project, violation
from motion_nodes.typing import Array

ALLOWED = 0.7
"""Max violation between two nodes, as a ratio to the margins."""
_BETWEEN = 0.02
"""Max spacing of the checks of constraints along an edge [weighted rad or m]."""
_HALVINGS = 4
"""Max number of halvings of a step that cannot be projected, or whose edge is invalid."""
_NEAR = 0.8
"""Fraction of samples near nodes of both trees."""
_EXPLORE, _CONNECT = 12, 300
"""Max number of steps towards a sample, and towards the other tree."""


class ConstrainedSpace(NamedTuple):
    """Collision-free configurations on a constraint manifold."""

    space: TreeSpace
    """Sampling bounds and metric."""
    checker: Checker
    manifold: Manifold
    step: float
    """Max length of an edge before projection [weighted rad or m]."""


@bare_part
def _edge(held: ConstrainedSpace, rows: Array, a: int, b: int, work: Work) -> bool:
    """Return whether the edge between two rows is collision-free and satisfies the constraints.

    Between its ends, the violation may be up to ``ALLOWED``, or that of the worse end if larger.
    """
    limit, q = ALLOWED, work.q
    parts = max(2, math.ceil(distance(held.space, rows[a], rows[b]) / _BETWEEN))
    for i in range(parts + 1):
        # The ends first; a single call site, because each is compiled in place.
        share = float(i) if i < 2 else (i - 1) / parts
        for d in range(q.shape[0]):
            q[d] = rows[a, d] + (rows[b, d] - rows[a, d]) * share
        found = violation(held.manifold, q, work)[0]
        if i < 2:
            limit = max(limit, found)
        elif found > limit:
            return False
    return edge_free(held.checker, rows, a, rows, b)


@bare_part
def _walk(
    held: ConstrainedSpace, target: Array, most: int, rows: Array, work: Work
) -> tuple[int, bool]:
    """Walk along the manifold from ``rows[0]`` towards a target.

    Returns:
        Number of steps, whose ends are in the rows from 1 on, and whether the target was reached.
    """
    space, n, count = held.space, target.shape[0], 0
    most = min(most, rows.shape[0] - 1)
    away = distance(space, rows[0], target)
    while away > 1e-9:
        if count == most:
            return count, False
        now, new, moving = rows[count], rows[count + 1], False
        size = held.step
        for _ in range(_HALVINGS + 1):
            share = min(1.0, size / away)
            for d in range(n):
                new[d] = now[d] + share * way(space, d, now[d], target[d])
            if not project(held.manifold, new, work):
                size *= 0.5
                continue
            moved, left = distance(space, now, new), distance(space, new, target)
            stuck = moved > 2.5 * size or left > away - 0.05 * min(size, away)
            if not stuck and _edge(held, rows, count, count + 1, work):
                moving = True
                break
            size *= 0.5
        if not moving:
            return count, False
        count += 1
        away = distance(space, rows[count], target)
    return count, True


@bare_part
def _extend(
    held: ConstrainedSpace, tree: Tree, target: Array, most: int, rows: Array, work: Work
) -> tuple[int, bool]:
    """Extend a tree towards a target; return the last node, and whether it is the target."""
    node = nearest(held.space, tree.nodes, tree.count[0], target)
    for d in range(target.shape[0]):
        rows[0, d] = tree.nodes[node, d]
    most = min(most, tree.nodes.shape[0] - tree.count[0])
    count, reached = _walk(held, target, most, rows, work)
    for k in range(1, count + 1):
        node = add(tree, rows[k], node)
    return node, reached


@bare_part
def _sample(space: TreeSpace, first: Tree, second: Tree, out: Array) -> None:
    """Write a random configuration: anywhere, or in a box around one node of each tree."""
    near = uniform(first.random) < _NEAR
    a = first.nodes[int(uniform(first.random) * first.count[0])]
    b = second.nodes[int(uniform(first.random) * second.count[0])]
    for d in range(out.shape[0]):
        low, high = space.low[d], space.high[d]
        if near:
            margin = 0.2 * (high - low)
            low, high = max(low, min(a[d], b[d]) - margin), min(high, max(a[d], b[d]) + margin)
        out[d] = low + uniform(first.random) * (high - low)


@kernel
def grow_on_manifold(
    first: Tree, second: Tree, held: ConstrainedSpace, iterations: int, found: Any
) -> int:
    """Grow the trees by a number of iterations, or until they meet.

    Args:
        first: tree from the start; its iteration count and random numbers are used.
        second: tree from the goals.
        held: the configurations.
        iterations: number of iterations; 0 only tries to connect the roots.
        found: the nodes at which the trees met, shape (2,), int64.

    Returns:
        ``CONTINUE``, ``FOUND`` or ``FULL``.
    """
    space = held.space
    n = space.low.shape[0]
    work, rows = make_work(held.manifold.both.shape[0], n), np.empty((_CONNECT + 1, n))
    sample, last, forward, roots = np.empty(n), 0, True, iterations == 0
    # Each turn extends one tree: towards a sample, then the other tree towards the new node. There
    # is a single call site, because each is compiled in place.
    for turn in range(2 if roots else 2 * iterations):
        explore = turn % 2 == 0
        if explore and roots:
            continue  # the second tree is extended towards the start
        if explore:
            if max(first.count[0], second.count[0]) >= first.nodes.shape[0] - 1:
                return FULL
            first.count[1] += 1
            forward = first.count[0] <= second.count[0]
            _sample(space, first, second, sample)
        else:
            nodes = first.nodes if forward else second.nodes
            sample[:] = nodes[last]
        tree = first if forward == explore else second
        most = _EXPLORE if explore else _CONNECT
        node, reached = _extend(held, tree, sample, most, rows, work)
        if explore:
            last = node
        elif reached:
            found[0], found[1] = (last, node) if forward else (node, last)
            return FOUND
    return CONTINUE


@bare_part
def _length(space: TreeSpace, rows: Array, a: int, b: int) -> float:
    total = 0.0
    for k in range(a, b):
        total += distance(space, rows[k], rows[k + 1])
    return total


@kernel
def shorten_on_manifold(
    path: Array, count: int, held: ConstrainedSpace, tries: int, random: Any
) -> int:
    """Replace parts of a path by shorter ones along the manifold; return its number of waypoints.

    Args:
        path: waypoints, shape (room, n); rewritten.
        count: number of waypoints.
        held: the configurations.
        tries: number of pairs of waypoints to try; the first pair are the ends of the path.
        random: state of the random number generator, shape (1,), uint64.
    """
    space, n, room = held.space, path.shape[1], path.shape[0]
    work, rows = make_work(held.manifold.both.shape[0], n), np.empty((room, n))
    target = np.empty(n)
    for attempt in range(tries):
        if count < 3:
            return count
        a, b = 0, count - 1
        if attempt > 0:
            a = int(uniform(random) * (count - 2))
            b = a + 2 + int(uniform(random) * (count - a - 2))
        before = _length(space, path, a, b)
        rows[0] = path[a]
        # Continuous joints keep the full turns of the waypoint to which the part leads.
        target[:] = path[b]
        most = min(room - 1, int(2.0 * before / held.step) + 2)
        steps, reached = _walk(held, target, most, rows, work)
        if not reached or count - (b - a) + steps > room:
            continue
        turned = False
        for d in range(n):
            turned = turned or abs(rows[steps, d] - path[b, d]) > 1e-6
        if turned or _length(space, rows, 0, steps) > 0.999 * before:
            continue
        tail = path[b + 1 : count].copy()
        path[a + 1 : a + 1 + steps] = rows[1 : steps + 1]
        if steps > 0:
            path[a + steps] = target
        path[a + 1 + steps : a + 1 + steps + tail.shape[0]] = tail
        count = a + 1 + steps + tail.shape[0]
    return count


@kernel
def smooth_on_manifold(path: Array, held: ConstrainedSpace, rounds: int) -> None:
    """Move waypoints, (k, n), towards the mean of their neighbours, along the manifold."""
    count, n = path.shape
    work, rows = make_work(held.manifold.both.shape[0], n), np.empty((3, n))
    for _ in range(rounds):
        for k in range(1, count - 1):
            for d in range(n):
                rows[0, d], rows[2, d] = path[k - 1, d], path[k + 1, d]
                rows[1, d] = 0.5 * path[k, d] + 0.25 * (rows[0, d] + rows[2, d])
            valid = project(held.manifold, rows[1], work)
            for a in range(2):
                valid = valid and _edge(held, rows, a, a + 1, work)
            if valid:
                path[k] = rows[1]
