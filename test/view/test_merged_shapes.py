# SPDX-License-Identifier: Apache-2.0
"""Parts of a link merged into one node: equal volume and pose, and few nodes."""

from __future__ import annotations

import numpy as np
import pytest
from view.toy_robot import pose

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.tree import Box, Cylinder, Mesh, Shape, Sphere
from motion_nodes.extras.viewer.robot_view import merged
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

PARTS = [
    (Box((0.1, 0.2, 0.3)), 0.1 * 0.2 * 0.3, (0.05, 0.1, 0.15)),
    (Cylinder(0.2, 0.5), np.pi * 0.04 * 0.5, (0.2, 0.2, 0.25)),
    (Sphere(0.3), 4.0 / 3.0 * np.pi * 0.027, (0.3, 0.3, 0.3)),
]


def enclosed(triangles):
    """Return the volume of outward-facing triangles [m^3], by the divergence theorem."""
    a, b, c = (triangles.vertices[triangles.faces[:, k]] for k in range(3))
    return float(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6.0)


@pytest.mark.parametrize(("geometry", "volume", "half"), PARTS, ids=["box", "cylinder", "sphere"])
def test_a_part_keeps_its_volume_its_size_and_its_place(geometry, volume, half):
    X = pose((1.0, -2.0, 0.5), (0.3, -0.2, 0.7))
    triangles = merged([Shape(geometry, X)])
    assert enclosed(triangles) == pytest.approx(volume, rel=0.02)
    local = (triangles.vertices - X[:3, 3]) @ X[:3, :3]
    np.testing.assert_allclose(local.max(axis=0), half, rtol=5e-3)
    np.testing.assert_allclose(local.min(axis=0), -np.array(half), rtol=5e-3)
    grown = merged([Shape(geometry, X)], grow=0.01)
    local = (grown.vertices - X[:3, 3]) @ X[:3, :3]
    np.testing.assert_allclose(local.max(axis=0), np.array(half) + 0.01, rtol=5e-3)


def test_parts_together_are_what_they_are_alone():
    shapes = [Shape(geometry, pose((k, 0.0, 0.0))) for k, (geometry, _, _) in enumerate(PARTS)]
    together = merged(shapes)
    assert enclosed(together) == pytest.approx(sum(enclosed(merged([s])) for s in shapes))
    assert together.faces.max() == len(together.vertices) - 1
    with pytest.raises(TypeError, match="Mesh"):
        merged([Shape(Mesh("part.stl", (1, 1, 1)), np.eye(4))])


def test_what_looks_the_same_on_a_link_is_one_node(open_viewer):
    robot = load_robot("franka")
    viewer = open_viewer(ViewedRobot.of(robot))
    scene = viewer._server.scene
    shapes = sum(len(link.visuals) for link in robot.tree.links.values())
    view = viewer._robots["franka"].view
    nodes = [
        handle
        for link in view.links
        for number in range(shapes)
        if (handle := scene.get_handle_by_name(f"{link.name}/visual_{number}")) is not None
    ]
    assert len(nodes) < shapes / 2
