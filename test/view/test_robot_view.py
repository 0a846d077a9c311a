# SPDX-License-Identifier: Apache-2.0
"""The nodes of the scene: shapes, colours, poses, cameras, and messages when a joint moves."""

import asyncio
import logging
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import trimesh
import viser
from scipy.spatial.transform import Rotation
from view.toy_robot import hand_made, pose

from motion_nodes.core.robot.link_poses import LinkPoses
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.tree import Box, Cylinder, Mesh, Shape, Sphere
from motion_nodes.core.scene.shapes import spiral_directions
from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.viewer import browser
from motion_nodes.extras.viewer.browser import DIRECTIONS, ViewPanel
from motion_nodes.extras.viewer.robot_view import (
    GHOST,
    PLACEHOLDER_RGB,
    PLAIN_RGB,
    SOLID,
    colour,
    merged,
)
from motion_nodes.extras.viewer.scene_setup import (
    FIELD_OF_VIEW,
    VIEW_DIRECTION,
    SceneSetup,
    camera_for,
)
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot
from motion_nodes.typing import Array


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
    viewer.robot("toy").update_joints(q)
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
    trimesh.creation.box((0.1, 0.2, 0.3)).export(tmp_path / "part.stl")
    viewer = open_viewer(ViewedRobot(hand_made(folder=tmp_path)))
    mesh = node(viewer, "/robots/toy/base/upper/lower/visual_0")
    assert isinstance(mesh, viser.MeshHandle)
    np.testing.assert_allclose(np.ptp(mesh.vertices, axis=0), [0.2, 0.4, 0.6], rtol=1e-6)


def test_mesh_file_is_drawn_in_its_colours(open_viewer, tmp_path):
    solids = [trimesh.creation.box((0.1, 0.1, 0.1)) for _ in range(2)]
    for solid, rgba in zip(solids, [(255, 0, 0, 255), (0, 0, 255, 255)], strict=True):
        material = trimesh.visual.material.SimpleMaterial(diffuse=rgba)
        solid.visual = trimesh.visual.TextureVisuals(np.zeros((8, 2)), material)
    trimesh.Scene(solids).export(tmp_path / "part.obj")
    toy = hand_made(folder=tmp_path, mesh="part.obj")
    viewer = open_viewer(ViewedRobot(toy))
    path = "/robots/toy/base/upper/lower/visual_0"
    first, second = (node(viewer, name) for name in (path, f"{path}/1"))
    assert {tuple(first.color), tuple(second.color)} == {(255, 0, 0), (0, 0, 255)}
    X_LG = toy.tree.links["lower"].visuals[0].X_LG
    np.testing.assert_allclose(node_pose(first), X_LG, atol=1e-6)
    np.testing.assert_allclose(
        world_pose(viewer._server.scene, second.name),
        world_pose(viewer._server.scene, first.name),
        atol=1e-6,
    )


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
    viewer.robot("toy").update_joints([np.nan, 1.0, np.inf, -np.inf])
    viewer.flush()
    view = viewer._robots["toy"].view
    np.testing.assert_allclose(view.q, [0.3, 1.0, 0.05, 0.0])
    for link in view.links:
        assert np.isfinite(link.wxyz).all()
        assert np.isfinite(link.position).all()


def test_bad_base_pose_is_refused_and_the_last_one_stays(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, drive=True))
    good = pose((1.0, 2.0, 0.0), (0, 0, 0.5))
    viewer.robot("toy").update_base(good)
    for bad in (np.full((4, 4), np.nan), 2.0 * np.eye(4), np.diag([1.0, 1, -1, 1])):
        with pytest.raises(InvalidCommand):
            viewer.robot("toy").update_base(bad)
    viewer.flush()
    np.testing.assert_allclose(node_pose(viewer._robots["toy"].view.base), good, atol=1e-6)


def test_ghost_appears_moves_with_the_base_and_goes(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, X_WR=pose((3, 0, 0))))
    q = np.array([1.0, -1.0, 0.1, 0.0])
    viewer.robot("toy").update_reference(q)
    viewer.flush()
    live = viewer._robots["toy"]
    shape = node(viewer, live.ghost.links[1].name + "/visual_0")
    assert shape.opacity == pytest.approx(GHOST.opacity)
    X_WL = pose((3, 0, 0)) @ LinkPoses(toy.tree).in_root(q)
    np.testing.assert_allclose(
        world_pose(viewer._server.scene, live.ghost.links[1].name), X_WL[1], atol=1e-5
    )
    viewer.robot("toy").update_reference(None)
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


def camera(*balls: tuple[tuple[float, float, float], float], **options: Any) -> SimpleNamespace:
    """Return the camera that is set for given balls."""
    view = SimpleNamespace()
    server: Any = SimpleNamespace(scene=MagicMock(), initial_camera=view)
    SceneSetup(server, [(np.array(c), r) for c, r in balls], **options)
    return view


@pytest.mark.parametrize("size", [(1400, 900), (1024, 768), (760, 420), (800, 1200), (390, 844)])
def test_robots_fill_what_the_panel_leaves_free(size):
    balls = [(np.array([0.0, 0.0, 0.5]), 0.6), (np.array([0.5, -0.5, 0.1]), 0.2)]
    position, look_at = camera_for(balls, VIEW_DIRECTION, 0.0, size)
    ahead = (look_at - position) / np.linalg.norm(look_at - position)
    right = np.cross(ahead, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    points = np.vstack([c + r * spiral_directions(400) for c, r in balls]) - position
    focal = 0.5 * size[1] / np.tan(FIELD_OF_VIEW / 2) / (points @ ahead)
    x, y = (
        size[0] / 2 + focal * (points @ right),
        size[1] / 2 + focal * (points @ np.cross(ahead, right)),
    )
    phone = size[0] <= 576
    free = np.array(
        [size[0] - (not phone) * min(400, 0.6 * size[0]), size[1] * (0.55 if phone else 1)]
    )
    assert min(x.min(), y.min()) > 0.0
    assert ((x.max(), y.max()) < free).all()
    assert max(np.ptp(x) / free[0], np.ptp(y) / free[1]) > 0.6, "no smaller than needed"


def test_min_radius_leaves_room_to_drive():
    small, roomy = (camera(((0.0, 0.0, 0.1), 0.1), min_radius=r) for r in (0.0, 0.9))
    distances = [float(np.linalg.norm(v.position - v.look_at)) for v in (small, roomy)]
    assert distances[1] / distances[0] == pytest.approx(9.0)


def test_nothing_to_show_is_no_error():
    assert np.isfinite(camera().position).all()


class OpenPage:
    """A page of a size, whose camera is where it is placed; it reports what changes."""

    def __init__(self, width: int, height: int) -> None:
        self.client_id, self.atomic = 3, nullcontext
        self.camera: Any = SimpleNamespace(position=np.zeros(3), on_update=self._listen)
        self.camera.image_width, self.camera.image_height = width, height

    def _listen(self, updated: Any) -> None:
        self._updated = updated

    def report(self) -> Array:
        asyncio.run(self._updated(self.camera))
        return np.array(self.camera.position)


def test_a_resized_page_is_fitted_again_until_the_user_moves_its_camera(monkeypatch):
    ball = (np.array([0.2, 0.0, 0.5]), 0.6)
    panel = ViewPanel(MagicMock(), SimpleNamespace(min_radius=0.1), lambda: [ball], False, False)

    def wanted(direction: Array) -> Array:
        size = page.camera.image_width, page.camera.image_height
        return camera_for([ball], direction, 0.1, size)[0]

    page = OpenPage(1400, 900)
    monkeypatch.setattr(browser, "SETTLING", -1.0)
    panel.set_initial_camera(page)
    for direction in (VIEW_DIRECTION, DIRECTIONS["Side"]):
        panel._place_camera(page, direction)
        page.camera.image_width, page.camera.image_height = 390, 844
        np.testing.assert_allclose(page.report(), wanted(direction))
        page.camera.image_width, page.camera.image_height = 844, 390
        np.testing.assert_allclose(page.report(), wanted(direction))
    mine = page.camera.position = wanted(VIEW_DIRECTION) + 0.2
    page.camera.image_width = 1000
    np.testing.assert_allclose(page.report(), mine)
    panel.client_left(page.client_id)
    assert not panel._placed
