# SPDX-License-Identifier: Apache-2.0
"""Boxes, upright cylinders and spheres fitted to points that are seen from one side.

A camera sees the top and the near sides of an object that stands on a plane; its bottom is the
plane. Points are centres of pixels; noise moves the outer ones about as far outwards as the object
reaches beyond them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.tree import Box, Cylinder, Sphere
from motion_nodes.perception.point_clusters import spacing
from motion_nodes.typing import Array

Shape = Box | Cylinder | Sphere

TOP = 0.008
"""Points this far below the highest ones belong to the top [m]."""
ROUND_SIDES = 0.75
"""Min ratio of the sides of a rectangle around a circle."""
CORNERS, CORNER_SHARE = 1.05, 0.08
"""Where the corners of a square begin (square of the distance from its centre, of half a side), and
the fraction of points there from which it is not that of a circle."""
FRINGE = 0.5
"""Spacing of points by which the square is wider than they are."""
SPHERE_GAIN = 0.6
"""Max error of a sphere in relation to that of the other shape."""
HEADINGS = np.radians(np.arange(0.0, 90.0, 1.0))


@dataclass(frozen=True, eq=False)
class ShapeFit:
    """A shape and where it is."""

    shape: Shape
    X_PO: Array
    """Pose of its centre in the frame of the plane, shape (4, 4)."""
    error: float
    """Root mean square of the distances of the points from its surface [m]."""


def fit_shape(points: Array) -> ShapeFit | None:
    """Return the shape that fits points best; None if they are on a line.

    Args:
        points: in a frame whose plane z = 0 supports the object [m], shape (n, 3).
    """
    try:
        hull = ConvexHull(points[:, :2])
    except QhullError:
        return None
    edge = points[hull.vertices, :2]
    height = _height(points)
    low, high, yaw = _rectangle(edge)
    size = high - low
    centre = _turned(0.5 * (low + high)[None], yaw)[0]
    local = _turned(points[:, :2] - centre, -yaw) / (0.5 * (size + FRINGE * spacing(points)))
    corners = float(((local**2).sum(axis=1) > CORNERS).mean())
    if size.min() > ROUND_SIDES * size.max() and corners < CORNER_SHARE:
        fit = _cylinder(points, edge, height)
    else:
        fit = _box(points, (float(size[0]), float(size[1]), height), centre, yaw)
    ball = _sphere(points)
    return ball if ball is not None and ball.error < SPHERE_GAIN * fit.error else fit


def extents(shape: Shape) -> Array:
    """Return the sizes of a shape's bounding box in its own frame [m], shape (3,)."""
    if isinstance(shape, Box):
        return np.array(shape.size, np.float64)
    if isinstance(shape, Cylinder):
        return np.array((2.0 * shape.radius, 2.0 * shape.radius, shape.length))
    return np.full(3, 2.0 * shape.radius)


def _height(points: Array) -> float:
    """Return the height of the top: the median of what is close to the highest points."""
    z = points[:, 2]
    high = float(np.percentile(z, 97.0))
    return float(np.median(z[z > high - TOP]))


def _rectangle(edge: Array) -> tuple[Array, Array, float]:
    """Return the corners of the smallest rectangle around points, and its heading [rad]."""
    c, s = np.cos(HEADINGS)[:, None], np.sin(HEADINGS)[:, None]
    u, v = c * edge[:, 0] + s * edge[:, 1], c * edge[:, 1] - s * edge[:, 0]
    low = np.column_stack((u.min(axis=1), v.min(axis=1)))
    high = np.column_stack((u.max(axis=1), v.max(axis=1)))
    best = int(np.argmin(np.prod(high - low, axis=1)))
    return low[best], high[best], float(HEADINGS[best])


def _turned(points: Array, angle: float) -> Array:
    """Return points in a plane turned about its origin, shape (n, 2)."""
    c, s = math.cos(angle), math.sin(angle)
    return np.asarray(points @ np.array(((c, s), (-s, c))))


def _box(points: Array, size: tuple[float, float, float], centre: Array, yaw: float) -> ShapeFit:
    X = from_xyz_rpy((centre[0], centre[1], 0.5 * size[2]), (0.0, 0.0, yaw))
    local = (points - X[:3, 3]) @ X[:3, :3]
    beyond = np.abs(local) - 0.5 * np.array(size)
    inside = np.minimum(beyond.max(axis=1), 0.0)
    distance = np.linalg.norm(np.maximum(beyond, 0.0), axis=1) + inside
    return ShapeFit(Box(size), X, _rms(distance))


def _cylinder(points: Array, edge: Array, height: float) -> ShapeFit:
    # The mean width of a convex outline is its circumference over pi (Cauchy).
    sides = np.roll(edge, -1, axis=0) - edge
    radius = 0.5 * float(np.linalg.norm(sides, axis=1).sum()) / math.pi
    centre = _centroid(edge)
    away = np.linalg.norm(points[:, :2] - centre, axis=1) - radius
    above = points[:, 2] - height
    outside = np.hypot(np.maximum(away, 0.0), np.maximum(above, 0.0))
    distance = outside + np.minimum(np.maximum(away, above), 0.0)
    X = from_xyz_rpy((float(centre[0]), float(centre[1]), 0.5 * height))
    return ShapeFit(Cylinder(radius, height), X, _rms(distance))


def _centroid(edge: Array) -> Array:
    """Return the centroid of a convex polygon, shape (2,)."""
    after = np.roll(edge, -1, axis=0)
    cross = edge[:, 0] * after[:, 1] - after[:, 0] * edge[:, 1]
    return np.asarray(((edge + after) * cross[:, None]).sum(axis=0) / (3.0 * cross.sum()))


def _sphere(points: Array) -> ShapeFit | None:
    """Return a sphere that rests on the plane; None if points are not on one."""
    origin = points.mean(axis=0)
    local = points - origin
    terms = np.column_stack((2.0 * local, np.ones(len(local))))
    found = np.linalg.lstsq(terms, (local**2).sum(axis=1), rcond=None)[0]
    square = float(found[3] + found[:3] @ found[:3])
    if square <= 0.0:
        return None
    radius, centre = math.sqrt(square), origin + found[:3]
    if abs(centre[2] - radius) > 0.2 * radius:
        return None
    away = np.linalg.norm(points - centre, axis=1) - radius
    return ShapeFit(Sphere(radius), from_xyz_rpy(tuple(centre.tolist())), _rms(away))


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))
