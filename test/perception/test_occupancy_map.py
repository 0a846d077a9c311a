# SPDX-License-Identifier: Apache-2.0
"""Occupancy maps against exact geometry: mapped, cleared and excluded voxels."""

import dataclasses

import numpy as np
import pytest
from perception.boxes_seen import (
    EYE,
    SETTINGS,
    TABLE,
    camera,
    centres,
    depth_of,
    looking,
    points_inside,
    seen,
    surface_distance,
    voxel_distance,
)
from scipy.spatial import cKDTree

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.depth_camera import DepthProjection, Pinhole
from motion_nodes.core.scene.scene import world_object
from motion_nodes.core.scene.shapes import HalfSpace, triangle_mesh
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.extras.perception.occupancy_map import OccupancyMap
from motion_nodes.extras.perception.settings import MapSettings

BLOCK = np.array([(0.5, -0.1, 0.0), (0.7, 0.1, 0.3)])
WORLD = np.array([TABLE, BLOCK])
EDGE = SETTINGS.resolution


def test_what_is_seen_is_mapped_within_a_voxel():
    made = OccupancyMap(dataclasses.replace(SETTINGS, min_points=1))
    seen(made, WORLD)
    assert surface_distance(WORLD, centres(made)).max() <= 0.5 * np.sqrt(3.0) * EDGE + 1e-6
    pinhole = camera()
    points = DepthProjection(pinhole).points(depth_of(WORLD, EYE, pinhole))
    inside = points_inside(points, EYE, SETTINGS.region_min, SETTINGS.region_max)
    assert cKDTree(centres(made)).query(inside)[0].max() <= np.sqrt(3.0) * EDGE
    assert len(made.voxels().cells) == len(made.cells())
    made.clear()
    assert made.voxels() is None


def test_noise_and_outliers_make_no_obstacles_and_hide_none():
    made, rng = OccupancyMap(SETTINGS), np.random.default_rng(4)
    seen(made, WORLD, count=8, rng=rng, pinhole=camera(320, 240))
    far = surface_distance(WORLD, centres(made)) > 2.0 * EDGE
    assert far.sum() <= 2
    pinhole = camera()
    points = DepthProjection(pinhole).points(depth_of(BLOCK[None], EYE, pinhole))
    world = points @ EYE[:3, :3].T + EYE[:3, 3]
    world = world[np.isfinite(world).all(axis=1) & (np.linalg.norm(world - 0.5, axis=1) < 1.0)]
    assert cKDTree(centres(made)).query(world)[0].max() <= 2.0 * EDGE


def test_traces_vanish_when_the_space_is_seen_again():
    made = OccupancyMap(SETTINGS)
    rng = np.random.default_rng(5)
    now = seen(made, WORLD, count=10, rng=rng)
    above = centres(made)[:, 2] > 1.5 * EDGE
    assert above.sum() > 100
    now = seen(made, TABLE, count=8, begin=now, rng=rng)
    assert (centres(made)[:, 2] > 2.0 * EDGE).sum() <= 1
    seen(made, TABLE, count=12, begin=now, rng=rng)
    assert (centres(made)[:, 2] > 1.5 * EDGE).sum() == 0


def test_hidden_voxels_stay_and_decay_by_age_only():
    made = OccupancyMap(SETTINGS)
    now = seen(made, WORLD)
    count = (centres(made)[:, 2] > 1.5 * EDGE).sum()
    screen = np.array([(0.0, -0.75, 0.0), (1.2, -0.73, 1.2)])
    now = seen(made, np.array([screen]), count=30, begin=now)
    block = BLOCK + np.array([(-0.05,), (0.05,)])
    kept = np.all((centres(made) > block[0]) & (centres(made) < block[1]), axis=1)
    assert (kept & (centres(made)[:, 2] > 1.5 * EDGE)).sum() == count
    made.elapse(now + 100.0)
    assert len(made.cells())
    made.configure(dataclasses.replace(SETTINGS, decay_time=5.0))
    made.elapse(now + 100.0)
    assert not len(made.cells())


def test_a_moving_camera_adds_up():
    made = OccupancyMap(SETTINGS)
    for k, x in enumerate(np.linspace(-0.2, 1.4, 12)):
        X = looking((x, -0.9, 0.8), (0.6, 0.0, 0.1))
        seen(made, WORLD, X, count=2, begin=0.2 * k)
    for k, x in enumerate(np.linspace(1.4, -0.2, 12)):
        X = looking((x, 0.9, 0.8), (0.6, 0.0, 0.1))
        seen(made, WORLD, X, count=2, begin=3.0 + 0.2 * k)
    assert surface_distance(WORLD, centres(made)).max() <= 0.5 * np.sqrt(3.0) * EDGE + 1e-6
    sides = [(0.6, y, 0.2) for y in (-0.1, 0.1)] + [(x, 0.0, 0.2) for x in (0.5, 0.7)]
    assert cKDTree(centres(made)).query(sides)[0].max() <= EDGE


def test_what_is_beside_the_robot_stays_but_nothing_new_is_mapped_there():
    """A link at a distance of 2 cm from the block, less than the padding."""
    radius = 0.05
    link = np.array([[*BLOCK.mean(axis=0), radius]])
    link[0, 0] = BLOCK[0, 0] - radius - 0.02
    plain, made, late = (OccupancyMap(SETTINGS) for _ in range(3))
    seen(plain, WORLD, count=8)
    seen(made, WORLD)
    seen(made, WORLD, count=5, begin=1.0, spheres=link)
    np.testing.assert_array_equal(made.cells(), plain.cells())
    seen(late, WORLD, spheres=link)
    gaps = np.linalg.norm(centres(late) - link[0, :3], axis=1) - radius
    assert gaps.min() >= SETTINGS.robot_padding
    assert len(late.cells()) < len(plain.cells())


def test_the_robot_and_known_objects_are_left_out():
    made = OccupancyMap(SETTINGS)
    middle = BLOCK.mean(axis=0)
    spheres = np.array([[*middle, 0.5 * np.linalg.norm(BLOCK[1] - BLOCK[0])]])
    seen(made, WORLD, spheres=spheres)
    assert (centres(made)[:, 2] > 1.5 * EDGE).sum() == 0
    assert len(made.cells()) > 100
    # Mapped voxels are removed where the robot moves to.
    made = OccupancyMap(SETTINGS)
    seen(made, WORLD)
    seen(made, WORLD, count=1, begin=1.0, spheres=np.array([[*middle, 0.3]]))
    assert (np.linalg.norm(centres(made) - middle, axis=1) > 0.3).all()
    X = from_xyz_rpy(tuple(TABLE.mean(axis=0)))
    corners = np.array([[b[0], c[1], d[2]] for b in BLOCK for c in BLOCK for d in BLOCK])
    faces = [(0, 1, 2), (1, 3, 2), (4, 6, 5), (5, 6, 7), (0, 2, 4), (2, 6, 4), (1, 5, 3), (3, 5, 7)]
    made = OccupancyMap(SETTINGS)
    table = world_object("table", Box(tuple(TABLE[1] - TABLE[0])), X)
    made.set_known_objects([table])
    seen(made, WORLD)
    # Seen at a grazing angle, the lowest voxels of the block count as the table.
    assert centres(made)[:, 2].min() > EDGE
    assert (centres(made)[:, 2] > 2.0 * EDGE).sum() > 100
    made.set_known_objects([table, world_object("block", triangle_mesh(corners, faces, True))])
    seen(made, WORLD, count=1, begin=1.0)
    assert not len(made.cells())
    made = OccupancyMap(SETTINGS)
    made.set_known_objects([world_object("floor", HalfSpace())])
    seen(made, WORLD)
    assert (centres(made)[:, 2] > EDGE).all()


def test_bad_points():
    made = OccupancyMap(SETTINGS)
    cloud = np.full((1000, 3), np.nan, np.float32)
    assert made.add_view(cloud, EYE, 0.0).valid == 0
    cloud[::2] = np.inf
    cloud[1::4] = 3e38
    cloud[3::4] = 0.0
    assert made.add_view(cloud, EYE, 0.1).inside == 0
    assert made.add_view(np.empty((0, 3)), EYE, 0.2).points == 0
    for bad in (np.eye(3), np.full((4, 4), np.nan), 2.0 * np.eye(4)):
        with pytest.raises(InvalidCommand):
            made.add_view(cloud, bad, 0.3)
    with pytest.raises(InvalidCommand):
        made.add_view(cloud, EYE, np.nan)
    with pytest.raises(InvalidCommand):
        made.add_view(np.zeros((5, 2)), EYE, 0.3)
    assert not len(made.cells())
    seen(made, WORLD, begin=1e9)
    assert len(made.cells())
    # Views with a single point clear nothing.
    single = np.zeros((1, 3), np.float32)
    single[0] = (0.0, 0.0, 3.0)
    before = len(made.cells())
    for k in range(20):
        made.add_view(single, EYE, 1e9 + 1.0 + k)
    assert len(made.cells()) == before


def test_five_million_points():
    made, plain = OccupancyMap(SETTINGS), OccupancyMap(SETTINGS)
    seen(plain, WORLD)
    points = DepthProjection(camera()).points(depth_of(WORLD, EYE, camera()))
    many = np.repeat(points, 5_000_000 // len(points) + 1, axis=0)
    for k in range(3):
        result = made.add_view(many, EYE, 0.1 * k)
        assert result.points > 5_000_000
        assert 0 < result.valid <= SETTINGS.max_points
    assert cKDTree(centres(made)).query(centres(plain))[0].max() <= EDGE
    assert surface_distance(WORLD, centres(made)).max() <= 0.5 * np.sqrt(3.0) * EDGE + 1e-6


def test_a_camera_inside_the_robot():
    """The camera's own link is not mapped, and does not hide other surfaces."""
    X = looking((0.3, -0.4, 0.6), (0.6, 0.0, 0.1))
    link = np.array([[*X[:3, 3], 0.2]])
    made, plain = OccupancyMap(SETTINGS), OccupancyMap(SETTINGS)
    cover = DepthProjection(camera()).points(np.full((120, 160), 0.15))
    for k in range(3):
        made.add_view(cover, X, 0.1 * k, link)
    assert not len(made.cells())
    seen(made, WORLD, X, begin=1.0, spheres=link)
    seen(plain, WORLD, X)
    np.testing.assert_array_equal(made.cells(), plain.cells())


@pytest.mark.parametrize(
    "change",
    [{"resolution": 0.0}, {"resolution": 0.002}, {"region_min": (0.0, 0.0)},
     {"region_min": (2.0, 0.0, 0.0)}, {"region_max": (np.nan, 1.0, 1.0)}, {"max_range": np.inf}],
)  # fmt: skip
def test_invalid_settings(change):
    with pytest.raises(InvalidConfig):
        dataclasses.replace(SETTINGS, **change)


def test_distance_fields_are_exact_within_a_voxel():
    made, rng = OccupancyMap(SETTINGS), np.random.default_rng(3)
    empty = made.distance_field()
    assert empty.distance([[0.5, 0.0, 0.2]])[0] > 100.0
    seen(made, WORLD)
    field = made.distance_field()
    points = rng.uniform((-0.2, -1.0, -0.4), (1.4, 1.0, 1.0), (4000, 3))
    error = field.distance(points) - voxel_distance(made.cells(), EDGE, points)
    inside = np.all((points > SETTINGS.region_min) & (points < SETTINGS.region_max), axis=1)
    assert np.abs(error[inside]).max() <= EDGE
    # A corner of a voxel is farther from its centre than the half edge that is subtracted.
    assert error[~inside].max() <= 0.5 * (np.sqrt(3.0) - 1.0) * EDGE + 1e-6
    assert np.isnan(field.distance([[np.nan, 0.0, 0.0]])[0])


@pytest.mark.parametrize(
    "values", [(0, 4, 1.0, 1.0), (4, 4, 0.0, 1.0), (4, 4, np.nan, 1.0), (10**5, 10**5, 1.0, 1.0)]
)
def test_invalid_cameras(values):
    width, height, fx, fy = values
    with pytest.raises(InvalidCommand):
        Pinhole(width, height, fx, fy, 1.0, 1.0)


def test_depth_images():
    projection = DepthProjection(camera(8, 6))
    depth = np.full((6, 8), 2.0)
    depth[0, :3] = (0.0, np.nan, np.inf)
    depth[0, 3] = -np.inf
    points = projection.points(depth)
    assert np.isnan(points[[0, 1, 3]]).all()
    assert points[2, 2] == pytest.approx(1e4)
    assert points[10:, 2] == pytest.approx(2.0)
    with pytest.raises(InvalidCommand):
        projection.points(depth[:5])


def test_a_region_that_moves_keeps_the_voxels_in_it():
    """Oracle: the voxels of a map that had the region there from the beginning."""
    moved = OccupancyMap(MapSettings())
    point = np.tile((0.0, 0.0, 1.0), (50, 1))
    for k in range(3):
        moved.add_view(point, np.eye(4), float(k))
    before = moved.cells()
    assert len(before)
    assert moved.shift((0.5, -0.3, 0.0))
    assert not moved.shift((0.5, -0.3, 0.001))
    np.testing.assert_array_equal(moved.cells(), before)
    beyond = np.eye(4)
    beyond[0, 3] = 1.4  # outside of the region at the start
    for k in range(3):
        moved.add_view(point, beyond, 3.0 + k)
    there = OccupancyMap(MapSettings(region_min=(-0.5, -1.3, -0.2), region_max=(1.5, 0.7, 1.4)))
    for k, X in enumerate([np.eye(4)] * 3 + [beyond] * 3):
        there.add_view(point, X, float(k))
    np.testing.assert_array_equal(moved.cells(), there.cells())
    moved.shift((10.0, 0.0, 0.0))
    assert len(moved.cells()) == 0
