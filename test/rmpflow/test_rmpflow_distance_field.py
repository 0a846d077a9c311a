# SPDX-License-Identifier: Apache-2.0
"""RMPflow avoids an octomap by its distance field as by its boxes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from motion_nodes.core.reactive.obstacle_scene import FIELD_REACH, FieldObstacles
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.distance_field import field_around
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.core.scene.voxels import OCTOMAP, voxels

EDGE = 0.02
GOAL = (0.3, 0.45, 0.35)
FRAME = from_xyz_rpy((0.1, -0.05, 0.02), (0.0, 0.0, 0.3))


def wall(X_WO: np.ndarray = FRAME) -> Scene:
    """A wall of voxels across the way from home to the goal, in a frame of its own."""
    rng = np.random.default_rng(0)
    points = rng.uniform((0.15, 0.17, 0.0), (0.7, 0.25, 0.45), (60_000, 3))
    X = inverse(FRAME)
    cells = np.floor((points @ X[:3, :3].T + X[:3, 3]) / EDGE)
    item = world_object(OCTOMAP, voxels(EDGE, cells), X_WO)
    return Scene({OCTOMAP: item})


@pytest.fixture(scope="module")
def franka():
    return load_robot("franka")


def run(franka, scene: Scene, by_field: bool, frames: int = 300) -> tuple[float, float]:
    """Return position error at the end and min distance from the wall on the way [m]."""
    policy = RmpflowPolicy(franka)
    policy.use_distance_field(by_field)
    policy.set_scene(scene)
    policy.set_end_effector_target(GOAL)
    checker = CollisionChecker(franka, "arm")
    q, qd = franka.named_state("ready", "arm"), np.zeros(7)
    closest = np.inf
    for k in range(frames):
        q, qd = policy.compute_joint_targets(q, qd, frame_duration=1.0 / 60.0)
        if k % 10 == 0:
            spheres = checker.sphere_positions(q)
            field = FieldObstacles(scene.objects[OCTOMAP], FIELD)
            closest = min(closest, distance(field, spheres))
    return policy.status.position_error, closest


FIELD = field_around(wall().objects[OCTOMAP].parts[0].solid, FIELD_REACH)


def distance(obstacles: FieldObstacles, spheres: np.ndarray) -> float:
    X_FW = inverse(obstacles.item.X_WO)
    centres = spheres[:, :3] @ X_FW[:3, :3].T + X_FW[:3, 3]
    return float((obstacles.field.distance(centres) - spheres[:, 3]).min())


def test_the_tool_arrives_behind_a_wall_without_touching_it(franka):
    for by_field in (False, True):
        error, closest = run(franka, wall(), by_field)
        assert error < 0.02, by_field
        assert closest > 0.0, by_field
    # Without obstacles it would pass through the wall.
    policy = RmpflowPolicy(franka)
    policy.set_end_effector_target(GOAL)
    q, qd, closest = franka.named_state("ready", "arm"), np.zeros(7), np.inf
    checker = CollisionChecker(franka, "arm")
    obstacles = FieldObstacles(wall().objects[OCTOMAP], FIELD)
    for _ in range(240):
        q, qd = policy.compute_joint_targets(q, qd, frame_duration=1.0 / 60.0)
        closest = min(closest, distance(obstacles, checker.sphere_positions(q)))
    assert closest < 0.0


def test_the_balls_are_where_the_nearest_voxels_are():
    item = wall().objects[OCTOMAP]
    solid = item.parts[0].solid
    rng = np.random.default_rng(1)
    spheres = np.column_stack((rng.uniform(-0.2, 0.9, (200, 3)), np.full(200, 0.05)))
    X_BW = inverse(from_xyz_rpy((0.3, 0.1, -0.2), (0.2, 0.1, 0.5)))
    rows = FieldObstacles(item, FIELD).nearest(spheres, X_BW)
    X_FB = inverse(X_BW @ item.X_WO)
    centres = spheres[:, :3] @ X_FB[:3, :3].T + X_FB[:3, 3]
    low = solid.cells * EDGE
    true = np.array([
        np.linalg.norm(np.clip(c, low, low + EDGE) - c, axis=1).min() for c in centres
    ])  # fmt: skip
    chosen = np.flatnonzero((true > 0.0) & (true - 0.05 < FIELD_REACH - EDGE))
    assert len(chosen) > 100
    for k in chosen:
        away = np.linalg.norm(rows[:, 9:12] - spheres[k, :3], axis=1) - rows[:, 15]
        # The ball of this sphere, or one that is closer, within a voxel.
        assert away.min() <= true[k] + 1.5 * EDGE
    assert np.isfinite(rows).all()


def test_objects_that_may_be_touched_or_are_disabled_have_no_effect(franka):
    scene = wall()
    off = Scene({OCTOMAP: replace(scene.objects[OCTOMAP], enabled=False)})
    links = [link for link in franka.tree.links]
    allowed = replace(scene, allowed=scene.allowed.with_pairs((link, OCTOMAP) for link in links))
    ends = []
    for world in (Scene(), off, allowed):
        policy = RmpflowPolicy(franka)
        policy.use_distance_field(True)
        policy.set_scene(world)
        policy.set_end_effector_target(GOAL)
        q, qd = franka.named_state("ready", "arm"), np.zeros(7)
        for _ in range(30):
            q, qd = policy.compute_joint_targets(q, qd, frame_duration=1.0 / 60.0)
        ends.append(q)
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-9)
    np.testing.assert_allclose(ends[2], ends[0], atol=1e-9)
