# SPDX-License-Identifier: Apache-2.0
"""Occupancy map: obstacles seen by depth cameras around a robot, as voxels with ages.

Voxels of objects of the planning scene, which are excluded from the map.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.scene.distance_field import DistanceField
from motion_nodes.core.scene.mesh_distance import signed_distance
from motion_nodes.core.scene.robot_spheres import cover
from motion_nodes.core.scene.scene import Part, WorldObject, checked_pose
from motion_nodes.core.scene.shapes import TriangleMesh, bounding_radius
from motion_nodes.core.scene.voxels import Voxels, voxels
from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.perception.settings import MapSettings
from motion_nodes.typing import Array

_CHUNK = 200_000
"""Max number of voxels per call of the distance functions."""
_NO_SPHERES = np.empty((0, 4))


class KnownObjects:
    """Marks the voxels of objects, recomputed only for objects that changed."""

    def __init__(
        self, settings: MapSettings, excluded: NDArray[np.bool_], origin: NDArray[np.int64]
    ) -> None:
        """Start without objects.

        Args:
            settings: of the map.
            excluded: output, one value for each voxel.
            origin: index of the first voxel, shape (3,), which moves with the region.
        """
        self.settings, self._excluded, self._origin = settings, excluded, origin
        self._known: dict[int, tuple[WorldObject, NDArray[np.int64]]] = {}
        self._X_MW: Array = np.eye(4)
        self._padding = -1.0

    def forget(self) -> None:
        """Recompute all objects when they are set next: the region has moved."""
        self._known, self._padding = {}, -1.0
        self._excluded[:] = False

    def set(self, objects: tuple[WorldObject, ...], X_MW: Array) -> None:
        """Mark the voxels of these objects only.

        Args:
            objects: of the scene.
            X_MW: pose of the scene's frame in the map, shape (4, 4).
        """
        padding = self.settings.object_padding
        if padding != self._padding or not np.array_equal(X_MW, self._X_MW):
            self._known, self._padding, self._X_MW = {}, padding, X_MW.copy()
        elif len(objects) == len(self._known) and all(id(item) in self._known for item in objects):
            return
        self._known = {
            id(item): self._known.get(id(item)) or (item, self._voxels_of(item)) for item in objects
        }
        flat = self._excluded.reshape(-1)
        flat[:] = False
        for _, found in self._known.values():
            flat[found] = True

    def _voxels_of(self, item: WorldObject) -> NDArray[np.int64]:
        """Return the flat indices of an object's voxels."""
        if not item.enabled:
            return np.empty(0, np.int64)
        found = [
            self._voxels_near(part, self._X_MW @ item.X_WO @ part.X_OS)
            for part in item.parts
            if not isinstance(part.solid, Voxels)
        ]
        return np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def _voxels_near(self, part: Part, X_MS: Array) -> NDArray[np.int64]:
        chosen = self.settings
        edge, shape = chosen.resolution, np.array(chosen.shape)
        # A voxel counts by its centre: half a voxel more reaches the points at its faces.
        within = chosen.object_padding + 0.5 * edge
        reach = min(bounding_radius(part.solid), 1e6) + within
        origin = self._origin
        low = np.floor((X_MS[:3, 3] - reach) / edge).astype(np.int64) - origin
        high = np.ceil((X_MS[:3, 3] + reach) / edge).astype(np.int64) - origin
        low, high = np.clip(low, 0, shape), np.clip(high, 0, shape)
        axes = [np.arange(a, b) for a, b in zip(low, high, strict=True)]
        cells = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        X_SM = inverse(X_MS)
        kept = [np.empty(0, np.int64)]
        for start in range(0, len(cells), _CHUNK):
            part_cells = cells[start : start + _CHUNK]
            centres = (part_cells + origin + 0.5) * edge
            near = _distance(part, centres @ X_SM[:3, :3].T + X_SM[:3, 3]) <= within
            kept.append(np.ravel_multi_index(tuple(part_cells[near].T), chosen.shape))
        return np.concatenate(kept)


def _distance(part: Part, points: Array) -> Array:
    """Return distances of points from a shape; of a mesh from the spheres that cover it."""
    if not isinstance(part.solid, TriangleMesh):
        return signed_distance(part.solid, points)[0]
    nearest = np.full(len(points), np.inf)
    for x, y, z, radius in cover(part.solid).spheres:
        offset = points - (x, y, z)
        np.minimum(nearest, np.sqrt((offset**2).sum(axis=1)) - radius, out=nearest)
    return nearest


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
        from motion_nodes.kernels import voxels

        self._kernels = voxels
        self.settings = settings or MapSettings()
        self.revision = 0
        """Increases with each call that may have changed the map."""
        chosen, shape = self.settings, self.settings.shape
        self._grid = voxels.Grid(
            np.array(chosen.origin, np.int64),
            chosen.resolution,
            np.zeros(shape, np.int8),
            np.zeros(shape, np.int32),
            np.zeros(shape, np.uint16),
            np.zeros(shape, np.bool_),
            np.empty((voxels.FACES, voxels.SIDE, voxels.SIDE), np.float32),
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
        self, points: ArrayLike, X_MC: ArrayLike, time: float, spheres: ArrayLike | None = None
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

    @property
    def first(self) -> Array:
        """Centre of the first voxel of the region in the map [m], shape (3,)."""
        return np.asarray((self._grid.origin + 0.5) * self.settings.resolution, np.float64)

    def distance_field(self) -> DistanceField:
        """Return the distances to the occupied voxels everywhere in the region."""
        return DistanceField(self.occupied, self.first, self.settings.resolution)

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
