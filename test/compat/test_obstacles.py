# SPDX-License-Identifier: Apache-2.0
"""Obstacles by simple calls that return True or False, with one warning and no exception."""

import logging

import numpy as np

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Mesh
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.extras.compat.obstacles import Obstacles
from motion_nodes.typing import Array


def test_each_shape_can_be_added_and_is_met():
    robot = load_robot("franka")
    checker = CollisionChecker(robot, "arm")
    q = robot.home[:7]
    hand = checker.sphere_positions(q)[checker.sphere_bodies.index("panda_hand"), :3]
    here = from_xyz_rpy(hand)
    obstacles = Obstacles()
    calls = {
        "sphere": lambda: obstacles.add_sphere("sphere", 0.05, here),
        "cuboid": lambda: obstacles.add_cuboid("cuboid", [0.1, 0.1, 0.1], here),
        "capsule": lambda: obstacles.add_capsule("capsule", 0.04, 0.1, here),
        "cylinder": lambda: obstacles.add_cylinder("cylinder", 0.05, 0.1, here),
        "cone": lambda: obstacles.add_cone("cone", 0.05, 0.1, here),
    }
    for name, add in calls.items():
        checker.set_scene(obstacles.world.scene)
        assert checker.is_free(q)
        assert add() is True
        checker.set_scene(obstacles.world.scene)
        assert not checker.is_free(q), name
        assert obstacles.remove_obstacle(name) is True
    assert obstacles.add_ground_plane(height=float(hand[2])) is True
    checker.set_scene(obstacles.world.scene)
    assert not checker.is_free(q)


def test_what_cannot_be_added_is_told_once(caplog):
    obstacles = Obstacles()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert obstacles.add_obstacle("mesh", Mesh("bunny.stl")) is False
        assert obstacles.add_obstacle("thing", object()) is False
    told = [record.message for record in caplog.records]
    assert sum("type Mesh are not implemented" in text for text in told) == 1
    assert not obstacles.world.scene.objects
    caplog.clear()
    assert obstacles.add_sphere("ball", 0.1) is True
    revision = obstacles.world.revision
    with caplog.at_level(logging.WARNING):
        assert obstacles.add_sphere("ball", 0.2) is False
        assert obstacles.add_sphere("hole", -0.2) is False
        assert obstacles.add_sphere("fog", float("nan")) is False
        assert obstacles.add_sphere("text", "large") is False  # type: ignore[arg-type]
        assert obstacles.add_cuboid("flat", [0.1, 0.1]) is False
        assert obstacles.add_sphere("lost", 0.1, np.full((4, 4), np.nan)) is False
    assert "there is an obstacle 'ball' already" in caplog.text
    assert "above 0" in caplog.text
    assert obstacles.world.revision == revision
    assert set(obstacles.world.scene.objects) == {"ball"}


def test_enable_disable_remove():
    obstacles = Obstacles()
    assert obstacles.enable_obstacle("ball") is False
    assert obstacles.add_sphere("ball", 0.1) is True
    assert obstacles.disable_obstacle("ball") is True
    assert obstacles.disable_obstacle("ball") is False
    assert not obstacles.world.scene.objects["ball"].enabled
    assert obstacles.enable_obstacle("ball") is True
    assert obstacles.world.scene.objects["ball"].enabled
    assert obstacles.remove_obstacle("ball") is True
    assert obstacles.remove_obstacle("ball") is False
    assert obstacles.enable_obstacle("ball") is False
    assert obstacles.add_sphere("ball", 0.1) is True


def test_moving_obstacles_are_seen_after_the_update_only():
    x = [0.0]

    def pose() -> Array:
        return from_xyz_rpy((x[0], 0.0, 0.0))

    obstacles = Obstacles()

    def seen(name: str) -> float:
        return float(obstacles.world.scene.objects[name].X_WO[0, 3])

    obstacles.add_sphere("moving", 0.1, pose)
    obstacles.add_sphere("static", 0.1, pose, static=True)
    obstacles.add_sphere("other", 0.1, pose)
    x[0] = 1.0
    assert [seen(n) for n in ("moving", "static", "other")] == [0.0, 0.0, 0.0]
    assert obstacles.update_world(["moving"]) is True
    assert [seen(n) for n in ("moving", "static", "other")] == [1.0, 0.0, 0.0]
    assert obstacles.update_world() is True
    assert [seen(n) for n in ("moving", "static", "other")] == [1.0, 0.0, 1.0]
    assert obstacles.update_world(base_moved=True) is True
    assert seen("static") == 1.0
    assert obstacles.update_world(["moving", "nobody"]) is False
    x[0] = float("nan")
    assert obstacles.update_world() is False
    assert seen("moving") == 1.0


def test_poses_can_be_set_and_all_be_cleared():
    obstacles = Obstacles()
    obstacles.add_sphere("ball", 0.1)
    assert obstacles.set_pose("ball", from_xyz_rpy((1.0, 2.0, 3.0))) is True
    assert obstacles.set_pose("ball", np.zeros((4, 4))) is False
    assert obstacles.set_pose("bell", np.eye(4)) is False
    np.testing.assert_allclose(obstacles.world.scene.objects["ball"].X_WO[:3, 3], (1, 2, 3))
    obstacles.add_ground_plane()
    assert obstacles.reset() is True
    assert not obstacles.world.scene.objects
    assert obstacles.add_sphere("ball", 0.1) is True
