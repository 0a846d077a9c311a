# SPDX-License-Identifier: Apache-2.0
"""Distance fields against the exact distances and directions to all voxels."""

from __future__ import annotations

import numpy as np
import pytest

from motion_nodes.core.scene import distance_field
from motion_nodes.core.scene.distance_field import field_around
from motion_nodes.core.scene.voxels import voxels

EDGE, REACH = 0.04, 0.3


def nearest(cells: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the points of all voxels that are nearest to points, (m, 3); themselves if inside."""
    low, found = cells * EDGE, np.empty(points.shape)
    for k, point in enumerate(points):
        closest = np.clip(point, low, low + EDGE)
        found[k] = closest[((closest - point) ** 2).sum(axis=1).argmin()]
    return found


@pytest.mark.parametrize("seed", range(3))
def test_distances_and_gradients_are_those_of_the_nearest_voxel(seed):
    rng = np.random.default_rng(seed)
    solid = voxels(EDGE, rng.integers(-8, 8, (25, 3)))
    field = field_around(solid, REACH)
    points = rng.uniform(-0.6, 0.6, (3000, 3))
    away = points - nearest(solid.cells, points)
    true = np.linalg.norm(away, axis=1)
    distances, gradients = field.distance(points), field.gradient(points)
    near = true < REACH
    assert np.abs(distances - true)[near].max() <= EDGE
    assert (distances - true).max() <= EDGE
    # Only where one voxel is nearest, and not too close for its corners.
    clear = near & (true > 2.0 * EDGE)
    cosine = (gradients * away).sum(axis=1) / true / np.linalg.norm(gradients, axis=1)
    assert np.quantile(cosine[clear], 0.1) > 0.9
    length = np.linalg.norm(gradients[clear], axis=1)
    assert np.median(length) == pytest.approx(1.0, abs=0.05)
    assert length.max() < 1.5
    # Differences of distances: the definition.
    step = rng.normal(size=(3000, 3)) * 1e-3
    change = field.distance(points + step) - field.distance(points - step)
    error = np.abs(change - 2.0 * (gradients * step).sum(axis=1)) / np.linalg.norm(step, axis=1)
    assert np.median(error[clear]) < 0.2


def test_points_that_are_not_finite_have_no_distance():
    field = field_around(voxels(EDGE, [(0, 0, 0)]), REACH)
    bad = [(np.nan, 0.0, 0.0), (0.0, np.inf, 0.0), (0.2, 0.0, 0.0)]
    assert np.isnan(field.distance(bad)).tolist() == [True, True, False]
    assert np.isnan(field.gradient(bad)).any(axis=1).tolist() == [True, True, False]


def test_slices_are_between_the_layers():
    field = field_around(voxels(EDGE, [(0, 0, 0), (3, 1, 2)]), REACH)
    nx, ny, nz = field.values.shape
    i, j = np.indices((nx, ny)).reshape(2, -1)
    for height in (0.013, -9.0, 9.0):
        z = np.clip(height, field.first[2], field.first[2] + EDGE * (nz - 1))
        points = np.column_stack((field.first[0] + EDGE * i, field.first[1] + EDGE * j,
                                  np.full(len(i), z)))  # fmt: skip
        np.testing.assert_allclose(
            field.slice_at(height).ravel(), field.distance(points), atol=1e-5
        )


def test_fields_that_are_too_large_are_not_made(monkeypatch):
    monkeypatch.setattr(distance_field, "MOST_VOXELS", 1000)
    assert field_around(voxels(EDGE, [(0, 0, 0), (100, 0, 0)]), REACH) is None
