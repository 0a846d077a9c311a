# SPDX-License-Identifier: Apache-2.0
"""Occupancy map: obstacles seen by depth cameras around a robot, as voxels with ages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.errors import InvalidCommand
from motion_nodes.perception.distance_field import DistanceField
from motion_nodes.perception.known_objects import KnownObjects
from motion_nodes.perception.map_settings import MapSettings
from motion_nodes.scene.scene import WorldObject, checked_pose
from motion_nodes.scene.voxels import Voxels, voxels
from motion_nodes.typing import Array

_NO_SPHERES = np.empty((0, 4))


@dataclass(frozen=True)
class ViewResult:
    """Statistics of a view."""

    points: int
    """Points, valid or not."""
    valid: int
    """Finite points in range."""
    inside: int
    """Points inside the region."""


class OccupancyMap:
    """Voxels that cameras observe as occupied; not thread-safe.

    Memory is allocated once for the whole region. A voxel is occupied after some views with points
    in it. It is free again when views see through it, when it stays without hits though it is in
    view, or by its age. Points on the robot, on its load and on known objects are never mapped.
    """

    def __init__(self, settings: MapSettings | None = None) -> None:
        """Allocate the map; the first map of a process loads compiled code."""
        # Imported on demand: Numba takes a quarter of a second to import.
        from motion_nodes.kernels.voxels import occupancy

        self._kernels = occupancy
        self.settings = settings or MapSettings()
        self.revision = 0
        """Increases with each call that may have changed the map."""
        chosen, shape = self.settings, self.settings.shape
        self._grid = occupancy.Grid(
            np.array(chosen.origin, np.int64),
            chosen.resolution,
            np.zeros(shape, np.int8),
            np.zeros(shape, np.int32),
            np.zeros(shape, np.uint16),
            np.zeros(shape, np.bool_),
            np.empty((occupancy.FACES, occupancy.SIDE, occupancy.SIDE), np.float32),
        )
        self._known = KnownObjects(chosen, self._grid.excluded, self._grid.origin)
        self._epoch: float | None = None

    def configure(self, settings: MapSettings) -> bool:
        """Change rules; return False if the region or resolution differs, which needs a new map."""
        same = (settings.origin, settings.shape, settings.resolution) == (
            self.settings.origin, self.settings.shape, self.settings.resolution,
        )  # fmt: skip
        if same:
            self.settings = settings
            self._known.settings = settings
        return same

    def set_known_objects(self, objects: Iterable[WorldObject], X_MW: Array | None = None) -> None:
        """Set the objects that are in the planning scene already; they are not mapped.

        Args:
            objects: of the scene.
            X_MW: pose of the scene's frame in the map, shape (4, 4); default: identity.
        """
        self._known.set(tuple(objects), np.eye(4) if X_MW is None else X_MW)

    def shift(self, offset: ArrayLike) -> bool:
        """Move the region, keeping the voxels that remain in it; return whether it moved.

        Args:
            offset: of the region from that of the settings, in the map [m], shape (3,); rounded to
                whole voxels.
        """
        steps = np.round(np.asarray(offset, np.float64) / self.settings.resolution).astype(np.int64)
        moved = np.asarray(self.settings.origin, np.int64) + steps - self._grid.origin
        if not moved.any():
            return False
        for values in (self._grid.evidence, self._grid.seen):
            kept = np.zeros_like(values)
            if (np.abs(moved) < values.shape).all():
                there = tuple(slice(max(m, 0), n + min(m, 0)) for m, n in
                              zip(moved, values.shape, strict=True))  # fmt: skip
                here = tuple(slice(max(-m, 0), n - max(m, 0)) for m, n in
                             zip(moved, values.shape, strict=True))  # fmt: skip
                kept[here] = values[there]
            values[:] = kept
        self._grid.origin[:] += moved
        self._known.forget()
        self.revision += 1
        return True

    def add_view(
        self,
        points: ArrayLike,
        X_MC: ArrayLike,
        time: float,
        spheres: ArrayLike | None = None,
    ) -> ViewResult:
        """Add a view of a camera or scanner.

        Args:
            points: in the frame of the sensor, whose origin is the sensor [m], shape (n, 3);
                points that are not finite are ignored, those beyond ``max_range`` are free space.
            X_MC: pose of the sensor in the map, shape (4, 4).
            time: of the view [s], on any clock.
            spheres: of the robot and its load in the map at that time, centre and radius [m],
                shape (s, 4). Occupied voxels within ``robot_padding`` of them are kept.

        Raises:
            InvalidCommand: an invalid pose, time or shape; the map is unchanged.
        """
        X = checked_pose(np.asarray(X_MC, np.float64), "pose of the camera")
        cloud = np.asarray(points, dtype=np.float32)
        if cloud.ndim != 2 or cloud.shape[1] != 3:
            raise InvalidCommand(f"points have the shape {cloud.shape}; it must be (n, 3).")
        own = np.array(_NO_SPHERES if spheres is None else spheres, np.float64).reshape(-1, 4)
        now = self._milliseconds(time)
        chosen = self.settings
        own = own[np.isfinite(own).all(axis=1)]
        step = max(1, -(-len(cloud) // chosen.max_points))
        valid, inside = self._kernels.add_points(
            self._grid, cloud, step, X, chosen.min_range, chosen.max_range
        )
        rules = self._kernels.ViewRules(
            chosen.min_points,
            2 * chosen.confirmations,
            chosen.clearing_margin * chosen.resolution,
            round(1e3 * chosen.unconfirmed_time),
            chosen.confirmations,
            chosen.robot_padding,
        )
        self._kernels.end_view(self._grid, X, own, now, rules)
        self.revision += 1
        return ViewResult(len(cloud), valid, inside)

    def elapse(self, time: float, decay_time: float | None = None) -> None:
        """Remove old voxels.

        Args:
            time: as of the views [s].
            decay_time: age above which they are removed, 0: never; default: the setting [s].
        """
        age = self.settings.decay_time if decay_time is None else decay_time
        if age > 0.0:
            self._kernels.expire(self._grid, self._milliseconds(time) - round(1e3 * age))
            self.revision += 1

    def clear(self) -> None:
        """Make all voxels unknown."""
        self._grid.evidence[:] = 0
        self.revision += 1

    @property
    def occupied(self) -> NDArray[np.bool_]:
        """Whether each voxel of the region is occupied, shape (nx, ny, nz)."""
        return self._grid.evidence >= self.settings.confirmations

    def cells(self) -> NDArray[np.int64]:
        """Return the indices of the occupied voxels, shape (k, 3)."""
        return np.argwhere(self.occupied) + self._grid.origin

    def voxels(self) -> Voxels | None:
        """Return the occupied voxels as a solid in the map's frame; None if there are none."""
        cells = self.cells()
        return voxels(self.settings.resolution, cells) if len(cells) else None

    def ages(self, time: float) -> Array:
        """Return the time since the last hit of each occupied voxel [s], as ``cells``, (k,)."""
        seen = self._grid.seen[self.occupied]
        return np.asarray(1e-3 * (self._milliseconds(time) - seen))

    def distance_field(self) -> DistanceField:
        """Return the distances to the occupied voxels everywhere in the region."""
        first = np.asarray((self._grid.origin + 0.5) * self.settings.resolution, np.float64)
        return DistanceField(self.occupied, first, self.settings.resolution)

    def _milliseconds(self, time: float) -> int:
        """Return a time since the first view [ms], within 32 bits."""
        if not np.isfinite(time):
            raise InvalidCommand(f"the time of a view is {time}; it must be a finite number.")
        if self._epoch is None:
            self._epoch = time
        since = round(1e3 * (time - self._epoch))
        if not -(2**30) < since < 2**30:
            # Another clock, or twelve days: ages are reset.
            self._epoch, since = time, 0
            self._grid.seen[:] = 0
        return since
