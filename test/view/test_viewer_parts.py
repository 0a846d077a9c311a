# SPDX-License-Identifier: Apache-2.0
"""Parts of the viewer without a page: history, health, status lines, handles, camera."""

import re
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from raised_errors import about
from view.toy_robot import pose

import motion_nodes.extras.viewer
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import world_object
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.viewer.joint_panel import short_labels
from motion_nodes.extras.viewer.object_editor import solid_of
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.panel_style import (
    MAX_MESSAGE,
    STALE_AFTER,
    Freshness,
    global_line,
    plain,
    robot_line,
)
from motion_nodes.extras.viewer.planning_view import Drawing
from motion_nodes.extras.viewer.plot_panel import ALL, PERIOD, WINDOW, JointHistory, LearningPage
from motion_nodes.extras.viewer.preview import Preview
from motion_nodes.extras.viewer.scene_view import COLOURS, DISTANCES, distance_colours
from motion_nodes.extras.viewer.suite_panels import DEBOUNCE, SILENT_AFTER, Health
from motion_nodes.extras.viewer.ui_commands import TargetCommand
from motion_nodes.extras.viewer.viewed_robot import IK, PLANNER, RMPFLOW, ViewedRobot

FRANKA = load_robot("franka")
NAMES = FRANKA.joint_names


@pytest.fixture
def history():
    slides = tuple("finger" in name for name in NAMES)
    return JointHistory(FRANKA.limits, slides)


def test_samples_are_thinned_and_old_ones_forgotten(history):
    for k in range(1000):
        history.add(0.05 * k, np.full(9, 0.05 * k), np.zeros(9))
    assert len(history) == round(WINDOW / PERIOD)
    curves = history.curves(49.95, "position", NAMES[0])
    assert curves.times[-1] == pytest.approx(0.0, abs=PERIOD)
    assert (np.diff(curves.times) > 0.99 * PERIOD).all()
    assert curves.times[0] >= -WINDOW
    np.testing.assert_allclose(curves.values[0] - 49.95, curves.times)


def test_a_joint_is_shown_between_its_limits(history):
    history.add(0.0, FRANKA.home, np.full(9, 0.1))
    position = history.curves(0.0, "position", "panda_joint4")
    i = NAMES.index("panda_joint4")
    assert position.limits == (FRANKA.limits.lower[i], FRANKA.limits.upper[i])
    assert position.values[0] == pytest.approx(FRANKA.home[i])
    assert position.unit == "rad"
    finger = history.curves(0.0, "velocity", "panda_finger_joint1")
    assert finger.unit == "m/s"
    limit = FRANKA.limits.velocity[NAMES.index("panda_finger_joint1")]
    assert finger.limits == (-limit, limit)


def test_all_joints_are_shown_in_percent_of_their_limits(history):
    history.add(0.0, FRANKA.limits.lower, FRANKA.limits.velocity)
    history.add(1.0, FRANKA.limits.upper, -0.5 * FRANKA.limits.velocity)
    position = history.curves(1.0, "position", ALL)
    assert position.names == NAMES
    np.testing.assert_allclose(np.array(position.values), [[0.0, 100.0]] * 9, atol=1e-9)
    velocity = history.curves(1.0, "velocity", ALL)
    np.testing.assert_allclose(np.array(velocity.values), [[100.0, -50.0]] * 9, atol=1e-9)
    assert velocity.limits == (-100.0, 100.0)


def test_joints_without_limits_are_left_out_of_all():
    jetbot = load_robot("jetbot")
    history = JointHistory(jetbot.limits, (False,) * len(jetbot.joint_names))
    assert history.curves(0.0, "position", ALL).names == ()
    history.add(0.0, np.full(len(jetbot.joint_names), np.nan), np.zeros(len(jetbot.joint_names)))
    assert history.curves(0.0, "position", jetbot.joint_names[0]).limits == ()


def test_the_worst_node_stands_first_and_silence_is_told(open_viewer, toy, monkeypatch):
    viewer = open_viewer(ViewedRobot(toy))
    panel = viewer._health
    assert panel.summary() == ""
    viewer.update_health([Health("b", "OK", "running"), Health("a", "OK", "running")])
    assert panel.summary() == "2 nodes OK"
    viewer.update_health([Health("b", "WARN", "late"), Health("c|d", "ERROR", "x | y")])
    assert [report.name for report in panel._reports()] == ["c|d", "b", "a"]
    assert panel.summary() == "1 ERROR of 3 nodes: c|d"  # a short warning is not summarized
    panel._warned["b"] -= DEBOUNCE
    viewer.update_health([Health("b", "WARN", "late")])
    assert panel.summary() == "1 ERROR, 1 WARN of 3 nodes: c|d, b"
    viewer.update_health([Health("b", "OK", ""), Health("b", "WARN", "late")])
    assert panel.summary() == "1 ERROR of 3 nodes: c|d"
    panel.refresh()
    lines = panel.table.content.splitlines()
    assert len(lines) == 5
    assert all(line.replace("\\|", "").count("|") == 4 for line in lines), "the table stays valid"
    later = time.monotonic() + SILENT_AFTER + 1.0
    monkeypatch.setattr("motion_nodes.extras.viewer.suite_panels.time.monotonic", lambda: later)
    assert panel.summary() == "3 SILENT of 3 nodes: a, b, c|d"


def test_colours_go_from_red_to_blue():
    np.testing.assert_array_equal(distance_colours(np.array([-1.0, 0.0, np.nan])), [COLOURS[0]] * 3)
    np.testing.assert_array_equal(distance_colours(np.array([DISTANCES[-1], np.inf])),
                                  [COLOURS[-1]] * 2)  # fmt: skip
    red = distance_colours(np.linspace(0.02, 0.3, 20))[:, 0].astype(int)
    assert (np.diff(red) <= 5).all()


def test_spheres_have_the_colours_of_their_distances(open_viewer):
    """Against the checker with generated code."""
    viewer = open_viewer(ViewedRobot.of(FRANKA))
    planning = viewer._robots["franka"].planning
    world = World()
    world.add(world_object("box", Box((0.1, 0.4, 0.4)), pose((0.45, 0.1, 0.4), (0.0, 0.3, 0.2))))
    viewer.robot("franka").update_scene(world.scene)
    planning.show_spheres.value = True
    viewer.flush()
    checker = CollisionChecker(FRANKA)
    checker.set_scene(world.scene)
    expected = distance_colours(checker.sphere_distances(FRANKA.home).distance)
    drawn = np.concatenate([node.batched_colors for node in planning.spheres.nodes])
    assert len({tuple(row) for row in drawn.tolist()}) > 5
    assert np.abs(drawn.astype(int) - expected.astype(int)).max() <= 25, "one step of the scale"
    world.clear()
    planning.spheres._due = 0.0
    viewer.robot("franka").update_scene(world.scene)
    viewer.flush()
    assert all(node.batched_colors.shape == (3,) for node in planning.spheres.nodes)


def event(phase, wxyz, position):
    return SimpleNamespace(phase=phase, target=SimpleNamespace(wxyz=wxyz, position=position))


def drive(coroutine):
    with pytest.raises(StopIteration):
        coroutine.send(None)


def test_handles_that_are_held_are_not_moved_by_others(open_viewer):
    viewer = open_viewer(ViewedRobot.of(FRANKA, followers=(RMPFLOW, IK)))
    wishes = []
    viewer.on_target = lambda *wish: wishes.append(wish)
    handles = viewer._robots["franka"].target.handles
    handles.place(pose((0.1, 0.2, 0.3)))
    drive(handles._moved(event("start", (1, 0, 0, 0), (0.1, 0.2, 0.3))))
    drive(handles._moved(event("update", (2, 0, 0, 0), (0.4, 0.2, 0.3))))
    handles.place(pose((9.0, 9.0, 9.0)))
    np.testing.assert_allclose(handles.pose, pose((0.4, 0.2, 0.3)))
    for bad in ((np.nan, 0.0, 0.0), (np.inf, 0.0, 0.0)):
        drive(handles._moved(event("update", (1, 0, 0, 0), bad)))
    drive(handles._moved(event("update", (0, 0, 0, 0), (0.5, 0.2, 0.3))))
    np.testing.assert_allclose(handles.pose, pose((0.4, 0.2, 0.3)))
    handles._held_until = 0.0
    handles.place(pose((0.0, 0.0, 1.0)))
    np.testing.assert_allclose(handles.pose, pose((0.0, 0.0, 1.0)))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda v: v.robot("franka").update_target(np.eye(3)), "franka: target"),
        (lambda v: v.robot("franka").update_target(np.full((4, 4), np.nan)), "franka: target"),
        (lambda v: Drawing(np.zeros((3, 3)), (0, 0, 0)), "points"),
        (lambda v: Drawing(np.full((2, 3), np.nan), (0, 0, 0)), "points"),
    ],
)
def test_bad_targets_and_drawings(open_viewer, call, text):
    viewer = open_viewer(ViewedRobot.of(FRANKA, followers=(PLANNER,)))
    with pytest.raises(InvalidCommand, check=about(text)):
        call(viewer)


def test_who_has_no_followers_has_no_target(open_viewer):
    viewer = open_viewer(ViewedRobot.of(FRANKA))
    with pytest.raises(InvalidCommand):
        viewer.robot("franka").update_target(np.eye(4))
    viewer.robot("franka").set_target_message("nothing to be said here", PLANNER)
    assert not viewer.robot("franka").wants_tree


def test_sizes_of_new_objects():
    assert solid_of("sphere", (0.2, 0.3, 0.4)) == Sphere(0.1)
    assert solid_of("box", (0.2, 0.3, 0.4)) == Box((0.2, 0.3, 0.4))
    cylinder = solid_of("cylinder", (0.2, 0.3, 0.4))
    assert (cylinder.radius, cylinder.length) == (0.1, 0.4)


def test_preview_follows_targets_and_keeps_objects(open_viewer):
    preview = Preview([FRANKA], 1.0, lambda shown: open_viewer(*shown))
    try:
        robot, viewer = preview._robots["franka"], preview.viewer
        tool = pose((0.45, 0.1, 0.4), (np.pi, 0.0, 0.0))
        viewer.on_target("franka", TargetCommand(tool, IK))
        aimed = robot.target.copy()
        assert np.abs(aimed - FRANKA.home).max() > 0.05
        viewer.on_target("franka", TargetCommand(pose((9.0, 0.0, 0.0)), IK))
        np.testing.assert_array_equal(robot.target, aimed)
        assert viewer._robots["franka"].target._texts[IK]
        box = world_object("box", Box((0.1, 0.1, 0.1)), pose((0.4, 0.0, 0.2)))
        viewer.on_object("franka", "box", box)
        viewer.on_object("franka", "box", replace(box, X_WO=pose((0.5, 0.0, 0.2))))
        assert robot.world.scene.objects["box"].X_WO[0, 3] == 0.5
        viewer.on_object("franka", "box", None)
        viewer.on_object("franka", "box", None)
        assert not robot.world.scene.objects
    finally:
        preview.close()


def test_a_dark_page_has_a_dark_floor(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy), page=PageSettings(0, shadows=False))
    setup = viewer._view._setup
    light = setup.floor.cell_color
    setup.set_dark(True)
    assert max(setup.floor.cell_color) < min(light)


def test_waiting_connected_stale_connected():
    state = Freshness()
    assert "waiting" in robot_line(state, "", 5.0)
    for step in range(101):
        state.arrived(10.0 + step * 0.02)
        state.update_rate(10.0 + step * 0.02)
    assert "connected" in robot_line(state, "", 12.1)
    assert ", 50 Hz" in robot_line(state, "", 12.1)
    late = 12.0 + STALE_AFTER + 6.0
    assert "stale" in robot_line(state, "", late)
    assert "7 s" in robot_line(state, "", late)
    state.arrived(late)
    assert "connected" in robot_line(state, "", late)


def test_a_message_takes_the_place_of_what_the_line_would_say():
    state = Freshness()
    assert "robot's state" in robot_line(state, "", 0.0)
    told = robot_line(state, "no driver", 0.0)
    assert "waiting" in told
    assert "robot's state" not in told
    state.arrived(0.0)
    told = robot_line(state, "no driver for 9 s", 9.0)
    assert "stale" in told
    assert told.count("9 s") == 1


def test_rate_falls_to_nothing_when_nothing_comes():
    state = Freshness()
    for step in range(101):
        state.arrived(step * 0.01)
        state.update_rate(step * 0.01)
    assert state.rate == pytest.approx(100, rel=0.02)
    state.update_rate(3.0)
    assert state.rate < 1.0


def test_messages_cannot_format_the_page():
    shown = plain("<b>*x*</b> [a](http://b) `c` {d}\n# e")
    for mark in "<>*[]()`{}#":
        assert shown.count(mark) == shown.count("\\" + mark)
    assert "\n" not in shown
    assert len(plain("a" * 5000)) <= MAX_MESSAGE


@pytest.mark.parametrize(("clients", "text"), [(0, "0 pages"), (1, "1 page o"), (3, "3 pages")])
def test_global_line(clients, text):
    assert global_line(clients).startswith(text)
    assert "2 nodes OK" in global_line(clients, "2 nodes OK")


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (("panda_joint1", "panda_finger_joint1"), ("joint1", "finger_joint1")),
        (("joint_1", "joint_2"), ("1", "2")),
        (("shoulder", "elbow"), ("shoulder", "elbow")),
        (("one_joint",), ("one_joint",)),
        ((), ()),
        (("a_b", "a_b_c"), ("b", "b_c")),
    ],
)
def test_short_labels(names, labels):
    assert short_labels(names) == labels


def test_the_panel_has_no_symbols_that_need_a_font_of_their_own():
    # Arrows, geometric shapes, dingbats and emoji.
    symbols = re.compile("[\u2190-\u2bff\ufe0f\U0001f000-\U0001faff]")
    sources = Path(motion_nodes.extras.viewer.__file__).parent.glob("*.py")
    assert {path.name for path in sources if symbols.search(path.read_text("utf-8"))} == set()


def test_curves_are_those_of_updates_with_episodes():
    with LearningPage("learning reach", 0) as page:
        assert urllib.request.urlopen(page.url, timeout=10.0).status == 200
        page.show([100, 200, 300], [np.nan, -2.0, 1.5], [np.nan, 0.0, 0.25], "300 steps")
        returns, success = (np.array(plot.data) for plot in page.plots)
        np.testing.assert_array_equal(returns, [[200, 300], [-2.0, 1.5]])
        np.testing.assert_array_equal(success, [[200, 300], [0.0, 0.25]])
        assert "300 steps" in page.status.content
