# SPDX-License-Identifier: Apache-2.0
"""Convex pieces: distances against coal, and their boxes."""

import itertools

import coal
import numpy as np
import pytest
from scene.random_scenes import coal_shape, random_pose, random_solid
from scipy.spatial.transform import Rotation

from motion_nodes.core.robot.tree import Box, Cylinder
from motion_nodes.core.scene.convex_pieces import pieces_of, placed
from motion_nodes.core.scene.shapes import HalfSpace, Solid
from motion_nodes.kernels.collision.path_sweep import piece_boxes, separations
from motion_nodes.kernels.collision.piece_arrays import BOX, CONE, CYLINDER, HALF_SPACE, POINTS
from motion_nodes.typing import Array

KINDS = ("sphere", "box", "cylinder", "capsule", "cone", "hull")
COUNT = 4000


def by_coal(a: Solid, X_A: Array, b: Solid, X_B: Array) -> float:
    request, result = coal.DistanceRequest(), coal.DistanceResult()
    request.gjk_tolerance, request.gjk_max_iterations = 1e-10, 1000
    shapes = [coal_shape(solid) for solid in (a, b)]
    poses = [coal.Transform3s(X[:3, :3], X[:3, 3]) for X in (X_A, X_B)]
    return float(coal.distance(shapes[0], poses[0], shapes[1], poses[1], request, result))


def test_distances_are_those_of_coal_and_never_above():
    rng = np.random.default_rng(11)
    solids = [random_solid(rng, KINDS[k], 0.1) for k in rng.integers(len(KINDS), size=2 * COUNT)]
    X = np.stack([random_pose(rng, 0.0, 0.6) for _ in solids])
    pieces, owner = pieces_of(solids)
    order = np.argsort(owner)  # one piece each
    pieces = placed(pieces, X[owner])
    pairs = order.reshape(-1, 2).astype(np.int32)
    work, out = np.zeros((6, 3)), np.empty((COUNT, 2))
    separations(pieces, pairs, work, out)
    expected = np.array([
        by_coal(solids[i], X[i], solids[i + 1], X[i + 1]) for i in range(0, 2 * COUNT, 2)
    ])  # fmt: skip
    apart = expected > 1e-6
    assert apart.sum() > 0.5 * COUNT
    assert (~apart).sum() > 100
    assert (out[apart, 0] <= expected[apart] + 1e-9).all()
    np.testing.assert_allclose(out[apart], expected[apart, None].repeat(2, axis=1), rtol=1e-6)
    # Where coal sees an overlap, there is one, and nothing is said to be apart.
    assert (out[~apart, 1] < 1e-6).all()


def test_touching_parallel_faces_and_thin_shapes_have_exact_distances():
    cases = [
        (Box((0.2, 0.2, 0.2)), Box((0.2, 0.2, 0.2)), 0.3, 0.1),
        (Box((0.2, 0.2, 0.2)), Box((1e-6, 5.0, 5.0)), 0.3, 0.2 - 0.5e-6),
        (Cylinder(0.1, 0.2), Cylinder(0.1, 0.2), 0.3, 0.1),
        (Box((1e-9, 1e-9, 1e-9)), Box((1e-9, 1e-9, 1e-9)), 0.3, 0.3 - 1e-9),
        (Box((20.0, 20.0, 0.1)), Box((20.0, 20.0, 0.1)), 30.0, 10.0),
    ]
    for a, b, offset, expected in cases:
        pieces, _ = pieces_of([a, b])
        X = np.stack([np.eye(4)] * 2)
        X[1, 0, 3] = offset
        pieces = placed(pieces, X)
        work, out = np.zeros((6, 3)), np.empty((1, 2))
        pairs = np.array([[0, 1]], np.int32)
        separations(pieces, pairs, work, out)
        np.testing.assert_allclose(out[0], expected, rtol=1e-9)
    pieces, _ = pieces_of([Box((0.2, 0.2, 0.2)), HalfSpace()])
    pieces.X[0, 2, 3] = 0.35
    separations(pieces, pairs, work, out)
    np.testing.assert_allclose(out[0], 0.25, rtol=1e-12)


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
