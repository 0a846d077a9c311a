# SPDX-License-Identifier: Apache-2.0
"""Paths of a base on a map: on the grid of its cells, or on a lattice of poses of its outline.

The grid is for a disc that turns on the spot; its paths are short, straight lines, and found in
milliseconds. The lattice is for cars, whose curvature is bounded, and for bases that are longer
than wide, which pass gaps that are too narrow for their disc.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from motion_nodes.core.navigation.footprint import Footprint
from motion_nodes.core.navigation.grid_plan import (
    GridPlanConfig,
    GridPlanner,
    NoGridPath,
    OccupancyGrid,
)
from motion_nodes.core.navigation.motion_limits import BaseKind
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.navigation.pose_curves import dubins_path
from motion_nodes.core.navigation.pose_lattice import (
    PoseLattice,
    joined,
    motion_primitives,
    shortened,
)
from motion_nodes.typing import Array

METHODS = ("grid", "lattice")
MOST_POSES = 4_000_000
"""Max number of poses of a lattice; cells are merged beyond it."""
CELL = 0.1
"""Desired edge of a lattice's cells, of cars a sixth of the turning radius if that is less [m]."""
TURN = 0.3
"""Cost of turns on the spot, as a distance [m/rad]."""


@dataclass(frozen=True, eq=False)
class PlannedBase:
    """What paths on a map must respect."""

    kind: BaseKind
    footprint: Footprint
    radius: float = 0.0
    """Turning radius of a car [m]."""
    reversing: bool = False
    """Whether a car may drive in reverse."""


class LatticePlanner:
    """Plans on the lattice of poses of one map."""

    def __init__(self, costs: GridPlanner, base: PlannedBase) -> None:
        """Create the planner; the lattice is made when it is needed.

        Args:
            costs: planner of the same map, with the costs of its cells.
            base: the base.
        """
        assert costs.grid is not None
        self._costs, self._base, self._grid = costs, base, costs.grid

    @cached_property
    def lattice(self) -> PoseLattice:
        """The lattice, in the axes of the map's cells."""
        grid, base = self._grid, self._base
        desired = min(CELL, base.radius / 6.0) if base.kind == "ackermann" else CELL
        merged = max(1, round(desired / grid.resolution))
        while 16 * math.prod(-(-n // merged) for n in grid.cells.shape) > MOST_POSES:
            merged += 1
        cell = merged * grid.resolution
        weight = self._costs.cell_costs(self._half_width)
        wide = [(0, -n % merged) for n in weight.shape]
        rows, columns = (
            (n + more) // merged for n, (_, more) in zip(weight.shape, wide, strict=True)
        )
        blocks = np.pad(weight, wide, mode="edge").reshape(rows, merged, columns, merged)
        primitives = motion_primitives(
            base.kind, radius=base.radius / cell, turn_cost=TURN / cell, reversing=base.reversing
        )
        lattice = PoseLattice(primitives, cell, np.full(2, 0.5 * cell), (columns, rows))
        blocked = np.argwhere(self._costs.blocked)[:, ::-1]
        points = np.asarray((blocked + 0.5) * grid.resolution, np.float64)
        lattice.block(base.footprint, points, 0.0)
        lattice.weight *= blocks.max(axis=(1, 3)).T.astype(np.float32)
        return lattice

    def plan(self, start: Pose2, goal: Pose2) -> Array:
        """Return a path as rows of x, y, yaw [m, m, rad], shape (n, 3).

        The heading is that of the base: of a car against the path where it reverses.

        Args:
            start: pose of the base in the map.
            goal: goal in the map.

        Raises:
            NoGridPath: there is none.
        """
        lattice, (begin, end) = self.lattice, self._local((start, goal))
        first = self._free_node("start", begin, 0.0)
        last = self._free_node("goal", end, self._costs.config.tolerance)
        costs, before, by = lattice.search(np.array(((first, 0.0),)), np.array((last,)))
        if not math.isfinite(costs[last]):
            raise NoGridPath(
                "no_path",
                f"no path leads from ({start.x:.2f}, {start.y:.2f}) to ({goal.x:.2f}, "
                f"{goal.y:.2f}) m in the map for the outline of the base",
            )
        rows = lattice.path(last, before, by)[1]
        near = lattice.pose(last).distance(end) <= lattice.cell
        return self._in_map(self._with_ends(rows, begin, end if near else lattice.pose(last)))

    def collides(self, path: Array) -> bool:
        """Return whether poses in the map, shape (n, 3), touch an obstacle or leave the map."""
        poses = np.array(self._local([Pose2(*row) for row in path.tolist()]))
        return not np.isfinite(self.lattice.weights_at(poses)).all()

    @property
    def _half_width(self) -> float:
        return 0.5 * float(np.ptp(self._base.footprint.corners, axis=0).min())

    def _local(self, poses: Sequence[Pose2]) -> list[Pose2]:
        """Return poses of the map in the axes of its cells."""
        inverse = self._grid.origin.inverse()
        return [inverse.compose(pose) for pose in poses]

    def _in_map(self, rows: Array) -> Array:
        origin = self._grid.origin
        c, s = math.cos(origin.yaw), math.sin(origin.yaw)
        xy = rows[:, :2] @ np.array(((c, s), (-s, c))) + (origin.x, origin.y)
        return np.column_stack((xy, rows[:, 2] + origin.yaw))

    def _free_node(self, what: str, pose: Pose2, tolerance: float) -> int:
        """Return the free node that is closest to a pose, in cells beside it or within a tolerance.

        Raises:
            NoGridPath: outside of the map, or occupied.
        """
        lattice = self.lattice
        where = "the {} ({:.2f}, {:.2f}) m".format(what, *self._in_map(np.array((pose,)))[0, :2])
        size = lattice.cell * np.array(lattice.shape)
        if not (0.0 <= pose.x < size[0] and 0.0 <= pose.y < size[1]):
            raise NoGridPath(f"{what}_outside", f"{where} is outside of the map")
        reach = max(1, math.floor(tolerance / lattice.cell))
        steps = lattice.cell * np.arange(-reach, reach + 1)
        turn = math.tau / len(lattice.primitives.headings)
        around = itertools.product(steps.tolist(), steps.tolist(), (0.0, turn, -turn))
        found: list[tuple[float, int]] = []
        for x, y, yaw in around:
            away = math.hypot(x, y)
            node = lattice.node(Pose2(pose.x + x, pose.y + y, pose.yaw + yaw))
            if node is not None and away <= max(tolerance, 1.5 * lattice.cell):
                found.append((away + 0.5 * lattice.cell * abs(yaw), node))
        if not found:
            raise NoGridPath(
                f"{what}_occupied",
                f"{where} is occupied, or too close to an obstacle for the outline of the base",
            )
        return min(found)[1]

    def _with_ends(self, rows: Array, start: Pose2, end: Pose2) -> Array:
        """Return a path of the lattice from and to exact poses."""
        base, half = self._base, np.array((0.0, 0.0, math.pi))
        if base.kind != "ackermann":
            return np.concatenate((np.array((start,)), rows, np.array((end,))))

        def clear(poses: Array) -> bool:
            return bool(np.isfinite(self.lattice.weights_at(poses)).all())

        if len(rows) < 2:
            if start.distance(end) < 1e-3:
                return np.array((start, end))
            return dubins_path(start, end, base.radius).poses()
        ended = joined(rows, end, base.radius, clear)
        rows = ended if ended is not None else np.concatenate((rows[:-1], np.array((end,))))
        behind = Pose2(start.x, start.y, start.yaw + math.pi)
        begun = joined(rows[::-1] + half, behind, base.radius, lambda rows: clear(rows + half))
        if begun is not None:
            rows = begun[::-1] - half
        else:
            rows = np.concatenate((np.array((start,)), rows[1:]))
        return shortened(rows, base.radius, self.lattice)


class MapPlanner:
    """Plans on one map by the method that suits the base."""

    def __init__(
        self, grid: OccupancyGrid | None, base: PlannedBase, config: GridPlanConfig
    ) -> None:
        """Create the planner.

        Args:
            grid: the map; None: an empty plane.
            base: the base.
            config: settings.
        """
        self.grid, self.base, self.config = grid, base, config
        self.by_cells = GridPlanner(grid, base.footprint.radius, config)
        self.by_poses = LatticePlanner(self.by_cells, base) if grid is not None else None

    def plan(self, start: Pose2, goal: Pose2, method: str = "") -> Array:
        """Return a path as rows of x, y, yaw [m, m, rad], shape (n, 3).

        Args:
            start: pose of the base in the map.
            goal: goal in the map.
            method: one of :data:`METHODS`; empty: the lattice for cars, for others the grid, and
                the lattice if that finds none.

        Raises:
            NoGridPath: there is none.
        """
        car = self.base.kind == "ackermann"
        if self.by_poses is None or method == "grid":
            return self.by_cells.plan(start, goal)
        if method == "lattice" or car:
            return self.by_poses.plan(start, goal)
        try:
            return self.by_cells.plan(start, goal)
        except NoGridPath as error:
            try:
                return self.by_poses.plan(start, goal)
            except NoGridPath:
                raise error from None

    def collides(self, path: Array) -> bool:
        """Return whether a path in the map, shape (n, 3), touches an obstacle or leaves the map."""
        if self.by_poses is not None and self.base.kind == "ackermann":
            return self.by_poses.collides(path)
        return self.by_cells.collides(path)

    def prepare(self) -> None:
        """Make what paths need, and compile or load the kernels."""
        grid = self.grid
        if grid is None:
            return
        free = np.argwhere(self.by_cells.weight < np.inf)
        if len(free):
            x, y = grid.centres(free[:1])[0].tolist()
            try:
                self.plan(Pose2(x, y), Pose2(x, y))
            except NoGridPath:
                return
