# SPDX-License-Identifier: Apache-2.0
"""Shortest paths by A* on a grid of weighted cells and on a lattice of planar poses; distances."""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.jit import kernel
from motion_nodes.typing import Array

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


class Primitives(NamedTuple):
    """Motions from a cell at each of h headings, in cells."""

    first: NDArray[np.int64]
    """Index of the first primitive of each heading, and the number of all, shape (h + 1,)."""
    ends: NDArray[np.int64]
    """Steps along x and y, and heading at the end, shape (p, 3)."""
    costs: Array
    """Cost of each at a weight of 1 [cells], shape (p,)."""
    begins: NDArray[np.int64]
    """Index of the first swept pose of each, and the number of all, shape (p + 1,)."""
    swept: NDArray[np.int64]
    """Steps and heading of poses on the way, the end included, shape (s, 3)."""


@kernel
def shortest_poses(
    weight: NDArray[np.float32],
    primitives: Primitives,
    left: Array,
    starts: Array,
    goals: NDArray[np.int64],
    limit: float,
) -> tuple[Array, NDArray[np.int32], NDArray[np.int32]]:
    """Return the costs of poses, and how they are reached at these costs.

    A primitive costs as much as at a weight of 1, times the mean weight of the poses on its way.
    Costs of goals are exact if ``left`` never exceeds the difference of the costs of two poses that
    a primitive connects, and is 0 at the goals.

    Source: Hart, Nilsson and Raphael, A formal basis for the heuristic determination of minimum
    cost paths (1968).

    Args:
        weight: of each pose, at least 1, infinite where it is blocked, shape (h, nx, ny).
        primitives: motions.
        left: estimate of the cost to the nearest goal, infinite: none is reached, shape (nx, ny).
        starts: flat index and cost of each start, shape (k, 2).
        goals: flat indices of the poses whose costs are required, shape (g,).
        limit: max cost.

    Returns:
        Costs, infinite where not reached, flat index of the pose before, -1 for starts, and the
        primitive from there, shape (h * nx * ny,) each.
    """
    rows, columns = weight.shape[1], weight.shape[2]
    count = weight.size
    cost = np.full(count, np.inf)
    before = np.full(count, -1, np.int32)
    by = np.full(count, -1, np.int32)
    done = np.zeros(count, np.bool_)
    wanted = np.zeros(count, np.bool_)
    missing = 0
    for goal in goals:
        if not wanted[goal]:
            wanted[goal] = True
            missing += 1
    heap = [(0.0, 0)]
    heap.clear()
    for k in range(starts.shape[0]):
        node = int(starts[k, 0])
        if starts[k, 1] < cost[node]:
            cost[node] = starts[k, 1]
            cell = node % (rows * columns)
            heapq.heappush(heap, (starts[k, 1] + left[cell // columns, cell % columns], node))
    while len(heap) > 0 and missing > 0:
        _, node = heapq.heappop(heap)
        if done[node]:
            continue
        done[node] = True
        if wanted[node]:
            missing -= 1
        heading, cell = node // (rows * columns), node % (rows * columns)
        x, y = cell // columns, cell % columns
        for k in range(primitives.first[heading], primitives.first[heading + 1]):
            i, j = x + primitives.ends[k, 0], y + primitives.ends[k, 1]
            if i < 0 or i >= rows or j < 0 or j >= columns or not left[i, j] < np.inf:
                continue
            total, poses = 0.0, primitives.begins[k + 1] - primitives.begins[k]
            for s in range(primitives.begins[k], primitives.begins[k + 1]):
                a, b = x + primitives.swept[s, 0], y + primitives.swept[s, 1]
                if a < 0 or a >= rows or b < 0 or b >= columns:
                    total = np.inf
                    break
                total += weight[primitives.swept[s, 2], a, b]
            reached = cost[node] + primitives.costs[k] * total / poses
            there = (primitives.ends[k, 2] * rows + i) * columns + j
            if reached < cost[there] and reached + left[i, j] <= limit:
                cost[there], before[there], by[there] = reached, node, k
                heapq.heappush(heap, (reached + left[i, j], there))
    return cost, before, by


@kernel
def cell_distances(free: NDArray[np.bool_], goals: NDArray[np.int64]) -> Array:
    """Return the length of the shortest way from each cell to a goal, by Dijkstra's algorithm.

    Moves lead to the eight neighbours, also between blocked ones.

    Args:
        free: whether each cell is free, shape (nx, ny).
        goals: flat indices, shape (g,).

    Returns:
        Lengths [cells], infinite where no way leads, shape (nx, ny).
    """
    rows, columns = free.shape
    found = np.full((rows, columns), np.inf)
    heap = [(0.0, 0)]
    heap.clear()
    for goal in goals:
        found[goal // columns, goal % columns] = 0.0
        heapq.heappush(heap, (0.0, goal))
    while len(heap) > 0:
        length, cell = heapq.heappop(heap)
        x, y = cell // columns, cell % columns
        if length > found[x, y]:
            continue
        for dx in range(-1, 2):
            for dy in range(-1, 2):
                i, j = x + dx, y + dy
                if i < 0 or i >= rows or j < 0 or j >= columns or not free[i, j]:
                    continue
                total = length + math.sqrt(float(dx * dx + dy * dy))
                if total < found[i, j]:
                    found[i, j] = total
                    heapq.heappush(heap, (total, i * columns + j))
    return found
