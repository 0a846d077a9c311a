# SPDX-License-Identifier: Apache-2.0
"""Geometry of grasps, placements, strokes and handles; bounding boxes of compounds."""

from dataclasses import replace

import numpy as np
import pytest
import trimesh

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.scene import WorldObject, world_object
from motion_nodes.core.scene.shapes import HalfSpace, triangle_mesh
from motion_nodes.extras.tasks.skill_poses import (
    FRICTION,
    MAX_POSES,
    TIP,
    backed,
    contact_pairs,
    grasps_of,
    handle_grasps,
    levelled,
    moved,
    places_at,
    places_on,
    strokes_over,
)
from motion_nodes.extras.tasks.world_state import ObjectState, composite_of, half_extents

RNG = np.random.default_rng(2)
SHAPES = [Box((0.05, 0.04, 0.06)), Cylinder(0.03, 0.1), Sphere(0.03)]


def resting(shape, yaw: float, name: str = "item") -> ObjectState:
    z = half_extents(shape)[2]
    return ObjectState(name, from_xyz_rpy((*RNG.uniform(-0.5, 0.5, 2), z), (0.0, 0.0, yaw)), shape)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("yaw", [0.0, 0.3, 2.0])
def test_fingers_close_on_the_object(shape, yaw):
    item = resting(shape, yaw)
    grasps = grasps_of(item, 0.08)
    assert grasps
    for grasp in grasps:
        R = grasp.X_WG[:3, :3]
        assert np.allclose(R @ R.T, np.eye(3), atol=1e-12)
        assert np.linalg.det(R) == pytest.approx(1.0)
        # The closing direction passes through the object: its extent along it is the width.
        closing = item.X_WO[:3, :3].T @ R[:, 1]
        half = half_extents(shape)
        extent = 2.0 * np.abs(closing) @ half if isinstance(shape, Box) else 2.0 * shape.radius
        assert grasp.width == pytest.approx(extent)
        assert item.bottom < grasp.X_WG[2, 3] < item.top


def test_too_wide_objects_have_no_grasp():
    assert grasps_of(resting(Box((0.2, 0.2, 0.05)), 0.0), 0.08) == []
    one_side = grasps_of(resting(Box((0.2, 0.04, 0.05)), 0.5), 0.08)
    assert {round(grasp.width, 3) for grasp in one_side} == {0.04}


def test_places_rest_on_the_surface_clear_of_others():
    table = resting(Box((0.6, 0.4, 0.4)), 0.7, "table")
    item = resting(SHAPES[0], 0.2)
    others = {"table": table, "item": item}
    for i in range(4):
        shape = SHAPES[i % 3]
        at = table.X_WO @ [*RNG.uniform(-0.15, 0.15, 2), 0.0, 1.0]
        pose = np.eye(4)
        pose[:3, 3] = [at[0], at[1], table.top + half_extents(shape)[2]]
        others[f"o{i}"] = ObjectState(f"o{i}", pose, shape)
    places = places_on(table, item, others)
    assert places
    for pose in places:
        assert pose[2, 3] - half_extents(item.shape)[2] == pytest.approx(table.top)
        local = np.linalg.inv(table.X_WO) @ pose[:, 3]
        assert np.all(np.abs(local[:2]) <= [0.3, 0.2])
        for i in range(4):
            other = others[f"o{i}"]
            gap = np.linalg.norm(pose[:2, 3] - other.X_WO[:2, 3])
            assert gap > np.linalg.norm(half_extents(other.shape)[:2]) + 0.03


def test_full_surfaces_have_no_place():
    table = resting(Box((0.1, 0.1, 0.4)), 0.0, "table")
    on_it = ObjectState("o", table.X_WO + 0.25 * np.eye(4)[:, 2:3] @ np.eye(4)[3:4], SHAPES[0])
    assert places_on(table, resting(SHAPES[0], 0.0), {"o": on_it}) == []
    assert places_on(resting(Sphere(0.1), 0.0), resting(SHAPES[0], 0.0), {}) == []


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
def test_tilted_objects_are_levelled_by_the_least_turn(shape):
    item = resting(shape, 0.7)
    tilt = from_xyz_rpy((0.0, 0.0, 0.0), (0.15, -0.2, 0.0))
    level = levelled(replace(item, X_WO=item.X_WO @ tilt))
    again = levelled(level)
    assert np.allclose(again.X_WO, level.X_WO)
    assert np.allclose(level.X_WO[:3, 3], item.X_WO[:3, 3])
    if not isinstance(shape, Sphere):
        assert abs(level.X_WO[2, 2]) == pytest.approx(1.0)
        turned = level.X_WO[:3, :3] @ (item.X_WO @ tilt)[:3, :3].T
        least = np.arccos((item.X_WO @ tilt)[2, 2])
        assert np.arccos(0.5 * (np.trace(turned) - 1.0)) == pytest.approx(least)


def test_a_lying_cylinder_is_grasped_across_its_axis_at_its_centre():
    lying = ObjectState(
        "can", from_xyz_rpy((0.4, 0.1, 0.03), (np.pi / 2, 0.0, 0.4)), Cylinder(0.03, 0.1)
    )
    grasp = grasps_of(lying, 0.08)[0]
    assert abs(grasp.X_WG[:3, 1] @ lying.X_WO[:3, 2]) < 1e-9
    assert grasp.X_WG[2, 3] == pytest.approx(0.03)
    assert levelled(lying).X_WO[2, 2] == pytest.approx(0.0)


def test_a_box_on_its_side_is_a_surface_of_that_side():
    side = ObjectState(
        "box", from_xyz_rpy((0.4, 0.1, 0.05), (np.pi / 2, 0.0, 0.4)), Box((0.3, 0.1, 0.2))
    )
    poses = places_on(side, resting(Sphere(0.02), 0.0), {})
    local = np.array([np.linalg.inv(side.X_WO) @ pose[:, 3] for pose in poses])
    assert np.allclose(local[:, 1], 0.07)
    assert np.abs(local[:, 0]).max() > 0.1
    assert np.abs(local[:, 2]).max() > 0.05


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
def test_points_are_on_the_plane_on_what_is_there_or_at_their_height(shape):
    item = resting(shape, 0.3)
    table = ObjectState(
        "table", from_xyz_rpy((0.5, 0.2, 0.2), (0.0, 0.0, 0.4)), Box((0.4, 0.3, 0.1))
    )
    for point, height in (((0.5, -0.4), 0.0), ((0.52, 0.18), 0.25), ((0.52, 0.18, 0.3), 0.3)):
        (pose,) = places_at(point, item, {"table": table, "item": item})
        assert pose[:2, 3] == pytest.approx(point[:2])
        placed = replace(item, X_WO=pose)
        assert placed.bottom == pytest.approx(height, abs=1e-9)


def test_points_without_room():
    item = resting(Box((0.05, 0.05, 0.05)), 0.0)
    table = ObjectState("table", from_xyz_rpy((0.5, 0.0, 0.1)), Box((0.2, 0.2, 0.2)))
    cup = ObjectState("cup", from_xyz_rpy((0.5, 0.5, 0.05)), Cylinder(0.03, 0.1))
    others = {"table": table, "cup": cup}
    assert places_at((0.5, 0.0), item, others)
    assert not places_at((0.59, 0.0), item, others), "beyond the edge of the table"
    assert not places_at((0.62, 0.0), item, others), "half on the table"
    assert not places_at((0.5, 0.0, 0.1), item, others), "inside the table"
    assert not places_at((0.53, 0.5), item, others), "on a part of the cup"
    assert not places_at((0.56, 0.5, 0.0), item, others), "too close to the cup"
    assert places_at((0.7, 0.5), item, others)


OPEN = 0.08


def l_shape() -> trimesh.Trimesh:
    """Return an L with legs of 12 and 8 cm, 3 cm wide and 4 cm high."""
    corners = np.array(((0, 0), (0.12, 0), (0.12, 0.03), (0.03, 0.03), (0.03, 0.08), (0, 0.08)))
    top = [(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)]
    V = np.array([(*c, z) for z in (0.0, 0.04) for c in corners])
    sides = [
        f
        for i in range(6)
        for f in ((i, (i + 1) % 6, (i + 1) % 6 + 6), (i, (i + 1) % 6 + 6, i + 6))
    ]
    faces = [tuple(reversed(t)) for t in top] + [tuple(k + 6 for k in t) for t in top] + sides
    made = trimesh.Trimesh(V, faces, process=False)
    assert made.is_watertight
    assert made.volume == pytest.approx((0.12 * 0.03 + 0.03 * 0.05) * 0.04)
    return made


SHAPES_ANTIPODAL = {
    "l": l_shape,
    "torus": lambda: trimesh.creation.torus(0.045, 0.012, 48, 24),
    "mug": lambda: trimesh.creation.annulus(0.025, 0.03, 0.08),
    "ball": lambda: trimesh.creation.icosphere(3, 0.03),
    "box": lambda: trimesh.creation.box((0.05, 0.1, 0.04)),
    "cone": lambda: trimesh.creation.cone(0.03, 0.08),
}


def state_of(shape: trimesh.Trimesh, yaw: float = 0.4) -> tuple[ObjectState, trimesh.Trimesh]:
    """Return the object on the floor, and its surface in the world."""
    X = from_xyz_rpy((0.5, 0.1, -shape.bounds[0, 2]), (0.0, 0.0, yaw))
    item = world_object("part", triangle_mesh(shape.vertices, shape.faces), X)
    found = composite_of(item)
    assert found is not None
    return ObjectState(
        "part", X @ found.X_OB, found.box, mesh=found.mesh
    ), shape.copy().apply_transform(X)


def normals_at(surface: trimesh.Trimesh, point: np.ndarray) -> np.ndarray:
    """Return the normals of the triangles that contain a point, shape (k, 3)."""
    T, near = surface.triangles, []
    for (a, b, c), normal in zip(T, surface.face_normals, strict=True):
        if abs((point - a) @ normal) > 1e-6:
            continue
        sides = [np.cross(v - u, point - u) @ normal for u, v in ((a, b), (b, c), (c, a))]
        if min(sides) >= -1e-9:
            near.append(normal)
    return np.array(near).reshape(-1, 3)


def inside_l(points: np.ndarray) -> np.ndarray:
    """Return whether points are in the L, seen from above, in the world."""
    local = points - [0.5, 0.1, 0.0]
    x, y = local[:, 0], local[:, 1]
    return (x > 0) & (y > 0) & (x < 0.12) & (y < 0.08) & ((x < 0.03) | (y < 0.03))


@pytest.mark.long
@pytest.mark.parametrize("name", SHAPES_ANTIPODAL)
def test_each_pair_is_antipodal_on_the_surface_and_fits(name):
    target, surface = state_of(SHAPES_ANTIPODAL[name]())
    pairs = contact_pairs(target, target.mesh, OPEN, 0.03)
    if name == "cone":
        # Its sides of 69 degrees are outside the friction cones of a horizontal line.
        assert np.arctan2(0.03, 0.08) < np.arctan(FRICTION)
    assert len(pairs) >= 5
    assert [p.score for p in pairs] == sorted(p.score for p in pairs)
    for pair in pairs:
        assert pair.closing[2] == 0.0
        assert np.linalg.norm(pair.closing) == pytest.approx(1.0)
        ends = pair.centre + np.outer((-0.5, 0.5), pair.width * pair.closing)
        for end, outward in zip(ends, (-pair.closing, pair.closing), strict=True):
            normals = normals_at(surface, end)
            assert len(normals), "not on the surface"
            assert (normals @ outward).max() >= np.cos(np.arctan(FRICTION)) - 1e-6
        assert pair.width < OPEN
        assert pair.centre[2] >= TIP - 1e-9


def test_an_l_is_grasped_by_its_legs_never_across_its_corner():
    target, _ = state_of(SHAPES_ANTIPODAL["l"](), yaw=0.0)
    pairs = contact_pairs(target, target.mesh, OPEN, 0.03)
    assert {round(pair.width, 6) for pair in pairs} <= {0.03, 0.08}
    # The centre of its bounding box is in the air.
    assert not inside_l(target.X_WO[None, :3, 3])[0]
    assert inside_l(np.array([pair.centre for pair in pairs])).all()
    boxed = grasps_of(replace(target, mesh=None), 0.09)
    assert any(not inside_l(g.X_WG[None, :3, 3])[0] for g in boxed)


def test_a_lying_torus_is_grasped_by_its_ring():
    target, _ = state_of(SHAPES_ANTIPODAL["torus"]())
    pairs = contact_pairs(target, target.mesh, OPEN, 0.03)
    assert len(pairs) >= 5
    for pair in pairs:
        away = pair.centre[:2] - target.X_WO[:2, 3]
        assert 0.045 - 0.012 < np.linalg.norm(away) < 0.045 + 0.012
        depth = pair.centre[2] - target.X_WO[2, 3]
        half = np.sqrt(0.012**2 - depth**2)
        # Chords of a circle about the axis, cut through the ring, are at least its thickness.
        assert pair.width >= 2.0 * half - 1e-3


def test_a_mug_is_grasped_around_its_middle_first():
    target, _ = state_of(SHAPES_ANTIPODAL["mug"]())
    best = contact_pairs(target, target.mesh, OPEN, 0.06)[0]
    assert best.width == pytest.approx(0.06, abs=1e-3)
    assert best.centre[:2] == pytest.approx((0.5, 0.1), abs=2e-3)


def test_grasps_close_along_the_pairs_from_above():
    target, _ = state_of(SHAPES_ANTIPODAL["box"]())
    grasps = grasps_of(target, OPEN)
    assert grasps
    assert [g.rank for g in grasps] == sorted(g.rank for g in grasps)
    for grasp in grasps:
        R = grasp.X_WG[:3, :3]
        np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-12)
        assert np.linalg.det(R) == pytest.approx(1.0)
        assert R[:, 2] == pytest.approx((0.0, 0.0, -1.0))
        assert grasp.width == pytest.approx(0.05, abs=1e-6)
    assert grasps_of(target, 0.05) == []
    assert [g.width for g in grasps_of(target, OPEN)] == [g.width for g in grasps]


def test_a_block_that_is_too_deep_for_the_fingers_is_grasped_near_its_top():
    target, _ = state_of(trimesh.creation.box((0.05, 0.05, 0.3)))
    pairs = contact_pairs(target, target.mesh, OPEN, 0.28)
    assert pairs
    assert min(pair.centre[2] for pair in pairs) > 0.3 - 0.04 - 1e-9


def test_what_is_no_single_mesh_has_no_surface():
    assert composite_of(world_object("ground", HalfSpace())) is None
    two = composite_of(world_object("two", (Box((0.1, 0.1, 0.1)), Box((0.2, 0.02, 0.02)))))
    assert two is not None
    assert two.mesh is None


RNG_CONTACT_POSES = np.random.default_rng(7)
SPONGE = ObjectState(
    "sponge", from_xyz_rpy((0.0, 0.0, 0.3), (0.0, 0.1, 0.4)), Box((0.06, 0.04, 0.03))
)


@pytest.mark.parametrize("heading", [0.0, 0.7, -2.0])
def test_strokes_wipe_a_box_and_stay_on_it(heading):
    size = np.array((0.3, 0.22, 0.1))
    board = ObjectState(
        "board", from_xyz_rpy((0.5, 0.1, 0.05), (0.0, 0.0, heading)), Box(tuple(size))
    )
    poses = np.concatenate(strokes_over(board, SPONGE))
    for pose in poses:
        assert replace(SPONGE, X_WO=pose).bottom == pytest.approx(board.top)
    # The corners of the sponge stay above the board.
    signs = np.array([(a, b, c) for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
    corners = signs * half_extents(SPONGE.shape)
    world = np.einsum("nij,kj->nki", poses[:, :3, :3], corners) + poses[:, None, :3, 3]
    local = (world - board.X_WO[:3, 3]) @ board.X_WO[:3, :3]
    assert (np.abs(local[..., :2]) <= 0.5 * size[:2] + 1e-9).all()
    # Each point that a sponge inside the board can reach is covered at one of the poses.
    free = 0.5 * size[:2] - np.abs(local[..., :2] - (poses[:, None, :3, 3] - board.X_WO[:3, 3])
                                   @ board.X_WO[:3, :2]).max(axis=(0, 1))  # fmt: skip
    points = RNG_CONTACT_POSES.uniform(-free, free, (300, 2))
    at = board.X_WO[:2, 3] + points @ board.X_WO[:2, :2].T
    below = np.einsum("nji,nkj->nki", poses[:, :2, :2], at[None] - poses[:, None, :2, 3])
    assert (np.abs(below) <= half_extents(SPONGE.shape)[:2]).all(axis=2).any(axis=0).all()


def test_strokes_lie_side_by_side_in_one_direction():
    board = ObjectState("board", from_xyz_rpy((0.5, 0.0, 0.05)), Box((0.2, 0.3, 0.1)))
    strokes = [np.array(stroke)[:, :3, 3] for stroke in strokes_over(board, SPONGE)]
    assert sum(map(len, strokes)) > 20
    for stroke in strokes:
        steps = np.diff(stroke, axis=0)
        assert np.linalg.norm(steps, axis=1).max() < 0.06
        assert (steps @ (strokes[0][-1] - strokes[0][0]) > 0.0).all()
    starts = np.array([stroke[0] for stroke in strokes])
    assert np.linalg.norm(np.diff(starts, axis=0), axis=1).max() < 0.06


@pytest.mark.parametrize(
    "shape",
    [Sphere(0.1), Box((0.03, 0.03, 0.03)), Cylinder(0.01, 0.2)],
    ids=lambda s: type(s).__name__,
)
def test_what_has_no_room_is_not_wiped(shape):
    assert strokes_over(ObjectState("s", from_xyz_rpy((0.5, 0.0, 0.1)), shape), SPONGE) == []


def test_tilted_tops_are_not_wiped_and_round_ones_are():
    tilted = ObjectState("s", from_xyz_rpy((0.5, 0.0, 0.1), (0.2, 0.0, 0.0)), Box((0.3, 0.3, 0.1)))
    assert strokes_over(tilted, SPONGE) == []
    plate = ObjectState("p", from_xyz_rpy((0.5, 0.0, 0.1)), Cylinder(0.12, 0.02))
    poses = np.concatenate(strokes_over(plate, SPONGE))
    assert len(poses) > 4
    assert np.linalg.norm(poses[:, :2, 3] - [0.5, 0.0], axis=1).max() <= 0.12


@pytest.mark.parametrize("around", [0.0, 0.6, 2.5, -1.9])
@pytest.mark.parametrize("upright", [False, True])
def test_handles_are_grasped_from_the_base_across_their_length(around, upright):
    at = 0.6 * np.array([np.cos(around), np.sin(around), 0.0]) + [0.0, 0.0, 0.4]
    roll = 0.5 * np.pi if upright else 0.0
    for turn in (0.0, np.pi):
        X = from_xyz_rpy(at, (0.0, 0.0, around + turn)) @ from_xyz_rpy((0, 0, 0), (roll, 0.0, 0.0))
        handle = ObjectState("h", X, Box((0.012, 0.12, 0.016)))
        grasps = handle_grasps(handle, 0.08)
        assert len(grasps) == 2
        for grasp in grasps:
            R = grasp.X_WG[:3, :3]
            np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-12)
            assert np.linalg.det(R) == pytest.approx(1.0)
            assert R[:, 2] @ at > 0.59, "the approach is not away from the base"
            assert abs(R[:, 1] @ X[:3, 1]) < 1e-9, "the fingers do not close across the length"
            assert grasp.width == pytest.approx(0.016)
            nearer = backed(grasp.X_WG, 0.2)[:3, 3]
            assert np.linalg.norm(nearer[:2]) == pytest.approx(0.4)


@pytest.mark.parametrize(("shape", "width"), [(Cylinder(0.01, 0.12), 0.02), (Sphere(0.02), 0.04)])
def test_round_handles_are_pulled_straight_to_the_base(shape, width):
    handle = ObjectState("h", from_xyz_rpy((0.4, 0.3, 0.5)), shape)
    grasps = handle_grasps(handle, 0.08)
    assert len(grasps) == 2
    for grasp, sign in zip(grasps, (1.0, -1.0), strict=True):
        assert grasp.X_WG[:3, 2] == pytest.approx((0.8, 0.6, 0.0))
        assert sign * grasps[0].X_WG[:3, 1] == pytest.approx(grasp.X_WG[:3, 1])
        assert grasp.X_WG[2, 1] == pytest.approx(0.0), "the fingers do not close across the length"
        assert grasp.X_WG[:3, 3] == pytest.approx((0.4, 0.3, 0.5))
        assert grasp.width == pytest.approx(width)


def test_what_is_no_handle():
    assert (
        handle_grasps(ObjectState("h", from_xyz_rpy((0.6, 0.0, 0.4)), Box((0.2, 0.3, 0.2))), 0.08)
        == []
    )
    tilted = from_xyz_rpy((0.6, 0.0, 0.4), (0.0, 0.5, 0.0))
    assert handle_grasps(ObjectState("h", tilted, Box((0.012, 0.12, 0.016))), 0.08) == []
    assert moved(SPONGE, np.array((0.1, 0.0, 0.0))).X_WO[0, 3] == pytest.approx(0.1)


@pytest.mark.parametrize("size", [(1.6, 1.2, 0.1), (40.0, 0.03, 0.1)])
@pytest.mark.parametrize("heading", [0.0, np.pi])
def test_of_a_large_surface_the_part_nearest_to_the_base_is_wiped(size, heading):
    X_WO = from_xyz_rpy((0.9, 0.2, 0.05), (0.0, 0.0, heading))
    strokes = strokes_over(ObjectState("floor", X_WO, Box(size)), SPONGE)
    poses = np.array([pose for stroke in strokes for pose in stroke])
    assert 0.5 * MAX_POSES < len(poses) <= MAX_POSES
    nearest = np.linalg.norm(poses[:, :2, 3], axis=1).min()
    assert nearest < 0.3


RNG_COMPOSITE_OBJECTS = np.random.default_rng(4)


def random_pose() -> np.ndarray:
    return from_xyz_rpy(
        RNG_COMPOSITE_OBJECTS.uniform(-0.5, 0.5, 3), RNG_COMPOSITE_OBJECTS.uniform(-3.0, 3.0, 3)
    )


def mug() -> WorldObject:
    shape = trimesh.creation.annulus(0.025, 0.03, 0.09)
    mesh = triangle_mesh(shape.vertices, shape.faces)
    return world_object("mug", (mesh, Box((0.03, 0.01, 0.05))), random_pose(),
                        poses=(np.eye(4), from_xyz_rpy((0.04, 0.0, 0.0))))  # fmt: skip


def test_the_box_of_a_mug_with_its_handle():
    found = composite_of(mug())
    assert found is not None
    assert found.box.size == pytest.approx((0.085, 0.06, 0.09), abs=1e-3)
    assert found.X_OB[:3, 3] == pytest.approx((0.0125, 0.0, 0.0), abs=1e-3)


@pytest.mark.parametrize("shape", [Box((0.1, 0.2, 0.3)), Cylinder(0.05, 0.2), Sphere(0.07)])
def test_a_turned_part_is_inside(shape):
    item = world_object("part", (shape, Sphere(0.01)), poses=(random_pose(), np.eye(4)))
    found = composite_of(item)
    assert found is not None
    half = 0.5 * np.array(found.box.size)
    directions = RNG_COMPOSITE_OBJECTS.normal(size=(200, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    inner = (min(shape.size) / 2 if isinstance(shape, Box) else shape.radius) * directions
    points = inner @ item.parts[0].X_OS[:3, :3].T + item.parts[0].X_OS[:3, 3]
    assert (np.abs(points - found.X_OB[:3, 3]) <= half + 1e-9).all()


def test_the_object_comes_back_where_its_box_is():
    item = mug()
    found = composite_of(item)
    assert found is not None
    back = found.at("mug", item.X_WO @ found.X_OB)
    np.testing.assert_allclose(back.X_WO, item.X_WO, atol=1e-12)
    assert [part.solid for part in back.parts] == [part.solid for part in item.parts]
    X_LB = random_pose()
    np.testing.assert_allclose(found.in_link(X_LB) @ found.X_OB, X_LB, atol=1e-12)


def test_places_are_beside_the_parts_not_within_the_bounding_box():
    """Two walls at an angle leave space inside their bounding box."""
    heading = (0.0, 0.0, 0.7)
    walls = world_object(
        "walls", (Box((1.0, 0.02, 1.0)), Cylinder(0.02, 1.0)), np.eye(4),
        poses=(from_xyz_rpy((0.5, 0.0, 0.5), heading), from_xyz_rpy((0.5, 0.4, 0.5))),
    )  # fmt: skip
    found = composite_of(walls)
    assert found is not None
    fence = ObjectState("walls", walls.X_WO @ found.X_OB, found.box, parts=found.solids)
    for solid, part in zip(fence.solids, walls.parts, strict=True):
        np.testing.assert_allclose(solid.X_WO, walls.X_WO @ part.X_OS, atol=1e-12)
    cube = ObjectState("cube", from_xyz_rpy((0.0, 0.0, 0.02)), Box((0.04, 0.04, 0.04)))
    across = from_xyz_rpy((0.5, 0.0, 0.0), heading)[:2, :2] @ [0.0, 1.0]
    reach, edge = np.hypot(0.02, 0.02), 0.01
    for gap, free in ((reach + edge + 0.012, True), (reach + edge + 0.008, False), (0.0, False)):
        for sign in (1.0, -1.0):
            at = np.array([0.5, 0.0]) + sign * gap * across
            poses = places_at((*at, 0.0), cube, {"walls": fence})
            assert bool(poses) == free
            assert all(pose[2, 3] == pytest.approx(0.02) for pose in poses)
    tray = ObjectState("tray", from_xyz_rpy((0.25, 0.0, 0.01)), Box((0.1, 0.1, 0.02)))
    assert places_on(tray, cube, {"walls": fence, "tray": tray})


def test_what_has_no_bounds_has_no_box():
    assert composite_of(world_object("ground", HalfSpace())) is None
