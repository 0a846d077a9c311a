# SPDX-License-Identifier: Apache-2.0
"""The plane that objects stand on, in a point cloud: RANSAC, then least squares."""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.perception.detector_settings import DetectorSettings
from motion_nodes.typing import Array

CANDIDATES = 200
"""Number of planes through three random points."""
SAMPLES = 3000
"""Max number of points by which they are compared."""
MIN_SHARE = 0.1
"""Min fraction of the points in a supporting plane."""


def support_plane(points: Array, settings: DetectorSettings) -> Array | None:
    """Return the frame of the nearly horizontal plane with most points.

    Args:
        points: in a frame with z upwards [m], shape (n, 3).
        settings: tolerance and tilt; a given height replaces the search.

    Returns:
        Pose of a frame in the plane with z along its normal, shape (4, 4); None without a plane.
    """
    if not math.isnan(settings.support_height):
        return _frame(np.array((0.0, 0.0, settings.support_height)))
    if len(points) < settings.min_points:
        return None
    rng = np.random.default_rng(0)
    sample = points[rng.permutation(len(points))[:SAMPLES]]
    corners = sample[rng.integers(0, len(sample), (CANDIDATES, 3))]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1)
    level = np.abs(normals[:, 2]) >= math.cos(settings.plane_tilt) * lengths
    usable = level & (lengths > 1e-9)
    if not usable.any():
        return None
    normals, corners = normals[usable], corners[usable]
    normals = normals / normals[:, 2:]
    # z = c - a x - b y
    planes = np.column_stack((normals[:, :2], (normals * corners[:, 0]).sum(axis=1)))
    heights = sample[:, 2:] + sample[:, :2] @ planes[:, :2].T - planes[:, 2]
    counts = (np.abs(heights) <= settings.plane_tolerance).sum(axis=0)
    plane = planes[int(np.argmax(counts))]
    for _ in range(3):
        near = np.abs(_height(points, plane)) <= settings.plane_tolerance
        if near.sum() < max(settings.min_points, MIN_SHARE * len(points)):
            return None
        chosen = points[near]
        centre = chosen.mean(axis=0)
        local = chosen - centre
        slope = np.linalg.lstsq(local[:, :2].T @ local[:, :2], local[:, :2].T @ local[:, 2])[0]
        plane = np.array((-slope[0], -slope[1], centre[2] - slope @ centre[:2]))
    if math.hypot(plane[0], plane[1]) > math.tan(settings.plane_tilt):
        return None
    return _frame(plane)


def _height(points: Array, plane: Array) -> Array:
    return np.asarray(points[:, 2] + points[:, :2] @ plane[:2] - plane[2])


def _frame(plane: Array) -> Array:
    """Return the frame of a plane z = c - a x - b y, given as (a, b, c), shape (4, 4)."""
    normal = np.array((plane[0], plane[1], 1.0))
    normal = normal / np.linalg.norm(normal)
    x = np.array((1.0, 0.0, -plane[0]))
    x = x / np.linalg.norm(x)
    X = np.eye(4)
    X[:3, :3] = np.column_stack((x, np.cross(normal, x), normal))
    X[2, 3] = plane[2]
    return X
