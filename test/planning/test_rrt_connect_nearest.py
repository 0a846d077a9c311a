# SPDX-License-Identifier: Apache-2.0
"""The nearest node of a tree against brute force, also across the wrap of continuous joints."""

import math
import re

import numba
import numpy as np
import pytest

from motion_nodes.kernels.jit import kernel
from motion_nodes.kernels.search import rrt_trees
from motion_nodes.kernels.search.rrt_nearest import BLOCKS, LANES, LEAF
from motion_nodes.kernels.search.rrt_trees import GOAL, START, ConnectSpace, make_trees

TURN = 2.0 * math.pi


@kernel
def insert_all(space, trees, Q):
    rrt_trees.index_roots(space, trees)
    for k in range(len(Q)):
        rrt_trees.add(space, trees, GOAL, Q[k], k)


@kernel
def ask_all(space, trees, Q, who, away):
    for k in range(len(Q)):
        who[k], away[k] = rrt_trees.nearest(space, trees, GOAL, Q[k])


def filled(space, Q):
    root = Q[:1].copy()
    trees = make_trees(space, root[0], root, 4)
    while trees.parents.shape[1] < len(Q) + 100:
        trees = rrt_trees.grown(trees)
    insert_all(space, trees, Q[1:])
    return trees


def brute(space, Q, q):
    way = Q - q
    turning = space.turn > 0.0
    way[:, turning] -= TURN * np.round(way[:, turning] / TURN)
    return np.linalg.norm(way * space.weights, axis=1)


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 10, LEAF - 1, LEAF, LEAF + 1, 3000])
@pytest.mark.parametrize("rounds", [(), (0, 3), (0, 1, 2, 3, 4, 5, 6)])
def test_nearest_is_that_of_brute_force(count, rounds):
    rng = np.random.default_rng([count, len(rounds)])
    turn = np.zeros(7)
    turn[list(rounds)] = TURN
    space = ConnectSpace(rng.uniform(0.5, 3.0, 7), turn)
    # Continuous joints may have any number of turns.
    Q = rng.uniform(-3.0, 3.0, (count, 7)) + TURN * rng.integers(-2, 3, (count, 7)) * (turn > 0.0)
    trees = filled(space, Q)
    asked = rng.uniform(-3.1, 3.1, (200, 7))
    who, away = np.empty(200, np.int64), np.empty(200)
    ask_all(space, trees, asked, who, away)
    for q, found, distance in zip(asked, who, away, strict=True):
        distances = brute(space, Q, q)
        assert distances[found] <= distances.min() + 1e-5
        assert distance == pytest.approx(distances.min(), abs=1e-5)


def test_many_equal_nodes_do_no_harm():
    space = ConnectSpace(np.ones(3), np.zeros(3))
    Q = np.concatenate((np.zeros((3 * LEAF, 3)), np.ones((5, 3))))
    trees = filled(space, Q)
    who, away = np.empty(2, np.int64), np.empty(2)
    ask_all(space, trees, np.array([[0.1, 0.0, 0.0], [0.2, 0.0, 0.0]]), who, away)
    np.testing.assert_allclose(away, [0.1, 0.2], atol=1e-6)
    np.testing.assert_array_equal(Q[who], 0.0)


def test_a_search_looks_at_a_small_part_of_many_nodes():
    """Few leaves of 30 000 nodes in three dimensions are visited.

    A leaf is visited if the query itself is found after all points of the leaf were moved there,
    but not its box: up to this leaf the search is the same.
    """
    space = ConnectSpace(np.ones(3), np.zeros(3))
    Q = np.random.default_rng(4).uniform(-1.0, 1.0, (30_000, 3))
    trees = filled(space, Q)
    leaves = int(trees.places.used[GOAL, 1])
    assert leaves > 30_000 // LEAF
    links = trees.places.links[GOAL, : trees.places.used[GOAL, 0]]
    assert links[links[:, 0] < 0, 1].sum() == 30_000
    room = trees.places.names.shape[1]
    points = trees.places.points.reshape(2, room, BLOCKS, 3, LANES)[GOAL]
    who, away = np.empty(1, np.int64), np.empty(1)
    for q in np.random.default_rng(5).uniform(-1.0, 1.0, (20, 1, 3)).astype(np.float32):
        asked, visited = q.astype(np.float64), 0
        ask_all(space, trees, asked, who, away)
        assert away[0] > 0.0
        for leaf in range(leaves):
            kept = points[leaf].copy()
            points[leaf] = q[0, :, None]
            ask_all(space, trees, asked, who, away)
            visited += away[0] == 0.0
            points[leaf] = kept
        assert 1 <= visited < 0.1 * leaves


def test_a_path_over_the_seam_does_not_jump():
    space = ConnectSpace(np.ones(1), np.array([TURN]))
    trees = make_trees(space, np.array([3.0]), np.array([[-3.0]]), 8)
    rows = np.empty((4, 1))
    count = rrt_trees.path_between(space, trees, 0, 0, rows)
    np.testing.assert_allclose(rows[:count, 0], [3.0, TURN - 3.0])
    assert rows[0, 0] == 3.0
    assert trees.sizes[START] == 1


@pytest.mark.long
def test_leaves_are_gone_through_in_vector_registers():
    space = ConnectSpace(np.ones(7), np.zeros(7))
    trees = filled(space, np.zeros((1, 7)))
    # Numba has no assembly of code from its cache.
    compiled = numba.njit(ask_all.py_func)
    compiled(space, trees, np.zeros((1, 7)), np.empty(1, np.int64), np.empty(1))
    text = "\n".join(compiled.inspect_llvm().values())
    assert re.search(r"fsub <16 x float>", text)
    assert "llvm.vector.reduce.fmin.v16f32" in text
