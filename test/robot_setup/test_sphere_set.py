# SPDX-License-Identifier: Apache-2.0
"""Spheres and convex pieces cover the geometry; edits, files, pictures, excess pairs."""

import io
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from raised_errors import about
from scene.random_scenes import coal_distance, l_shaped_mesh
from scene.slider_robot import sliding_robot
from scipy.spatial import cKDTree

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box, Cylinder, Shape, Sphere
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.core.scene.link_geometry import LinkGeometry, dense_points
from motion_nodes.core.scene.mesh_file import read_mesh
from motion_nodes.core.scene.shapes import triangle_mesh
from motion_nodes.core.scene.sphere_set import SphereSet, fit_count, fit_spheres, measure, outside
from motion_nodes.errors import InvalidCommand, InvalidConfig, InvalidDescription, UnknownFrame
from motion_nodes.extras.robot_setup.link_shapes import (
    SelfCollisions,
    add_excess_pairs,
    add_missed_pairs,
    find_self_collisions,
)
from motion_nodes.extras.robot_setup.link_shapes import fit_spheres as spheres_of_links
from motion_nodes.extras.robot_setup.notes import Notes
from motion_nodes.extras.robot_setup.readme import png, robot_picture
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


def no_mesh(filename: str) -> Path:
    raise AssertionError(filename)


def geometry_of(*solids: object) -> LinkGeometry:
    X = np.eye(4)
    X[:3, :3] = [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    X[:3, 3] = (0.1, -0.2, 0.3)
    geometry = LinkGeometry.of_shapes([Shape(s, X) for s in solids], no_mesh)  # type: ignore[arg-type]
    assert geometry is not None
    return geometry


CASES = [
    (Box((0.2, 0.1, 0.16)), 0.2 * 0.1 * 0.16),
    (Cylinder(0.06, 0.4), np.pi * 0.06**2 * 0.4),
    (Sphere(0.1), 4.0 / 3.0 * np.pi * 0.1**3),
]


@pytest.mark.parametrize(("solid", "volume"), CASES)
def test_a_solid_has_its_volume(solid, volume):
    assert geometry_of(solid).volume == pytest.approx(volume, rel=0.15)


@pytest.mark.parametrize("solid", [case[0] for case in CASES])
@pytest.mark.parametrize("accuracy", [0.025, 0.04])
def test_fitted_spheres_hold_a_solid_and_reach_little_beyond_it(solid, accuracy):
    geometry = geometry_of(solid)
    spheres = fit_spheres(geometry, accuracy)
    # Checked at points that the fit did not use.
    points = dense_points(geometry.corners[::5], 0.004)
    assert (outside(spheres, points) <= 1e-4).mean() > 0.995
    assert outside(spheres, points).max() < 0.1 * accuracy
    found = measure(spheres, geometry.finer(accuracy / 3.0))
    assert found.volume > 0.95
    assert found.reach <= 1.1 * accuracy


def test_geometry_of_spheres_is_used_as_it_is():
    links = {
        "balls": geometry_of(Sphere(0.1), Sphere(0.05)),
        "mixed": geometry_of(Sphere(0.1), Box(0.1, 0.1, 0.3)),
    }
    assert links["mixed"].balls is None
    spheres, coverage = spheres_of_links(links, None, lambda step: None)
    assert spheres.of("balls") == pytest.approx(
        np.array([[0.1, -0.2, 0.3, 0.102], [0.1, -0.2, 0.3, 0.052]])
    )
    assert coverage["balls"].gap == 0.0


def test_points_of_any_triangle_are_dense():
    rng = np.random.default_rng(0)
    for _ in range(300):
        a, b = rng.normal(size=(2, 3))
        c = a + (b - a) * rng.uniform(-0.2, 1.2) + rng.normal(size=3) * 10 ** rng.uniform(-4, 0)
        corners = np.array([a, b, c])[rng.permutation(3)]
        edge = 10 ** rng.uniform(-1.5, 0)
        inside = rng.dirichlet((0.5, 0.5, 0.5), 100) @ corners
        distances, _ = cKDTree(dense_points(corners[None], edge)).query(inside)
        assert distances.max() <= edge / np.sqrt(3) + 1e-12


def test_slivers_take_few_points():
    """CAD meshes have thousands of them; sampling by squared length took ten minutes."""
    sliver = np.array([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.4, 1e-4, 0.0]]])
    assert len(dense_points(sliver, 1e-3)) < 5000


def test_finer_spheres_are_more_and_reach_less():
    geometry = geometry_of(Box((0.2, 0.12, 0.08)))
    coarse, fine = (measure(fit_spheres(geometry, a), geometry) for a in (0.04, 0.02))
    assert fine.count > coarse.count
    assert fine.reach < coarse.reach
    assert fine.excess_volume < coarse.excess_volume


def test_a_sphere_is_one_sphere():
    (sphere,) = fit_spheres(geometry_of(Sphere(0.1)), 0.02)
    np.testing.assert_allclose(sphere[:3], (0.1, -0.2, 0.3), atol=0.005)
    assert 0.1 <= sphere[3] < 0.115


def test_measured_figures_are_those_of_a_ball_around_a_ball():
    geometry = geometry_of(Sphere(0.1))
    found = measure(np.array([[0.1, -0.2, 0.3, 0.12]]), geometry)
    assert found.surface == found.volume == 1.0
    assert found.excess_volume == pytest.approx(1.2**3 - 1.0, rel=0.1)
    assert found.reach == pytest.approx(0.02, abs=0.003)
    half = measure(np.array([[0.1, -0.2, 0.4, 0.1]]), geometry)
    # Two equal balls a radius apart overlap in two caps of half a radius, 5/16 of a ball.
    assert half.volume == pytest.approx(5.0 / 16.0, abs=0.04)
    assert half.gap == pytest.approx(0.1, abs=0.005)


def test_a_number_of_spheres_is_kept_to():
    geometry = geometry_of(Cylinder(0.05, 0.4))
    for count in (1, 5):
        spheres = fit_count(geometry, count)
        assert 1 <= len(spheres) <= count
        assert outside(spheres, geometry.surface).max() < 1e-3


def test_an_open_tube_counts_as_solid():
    closed = geometry_of(Cylinder(0.05, 0.3))
    middle = closed.corners.mean(axis=1)
    lid = middle[:, 2] > middle[:, 2].max() - 1e-9
    opened = LinkGeometry(closed.corners[~lid])
    assert opened.volume > 0.8 * closed.volume


def test_spheres_know_the_open_end_of_a_cover():
    """Spheres do not bulge out of an open side, where there is no surface."""
    closed = geometry_of(Box((0.3, 0.3, 0.15)))
    middle = closed.corners.mean(axis=1)
    opened = LinkGeometry(closed.corners[middle[:, 2] > middle[:, 2].min() + 1e-9])
    assert opened.volume > 0.8 * closed.volume
    spheres = fit_spheres(opened, 0.04)
    lowest = (spheres[:, 2] - spheres[:, 3]).min()
    assert lowest > closed.bounds[0, 2] - 1.2 * 0.04 - opened.spacing


def test_every_edit_returns_another_set():
    start = SphereSet({"a": np.array([[0.0, 0.0, 0.0, 0.1], [0.4, 0.0, 0.0, 0.3]])})
    more = start.add("a", (1.0, 0.0, 0.0), 0.2).add("b", (0.0, 0.0, 0.0), 0.5)
    assert (start.count, more.count) == (2, 4)
    assert more.move("a", 0, (0.0, 1.0, 0.0)).of("a")[0].tolist() == [0.0, 1.0, 0.0, 0.1]
    assert more.resize("a", 1, 0.7).of("a")[1, 3] == 0.7
    assert more.remove("a", [0, 2]).of("a").tolist() == [[0.4, 0.0, 0.0, 0.3]]
    assert "b" not in more.remove("b", 0).links
    row = start.connect("a", 0, 1, 3).of("a")[2:]
    np.testing.assert_allclose(row, [[0.1, 0, 0, 0.15], [0.2, 0, 0, 0.2], [0.3, 0, 0, 0.25]])
    assert more.scale(2.0, "b").of("b")[0, 3] == 1.0
    assert more.scale(2.0, "b").of("a")[0, 3] == 0.1
    assert start.of("a").tolist() == [[0.0, 0.0, 0.0, 0.1], [0.4, 0.0, 0.0, 0.3]]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda s: s.add("a", (0.0, 0.0, 0.0), -1.0), "a"),
        (lambda s: s.add("a", (0.0, float("nan"), 0.0), 1.0), "a"),
        (lambda s: s.move("a", 5, (0.0, 0.0, 0.0)), "a"),
        (lambda s: s.move("a", -1, (0.0, 0.0, 0.0)), "a"),
        (lambda s: s.remove("x", 0), "x"),
        (lambda s: s.connect("a", 0, 0, 2), "a"),
        (lambda s: s.connect("a", 0, 1, 0), "a"),
        (lambda s: s.scale(0.0), "factor"),
        (lambda s: s.generate("a", geometry_of(Sphere(0.1))), "a"),
    ],
)
def test_a_bad_edit_is_refused_in_words(edit, words):
    start = SphereSet({"a": np.array([[0.0, 0.0, 0.0, 0.1], [0.4, 0.0, 0.0, 0.3]])})
    with pytest.raises(InvalidCommand, check=about(words)):
        edit(start)  # type: ignore[operator]


def test_a_bad_accuracy_link_or_count_is_refused():
    geometry = geometry_of(Sphere(0.1))
    for accuracy in (0.0, -1.0, float("nan")):
        with pytest.raises(InvalidConfig):
            fit_spheres(geometry, accuracy)
    with pytest.raises(InvalidConfig):
        fit_count(geometry, 0)
    with pytest.raises(UnknownFrame):
        SphereSet({"a": np.ones((1, 4))}).scale(2.0, "b")


def test_files_come_back_equal_and_what_was_there_is_kept(tmp_path):
    spheres = SphereSet.of_robot(load_robot("franka"))
    file = tmp_path / "spheres.yaml"
    assert spheres.write(file) is None
    assert SphereSet.read(tmp_path).text() == spheres.text()
    before = file.read_text()
    kept = spheres.add("panda_hand", (0.0, 0.0, 0.0), 0.05).write(file)
    assert kept == tmp_path / "spheres.yaml.1"
    assert kept.read_text() == before
    assert SphereSet.read(file).count == spheres.count + 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spheres.yaml", "spheres.yaml.1"]


def test_a_bad_file_names_file_and_link(tmp_path):
    file = tmp_path / "spheres.yaml"
    file.write_text("hand:\n  - [0, 0, 0, 0]\n")
    with pytest.raises(InvalidDescription):
        SphereSet.read(file)
    with pytest.raises(InvalidDescription):
        SphereSet().write(tmp_path / "nowhere" / "spheres.yaml")


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
def test_a_polytope_contains_its_points_and_keeps_the_tolerance(tolerance):
    points = cloud(1)
    piece = bounding_polytope(points, tolerance)
    assert sticks_out([piece], points) == 0.0
    assert piece.excess <= tolerance
    assert piece.excess == pytest.approx(coal_excess(piece, points), abs=1e-5)
    # Each vertex satisfies all planes, and each plane has vertices on it.
    height = piece.vertices @ piece.planes[:, :3].T - piece.planes[:, 3]
    assert height.max() < 1e-5  # vertices are rounded
    assert (np.abs(height) < 1e-5).sum(axis=0).min() >= 3


def test_a_wider_tolerance_takes_fewer_faces():
    points = cloud(2)
    counts = [len(bounding_polytope(points, t).planes) for t in (0.002, 0.006, 0.02)]
    assert counts[0] > counts[1] > counts[2] >= 4


def test_a_box_stays_a_box():
    corners = np.array([[x, y, z] for x in (0, 0.1) for y in (0, 0.2) for z in (0, 0.3)])
    piece = bounding_polytope(corners, 0.001)
    assert len(piece.planes) == 6
    assert len(piece.vertices) == 8
    assert piece.excess < 1e-4


def test_a_mesh_with_a_notch_becomes_two_pieces():
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


def test_a_file_holds_the_piece(tmp_path):
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


def test_only_the_collision_geometry_of_one_link_is_replaced():
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


def test_what_is_no_solid_is_refused():
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


GAP = 0.01
"""Distance at which the block of the slider passes the wall [m]."""


def passing(folder: Path, height: float) -> Robot:
    """Return a block that slides along a wall, whose spheres are 15 mm larger than its shape.

    Args:
        folder: for its files.
        height: of a bump of the wall, in the middle of the way [m].
    """
    box = '<collision><origin xyz="{0}"/><geometry><box size="{1}"/></geometry></collision>'
    wall = box.format("0 -0.1 0", "4 0.1 0.1")
    bump = box.format(f"0 {-0.05 + 0.5 * height} 0", f"0.1 {height} 0.1") if height else ""
    beside = box.format("0 1 0", "0.1 0.1 0.1")  # neighbours are not checked
    urdf = (
        f'<robot name="passing"><link name="wall">{wall}{bump}</link>'
        f'<link name="mid">{beside}</link>'
        f'<link name="block">{box.format("0 0 0", f"0.1 {0.1 - 2 * GAP} 0.1")}</link>'
        '<joint name="x" type="prismatic"><parent link="wall"/><child link="mid"/>'
        '<axis xyz="1 0 0"/><limit lower="-2" upper="2" velocity="1" effort="1"/></joint>'
        '<joint name="z" type="prismatic"><parent link="mid"/><child link="block"/>'
        '<axis xyz="0 0 1"/><limit lower="0" upper="0.01" velocity="1" effort="1"/></joint></robot>'
    )
    robot = sliding_robot(folder, urdf, {"x": 1.9, "z": 0.0}, ("wall", "block"))
    radius = 0.04 + GAP + 0.005
    wall_spheres = tuple((x, -0.1, 0.0, 0.05) for x in np.arange(-2.0, 2.0, 0.05).tolist())
    return replace(robot, spheres={"wall": wall_spheres, "block": ((0.0, 0.0, 0.0, radius),)})


@pytest.mark.parametrize(("height", "pairs"), [(0.0, [("wall", "block")]), (0.05, [])])
def test_only_pairs_without_a_collision_of_their_shapes_are_found(height, pairs, tmp_path):
    found, findings = SelfCollisions(checked=[("wall", "block")]), Notes()
    rng = np.random.default_rng(0)
    added = add_excess_pairs(passing(tmp_path, height), found, (), rng, findings)
    assert (added, found.exact_only) == (bool(pairs), pairs)
    assert len(list(findings)) == len(pairs)


def gantries(folder: Path, apart: float) -> Robot:
    """Return two small bodies with two joints of +-2 m along each axis between them.

    Args:
        folder: for its files.
        apart: their distance at joint positions zero [m].
    """
    links, joints, above = '<link name="left"/>', "", "left"
    names = [f"{axis}{k}" for k in (1, 2) for axis in "xyz"]
    ways = {"x": "1 0 0", "y": "0 1 0", "z": "0 0 1"}
    for name in names:
        body = "right" if name == names[-1] else f"rail_{name}"
        links += f'<link name="{body}"/>'
        joints += (
            f'<joint name="{name}" type="prismatic"><parent link="{above}"/><child link="{body}"/>'
            f'<origin xyz="{apart if above == "left" else 0.0} 0 0"/><axis xyz="{ways[name[0]]}"/>'
            '<limit lower="-2" upper="2" velocity="1" effort="1"/></joint>'
        )
        above = body
    urdf = f'<robot name="gantries">{links}{joints}</robot>'
    robot = sliding_robot(folder, urdf, dict.fromkeys(names, 0.0), ("left", "right"))
    spheres = {end: ((0.0, 0.0, 0.0, 0.03),) for end in ("left", "right")}
    between = {"rail_z1": ((0.0, 0.0, 9.0, 0.03),)}  # else both were neighbours
    return replace(robot, spheres={**spheres, **between})


@pytest.mark.parametrize(("apart", "reason"), [(0.5, None), (3.9, None), (4.2, "never")])
def test_hands_of_two_arms_that_can_meet_are_checked(apart, reason, tmp_path):
    # Random configurations hardly ever bring two small bodies together.
    found = find_self_collisions(gantries(tmp_path, apart), {}, samples=500)
    assert found.ignored == ({("left", "right"): reason} if reason else {})
    assert found.checked == ([] if reason else [("left", "right")])


@pytest.mark.parametrize(
    ("height", "reason", "checked"),
    [(0.05, "often", True), (0.05, "spheres only", True), (0.05, "always", True),
     (0.05, "gripper", False), (0.0, "often", False)],
)  # fmt: skip
def test_ignored_pairs_whose_shapes_touch_are_checked_exactly(height, reason, checked, tmp_path):
    pair, robot, rng = ("wall", "block"), passing(tmp_path, height), np.random.default_rng(0)
    found, findings = SelfCollisions({pair: reason}), Notes()
    assert add_missed_pairs(robot, found, (), rng, findings) == checked
    assert (found.exact_only == [pair], found.ignored == {}) == (checked, checked)
    assert len(list(findings)) == checked


def test_pairs_that_touch_at_home_stay_ignored(tmp_path):
    robot = passing(tmp_path, 0.05)
    states = {"home": {"x": 0.0, "z": 0.0}}
    robot = replace(robot, home=np.zeros(2), states=states)
    found, findings = SelfCollisions({("wall", "block"): "default"}), Notes()
    assert not add_missed_pairs(robot, found, (), np.random.default_rng(0), findings)
    assert found.exact_only == []
    assert [item.confidence for item in findings] == ["low"]


def test_pairs_whose_spheres_rarely_collide_stay_as_they_are(tmp_path):
    robot = passing(tmp_path, 0.0)
    robot = replace(robot, spheres={**robot.spheres, "block": ((0.0, 0.0, 0.0, 0.01),)})
    found = SelfCollisions(checked=[("wall", "block")])
    assert not add_excess_pairs(robot, found, (), np.random.default_rng(0), Notes())


def test_spheres_are_seen_around_the_body_with_the_right_areas():
    edge, radius = 0.2, 0.25
    geometry = LinkGeometry.of_shapes([Shape(Box((edge,) * 3), np.eye(4))], lambda name: None)
    assert geometry is not None
    spheres = np.array([[0.0, 0.0, 0.0, radius]])
    data = robot_picture({"a": geometry}, {"a": spheres}, {"a": from_xyz_rpy((3.0, 2.0, 1.0))})
    image = np.asarray(Image.open(io.BytesIO(data)))
    left, right = image[:, : image.shape[0]], image[:, image.shape[0] :]
    body = float((left != 255).any(axis=2).sum())
    disc = float((right != 255).any(axis=2).sum())
    # Projected area of a cube: the sum of its faces' areas times their cosines to the viewer.
    towards = np.array([1.0, 0.75, 0.6]) / np.linalg.norm([1.0, 0.75, 0.6])
    shadow = edge**2 * towards.sum()
    assert disc / body == pytest.approx(np.pi * radius**2 / shadow, rel=0.03)
    rows = np.flatnonzero((right != 255).any(axis=(1, 2)))
    assert 0.5 * (rows[0] + rows[-1]) == pytest.approx(0.5 * image.shape[0], abs=2.0)


def test_a_png_is_read_back_as_it_was():
    image = np.random.default_rng(0).integers(0, 256, (7, 11, 3), dtype=np.uint8)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png(image)))), image)
