# SPDX-License-Identifier: Apache-2.0
"""Inputs of the page that are no numbers, out of range, held, or made while something fails."""

from __future__ import annotations

import math

import numpy as np
import pytest
from view.test_browser_viewer import Record, as_page, refresh

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.scene.scene import world_object
from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.drive_panel import Direction
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.preview import Preview
from motion_nodes.extras.viewer.scene_view import escaped
from motion_nodes.extras.viewer.target_gizmo import DragHandles
from motion_nodes.extras.viewer.ui_commands import PageWatch
from motion_nodes.extras.viewer.viewed_robot import IK, PLANNER, ViewedRobot

FRANKA = load_robot("franka")
JOINT = FRANKA.joint_names[0]


@pytest.fixture
def viewer(open_viewer):
    viewer = open_viewer(ViewedRobot.of(FRANKA, followers=(IK,), edits_scene=True))
    viewer.on_joint_target = Record()
    viewer.update_joints("franka", FRANKA.home)
    viewer.flush()
    refresh(viewer)
    return viewer


def live(viewer):
    return viewer._robots["franka"]


def test_a_value_that_is_no_number_leaves_the_slider_as_it_was(viewer):
    panel = live(viewer).joints
    before = dict(panel.values)
    as_page(viewer, panel.sliders[JOINT], value=math.nan)
    as_page(viewer, panel.gripper, value=math.inf)
    assert panel.values == before
    assert panel.follow.value
    as_page(viewer, viewer._angles.box, value="deg")
    assert set(panel.sliders) == set(before), "all sliders are replaced by those of the other unit"
    assert viewer.on_joint_target.calls == []


def test_sliders_show_no_new_state_while_one_is_held(viewer):
    panel = live(viewer).joints
    shown = dict(panel.values)
    viewer.slider_hold.hold()
    viewer.update_joints("franka", FRANKA.home + 0.1)
    refresh(viewer)
    assert panel.values == shown
    viewer.slider_hold.release()
    refresh(viewer)
    assert panel.values[JOINT] == pytest.approx(FRANKA.home[0] + 0.1, abs=1e-3)


def test_drive_speeds_stay_in_their_range(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, "rover", drive=True, max_linear=0.5, max_angular=1.0))
    drive = viewer._robots["rover"].drive
    for value in (1e9, math.nan, -1.0):
        as_page(viewer, drive.linear, value=value)
        as_page(viewer, drive.angular, value=value)
        assert 0.0 <= drive._state._linear <= 0.5
        assert 0.0 <= drive._turn_rate == drive._state._angular <= 1.0


def test_a_pose_entered_after_a_drag_moves_the_handles(viewer, monkeypatch):
    target = live(viewer).target
    dragged, jogged = from_xyz_rpy((0.4, 0.0, 0.5)), from_xyz_rpy((0.4, 0.0, 0.52))
    target.handles.place(dragged)
    monkeypatch.setattr(DragHandles, "held", property(lambda self: self._held_until > 0.0))
    target.handles._held_until = math.inf
    target.handles.place(from_xyz_rpy((0.0, 0.0, 1.0)))
    np.testing.assert_allclose(target.handles.pose, dragged, err_msg="received meanwhile")
    target._pose_set(jogged)
    np.testing.assert_allclose(target.current(), jogged)
    target.handles._held_until = math.inf
    target._reset_to_tool()
    viewer.flush()
    np.testing.assert_allclose(target.current(), target._tool(FRANKA.home), atol=1e-9)


def test_a_pose_is_not_replaced_while_it_is_edited(viewer):
    pose = live(viewer).target.pose
    as_page(viewer, pose.position, value=(0.4, 0.1, 0.5))
    viewer.update_joints("franka", FRANKA.home + 0.1)  # the tool, where the target would be, moves
    viewer.flush()
    refresh(viewer)
    assert pose.position.value == pytest.approx((0.4, 0.1, 0.5))
    pose._edited_until = 0.0  # after a while
    refresh(viewer)
    moved = live(viewer).target.current()
    assert pose.position.value == pytest.approx(moved[:3, 3], abs=1e-4)


def test_drive_pads_stop_even_if_the_stop_of_the_robots_fails(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, "rover", drive=True), stops=True)

    def fail() -> None:
        raise RuntimeError("the middleware is shut down")

    viewer.on_stop = fail
    viewer._robots["rover"].drive._state.latch(Direction.FORWARD, 1, 0.0)
    with pytest.raises(RuntimeError):
        viewer._stop_all()
    assert viewer._robots["rover"].drive._state.direction is None


def test_a_page_that_cannot_be_polled_counts_as_lost():
    class Server:
        def get_clients(self):
            raise ValueError("unforeseen")

    watch = PageWatch(Server(), lambda: set(), lambda page: None)
    try:
        assert not watch._responds(1)
    finally:
        watch.close()


def test_names_of_nodes_are_different_for_different_objects():
    names = ["a/0", "a\u02f0", "a%2f0", "a 0", "a_0", "ä/", "a.0"]
    assert len({escaped(name) for name in names}) == len(names)
    assert escaped("a box/1") == "a%20box%2f1"


def test_an_empty_image_is_not_shown(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, "rover"), displays=True)
    panel = viewer.displays._panel
    viewer.displays.set_topics({"image": ["/image"]})
    refresh(viewer)
    as_page(viewer, panel.image, value="/image")
    panel.show_image("/image", np.zeros((0, 0, 3), np.uint8))
    assert panel.picture is None


def test_controls_of_the_planner_are_shown_only_with_a_planner(viewer, open_viewer):
    planning = live(viewer).planning
    assert not planning.recover.visible
    assert not planning.show_tree.visible
    with_planner = live(open_viewer(ViewedRobot.of(FRANKA, followers=(PLANNER,), edits_scene=True)))
    assert with_planner.planning.recover.visible
    assert with_planner.planning.show_tree.visible


def test_a_scene_is_loaded_in_the_preview():
    preview = Preview([FRANKA], 1.0, lambda robots: BrowserViewer(robots, PageSettings(0)))
    try:
        ball = world_object("ball", Sphere(0.1), np.eye(4))
        preview.viewer.on_scene_load("franka", (ball,))
        preview.viewer.flush()
        assert "ball" in live(preview.viewer).planning.objects.shown.objects
    finally:
        preview.close()
