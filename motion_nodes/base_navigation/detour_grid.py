# SPDX-License-Identifier: Apache-2.0
"""A grid of poses around a base: collision-free poses, and shortest paths between them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from motion_nodes.base_navigation.footprint import Footprint
from motion_nodes.typing import Array

MOST_CELLS = 6000
"""Max number of cells."""
_QUADRANT = ((1, 0), (2, 1), (1, 1), (1, 2))
MOVES = tuple(
    move for x, y in _QUADRANT for move in ((x, y), (-y, x), (-x, -y), (y, -x))
)  # fmt: skip
"""Moves between cells; a base that is not holonomic has the heading of its move."""


class PoseGrid:
    """Cells times headings, in the base frame of the start.

    For a base that turns on the spot, edges are moves along the heading and turns to the next
    heading; for a holonomic base, moves in all directions at one heading.
    """

    def __init__(
        self, footprint: Footprint, low: Array, high: Array, *, holonomic: bool, turn_cost: float
    ) -> None:
        """Create an empty grid.

        Args:
            footprint: footprint of the base.
            low: min corner [m], shape (2,).
            high: max corner [m], shape (2,).
            holonomic: whether the base moves in all directions with one heading.
            turn_cost: cost of turns, as a distance [m/rad].
        """
        size = high - low
        width = float(np.ptp(footprint.corners, axis=0).min())
        desired = min(max(0.15 * width, 0.02), 0.1)
        self.cell = max(desired, math.sqrt(float(size.prod()) / MOST_CELLS))
        """Edge of a cell [m]."""
        # The start is at the centre of a cell.
        self._origin = np.floor(low / self.cell).astype(int)
        self.shape = tuple((np.ceil(high / self.cell).astype(int) - self._origin + 1).tolist())
        self._footprint, self._turn_cost = footprint, turn_cost
        angles = sorted((math.atan2(y, x) % math.tau, (x, y)) for x, y in MOVES)
        self._moves = [move for _, move in angles]
        self.headings: Array = np.zeros(1) if holonomic else np.array([a for a, _ in angles])
        """[rad], shape (h,)."""
        self.free: NDArray[np.bool_] = np.ones((len(self.headings), *self.shape), np.bool_)
        """Whether each pose is collision-free, shape (h, nx, ny)."""
        self._holonomic = holonomic

    def block(self, points: Array, clearance: float) -> None:
        """Block the poses whose footprints violate the clearance of points [m], shape (n, 2).

        Points are assumed anywhere in their cells.
        """
        cells = np.rint(points / self.cell).astype(int) - self._origin
        reach = math.ceil((self._footprint.radius + clearance) / self.cell) + 1
        nx, ny = self.shape
        # Obstacles outside the grid block cells at its border.
        inside = ((cells >= -reach) & (cells < np.array(self.shape) + reach)).all(axis=1)
        occupied = np.unique(cells[inside], axis=0).tolist()
        span = np.arange(-reach, reach + 1) * self.cell
        offsets = np.stack(np.meshgrid(span, span, indexing="ij"), axis=-1).reshape(-1, 2)
        keep = clearance + self.cell * math.sqrt(0.5)
        for h, heading in enumerate(self.headings.tolist()):
            c, s = math.cos(heading), math.sin(heading)
            # Positions of the base in collision with an obstacle at the origin.
            local = -offsets @ np.array(((c, -s), (s, c)))
            near = self._footprint.distances(local) < keep
            clear = ~near.reshape(len(span), len(span))
            wide = np.ones((nx + 4 * reach, ny + 4 * reach), np.bool_)
            for i, j in occupied:
                wide[i + reach : i + 3 * reach + 1, j + reach : j + 3 * reach + 1] &= clear
            self.free[h] = wide[2 * reach : 2 * reach + nx, 2 * reach : 2 * reach + ny]

    def node(self, x: float, y: float, heading: float) -> int | None:
        """Return the node of the cell and heading closest to a pose; None outside or if blocked."""
        i, j = (np.rint(np.array((x, y)) / self.cell).astype(int) - self._origin).tolist()
        if not (0 <= i < self.shape[0] and 0 <= j < self.shape[1]):
            return None
        turns = np.abs(np.mod(self.headings - heading + math.pi, math.tau) - math.pi)
        h = int(turns.argmin())
        if not self.free[h, i, j]:
            return None
        return int((h * self.shape[0] + i) * self.shape[1] + j)

    def place(self, node: int) -> tuple[float, float]:
        """Return the centre of a node's cell [m, m]."""
        rest, j = divmod(node, self.shape[1])
        i = rest % self.shape[0]
        x, y = (self.cell * (self._origin + np.array((i, j)))).tolist()
        return x, y

    def search(
        self, starts: list[tuple[int, float]], limit: float
    ) -> tuple[Array, NDArray[np.int32]]:
        """Return the costs of all nodes [m], and their predecessors on the shortest paths.

        Args:
            starts: nodes with their initial costs [m].
            limit: max cost [m].
        """
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import dijkstra

        tails, heads, costs = self._edges()
        count = self.free.size
        source = np.full(len(starts), count)
        tails = np.concatenate((tails, source))
        heads = np.concatenate((heads, [node for node, _ in starts]))
        # SciPy ignores edges with a cost of 0.
        costs = np.concatenate((costs, [max(cost, 1e-6) for _, cost in starts]))
        graph = csr_matrix((costs, (tails, heads)), shape=(count + 1, count + 1))
        found, before = dijkstra(graph, indices=count, return_predecessors=True, limit=limit)
        return found[:-1], before

    def _edges(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        nodes = np.arange(self.free.size).reshape(self.free.shape)
        tails, heads, costs = [], [], []

        def add(a: NDArray[np.int64], b: NDArray[np.int64], usable: NDArray[np.bool_],
                cost: float) -> None:  # fmt: skip
            tails.append(a[usable])
            heads.append(b[usable])
            costs.append(np.full(len(tails[-1]), cost))

        for h in range(len(self.headings)):
            for dx, dy in self._moves if self._holonomic else [self._moves[h]]:
                here, there = _shifted(self.shape[0], dx), _shifted(self.shape[0], -dx)
                at, to = _shifted(self.shape[1], dy), _shifted(self.shape[1], -dy)
                a, b = (h, here, at), (h, there, to)
                usable = self.free[a] & self.free[b]
                add(nodes[a], nodes[b], usable, self.cell * math.hypot(dx, dy))
            if not self._holonomic:
                k = (h + 1) % len(self.headings)
                turn = (self.headings[k] - self.headings[h]) % math.tau
                both = self.free[h] & self.free[k]
                cost = max(self._turn_cost * turn, 1e-4)
                add(nodes[h], nodes[k], both, cost)
                add(nodes[k], nodes[h], both, cost)
        return np.concatenate(tails), np.concatenate(heads), np.concatenate(costs)


def _shifted(count: int, step: int) -> slice:
    """Return the cells that have a cell ``step`` ahead; of ``-step``: those cells ahead."""
    return slice(max(-step, 0), count - max(step, 0))
