# SPDX-License-Identifier: Apache-2.0
"""Shortest path on a grid of weighted cells, by A*."""

from __future__ import annotations

import heapq
import math

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.jit import kernel

DIAGONAL = math.sqrt(2.0) - 1.0
"""Additional length of a diagonal move [cells]."""


@kernel
def shortest(
    weight: NDArray[np.float32], moves: NDArray[np.int64], start: int, goal: int
) -> NDArray[np.int64]:
    """Return the cells of the cheapest path from start to goal; empty if there is none.

    A move costs its length times the mean weight of both cells. A diagonal move needs both cells
    beside it. The heuristic is the octile distance, the length of the shortest way over free cells
    of weight 1, so weights must be at least 1.

    Source: Hart, Nilsson and Raphael, A formal basis for the heuristic determination of minimum
    cost paths (1968).

    Args:
        weight: of each cell, infinite where it is blocked, shape (rows, columns).
        moves: steps along rows and columns to some of the eight neighbours, shape (m, 2).
        start: flat index of the first cell.
        goal: flat index of the last cell.
    """
    rows, columns = weight.shape
    cost = np.full(rows * columns, np.inf)
    before = np.full(rows * columns, -1, np.int64)
    done = np.zeros(rows * columns, np.bool_)
    goal_row, goal_column = goal // columns, goal % columns
    cost[start] = 0.0
    heap = [(0.0, start)]
    while len(heap) > 0:
        _, cell = heapq.heappop(heap)
        if cell == goal:
            break
        if done[cell]:
            continue
        done[cell] = True
        row, column = cell // columns, cell % columns
        for k in range(moves.shape[0]):
            r, c = row + moves[k, 0], column + moves[k, 1]
            if r < 0 or r >= rows or c < 0 or c >= columns or not weight[r, c] < np.inf:
                continue
            if r != row and c != column and not (
                weight[row, c] < np.inf and weight[r, column] < np.inf
            ):  # fmt: skip
                continue
            length = math.hypot(float(r - row), float(c - column))
            total = cost[cell] + length * 0.5 * (weight[row, column] + weight[r, c])
            there = r * columns + c
            if total < cost[there]:
                cost[there], before[there] = total, cell
                up, across = abs(goal_row - r), abs(goal_column - c)
                left = max(up, across) + DIAGONAL * min(up, across)
                heapq.heappush(heap, (total + left, there))
    if not cost[goal] < np.inf:
        return np.empty(0, np.int64)
    count, cell = 1, goal
    while cell != start:
        cell = before[cell]
        count += 1
    path = np.empty(count, np.int64)
    cell = goal
    for k in range(count - 1, -1, -1):
        path[k] = cell
        cell = before[cell]
    return path
