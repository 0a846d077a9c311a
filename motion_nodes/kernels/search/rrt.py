# SPDX-License-Identifier: Apache-2.0
"""The basic rapidly-exploring random tree (RRT) and the optimal one (RRT*); every edge is checked.

The path of RRT* improves as the tree grows, and is asymptotically optimal. Costs are always exact:
when a node is rewired, the difference is propagated to all its descendants. Goals are not nodes, so
no branch passes through them; nodes that connect to a goal are stored, and the best of them is
selected again whenever a cost has changed.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from motion_nodes.kernels.bridges import Checker, state_free
from motion_nodes.kernels.jit import kernel, part
from motion_nodes.kernels.search.classic_trees import (
    CONTINUE,
    FOUND,
    FULL,
    NO_SAMPLE,
    Tree,
    TreeSpace,
    add,
    distance,
    draw,
    draw_near,
    free_way,
    nearest,
    normal,
    steer,
    uniform,
)
from motion_nodes.typing import Array

_GAIN = 1e-9
"""Min reduction of cost for rewiring; below it, rounding would rewire nodes forever."""
_REJECTIONS = 200
"""Max number of attempts to sample a configuration that can shorten the path."""


class RrtSearch(NamedTuple):
    """State of a search."""

    tree: Tree
    """With the start as its root, grown by earlier calls."""
    space: TreeSpace
    """Sampling bounds and metric."""
    checker: Checker
    goals: Array
    """Collision-free goal configurations, shape (g, n)."""


class RrtOptions(NamedTuple):
    """Growth of the tree."""

    step: float
    """Max length of an edge [weighted rad or m]."""
    goal_bias: float
    """Fraction of the samples that are a goal."""
    near_bias: float
    """Fraction of the samples that are near a goal."""
    tries: int
    """Max number of tries for a collision-free sample."""


@kernel
def grow(search: RrtSearch, options: RrtOptions, iterations: int, found: Any) -> int:
    """Grow the tree by a number of iterations, or until it reaches a goal.

    Each iteration extends the node closest to a sample towards it, edge by edge until the sample or
    an obstacle is reached.

    Args:
        search: the search.
        options: growth of the tree.
        iterations: number of iterations.
        found: indices of the node and the goal that can be connected, shape (2,), int64.

    Returns:
        ``CONTINUE``, ``FOUND``, ``FULL`` or ``NO_SAMPLE``.

    Source: S. LaValle, "Rapidly-exploring random trees: a new tool for path planning", 1998; J.
    Kuffner and S. LaValle, "RRT-Connect", ICRA 2000, section 2 (steps until an obstacle is met).
    """
    tree, space, checker, goals = search
    step, goal_bias, near_bias, tries = options
    n, g = tree.nodes.shape[1], goals.shape[0]
    sample, q, work = np.empty(n), np.empty(n), np.empty(n)
    for _ in range(iterations):
        if tree.count[0] >= tree.nodes.shape[0]:
            return FULL
        tree.count[1] += 1
        chance = uniform(tree.random)
        if chance < goal_bias:
            sample[:] = goals[int(uniform(tree.random) * g)]
        elif chance < goal_bias + near_bias:
            goal = goals[int(uniform(tree.random) * g)]
            if not draw_near(space, tree.random, checker, goal, tries, sample):
                return NO_SAMPLE
        elif not draw(space, tree.random, checker, tries, sample):
            return NO_SAMPLE
        at = nearest(space, tree.nodes, tree.count[0], sample)
        while tree.count[0] < tree.nodes.shape[0]:
            if steer(space, tree.nodes[at], sample, step, q) == 0.0:
                break
            if not free_way(space, checker, tree.nodes[at], q, work):
                break
            at = add(tree, q, at)
            for i in range(g):
                close = distance(space, q, goals[i]) <= step
                if close and free_way(space, checker, tree.nodes[at], goals[i], work):
                    found[0], found[1] = at, i
                    return FOUND
    return CONTINUE


class Costs(NamedTuple):
    """Costs of the tree [weighted rad or m], in addition to :class:`Tree`."""

    cost: Array
    """Path length from the root to each node, shape (room,)."""
    child: Any
    """First child of each node, -1 for none, shape (room,), int64."""
    sibling: Any
    """Next child of the same parent, -1 for none, shape (room,), int64."""
    ends: Any
    """Nodes that connect to a goal, and that goal, shape (room, 2), int64."""
    rest: Array
    """Distances from these nodes to their goals, shape (room,)."""
    best: Any
    """Number of such nodes, and the best of them or -1, shape (2,), int64."""


class Neighbours(NamedTuple):
    """Memory for neighbours of a configuration."""

    node: Any
    """Their rows in the tree."""
    away: Array
    """Distances to them."""


class StarOptions(NamedTuple):
    """Growth of the tree; lengths in the metric [weighted rad or m]."""

    step: float
    """Max length of an edge."""
    goal_bias: float
    """Fraction of the samples that are a goal, until there is a path."""
    near_bias: float
    """Fraction of the samples that are near a goal, until there is a path."""
    gamma: float
    """Neighbours are within ``gamma (log(k) / k)^(1/n)`` for k nodes; 0: k-nearest neighbours."""
    most: float
    """Max radius for neighbours; inf for none."""
    tries: int
    """Max number of tries for a collision-free sample."""


@kernel
def grow_star(search: RrtSearch, costs: Costs, options: StarOptions, iterations: int) -> int:
    """Grow the tree by a number of iterations.

    Args:
        search: the search.
        costs: costs of its nodes.
        options: growth of the tree.
        iterations: number of iterations.

    Returns:
        ``CONTINUE``, ``FULL`` or ``NO_SAMPLE``.

    Source: S. Karaman and E. Frazzoli, "Sampling-based algorithms for optimal motion planning",
    IJRR 30(7), 2011, algorithm 6 and section 3.3.
    """
    tree, space, checker, goals = search
    room, n = tree.nodes.shape
    g = goals.shape[0]
    sample, q, work = np.empty(n), np.empty(n), np.empty(n)
    near, away = np.empty(room, np.int64), np.empty(room)
    found = Neighbours(near, away)
    for _ in range(iterations):
        if tree.count[0] >= room:
            return FULL
        tree.count[1] += 1
        limit = best_cost(costs)
        chance = uniform(tree.random) if limit == math.inf else 1.0
        goal = goals[int(uniform(tree.random) * g)]
        if chance < options.goal_bias:
            sample[:] = goal
        elif chance < options.goal_bias + options.near_bias:
            if not draw_near(space, tree.random, checker, goal, options.tries, sample):
                return NO_SAMPLE
        elif not _useful_sample(search, limit, options.tries, sample):
            return NO_SAMPLE
        closest = nearest(space, tree.nodes, tree.count[0], sample)
        length = steer(space, tree.nodes[closest], sample, options.step, q)
        if length == 0.0 or not free_way(space, checker, tree.nodes[closest], q, work):
            continue
        count = _neighbours(tree, space, options, q, closest, found)
        _sort_by_cost(costs, near, away, count)
        parent, cost = closest, costs.cost[closest] + length
        for i in range(count):
            if costs.cost[near[i]] + away[i] >= cost:
                break
            if free_way(space, checker, tree.nodes[near[i]], q, work):
                parent, cost = near[i], costs.cost[near[i]] + away[i]
                break
        new = add(tree, q, parent)
        costs.cost[new], costs.child[new] = cost, -1
        costs.sibling[new], costs.child[parent] = costs.child[parent], new
        changed = False
        for i in range(count):
            saved = costs.cost[near[i]] - cost - away[i]
            if saved > _GAIN and free_way(
                space, checker, tree.nodes[new], tree.nodes[near[i]], work
            ):
                _move(tree, costs, near[i], new, saved)
                changed = True
        for i in range(g):
            rest = distance(space, q, goals[i])
            seen = rest <= options.step and costs.best[0] < room
            if seen and free_way(space, checker, tree.nodes[new], goals[i], work):
                at = costs.best[0]
                costs.ends[at, 0], costs.ends[at, 1], costs.rest[at] = new, i, rest
                costs.best[0] = at + 1
                changed = True
        if changed:
            _find_best(costs)
    return CONTINUE


@part
def best_cost(costs: Costs) -> float:
    """Return the length of the best path [weighted rad or m], inf if there is none."""
    end = costs.best[1]
    return costs.cost[costs.ends[end, 0]] + costs.rest[end] if end >= 0 else math.inf


@part
def _find_best(costs: Costs) -> None:
    least = best_cost(costs)
    for i in range(costs.best[0]):
        cost = costs.cost[costs.ends[i, 0]] + costs.rest[i]
        if cost < least:
            least, costs.best[1] = cost, i


@part
def _useful_sample(search: RrtSearch, limit: float, tries: int, out: Array) -> bool:
    """Write a collision-free sample that may be on a shorter path; return False if none was found.

    Once there is a path, samples are drawn alternately from the ellipsoids of start and goals and
    from the whole space, rejecting those outside all ellipsoids; both are uniform in their union.
    After too many rejections, any collision-free sample is accepted.

    Source: J. Gammell, S. Srinivasa and T. Barfoot, "Informed RRT*", IROS 2014.
    """
    tree, space, checker, goals = search
    if limit == math.inf:
        return draw(space, tree.random, checker, tries, out)
    direct, n = not space.wraps.any(), out.shape[0]
    for attempt in range(_REJECTIONS):
        if direct and attempt % 2 == 0:
            goal = goals[int(uniform(tree.random) * goals.shape[0])]
            if not _in_ellipsoid(space, tree, goal, limit, out):
                continue
            held = _holding(tree, space, goals, limit, out)
            # A point in several ellipsoids is drawn from each of them.
            if uniform(tree.random) * held < 1.0 and state_free(checker, out.reshape(1, n), 0):
                return True
            continue
        if not draw(space, tree.random, checker, tries, out):
            return False
        if _holding(tree, space, goals, limit, out) > 0:
            return True
    return draw(space, tree.random, checker, tries, out)


@part
def _holding(tree: Tree, space: TreeSpace, goals: Array, limit: float, q: Array) -> int:
    """Return the number of goals for which a path through q may be shorter than a limit."""
    count, behind = 0, distance(space, tree.nodes[0], q)
    for i in range(goals.shape[0]):
        if behind + distance(space, q, goals[i]) < limit:
            count += 1
    return count


@part
def _in_ellipsoid(space: TreeSpace, tree: Tree, goal: Array, limit: float, out: Array) -> bool:
    """Write a uniform sample of the ellipsoid of paths to a goal shorter than a limit.

    In the weighted space, a uniform sample of the unit ball is scaled to the radii and reflected so
    that the first axis points from start to goal.

    Returns:
        False if the ellipsoid is empty or the sample is outside the joint limits.
    """
    n, start = out.shape[0], tree.nodes[0]
    straight = distance(space, start, goal)
    if not 0.0 < straight < limit:
        return False
    square = 0.0
    for k in range(n):
        out[k] = normal(tree.random)
        square += out[k] * out[k]
    scale = uniform(tree.random) ** (1.0 / n) / math.sqrt(square)
    across = 0.5 * math.sqrt(limit * limit - straight * straight)
    for k in range(n):
        out[k] *= scale * (0.5 * limit if k == 0 else across)
    # The Householder reflection maps the first axis e to the direction a: v = e - a.
    along = (goal[0] - start[0]) * space.weights[0] / straight
    half = 1.0 - along
    if half > 1e-12:
        product = out[0] * (1.0 - along)
        for k in range(1, n):
            product -= out[k] * (goal[k] - start[k]) * space.weights[k] / straight
        for k in range(n):
            v = (1.0 if k == 0 else 0.0) - (goal[k] - start[k]) * space.weights[k] / straight
            out[k] -= product / half * v
    for k in range(n):
        out[k] = 0.5 * (start[k] + goal[k]) + out[k] / space.weights[k]
        if not space.low[k] <= out[k] <= space.high[k]:
            return False
    return True


@part
def _neighbours(
    tree: Tree, space: TreeSpace, options: StarOptions, q: Array, closest: int, found: Neighbours
) -> int:
    """Write the neighbours of a configuration and their distances.

    Returns:
        Number of neighbours.
    """
    near, away = found
    nodes, count, n = tree.nodes, tree.count[0], q.shape[0]
    logarithm = math.log(count + 1.0)
    radius, most = options.most, count
    if options.gamma > 0.0:
        radius = min(radius, options.gamma * (logarithm / (count + 1.0)) ** (1.0 / n))
    else:
        most = min(count, math.ceil(math.e * (1.0 + 1.0 / n) * logarithm))
    kept = 0
    for i in range(count):
        d = distance(space, nodes[i], q)
        if d > radius and i != closest:
            continue
        if kept == most and d >= away[kept - 1]:
            continue
        # If their number is limited, the closest ones are kept, sorted by distance.
        at = kept if kept < most else kept - 1
        if most < count:
            while at > 0 and away[at - 1] > d:
                near[at], away[at] = near[at - 1], away[at - 1]
                at -= 1
        near[at], away[at] = i, d
        kept = min(kept + 1, most)
    return kept


@part
def _sort_by_cost(costs: Costs, near: Any, away: Array, count: int) -> None:
    """Sort by the length of the path through each neighbour.

    Source: D. Shell, "A high-speed sorting procedure", CACM 2(7), 1959.
    """
    gap = count // 2
    while gap > 0:
        for i in range(gap, count):
            node, length = near[i], away[i]
            total = costs.cost[node] + length
            at = i
            while at >= gap and costs.cost[near[at - gap]] + away[at - gap] > total:
                near[at], away[at] = near[at - gap], away[at - gap]
                at -= gap
            near[at], away[at] = node, length
        gap //= 2


@part
def _move(tree: Tree, costs: Costs, node: int, parent: int, saved: float) -> None:
    """Rewire a node to another parent; the costs of all descendants decrease by ``saved``."""
    old = tree.parent[node]
    at = costs.child[old]
    if at == node:
        costs.child[old] = costs.sibling[node]
    else:
        while costs.sibling[at] != node:
            at = costs.sibling[at]
        costs.sibling[at] = costs.sibling[node]
    tree.parent[node] = parent
    costs.sibling[node], costs.child[parent] = costs.child[parent], node
    # Depth-first traversal without a stack: to the child, else the next sibling, else back up.
    at = node
    while True:
        costs.cost[at] -= saved
        if costs.child[at] >= 0:
            at = costs.child[at]
            continue
        while at != node and costs.sibling[at] < 0:
            at = tree.parent[at]
        if at == node:
            return
        at = costs.sibling[at]
