# SPDX-License-Identifier: Apache-2.0
"""Coverage of a link's geometry by spheres."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.robot_setup.link_geometry import LinkGeometry
from motion_nodes.typing import Array


@dataclass(frozen=True)
class Coverage:
    """Coverage of a geometry by spheres."""

    surface: float
    """Fraction of the surface inside a sphere, 0 to 1."""
    volume: float
    """Fraction of the volume inside a sphere, 0 to 1."""
    excess_volume: float
    """Volume of the spheres outside the geometry, relative to the geometry's volume."""
    reach: float
    """Max excess of the spheres beyond the geometry [m]."""
    gap: float
    """Max excess of the geometry beyond the spheres [m]."""
    count: int
    """Number of spheres."""


def measure(spheres: Array, geometry: LinkGeometry) -> Coverage:
    """Return the coverage of a geometry by spheres.

    Args:
        spheres: centre and radius in the link's frame [m], shape (n, 4).
        geometry: geometry of that link; its spacing is the accuracy of the result.
    """
    spheres = np.asarray(spheres, dtype=np.float64).reshape(-1, 4)
    if not len(spheres):
        low, high = geometry.bounds
        return Coverage(0.0, 0.0, 0.0, 0.0, float(np.linalg.norm(high - low)), 0)
    surface = outside(spheres, geometry.surface)
    inside = outside(spheres, geometry.elements) <= 0.0
    weights = geometry._weights
    held = float((weights * inside).sum()) * geometry.spacing**3
    total = _union_volume(spheres, geometry.spacing)
    return Coverage(
        surface=float((surface <= 0.0).mean()),
        volume=float((weights * inside).sum() / weights.sum()),
        excess_volume=max(0.0, total - held) / geometry.volume,
        reach=float(reach_beyond(spheres, geometry).max()),
        gap=float(max(0.0, surface.max())),
        count=len(spheres),
    )


def reach_beyond(spheres: Array, geometry: LinkGeometry) -> Array:
    """Return the excess of each sphere beyond a geometry [m], exact up to its spacing, (n,).

    Parts inside another sphere do not count.
    """
    shells = _shells(spheres)
    free = outside(spheres, shells) > -1e-9
    reach = np.zeros(len(shells))
    reach[free] = np.maximum(-geometry.depth(shells[free]), 0.0)
    return np.asarray(reach.reshape(len(spheres), -1).max(axis=1))


def outside(spheres: Array, points: Array) -> Array:
    """Return the signed distance of points from all spheres, negative inside [m], shape (m,)."""
    return nearest(spheres, points)[0]


def nearest(spheres: Array, points: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return the signed distance of points from all spheres [m], and the closest one, (m,) each."""
    from scipy.spatial.distance import cdist

    beyond, owner = np.empty(len(points)), np.empty(len(points), np.intp)
    step = max(1, 2_000_000 // len(spheres))
    for begin in range(0, len(points), step):
        part = slice(begin, begin + step)
        distance = cdist(points[part], spheres[:, :3]) - spheres[:, 3]
        owner[part] = distance.argmin(axis=1)
        beyond[part] = distance[np.arange(len(distance)), owner[part]]
    return beyond, owner


def some(points: Array, count: int, rng: np.random.Generator) -> Array:
    """Return a uniform random selection of at most ``count`` points."""
    return points[rng.permutation(len(points))[:count]]


def _spread(count: int) -> Array:
    """Return evenly distributed directions, shape (count, 3): a Fibonacci lattice."""
    k = np.arange(count) + 0.5
    polar, turn = np.arccos(1.0 - 2.0 * k / count), np.pi * (1.0 + 5.0**0.5) * k
    x, y = np.cos(turn) * np.sin(polar), np.sin(turn) * np.sin(polar)
    return np.stack((x, y, np.cos(polar)), axis=1)


def _union_volume(spheres: Array, spacing: float) -> float:
    """Return the volume of the union of spheres [m^3], on a grid."""
    low = (spheres[:, :3] - spheres[:, 3:]).min(axis=0)
    high = (spheres[:, :3] + spheres[:, 3:]).max(axis=0)
    step = max(spacing, float((high - low).max()) / 100.0)
    axes = [np.arange(a + 0.5 * step, b, step) for a, b in zip(low, high, strict=True)]
    inside = np.zeros([len(axis) for axis in axes], bool)
    for x, y, z, radius in spheres:
        squares = [(axis - c) ** 2 for axis, c in zip(axes, (x, y, z), strict=True)]
        inside |= (
            squares[0][:, None, None] + squares[1][None, :, None] + squares[2][None, None, :]
        ) <= radius**2
    return float(inside.sum()) * step**3


def _shells(spheres: Array) -> Array:
    """Return points distributed over the spheres' surfaces, shape (n * 200, 3)."""
    points = spheres[:, None, :3] + spheres[:, None, 3:] * _spread(200)
    return np.asarray(points.reshape(-1, 3))
