# SPDX-License-Identifier: Apache-2.0
"""Antipodal grasps of meshes: the antipodal condition, and shapes with known grasps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import trimesh

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.scene import world_object
from motion_nodes.core.scene.shapes import HalfSpace, triangle_mesh
from motion_nodes.extras.tasks.skill_poses import FRICTION, TIP, contact_pairs, grasps_of
from motion_nodes.extras.tasks.world_state import ObjectState, composite_of

OPEN = 0.08


def l_shape() -> trimesh.Trimesh:
    """Return an L with legs of 12 and 8 cm, 3 cm wide and 4 cm high."""
    corners = np.array(((0, 0), (0.12, 0), (0.12, 0.03), (0.03, 0.03), (0.03, 0.08), (0, 0.08)))
    top = [(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)]
    V = np.array([(*c, z) for z in (0.0, 0.04) for c in corners])
    sides = [
        f
        for i in range(6)
        for f in ((i, (i + 1) % 6, (i + 1) % 6 + 6), (i, (i + 1) % 6 + 6, i + 6))
    ]
    faces = [tuple(reversed(t)) for t in top] + [tuple(k + 6 for k in t) for t in top] + sides
    made = trimesh.Trimesh(V, faces, process=False)
    assert made.is_watertight
    assert made.volume == pytest.approx((0.12 * 0.03 + 0.03 * 0.05) * 0.04)
    return made


SHAPES = {
    "l": l_shape,
    "torus": lambda: trimesh.creation.torus(0.045, 0.012, 48, 24),
    "mug": lambda: trimesh.creation.annulus(0.025, 0.03, 0.08),
    "ball": lambda: trimesh.creation.icosphere(3, 0.03),
    "box": lambda: trimesh.creation.box((0.05, 0.1, 0.04)),
    "cone": lambda: trimesh.creation.cone(0.03, 0.08),
}


def state_of(shape: trimesh.Trimesh, yaw: float = 0.4) -> tuple[ObjectState, trimesh.Trimesh]:
    """Return the object on the floor, and its surface in the world."""
    X = from_xyz_rpy((0.5, 0.1, -shape.bounds[0, 2]), (0.0, 0.0, yaw))
    item = world_object("part", triangle_mesh(shape.vertices, shape.faces), X)
    found = composite_of(item)
    assert found is not None
    return ObjectState(
        "part", X @ found.X_OB, found.box, mesh=found.mesh
    ), shape.copy().apply_transform(X)


def normals_at(surface: trimesh.Trimesh, point: np.ndarray) -> np.ndarray:
    """Return the normals of the triangles that contain a point, shape (k, 3)."""
    T, near = surface.triangles, []
    for (a, b, c), normal in zip(T, surface.face_normals, strict=True):
        if abs((point - a) @ normal) > 1e-6:
            continue
        sides = [np.cross(v - u, point - u) @ normal for u, v in ((a, b), (b, c), (c, a))]
        if min(sides) >= -1e-9:
            near.append(normal)
    return np.array(near).reshape(-1, 3)


def inside_l(points: np.ndarray) -> np.ndarray:
    """Return whether points are in the L, seen from above, in the world."""
    local = points - [0.5, 0.1, 0.0]
    x, y = local[:, 0], local[:, 1]
    return (x > 0) & (y > 0) & (x < 0.12) & (y < 0.08) & ((x < 0.03) | (y < 0.03))


@pytest.mark.long
@pytest.mark.parametrize("name", SHAPES)
def test_each_pair_is_antipodal_on_the_surface_and_fits(name: str) -> None:
    target, surface = state_of(SHAPES[name]())
    pairs = contact_pairs(target, target.mesh, OPEN, 0.03)
    if name == "cone":
        # Its sides of 69 degrees are outside the friction cones of a horizontal line.
        assert np.arctan2(0.03, 0.08) < np.arctan(FRICTION)
    assert len(pairs) >= 5
    assert [p.score for p in pairs] == sorted(p.score for p in pairs)
    for pair in pairs:
        assert pair.closing[2] == 0.0
        assert np.linalg.norm(pair.closing) == pytest.approx(1.0)
        ends = pair.centre + np.outer((-0.5, 0.5), pair.width * pair.closing)
        for end, outward in zip(ends, (-pair.closing, pair.closing), strict=True):
            normals = normals_at(surface, end)
            assert len(normals), "not on the surface"
            assert (normals @ outward).max() >= np.cos(np.arctan(FRICTION)) - 1e-6
        assert pair.width < OPEN
        assert pair.centre[2] >= TIP - 1e-9


def test_an_l_is_grasped_by_its_legs_never_across_its_corner() -> None:
    target, _ = state_of(SHAPES["l"](), yaw=0.0)
    pairs = contact_pairs(target, target.mesh, OPEN, 0.03)
    assert {round(pair.width, 6) for pair in pairs} <= {0.03, 0.08}
    # The centre of its bounding box is in the air.
    assert not inside_l(target.X_WO[None, :3, 3])[0]
    assert inside_l(np.array([pair.centre for pair in pairs])).all()
    boxed = grasps_of(replace(target, mesh=None), 0.09)
    assert any(not inside_l(g.X_WG[None, :3, 3])[0] for g in boxed)


def test_a_lying_torus_is_grasped_by_its_ring() -> None:
    target, _ = state_of(SHAPES["torus"]())
    pairs = contact_pairs(target, target.mesh, OPEN, 0.03)
    assert len(pairs) >= 5
    for pair in pairs:
        away = pair.centre[:2] - target.X_WO[:2, 3]
        assert 0.045 - 0.012 < np.linalg.norm(away) < 0.045 + 0.012
        depth = pair.centre[2] - target.X_WO[2, 3]
        half = np.sqrt(0.012**2 - depth**2)
        # Chords of a circle about the axis, cut through the ring, are at least its thickness.
        assert pair.width >= 2.0 * half - 1e-3


def test_a_mug_is_grasped_around_its_middle_first() -> None:
    target, _ = state_of(SHAPES["mug"]())
    best = contact_pairs(target, target.mesh, OPEN, 0.06)[0]
    assert best.width == pytest.approx(0.06, abs=1e-3)
    assert best.centre[:2] == pytest.approx((0.5, 0.1), abs=2e-3)


def test_grasps_close_along_the_pairs_from_above() -> None:
    target, _ = state_of(SHAPES["box"]())
    grasps = grasps_of(target, OPEN)
    assert grasps
    assert [g.rank for g in grasps] == sorted(g.rank for g in grasps)
    for grasp in grasps:
        R = grasp.X_WG[:3, :3]
        np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-12)
        assert np.linalg.det(R) == pytest.approx(1.0)
        assert R[:, 2] == pytest.approx((0.0, 0.0, -1.0))
        assert grasp.width == pytest.approx(0.05, abs=1e-6)
    assert grasps_of(target, 0.05) == []
    assert [g.width for g in grasps_of(target, OPEN)] == [g.width for g in grasps]


def test_a_block_that_is_too_deep_for_the_fingers_is_grasped_near_its_top() -> None:
    target, _ = state_of(trimesh.creation.box((0.05, 0.05, 0.3)))
    pairs = contact_pairs(target, target.mesh, OPEN, 0.28)
    assert pairs
    assert min(pair.centre[2] for pair in pairs) > 0.3 - 0.04 - 1e-9


def test_what_is_no_single_mesh_has_no_surface() -> None:
    assert composite_of(world_object("ground", HalfSpace())) is None
    two = composite_of(world_object("two", (Box((0.1, 0.1, 0.1)), Box((0.2, 0.02, 0.02)))))
    assert two is not None
    assert two.mesh is None
