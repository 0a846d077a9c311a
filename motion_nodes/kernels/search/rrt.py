# SPDX-License-Identifier: Apache-2.0
"""The basic rapidly-exploring random tree (RRT); every edge is checked, including the last one."""

from __future__ import annotations

from typing import Any

import numpy as np

from motion_nodes.kernels.collision.checker_bridge import Checker
from motion_nodes.kernels.jit import kernel
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
    steer,
)
from motion_nodes.kernels.search.random_numbers import uniform
from motion_nodes.typing import Array


@kernel
def grow(
    tree: Tree,
    space: TreeSpace,
    checker: Checker,
    goals: Array,
    step: float,
    goal_bias: float,
    near_bias: float,
    tries: int,
    iterations: int,
    found: Any,
) -> int:
    """Grow the tree by a number of iterations, or until it reaches a goal.

    Each iteration extends the node closest to a sample towards it, edge by edge until the sample or
    an obstacle is reached.

    Args:
        tree: with the start as its root, grown by earlier calls.
        space: sampling bounds and metric.
        checker: collision checker.
        goals: collision-free goal configurations, shape (g, n).
        step: max length of an edge [weighted rad or m].
        goal_bias: fraction of the samples that are a goal.
        near_bias: fraction of the samples that are near a goal.
        tries: max number of tries for a collision-free sample.
        iterations: number of iterations.
        found: indices of the node and the goal that can be connected, shape (2,), int64.

    Returns:
        ``CONTINUE``, ``FOUND``, ``FULL`` or ``NO_SAMPLE``.

    Source: S. LaValle, "Rapidly-exploring random trees: a new tool for path planning", 1998; J.
    Kuffner and S. LaValle, "RRT-Connect", ICRA 2000, section 2 (steps until an obstacle is met).
    """
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
