# SPDX-License-Identifier: Apache-2.0
"""Boxes around convex pieces, against points of their surfaces."""

import itertools

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from motion_nodes.kernels.collision.piece_arrays import BOX, CONE, CYLINDER, HALF_SPACE, POINTS
from motion_nodes.kernels.collision.piece_boxes import piece_boxes

ANGLES = np.linspace(0.0, 2.0 * np.pi, 2001)
RIM = np.column_stack([np.cos(ANGLES), np.sin(ANGLES), np.ones(len(ANGLES))])


def surface(kind, size, cloud):
    """Return points whose hull is the core of a piece, shape (n, 3)."""
    if kind == POINTS:
        return cloud
    if kind == BOX:
        return np.array(list(itertools.product((-1.0, 1.0), repeat=3))) * size[:3]
    radius, half = size[:2]
    top = (0.0, 0.0, half) if kind == CONE else RIM * (radius, radius, half)
    return np.vstack([RIM * (radius, radius, -half), top])


@pytest.mark.parametrize("kind", [POINTS, BOX, CYLINDER, CONE])
def test_a_box_is_as_large_as_its_piece(kind):
    rng, count = np.random.default_rng(kind), 20
    size = rng.uniform(0.01, 0.5, (count, 4))
    X = np.tile(np.eye(4), (count, 1, 1))
    X[:, :3, :3] = Rotation.random(count, random_state=kind).as_matrix()
    X[:, :3, 3] = rng.normal(size=(count, 3))
    cloud, first = rng.normal(size=(5 * count, 3)), np.arange(0, 5 * count + 1, 5)
    boxes = np.empty((count, 6))
    piece_boxes(np.full(count, kind), size, X, first, cloud, boxes)
    for k in range(count):
        points = surface(kind, size[k], cloud[first[k] : first[k + 1]]) @ X[k, :3, :3].T
        points += X[k, :3, 3]
        expected = [points.min(axis=0) - size[k, 3], points.max(axis=0) + size[k, 3]]
        np.testing.assert_allclose(boxes[k], np.ravel(expected), atol=1e-5)


def test_a_half_space_has_no_end():
    boxes = np.empty((1, 6))
    nothing = np.empty((0, 3))
    piece_boxes(
        np.array([HALF_SPACE]), np.zeros((1, 4)), np.eye(4)[None], np.zeros(2, int), nothing, boxes
    )
    assert boxes[0].tolist() == [-np.inf] * 3 + [np.inf] * 3
