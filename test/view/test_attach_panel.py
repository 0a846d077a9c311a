# SPDX-License-Identifier: Apache-2.0
"""Objects are attached to a link of the robot on the page, and detached."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from view.test_browser_viewer import Record, as_page, refresh
from view.toy_robot import pose

from motion_nodes.core.robot.link_poses import LinkPoses
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.scene import world_object
from motion_nodes.core.scene.scenery import SCENERY
from motion_nodes.core.scene.shapes import HalfSpace
from motion_nodes.core.scene.world import World
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
    viewer.update_scene("franka", world.scene)
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
    viewer.update_scene("franka", world.scene)
    viewer.flush()
    refresh(viewer)
    assert visible(viewer) == {"detach"}
    assert editor(viewer).choice.value == "box", "it stays selected"
    assert TOOL in panel.note.content
    assert not editor(viewer).handles.visible
    as_page(viewer, panel.detach, value=True)
    viewer.on_attach.wait_for(lambda calls: calls[1:] == [("franka", "box", "")])
    world.detach("box", pose((0.4, 0.0, 0.5)))
    viewer.update_scene("franka", world.scene)
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
