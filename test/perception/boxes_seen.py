# SPDX-License-Identifier: Apache-2.0
"""Depth images of boxes by exact ray casts, with the faults of real cameras."""

import numpy as np

from motion_nodes.core.scene.depth_camera import DepthProjection, Pinhole
from motion_nodes.extras.perception.occupancy_map import OccupancyMap
from motion_nodes.extras.perception.settings import MapSettings
from motion_nodes.typing import Array

TABLE = np.array([(0.1, -0.6, -0.1), (1.1, 0.6, 0.0)])
"""Min and max corner of a table [m]."""
SETTINGS = MapSettings(region_min=(0.0, -0.8, -0.2), region_max=(1.2, 0.8, 0.8))
"""Settings of a map around the table."""


def camera(width: int = 160, height: int = 120) -> Pinhole:
    """Return a camera with a horizontal field of view of 63 degrees."""
    f = 0.82 * width
    return Pinhole(width, height, f, f, 0.5 * (width - 1), 0.5 * (height - 1))


def looking(eye: tuple[float, float, float], at: tuple[float, float, float]) -> Array:
    """Return the pose of a camera at ``eye`` [m] with z towards a point and x horizontal."""
    z = np.subtract(at, eye)
    z = z / np.linalg.norm(z)
    x = np.cross(z, (0.0, 0.0, 1.0))
    x = x / np.linalg.norm(x) if np.linalg.norm(x) > 1e-9 else np.array([0.0, -1.0, 0.0])
    X = np.eye(4)
    X[:3, :3] = np.column_stack((x, np.cross(z, x), z))
    X[:3, 3] = eye
    return X


EYE = looking((0.2, -0.9, 1.0), (0.6, 0.0, 0.1))
"""Pose of a camera beside the table."""


def depth_of(boxes: Array, X_WC: Array, pinhole: Pinhole) -> Array:
    """Return the depth of the first axis-aligned box along each pixel's ray [m]; inf without one.

    Args:
        boxes: min and max corners, shape (b, 2, 3).
        X_WC: pose of the camera.
        pinhole: its intrinsics.
    """
    rays = DepthProjection(pinhole).rays.astype(float) @ X_WC[:3, :3].T
    nearest = np.full(len(rays), np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        for low, high in boxes:
            a, b = (low - X_WC[:3, 3]) / rays, (high - X_WC[:3, 3]) / rays
            enter, leave = np.minimum(a, b).max(axis=1), np.maximum(a, b).min(axis=1)
            hit = (enter <= leave) & (enter > 0.0)
            nearest[hit] = np.minimum(nearest[hit], enter[hit])
    return nearest.reshape(pinhole.height, pinhole.width)


def seen(made, boxes, X_WC=EYE, count=3, begin=0.0, rng=None, spheres=None, pinhole=None):
    """Add views of boxes to a map at 10 Hz; return the time of the next view [s]."""
    pinhole = pinhole or camera()
    projection = DepthProjection(pinhole)
    for k in range(count):
        depth = depth_of(np.reshape(boxes, (-1, 2, 3)), X_WC, pinhole)
        image = depth if rng is None else with_faults(depth, rng)
        made.add_view(projection.points(image), X_WC, begin + 0.1 * k, spheres)
    return begin + 0.1 * count


def centres(made: OccupancyMap) -> Array:
    """Return the centres of the occupied voxels [m], shape (n, 3)."""
    return (made.cells() + 0.5) * made.settings.resolution


def surface_distance(boxes: Array, points: Array) -> Array:
    """Return the distances of points from the surfaces of boxes, shape (b, 2, 3) [m]."""
    best = np.full(len(points), np.inf)
    for low, high in boxes:
        beyond = np.maximum(low - points, points - high)
        outside = np.linalg.norm(np.maximum(beyond, 0.0), axis=1)
        best = np.minimum(best, np.abs(outside + np.minimum(beyond.max(axis=1), 0.0)))
    return best


def voxel_distance(cells: Array, edge: float, points: Array) -> Array:
    """Return the exact distances of points from the nearest voxel [m]."""
    low, found = cells * edge, np.empty(len(points))
    for k, point in enumerate(points):
        beyond = np.maximum(np.maximum(low - point, point - low - edge), 0.0)
        found[k] = np.sqrt((beyond**2).sum(axis=1).min())
    return found


def points_inside(points: Array, X_WC: Array, low: Array, high: Array) -> Array:
    """Return the points of a camera that are in a region, in the world frame."""
    world = points @ X_WC[:3, :3].T + X_WC[:3, 3]
    return world[np.all((world > low) & (world < high), axis=1)]


def with_faults(
    depth: Array, rng: np.random.Generator, noise: float = 0.002, outliers: float = 0.002,
    missing: float = 0.03,
) -> Array:  # fmt: skip
    """Return depth with noise that grows with its square, outliers and missing pixels (0)."""
    seen, finite = depth.copy(), np.isfinite(depth)
    seen[finite] += noise * depth[finite] ** 2 * rng.normal(size=int(finite.sum()))
    wrong = rng.random(depth.shape) < outliers
    seen[wrong] = rng.uniform(0.2, 2.0, int(wrong.sum()))
    seen[rng.random(depth.shape) < missing] = 0.0
    return seen
