# SPDX-License-Identifier: Apache-2.0
"""Frames of /tf, clouds and images in the viewer, without a page."""

import numpy as np
import pytest
from view.toy_robot import pose

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.viewer.displays import (
    MAX_POINTS,
    OFF,
    FrameTree,
    colours_of_heights,
    thinned_cloud,
)
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

X_WB, X_BT, X_TC = pose((1.0, 2.0, 0.0), (0, 0, 0.5)), pose((0.0, 0.3, 0.5)), pose((0.1, 0, 0))
ARM = {"tool": ("base", X_BT), "camera": ("tool", X_TC), "base": ("map", pose((5.0, 0, 0)))}
LOST = {"left": ("right", np.eye(4)), "right": ("left", np.eye(4)), "a": ("b", np.eye(4))}


@pytest.fixture
def viewer(open_viewer):
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

    def test_nothing_is_drawn_until_they_are_switched_on(self, viewer):
        assert not self.frames(viewer)
        viewer.displays._panel.frames.value = True
        nodes = self.frames(viewer)
        assert set(nodes) == {"map", "base", "tool", "camera"}
        assert nodes["camera"].axes.name == "/tf/map/base/tool/camera"
        assert nodes["camera"].label.text == "camera"
        viewer.displays._panel.names.value = False
        viewer.flush()
        assert not nodes["camera"].label.visible
        viewer.displays._panel.frames.value = False
        viewer.flush()
        assert not viewer.displays._frames.drawn

    def test_frames_move_and_change_their_parents(self, viewer):
        viewer.displays._panel.frames.value = True
        first = dict(self.frames(viewer))
        moved = self.frames(viewer, ARM | {"tool": ("base", pose((0.0, 0.0, 0.7)))})
        assert moved["tool"] is first["tool"]
        np.testing.assert_allclose(moved["tool"].axes.position, (0.0, 0.0, 0.7))
        elsewhere = self.frames(viewer, ARM | {"camera": ("base", X_TC)})
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

    def test_only_the_selected_topic_is_drawn(self, viewer):
        viewer.displays.set_topics({"cloud": ["/points"]})
        viewer._refresh_panels()
        box = viewer.displays._panel.cloud
        assert tuple(box.options) == (OFF, "/points")
        rgb = np.full((2, 3), 200, np.uint8)
        cloud = thinned_cloud("/points", np.ones((2, 3), np.float32), rgb, X_WB)
        for value, count in ((OFF, 0), ("/points", 2), (OFF, 0)):
            box.value = value
            viewer.displays.set_cloud(cloud)
            viewer.flush()
            assert viewer.displays._cloud.drawn == count
        # A selected topic without publishers stays selected.
        box.value = "/points"
        viewer.displays.set_topics({})
        viewer._refresh_panels()
        assert box.value == "/points"


def test_an_image_is_shown_while_its_topic_is_selected(viewer):
    panel = viewer.displays._panel
    viewer.displays.set_topics({"image": ["/image"]})
    viewer._refresh_panels()
    pixels = np.zeros((700, 1000, 3), np.uint8)
    panel.show_image("/image", pixels)
    assert panel.picture is None
    panel.image.value = "/image"
    panel.show_image("/image", pixels)
    assert panel.picture.image.shape == (234, 334, 3), "every third pixel"
    panel.image.value = OFF
    viewer._refresh_panels()
    assert panel.picture is None
