# SPDX-License-Identifier: Apache-2.0
"""Collision shapes of shipped arms contain the meshes that their manufacturers publish.

``published_extremes.json`` has the extreme points of the published meshes in evenly spread
directions; ``tools/fit_collision_shapes.py --extremes`` wrote it.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box, Mesh
from motion_nodes.core.scene.link_geometry import dense_points, triangles_of
from motion_nodes.core.scene.mesh_file import read_mesh
from motion_nodes.tolerances import RESTING_DEPTH
from motion_nodes.typing import Array

EXTREMES = json.loads(Path(__file__).with_name("published_extremes.json").read_text())
EXCESS = 0.002
"""Max excess of shapes over the meshes [m]."""
STICK_OUT = 0.003
"""Max excess of shapes over the collision spheres [m]."""
FINGER = (
    ((0.0, 0.0185, 0.011), (0.022, 0.015, 0.02), 0.0),
    ((0.0, 0.0068, 0.0022), (0.022, 0.0088, 0.0038), 0.0),
    ((0.0, 0.0159, 0.02835), (0.0175, 0.007, 0.0235), math.pi / 6.0),
    ((0.0, 0.00758, 0.04525), (0.0175, 0.0152, 0.0185), 0.0),
)
"""Left finger in ``franka_hand.xacro`` of franka_ros: centre, size [m], rotation about x [rad]."""


@pytest.fixture(scope="module", params=sorted(EXTREMES))
def robot(request: pytest.FixtureRequest) -> Robot:
    return load_robot(request.param)


def hull_of(robot: Robot, link: str) -> ConvexHull:
    """Return the one mesh that is a link's collision geometry."""
    (shape,) = robot.tree.links[link].collisions
    assert isinstance(shape.geometry, Mesh)
    np.testing.assert_array_equal(shape.X_LG, np.eye(4))
    return ConvexHull(read_mesh(robot.mesh_path(shape.geometry.filename)).vertices)


def test_each_published_mesh_has_a_shape(robot: Robot) -> None:
    links = set(EXTREMES[robot.name]["links"])
    solid = {name for name, link in robot.tree.links.items() if link.collisions}
    fingers = {f"{arm}_{side}finger" for arm in ("panda", "fr3") for side in ("left", "right")}
    assert solid - fingers == links


def test_extreme_points_of_the_meshes_are_inside(robot: Robot) -> None:
    """By more than half of RESTING_DEPTH, by which verification moves surfaces inwards."""
    for link, points in EXTREMES[robot.name]["links"].items():
        planes = hull_of(robot, link).equations
        height = np.array(points) @ planes[:, :3].T + planes[:, 3]
        assert height.max() < -0.5 * RESTING_DEPTH, link


def test_a_shape_ends_close_to_the_mesh(robot: Robot) -> None:
    """In each direction the shape extends hardly farther than the mesh's extreme point."""
    lattice = directions(48)
    for link, points in EXTREMES[robot.name]["links"].items():
        vertices = hull_of(robot, link).points
        mesh = np.einsum("di,di->d", np.array(points), lattice)
        beyond = (vertices @ lattice.T).max(axis=0) - mesh
        assert beyond.min() > 0.0, link
        assert beyond.max() < EXCESS + 1e-5, link


def directions(count: int) -> Array:
    """Return the directions of the file's points, a Fibonacci lattice, shape (d, 3)."""
    z = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    angle = np.pi * (3.0 - np.sqrt(5.0)) * np.arange(count)
    width = np.sqrt(1.0 - z**2)
    return np.column_stack((width * np.cos(angle), width * np.sin(angle), z))


@pytest.mark.long
def test_shapes_stick_out_of_the_spheres_by_no_more_than_stated(robot: Robot) -> None:
    for name, link in robot.tree.links.items():
        if not link.collisions:
            continue
        corners = np.concatenate([triangles_of(s, robot.mesh_path) for s in link.collisions])
        points, spheres = dense_points(corners, 0.004), np.array(robot.spheres[name])
        beyond = np.full(len(points), np.inf)
        for sphere in spheres:
            away = np.linalg.norm(points - sphere[:3], axis=1) - sphere[3]
            np.minimum(beyond, away, out=beyond)
        assert beyond.max() < STICK_OUT + 1e-4, name


@pytest.mark.parametrize(("link", "side"), [("panda_leftfinger", 1.0), ("panda_rightfinger", -1.0)])
def test_the_fingers_contain_the_published_boxes(link: str, side: float) -> None:
    shapes = load_robot("franka").tree.links[link].collisions
    corners = 0.5 * np.stack(np.meshgrid(*3 * [(-1.0, 1.0)]), axis=-1).reshape(-1, 3)
    for (x, y, z), size, turn in FINGER:
        X = from_xyz_rpy((x, side * y, z), (side * turn, 0.0, 0.0))
        points = (corners * size) @ X[:3, :3].T + X[:3, 3]
        margins = []
        for shape in shapes:
            assert isinstance(shape.geometry, Box)
            local = (points - shape.X_LG[:3, 3]) @ shape.X_LG[:3, :3]
            margins.append((0.5 * np.array(shape.geometry.size) - np.abs(local)).min())
        assert max(margins) > 0.5 * RESTING_DEPTH
