# SPDX-License-Identifier: Apache-2.0
"""Convex pieces contain their meshes within a tolerance, with few faces and pieces."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from raised_errors import about
from scene.random_scenes import coal_distance, l_shaped_mesh

from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.core.scene.mesh_file import read_mesh
from motion_nodes.core.scene.shapes import triangle_mesh
from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.typing import Array

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from convex_cover import (
    ConvexPiece,
    bounding_polytope,
    convex_pieces,
    reach_beyond,
    sticks_out,
    with_collision_meshes,
    write_pieces,
)


def cloud(seed: int) -> Array:
    """Return the points of an elongated round cloud [m], shape (n, 3)."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(80, 3))
    return points / np.linalg.norm(points, axis=1)[:, None] * (0.06, 0.05, 0.2)


def coal_excess(piece: ConvexPiece, points: Array) -> float:
    """Return the max distance of a piece's vertices from the hull of points, by coal [m]."""
    hull = triangle_mesh(points, [[0, 1, 2]], convex=True)
    distances = []
    for vertex in piece.vertices:
        X = np.eye(4)
        X[:3, 3] = vertex
        distances.append(coal_distance(hull, np.eye(4), Sphere(1e-6), X) + 1e-6)
    return max(distances)


@pytest.mark.parametrize("tolerance", [0.002, 0.01])
def test_a_polytope_contains_its_points_and_keeps_the_tolerance(tolerance: float) -> None:
    points = cloud(1)
    piece = bounding_polytope(points, tolerance)
    assert sticks_out([piece], points) == 0.0
    assert piece.excess <= tolerance
    assert piece.excess == pytest.approx(coal_excess(piece, points), abs=1e-5)
    # Each vertex satisfies all planes, and each plane has vertices on it.
    height = piece.vertices @ piece.planes[:, :3].T - piece.planes[:, 3]
    assert height.max() < 1e-5  # vertices are rounded
    assert (np.abs(height) < 1e-5).sum(axis=0).min() >= 3


def test_a_wider_tolerance_takes_fewer_faces() -> None:
    points = cloud(2)
    counts = [len(bounding_polytope(points, t).planes) for t in (0.002, 0.006, 0.02)]
    assert counts[0] > counts[1] > counts[2] >= 4


def test_a_box_stays_a_box() -> None:
    corners = np.array([[x, y, z] for x in (0, 0.1) for y in (0, 0.2) for z in (0, 0.3)])
    piece = bounding_polytope(corners, 0.001)
    assert len(piece.planes) == 6
    assert len(piece.vertices) == 8
    assert piece.excess < 1e-4


def test_a_mesh_with_a_notch_becomes_two_pieces() -> None:
    mesh = l_shaped_mesh(0.2)
    corners = mesh.vertices[mesh.triangles]
    whole = convex_pieces(corners, 0.001)
    parts = convex_pieces(corners, 0.001, max_pieces=3)
    assert len(whole) == 1
    assert len(parts) == 2
    # The notch is a cube with an edge of 0.1 m: its centre is 0.05 m from the mesh.
    assert reach_beyond(whole, mesh) > 0.04
    assert reach_beyond(parts, mesh) < 0.001
    rng = np.random.default_rng(3)
    weights = rng.dirichlet((1.0, 1.0, 1.0), (len(corners), 40))
    points = np.einsum("tmk,tkx->tmx", weights, corners).reshape(-1, 3)
    assert sticks_out(parts, points) < 1e-9


def test_a_file_holds_the_piece(tmp_path: Path) -> None:
    piece = bounding_polytope(cloud(4), 0.004)
    files = write_pieces(tmp_path, "arm", [piece], "# a comment\n")
    assert files == ["meshes/arm.obj"]
    mesh = read_mesh(tmp_path / files[0])
    np.testing.assert_allclose(mesh.vertices, piece.vertices, atol=1e-6)
    corners = mesh.vertices[mesh.triangles]
    volume = np.einsum("ti,ti->t", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum()
    assert volume > 0.0  # faces look outwards
    two = write_pieces(tmp_path, "arm", [piece, piece])
    assert two == ["meshes/arm_0.obj", "meshes/arm_1.obj"]


def test_only_the_collision_geometry_of_one_link_is_replaced() -> None:
    shape = '<collision>\n<geometry><sphere radius="1"/></geometry></collision>'
    visual = '<visual><geometry><box size="1 1 1"/></geometry></visual>'
    text = (
        f'<robot name="r"><!-- kept --><link name="a">{visual}{shape}{shape}</link>'
        f'<link name="b">{shape}</link><joint name="j" type="fixed"><parent link="a"/>'
        '<child link="b"/></joint></robot>'
    )
    changed = with_collision_meshes(text, "a", ["meshes/a_0.obj", "meshes/a_1.obj"])
    assert "<!-- kept -->" in changed
    tree = read_urdf(changed, "r.urdf")
    names = [shape.geometry.filename for shape in tree.links["a"].collisions]  # type: ignore[union-attr]
    assert names == ["meshes/a_0.obj", "meshes/a_1.obj"]
    assert len(tree.links["a"].visuals) == 1
    assert [type(shape.geometry) for shape in tree.links["b"].collisions] == [Sphere]
    with pytest.raises(InvalidDescription):
        with_collision_meshes(text, "c", [])


def test_what_is_no_solid_is_refused() -> None:
    flat = np.array([[[0, 0, 0], [1, 0, 0], [0, 1, 0]]], float)
    with pytest.raises(InvalidDescription):
        convex_pieces(flat, 0.01)
    with pytest.raises(InvalidDescription):
        convex_pieces(np.empty((0, 3, 3)), 0.01)
    for tolerance in (0.0, -1.0, np.nan):
        with pytest.raises(InvalidConfig, check=about("tolerance")):
            bounding_polytope(cloud(1), tolerance)
    with pytest.raises(InvalidConfig, check=about("max_pieces")):
        convex_pieces(flat, 0.01, 0)
