# SPDX-License-Identifier: Apache-2.0
"""The search of grids against Dijkstra's algorithm, cell by cell."""

from __future__ import annotations

import heapq
import itertools
import math

import numpy as np
import pytest

from motion_nodes.kernels.search.grid_path import shortest

MOVES = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)], np.int64)


def neighbours(weight: np.ndarray, cell: tuple[int, int]):
    """Yield the cells beside a cell with the cost of the move there."""
    for di, dj in MOVES.tolist():
        i, j = cell[0] + di, cell[1] + dj
        inside = 0 <= i < weight.shape[0] and 0 <= j < weight.shape[1]
        if not inside or not np.isfinite(weight[i, j]):
            continue
        if not (np.isfinite(weight[cell[0], j]) and np.isfinite(weight[i, cell[1]])):
            continue
        yield (i, j), math.hypot(di, dj) * 0.5 * float(weight[cell] + weight[i, j])


def cheapest(weight: np.ndarray, start: tuple[int, int], goal: tuple[int, int]) -> float:
    """Return the cost of the cheapest path; inf if there is none."""
    queue, done = [(0.0, start)], set()
    while queue:
        cost, cell = heapq.heappop(queue)
        if cell == goal:
            return cost
        if cell in done:
            continue
        done.add(cell)
        for beside, step in neighbours(weight, cell):
            heapq.heappush(queue, (cost + step, beside))
    return math.inf


@pytest.mark.parametrize("seed", range(30))
def test_paths_are_the_cheapest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = rng.integers(5, 25, 2)
    weight = rng.uniform(1.0, 4.0, shape).astype(np.float32)
    weight[rng.random(shape) < 0.3] = np.inf
    start, goal = (tuple(rng.integers(0, shape).tolist()) for _ in range(2))
    weight[start], weight[goal] = 1.0, 1.0
    flat = [int(np.ravel_multi_index(cell, shape)) for cell in (start, goal)]
    path = shortest(weight, MOVES, *flat)
    best = cheapest(weight, start, goal)
    if not len(path):
        assert best == math.inf
        return
    cells = [tuple(map(int, np.unravel_index(cell, shape))) for cell in path.tolist()]
    assert (cells[0], cells[-1]) == (start, goal)
    cost = sum(dict(neighbours(weight, a))[b] for a, b in itertools.pairwise(cells))
    assert cost == pytest.approx(best, rel=1e-5, abs=1e-6)
