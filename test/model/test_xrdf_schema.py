# SPDX-License-Identifier: Apache-2.0
"""XRDF: reading, writing, and errors with their location."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model import xrdf_samples

from motion_nodes.core.robot.files.xrdf_file import (
    CSpace,
    GeometryGroup,
    SphereEntry,
    WorldCollision,
    Xrdf,
    parse_xrdf,
    xrdf_text,
)
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_quat, inverse
from motion_nodes.core.robot.yaml_schema import parse_yaml
from motion_nodes.errors import InvalidDescription


def read(text):
    return parse_xrdf(parse_yaml(text, "crane.xrdf"), "crane.xrdf")


@pytest.mark.parametrize("version", [1.0, 2.0])
def test_what_is_written_is_read_again(version):
    xrdf = read(xrdf_samples.XRDF)
    text = xrdf_text(xrdf, version)
    assert ("\ncollision:" in text) == (version == 1.0)
    assert ("\nworld_collision:" in text) == (version == 2.0)
    assert read(text) == xrdf


numbers = st.floats(-1e3, 1e3, allow_nan=False)
positive = st.floats(1e-6, 1e6, allow_nan=False)
names = st.from_regex(r"[a-zA-Zé][\w ./-]{0,8}", fullmatch=True)
spheres = st.lists(
    st.builds(SphereEntry, st.tuples(numbers, numbers, numbers), positive), max_size=3
)


@st.composite
def descriptions(draw):
    joints = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    some = st.lists(positive, min_size=len(joints), max_size=len(joints)).map(tuple)
    groups = draw(st.dictionaries(names, st.dictionaries(names, spheres.map(tuple), max_size=3)))
    world = WorldCollision(draw(st.sampled_from(sorted(groups)))) if groups else None
    return Xrdf(
        cspace=CSpace(tuple(joints), draw(some), draw(some)),
        default_joint_positions={name: draw(numbers) for name in joints},
        tool_frames=tuple(draw(st.lists(names, max_size=2, unique=True))),
        world_collision=world,
        geometry={name: GeometryGroup(entries) for name, entries in groups.items()},
    )


@pytest.mark.long
@settings(max_examples=40, deadline=None, derandomize=True)
@given(descriptions(), st.sampled_from([1.0, 2.0]))
def test_any_names_and_numbers_come_back_as_they_were(xrdf, version):
    assert read(xrdf_text(xrdf, version)) == xrdf


def test_clones_are_followed_and_pairs_stand_once():
    xrdf = read(xrdf_samples.XRDF)
    assert {link: len(s) for link, s in xrdf.spheres("all").items()} == {
        "boom": 2, "stick": 1, "foot": 1,
    }  # fmt: skip
    assert xrdf.ignored_pairs() == (
        ("foot", "boom"), ("boom", "stick"), ("palm", "left"), ("palm", "right"),
    )  # fmt: skip


MISTAKES = [
    ("format: xrdf", "format: urdf", "format is 'urdf'; it must be xrdf"),
    ("format_version: 2.0", "format_version: 3.0", "format_version is 3.0; allowed: 1.0, 2.0"),
    ("world_collision:", "collision:", "is called world_collision there"),
    ("format_version: 2.0", "format_version: 1.0", "world_collision is not a field of XRDF 1.0"),
    ("[10, 8.0]", "[10]", "cspace.acceleration_limits has 1 numbers for 2 joints"),
    ("[100.0, 1e3]", "[100.0, 1e3, 5]", "cspace.jerk_limits has 3 numbers for 2 joints"),
    ("[10, 8.0]", "[10, -8.0]", "cspace.acceleration_limits[1]: expected a number > 0.0"),
    ("[10, 8.0]", "[10, .nan]", "acceleration_limits[1] is nan; a finite number"),
    ("[slew, lift]", "[slew, slew]", "cspace.joint_names has 'slew' twice"),
    ("geometry: outside", "geometry: outsid", "Did you mean 'outside'"),
    ("clone: [outside, inside]", "clone: [outside, all]", "geometry.all.clone leads back"),
    ("clone: [outside, inside]", "clone: [outsid]", "names 'outsid', which is not a group"),
    ("clone: [outside, inside]", "clone: outside", "geometry.all.clone: expected a list"),
    ("{stick: 0.01}", "{stick: -0.06}", "with which a sphere of radius 0.06 m vanishes"),
    ("[0.2, 0, 0]", "[0.2, 0]", "spheres.stick[0].center: expected a list of length 3, got 2"),
    ("radius: 0.06", "radios: 0.06", "radios is not a field. Did you mean 'radius'"),
    ("tool_frames:", "tool_frame:", "tool_frame is not a field. Did you mean 'tool_frames'"),
    ("joint_type: FIXED", "joint_type: REVOLUTE", "joint_type is 'REVOLUTE'"),
    ("{w: 1.0, xyz: [0, 1.0, 0]}", "{w: 0.0, xyz: [0, 0, 0]}", "orientation is zero"),
    ("set_base_frame: foot", "set_base: foot", "set_base is not a field"),
    ("{slew: 0.5", "{slew: 0.5, slew: 0.6", "the field 'slew' is defined twice"),
]


@pytest.mark.parametrize(("right", "wrong", "words"), MISTAKES, ids=[m[1] for m in MISTAKES])
def test_mistakes_are_told_with_file_and_place(right, wrong, words):
    assert right in xrdf_samples.XRDF
    with pytest.raises(InvalidDescription) as caught:
        read(xrdf_samples.XRDF.replace(right, wrong, 1))
    assert str(caught.value).startswith("crane.xrdf")
    assert words in str(caught.value)


def test_fields_left_empty_are_empty_and_placeholders_are_left_out(caplog):
    text = xrdf_samples.XRDF.replace("buffer_distance: {stick: 0.01}", "buffer_distance:")
    text = text.replace("radius: 0.15", "radius: -10")
    with caplog.at_level(logging.WARNING):
        xrdf = read(text)
    assert xrdf.world_collision.buffer_distance == {}
    assert xrdf.spheres("inside") == {"foot": ()}
    assert "geometry.inside.spheres.foot" in caplog.text


def test_a_urdf_with_an_xrdf_is_a_robot(tmp_path, caplog):
    file = xrdf_samples.write_pair(tmp_path, "crane.xrdf", xrdf_samples.XRDF)
    with caplog.at_level(logging.WARNING):
        robot = load_robot(file)
    assert robot.base_frame == robot.tree.root == "foot"
    assert "mount" not in robot.tree.links
    arm = robot.group("arm")
    assert (arm.joints, arm.base, arm.tip) == (("slew", "lift"), "foot", "tcp")
    assert robot.group("gripper").joints == ("grip",)
    assert arm.limits.acceleration.tolist() == [10.0, 8.0]
    assert arm.limits.jerk.tolist() == [100.0, 1000.0]
    assert robot.home.tolist() == [0.5, -0.7, 0.02]
    # Buffers are part of the radii; spheres for self-collision only are kept and reported.
    assert robot.spheres["stick"][0] == pytest.approx((0.2, 0.0, 0.0, 0.07))
    assert "foot" in robot.spheres
    assert "foot has spheres for self-collision only" in caplog.text
    # The added frame has the pose in the file.
    poses = Kinematics(robot.tree)
    X = inverse(poses.pose(robot.home, "palm")) @ poses.pose(robot.home, "tcp")
    assert np.allclose(X, from_xyz_quat([0.1, 0.0, 0.02], [0.0, 1.0, 0.0, 1.0]), atol=1e-12)


ROBOT_MISTAKES = [
    ("[slew, lift]", "[slew, lifd]", "'lifd' is not a joint of the URDF", "Did you mean 'lift'"),
    ("[slew, lift]", "[slew, grip_other]", "can be moved by itself", ""),
    ("tool_frames: [tcp]", "tool_frames: [tpc]", "tool_frames: 'tpc' is not a link", "'tcp'"),
    ("      stick: [", "      stik: [", "geometry.outside: 'stik' is not a link", "'stick'"),
    ("lift: -0.7", "lift: -7", "default_joint_positions: lift is -7; the URDF allows -2 to 1", ""),
    ("lift: -0.7", "left: -0.7", "default_joint_positions: left is not a joint", "lift"),
    ("set_base_frame: foot", "set_base_frame: feet", "'feet' is not a link of the URDF", "foot"),
    ("frame_name: tcp", "frame_name: palm", "'palm' is in the URDF already", ""),
    ("parent_frame_name: palm", "parent_frame_name: plam", "'plam' is not a link", "'palm'"),
]


@pytest.mark.parametrize(
    ("right", "wrong", "words", "hint"), ROBOT_MISTAKES, ids=[m[1] for m in ROBOT_MISTAKES]
)
def test_what_the_urdf_does_not_have_is_told(tmp_path, right, wrong, words, hint):
    assert right in xrdf_samples.XRDF
    text = xrdf_samples.XRDF.replace(right, wrong, 1)
    file = xrdf_samples.write_pair(tmp_path, "crane.xrdf", text)
    with pytest.raises(InvalidDescription) as caught:
        load_robot(file)
    assert words in str(caught.value)
    assert hint in str(caught.value)
    assert "modifiers[" in str(caught.value) or str(file) in str(caught.value)


def test_a_joint_that_mimics_can_be_let_go(tmp_path):
    change = (
        "  - remove_mimic_attributes: "
        "{joint_name: grip_other, position_limits: [0, 0.04], velocity_limit: 0.2}\n"
        "  - set_base_frame: foot"
    )
    text = xrdf_samples.XRDF.replace("  - set_base_frame: foot", change)
    robot = load_robot(xrdf_samples.write_pair(tmp_path, "crane.xrdf", text))
    assert robot.joint_names == ("slew", "lift", "grip", "grip_other")
    limits = robot.limits.select(["grip_other"])
    assert (limits.upper[0], limits.velocity[0]) == (0.04, 0.2)


def test_without_self_collision_nothing_is_checked_against_itself(tmp_path, caplog):
    before, rest = xrdf_samples.XRDF.split("self_collision:")
    text = before + "geometry:" + rest.split("\ngeometry:")[1]
    with caplog.at_level(logging.WARNING):
        robot = load_robot(xrdf_samples.write_pair(tmp_path, "crane.xrdf", text))
    assert "self_collision" in caplog.text
    assert robot.description.collision.ignore == (("boom", "stick"),)


def test_no_urdf_beside_it_is_told_with_what_to_do(tmp_path):
    file = tmp_path / "crane.xrdf"
    file.write_text(xrdf_samples.XRDF)
    with pytest.raises(InvalidDescription):
        load_robot(file)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "any.urdf").write_text(xrdf_samples.URDF)
    assert load_robot(file, elsewhere / "any.urdf").group("arm").tip == "tcp"
