# SPDX-License-Identifier: Apache-2.0
"""The nodes of the scene: shapes, colours, poses, and messages when a joint moves."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import viser
from scipy.spatial.transform import Rotation
from view.toy_robot import hand_made, pose

from motion_nodes.core.robot.link_poses import LinkPoses
from motion_nodes.core.robot.tree import Box, Shape
from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.viewer.robot_view import GHOST, PLACEHOLDER_RGB, PLAIN_RGB, SOLID, colour
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot


def node_pose(node):
    X = np.eye(4)
    X[:3, :3] = Rotation.from_quat(node.wxyz[[1, 2, 3, 0]]).as_matrix()
    X[:3, 3] = node.position
    return X


def world_pose(scene, name):
    """Compose the poses of a node and all nodes above it, as the browser does."""
    X = np.eye(4)
    parts = name.strip("/").split("/")
    for depth in range(1, len(parts) + 1):
        node = scene.get_handle_by_name("/" + "/".join(parts[:depth]))
        if node is not None:
            X = X @ node_pose(node)
    return X


def node(viewer, name):
    return viewer._server.scene.get_handle_by_name(name)


def test_each_link_stands_where_forward_kinematics_says(open_viewer, toy):
    X_WR = pose((0.5, -1.0, 0.2), (0.1, 0.2, 0.3))
    viewer = open_viewer(ViewedRobot(toy, X_WR=X_WR))
    q = np.array([-0.7, 1.1, 0.02, 2.0])
    viewer.update_joints("toy", q)
    viewer.flush()
    expected = X_WR @ LinkPoses(toy.tree).in_root(q)
    links = viewer._robots["toy"].view.links
    for link, X_WL in zip(links, expected, strict=True):
        np.testing.assert_allclose(world_pose(viewer._server.scene, link.name), X_WL, atol=1e-5)


def test_shapes_keep_their_sizes_and_their_pose_in_the_link(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy))
    box = node(viewer, "/robots/toy/base/upper/visual_0")
    assert isinstance(box, viser.BoxHandle)
    assert box.dimensions == (0.08, 0.06, 0.4)
    assert tuple(box.color) == (255, 128, 0)
    np.testing.assert_allclose(node_pose(box), toy.tree.links["upper"].visuals[0].X_LG, atol=1e-6)
    cylinder = node(viewer, "/robots/toy/base/visual_0")
    assert (cylinder.radius, cylinder.height) == (0.1, 0.08)
    ball = node(viewer, "/robots/toy/base/upper/lower/finger/visual_0")
    assert ball.radius == 0.05
    assert ball.opacity == pytest.approx(0.5)


def test_missing_mesh_becomes_a_box_and_one_warning(open_viewer, toy, caplog):
    with caplog.at_level(logging.WARNING):
        viewer = open_viewer(ViewedRobot(toy))
    stand_in = node(viewer, "/robots/toy/base/upper/lower/visual_0")
    assert isinstance(stand_in, viser.BoxHandle)
    assert tuple(stand_in.color) == PLACEHOLDER_RGB
    warnings = [r.getMessage() for r in caplog.records if "mesh" in r.getMessage()]
    assert len(warnings) == 1
    assert "toy" in warnings[0]
    assert "part.stl" in warnings[0]


@pytest.mark.parametrize("content", [b"", b"solid nothing\nendsolid\n", b"\x00" * 84])
def test_broken_mesh_becomes_a_box(open_viewer, tmp_path, content):
    (tmp_path / "part.stl").write_bytes(content)
    viewer = open_viewer(ViewedRobot(hand_made(folder=tmp_path)))
    assert isinstance(node(viewer, "/robots/toy/base/upper/lower/visual_0"), viser.BoxHandle)


def test_mesh_file_is_drawn_with_its_scale(open_viewer, tmp_path):
    trimesh = pytest.importorskip("trimesh")
    trimesh.creation.box((0.1, 0.2, 0.3)).export(tmp_path / "part.stl")
    viewer = open_viewer(ViewedRobot(hand_made(folder=tmp_path)))
    mesh = node(viewer, "/robots/toy/base/upper/lower/visual_0")
    assert isinstance(mesh, viser.MeshHandle)
    np.testing.assert_allclose(np.ptp(mesh.vertices, axis=0), [0.2, 0.4, 0.6], rtol=1e-6)


def test_only_links_whose_joint_moved_are_sent(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy))
    view = viewer._robots["toy"].view
    sent = []
    viewer._server.scene._queue_scene_message = sent.append
    assert view.draw_joints(toy.home) == 0
    assert sent == []
    q = toy.home.copy()
    q[0] += 0.1
    assert view.draw_joints(q) == 1
    # A rotating link keeps its position, so one joint needs one message.
    assert [(type(m).__name__, m.name) for m in sent] == [
        ("SetOrientationMessage", "/robots/toy/base/upper")
    ]
    q[2] += 0.01
    assert view.draw_joints(q) == 2


def test_nan_leaves_a_joint_where_it_was(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy))
    viewer.update_joints("toy", [np.nan, 1.0, np.inf, -np.inf])
    viewer.flush()
    view = viewer._robots["toy"].view
    np.testing.assert_allclose(view.q, [0.3, 1.0, 0.05, 0.0])
    for link in view.links:
        assert np.isfinite(link.wxyz).all()
        assert np.isfinite(link.position).all()


def test_bad_base_pose_is_refused_and_the_last_one_stays(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, drive=True))
    good = pose((1.0, 2.0, 0.0), (0, 0, 0.5))
    viewer.update_base("toy", good)
    for bad in (np.full((4, 4), np.nan), 2.0 * np.eye(4), np.diag([1.0, 1, -1, 1])):
        with pytest.raises(InvalidCommand):
            viewer.update_base("toy", bad)
    viewer.flush()
    np.testing.assert_allclose(node_pose(viewer._robots["toy"].view.base), good, atol=1e-6)


def test_ghost_appears_moves_with_the_base_and_goes(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, X_WR=pose((3, 0, 0))))
    q = np.array([1.0, -1.0, 0.1, 0.0])
    viewer.update_reference("toy", q)
    viewer.flush()
    live = viewer._robots["toy"]
    shape = node(viewer, live.ghost.links[1].name + "/visual_0")
    assert shape.opacity == pytest.approx(GHOST.opacity)
    X_WL = pose((3, 0, 0)) @ LinkPoses(toy.tree).in_root(q)
    np.testing.assert_allclose(
        world_pose(viewer._server.scene, live.ghost.links[1].name), X_WL[1], atol=1e-5
    )
    viewer.update_reference("toy", None)
    viewer.flush()
    assert not live.ghost.base.visible


@pytest.mark.parametrize(
    ("rgba", "rgb", "opacity"),
    [
        (None, PLAIN_RGB, None),
        ((1, 0, 0, 1), (255, 0, 0), None),
        ((0.5, 2.0, -1.0, 0.25), (128, 255, 0), 0.25),
        ((np.nan, 0, 0, 1), (0, 0, 0), None),
    ],
)
def test_colours(rgba, rgb, opacity):
    shape = Shape(Box((1, 1, 1)), np.eye(4), rgba)
    assert colour(shape, SOLID) == (rgb, opacity)
