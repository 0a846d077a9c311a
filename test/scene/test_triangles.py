# SPDX-License-Identifier: Apache-2.0
"""Winding numbers and closest points of triangles, against exact sums and sampling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from motion_nodes.core.scene.triangle_surfaces import WindingNumber, nearest_on_triangles


def ball(count: int, seed: int = 0) -> np.ndarray:
    """Return the triangles of a polyhedron in the unit sphere, counterclockwise from outside."""
    points = np.random.default_rng(seed).normal(size=(count, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    hull = ConvexHull(points)
    triangles = points[hull.simplices]
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    turned = np.einsum("ti,ti->t", normals, hull.equations[:, :3]) < 0.0
    triangles[turned] = triangles[turned][:, ::-1]
    return triangles


@pytest.mark.parametrize("count", [4, 50, 3000])
def test_a_closed_surface_winds_once_around_its_inside(count: int) -> None:
    triangles = ball(count)
    winding = WindingNumber(triangles)
    points = np.random.default_rng(1).uniform(-1.2, 1.2, (500, 3))
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    heights = np.einsum("mti,ti->mt", points[:, None] - triangles[:, 0], normals)
    inside = (heights < 0.0).all(axis=1)
    np.testing.assert_allclose(winding(points), inside, atol=0.02)
    np.testing.assert_array_equal(WindingNumber(triangles[:, ::-1]).encloses(points), inside)


def test_far_blocks_count_nearly_as_much_as_their_triangles() -> None:
    triangles = ball(2000)[::2]  # open: fractions between 0 and 1
    points = np.random.default_rng(2).uniform(-1.2, 1.2, (200, 3))
    exact = np.zeros(len(points))
    for at, point in enumerate(points):
        a, b, c = (triangles[:, k] - point for k in range(3))
        x, y, z = (np.linalg.norm(p, axis=1) for p in (a, b, c))
        volume = np.einsum("ti,ti->t", a, np.cross(b, c))
        dots = [np.einsum("ti,ti->t", p, q) for p, q in ((a, b), (b, c), (c, a))]
        angle = 2.0 * np.arctan2(volume, x * y * z + dots[0] * z + dots[1] * x + dots[2] * y)
        exact[at] = angle.sum() / (4.0 * np.pi)
    np.testing.assert_allclose(WindingNumber(triangles)(points), exact, atol=0.01)
    assert WindingNumber(triangles)(np.empty((0, 3))).shape == (0,)


def test_closest_points_are_on_the_triangle_and_none_is_closer() -> None:
    rng = np.random.default_rng(3)
    corners, points = rng.normal(size=(40, 3, 3)), rng.normal(size=(25, 3))
    nearest = nearest_on_triangles(corners, points[:, None])
    assert nearest.shape == (25, 40, 3)
    weights = rng.dirichlet((0.5, 0.5, 0.5), 4000)
    weights = np.concatenate([weights, np.eye(3)])
    samples = np.einsum("wk,tkj->twj", weights, corners)
    distance = np.linalg.norm(nearest - points[:, None], axis=2)
    for m, point in enumerate(points):
        sampled = np.linalg.norm(samples - point, axis=2).min(axis=1)
        assert (distance[m] <= sampled + 1e-12).all()
        assert (distance[m] >= sampled - 0.1).all()
    for t in range(len(corners)):
        solved = np.linalg.lstsq(
            np.vstack([corners[t].T, np.ones(3)]),
            np.vstack([nearest[:, t].T, np.ones(len(points))]),
            rcond=None,
        )[0]
        assert solved.min() > -1e-9


@pytest.mark.parametrize(
    ("corners", "nearest"),
    [
        ([[0, 0, 0], [1, 0, 0], [2, 0, 0]], [1.5, 0, 0]),
        ([[1, 1, 1], [1, 1, 1], [1, 1, 1]], [1, 1, 1]),
    ],
)
def test_triangles_without_an_area_are_edges_or_points(corners: list, nearest: list) -> None:
    found = nearest_on_triangles(np.array(corners, float), np.array([1.5, 3.0, 0.0]))
    np.testing.assert_allclose(found, nearest)
