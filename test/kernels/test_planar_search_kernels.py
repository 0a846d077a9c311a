# SPDX-License-Identifier: Apache-2.0
"""Searches on grids and pose lattices, against Dijkstra's algorithm of SciPy."""

import itertools
import math

import numpy as np
import pytest
from scipy.ndimage import distance_transform_cdt
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import dijkstra

from motion_nodes.kernels.search.a_star import cell_distances, shortest

MOVES = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)], np.int64)


def graph(weight: np.ndarray) -> csr_matrix:
    """Return the costs of all moves between free cells; diagonal ones need both cells beside."""
    rows, columns = weight.shape
    padded = np.pad(weight, 1, constant_values=np.inf).astype(float)

    def shifted(di: int, dj: int) -> np.ndarray:
        return padded[1 + di : 1 + di + rows, 1 + dj : 1 + dj + columns]

    index = np.arange(weight.size).reshape(weight.shape)
    tails, heads, costs = [], [], []
    for di, dj in MOVES.tolist():
        cost = math.hypot(di, dj) * 0.5 * (weight + shifted(di, dj))
        usable = np.isfinite(cost) & np.isfinite(shifted(di, 0) + shifted(0, dj))
        tails.append(index[usable])
        heads.append(index[usable] + di * columns + dj)
        costs.append(cost[usable])
    return csr_matrix(
        (np.concatenate(costs), (np.concatenate(tails), np.concatenate(heads))),
        shape=(weight.size, weight.size),
    )


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_paths_are_the_cheapest(first):
    found = 0
    for seed in range(first, first + 50):
        rng = np.random.default_rng(seed)
        shape = rng.integers(5, 40, 2)
        weight = rng.uniform(1.0, 1.0 + 3.0 * (seed % 2), shape).astype(np.float32)
        weight[rng.random(shape) < 0.3] = np.inf
        start, goal = (int(v) for v in rng.integers(0, weight.size, 2))
        weight.flat[[start, goal]] = 1.0
        path = shortest(weight, MOVES, start, goal).tolist()
        moves = graph(weight)
        best = dijkstra(moves, indices=start)[goal]
        if not path:
            assert best == math.inf
            continue
        found += 1
        assert (path[0], path[-1]) == (start, goal)
        cost = sum(moves[a, b] for a, b in itertools.pairwise(path))
        assert cost == pytest.approx(best, rel=1e-5, abs=1e-6)
    assert found > 10


@pytest.mark.parametrize("seed", range(10))
def test_distances_are_the_shortest(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(3, 25, 2)
    free = rng.random(shape) < 0.6
    goals = rng.choice(free.size, 2, replace=False)
    free.flat[goals] = True
    cells = np.argwhere(free)
    away = np.abs(cells[:, None] - cells[None])
    near = coo_matrix(np.where(away.max(axis=2) == 1, np.hypot(away[..., 0], away[..., 1]), 0.0))
    index = np.flatnonzero(free)
    best = dijkstra(near.tocsr(), indices=np.searchsorted(index, goals)).min(axis=0)
    found = cell_distances(free, goals.astype(np.int64))
    np.testing.assert_allclose(found.flat[index], best, atol=1e-9)
    assert np.isinf(found[~free]).all()


def test_an_empty_floor_has_octile_distances():
    free, goal = np.ones((12, 9), np.bool_), np.array([4 * 9 + 2])
    found = cell_distances(free, goal)
    others = np.ones(free.shape, int)
    others.flat[goal] = 0
    rings = distance_transform_cdt(others, "chessboard")
    assert (found >= rings - 1e-9).all()
    assert found[11, 8] == pytest.approx(6 * np.sqrt(2.0) + 1.0)
