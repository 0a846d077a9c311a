# SPDX-License-Identifier: Apache-2.0
"""Paths of a base on a map: on the grid of its cells, or on a lattice of poses of its outline.

The grid is for a disc that turns on the spot: search, shortening, and poses along the result; its
paths are short, straight lines, and found in milliseconds. Without a map the plane is empty, and
the path is a straight line. The lattice is for cars, whose curvature is bounded, and for bases that
are longer than wide, which pass gaps that are too narrow for their disc.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.navigation.base_motion import BaseKind
from motion_nodes.core.navigation.footprint import Footprint
from motion_nodes.core.navigation.planar_geometry import SPACING, Pose2
from motion_nodes.core.navigation.pose_curves import dubins_path
from motion_nodes.core.navigation.pose_lattice import (
    PoseLattice,
    joined,
    motion_primitives,
    shortened,
)
from motion_nodes.core.robot.yaml_schema import read_yaml
from motion_nodes.errors import InvalidDescription, MotionError
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

_ROUNDS = 200
"""Number of iterations of smoothing."""
MOST_CELLS = 25_000_000
"""Max number of cells of a grid."""
MOVES = np.array([(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j], np.int64)
"""Moves between cells: to all eight neighbours."""
FREE, OCCUPIED, UNKNOWN = 0, 100, -1
"""Values of nav_msgs/OccupancyGrid."""


class NoGridPath(MotionError):
    """There is no path; ``why`` is {start, goal}_{outside, occupied} or no_path."""

    def __init__(self, why: str, text: str) -> None:
        super().__init__(text)
        self.why = why


@dataclass(frozen=True, kw_only=True)
class GridPlanConfig:
    """Settings of paths on a grid."""

    tolerance: float = setting(
        0.0, doc="Distance from a goal that is occupied within which the path may end.",
        unit="m", ge=0.0, le=100.0,
    )  # fmt: skip
    inflation_radius: float = setting(
        0.3, doc="Distance from obstacles, beyond the radius of the base, within which a path is "
        "more expensive.", unit="m", ge=0.0, le=10.0,
    )  # fmt: skip
    allow_unknown: bool = setting(True, doc="Whether paths may pass through unknown cells.")
    occupied_from: int = setting(
        65, doc="Occupancy from which a cell is an obstacle.", unit="%", ge=1, le=100
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, eq=False)
class OccupancyGrid:
    """Occupancy of cells of the floor, as in nav_msgs/OccupancyGrid."""

    cells: NDArray[np.int8]
    """0 to 100, or -1 where it is unknown, shape (rows, columns): along y, along x."""
    resolution: float
    """Edge of a cell [m]."""
    origin: Pose2
    """Pose of the corner of cell (0, 0) in the frame of the map."""

    def __post_init__(self) -> None:
        """Validate.

        Raises:
            InvalidDescription: no cells, too many, or a resolution that is not positive.
        """
        if self.cells.ndim != 2 or not 0 < self.cells.size <= MOST_CELLS:
            raise InvalidDescription(
                f"the map has the shape {self.cells.shape}; it needs 1 to {MOST_CELLS} cells"
            )
        if not 0.0 < self.resolution < math.inf or not all(map(math.isfinite, self.origin)):
            raise InvalidDescription(
                f"the map has a resolution of {self.resolution} m and its origin at "
                f"{tuple(self.origin)}; both must be finite, and the resolution above 0"
            )

    def cell(self, point: Pose2) -> tuple[int, int] | None:
        """Return row and column of the cell of a point in the map; None outside."""
        local = self.origin.inverse().compose(point)
        row, column = (math.floor(v / self.resolution) for v in (local.y, local.x))
        inside = 0 <= row < self.cells.shape[0] and 0 <= column < self.cells.shape[1]
        return (row, column) if inside else None

    def centres(self, cells: NDArray[np.int64]) -> Array:
        """Return the centres of cells (row, column) in the map [m], shape (n, 2)."""
        local = (np.asarray(cells, np.float64)[:, ::-1] + 0.5) * self.resolution
        c, s = math.cos(self.origin.yaw), math.sin(self.origin.yaw)
        turned: Array = local @ np.array(((c, s), (-s, c)))
        turned += (self.origin.x, self.origin.y)
        return turned


def grid_from_file(file: Path) -> OccupancyGrid:
    """Return the map of a file of Nav2's map_server.

    Args:
        file: YAML with image (PGM, relative to it), resolution, origin, negate, occupied_thresh and
            free_thresh.

    Raises:
        InvalidDescription: an unreadable file, or an unknown format.
    """
    data = read_yaml(file)
    try:
        image = _pgm((file.parent / str(data["image"])).read_bytes())
        resolution, origin = float(data["resolution"]), [float(v) for v in data["origin"]]
        occupied = float(data.get("occupied_thresh", 0.65))
        free = float(data.get("free_thresh", 0.196))
    except (KeyError, TypeError, ValueError, OSError, IndexError) as error:
        raise InvalidDescription(f"{file}: cannot be read as a map: {error}") from None
    shade = image if data.get("negate") else 1.0 - image
    cells = np.full(shade.shape, UNKNOWN, np.int8)
    cells[shade > occupied], cells[shade < free] = OCCUPIED, FREE
    return OccupancyGrid(cells[::-1].copy(), resolution, Pose2(*origin[:3]))


def _pgm(data: bytes) -> Array:
    """Return the pixels of a PGM image, 0 (black) to 1, shape (rows, columns).

    Raises:
        ValueError: another format.
    """
    words: list[bytes] = []
    at = 0
    while len(words) < 4:
        end = at
        while end < len(data) and not data[end : end + 1].isspace():
            end += 1
        word = data[at:end]
        if word.startswith(b"#"):
            end = data.index(b"\n", at)
        elif word:
            words.append(word)
        at = end + 1
        if at > len(data):
            raise ValueError("the image is not a complete PGM")
    kind, width, height, top = words[0], *map(int, words[1:])
    if kind not in (b"P2", b"P5") or not 0 < width * height <= MOST_CELLS or not 0 < top < 65536:
        raise ValueError("the image is not a PGM (P2 or P5); convert it, e.g. with ImageMagick")
    if kind == b"P2":
        pixels = np.array(data[at:].split()[: width * height], np.float64)
    else:
        pixels = np.frombuffer(data, ">u2" if top > 255 else np.uint8, width * height, at)
    return np.asarray(pixels.reshape(height, width), np.float64) / top


class GridPlanner:
    """Plans paths of a disc on one grid."""

    def __init__(self, grid: OccupancyGrid | None, radius: float, config: GridPlanConfig) -> None:
        """Prepare the weights of the cells.

        Args:
            grid: the map; None: an empty plane.
            radius: of the base [m].
            config: settings.
        """
        self.grid, self.radius, self.config = grid, radius, config

    @cached_property
    def blocked(self) -> NDArray[np.bool_]:
        """Whether each cell is an obstacle, shape (rows, columns)."""
        assert self.grid is not None
        cells = self.grid.cells
        blocked = cells >= self.config.occupied_from
        return blocked if self.config.allow_unknown else blocked | (cells < 0)

    @cached_property
    def _clearance(self) -> Array:
        """Distance of each cell from the nearest obstacle [m], shape (rows, columns)."""
        from scipy.ndimage import distance_transform_edt

        assert self.grid is not None
        if not self.blocked.any():
            return np.full(self.blocked.shape, np.inf)
        return np.asarray(distance_transform_edt(~self.blocked)) * self.grid.resolution

    def cell_costs(self, radius: float) -> Array:
        """Return the cost of each cell per length, for a disc that may be there, (rows, columns).

        Args:
            radius: of the disc [m].
        """
        assert self.grid is not None
        margin = max(self.config.inflation_radius, 1e-9)
        near = np.clip(1.0 - np.minimum(self._room(radius), margin) / margin, 0.0, 1.0)
        return np.asarray(1.0 + 5.0 * near**2 + (self.grid.cells < 0))

    @cached_property
    def weight(self) -> NDArray[np.float32]:
        """Cost of each cell per length, infinite where the base would collide, (rows, columns)."""
        weight = self.cell_costs(self.radius)
        weight[self._room(self.radius) <= 0.0] = np.inf
        return weight.astype(np.float32)

    def _room(self, radius: float) -> Array:
        """Return the distance of a disc from obstacles, each of which fills its cell [m]."""
        assert self.grid is not None
        return self._clearance - radius - 0.5 * self.grid.resolution

    def plan(self, start: Pose2, goal: Pose2) -> Array:
        """Return a path as rows of x, y, yaw [m, m, rad], shape (n, 3).

        The heading is that of the path, and at the end that of the goal.

        Args:
            start: pose of the base in the map.
            goal: goal in the map.

        Raises:
            NoGridPath: there is none.
        """
        if self.grid is None:
            return _poses(np.array(((start.x, start.y), (goal.x, goal.y))), goal.yaw)
        first = self._free_cell(self.grid, "start", start, 0.0)
        last = self._free_cell(self.grid, "goal", goal, self.config.tolerance)
        # Imported on demand: Numba takes a quarter of a second to import.
        from motion_nodes.kernels.search.a_star import shortest

        columns = self.grid.cells.shape[1]
        found = shortest(
            self.weight, MOVES, first[0] * columns + first[1], last[0] * columns + last[1]
        )
        if not len(found):
            raise NoGridPath(
                "no_path",
                f"no path leads from ({start.x:.2f}, {start.y:.2f}) to ({goal.x:.2f}, "
                f"{goal.y:.2f}) m in the map for a base of radius {self.radius:.2f} m",
            )
        corners = self._shortened(np.column_stack(np.divmod(found, columns)))
        points = self.grid.centres(corners)
        points[0] = start.x, start.y
        if self.grid.cell(goal) == last:
            points[-1] = goal.x, goal.y
        return _poses(points, goal.yaw)

    def _free_cell(
        self, grid: OccupancyGrid, what: str, pose: Pose2, tolerance: float
    ) -> tuple[int, int]:
        """Return the cell of a pose, or the nearest free one within a tolerance [m].

        Raises:
            NoGridPath: outside of the map, or occupied.
        """
        cell = grid.cell(pose)
        where = f"the {what} ({pose.x:.2f}, {pose.y:.2f}) m"
        if cell is None:
            raise NoGridPath(f"{what}_outside", f"{where} is outside of the map")
        if self.weight[cell] < np.inf:
            return cell
        reach = math.floor(tolerance / grid.resolution)
        low = [max(v - reach, 0) for v in cell]
        free = np.argwhere(
            self.weight[low[0] : cell[0] + reach + 1, low[1] : cell[1] + reach + 1] < np.inf
        ) + np.array(low)
        away = np.hypot(*(free - np.array(cell)).T) if len(free) else np.empty(0)
        if not len(free) or away.min() * grid.resolution > tolerance:
            raise NoGridPath(
                f"{what}_occupied",
                f"{where} is occupied, or closer to an obstacle than the radius of the base, "
                f"{self.radius:.2f} m",
            )
        row, column = free[int(away.argmin())].tolist()
        return row, column

    def _shortened(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the corners of a path of cells, straight where that is not more expensive."""
        kept, anchor = [0], 0
        length = np.hypot(*np.diff(cells, axis=0).T)
        weights = self.weight[cells[:, 0], cells[:, 1]]
        cost = np.concatenate(([0.0], np.cumsum(0.5 * length * (weights[1:] + weights[:-1]))))
        for k in range(2, len(cells)):
            line = self._line_cost(cells[anchor], cells[k])
            if line > cost[k] - cost[anchor] + 1e-6:
                kept.append(k - 1)
                anchor = k - 1
        return cells[[*kept, len(cells) - 1]]

    def _line_cost(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
        """Return the cost of the straight line between two cells, sampled twice per cell."""
        length = float(np.hypot(*(b - a)))
        shares = np.linspace(0.0, 1.0, 2 * math.ceil(length) + 1)[:, None]
        rows, columns = np.rint(a + shares * (b - a)).astype(int).T
        return length * float(self.weight[rows, columns].mean())

    def collides(self, path: Array) -> bool:
        """Return whether a path in the map, shape (n, 3), touches an obstacle or leaves the map."""
        if self.grid is None:
            return False
        points = _poses(path[:, :2], 0.0)
        cells = [self.grid.cell(Pose2(*row)) for row in points.tolist()]
        return any(cell is None or not self.weight[cell] < np.inf for cell in cells)


def smoothed(path: Array) -> Array:
    """Return a path with its corners rounded; ends and spacing are kept, shape (n, 3).

    Each inner point is drawn to the middle of its neighbours and back to where it was, with the
    weights of Nav2's simple smoother (0.3 and 0.2).

    Args:
        path: rows of x, y, yaw [m, m, rad], shape (n, 3).
    """
    points, given = path[:, :2].copy(), path[:, :2]
    for _ in range(_ROUNDS if len(points) > 2 else 0):
        middle = 0.5 * (points[:-2] + points[2:])
        pull = 0.6 * (middle - points[1:-1]) + 0.2 * (given[1:-1] - points[1:-1])
        points[1:-1] += pull
    rows = np.column_stack((points, path[:, 2]))
    steps = np.diff(points, axis=0)
    rows[:-1, 2] = np.arctan2(steps[:, 1], steps[:, 0])
    return rows


def _poses(points: Array, yaw: float) -> Array:
    """Return poses along a polyline, shape (n, 3), evenly spaced on each line.

    Args:
        points: corners [m], shape (k, 2).
        yaw: heading at the end [rad].
    """
    rows = [np.array((*points[0], yaw))]
    for a, b in itertools.pairwise(points):
        length = float(np.hypot(*(b - a)))
        if length < 1e-9:
            continue
        heading = math.atan2(b[1] - a[1], b[0] - a[0])
        rows[-1][2] = heading
        for share in np.linspace(0.0, 1.0, math.ceil(length / SPACING) + 1)[1:].tolist():
            rows.append(np.array((*(a + share * (b - a)), heading)))
    rows[-1][2] = yaw
    return np.array(rows)


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
