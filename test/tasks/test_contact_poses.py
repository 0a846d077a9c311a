# SPDX-License-Identifier: Apache-2.0
"""Strokes over surfaces and grasps of handles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.extras.tasks.skill_poses import (
    MAX_POSES,
    backed,
    handle_grasps,
    moved,
    strokes_over,
)
from motion_nodes.extras.tasks.world_state import ObjectState, half_extents

RNG = np.random.default_rng(7)
SPONGE = ObjectState(
    "sponge", from_xyz_rpy((0.0, 0.0, 0.3), (0.0, 0.1, 0.4)), Box((0.06, 0.04, 0.03))
)


@pytest.mark.parametrize("heading", [0.0, 0.7, -2.0])
def test_strokes_wipe_a_box_and_stay_on_it(heading: float) -> None:
    size = np.array((0.3, 0.22, 0.1))
    board = ObjectState(
        "board", from_xyz_rpy((0.5, 0.1, 0.05), (0.0, 0.0, heading)), Box(tuple(size))
    )
    poses = np.concatenate(strokes_over(board, SPONGE))
    for pose in poses:
        assert replace(SPONGE, X_WO=pose).bottom == pytest.approx(board.top)
    # The corners of the sponge stay above the board.
    signs = np.array([(a, b, c) for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
    corners = signs * half_extents(SPONGE.shape)
    world = np.einsum("nij,kj->nki", poses[:, :3, :3], corners) + poses[:, None, :3, 3]
    local = (world - board.X_WO[:3, 3]) @ board.X_WO[:3, :3]
    assert (np.abs(local[..., :2]) <= 0.5 * size[:2] + 1e-9).all()
    # Each point that a sponge inside the board can reach is covered at one of the poses.
    free = 0.5 * size[:2] - np.abs(local[..., :2] - (poses[:, None, :3, 3] - board.X_WO[:3, 3])
                                   @ board.X_WO[:3, :2]).max(axis=(0, 1))  # fmt: skip
    points = RNG.uniform(-free, free, (300, 2))
    at = board.X_WO[:2, 3] + points @ board.X_WO[:2, :2].T
    below = np.einsum("nji,nkj->nki", poses[:, :2, :2], at[None] - poses[:, None, :2, 3])
    assert (np.abs(below) <= half_extents(SPONGE.shape)[:2]).all(axis=2).any(axis=0).all()


def test_strokes_lie_side_by_side_in_one_direction() -> None:
    board = ObjectState("board", from_xyz_rpy((0.5, 0.0, 0.05)), Box((0.2, 0.3, 0.1)))
    strokes = [np.array(stroke)[:, :3, 3] for stroke in strokes_over(board, SPONGE)]
    assert sum(map(len, strokes)) > 20
    for stroke in strokes:
        steps = np.diff(stroke, axis=0)
        assert np.linalg.norm(steps, axis=1).max() < 0.06
        assert (steps @ (strokes[0][-1] - strokes[0][0]) > 0.0).all()
    starts = np.array([stroke[0] for stroke in strokes])
    assert np.linalg.norm(np.diff(starts, axis=0), axis=1).max() < 0.06


@pytest.mark.parametrize(
    "shape",
    [Sphere(0.1), Box((0.03, 0.03, 0.03)), Cylinder(0.01, 0.2)],
    ids=lambda s: type(s).__name__,
)
def test_what_has_no_room_is_not_wiped(shape: Sphere | Box | Cylinder) -> None:
    assert strokes_over(ObjectState("s", from_xyz_rpy((0.5, 0.0, 0.1)), shape), SPONGE) == []


def test_tilted_tops_are_not_wiped_and_round_ones_are() -> None:
    tilted = ObjectState("s", from_xyz_rpy((0.5, 0.0, 0.1), (0.2, 0.0, 0.0)), Box((0.3, 0.3, 0.1)))
    assert strokes_over(tilted, SPONGE) == []
    plate = ObjectState("p", from_xyz_rpy((0.5, 0.0, 0.1)), Cylinder(0.12, 0.02))
    poses = np.concatenate(strokes_over(plate, SPONGE))
    assert len(poses) > 4
    assert np.linalg.norm(poses[:, :2, 3] - [0.5, 0.0], axis=1).max() <= 0.12


@pytest.mark.parametrize("around", [0.0, 0.6, 2.5, -1.9])
@pytest.mark.parametrize("upright", [False, True])
def test_handles_are_grasped_from_the_base_across_their_length(
    around: float, upright: bool
) -> None:
    at = 0.6 * np.array([np.cos(around), np.sin(around), 0.0]) + [0.0, 0.0, 0.4]
    roll = 0.5 * np.pi if upright else 0.0
    for turn in (0.0, np.pi):
        X = from_xyz_rpy(at, (0.0, 0.0, around + turn)) @ from_xyz_rpy((0, 0, 0), (roll, 0.0, 0.0))
        handle = ObjectState("h", X, Box((0.012, 0.12, 0.016)))
        grasps = handle_grasps(handle, 0.08)
        assert len(grasps) == 2
        for grasp in grasps:
            R = grasp.X_WG[:3, :3]
            np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-12)
            assert np.linalg.det(R) == pytest.approx(1.0)
            assert R[:, 2] @ at > 0.59, "the approach is not away from the base"
            assert abs(R[:, 1] @ X[:3, 1]) < 1e-9, "the fingers do not close across the length"
            assert grasp.width == pytest.approx(0.016)
            nearer = backed(grasp.X_WG, 0.2)[:3, 3]
            assert np.linalg.norm(nearer[:2]) == pytest.approx(0.4)


@pytest.mark.parametrize(("shape", "width"), [(Cylinder(0.01, 0.12), 0.02), (Sphere(0.02), 0.04)])
def test_round_handles_are_pulled_straight_to_the_base(
    shape: Cylinder | Sphere, width: float
) -> None:
    handle = ObjectState("h", from_xyz_rpy((0.4, 0.3, 0.5)), shape)
    grasps = handle_grasps(handle, 0.08)
    assert len(grasps) == 2
    for grasp, sign in zip(grasps, (1.0, -1.0), strict=True):
        assert grasp.X_WG[:3, 2] == pytest.approx((0.8, 0.6, 0.0))
        assert sign * grasps[0].X_WG[:3, 1] == pytest.approx(grasp.X_WG[:3, 1])
        assert grasp.X_WG[2, 1] == pytest.approx(0.0), "the fingers do not close across the length"
        assert grasp.X_WG[:3, 3] == pytest.approx((0.4, 0.3, 0.5))
        assert grasp.width == pytest.approx(width)


def test_what_is_no_handle() -> None:
    assert (
        handle_grasps(ObjectState("h", from_xyz_rpy((0.6, 0.0, 0.4)), Box((0.2, 0.3, 0.2))), 0.08)
        == []
    )
    tilted = from_xyz_rpy((0.6, 0.0, 0.4), (0.0, 0.5, 0.0))
    assert handle_grasps(ObjectState("h", tilted, Box((0.012, 0.12, 0.016))), 0.08) == []
    assert moved(SPONGE, np.array((0.1, 0.0, 0.0))).X_WO[0, 3] == pytest.approx(0.1)


@pytest.mark.parametrize("size", [(1.6, 1.2, 0.1), (40.0, 0.03, 0.1)])
@pytest.mark.parametrize("heading", [0.0, np.pi])
def test_of_a_large_surface_the_part_nearest_to_the_base_is_wiped(
    size: tuple[float, float, float], heading: float
) -> None:
    X_WO = from_xyz_rpy((0.9, 0.2, 0.05), (0.0, 0.0, heading))
    strokes = strokes_over(ObjectState("floor", X_WO, Box(size)), SPONGE)
    poses = np.array([pose for stroke in strokes for pose in stroke])
    assert 0.5 * MAX_POSES < len(poses) <= MAX_POSES
    nearest = np.linalg.norm(poses[:, :2, 3], axis=1).min()
    assert nearest < 0.3
