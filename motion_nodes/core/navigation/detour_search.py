# SPDX-License-Identifier: Apache-2.0
"""Search for a detour around obstacles, from a blocked base to its route behind them.

A detour consists of straight lines with turns on the spot between them (lines at one heading for a
holonomic base). Corners come from a search on a grid of poses; lines and turns are checked exactly,
and redundant corners are removed.

A grid of poses around a base: collision-free poses, and shortest paths between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.odometry import wrap_angle
from motion_nodes.core.navigation.footprint import Footprint, contact_times, into_base, keeps_clear
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.errors import MotionError
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

MOST_CELLS = 6000
"""Max number of cells."""
_QUADRANT = ((1, 0), (2, 1), (1, 1), (1, 2))
MARGIN = 0.03
"""Additional clearance of a detour for path tracking errors [m]."""
CHECKED = 0.02
"""Part of it that is checked exactly for lines and turns; the rest covers grid errors [m]."""
LOOKOUT = 1.0
"""Length of the route behind the obstacles on which a detour may end [m]."""
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


class NoDetour(MotionError):
    """There is no detour; the text contains the reason."""


@dataclass(frozen=True, kw_only=True)
class DetourConfig:
    """Settings of detours."""

    max_detour: float = setting(
        2.0, doc="Max additional length of detours around obstacles; 0: no detours.",
        unit="m", ge=0.0, le=20.0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Validate the numbers."""
        check_settings(self)


@dataclass(frozen=True)
class Detour:
    """A detour around obstacles."""

    backing: float
    """Distance that the base first backs off, along its heading or opposite to its motion [m]."""
    poses: tuple[Pose2, ...]
    """Start of the first line and ends of all lines, each with the heading of the next line."""
    row: int
    """Row of the route at which it ends."""


class DetourSearch:
    """One search, in the base frame of the start."""

    def __init__(
        self,
        footprint: Footprint,
        points: Array,
        route: Array,
        *,
        clearance: float,
        config: DetourConfig,
        holonomic: bool = False,
        turn_cost: float = 0.1,
        back: float = math.pi,
    ) -> None:
        """Prepare the search.

        Args:
            footprint: footprint of the base.
            points: obstacles in the base frame [m], shape (n, 2).
            route: remaining route as poses in the base frame, x, y, yaw rows, shape (m, 3).
            clearance: min distance from obstacles [m].
            config: settings.
            holonomic: whether the base moves in all directions.
            turn_cost: cost of turns, as a distance [m/rad].
            back: direction in which the base may first back off, in its frame [rad].
        """
        self._footprint, self._points, self._route = footprint, points, route
        self._clearance, self._config = clearance, config
        self._holonomic, self._turn_cost, self._back = holonomic, turn_cost, back
        steps = np.hypot(*np.diff(route[:, :2], axis=0).T)
        self._s = np.concatenate(([0.0], np.cumsum(steps)))

    def run(self) -> Detour:
        """Return the shortest detour found.

        Raises:
            NoDetour: there is none, with the reason.
        """
        if self._config.max_detour <= 0.0:
            raise NoDetour("detours are disabled (max_detour is 0)")
        rows = self._ends()
        behind = self._free_length(self._back, self._clearance)
        longest = min(behind, 2.0 * self._footprint.radius + 2.0 * self._clearance, 2.0)
        grid = self._grid(rows, longest)
        backing = np.arange(0.0, longest + 1e-9, grid.cell)
        c, s = math.cos(self._back), math.sin(self._back)
        starts = []
        for b in backing.tolist():
            node = grid.node(b * c, b * s, 0.0)
            if node is not None:
                starts.append((node, 2.0 * b))
        if not starts:
            raise NoDetour(f"there is no room to turn or to back off{self._wide()}")
        limit = float(self._s[rows[-1]]) + self._config.max_detour + 2.0 * longest + 5.0
        costs, before = grid.search(starts, limit)
        ends = []
        for row in rows.tolist():
            x, y = self._route[row, :2].tolist()
            node = grid.node(x, y, self._heading_at(row))
            if node is not None and math.isfinite(costs[node]):
                ends.append((costs[node] - self._s[row], row, node))
        for _, row, node in sorted(ends)[:5]:
            found = self._refined(grid, before, row, node)
            if found is not None:
                return found
        raise NoDetour(f"no way around is found within {self._config.max_detour:g} m"
                       f"{self._wide()}")  # fmt: skip

    # ---- route

    def _ends(self) -> NDArray[np.intp]:
        """Return the rows of the route, behind the obstacles on it, at which a detour may end."""
        clear = np.array([
            bool(self._clear(Pose2(*row), self._clearance + CHECKED))
            for row in self._route.tolist()
        ])  # fmt: skip
        blocked = np.flatnonzero(~clear)
        first = int(blocked[0]) if len(blocked) else 0
        ahead = np.flatnonzero(clear[first:]) + first
        ahead = ahead[self._s[ahead] > 0.02]
        if not len(ahead):
            x, y = self._route[-1, :2].tolist()
            raise NoDetour(
                "the rest of the route up to its end is occupied, with the clearance of "
                f"{self._clearance:g} m: the goal is {math.hypot(x, y):.2f} m away"
            )
        return np.asarray(ahead[self._s[ahead] <= self._s[ahead[0]] + LOOKOUT])

    def _heading_at(self, row: int) -> float:
        return 0.0 if self._holonomic else float(self._route[row, 2])

    def _grid(self, rows: NDArray[np.intp], longest: float) -> PoseGrid:
        c, s = math.cos(self._back), math.sin(self._back)
        corners = np.concatenate(
            (self._route[: rows[-1] + 1, :2], [(0.0, 0.0), (longest * c, longest * s)])
        )
        side = 0.5 * self._config.max_detour + self._footprint.radius
        grid = PoseGrid(
            self._footprint,
            corners.min(axis=0) - side,
            corners.max(axis=0) + side,
            holonomic=self._holonomic,
            turn_cost=self._turn_cost,
        )
        grid.block(self._points, self._clearance + MARGIN)
        return grid

    def _wide(self) -> str:
        """Return the required width of a gap, as text."""
        width = float(np.ptp(self._footprint.corners[:, 1])) + 2.0 * (self._clearance + MARGIN)
        return f"; a gap must be at least {width:.2f} m wide, and {self._turning():.2f} m to turn"

    def _turning(self) -> float:
        return 2.0 * (self._footprint.radius + self._clearance + MARGIN)

    # ---- exact checks

    def _clear(self, pose: Pose2, clearance: float) -> bool:
        local = into_base(self._points, pose)
        local = local[np.abs(local).max(axis=1) < self._footprint.radius + clearance]
        return not len(local) or bool(self._footprint.distances(local).min() >= clearance)

    def _free_length(self, direction: float, clearance: float) -> float:
        """Return how far the base can move from its start; it may leave points within clearance."""
        distances = self._footprint.distances(self._points)
        radii = np.where(distances > clearance + 1e-3, clearance, np.maximum(distances - 2e-3, 0.0))
        twist = Twist2(math.cos(direction), math.sin(direction), 0.0)
        times = contact_times(self._footprint, self._points, radii, twist)
        return float(times.min(initial=math.inf)) - 0.01

    def _reached(self, pose: Pose2, twist: Twist2, time: float) -> bool:
        clearance = self._clearance + CHECKED
        return keeps_clear(self._footprint, self._points, pose, twist, time, clearance)

    def _turns(self, pose: Pose2, heading: float) -> bool:
        turn = wrap_angle(heading - pose.yaw)
        ways = [turn]
        if abs(turn) > 3.0:
            # The base may turn in either direction.
            ways.append(turn - math.copysign(math.tau, turn))
        return all(self._reached(pose, Twist2(0.0, 0.0, math.copysign(1.0, w)), abs(w))
                   for w in ways)  # fmt: skip

    # ---- corners

    def _refined(
        self, grid: PoseGrid, before: NDArray[np.int32], row: int, node: int
    ) -> Detour | None:
        """Return the path to a node with the min number of corners; None if it is too long."""
        nodes = [node]
        while before[nodes[-1]] < grid.free.size:
            nodes.append(int(before[nodes[-1]]))
        places = [grid.place(n) for n in reversed(nodes)]
        start = places[0]
        end = Pose2(*self._route[row].tolist())
        corners = [start, *_corners(places), (end.x, end.y)]
        poses = self._connected(corners, end)
        if poses is None:
            return None
        length = math.hypot(*start)
        at = start
        for pose in poses:
            length += math.dist(at, pose[:2])
            at = (pose.x, pose.y)
        if length - self._s[row] > self._config.max_detour:
            return None
        return Detour(math.hypot(*start), tuple(poses), row)

    def _connected(self, corners: list[tuple[float, float]], end: Pose2) -> list[Pose2] | None:
        """Return lines between corners, from the first one at heading 0, to the last one."""
        last = len(corners) - 1
        failed: set[tuple[int, int]] = set()

        def from_corner(i: int, came: int, yaw: float) -> list[Pose2] | None:
            here = Pose2(*corners[i], yaw)
            if i == last:
                return [] if self._turns(here, end.yaw) else None
            if (i, came) in failed:
                return None
            for j in range(last, i, -1):
                length = math.dist(corners[i], corners[j])
                bearing = here.bearing(Pose2(*corners[j])) if length > 1e-3 else yaw
                heading = yaw if self._holonomic else bearing
                if not self._turns(here, heading):
                    continue
                along = bearing - heading
                twist = Twist2(math.cos(along), math.sin(along), 0.0)
                if not self._reached(Pose2(here.x, here.y, heading), twist, length):
                    continue
                rest = from_corner(j, i, heading)
                if rest is not None:
                    return [Pose2(*corners[j], heading), *rest]
            failed.add((i, came))
            return None

        poses = from_corner(0, -1, 0.0)
        if poses is None:
            return None
        if self._holonomic:
            return [*poses, end]
        # The base turns to the heading of a line at its start.
        places = [Pose2(*corners[0], 0.0), *poses]
        headings = [*(pose.yaw for pose in poses), end.yaw]
        return [Pose2(p.x, p.y, yaw) for p, yaw in zip(places, headings, strict=True)]


def _corners(places: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points where the direction changes, without the ends."""
    distinct = [p for k, p in enumerate(places) if k == 0 or math.dist(p, places[k - 1]) > 1e-9]
    found = []
    for a, b, c in zip(distinct, distinct[1:], distinct[2:], strict=False):
        if abs((b[0] - a[0]) * (c[1] - b[1]) - (b[1] - a[1]) * (c[0] - b[0])) > 1e-9:
            found.append(b)
    return found
