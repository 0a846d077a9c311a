# SPDX-License-Identifier: Apache-2.0
"""Obstacles by simple calls, and MoveIt's text files of scenes."""

import dataclasses
import logging

import numpy as np
import pytest

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Cylinder, Mesh, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.moveit_scene_file import read_scene_text, scene_text
from motion_nodes.core.scene.scene import Subframe, world_object
from motion_nodes.core.scene.shapes import Capsule, Cone, HalfSpace, triangle_mesh
from motion_nodes.core.scene.voxels import OCTOMAP, voxels
from motion_nodes.errors import InvalidDescription
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


AS_MOVEIT_WRITES = """(noname)+
* tall box
0.5 0 0.25
0 0 0 1
2
box
0.1 0.2 0.5
0 0 0
0 0 0 1
1 0 0 0.5
cylinder
0.05 0.3
0 0 0.4
0 0 0.707107 0.707107
1 0 0 0.5
1
top
0 0 0.55
0 0 0 1
* ground
0 0 0
0 0 0 1
1
plane
0 0 2 0.2
0 0 0
0 0 0 1
0 0 0 0
0
.
"""
OLD = """(noname)
* ball
1
sphere
0.1
0.5 0.1 0.2
0 0 0 1
0 0 0 0
.
"""


def same(a, b):
    assert a.name == b.name
    assert np.allclose(a.X_WO, b.X_WO)
    assert a.rgba == pytest.approx(b.rgba) if a.rgba else b.rgba is None
    for one, other in zip(a.parts, b.parts, strict=True):
        assert np.allclose(one.X_OS, other.X_OS)
        assert type(one.solid) is type(other.solid)
    for one, other in zip(a.subframes, b.subframes, strict=True):
        assert one.name == other.name
        assert np.allclose(one.X_OF, other.X_OF)


def test_what_is_written_is_read_again():
    tilted = from_xyz_rpy((0.1, -0.2, 0.3), (0.4, -0.5, 2.0))
    corners, faces = np.vstack([np.zeros(3), np.eye(3)]), [(0, 1, 2), (0, 1, 3), (1, 2, 3)]
    solids = (Box((0.1, 0.2, 0.3)), Sphere(0.1), Cylinder(0.05, 0.3), Cone(0.1, 0.2), HalfSpace())
    item = world_object("many shapes", solids, tilted, poses=(tilted,) * 5, rgba=(0.1, 0.2, 0.3, 1))
    item = dataclasses.replace(item, subframes=(Subframe("the rim", tilted),))
    mesh = world_object("mesh", triangle_mesh(corners, faces), tilted)
    read = read_scene_text(scene_text([item, mesh]))
    for before, after in zip((item, mesh), read, strict=True):
        same(before, after)
    assert read[0].parts[0].solid == solids[0]
    assert read[0].parts[3].solid == solids[3]
    assert np.array_equal(read[1].parts[0].solid.vertices, corners)
    assert np.array_equal(read[1].parts[0].solid.triangles, faces)


def test_a_capsule_becomes_shapes_that_moveit_knows_and_an_octomap_is_omitted():
    map_ = world_object(OCTOMAP, voxels(0.1, np.zeros((1, 3))))
    (read,) = read_scene_text(scene_text([world_object("rod", Capsule(0.1, 0.4)), map_]))
    assert [type(part.solid) for part in read.parts] == [Cylinder, Sphere, Sphere]
    assert sorted(part.X_OS[2, 3] for part in read.parts) == [-0.2, 0.0, 0.2]


def test_files_of_moveit_and_of_its_old_format_are_read():
    tall, ground = read_scene_text(AS_MOVEIT_WRITES)
    assert (tall.name, len(tall.parts), tall.rgba) == ("tall box", 2, (1.0, 0.0, 0.0, 0.5))
    assert tall.subframes[0].name == "top"
    assert tall.subframes[0].X_OF[2, 3] == 0.55
    assert ground.parts[0].X_OS[2, 3] == pytest.approx(-0.1)
    (ball,) = read_scene_text(OLD)
    assert np.allclose(ball.parts[0].X_OS[:3, 3], (0.5, 0.1, 0.2))
    assert read_scene_text("(noname)\n.\n") == ()


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("\nbox\n", "\nprism\n", 6),
        ("0.1 0.2 0.5", "0.1 0.2 nan", 7),
        ("0.1 0.2 0.5", "0.1 0.2 -0.5", None),
        ("0 0 0 1", "0 0 0 0", 4),
        ("2\n", "99999999999\n", 5),
        ("2\n", "two\n", 5),
        ("* ground", "ground", 20),
        (".\n", "", None),
        ("0.5 0 0.25", "1e300 0 0.25", 3),
    ],
)
def test_broken_files_are_refused_with_the_line(old, new, line):
    with pytest.raises(InvalidDescription) as refusal:
        read_scene_text(AS_MOVEIT_WRITES.replace(old, new, 1) if old != ".\n" else
                        AS_MOVEIT_WRITES[:-2], "my.scene")  # fmt: skip
    assert "my.scene, line" in str(refusal.value)
    assert line is None or f"line {line}:" in str(refusal.value)


@pytest.mark.parametrize("text", ["", "\n", "hello\nworld\n", "\0\1", "a\n* b\n", "[1, 2]"])
def test_other_texts_are_no_scenes(text):
    with pytest.raises(InvalidDescription):
        read_scene_text(text)


def test_names_with_line_breaks_are_not_written():
    with pytest.raises(InvalidDescription):
        scene_text([world_object("a\n.", Sphere(0.1))])
