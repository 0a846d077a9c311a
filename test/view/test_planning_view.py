# SPDX-License-Identifier: Apache-2.0
"""Scenes, spheres and plans in the viewer; frames, clouds and images."""

import itertools
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from raised_errors import about
from view.test_browser_viewer import as_page
from view.toy_robot import hand_made, pose

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import AttachedBody, Part, world_object
from motion_nodes.core.scene.shapes import Capsule, Cone, HalfSpace, triangle_mesh
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand, UnknownFrame
from motion_nodes.extras.viewer import planned_path
from motion_nodes.extras.viewer.displays import (
    MAX_POINTS,
    OFF,
    FrameTree,
    colours_of_heights,
    thinned_cloud,
)
from motion_nodes.extras.viewer.scene_view import MAX_OBJECTS, surface_of
from motion_nodes.extras.viewer.ui_commands import PlannerOptions
from motion_nodes.extras.viewer.viewed_robot import PLANNER, ViewedRobot

FRANKA = load_robot("franka")


@pytest.fixture
def viewer(open_viewer):
    return open_viewer(ViewedRobot.of(FRANKA))


def planning(viewer, name="franka"):
    return viewer._robots[name].planning


def drawn(viewer):
    """Nodes of the scene by name, without path."""
    viewer.flush()
    return {node.name.rpartition("/")[2]: node for node in planning(viewer).objects._nodes.values()}


def show(viewer, world):
    viewer.robot("franka").update_scene(world.scene)
    return drawn(viewer)


def test_objects_come_move_change_and_go(viewer):
    world = World()
    box = world_object("a box/1", Box((0.1, 0.2, 0.3)), pose((0.5, 0.0, 0.2)))
    ball = world_object("ball", Sphere(0.1), pose((0.0, 0.5, 0.2)))
    world.add(box, ball)
    first = show(viewer, world)
    assert set(first) == {"object_a%20box%2f1", "object_ball"}
    assert first["object_ball"].name.startswith("/robots/franka/panda_link0/")
    world.move({"ball": pose((0.0, 0.6, 0.3), (0.0, 0.0, 1.0))})
    second = show(viewer, world)
    assert second["object_ball"] is first["object_ball"], "moved, not made anew"
    np.testing.assert_allclose(second["object_ball"].position, (0.0, 0.6, 0.3))
    assert second["object_ball"].wxyz[3] == pytest.approx(np.sin(0.5))
    world.add(replace(ball, parts=(Part(Sphere(0.2), np.eye(4)),)))
    third = show(viewer, world)
    assert third["object_ball"] is not first["object_ball"]
    world.remove("a box/1")
    assert set(show(viewer, world)) == {"object_ball"}
    world.clear()
    assert show(viewer, world) == {}


def test_what_a_link_carries_hangs_below_it(viewer):
    world = World()
    world.add(world_object("cup", Sphere(0.05), pose((0.4, 0.0, 0.5))))
    show(viewer, world)
    world.attach_object("cup", "panda_hand", pose((0.4, 0.0, 0.6)))
    nodes = show(viewer, world)
    assert set(nodes) == {"attached_cup"}
    assert nodes["attached_cup"].name.rpartition("/")[0].endswith("/panda_hand")
    np.testing.assert_allclose(nodes["attached_cup"].position, (0.0, 0.0, -0.1), atol=1e-12)
    world.detach("cup", pose((0.0, 0.0, 1.0)))
    assert set(show(viewer, world)) == {"object_cup"}
    world.attach(AttachedBody("pen", "no_such_link", np.eye(4), (Part(Sphere(0.01), np.eye(4)),)))
    assert set(show(viewer, world)) == {"object_cup"}, "bodies on links that are not drawn"


def test_the_switch_hides_the_scene_and_what_comes_later(viewer):
    world = World()
    world.add(world_object("one", Sphere(0.1)))
    show(viewer, world)
    planning(viewer).show_scene.value = False
    world.add(world_object("two", Sphere(0.1)))
    assert [node.visible for node in show(viewer, world).values()] == [False, False]
    planning(viewer).show_scene.value = True
    assert all(node.visible for node in drawn(viewer).values())


def test_more_objects_than_can_be_drawn_are_counted(viewer):
    world = World()
    world.add(*(world_object(f"o{i}", Sphere(0.01)) for i in range(MAX_OBJECTS + 20)))
    assert len(show(viewer, world)) == MAX_OBJECTS
    assert planning(viewer).objects.omitted == 20
    world.remove(*(f"o{i}" for i in range(30)))
    assert len(show(viewer, world)) == MAX_OBJECTS - 10
    assert planning(viewer).objects.omitted == 0


MESH = triangle_mesh([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)],
                     [(0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 3, 2)])  # fmt: skip


@pytest.mark.parametrize(
    ("solid", "size", "volume"),
    [
        (Cone(0.2, 0.6), (0.4, 0.4, 0.6), np.pi * 0.04 * 0.6 / 3.0),
        (Capsule(0.2, 0.6), (0.4, 0.4, 1.0), np.pi * 0.04 * 0.6 + 4.0 / 3.0 * np.pi * 0.008),
        (MESH, (1.0, 1.0, 1.0), 1.0 / 6.0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_surfaces_have_the_size_and_volume_of_their_solid(solid, size, volume):
    """Volume by the divergence theorem, which requires closed, outward-facing triangles."""
    vertices, faces = surface_of(solid)
    np.testing.assert_allclose(np.ptp(vertices, axis=0), size, rtol=0.01)
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    assert np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6.0 == pytest.approx(volume, rel=0.02)


def test_all_shapes_are_drawn(viewer):
    world = World()
    solids = (Sphere(0.1), Box((0.1, 0.1, 0.1)), Cone(0.1, 0.2), Capsule(0.1, 0.2), HalfSpace())
    world.add(*(world_object(type(s).__name__, (s, MESH)) for s in solids))
    world.enable("Cone", False)
    assert len(show(viewer, world)) == len(solids)


def test_spheres_appear_below_their_links_when_asked_for(viewer):
    viewer.flush()
    assert planning(viewer).spheres.nodes == [], "not before"
    planning(viewer).show_spheres.value = True
    viewer.flush()
    nodes = planning(viewer).spheres.nodes
    assert sum(len(n.batched_positions) for n in nodes) == sum(
        len(s) for s in FRANKA.spheres.values()
    )
    assert all(node.visible for node in nodes)
    planning(viewer).show_spheres.value = False
    viewer.flush()
    assert not any(node.visible for node in nodes)


def plan(viewer, seconds=2.0):
    goal = FRANKA.home.copy()
    goal[0] += 1.0
    rows = np.linspace(FRANKA.home, goal, 11)
    viewer.robot("franka").update_plan(np.linspace(5.0, 5.0 + seconds, 11), rows)
    return rows


def test_the_ghost_is_scrubbed_along_the_plan(viewer):
    path = planning(viewer).path
    viewer.flush()
    assert path.ghost is None, "none before a plan"
    assert not viewer._robots["franka"].animated
    rows = plan(viewer)
    path.playback.play.value = False
    for when, row in ((0.0, rows[0]), (1.0, rows[5]), (1.5, 0.5 * (rows[7] + rows[8])),
                         (2.0, rows[-1])):  # fmt: skip
        path.playback.scrub.value = when
        viewer.flush()
        np.testing.assert_allclose(path.ghost.q, row, atol=1e-12)
    np.testing.assert_allclose(viewer._robots["franka"].view.q, FRANKA.home)
    assert path._line.points.shape == (10, 2, 3)
    path.show.value = False
    viewer.flush()
    assert not path.ghost.base.visible
    assert not path._line.visible


def test_the_ghost_plays_by_itself_and_begins_anew(viewer):
    path = planning(viewer).path
    rows = plan(viewer, seconds=0.2)
    assert viewer._robots["franka"].animated
    seen = []
    end = time.monotonic() + 2.0
    while time.monotonic() < end:
        viewer.flush()
        seen.append(path.ghost.q[0])
        time.sleep(0.01)
    assert max(seen) == pytest.approx(rows[-1, 0])
    assert min(seen) < rows[5, 0]
    assert any(b < a for a, b in itertools.pairwise(seen)), "begins anew"


def test_the_curves_of_a_plan_are_shown_before_it_is_executed(viewer):
    path = planning(viewer).path
    rows = plan(viewer)
    path.curves.value = "velocity"
    path.refresh_panel()
    times, *lines = path._plot.data
    moved = int((np.ptp(rows, axis=0) > 0.02).sum())
    assert len(lines) == moved + 2, "the limits, too"
    assert times[-1] == pytest.approx(path.playback.duration)
    plotted = path._plot
    path.refresh_panel()
    assert path._plot is plotted
    path.curves.value = "(off)"
    path.refresh_panel()
    assert path._plot is None


def test_the_planner_is_told_how_to_plan(open_viewer):
    viewer = open_viewer(ViewedRobot.of(FRANKA, followers=(PLANNER,)))
    assert viewer.robot("franka").planner_options == PlannerOptions()
    goals = planning(viewer).goals
    goals.planner.value, goals.time.value, goals.start.value = "RRTstar", 7.0, "ready"
    goals.attempts.value, goals.keep.value = 3, True
    assert viewer.robot("franka").planner_options == PlannerOptions(
        "RRTstar", 7.0, 3, "ready", True
    )


def test_a_random_goal_moves_the_sliders_within_the_limits_free_of_collisions(open_viewer):
    viewer = open_viewer(ViewedRobot.of(FRANKA, followers=(PLANNER,)))
    live = viewer._robots["franka"]
    before = live.joint_sliders
    as_page(viewer, live.planning.goals.random, value=True)
    after, names = live.joint_sliders, live.viewed.planned_joints
    assert live.goal_state.active
    assert live.planning.goals.goal.value == "joint sliders"
    assert sum(after[name] != before[name] for name in names) >= 6
    rows = [FRANKA.joint_names.index(name) for name in names]
    low, high = FRANKA.limits.lower[rows], FRANKA.limits.upper[rows]
    values = np.array([after[name] for name in names])
    assert ((low <= values) & (values <= high)).all()
    world, checker = World(), CollisionChecker(FRANKA, names)
    world.add(world_object("wall", Box((0.1, 2.0, 2.0)), from_xyz_rpy((0.3, 0.0, 0.0))))
    viewer.robot("franka").update_scene(world.scene)
    viewer.flush()
    checker.set_scene(world.scene)
    for _ in range(8):
        as_page(viewer, live.planning.goals.random, value=True)
        found = live.joint_sliders
        assert checker.is_free([found[name] for name in names])
    world.add(world_object("rock", Box((4.0, 4.0, 4.0)), np.eye(4)))
    viewer.robot("franka").update_scene(world.scene)
    viewer.flush()
    as_page(viewer, live.planning.goals.random, value=True)
    live.planning.goals.refresh()
    assert "in collision" in live.planning.goals._message.content
    assert live.joint_sliders == found


def refreshed(viewer) -> bool:
    """Return whether the panel shows the plan after its next update."""
    viewer.flush()
    path = planning(viewer).path
    path.refresh_panel()
    return bool(path.show.value)


def test_a_plan_is_hidden_once_it_is_executed(viewer):
    path = planning(viewer).path
    rows = plan(viewer)
    for q in rows[:-1]:
        viewer.robot("franka").update_joints(q)
        assert refreshed(viewer)
    viewer.robot("franka").update_joints(rows[-1])
    assert not refreshed(viewer)
    viewer.flush()
    assert not path.ghost.base.visible
    # It is shown again.
    path.show.value = True
    assert refreshed(viewer)
    # The next plan is shown; one without motion does not count as executed.
    path.show.value = False
    viewer.robot("franka").update_plan([0.0, 1.0], rows[::-10])
    assert not refreshed(viewer), "plans stay hidden"
    path.show.value = True
    viewer.robot("franka").update_joints(rows[0])
    assert not refreshed(viewer)
    viewer.robot("franka").update_plan([0.0, 1.0], rows[::-10])
    assert refreshed(viewer)
    assert refreshed(viewer)
    # A plan that was executed while no page was open, and one that still waits for its execution.
    for start, shown in ((rows[0], False), (rows[-1], True)):
        viewer.robot("franka").update_joints(start)
        viewer.robot("franka").update_plan([0.0, 1.0], rows[::-10])
        path._received -= 10.0
        assert refreshed(viewer) == shown
    # A plan without motion, as to where the robot is, would only cover it.
    viewer.robot("franka").update_plan([0.0, 0.0], rows[[0, 0]])
    assert not refreshed(viewer)
    viewer.robot("franka").update_plan([0.0, 1.0], rows[::-10])
    assert refreshed(viewer)


@pytest.mark.parametrize(("share", "shown"), [(0.0, True), (0.5, False), (None, True)])
def test_a_plan_whose_execution_was_stopped_is_hidden(viewer, monkeypatch, share, shown):
    """Where the robot rests: at its start, along its path, or somewhere else all the time."""
    path, now = planning(viewer).path, [100.0]
    monkeypatch.setattr(planned_path, "time", SimpleNamespace(monotonic=lambda: now[0]))
    rows = plan(viewer)
    last = len(rows) - 1
    followed = [rows[-1] + 0.3] if share is None else rows[: int(share * last) + 1]
    for q in (*followed, *[followed[-1]] * 5):
        viewer.robot("franka").update_joints(q)
        viewer.flush()
        path.refresh_panel()
        now[0] += 0.3
    assert path.show.value == shown
    # The next plan is shown.
    viewer.robot("franka").update_plan([0.0, 1.0], [followed[-1], rows[-1]])
    viewer.flush()
    path.refresh_panel()
    assert path.show.value


@pytest.mark.parametrize("seen", [True, False])
def test_a_stop_before_the_robot_moves_hides_the_plan(open_viewer, seen):
    viewer = open_viewer(ViewedRobot.of(FRANKA), stops=True)
    rows = plan(viewer)
    viewer.robot("franka").update_joints(rows[0])
    viewer.robot("franka").update_plan([0.0, 1.0], rows[:: len(rows) - 1])
    assert not seen or refreshed(viewer)
    viewer.set_stopped("stopped by /stop")
    assert not refreshed(viewer)
    # Plans that are made during the stop are shown, also after it.
    viewer.robot("franka").update_plan([0.0, 1.0], rows[:: len(rows) - 1])
    assert refreshed(viewer)
    viewer.set_stopped("")
    assert refreshed(viewer)


def test_a_newer_plan_takes_the_place_and_a_bad_one_does_not(viewer):
    path = planning(viewer).path
    rows = plan(viewer)
    path.playback.play.value = False
    path.playback.scrub.value = 2.0
    viewer.flush()
    for times, bad in (
        ([0.0, 1.0], rows), ([], np.zeros((0, 9))), ([1.0, 0.0], rows[:2]),
        ([0.0, np.nan], rows[:2]), ([0.0, 1.0], np.full((2, 9), np.nan)),
    ):  # fmt: skip
        with pytest.raises(InvalidCommand):
            viewer.robot("franka").update_plan(times, bad)
    viewer.flush()
    np.testing.assert_allclose(path.ghost.q, rows[-1])
    viewer.robot("franka").update_plan([0.0], rows[3:4])
    viewer.flush()
    np.testing.assert_allclose(path.ghost.q, rows[3])
    assert path._line is None, "one point is no line"


def test_a_robot_without_a_tool_shows_no_plans(open_viewer):
    viewer = open_viewer(ViewedRobot(hand_made()))
    assert planning(viewer, viewer.robot_names[0]) is None
    with pytest.raises(InvalidCommand):
        viewer.robot(viewer.robot_names[0]).update_plan([0.0], np.zeros((1, 4)))
    with pytest.raises(InvalidCommand):
        viewer.robot(viewer.robot_names[0]).update_scene(World().scene)
    with pytest.raises(UnknownFrame, check=about("no_link")):
        ViewedRobot(hand_made(), tool="no_link")


X_WB, X_BT, X_TC = pose((1.0, 2.0, 0.0), (0, 0, 0.5)), pose((0.0, 0.3, 0.5)), pose((0.1, 0, 0))
ARM = {"tool": ("base", X_BT), "camera": ("tool", X_TC), "base": ("map", pose((5.0, 0, 0)))}
LOST = {"left": ("right", np.eye(4)), "right": ("left", np.eye(4)), "a": ("b", np.eye(4))}


@pytest.fixture
def viewer_of_displays(open_viewer):
    return open_viewer(ViewedRobot.of(load_robot("franka")), displays=True)


class TestFrameTree:
    def test_frames_above_and_below_an_anchor_are_placed(self):
        tree = FrameTree.of(ARM, [("base", X_WB)])
        np.testing.assert_allclose(tree.pose("base"), X_WB, atol=1e-12)
        np.testing.assert_allclose(tree.pose("camera"), X_WB @ X_BT @ X_TC, atol=1e-12)
        np.testing.assert_allclose(tree.pose("map") @ pose((5.0, 0, 0)), X_WB, atol=1e-12)
        assert [(name, parent) for name, parent, _ in tree.placed()] == [
            ("map", ""), ("base", "map"), ("tool", "base"), ("camera", "tool"),
        ]  # fmt: skip

    def test_the_first_anchor_of_a_tree_counts(self):
        tree = FrameTree.of(ARM, [("nowhere", np.eye(4)), ("base", X_WB), ("tool", np.eye(4))])
        np.testing.assert_allclose(tree.pose("base"), X_WB, atol=1e-12)
        assert set(tree.roots) == {"map"}

    def test_what_no_transform_connects_is_listed(self):
        tree = FrameTree.of(ARM | LOST, [("base", X_WB)])
        assert tree.unplaced == ("a", "b", "left", "right")
        assert tree.pose("left") is None
        assert tree.pose("unknown") is None


class TestFrames:
    def frames(self, viewer, transforms=ARM):
        viewer.displays.set_frames(FrameTree.of(transforms, [("base", X_WB)]))
        viewer.flush()
        return viewer.displays._frames._nodes

    def test_nothing_is_drawn_until_they_are_switched_on(self, viewer_of_displays):
        assert not self.frames(viewer_of_displays)
        viewer_of_displays.displays._panel.frames.value = True
        nodes = self.frames(viewer_of_displays)
        assert set(nodes) == {"map", "base", "tool", "camera"}
        assert nodes["camera"].axes.name == "/tf/map/base/tool/camera"
        assert nodes["camera"].label.text == "camera"
        viewer_of_displays.displays._panel.names.value = False
        viewer_of_displays.flush()
        assert not nodes["camera"].label.visible
        viewer_of_displays.displays._panel.frames.value = False
        viewer_of_displays.flush()
        assert not viewer_of_displays.displays._frames.drawn

    def test_frames_move_and_change_their_parents(self, viewer_of_displays):
        viewer_of_displays.displays._panel.frames.value = True
        first = dict(self.frames(viewer_of_displays))
        moved = self.frames(viewer_of_displays, ARM | {"tool": ("base", pose((0.0, 0.0, 0.7)))})
        assert moved["tool"] is first["tool"]
        np.testing.assert_allclose(moved["tool"].axes.position, (0.0, 0.0, 0.7))
        elsewhere = self.frames(viewer_of_displays, ARM | {"camera": ("base", X_TC)})
        assert elsewhere["camera"].axes.name == "/tf/map/base/camera"


class TestClouds:
    def test_colours_go_from_blue_to_red(self):
        rgb = colours_of_heights(np.array([0.0, 0.5, 1.0]))
        np.testing.assert_array_equal(rgb, [(0, 0, 255), (0, 255, 0), (255, 0, 0)])
        assert colours_of_heights(np.array([0.3])).shape == (1, 3)

    def test_large_clouds_are_thinned_and_heights_are_those_in_the_world(self):
        points = np.zeros((3 * MAX_POINTS, 3), np.float32)
        points[:, 0] = np.linspace(0.0, 1.0, len(points))
        points[::2] = np.nan
        # A camera that looks up: its x axis is the world's z axis.
        cloud = thinned_cloud("/points", points, None, pose((0, 0, 0), (0, -np.pi / 2, 0)))
        assert MAX_POINTS / 2 < len(cloud.points) <= MAX_POINTS
        assert np.isfinite(cloud.points).all()
        assert (cloud.rgb[0] == (0, 0, 255)).all()
        assert (cloud.rgb[-1] == (255, 0, 0)).all()

    def test_only_the_selected_topic_is_drawn(self, viewer_of_displays):
        viewer_of_displays.displays.set_topics({"cloud": ["/points"]})
        viewer_of_displays._refresh_panels()
        box = viewer_of_displays.displays._panel.cloud
        assert tuple(box.options) == (OFF, "/points")
        rgb = np.full((2, 3), 200, np.uint8)
        cloud = thinned_cloud("/points", np.ones((2, 3), np.float32), rgb, X_WB)
        for value, count in ((OFF, 0), ("/points", 2), (OFF, 0)):
            box.value = value
            viewer_of_displays.displays.set_cloud(cloud)
            viewer_of_displays.flush()
            assert viewer_of_displays.displays._cloud.drawn == count
        # A selected topic without publishers stays selected.
        box.value = "/points"
        viewer_of_displays.displays.set_topics({})
        viewer_of_displays._refresh_panels()
        assert box.value == "/points"


def test_an_image_is_shown_while_its_topic_is_selected(viewer_of_displays):
    panel = viewer_of_displays.displays._panel
    viewer_of_displays.displays.set_topics({"image": ["/image"]})
    viewer_of_displays._refresh_panels()
    pixels = np.zeros((700, 1000, 3), np.uint8)
    panel.show_image("/image", pixels)
    assert panel.picture is None
    panel.image.value = "/image"
    panel.show_image("/image", pixels)
    assert panel.picture.image.shape == (234, 334, 3), "every third pixel"
    panel.image.value = OFF
    viewer_of_displays._refresh_panels()
    assert panel.picture is None
