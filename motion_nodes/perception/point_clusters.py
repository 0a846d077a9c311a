# SPDX-License-Identifier: Apache-2.0
"""Points as clusters: those that are connected by short distances."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from motion_nodes.typing import Array

FINENESS = 3.0
"""Points within a cell of a grid, this much finer than the distance, count as one."""


def clusters(points: Array, distance: float) -> list[NDArray[np.intp]]:
    """Return the indices of the points of each cluster (Euclidean clustering), largest first.

    Args:
        points: [m], shape (n, 3).
        distance: up to which points belong to one cluster [m].
    """
    if not len(points):
        return []
    cells = np.floor(points * (FINENESS / distance)).astype(np.int64)
    _, cell_of, counts = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    cell_of = cell_of.reshape(-1)
    means = np.empty((len(counts), 3))
    for k in range(3):
        means[:, k] = np.bincount(cell_of, points[:, k]) / counts
    pairs = cKDTree(means).query_pairs(distance, output_type="ndarray")
    links = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), 2 * (len(means),))
    count, label_of_cell = connected_components(links, directed=False)
    labels = label_of_cell[cell_of]
    order = np.argsort(labels, kind="stable")
    found = np.split(order, np.cumsum(np.bincount(labels, minlength=count))[:-1])
    return sorted(found, key=len, reverse=True)


def spacing(points: Array) -> float:
    """Return the median distance of points from their nearest ones [m]; 0 for fewer than two.

    Args:
        points: [m], shape (n, 3).
    """
    distinct = np.unique(points, axis=0)
    if len(distinct) < 2:
        return 0.0
    return float(np.median(cKDTree(distinct).query(distinct, k=2)[0][:, 1]))
