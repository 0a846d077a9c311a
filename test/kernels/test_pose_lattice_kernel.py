# SPDX-License-Identifier: Apache-2.0
"""Distances on the cells of a lattice, against Dijkstra's algorithm of SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import distance_transform_cdt
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import dijkstra

from motion_nodes.kernels.search.pose_lattice import cell_distances


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
