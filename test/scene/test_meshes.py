# SPDX-License-Identifier: Apache-2.0
"""Mesh files, data derived from meshes, triangles."""

import contextlib
import random
from pathlib import Path

import numpy as np
import pytest
import trimesh
from patience import wait_until
from scipy.spatial import ConvexHull

from motion_nodes.core.reactive.obstacle_scene import ObstaclePacker
from motion_nodes.core.reactive.policy_motion import PreparedScenes
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene import convex_decomposition, mesh_preparation, robot_spheres
from motion_nodes.core.scene.convex_decomposition import convex_parts
from motion_nodes.core.scene.mesh_cache import shared_mesh
from motion_nodes.core.scene.mesh_file import EmptyMesh, read_mesh, read_mesh_parts
from motion_nodes.core.scene.mesh_preparation import LARGE, MeshPreparation, large_meshes
from motion_nodes.core.scene.robot_spheres import cover
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.core.scene.shapes import TriangleMesh, triangle_mesh
from motion_nodes.core.scene.triangle_surfaces import WindingNumber, nearest_on_triangles
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidDescription
from motion_nodes.kernels import cache

DAE = """<COLLADA><library_geometries><geometry id="g"><mesh>
<source id="p"><float_array id="a" count="9">0 0 0 1 0 0 0 1 0</float_array><technique_common>
<accessor source="#a" count="3" stride="3" offset="0"/></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
<triangles count="1"><input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2</p></triangles>
</mesh></geometry></library_geometries></COLLADA>"""


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_a_sound_collada_file_is_read(tmp_path):
    mesh = read_mesh(written(tmp_path, "m.dae", DAE.encode()))
    np.testing.assert_array_equal(mesh.vertices, [(0, 0, 0), (1, 0, 0), (0, 1, 0)])


MATERIALS = """<COLLADA><asset><unit meter="0.01"/></asset><library_effects>
<effect id="e0"><profile_COMMON><technique><phong>
<diffuse><color>1 0.5 0 0</color></diffuse></phong>
</technique></profile_COMMON></effect>
<effect id="e1"><profile_COMMON><technique><lambert>
<diffuse><texture texture="t"/></diffuse></lambert>
</technique></profile_COMMON></effect></library_effects><library_materials>
<material id="m0"><instance_effect url="#e0"/></material>
<material id="m1"><instance_effect url="#e1"/></material></library_materials>
<library_geometries><geometry id="g"><mesh>
<source id="p"><float_array id="a">0 0 0 1 0 0 0 1 0 0 0 1</float_array></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
<triangles material="s0"><input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2</p></triangles>
<triangles material="s1"><input semantic="VERTEX" source="#v" offset="0"/><p>0 1 3</p></triangles>
<triangles material="s2"><input semantic="VERTEX" source="#v" offset="0"/><p>0 2 3</p></triangles>
<triangles material="s0"><input semantic="VERTEX" source="#v" offset="0"/><p>1 2 3</p></triangles>
</mesh></geometry></library_geometries><library_visual_scenes><visual_scene id="w"><node>
<translate>5 0 0</translate><instance_geometry url="#g"><bind_material><technique_common>
<instance_material symbol="s0" target="#m0"/><instance_material symbol="s1" target="#m1"/>
</technique_common></bind_material></instance_geometry></node></visual_scene>
</library_visual_scenes><scene><instance_visual_scene url="#w"/></scene></COLLADA>"""


def test_the_colours_of_a_collada_file(tmp_path):
    path = written(tmp_path, "m.dae", MATERIALS.encode())
    parts = read_mesh_parts(path, (1.0, 2.0, 1.0))
    assert {part.rgba: len(part.triangles) for part in parts} == {(1, 0.5, 0, 1): 2, None: 2}
    for part in parts:
        np.testing.assert_allclose(part.vertices[:3], [(0.05, 0, 0), (0.06, 0, 0), (0.05, 0.02, 0)])
    assert len(read_mesh(path).triangles) == 4


@pytest.mark.parametrize("kind", ["glb", "obj", "ply"])
def test_the_colours_of_other_files(tmp_path, kind):
    solids = [trimesh.creation.box((0.1, 0.2, 0.3)) for _ in range(2)]
    solids[1].apply_translation((1.0, 0.0, 0.0))
    colours = [(255, 0, 0, 255), (0, 0, 255, 255)]
    for solid, colour in zip(solids, colours, strict=True):
        material = trimesh.visual.material.SimpleMaterial(diffuse=colour)
        solid.visual = trimesh.visual.TextureVisuals(np.zeros((8, 2)), material)
    if kind == "ply":
        solids = [trimesh.creation.box((0.1, 0.2, 0.3))]
        solids[0].visual.vertex_colors = colours[0]
    trimesh.Scene(solids).export(tmp_path / f"m.{kind}")
    parts = read_mesh_parts(tmp_path / f"m.{kind}")
    seen = {tuple(np.round(part.rgba, 2)): part.vertices[:, 0].mean() for part in parts}
    expected = {(1, 0, 0, 1): 0.0, (0, 0, 1, 1): 1.0}
    assert seen == pytest.approx(dict(list(expected.items())[: len(solids)]), abs=1e-6)


@pytest.mark.parametrize("kind", ["glb", "obj", "ply", "stl"])
def test_a_file_without_colours_has_one_part(tmp_path, kind):
    trimesh.creation.box((0.1, 0.2, 0.3)).export(tmp_path / f"m.{kind}")
    (part,) = read_mesh_parts(tmp_path / f"m.{kind}")
    assert part.rgba is None
    assert np.ptp(part.vertices, axis=0) == pytest.approx((0.1, 0.2, 0.3))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("VERTEX", "NORMAL", "VERTEX"),
        ("POSITION", "NORMAL", "POSITION"),
        ('stride="3"', 'stride="0"', "stride 0"),
        ('count="3" stride="3" offset="0"', 'stride="3" offset="-3"', "offset -3"),
        ("<p>0 1 2", "<p>0 1 99999999999999999999", "m.dae"),
        ("<p>0 1 2", "<p>0 1 -7", "vertex -7"),
    ],
)
def test_a_collada_file_without_what_it_needs_is_named(tmp_path, before, after, words):
    path = written(tmp_path, "m.dae", DAE.replace(before, after).encode())
    with pytest.raises(InvalidDescription, match=words):
        read_mesh(path)


@pytest.mark.parametrize("kind", ["glb", "ply", "stl", "obj"])
def test_damaged_files_are_read_or_named(tmp_path, kind):
    rng = random.Random(1)
    content = trimesh.creation.box().export(file_type=kind)
    content = content.encode() if isinstance(content, str) else content
    for number in range(60):
        damaged = bytearray(content)
        if number % 3 == 0:
            damaged = damaged[: rng.randrange(len(damaged))]
        for _ in range(number % 4):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path = written(tmp_path, f"m.{kind}", bytes(damaged))
        with contextlib.suppress(InvalidDescription):
            assert np.isfinite(read_mesh(path).vertices).all()


def test_an_stl_file_is_read_as_text_and_with_bytes_after_its_triangles(tmp_path):
    box = trimesh.creation.box()
    binary, text = box.export(file_type="stl"), box.export(file_type="stl_ascii").encode()
    for content in (binary, binary + bytes(10), text, text + b"\n"):
        mesh = read_mesh(written(tmp_path, "m.stl", content))
        np.testing.assert_allclose(mesh.vertices[mesh.triangles], box.triangles, atol=1e-6)


def test_an_empty_file_and_a_pointer_are_called_what_they_are(tmp_path):
    with pytest.raises(EmptyMesh, match="no triangles"):
        read_mesh(written(tmp_path, "m.stl", bytes(84)))
    pointer = b"version https://git-lfs.github.com/spec/v1"
    with pytest.raises(InvalidDescription, match="^[^:]*git lfs pull"):
        read_mesh(written(tmp_path, "m.stl", pointer))


def ring(major: float = 0.03) -> TriangleMesh:
    made = trimesh.creation.torus(major, 0.01, major_sections=24, minor_sections=12)
    return triangle_mesh(made.vertices, made.faces)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    tmp_path.chmod(0o700)
    monkeypatch.setenv("MOTION_NODES_CACHE_DIR", str(tmp_path))


def test_equal_meshes_are_one_while_they_are_used_or_recent():
    first = shared_mesh(ring())
    assert shared_mesh(ring()) is first
    assert shared_mesh(ring(0.04)) is not first
    moved = TriangleMesh(first.vertices, first.triangles, convex=True)
    assert shared_mesh(moved) is moved


def test_another_process_prepares_what_this_one_reads(monkeypatch):
    mesh, small = ring(), triangle_mesh(np.eye(3), [(0, 1, 2)])
    parts = (*world_object("ring", mesh).parts, *world_object("leaf", small).parts)
    wanted = large_meshes(parts)
    assert wanted == [mesh]
    assert len(mesh.triangles) > LARGE
    preparation = MeshPreparation()
    assert not preparation.ready(wanted)
    wait_until(lambda: preparation.ready(wanted), "the other process")

    def computed(*_: object) -> None:
        raise AssertionError("computed here")

    with monkeypatch.context() as patch:
        patch.setattr(robot_spheres, "_best_cover", computed)
        patch.setattr(convex_decomposition, "_decomposed", computed)
        read, hulls = cover(mesh), convex_parts(mesh)
    fresh = robot_spheres._best_cover(mesh)
    np.testing.assert_array_equal(read.spheres, fresh.spheres)
    assert read.excess == fresh.excess
    for a, b in zip(hulls, convex_decomposition._decomposed(mesh, 2e-3, 32), strict=True):
        np.testing.assert_array_equal(a, b)
    assert MeshPreparation().ready([ring()])


def test_a_loop_gets_scenes_whose_meshes_are_prepared(monkeypatch):
    world, scenes = World(), PreparedScenes()
    world.add("near", Box((0.1, 0.1, 0.1)))
    first = world.scene
    assert scenes.take(first) is first
    assert scenes.take(first) is None
    world.add("large", ring())
    partly = scenes.take(world.scene)
    assert partly is not None
    assert (list(partly.objects), scenes.missing) == (["near"], ("large",))
    world.add("far", Box((0.1, 0.1, 0.1)))
    partly = scenes.take(world.scene)
    assert partly is not None
    assert list(partly.objects) == ["near", "far"]
    found: list[Scene] = []

    def ready() -> bool:
        found.extend(filter(None, [scenes.take(world.scene)]))
        return bool(found)

    wait_until(ready, "the other process")
    assert found == [world.scene]
    assert scenes.missing == ()

    def used(*_: object) -> None:
        raise AssertionError("in the loop")

    monkeypatch.setattr(robot_spheres, "_best_cover", used)
    monkeypatch.setattr(cache, "read_entry", used)
    rows = ObstaclePacker().packed(found[0], np.eye(4)).rows
    assert len(rows["sphere"]) == len(cover(world.scene.objects["large"].parts[0].solid).spheres)
    scenes.close()


def test_a_mesh_counts_as_prepared_where_nothing_can_be_stored(monkeypatch):
    monkeypatch.setattr(cache, "writable_folder", lambda: None)
    assert MeshPreparation().ready([ring()])


def test_a_mesh_counts_as_prepared_where_no_process_can_be_started(monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mesh_preparation, "write_meshes", full)
    preparation = MeshPreparation()
    preparation.ready([ring()])
    assert preparation.ready([ring()])


def test_meshes_and_compiled_code_do_not_displace_each_other(monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "_MAX_ENTRIES", 1)
    monkeypatch.setattr(cache, "_MAX_MESHES", 2)
    cache.write_entry("code", b"1")
    for k in range(3):
        cache.write_entry(f"{cache.MESHES}{k}", b"2")
    assert cache.read_entry("code") == b"1"
    assert len(list((tmp_path / "kernels").iterdir())) == 3


def ball(count: int, seed: int = 0) -> np.ndarray:
    """Return the triangles of a polyhedron in the unit sphere, counterclockwise from outside."""
    points = np.random.default_rng(seed).normal(size=(count, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    hull = ConvexHull(points)
    triangles = points[hull.simplices]
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    turned = np.einsum("ti,ti->t", normals, hull.equations[:, :3]) < 0.0
    triangles[turned] = triangles[turned][:, ::-1]
    return triangles


@pytest.mark.parametrize("count", [4, 50, 3000])
def test_a_closed_surface_winds_once_around_its_inside(count):
    triangles = ball(count)
    winding = WindingNumber(triangles)
    points = np.random.default_rng(1).uniform(-1.2, 1.2, (500, 3))
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    heights = np.einsum("mti,ti->mt", points[:, None] - triangles[:, 0], normals)
    inside = (heights < 0.0).all(axis=1)
    np.testing.assert_allclose(winding(points), inside, atol=0.02)
    np.testing.assert_array_equal(WindingNumber(triangles[:, ::-1]).encloses(points), inside)


def test_far_blocks_count_nearly_as_much_as_their_triangles():
    triangles = ball(2000)[::2]  # open: fractions between 0 and 1
    points = np.random.default_rng(2).uniform(-1.2, 1.2, (200, 3))
    exact = np.zeros(len(points))
    for at, point in enumerate(points):
        a, b, c = (triangles[:, k] - point for k in range(3))
        x, y, z = (np.linalg.norm(p, axis=1) for p in (a, b, c))
        volume = np.einsum("ti,ti->t", a, np.cross(b, c))
        dots = [np.einsum("ti,ti->t", p, q) for p, q in ((a, b), (b, c), (c, a))]
        angle = 2.0 * np.arctan2(volume, x * y * z + dots[0] * z + dots[1] * x + dots[2] * y)
        exact[at] = angle.sum() / (4.0 * np.pi)
    np.testing.assert_allclose(WindingNumber(triangles)(points), exact, atol=0.01)
    assert WindingNumber(triangles)(np.empty((0, 3))).shape == (0,)


def test_closest_points_are_on_the_triangle_and_none_is_closer():
    rng = np.random.default_rng(3)
    corners, points = rng.normal(size=(40, 3, 3)), rng.normal(size=(25, 3))
    nearest = nearest_on_triangles(corners, points[:, None])
    assert nearest.shape == (25, 40, 3)
    weights = rng.dirichlet((0.5, 0.5, 0.5), 4000)
    weights = np.concatenate([weights, np.eye(3)])
    samples = np.einsum("wk,tkj->twj", weights, corners)
    distance = np.linalg.norm(nearest - points[:, None], axis=2)
    for m, point in enumerate(points):
        sampled = np.linalg.norm(samples - point, axis=2).min(axis=1)
        assert (distance[m] <= sampled + 1e-12).all()
        assert (distance[m] >= sampled - 0.1).all()
    for t in range(len(corners)):
        solved = np.linalg.lstsq(
            np.vstack([corners[t].T, np.ones(3)]),
            np.vstack([nearest[:, t].T, np.ones(len(points))]),
            rcond=None,
        )[0]
        assert solved.min() > -1e-9


@pytest.mark.parametrize(
    ("corners", "nearest"),
    [
        ([[0, 0, 0], [1, 0, 0], [2, 0, 0]], [1.5, 0, 0]),
        ([[1, 1, 1], [1, 1, 1], [1, 1, 1]], [1, 1, 1]),
    ],
)
def test_triangles_without_an_area_are_edges_or_points(corners, nearest):
    found = nearest_on_triangles(np.array(corners, float), np.array([1.5, 3.0, 0.0]))
    np.testing.assert_allclose(found, nearest)


@pytest.mark.parametrize("dent", [0.0, 0.3])
def test_what_is_known_of_a_large_mesh_is_stored(dent, tmp_path, monkeypatch):
    """A ball of 800 triangles, one corner of which may be pushed in."""
    monkeypatch.setenv("MOTION_NODES_CACHE_DIR", str(tmp_path))
    points = np.random.default_rng(2).normal(size=(402, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    triangles = ConvexHull(points).simplices
    points[0] *= 1.0 - dent
    computed = []

    def is_convex(mesh, usual=convex_decomposition.is_convex):
        computed.append(mesh)
        return usual(mesh)

    monkeypatch.setattr(convex_decomposition, "is_convex", is_convex)
    for _ in range(2):
        mesh = TriangleMesh(points, triangles)
        assert convex_decomposition.fills_its_hull(mesh) == (dent == 0.0)
        corners = convex_decomposition.solid_corners(mesh)
        kept = points if dent == 0.0 else points[1:]
        assert sorted(corners.tolist()) == sorted(kept.tolist())
    assert len(computed) == 2, "of the first mesh"
