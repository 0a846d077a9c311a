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
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.viewer.object_editor import mesh_of_upload, size_of, solid_of
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


def test_an_object_is_placed_and_renamed_by_what_is_typed(viewer):
    editor = viewer._robots["franka"].planning.editor
    calls = viewer.on_object.calls
    as_page(viewer, editor.choice, value="crate")
    refresh(viewer)
    assert editor.name.value == "crate"
    assert editor.position.value == pytest.approx((0.4, 0.2, 0.2))
    as_page(viewer, editor.rotation, value=(0.0, 0.0, 90.0))
    refresh(viewer)
    as_page(viewer, editor.place, value=True)
    viewer.on_object.wait_for(len)
    np.testing.assert_allclose(
        calls[-1][2].X_WO, pose((0.4, 0.2, 0.2), (0, 0, np.pi / 2)), atol=1e-9
    )
    as_page(viewer, editor.position, value=(np.nan, 0.0, 0.0))
    as_page(viewer, editor.place, value=True)
    for taken in ("can", " "):
        as_page(viewer, editor.name, value=taken)
        as_page(viewer, editor.rename, value=True)
    assert "free name" in editor._text
    as_page(viewer, editor.name, value="box of tea")
    as_page(viewer, editor.rename, value=True)
    viewer.on_object.wait_for(lambda calls: len(calls) == 3)
    assert [(name, item and item.parts) for _, name, item in calls[1:]] == [
        ("crate", None), ("box of tea", OBJECTS["crate"].parts),
    ]  # fmt: skip


def test_uploaded_meshes_are_scaled_and_their_faults_name_the_file():
    corners = "".join(
        f"v {x} {y} {z}\n" for x, y, z in ((0, 0, 0), (9, 0, 0), (0, 9, 0), (0, 0, 9))
    )
    faces = "f 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    mesh = mesh_of_upload("cap.OBJ", (corners + faces).encode(), 0.001)
    np.testing.assert_allclose(np.ptp(mesh.vertices, axis=0), 0.009)
    for name, content in (("cap.step", b"x"), ("cap.stl", b"solid x"), ("cap.obj", b"")):
        with pytest.raises(InvalidDescription, match=name):
            mesh_of_upload(name, content, 1.0)
