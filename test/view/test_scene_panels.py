# SPDX-License-Identifier: Apache-2.0
"""Objects on the page: added, sized, attached to links; scene files."""

from dataclasses import replace

import numpy as np
import pytest
from view.test_browser_viewer import Record, as_page, refresh
from view.toy_robot import pose

from motion_nodes.core.robot.link_poses import LinkPoses
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.moveit_scene_file import scene_text
from motion_nodes.core.scene.scene import AttachedBody, Part, Scene, world_object
from motion_nodes.core.scene.scenery import SCENERY
from motion_nodes.core.scene.shapes import Cone, HalfSpace
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.viewer.object_editor import mesh_of_upload, size_of, solid_of
from motion_nodes.extras.viewer.planning_view import loaded_objects, saved_objects
from motion_nodes.extras.viewer.preview import Preview, PreviewRobot
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

FRANKA = load_robot("franka")
TOOL = "panda_hand_tcp"
BOX = world_object("box", Box((0.05, 0.05, 0.05)), pose((0.5, 0.1, 0.4), (0.0, 0.0, 0.3)))
FIXED = (
    world_object("floor", HalfSpace()),
    world_object("pillar", Box((0.1, 0.1, 1.0)), pose((0.0, 1.0, 0.5)), static=True),
    replace(world_object("table", Box((0.1, 0.1, 1.0)), pose((1.0, 1.0, 0.5))), kind=SCENERY),
)


@pytest.fixture
def viewer(open_viewer):
    viewer = open_viewer(ViewedRobot.of(FRANKA, edits_scene=True))
    viewer.on_attach = Record()
    return viewer


def editor(viewer):
    return viewer._robots["franka"].planning.editor


def select(viewer, world, name):
    viewer.robot("franka").update_scene(world.scene)
    viewer.flush()
    refresh(viewer)
    as_page(viewer, editor(viewer).choice, value=name)
    refresh(viewer)


def visible(viewer):
    """Return which of the elements of the selected object are visible."""
    panel, edit = editor(viewer).attachment, editor(viewer)
    parts = {"attach": panel.attach, "link": panel.link, "detach": panel.detach,
             "remove": edit.remove, "turn": edit.turn, "resize": edit.resize}  # fmt: skip
    return {name for name, part in parts.items() if part.visible}


def test_an_object_is_attached_to_the_tool_and_detached(viewer):
    world, panel = World(), editor(viewer).attachment
    assert visible(viewer) == set()
    world.add(BOX)
    select(viewer, world, "box")
    assert visible(viewer) == {"attach", "link", "remove", "turn", "resize"}
    assert panel.link.value == TOOL
    assert tuple(panel.link.options) == FRANKA.tree.frame_names
    as_page(viewer, panel.attach, value=True)
    viewer.on_attach.wait_for(lambda calls: calls == [("franka", "box", TOOL)])
    assert visible(viewer) >= {"attach"}, "until the owner of the scene has attached it"
    world.attach_object("box", TOOL, pose((0.4, 0.0, 0.5)))
    viewer.robot("franka").update_scene(world.scene)
    viewer.flush()
    refresh(viewer)
    assert visible(viewer) == {"detach"}
    assert editor(viewer).choice.value == "box", "it stays selected"
    assert TOOL in panel.note.content
    assert not editor(viewer).handles.visible
    as_page(viewer, panel.detach, value=True)
    viewer.on_attach.wait_for(lambda calls: calls[1:] == [("franka", "box", "")])
    world.detach("box", pose((0.4, 0.0, 0.5)))
    viewer.robot("franka").update_scene(world.scene)
    viewer.flush()
    refresh(viewer)
    assert "attach" in visible(viewer)
    assert not panel.note.visible


def test_it_is_attached_to_the_selected_link(viewer):
    world, panel = World(), editor(viewer).attachment
    world.add(BOX)
    select(viewer, world, "box")
    as_page(viewer, panel.link, value="panda_link4")
    as_page(viewer, panel.attach, value=True)
    viewer.on_attach.wait_for(lambda calls: calls == [("franka", "box", "panda_link4")])


def test_what_others_attached_is_listed_and_can_be_clicked(viewer):
    world = World()
    world.add(world_object("cup", Sphere(0.03), pose((0.4, 0.0, 0.5))))
    world.attach_object("cup", TOOL, pose((0.4, 0.0, 0.5)))
    select(viewer, world, "cup")
    assert visible(viewer) == {"detach"}


@pytest.mark.parametrize("item", FIXED, ids=lambda item: item.name)
def test_parts_of_the_cell_and_planes_are_not_attached(viewer, item):
    world = World()
    world.add(item)
    select(viewer, world, item.name)
    assert not visible(viewer) & {"attach", "link", "detach"}


def test_without_a_selection_nothing_is_sent(viewer):
    for button in (editor(viewer).attachment.attach, editor(viewer).attachment.detach):
        as_page(viewer, button, value=True)
    refresh(viewer)
    assert viewer.on_attach.calls == []


def tool_pose(q):
    names = FRANKA.tree.frame_names
    X_RL = LinkPoses(FRANKA.tree).in_root(q)
    return X_RL[names.index(TOOL)]


def test_the_preview_carries_it_with_the_tool_and_puts_it_down():
    robot = PreviewRobot(FRANKA, np.eye(4))
    robot.set_object("box", BOX)
    X_TO = np.linalg.inv(tool_pose(robot.q)) @ BOX.X_WO
    robot.attach("box", TOOL)
    body = robot.world.scene.attached["box"]
    np.testing.assert_allclose(body.X_LO, X_TO, atol=1e-12)
    assert {"panda_hand", "panda_leftfinger"} <= body.touch_links
    robot.q = FRANKA.home + 0.1
    robot.attach("box", "")
    assert not robot.world.scene.attached
    X_WO = robot.world.scene.objects["box"].X_WO
    np.testing.assert_allclose(X_WO, tool_pose(robot.q) @ X_TO, atol=1e-12)


def test_the_preview_names_what_it_cannot_attach(open_viewer, monkeypatch):
    preview = Preview([FRANKA], 1.0, lambda shown: open_viewer(*shown))
    notes = []
    monkeypatch.setattr(preview.viewer, "notify", lambda title, text: notes.append(text))
    try:
        preview.viewer.on_object("franka", "box", BOX)
        preview.viewer.on_attach("franka", "bxo", TOOL)
        preview.viewer.on_attach("franka", "box", "")
        assert ["bxo" in notes[0], "box" in notes[1]] == [True, True]
        assert set(preview._robots["franka"].world.scene.objects) == {"box"}
        preview.viewer.on_attach("franka", "box", TOOL)
        assert set(preview._robots["franka"].world.scene.attached) == {"box"}
    finally:
        preview.close()


OBJECTS = {
    "can": world_object(
        "can", Cylinder(0.03, 0.12), pose((0.5, 0.0, 0.2)), poses=(pose((0.0, 0.0, 0.06)),)
    ),
    "crate": world_object("crate", Box((0.2, 0.3, 0.4)), pose((0.4, 0.2, 0.2))),
    "cone": world_object("cone", Cone(0.05, 0.1), pose((0.3, 0.2, 0.2))),
    "pair": world_object("pair", (Sphere(0.1), Sphere(0.1)), pose((0.3, -0.2, 0.2))),
}  # fmt: skip


@pytest.fixture
def viewer_of_object_editor(open_viewer):
    """A viewer that shows the objects."""
    viewer = open_viewer(ViewedRobot.of(FRANKA, edits_scene=True))
    viewer.on_object = Record()
    world = World()
    for item in OBJECTS.values():
        world.add(item)
    viewer.robot("franka").update_scene(world.scene)
    viewer.flush()
    refresh(viewer)
    return viewer


def test_an_object_is_given_another_size(viewer_of_object_editor):
    editor = viewer_of_object_editor._robots["franka"].planning.editor
    assert not editor.resize.visible
    as_page(viewer_of_object_editor, editor.choice, value="can")
    refresh(viewer_of_object_editor)
    assert editor.resize.visible
    assert (editor.shape.value, editor.size.value) == ("cylinder", (0.06, 0.06, 0.12))
    as_page(viewer_of_object_editor, editor.size, value=(0.1, 0.0, 0.2))
    refresh(viewer_of_object_editor)
    assert editor.size.value == (0.1, 0.0, 0.2), "what is typed stays"
    as_page(viewer_of_object_editor, editor.resize, value=True)
    viewer_of_object_editor.on_object.wait_for(len)
    robot, name, item = viewer_of_object_editor.on_object.calls[0]
    assert (robot, name) == ("franka", "can")
    assert item.parts[0].solid == Cylinder(0.05, 0.2)
    np.testing.assert_allclose(item.parts[0].X_OS, OBJECTS["can"].parts[0].X_OS)
    np.testing.assert_allclose(item.X_WO, OBJECTS["can"].X_WO)
    as_page(viewer_of_object_editor, editor.choice, value="crate")
    refresh(viewer_of_object_editor)
    assert editor.size.value == (0.2, 0.3, 0.4)


@pytest.mark.parametrize("name", ["cone", "pair"])
def test_other_shapes_have_no_size(viewer_of_object_editor, name):
    editor = viewer_of_object_editor._robots["franka"].planning.editor
    as_page(viewer_of_object_editor, editor.choice, value=name)
    refresh(viewer_of_object_editor)
    assert editor.remove.visible
    assert not editor.resize.visible


@pytest.mark.parametrize("kind", ["box", "sphere", "cylinder"])
def test_sizes_are_those_of_new_objects(kind):
    solid = solid_of(kind, (0.2, 0.3, 0.4))
    shape, size = size_of(world_object("x", solid))
    assert (shape, solid_of(shape, size)) == (kind, solid)


def test_an_object_is_placed_and_renamed_by_what_is_typed(viewer_of_object_editor):
    editor = viewer_of_object_editor._robots["franka"].planning.editor
    calls = viewer_of_object_editor.on_object.calls
    as_page(viewer_of_object_editor, editor.choice, value="crate")
    refresh(viewer_of_object_editor)
    assert editor.name.value == "crate"
    assert editor.position.value == pytest.approx((0.4, 0.2, 0.2))
    as_page(viewer_of_object_editor, editor.rotation, value=(0.0, 0.0, 90.0))
    refresh(viewer_of_object_editor)
    as_page(viewer_of_object_editor, editor.place, value=True)
    viewer_of_object_editor.on_object.wait_for(len)
    np.testing.assert_allclose(
        calls[-1][2].X_WO, pose((0.4, 0.2, 0.2), (0, 0, np.pi / 2)), atol=1e-9
    )
    as_page(viewer_of_object_editor, editor.position, value=(np.nan, 0.0, 0.0))
    as_page(viewer_of_object_editor, editor.place, value=True)
    for taken in ("can", " "):
        as_page(viewer_of_object_editor, editor.name, value=taken)
        as_page(viewer_of_object_editor, editor.rename, value=True)
    assert "free name" in editor._text
    as_page(viewer_of_object_editor, editor.name, value="box of tea")
    as_page(viewer_of_object_editor, editor.rename, value=True)
    viewer_of_object_editor.on_object.wait_for(lambda calls: len(calls) == 3)
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


BOX_FILES_PANEL = world_object(
    "box", Box((0.1, 0.2, 0.3)), pose((0.5, 0.0, 0.2)), rgba=(1.0, 0.0, 0.0, 1.0)
)
BALL = world_object("ball", Sphere(0.1), pose((0.0, 0.5, 0.2)))
FLOOR = replace(world_object("floor", HalfSpace(), static=True), kind=SCENERY)


def test_what_was_saved_is_loaded_without_the_scenery():
    scene = Scene({item.name: item for item in (FLOOR, BOX_FILES_PANEL, BALL)})
    content = scene_text(saved_objects(scene), "cell").encode()
    items = loaded_objects(content, "cell.scene", Scene())
    assert [item.name for item in items] == ["box", "ball"]
    assert items[0].parts[0].solid == BOX_FILES_PANEL.parts[0].solid
    assert items[0].rgba == BOX_FILES_PANEL.rgba
    np.testing.assert_allclose(items[0].X_WO, BOX_FILES_PANEL.X_WO)


def test_what_the_robot_holds_is_not_loaded_beside_it():
    held = AttachedBody("ball", "hand", np.eye(4), (Part(Sphere(0.1), np.eye(4)),))
    content = scene_text((BOX_FILES_PANEL, BALL)).encode()
    items = loaded_objects(content, "cell.scene", Scene(attached={"ball": held}))
    assert [item.name for item in items] == ["box"]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"cell\n* box\nnot a number\n"])
def test_other_files_are_refused_by_name(content):
    with pytest.raises(InvalidDescription, match=r"notes\.scene, line"):
        loaded_objects(content, "notes.scene", Scene())
