# SPDX-License-Identifier: Apache-2.0
"""The size of the selected object: shown, and changed on request."""

from __future__ import annotations

import numpy as np
import pytest
from view.test_browser_viewer import Record, as_page, refresh
from view.toy_robot import pose

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.scene import world_object
from motion_nodes.core.scene.shapes import Cone
from motion_nodes.core.scene.world import World
from motion_nodes.extras.viewer.object_editor import size_of, solid_of
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

FRANKA = load_robot("franka")
OBJECTS = {
    "can": world_object(
        "can", Cylinder(0.03, 0.12), pose((0.5, 0.0, 0.2)), poses=(pose((0.0, 0.0, 0.06)),)
    ),
    "crate": world_object("crate", Box((0.2, 0.3, 0.4)), pose((0.4, 0.2, 0.2))),
    "cone": world_object("cone", Cone(0.05, 0.1), pose((0.3, 0.2, 0.2))),
    "pair": world_object("pair", (Sphere(0.1), Sphere(0.1)), pose((0.3, -0.2, 0.2))),
}  # fmt: skip


@pytest.fixture
def viewer(open_viewer):
    """A viewer that shows the objects."""
    viewer = open_viewer(ViewedRobot.of(FRANKA, edits_scene=True))
    viewer.on_object = Record()
    world = World()
    for item in OBJECTS.values():
        world.add(item)
    viewer.update_scene("franka", world.scene)
    viewer.flush()
    refresh(viewer)
    return viewer


def test_an_object_is_given_another_size(viewer):
    editor = viewer._robots["franka"].planning.editor
    assert not editor.resize.visible
    as_page(viewer, editor.choice, value="can")
    refresh(viewer)
    assert editor.resize.visible
    assert (editor.shape.value, editor.size.value) == ("cylinder", (0.06, 0.06, 0.12))
    as_page(viewer, editor.size, value=(0.1, 0.0, 0.2))
    refresh(viewer)
    assert editor.size.value == (0.1, 0.0, 0.2), "what is typed stays"
    as_page(viewer, editor.resize, value=True)
    viewer.on_object.wait_for(len)
    robot, name, item = viewer.on_object.calls[0]
    assert (robot, name) == ("franka", "can")
    assert item.parts[0].solid == Cylinder(0.05, 0.2)
    np.testing.assert_allclose(item.parts[0].X_OS, OBJECTS["can"].parts[0].X_OS)
    np.testing.assert_allclose(item.X_WO, OBJECTS["can"].X_WO)
    as_page(viewer, editor.choice, value="crate")
    refresh(viewer)
    assert editor.size.value == (0.2, 0.3, 0.4)


@pytest.mark.parametrize("name", ["cone", "pair"])
def test_other_shapes_have_no_size(viewer, name):
    editor = viewer._robots["franka"].planning.editor
    as_page(viewer, editor.choice, value=name)
    refresh(viewer)
    assert editor.remove.visible
    assert not editor.resize.visible


@pytest.mark.parametrize("kind", ["box", "sphere", "cylinder"])
def test_sizes_are_those_of_new_objects(kind):
    solid = solid_of(kind, (0.2, 0.3, 0.4))
    shape, size = size_of(world_object("x", solid))
    assert (shape, solid_of(shape, size)) == (kind, solid)
