# SPDX-License-Identifier: Apache-2.0
"""Voxels of objects of the planning scene, which are excluded from the map."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motion_nodes.model.poses import inverse
from motion_nodes.perception.map_settings import MapSettings
from motion_nodes.scene.body_spheres import cover
from motion_nodes.scene.scene import Part, WorldObject
from motion_nodes.scene.shapes import TriangleMesh
from motion_nodes.scene.signed_distance import signed_distance
from motion_nodes.scene.solid_types import bounding_radius
from motion_nodes.scene.voxels import Voxels
from motion_nodes.typing import Array

_CHUNK = 200_000
"""Max number of voxels per call of the distance functions."""


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
