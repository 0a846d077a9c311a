# SPDX-License-Identifier: Apache-2.0
"""Objects in point clouds: support plane, clusters above it, a shape for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import ConvexHull, QhullError

from motion_nodes.errors import InvalidCommand
from motion_nodes.perception.detector_settings import DetectorSettings
from motion_nodes.perception.point_clusters import clusters
from motion_nodes.perception.shape_fits import Shape, extents, fit_shape
from motion_nodes.perception.support_plane import support_plane
from motion_nodes.typing import Array

LEVELS = 3
"""Number of heights that are tried as the top of an object with others on it."""
SHIFTS = 100
"""Max number of corrections of such a height."""
ON_TOP = 0.9
"""Fraction of the points above such a top that must be over it."""
_CHUNK = 20_000
"""Number of points whose distances from all spheres are computed at once."""
STACKED = 4
"""Max number of objects on top of each other."""


@dataclass(frozen=True, eq=False)
class Detection:
    """An object that was found in a cloud."""

    shape: Shape
    X_WO: Array
    """Pose of its centre in the frame of the cloud, shape (4, 4)."""
    points: int
    """Number of its points."""
    error: float
    """Root mean square of their distances from its surface [m]."""
    color: str = ""
    """Name of its color; empty if no color image shows it."""


def points_on(found: Detection, points: ArrayLike, margin: float = 0.006) -> NDArray[np.bool_]:
    """Return which points belong to an object.

    Args:
        found: the object.
        points: in the same frame [m], shape (n, 3); NaN belongs to none.
        margin: distance from its bounding box [m]; half of it is left out at the bottom, where
            points are those of the plane.
    """
    local = (np.asarray(points, np.float64) - found.X_WO[:3, 3]) @ found.X_WO[:3, :3]
    half = 0.5 * extents(found.shape) + margin
    inside = (np.abs(local) <= half).all(axis=1)
    above = np.asarray(points, np.float64)[:, 2] - found.X_WO[2, 3]
    low = np.abs(found.X_WO[2, :3]) @ (0.5 * extents(found.shape))
    return np.asarray(inside & (above >= margin - low), np.bool_)


class ObjectDetector:
    """Detects the objects on a horizontal plane."""

    def __init__(self, settings: DetectorSettings | None = None) -> None:
        """Create it with settings."""
        self.settings = settings or DetectorSettings()
        self.reason = ""
        """Reason why no object was detected in the last cloud; empty if any was."""

    def relevant(self, points: ArrayLike, without: ArrayLike | None = None) -> Array:
        """Return the points in the region, shape (m, 3).

        Args:
            points: in a frame with z upwards [m], shape (n, 3); those that are not finite are
                ignored.
            without: spheres whose points are ignored, such as those of the robot: centre and radius
                [m], shape (s, 4).

        Raises:
            InvalidCommand: points or spheres of another shape.
        """
        cloud = np.asarray(points, np.float64)
        if cloud.ndim != 2 or cloud.shape[1] != 3:
            raise InvalidCommand(f"points have the shape {cloud.shape}; (n, 3) is needed")
        chosen = self.settings
        cloud = cloud[:: max(1, -(-len(cloud) // chosen.max_points))]
        # NaN is in no region.
        inside = (cloud >= chosen.region_min) & (cloud <= chosen.region_max)
        return _outside(cloud[inside.all(axis=1)], without)

    def detect(self, points: ArrayLike, without: ArrayLike | None = None) -> list[Detection]:
        """Return the objects in a cloud, those with most points first.

        Arguments and errors are those of :meth:`relevant`.
        """
        chosen, cloud = self.settings, self.relevant(points, without)
        if len(cloud) < chosen.min_points:
            self.reason = f"only {len(cloud)} points are within the region"
            return []
        X_WP = support_plane(cloud, chosen)
        if X_WP is None:
            self.reason = "there is no horizontal plane with enough points"
            return []
        local = (cloud - X_WP[:3, 3]) @ X_WP[:3, :3]
        above = local[local[:, 2] > chosen.min_height]
        found = sorted(self._objects(above, X_WP), key=lambda each: -each.points)
        self.reason = "" if found else "there are no points above the plane"
        return found

    # ---- inside

    def _objects(self, above: Array, X_WP: Array, depth: int = 0) -> Iterator[Detection]:
        """Yield the objects on a plane.

        Args:
            above: points over it, in its frame [m], shape (n, 3).
            X_WP: pose of its frame, shape (4, 4).
            depth: number of objects below it.
        """
        chosen = self.settings
        for index in clusters(above, chosen.cluster_distance):
            if len(index) < chosen.min_points:
                return
            part = above[index]
            top = self._top_with_more(part) if depth < STACKED else None
            if top is None:
                yield from self._fitted(part, X_WP)
                continue
            high = part[:, 2] > top + chosen.min_height
            yield from self._fitted(part[~high], X_WP)
            X_WT = np.array(X_WP)
            X_WT[:3, 3] += top * X_WP[:3, 2]
            yield from self._objects(part[high] - (0.0, 0.0, top), X_WT, depth + 1)

    def _fitted(self, points: Array, X_WP: Array) -> Iterator[Detection]:
        fit = fit_shape(points)
        if fit is not None and extents(fit.shape).max() <= self.settings.max_size:
            yield Detection(fit.shape, X_WP @ fit.X_PO, len(points), fit.error)

    def _top_with_more(self, points: Array) -> float | None:
        """Return the height of a horizontal top in a cluster that carries other objects [m]."""
        chosen, z = self.settings, points[:, 2]
        edges = np.arange(z.min(), z.max() + chosen.plane_tolerance, chosen.plane_tolerance)
        counts, _ = np.histogram(z, edges) if len(edges) > 1 else (np.zeros(0, int), None)
        for k in np.argsort(counts)[::-1][:LEVELS].tolist():
            if counts[k] < chosen.min_points:
                break
            level = float(np.median(z[(z >= edges[k]) & (z <= edges[k + 1])]))
            # A bin may begin within the noise of a plane; its middle is used.
            for _ in range(SHIFTS):
                before = level
                level = float(np.median(z[np.abs(z - level) <= chosen.plane_tolerance]))
                if abs(level - before) < 1e-6:
                    break
            over = points[z > level + chosen.min_height, :2]
            if len(over) < chosen.min_points:
                continue
            try:
                hull = ConvexHull(points[np.abs(z - level) <= chosen.plane_tolerance, :2])
            except QhullError:
                continue
            normals, offsets = hull.equations[:, :2], hull.equations[:, 2]
            covered = (over @ normals.T + offsets <= 1e-3).all(axis=1)
            # In a plane, the volume of a hull is its area.
            if hull.volume >= chosen.min_support and covered.mean() >= ON_TOP:
                return level
        return None


def _outside(points: Array, spheres: ArrayLike | None) -> Array:
    """Return the points outside of spheres.

    Raises:
        InvalidCommand: spheres of another shape than (s, 4).
    """
    if spheres is None:
        return points
    given = np.asarray(spheres, np.float64)
    if given.ndim != 2 or given.shape[1] != 4:
        raise InvalidCommand(f"spheres have the shape {given.shape}; (s, 4) is needed")
    low, high = given[:, :3] - given[:, 3:], given[:, :3] + given[:, 3:]
    if not len(given):
        return points
    close = ((points >= low.min(axis=0)) & (points <= high.max(axis=0))).all(axis=1)
    near, kept = points[close], np.ones(len(points), bool)
    centres, beyond = given[:, :3], (given[:, :3] ** 2).sum(axis=1) - given[:, 3] ** 2
    outside = [
        ((part**2).sum(axis=1)[:, None] - 2.0 * part @ centres.T + beyond > 0.0).all(axis=1)
        for part in np.array_split(near, 1 + len(near) // _CHUNK)
    ]
    kept[close] = np.concatenate(outside)
    return points[kept]
