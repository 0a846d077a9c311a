# SPDX-License-Identifier: Apache-2.0
"""Distances to solids against coal, and distance fields."""

import numpy as np
import pytest
from scene.random_scenes import KINDS, coal_distance, l_shaped_mesh, random_pose, random_solid

from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene import distance_field
from motion_nodes.core.scene.distance_field import field_around
from motion_nodes.core.scene.mesh_distance import signed_distance, surface_of
from motion_nodes.core.scene.robot_spheres import COUNT, cover
from motion_nodes.core.scene.shapes import Capsule, Cone, HalfSpace, triangle_mesh
from motion_nodes.core.scene.voxels import voxels
from motion_nodes.errors import InvalidCommand


@pytest.mark.parametrize("kind", [*KINDS, "ground"])
def test_distances_are_those_of_coal(kind):
    rng = np.random.default_rng(0)
    for _ in range(40):
        solid, X, at = random_solid(rng, kind), random_pose(rng), random_pose(rng, 0.0, 0.35)
        local = (at[:3, 3] - X[:3, 3]) @ X[:3, :3]
        distance = signed_distance(solid, local[None])[0][0] - 0.02
        other = coal_distance(Sphere(0.02), at, solid, X)
        if kind == "mesh" and distance < 0.0:
            continue  # in coal a mesh is a surface without an inside
        assert distance == pytest.approx(other, abs=3e-6)


@pytest.mark.parametrize("kind", [*KINDS, "ground"])
def test_distance_grows_by_one_along_its_direction(kind):
    rng = np.random.default_rng(1)
    solid = random_solid(rng, kind)
    points = rng.uniform(-0.25, 0.25, (300, 3))
    distance, direction = signed_distance(solid, points)
    np.testing.assert_allclose(np.linalg.norm(direction, axis=1), 1.0, atol=1e-12)
    step = 1e-7
    ahead = signed_distance(solid, points + step * direction)[0]
    steepness = (ahead - distance) / step
    # Where two directions are equally short, a step may change the nearest one.
    assert np.mean(np.abs(steepness - 1.0) < 1e-4) > 0.98
    assert (steepness < 1.0 + 1e-6).all()


def test_points_in_the_middle_have_a_way_out():
    solids = (Sphere(0.1), Box((0.2, 0.3, 0.4)), Cylinder(0.1, 0.4), Capsule(0.1, 0.2))
    for solid in (*solids, Cone(0.1, 0.3)):
        distance, direction = signed_distance(solid, np.zeros((1, 3)))
        assert distance[0] < 0.0
        assert np.linalg.norm(direction) == pytest.approx(1.0)


def test_nan_stays_nan():
    points = np.array([[np.nan, 0.0, 0.0], [0.0, 0.0, 5.0]])
    for solid in (Sphere(0.1), Box((0.2, 0.3, 0.4)), Cylinder(0.1, 0.4), l_shaped_mesh(0.3)):
        distance = signed_distance(solid, points)[0]
        assert np.isnan(distance[0])
        assert np.isfinite(distance[1])


def test_inside_of_a_closed_mesh_that_is_not_convex():
    mesh = l_shaped_mesh(0.2)  # 0.2 in each direction, its corner at -0.06
    inside, notch = np.array([-0.03, -0.03, 0.0]), np.array([0.1, 0.1, 0.0])
    distance = signed_distance(mesh, np.stack((inside, notch)))[0]
    assert distance[0] == pytest.approx(-0.03)
    assert distance[1] == pytest.approx(0.06)


@pytest.mark.parametrize("turned", [False, True])
def test_the_inside_of_a_grid_is_that_of_its_points(turned):
    mesh, rng = l_shaped_mesh(0.3), np.random.default_rng(4)
    corners = mesh.vertices @ random_pose(rng)[:3, :3].T if turned else mesh.vertices
    surface = surface_of(triangle_mesh(corners, mesh.triangles))
    low, high = corners.min(axis=0), corners.max(axis=0)
    # Unrotated, the grid lines run along edges.
    axes = [np.linspace(a, b, 13 + 4 * k) for k, (a, b) in enumerate(zip(low, high, strict=True))]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    apart = np.linalg.norm(surface.nearest(points)[0] - points, axis=1) > 1e-6
    expected = surface.inside(points)
    assert 0.1 < expected[apart].mean() < 0.9
    np.testing.assert_array_equal(surface.inside_grid(*axes).ravel()[apart], expected[apart])
    distance = np.linalg.norm(surface.nearest(points)[0] - points, axis=1)
    for limit in (0.0, 0.01, 0.07):
        near = surface.near_grid(*axes, distance=limit).ravel()
        np.testing.assert_array_equal(near, distance < limit)


def test_an_open_surface_has_no_inside():
    sheet = triangle_mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    points = np.array([[0.2, 0.2, 0.1], [0.2, 0.2, -0.1]])
    np.testing.assert_allclose(signed_distance(sheet, points)[0], 0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cover_holds_the_solid_and_tells_its_excess(kind):
    rng = np.random.default_rng(2)
    for _ in range(3):
        solid = random_solid(rng, kind)
        found = cover(solid)
        assert len(found.spheres) <= COUNT
        points = rng.uniform(-0.35, 0.35, (15_000, 3))
        distance = signed_distance(solid, points)[0]
        gaps = np.linalg.norm(points[:, None] - found.spheres[None, :, :3], axis=2)
        held = (gaps <= found.spheres[:, 3]).any(axis=1)
        assert held[distance <= 0.0].all()
        assert distance[held].max() <= found.excess + 1e-9


def test_a_plate_needs_no_more_excess_than_its_cells():
    assert cover(Box((0.6, 0.3, 0.02))).excess < 0.04
    assert cover(Sphere(0.1)).excess == 0.0
    assert cover(Capsule(0.05, 0.2)).excess < 0.05 * 0.05 + 1e-9


@pytest.mark.long
@pytest.mark.parametrize("size", [5e-324, 1e-200, 1e-70, 1e-12])
def test_solids_without_extent_have_a_cover(size):
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    triangles = [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]
    solids = [Capsule(size, 1.0), Cylinder(size, 1.0), Box((size, 1.0, 1.0))]
    if size > 1e-75:  # smaller ones have no area
        solids.append(triangle_mesh(size * corners, triangles))
    for solid in solids:
        spheres = cover(solid).spheres
        assert len(spheres)
        assert np.isfinite(spheres).all()


def test_a_half_space_has_no_cover():
    with pytest.raises(InvalidCommand):
        cover(HalfSpace())


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
