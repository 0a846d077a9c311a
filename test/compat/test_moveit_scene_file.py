# SPDX-License-Identifier: Apache-2.0
"""MoveIt's text files of scenes: round trips, files by MoveIt, broken files."""

import dataclasses

import numpy as np
import pytest

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.moveit_scene_file import read_scene_text, scene_text
from motion_nodes.core.scene.scene import Subframe, world_object
from motion_nodes.core.scene.shapes import Capsule, Cone, HalfSpace, triangle_mesh
from motion_nodes.core.scene.voxels import OCTOMAP, voxels
from motion_nodes.errors import InvalidDescription

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
