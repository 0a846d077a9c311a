# SPDX-License-Identifier: Apache-2.0
"""Kernels of occupancy grids: distances by SciPy, evidence by the geometry of walls."""

import numpy as np
import pytest
from kernels.plain_kernels import plain
from scipy.interpolate import RegularGridInterpolator
from scipy.ndimage import distance_transform_edt

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.kernels import voxels

FIELD, VOXELS = plain(voxels), plain(voxels)
EDGE = 0.1


@pytest.mark.parametrize("seed", range(3))
def test_squared_distances_are_those_of_scipy(seed):
    occupied = np.random.default_rng(seed).uniform(size=(7, 5, 6)) < 0.03
    occupied[3, 2, 1] = True
    squared = np.empty(occupied.shape, np.float32)
    FIELD.squared_distances(occupied, squared)
    np.testing.assert_allclose(squared, distance_transform_edt(~occupied) ** 2, rtol=1e-6)
    FIELD.squared_distances(np.zeros_like(occupied), squared)
    assert (squared == FIELD.FAR).all()


def test_a_field_is_interpolated_inside_and_bounded_outside():
    rng = np.random.default_rng(4)
    field, first = rng.uniform(0.2, 0.5, (4, 5, 3)).astype(np.float32), np.array([0.3, -0.2, 0.1])
    axes = [first[k] + EDGE * np.arange(field.shape[k]) for k in range(3)]
    scipy = RegularGridInterpolator(axes, field)
    low, high = (np.array([axis[end] for axis in axes]) for end in (0, -1))
    points = rng.uniform(low - 0.4, high + 0.4, (60, 3))
    points[:20] = np.clip(points[:20], low, high)
    out = np.empty(60)
    FIELD.field_at(field, first, EDGE, points, out)
    border = np.clip(points, low, high)
    way = np.linalg.norm(points - border, axis=1)
    assert out == pytest.approx(np.maximum(scipy(border) - way, way - 0.5 * EDGE), abs=1e-6)


def grid(shape=(24, 14, 14), origin=(0, -7, -7)):
    return VOXELS.Grid(
        np.array(origin),
        EDGE,
        np.zeros(shape, np.int8),
        np.zeros(shape, np.int32),
        np.zeros(shape, np.uint16),
        np.zeros(shape, bool),
        np.empty((VOXELS.FACES, VOXELS.SIDE, VOXELS.SIDE), np.float32),
    )


RULES = VOXELS.ViewRules(
    min_points=2, most=3, margin=0.05, unconfirmed=500, confirmed=2, padding=0.12
)
X = from_xyz_rpy((0.02, 0.03, -0.01), (0.3, -0.2, 0.1))


def wall(distance=2.05, half=0.57, count=96):
    """Return points of a wall at x = distance in the grid's frame, in the sensor's frame."""
    y, z = np.meshgrid(*[np.linspace(-half, half, count)] * 2)
    points = np.stack([np.full(y.size, distance), y.ravel(), z.ravel()], axis=1)
    return points, ((points - X[:3, 3]) @ X[:3, :3]).astype(np.float32)


def centres(made):
    return (np.moveaxis(np.indices(made.evidence.shape), 0, -1) + made.origin + 0.5) * EDGE


def test_points_are_counted_in_their_voxels():
    made, (points, seen) = grid(), wall()
    bad = np.array([[np.nan] * 3, [np.inf, 0, 0], [0.01, 0.0, 0.0]], np.float32)
    given = np.concatenate([seen, bad])
    assert VOXELS.add_points(made, given, 1, X, 0.05, 5.0) == (len(points),) * 2
    edges = [EDGE * (made.origin[k] + np.arange(made.points.shape[k] + 1)) for k in range(3)]
    counts, _ = np.histogramdd(points, bins=edges)
    assert np.abs(made.points - counts).sum() <= 0.01 * len(points)  # rounded to float32
    assert np.nanmin(made.ranges) == pytest.approx(np.linalg.norm(seen, axis=1).min(), rel=1e-6)
    made = grid()
    half = (len(points) + 1) // 2
    assert VOXELS.add_points(made, seen, 2, X, 0.05, 1.0) == (half, 0)  # beyond the max range
    assert made.ranges[np.isfinite(made.ranges)].max() == 1.0


def test_a_view_changes_what_the_sensor_sees_through():
    made, (_, seen) = grid(), wall()
    at = centres(made)
    rays = at - X[:3, 3]
    distance = np.linalg.norm(rays, axis=-1)
    ratio = (2.05 - X[0, 3]) / rays[..., 0]
    hit = X[:3, 3] + ratio[..., None] * rays
    inside = (np.abs(hit[..., 1:]) < 0.52).all(axis=-1)  # well within the wall's outline
    outside = (np.abs(hit[..., 1:]) > 0.65).any(axis=-1)
    through = inside & (distance * ratio > distance + 0.06)
    behind = inside & (distance * ratio < distance - 0.06)
    made.evidence[:], made.seen[:] = 1, 1000
    made.excluded[22, 0, 0] = True
    spheres = np.array([[*at[23, 10, 10], 0.01]])
    VOXELS.add_points(made, seen, 1, X, 0.05, 5.0)
    counts = made.points.copy()
    VOXELS.end_view(made, X, spheres, 1200, RULES)
    assert not made.points.any()
    robot = np.linalg.norm(at - at[23, 10, 10], axis=-1) < 0.13
    gone = made.excluded | robot
    assert gone.sum() == 7  # the voxel, and one at the border with its five neighbours
    assert (made.evidence[gone] == 0).all()
    rest = ~gone & (counts == 0)
    assert (made.evidence[through & rest] == 0).all()
    assert (through & rest).sum() > 150
    assert (made.evidence[(behind | outside) & rest] == 1).all()
    assert (made.evidence[(counts >= 2) & ~gone] == 2).all()
    assert (made.seen[(counts >= 2) & ~gone] == 1200).all()
    # Occupied voxels beside the robot stay; evidence without recent hits expires.
    made.evidence[:], made.seen[:] = 3, 1000
    VOXELS.add_points(made, seen, 1, X, 0.05, 5.0)
    VOXELS.end_view(made, X, spheres, 1600, RULES)
    assert made.evidence[23, 10, 10] == 0
    assert made.evidence[23, 10, 11] == 3
    assert (made.evidence[(counts >= 2) & ~gone] == RULES.most).all()
    VOXELS.expire(made, 1500)
    assert ((made.evidence > 0) == (counts >= 2) & ~made.excluded & ~robot).mean() > 0.999


def test_each_direction_has_a_bin_around_it():
    rng, used = np.random.default_rng(5), set()
    for v in rng.normal(size=(400, 3)):
        face, row, column = VOXELS._bin(*v)
        axis, sign = face // 2, 1.0 - 2.0 * (face % 2)
        u = (np.array([row, column]) + 0.5) / (0.5 * VOXELS.SIDE) - 1.0
        middle = np.insert(u, axis, sign)
        assert np.abs(v / np.abs(v).max() - middle).max() <= 1.0 / VOXELS.SIDE + 1e-12
        used.add(face)
    assert used == set(range(VOXELS.FACES))
    last = VOXELS.SIDE - 1
    assert VOXELS._bin(1.0, 1.0, 1.0)[1:] == (last, last)
    assert VOXELS._bin(0.0, 0.0, 0.0)[0] in used


def test_a_room_is_seen_through_up_to_its_six_walls(monkeypatch):
    """The sensor is off-centre, so that all walls have different distances."""
    monkeypatch.setattr(VOXELS, "SIDE", 64)
    made = grid((20, 20, 20), (-10, -10, -10))
    low, high = np.array([-0.69, -0.68, -0.79]), np.array([0.71, 0.61, 0.69])
    rules = RULES._replace(margin=0.15)
    u, w = np.meshgrid(*[np.linspace(0.0, 1.0, 90)] * 2)
    walls = []
    for axis in range(3):
        for end in (low, high):
            share = np.insert(np.stack([u.ravel(), w.ravel()]), axis, 0.0, axis=0).T
            points = low + share * (high - low)
            points[:, axis] = end[axis]
            walls.append(points)
    turned = from_xyz_rpy((0.123, -0.077, 0.058), (0.4, -0.3, 2.0))
    seen = ((np.concatenate(walls) - turned[:3, 3]) @ turned[:3, :3]).astype(np.float32)
    made.evidence[:], made.seen[:] = 1, 1000
    VOXELS.add_points(made, seen, 1, turned, 0.05, 5.0)
    hit = made.points > 0
    VOXELS.end_view(made, turned, np.zeros((0, 4)), 1000, rules)
    at = centres(made)
    rays = at - turned[:3, 3]
    ends = np.where(rays > 0.0, high - turned[:3, 3], low - turned[:3, 3]) / rays
    beyond = (ends.min(axis=-1) - 1.0) * np.linalg.norm(rays, axis=-1)  # from voxel to wall
    assert (made.evidence[(beyond > 0.25) & ~hit] == 0).all()
    assert (made.evidence[(beyond < 0.0) & ~hit] == 1).all()  # also next to a wall


def test_a_single_pixel_clears_nothing():
    made, eye = grid((12, 8, 8), (0, -4, -4)), from_xyz_rpy((0.0, 0.05, 0.05))
    made.evidence[5, 4, 4] = 1  # straight ahead
    pixels = np.array([[1.0, 0.001, 0.001], [1.0, 0.009, 0.001]], np.float32)
    for count, left in ((1, 1), (2, 0)):
        VOXELS.add_points(made, pixels[:count], 1, eye, 0.05, 5.0)
        VOXELS.end_view(made, eye, np.zeros((0, 4)), 0, RULES)
        assert made.evidence[5, 4, 4] == left
