# SPDX-License-Identifier: Apache-2.0
"""Paths of a base on an occupancy grid: search, shortening, and poses along the result.

The base is a disc here, which turns on the spot; for others see :mod:`map_planner`. Without a grid
the plane is empty, and the path is a straight line.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.navigation.planar_geometry import SPACING, Pose2
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
        """Create with a kind and its description."""
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
        """Validate the numbers."""
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
        from motion_nodes.kernels.search.pose_lattice import shortest

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
