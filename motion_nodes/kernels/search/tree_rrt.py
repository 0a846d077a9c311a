# SPDX-License-Identifier: Apache-2.0
"""The plain rapidly-exploring random tree, every edge of which is checked, the last one too."""

from __future__ import annotations

from typing import Any

import numpy as np

from motion_nodes.kernels.collision.checker_calls import Checker
from motion_nodes.kernels.jit import kernel
from motion_nodes.kernels.packed import Array
from motion_nodes.kernels.search.tree_parts import (
    CONTINUE,
    FOUND,
    FULL,
    NO_SAMPLE,
    Space,
    Tree,
    add,
    distance,
    draw,
    free_way,
    nearest,
    steer,
    uniform,
)


@kernel
def grow(
    tree: Tree,
    space: Space,
    checker: Checker,
    goals: Array,
    step: float,
    goal_bias: float,
    tries: int,
    iterations: int,
    found: Any,
) -> int:
    """Grow the tree by a number of iterations, or until it gets to a goal.

    Args:
        tree: with the start as its root, grown by earlier calls.
        space: where samples are drawn.
        checker: what is free.
        goals: free configurations, any of which will do, shape (g, n).
        step: greatest length of an edge, in the weighted metric.
        goal_bias: share of the samples that are a goal.
        tries: for a sample free of collisions.
        iterations: how many.
        found: the node and the goal that may be joined, shape (2,), int64.

    Returns:
        ``CONTINUE``, ``FOUND``, ``FULL`` or ``NO_SAMPLE``.

    Source: S. LaValle, "Rapidly-exploring random trees: a new tool for path planning", 1998.
    """
    n, g = tree.nodes.shape[1], goals.shape[0]
    sample, q, work = np.empty(n), np.empty(n), np.empty(n)
    for _ in range(iterations):
        if tree.count[0] >= tree.nodes.shape[0]:
            return FULL
        tree.count[1] += 1
        if uniform(tree.random) < goal_bias:
            sample[:] = goals[int(uniform(tree.random) * g)]
        elif not draw(space, tree.random, checker, tries, sample):
            return NO_SAMPLE
        near = nearest(space, tree.nodes, tree.count[0], sample)
        if steer(space, tree.nodes[near], sample, step, q) == 0.0:
            continue
        if not free_way(space, checker, tree.nodes[near], q, work):
            continue
        new = add(tree, q, near)
        for i in range(g):
            close = distance(space, q, goals[i]) <= step
            if close and free_way(space, checker, tree.nodes[new], goals[i], work):
                found[0], found[1] = new, i
                return FOUND
    return CONTINUE
