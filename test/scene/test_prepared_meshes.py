# SPDX-License-Identifier: Apache-2.0
"""Data derived from meshes is shared by equal meshes and, on disk, between processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import trimesh
from patience import wait_until

from motion_nodes.core.reactive.obstacle_scene import ObstaclePacker
from motion_nodes.core.reactive.policy_motion import PreparedScenes
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene import convex_decomposition, mesh_preparation, robot_spheres
from motion_nodes.core.scene.convex_decomposition import convex_parts
from motion_nodes.core.scene.mesh_cache import shared_mesh
from motion_nodes.core.scene.mesh_preparation import LARGE, MeshPreparation, large_meshes
from motion_nodes.core.scene.robot_spheres import cover
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.core.scene.shapes import TriangleMesh, triangle_mesh
from motion_nodes.core.scene.world import World
from motion_nodes.kernels import cache


def ring(major: float = 0.03) -> TriangleMesh:
    made = trimesh.creation.torus(major, 0.01, major_sections=24, minor_sections=12)
    return triangle_mesh(made.vertices, made.faces)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("MOTION_NODES_CACHE_DIR", str(tmp_path))


def test_equal_meshes_are_one_while_they_are_used_or_recent() -> None:
    first = shared_mesh(ring())
    assert shared_mesh(ring()) is first
    assert shared_mesh(ring(0.04)) is not first
    moved = TriangleMesh(first.vertices, first.triangles, convex=True)
    assert shared_mesh(moved) is moved


def test_another_process_prepares_what_this_one_reads(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_loop_gets_scenes_whose_meshes_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_mesh_counts_as_prepared_where_nothing_can_be_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cache, "writable_folder", lambda: None)
    assert MeshPreparation().ready([ring()])


def test_a_mesh_counts_as_prepared_where_no_process_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mesh_preparation, "write_meshes", full)
    preparation = MeshPreparation()
    preparation.ready([ring()])
    assert preparation.ready([ring()])


def test_meshes_and_compiled_code_do_not_displace_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cache, "_MAX_ENTRIES", 1)
    monkeypatch.setattr(cache, "_MAX_MESHES", 2)
    cache.write_entry("code", b"1")
    for k in range(3):
        cache.write_entry(f"{cache.MESHES}{k}", b"2")
    assert cache.read_entry("code") == b"1"
    assert cache.cache_state().entries == 3
