# SPDX-License-Identifier: Apache-2.0
"""Geometry of grasps and placements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.extras.tasks.skill_poses import grasps_of, levelled, places_at, places_on
from motion_nodes.extras.tasks.world_state import ObjectState, half_extents

RNG = np.random.default_rng(2)
SHAPES = [Box((0.05, 0.04, 0.06)), Cylinder(0.03, 0.1), Sphere(0.03)]


def resting(shape, yaw: float, name: str = "item") -> ObjectState:
    z = half_extents(shape)[2]
    return ObjectState(name, from_xyz_rpy((*RNG.uniform(-0.5, 0.5, 2), z), (0.0, 0.0, yaw)), shape)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("yaw", [0.0, 0.3, 2.0])
def test_fingers_close_on_the_object(shape, yaw: float) -> None:
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


def test_too_wide_objects_have_no_grasp() -> None:
    assert grasps_of(resting(Box((0.2, 0.2, 0.05)), 0.0), 0.08) == []
    one_side = grasps_of(resting(Box((0.2, 0.04, 0.05)), 0.5), 0.08)
    assert {round(grasp.width, 3) for grasp in one_side} == {0.04}


def test_places_rest_on_the_surface_clear_of_others() -> None:
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


def test_full_surfaces_have_no_place() -> None:
    table = resting(Box((0.1, 0.1, 0.4)), 0.0, "table")
    on_it = ObjectState("o", table.X_WO + 0.25 * np.eye(4)[:, 2:3] @ np.eye(4)[3:4], SHAPES[0])
    assert places_on(table, resting(SHAPES[0], 0.0), {"o": on_it}) == []
    assert places_on(resting(Sphere(0.1), 0.0), resting(SHAPES[0], 0.0), {}) == []


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
def test_tilted_objects_are_levelled_by_the_least_turn(shape) -> None:
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


def test_a_lying_cylinder_is_grasped_across_its_axis_at_its_centre() -> None:
    lying = ObjectState(
        "can", from_xyz_rpy((0.4, 0.1, 0.03), (np.pi / 2, 0.0, 0.4)), Cylinder(0.03, 0.1)
    )
    grasp = grasps_of(lying, 0.08)[0]
    assert abs(grasp.X_WG[:3, 1] @ lying.X_WO[:3, 2]) < 1e-9
    assert grasp.X_WG[2, 3] == pytest.approx(0.03)
    assert levelled(lying).X_WO[2, 2] == pytest.approx(0.0)


def test_a_box_on_its_side_is_a_surface_of_that_side() -> None:
    side = ObjectState(
        "box", from_xyz_rpy((0.4, 0.1, 0.05), (np.pi / 2, 0.0, 0.4)), Box((0.3, 0.1, 0.2))
    )
    poses = places_on(side, resting(Sphere(0.02), 0.0), {})
    local = np.array([np.linalg.inv(side.X_WO) @ pose[:, 3] for pose in poses])
    assert np.allclose(local[:, 1], 0.07)
    assert np.abs(local[:, 0]).max() > 0.1
    assert np.abs(local[:, 2]).max() > 0.05


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
def test_points_are_on_the_plane_on_what_is_there_or_at_their_height(shape) -> None:
    item = resting(shape, 0.3)
    table = ObjectState(
        "table", from_xyz_rpy((0.5, 0.2, 0.2), (0.0, 0.0, 0.4)), Box((0.4, 0.3, 0.1))
    )
    for point, height in (((0.5, -0.4), 0.0), ((0.52, 0.18), 0.25), ((0.52, 0.18, 0.3), 0.3)):
        (pose,) = places_at(point, item, {"table": table, "item": item})
        assert pose[:2, 3] == pytest.approx(point[:2])
        placed = replace(item, X_WO=pose)
        assert placed.bottom == pytest.approx(height, abs=1e-9)


def test_points_without_room() -> None:
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
