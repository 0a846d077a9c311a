# SPDX-License-Identifier: Apache-2.0
"""Bounding boxes of meshes and compound objects."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.scene import WorldObject, world_object
from motion_nodes.core.scene.shapes import HalfSpace, triangle_mesh
from motion_nodes.extras.tasks.skill_poses import places_at, places_on
from motion_nodes.extras.tasks.world_state import ObjectState, composite_of

RNG = np.random.default_rng(4)


def random_pose() -> np.ndarray:
    return from_xyz_rpy(RNG.uniform(-0.5, 0.5, 3), RNG.uniform(-3.0, 3.0, 3))


def mug() -> WorldObject:
    shape = trimesh.creation.annulus(0.025, 0.03, 0.09)
    mesh = triangle_mesh(shape.vertices, shape.faces)
    return world_object("mug", (mesh, Box((0.03, 0.01, 0.05))), random_pose(),
                        poses=(np.eye(4), from_xyz_rpy((0.04, 0.0, 0.0))))  # fmt: skip


def test_the_box_of_a_mug_with_its_handle() -> None:
    found = composite_of(mug())
    assert found is not None
    assert found.box.size == pytest.approx((0.085, 0.06, 0.09), abs=1e-3)
    assert found.X_OB[:3, 3] == pytest.approx((0.0125, 0.0, 0.0), abs=1e-3)


@pytest.mark.parametrize("shape", [Box((0.1, 0.2, 0.3)), Cylinder(0.05, 0.2), Sphere(0.07)])
def test_a_turned_part_is_inside(shape: Box | Cylinder | Sphere) -> None:
    item = world_object("part", (shape, Sphere(0.01)), poses=(random_pose(), np.eye(4)))
    found = composite_of(item)
    assert found is not None
    half = 0.5 * np.array(found.box.size)
    directions = RNG.normal(size=(200, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    inner = (min(shape.size) / 2 if isinstance(shape, Box) else shape.radius) * directions
    points = inner @ item.parts[0].X_OS[:3, :3].T + item.parts[0].X_OS[:3, 3]
    assert (np.abs(points - found.X_OB[:3, 3]) <= half + 1e-9).all()


def test_the_object_comes_back_where_its_box_is() -> None:
    item = mug()
    found = composite_of(item)
    assert found is not None
    back = found.at("mug", item.X_WO @ found.X_OB)
    np.testing.assert_allclose(back.X_WO, item.X_WO, atol=1e-12)
    assert [part.solid for part in back.parts] == [part.solid for part in item.parts]
    X_LB = random_pose()
    np.testing.assert_allclose(found.in_link(X_LB) @ found.X_OB, X_LB, atol=1e-12)


def test_places_are_beside_the_parts_not_within_the_bounding_box() -> None:
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


def test_what_has_no_bounds_has_no_box() -> None:
    assert composite_of(world_object("ground", HalfSpace())) is None
