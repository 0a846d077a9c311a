# SPDX-License-Identifier: Apache-2.0
"""Sweeps of paths with exact shapes: coal, dense samples, and spheres on a rail in closed form."""

import itertools
import math

import numpy as np
import pytest
from kernels.plain_kernels import plain
from kernels.test_convex_distance import by_coal
from scipy.optimize import brentq

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.convex_pieces import pieces_of
from motion_nodes.kernels.collision import path_sweep, piece_arrays

SWEEP, ARRAYS = plain(path_sweep), plain(piece_arrays)
RAIL, BAR, POST = Box((0.1, 0.1, 0.1)), Box((0.5, 0.06, 0.08)), Cylinder(0.07, 0.5)
X_BAR, X_POST = from_xyz_rpy((0.25, 0.0, 0.0)), from_xyz_rpy((0.5, 0.3, 0.05), (0.2, 0.1, 0.0))


def reach(solid):
    size = {Box: lambda s: math.sqrt(sum(x * x for x in s.size)) / 2.0,
            Cylinder: lambda s: math.hypot(s.radius, s.length / 2.0),
            Sphere: lambda s: s.radius}  # fmt: skip
    return size[type(solid)](solid)


def pieces(*placed):
    made, owner = pieces_of([solid for solid, _ in placed])
    assert owner.tolist() == list(range(len(placed)))
    X = np.array([X @ np.vstack([made.X[k], [0, 0, 0, 1]]) for k, (_, X) in enumerate(placed)])
    reaches = np.array([reach(solid) for solid, _ in placed])
    return ARRAYS.Pieces(made.kind, made.size, X[:, :3], reaches, made.first, made.points)


@pytest.fixture(scope="module")
def crane():
    """A bar that turns on a carriage, beside a post: the tables of the sweep."""
    i = np.int32
    bodies = ARRAYS.PieceBodies(
        parent=np.array([-1, 0, 1], i), kind=np.array([0, 2, 1], i),
        X_PJ=np.stack([np.eye(4)] * 3), axis=np.array([[0, 0, 1], [1, 0, 0], [0, 0, 1.0]]),
        joint=np.array([-1, 0, 1], i), multiplier=np.ones(3), offset=np.zeros(3),
        row=np.array([1, 2], i), ball=np.array([[0, 0, 0, 0.09], [0.25, 0, 0, 0.26]]),
        first=np.array([0, 1, 2], i), chain_first=np.array([0, 1, 3], i),
        chain=np.array([1, 2, 1], i), pairs=np.empty((0, 4), i), apart=np.empty(0),
        pieces=pieces((RAIL, np.eye(4)), (BAR, X_BAR)),
    )  # fmt: skip
    corner = np.array([0.13, 0.13, 0.33])
    box = np.concatenate([X_POST[:3, 3] - corner, X_POST[:3, 3] + corner])[None]
    world = ARRAYS.PieceWorld(
        pieces((POST, X_POST)), np.zeros(1, i), box, box, box, np.ones((1, 2), np.int8)
    )
    work = ARRAYS.SweepWorkspace(
        np.empty((3, 3, 4)), np.empty((2, 3)), np.empty((2, 4)), np.empty((2, 3, 4)),
        np.zeros((6, 3)), np.empty((2, 2)), np.empty((60, 2)), np.empty((60, 2), i),
        np.empty((400, 3), i),
    )  # fmt: skip
    return ARRAYS.Table(bodies, world, work, 0.0)


def clearance(q):
    """Return the distance of the crane from the post, by coal."""
    X = from_xyz_rpy((q[0], 0.0, 0.0))
    turned = from_xyz_rpy((q[0], 0.0, 0.0), (0.0, 0.0, q[1])) @ X_BAR
    return min(by_coal(RAIL, X, POST, X_POST), by_coal(BAR, turned, POST, X_POST))


def test_single_configurations_are_judged_as_by_coal(crane):
    Q = np.random.default_rng(5).uniform((-0.1, -0.6), (0.6, 1.6), (40, 2))
    free = np.array([sweep(crane, [q])[0] == ARRAYS.FREE for q in Q])
    distances = np.array([clearance(q) for q in Q])
    sure = np.abs(distances) > 1e-6
    np.testing.assert_array_equal(free[sure], distances[sure] > 0.0)
    assert 2 <= (~free).sum() <= 20


def sweep(crane, path, finest=1e-5):
    path = np.asarray(path, float)
    steps = np.abs(np.diff(path, axis=0))
    places = np.concatenate([[0.0], np.cumsum(steps.max(axis=1))])
    variation = np.concatenate([np.zeros((1, 2)), np.cumsum(steps, axis=0)])
    contacts, out = np.zeros((1, 3), np.int32), np.empty(4)
    code = SWEEP.sweep(crane, path, places, variation, 1, finest, contacts, out)
    return code, out, contacts


def test_paths_are_proven_free_or_in_collision_as_dense_samples_say(crane):
    rng, outcomes = np.random.default_rng(6), []
    for _ in range(12):
        path = rng.uniform((-0.1, -0.6), (0.6, 1.6), (3, 2))
        dense = np.concatenate([
            a + np.linspace(0.0, 1.0, 60)[:, None] * (b - a)
            for a, b in itertools.pairwise(path)
        ])  # fmt: skip
        least = min(clearance(q) for q in dense)
        if abs(least) < 0.01:
            continue
        code, out, contacts = sweep(crane, path)
        assert code == (ARRAYS.FREE if least > 0.0 else ARRAYS.COLLISION)
        outcomes.append(code)
        if code == ARRAYS.COLLISION:
            assert contacts[0, 2] in (-1, -2)
            assert out[3] == 1.0
        else:
            assert out[1] == 0.0
            assert out[0] < 200  # large steps where it is far
    assert ARRAYS.FREE in outcomes
    assert ARRAYS.COLLISION in outcomes
    grazing = crane._replace(clearance=0.05)
    for q in rng.uniform((-0.1, -0.6), (0.6, 1.6), (10, 2)):
        if abs(clearance(q) - 0.05) > 1e-6:
            assert (sweep(grazing, [q])[0] == ARRAYS.FREE) == (clearance(q) > 0.05)


def test_a_collision_between_free_ends_and_a_free_middle_is_found(crane):
    start = (0.1, 0.2)
    ends = ((3.0, ARRAYS.COLLISION), (5.9, ARRAYS.COLLISION), (-2.6, ARRAYS.FREE))
    for angle, expected in ends:
        end = (0.1, angle)
        middle = np.mean([start, end], axis=0)
        assert min(clearance(q) for q in (start, middle, end)) > 0.0
        assert sweep(crane, [start, end])[0] == expected
        assert sweep(crane, [end, start])[0] == expected


def test_both_ends_of_a_path_are_checked_however_short_the_collision_is(crane):
    contact = brentq(lambda angle: clearance((0.1, angle)), 0.2, 0.5, xtol=1e-12)
    for depth, expected in ((1e-6, ARRAYS.COLLISION), (-1e-6, ARRAYS.FREE)):
        path = [(0.1, 0.1), (0.1, contact + depth)]
        for way in (path, path[::-1]):
            code, out, _ = sweep(crane, way, finest=1e-4)
            assert code == expected
            if code == ARRAYS.FREE:
                assert out[1] <= 1e-3  # unproven beside the contact only


def test_waypoints_of_unequal_motion_bound_both_sides(crane):
    """The bar turns in the last hundredth of a path whose first part turns nothing."""
    turn = [(0.1, 0.2), (0.1, 3.0)]
    places, variation = np.array([0.0, 0.99, 1.0]), np.array([[0, 0], [0, 0], [0, 2.8]])
    for path in ([turn[0], turn[0], turn[1]], [turn[1], turn[1], turn[0]]):
        for back in (False, True):
            q, at, total = np.array(path), places, variation
            if back:
                q, at, total = q[::-1].copy(), 1.0 - at[::-1], total[-1] - total[::-1]
            contacts, out = np.zeros((1, 3), np.int32), np.empty(4)
            code = SWEEP.sweep(crane, q, at, total.astype(float), 1, 1e-5, contacts, out)
            assert code == ARRAYS.COLLISION


def test_motion_of_bodies_is_bounded_by_the_arcs_of_their_balls(crane):
    """The bar on the carriage: both motions add up; the carriage alone moves as far as its joint.

    Turned around, the carriage on the bar: what it slid farther out, it moves on a wider arc.
    """
    moved, motion = np.array([0.3, 0.2]), np.zeros((2, 3))
    X = np.random.default_rng(7).normal(size=(3, 3, 4))
    axis = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.6, 0.8]])
    X[:, :, :3] = from_xyz_rpy((0.0, 0.0, 0.0), (0.4, -0.3, 0.9))[:3, :3]
    bodies = crane.bodies._replace(axis=axis, multiplier=np.array([1.0, 2.0, -0.5]))
    SWEEP._motions(bodies, X, moved, motion)
    lever = X[2, :, :3] @ np.cross(axis[2], bodies.ball[1, :3])
    turn = 0.5 * 0.2 * (np.linalg.norm(lever) + 0.26)
    assert motion[0, :2] == pytest.approx([0.0, 0.6])
    assert motion[1] == pytest.approx([0.0, turn, turn + 0.6])
    i = np.int32
    bodies = bodies._replace(chain=np.array([1, 1, 2], i), row=np.array([1, 1], i))
    SWEEP._motions(bodies, X, moved, motion)
    centre = X[1, :, :3] @ bodies.ball[1, :3] + X[1, :, 3]
    lever = np.cross(X[2, :, :3] @ axis[2], centre - X[2, :, 3])
    turn = 0.5 * 0.2 * (np.linalg.norm(lever) + 0.26 + 0.6)
    assert motion[1] == pytest.approx([0.0, 0.6, 0.6 + turn])


def test_distances_from_a_box_are_those_of_the_closest_point():
    rng, box = np.random.default_rng(9), np.array([-0.2, 0.1, -0.5, 0.3, 0.4, -0.1])
    for point in rng.uniform(-1.0, 1.0, (30, 3)):
        away = point - np.clip(point, box[:3], box[3:])
        assert SWEEP._beyond(box, *point) == pytest.approx(away @ away)


@pytest.fixture(scope="module", params=[(0.0, 0.0, 0.0), (0.0, -0.5, 0.7)])
def rail(crane, request):
    """A sphere on a rail, in two directions, between one of the robot and one of the world.

    Their surfaces are 0.8 m from its centre position; 0.02 m and 0.05 m must remain.
    """
    i, ball, turn = np.int32, Sphere(0.1), from_xyz_rpy((0.0, 0.0, 0.0), request.param)
    away = turn @ from_xyz_rpy((1.0, 0.0, 0.0))
    back, place = turn @ from_xyz_rpy((-1.0, 0.0, 0.0)), away[:3, 3]
    bodies = crane.bodies._replace(
        X_PJ=np.stack([np.eye(4), turn, np.eye(4)]),
        row=np.array([1, 0], i), ball=np.array([[0, 0, 0, 0.1], [*back[:3, 3], 0.1]]),
        chain_first=np.array([0, 1, 1], i), chain=np.array([1], i),
        pairs=np.array([[0, 1, 1, 0]], i), apart=np.array([0.02]),
        pieces=pieces((ball, np.eye(4)), (ball, back)),
    )  # fmt: skip
    box = np.concatenate([place - 0.1, place + 0.1])[None]
    world = crane.world._replace(pieces=pieces((ball, away)), boxes=box, blocks=box, branches=box)
    return crane._replace(bodies=bodies, world=world, clearance=0.05)


@pytest.mark.parametrize(("limit", "contact"), [(0.75, (0, 0, -1)), (-0.78, (0, 1, 0))])
def test_required_distances_of_world_and_pairs_are_exact(rail, limit, contact):
    for share, expected in ((1.0 + 1e-3, ARRAYS.COLLISION), (1.0 - 1e-3, ARRAYS.FREE)):
        end = (share * limit, 0.0)
        code, out, contacts = sweep(rail, [end])
        assert (code, out[0]) == (expected, 1.0)
        # Between ends far away it is close for a short time only.
        for path in ([(0.0, 0.0), end], [(0.0, 0.0), end, (0.3 * limit, 0.0)]):
            code, out, contacts = sweep(rail, path, finest=1e-6)
            assert code == expected
            if code == ARRAYS.COLLISION:
                assert tuple(contacts[0]) == contact
            else:
                assert out[1] == 0.0
