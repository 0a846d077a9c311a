# SPDX-License-Identifier: Apache-2.0
"""Incremental packing of obstacle arrays, and estimation and prediction of their motion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rmpflow import rmp_cases

from motion_nodes.core.reactive.obstacle_scene import ObstacleMotion, ObstaclePacker
from motion_nodes.core.robot.poses import from_xyz_rpy, inverse, turned
from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.scene.allowed_collisions import AllowedCollisions
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.kernels.rmp.rmp_memory import ObstacleArrays

X_BW = inverse(from_xyz_rpy((0.3, -0.2, 0.1), (0.1, 0.2, -0.4)))


def scene_of(objects, allowed: AllowedCollisions | None = None) -> Scene:
    return Scene({item.name: item for item in objects}, allowed=allowed or AllowedCollisions())


def rows(packed: ObstacleArrays) -> np.ndarray:
    """Return rotations, positions and twists of all rows, of every shape."""
    return np.concatenate([np.column_stack((t[:, :12], t[:, -6:])) for t in packed.rows.values()])


def moved(item, twist, dt):
    X = item.X_WO.copy()
    X[:3, :3] = turned(X[:3, :3], dt * twist[3:])
    X[:3, 3] += dt * twist[:3]
    return replace(item, X_WO=X)


def test_a_packer_that_follows_packs_like_one_that_begins():
    rng = np.random.default_rng(3)
    objects = rmp_cases.scene(rng, 17)
    packer = ObstaclePacker()
    for step in range(6):
        chosen = rng.integers(len(objects), size=4)
        twists = {objects[i].name: rng.normal(size=6) for i in chosen[:2]}
        for i in chosen:
            objects[i] = moved(objects[i], rng.normal(size=6), 0.1)
        if step == 3:
            fresh = world_object(objects[0].name, Sphere(0.02), objects[0].X_WO)
            objects[0] = replace(objects[1], name=fresh.name)  # other shapes under its name
            objects[2] = replace(objects[2], enabled=False)
        one, other = packer.packed(scene_of(objects), X_BW, twists), ObstaclePacker()
        again = other.packed(scene_of(objects), X_BW, twists)
        assert one.rows.keys() == again.rows.keys()
        for name in one.rows:
            np.testing.assert_array_equal(one.rows[name], again.rows[name])


def test_each_row_moves_as_the_object_does():
    """Packed velocities equal the differences of poses shortly before and after."""
    rng = np.random.default_rng(4)
    objects = rmp_cases.scene(rng, 17)
    twists = {item.name: 0.5 * rng.normal(size=6) for item in objects}
    h = 1e-6
    before, now, after = (
        rows(
            ObstaclePacker().packed(
                scene_of([moved(item, twists[item.name], t) for item in objects]), X_BW, twists
            )
        )
        for t in (-h, 0.0, h)
    )
    velocity = (after[:, 9:12] - before[:, 9:12]) / (2.0 * h)
    # A half space is a box with its centre a kilometre below; it turns with the object.
    np.testing.assert_allclose(velocity, now[:, 12:15], atol=2e-5)
    spin = (after[:, :9] - before[:, :9]).reshape(-1, 3, 3) / (2.0 * h)
    R = now[:, :9].reshape(-1, 3, 3)
    W = spin @ R.transpose(0, 2, 1)
    np.testing.assert_allclose(
        np.column_stack((W[:, 2, 1], W[:, 0, 2], W[:, 1, 0])), now[:, 15:], atol=1e-6
    )


def test_what_all_links_may_touch_is_none_and_back():
    ball = world_object("ball", Sphere(0.1), from_xyz_rpy((0.4, 0.0, 0.2)))
    packer = ObstaclePacker(("hand", "arm"))
    said = AllowedCollisions()
    for pairs, count in (
        ((), 1),
        ((("ball", "hand"),), 1),
        ((("ball", "hand"), ("ball", "arm")), 0),
        ((), 1),
    ):
        allowed = said.with_pairs(pairs, True)
        assert len(packer.packed(scene_of([ball], allowed), np.eye(4)).rows["sphere"]) == count


def test_seen_motion_and_its_end():
    turn = np.array((0.1, -0.2, 0.05, 0.3, 0.4, -0.5))
    ball = world_object("ball", Sphere(0.1), from_xyz_rpy((0.4, 0.0, 0.2)))
    motion = ObstacleMotion()
    motion.update(scene_of([ball]), 0.0)
    assert not motion.twists(0.0)
    motion.update(scene_of([moved(ball, turn, 0.2)]), 0.2)
    np.testing.assert_allclose(motion.twists(0.2)["ball"], turn, atol=1e-12)
    assert motion.moving
    assert motion.twists(0.6)
    assert motion.moving
    assert not motion.twists(0.6001)
    assert not motion.moving


def test_the_pose_of_a_moving_object_is_predicted_until_it_counts_as_at_rest():
    twist = np.array((0.1, -0.2, 0.05, 0.3, 0.4, -0.5))
    ball = world_object("ball", Sphere(0.1), from_xyz_rpy((0.4, 0.0, 0.2)))
    motion = ObstacleMotion()
    motion.update(scene_of([ball]), 0.0)
    assert not motion.poses(0.02)
    motion.update(scene_of([moved(ball, twist, 0.04)]), 0.04)
    for ahead in (0.01, 0.05, 0.1):
        X = motion.poses(0.04 + ahead)["ball"]
        np.testing.assert_allclose(X, moved(ball, twist, 0.04 + ahead).X_WO, atol=1e-12)
    assert not motion.poses(0.1401)


def stamped(item, stamp):
    return scene_of([replace(item, observed_at=stamp)])


def test_stamps_of_poses_that_arrive_late_are_respected():
    twist = np.array((0.1, -0.2, 0.05, 0.3, 0.4, -0.5))
    ball = world_object("ball", Sphere(0.1), from_xyz_rpy((0.4, 0.0, 0.2)))
    motion = ObstacleMotion()
    # Observed every 40 ms, received 150 and 200 ms later.
    motion.update(stamped(ball, 100.0), 0.15, 100.15)
    motion.update(stamped(moved(ball, twist, 0.04), 100.04), 0.24, 100.24)
    np.testing.assert_allclose(motion.twists(0.24)["ball"], twist, atol=1e-9)
    np.testing.assert_allclose(motion.poses(0.3)["ball"], moved(ball, twist, 0.3).X_WO, atol=1e-9)


@pytest.mark.parametrize("stamp", [None, 0.0, 1e9, -1e300])
def test_stamps_of_another_clock_are_ignored(stamp):
    twist = np.array((0.1, -0.2, 0.05, 0.3, 0.4, -0.5))
    ball = world_object("ball", Sphere(0.1), from_xyz_rpy((0.4, 0.0, 0.2)))
    motion = ObstacleMotion()
    motion.update(stamped(ball, stamp), 0.0, 100.0)
    motion.update(stamped(moved(ball, twist, 0.1), stamp), 0.1, 100.1)
    np.testing.assert_allclose(motion.twists(0.1)["ball"], twist, atol=1e-12)
    np.testing.assert_allclose(motion.poses(0.15)["ball"], moved(ball, twist, 0.15).X_WO)


def test_prediction_ends_before_slow_updates_do():
    twist = np.array((0.1, 0.0, 0.0, 0.0, 0.0, 0.0))
    ball = world_object("ball", Sphere(0.1), np.eye(4))
    motion = ObstacleMotion()
    motion.update(scene_of([ball]), 0.0)
    motion.update(scene_of([moved(ball, twist, 1.0)]), 1.0)
    assert motion.poses(2.0)["ball"][0, 3] == pytest.approx(0.13)


def test_a_half_turn_between_two_looks_was_no_motion():
    ball = world_object("ball", Sphere(0.1), from_xyz_rpy((0.4, 0.0, 0.2)))
    motion = ObstacleMotion()
    motion.update(scene_of([ball]), 0.0)
    motion.update(scene_of([moved(ball, np.array((0.0, 0.0, 0.0, np.pi, 0.0, 0.0)), 1.0)]), 2.0)
    assert not motion.twists(2.0)


@pytest.mark.parametrize("axis", range(3))
def test_who_is_put_elsewhere_stands_still(axis):
    ball = world_object("ball", Sphere(0.1), np.eye(4))
    leap = np.zeros(6)
    leap[axis] = 5.0
    motion = ObstacleMotion()
    motion.update(scene_of([ball]), 0.0)
    motion.update(scene_of([moved(ball, leap, 0.1)]), 0.1)
    assert not motion.twists(0.1)
