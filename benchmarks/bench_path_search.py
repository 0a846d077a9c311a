# SPDX-License-Identifier: Apache-2.0
"""Paths on maps: A* on grids and on lattices of poses, beside Dijkstra's algorithm.

Mazes have random walls with gaps; starts and goals are in opposite corners. Costs must be equal.
Dijkstra on the grid is SciPy's (compiled), whose graph is made before; on lattices it is the same
kernel without an estimate. Times are those of searches after the first; medians.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Options, Report, Row, benchmark, median, progress
from kernels.test_planar_search_kernels import graph
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from motion_nodes.core.navigation.footprint import footprint_from
from motion_nodes.core.navigation.map_planner import (
    MOVES,
    GridPlanConfig,
    GridPlanner,
    LatticePlanner,
    NoGridPath,
    OccupancyGrid,
    PlannedBase,
)
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.navigation.pose_lattice import PoseLattice
from motion_nodes.kernels.search.a_star import shortest

EDGE = 0.05
OUTLINE = footprint_from([(0.3, 0.15), (0.3, -0.15), (-0.1, -0.15), (-0.1, 0.15)])


def maze(size: int, rng: np.random.Generator) -> OccupancyGrid:
    """Return a square with walls across, each with a gap of 2 m at a random place."""
    cells = np.zeros((size, size), np.int8)
    for column in range(60, size - 30, 60):
        gap = int(rng.integers(0, size - 40))
        cells[:, column : column + 2] = 100
        cells[gap : gap + 40, column : column + 2] = 0
    return OccupancyGrid(cells, EDGE, Pose2())


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and its time [ms]."""
    begin = time.perf_counter()
    result = call()
    return result, 1e3 * (time.perf_counter() - begin)


def cost_of(path: NDArray[np.int64], weight: NDArray[np.float32]) -> float:
    """Return the cost of cells of a grid."""
    columns, total = weight.shape[1], 0.0
    for a, b in itertools.pairwise(path.tolist()):
        (i, j), (k, m) = divmod(a, columns), divmod(b, columns)
        total += math.hypot(i - k, j - m) * 0.5 * float(weight[i, j] + weight[k, m])
    return total


def grids(report: Report, count: int) -> None:
    """Time the grid."""
    rows: list[Row] = []
    for size in (200, 400, 800):
        progress(f"grid of {size} x {size}")
        ours, theirs, graphs, worst = *(list[float]() for _ in range(3)), 0.0
        for seed in range(count):
            grid = maze(size, np.random.default_rng(seed))
            weight = GridPlanner(grid, 0.2, GridPlanConfig()).weight
            start, goal = 10 * size + 10, (size - 10) * size + size - 10
            path, spent = timed(lambda w=weight, a=start, b=goal: shortest(w, MOVES, a, b))
            edges, made = timed(lambda w=weight: graph(w))
            costs, other = timed(lambda g=edges, a=start: dijkstra(g, indices=a))
            if seed:
                ours.append(spent)
                theirs.append(other)
                graphs.append(made)
            if len(path):
                worst = max(worst, abs(cost_of(path, weight) / float(costs[goal]) - 1.0))
        rows.append({
            "cells": f"{size} x {size}", "mazes": count, "A* [ms]": median(ours),
            "Dijkstra [ms]": median(theirs), "its graph [ms]": median(graphs),
            "ratio": median(theirs) / median(ours), "difference of cost": worst,
        })  # fmt: skip
    report.table("Grid: A* and SciPy's Dijkstra", rows)


def lattices(report: Report, count: int) -> None:
    """Time the lattice."""
    rows: list[Row] = []
    estimate = PoseLattice._left
    for kind in ("differential", "holonomic", "ackermann"):
        progress(f"lattice of a {kind} base")
        base = PlannedBase(kind, OUTLINE, 0.6)
        build, ours, theirs, whole, worst = *(list[float]() for _ in range(4)), 0.0
        for seed in range(count):
            grid = maze(400, np.random.default_rng(seed))
            planner = LatticePlanner(GridPlanner(grid, 0.35, GridPlanConfig()), base)
            lattice, made = timed(lambda p=planner: p.lattice)
            places = Pose2(0.6, 0.6), Pose2(19.0, 19.0, 0.8)
            start, goal = (lattice.node(place) for place in places)
            if start is None or goal is None:
                continue
            found = []
            for left in (estimate, lambda own, _goals: np.zeros(own.shape)):
                PoseLattice._left = left  # type: ignore[method-assign]
                found.append(timed(lambda m=lattice, a=start, b=goal: float(
                    m.search(np.array(((a, 0.0),)), np.array((b,)))[0][b])))  # fmt: skip
            PoseLattice._left = estimate  # type: ignore[method-assign]
            try:
                _, spent = timed(lambda p=planner, ends=places: p.plan(*ends))
            except NoGridPath:
                continue
            if seed:
                build.append(made)
                ours.append(found[0][1])
                theirs.append(found[1][1])
                whole.append(spent)
            worst = max(worst, abs(found[0][0] / found[1][0] - 1.0))
        rows.append({
            "base": kind, "mazes": len(ours), "poses": lattice.weight.size,
            "lattice [ms]": median(build), "A* [ms]": median(ours),
            "Dijkstra [ms]": median(theirs), "ratio": median(theirs) / median(ours),
            "plan [ms]": median(whole), "difference of cost": worst,
        })  # fmt: skip
    report.table("Lattice of poses on 20 m x 20 m: A* and Dijkstra", rows)


@benchmark("Paths on maps", mazes=(21, "mazes of each kind"))
def main(report: Report, options: Options) -> None:
    """Measure and print."""
    grids(report, options.mazes)
    lattices(report, options.mazes)
