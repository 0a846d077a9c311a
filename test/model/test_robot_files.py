# SPDX-License-Identifier: Apache-2.0
"""Robots in XRDF, SRDF, Lula's and cuRobo's files: reading, writing, errors."""

import logging
from pathlib import Path
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model import xrdf_samples
from two_arms import write_two_arms

from motion_nodes.core.control.joint_guard import gripper_joints
from motion_nodes.core.robot.files.curobo import curobo_text, parse_curobo
from motion_nodes.core.robot.files.lula import lula_text, parse_lula
from motion_nodes.core.robot.files.srdf_file import SrdfPair, parse_srdf, srdf, srdf_of, srdf_text
from motion_nodes.core.robot.files.xrdf_file import (
    CSpace,
    GeometryGroup,
    SphereEntry,
    WorldCollision,
    Xrdf,
    XrdfSelfCollision,
    parse_xrdf,
    xrdf_text,
)
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_quat, inverse
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.core.robot.yaml_schema import parse_yaml
from motion_nodes.core.scene.robot_spheres import checked_pairs, link_bodies
from motion_nodes.core.scene.scene import AllowedCollisions, pair_of
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


TREE = read_urdf(xrdf_samples.URDF)


def test_what_is_written_is_read_again_of_srdf_file():
    srdf = parse_srdf(xrdf_samples.SRDF, TREE, "crane.srdf")
    assert parse_srdf(srdf_text(srdf), TREE, "again") == srdf
    assert srdf.group_joints("whole", TREE) == ("slew", "lift", "grip", "grip_other")
    assert srdf.disabled[1] == SrdfPair("boom", "stick", "")
    assert srdf.virtual_joints[0].child_link == "mount"
    # In MoveIt a radius of 0 means that a link has no spheres.
    assert dict(srdf.spheres) == {"boom": ((0.1, 0.0, 0.0, 0.08),), "mount": ()}


def test_a_urdf_with_an_srdf_is_a_robot(tmp_path):
    robot = load_robot(xrdf_samples.write_pair(tmp_path, "crane.srdf", xrdf_samples.SRDF))
    arm = robot.group("manipulator")
    assert (arm.name, arm.joints, arm.base, arm.tip) == ("arm", ("slew", "lift"), "foot", "palm")
    assert robot.group("hand").joints == robot.groups["gripper"].joints == ("grip",)
    assert robot.group("whole").joints == ("slew", "lift", "grip")
    assert dict(robot.states["ready"]) == {"slew": 0.5, "lift": -0.7, "grip": 0.02}
    assert robot.tool_frame == "palm"
    assert robot.description.collision.ignore == (("foot", "boom"), ("boom", "stick"))
    assert robot.spheres == {"boom": ((0.1, 0.0, 0.0, 0.08),)}


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ('group="hand" parent', 'group="hand" parent', "gripper"),
        # No end effector, one that is the arm, one without moving joints, and two hands.
        ('group="hand" parent_group="arm"', 'group="nothing"', "hand"),
        ('group="hand" parent_group="arm"', 'group="arm" parent_group="arm"', "hand"),
        ('parent_group="arm"/>', 'parent_group="arm"/><end_effector name="other" '
         'parent_link="palm" group="whole"/>', "hand"),
    ],
)  # fmt: skip
def test_the_only_hand_of_an_srdf_takes_the_grips(tmp_path, old, new, name):
    text = xrdf_samples.SRDF
    assert old in text
    robot = load_robot(xrdf_samples.write_pair(tmp_path, "crane.srdf", text.replace(old, new, 1)))
    hand = robot.group("hand")
    assert (hand.name, hand.joints) == (name, ("grip",))
    assert ("gripper" in robot.groups) == (name == "gripper")


@pytest.mark.parametrize("name", ["franka", "ur10e", "kaya"])
def test_shipped_robots_come_back(name):
    robot = load_robot(name)
    srdf = srdf_of(robot, robot.description.collision.ignore)
    again = parse_srdf(srdf_text(srdf), robot.tree, name)
    assert again == srdf
    for group in robot.groups.values():
        for word in (group.name, *group.aliases):
            assert again.group_joints(word, robot.tree) == group.joints


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ('base_link="foot"', 'base_link="left"', "'palm' is not below base_link 'left'"),
        ('<group name="arm"/></', '<group name="manipulator"/></', "is part of itself"),
        ('value="0.5"', 'value="half"', "value is 'half'; finite numbers are needed"),
        ('value="0.5"', 'value="nan"', "value is 'nan'; finite numbers are needed"),
        ('value="0.5"', 'value="0.5 1"', "value has 2 numbers; one is needed"),
        ('link1="foot"', 'link3="foot"', "disable_collisions: needs the attribute link1"),
        ('type="fixed"', 'type="free"', "type 'free' is not known"),
        ('<group name="hand">', '<group name="arm">', "two groups are called 'arm'"),
        ("</robot>", "", "is not XML that can be read"),
    ],
)
def test_mistakes_are_told_with_the_line(right, wrong, words):
    assert right in xrdf_samples.SRDF
    with pytest.raises(InvalidDescription) as caught:
        parse_srdf(xrdf_samples.SRDF.replace(right, wrong, 1), TREE, "crane.srdf")
    assert words in str(caught.value)
    assert str(caught.value).startswith("crane.srdf")


def test_what_has_no_counterpart_is_told(tmp_path, caplog):
    text = xrdf_samples.SRDF.replace('type="fixed"', 'type="planar"')
    text = text.replace('value="0.02"', 'value="0.02"/><joint name="slew" value="0.6"')
    with caplog.at_level(logging.WARNING):
        robot = load_robot(xrdf_samples.write_pair(tmp_path, "crane.srdf", text))
    assert "virtual_joint 'to_world' has no effect" in caplog.text
    assert (
        "state 'ready' has positions 0.5 and 0.6 of joint 'slew'; the first is used" in caplog.text
    )
    assert robot.states["ready"]["slew"] == 0.5


def test_pairs_of_unknown_links_are_left_out_and_told(caplog):
    more = (
        '<disable_collisions link1="foot" link2="sonar"/><passive_joint name="to_world"/></robot>'
    )
    with caplog.at_level(logging.WARNING):
        srdf = parse_srdf(xrdf_samples.SRDF.replace("</robot>", more), TREE, "crane.srdf")
    assert "no link of the URDF is called sonar" in caplog.text
    assert srdf.disabled == parse_srdf(xrdf_samples.SRDF, TREE, "crane.srdf").disabled
    assert "to_world" in srdf.passive_joints  # a virtual joint may be passive


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ('tip_link="palm"', 'tip_link="plam"', "line 4: chain: tip_link 'plam' is not known. Did"),
        ('base_link="foot"', 'base_link="food"', "base_link 'food' is not known. Did you"),
        ('<joint name="grip"/>', '<joint name="grap"/>', "Did you mean 'grip'"),
        ('<link name="right"/>', '<link name="rihgt"/>', "Did you mean 'right'"),
        ('<group name="arm"/></', '<group name="amr"/></', "has subgroups that do not exist"),
        ('<joint name="slew" v', '<joint name="slow" v', "Did you mean 'slew'"),
        ('name="ready" group="arm"', 'name="ready" group="arms"', "Did you mean 'arm'"),
        ('parent_link="palm"', 'parent_link="plam"', "parent_link 'plam' is not known"),
        ('parent_group="arm"', 'parent_group="amr"', "parent_group 'amr' is not known"),
        ('child_link="mount"', 'child_link="moont"', "Did you mean 'mount'"),
        ('_joint name="grip_other"', '_joint name="grip_othr"', "Did you mean 'grip_other'"),
        ('approximation link="boom"', 'approximation link="bom"', "Did you mean 'boom'"),
    ],
)
def test_unknown_names_are_told_and_the_rest_is_used(right, wrong, words, tmp_path, caplog):
    text = xrdf_samples.SRDF
    assert right in text
    with caplog.at_level(logging.WARNING):
        robot = load_robot(
            xrdf_samples.write_pair(tmp_path, "crane.srdf", text.replace(right, wrong, 1))
        )
    assert words in caplog.text
    assert "It is ignored." in caplog.text
    # What does not name it is as without the mistake.
    again = load_robot(xrdf_samples.write_pair(tmp_path, "right.srdf", text))
    named = {name: group.joints for name, group in robot.groups.items()}
    assert named
    assert all(set(joints) <= set(again.group(name).joints) for name, joints in named.items())


def test_a_group_without_a_known_part_is_told_with_its_other_names(tmp_path, caplog):
    text = xrdf_samples.SRDF.replace('tip_link="palm"', 'tip_link="plam"')
    with caplog.at_level(logging.WARNING):
        robot = load_robot(xrdf_samples.write_pair(tmp_path, "crane.srdf", text))
    assert "line 4: group 'arm': none of its chains, joints and links is known" in caplog.text
    assert "group 'arm' is ignored: it has no movable joints" in caplog.text
    assert "group 'manipulator' ignored: other names of group 'arm'" in caplog.text
    assert set(robot.groups) == {"gripper", "whole"}
    assert robot.group("whole").joints == ("grip",)


def test_a_virtual_joint_may_be_part_of_groups_and_states(tmp_path):
    text = xrdf_samples.SRDF.replace('<joint name="grip"/>', '<joint name="to_world"/>' * 2)
    slew = '<joint name="slew" v'
    text = text.replace(slew, '<joint name="to_world" value="0 0 1"/>' + slew)
    robot = load_robot(xrdf_samples.write_pair(tmp_path, "crane.srdf", text))
    assert robot.states["ready"]["slew"] == 0.5


def test_an_alias_of_an_alias_is_an_alias(tmp_path):
    more = '<group name="all"><group name="manipulator"/></group></robot>'
    text = xrdf_samples.SRDF.replace("</robot>", more)
    robot = load_robot(xrdf_samples.write_pair(tmp_path, "crane.srdf", text))
    assert robot.group("all") is robot.group("arm")
    assert robot.group("arm").aliases == ("manipulator", "all")


def test_a_state_outside_the_limits_is_refused(tmp_path):
    text = xrdf_samples.SRDF.replace('value="-0.7"', 'value="-7"')
    with pytest.raises(InvalidDescription):
        load_robot(xrdf_samples.write_pair(tmp_path, "crane.srdf", text))


def lula(text):
    return parse_lula(parse_yaml(text, "crane.yaml"), "crane.yaml")


def curobo(text):
    return parse_curobo(parse_yaml(text, "crane.yml"), Path("crane.yml"))


def test_lula_comes_back_as_it_was():
    xrdf = lula(xrdf_samples.LULA)
    assert xrdf.cspace.joint_names == ("slew", "lift")
    assert xrdf.default_joint_positions == {"slew": 0.5, "lift": -0.7, "grip": 0.02}
    assert xrdf.modifiers[0].set_base_frame == "foot"
    assert lula(lula_text(xrdf, "mount")) == xrdf


def test_a_urdf_with_a_lula_file_is_a_robot(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        robot = load_robot(xrdf_samples.write_pair(tmp_path, "crane.yaml", xrdf_samples.LULA))
    arm = robot.group("arm")
    assert (arm.joints, arm.base, arm.tip) == (("slew", "lift"), "foot", "stick")
    assert robot.home.tolist() == [0.5, -0.7, 0.02]
    assert robot.spheres["stick"] == ((0.2, 0.0, 0.0, 0.07),)
    assert "self_collision" in caplog.text


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("[0.5, -0.7]", "[0.5]", "default_q has 1 numbers for the 2 joints of cspace"),
        ("[10.0, 8.0]", "[10.0]", "acceleration_limits has 1 numbers for the 2 joints"),
        ("rule: fixed", "rule: loose", "cspace_to_urdf_rules[0].rule is 'loose'"),
        ("value: 0.02", "valeu: 0.02", "Did you mean 'value'"),
        ("name: grip,", "name: lift,", "'lift' is fixed, and one of cspace as well"),
        ("[slew, lift]", "[slew, slew]", "'slew' is listed twice"),
        ("default_q:", "default_p:", "is no XRDF, Lula, cuRobo or SRDF file"),
        ("jerk_limits:", "jerk_limit:", "Did you mean 'jerk_limits'"),
        ("root_link: foot", "root_link: feet", "root_link: 'feet' is not a link of the URDF"),
        ("[slew, lift]", "[slew, lifd]", "cspace: 'lifd' is not a joint of the URDF"),
        ("value: 0.02", "value: 2", "cspace_to_urdf_rules: grip is 2; the URDF allows 0 to 0.05"),
        ("  - stick:", "  - stik:", "collision_spheres: 'stik' is not a link of the URDF"),
    ],
)
def test_mistakes_in_lula_files_are_told(tmp_path, right, wrong, words):
    assert right in xrdf_samples.LULA
    text = xrdf_samples.LULA.replace(right, wrong, 1)
    file = xrdf_samples.write_pair(tmp_path, "crane.yaml", text)
    with pytest.raises(InvalidDescription) as caught:
        load_robot(file, tmp_path / "crane.urdf")
    assert words in str(caught.value)
    assert str(file) in str(caught.value)


def test_what_lula_has_no_words_for_is_refused():
    xrdf = curobo(xrdf_samples.CUROBO).xrdf
    with pytest.raises(InvalidDescription):
        lula_text(xrdf, "foot")


def test_curobo_of_version_1_is_read_and_comes_back(caplog):
    with caplog.at_level(logging.WARNING):
        robot = curobo(xrdf_samples.CUROBO)
    xrdf = robot.xrdf
    assert robot.urdf_path == "robot/crane/crane.urdf"
    assert xrdf.cspace.joint_names == ("slew", "lift")
    assert xrdf.cspace.acceleration_limits == (12.0, 12.0)
    assert xrdf.cspace.jerk_limits == (300.0, 400.0)
    # lock_joints takes precedence over retract_config.
    assert xrdf.default_joint_positions == {"slew": 0.5, "lift": -0.7, "grip": 0.03}
    assert xrdf.tool_frames == ("tcp",)
    assert xrdf.world_collision.buffer_distance == {"boom": 0.005, "stick": 0.005}
    assert xrdf.self_collision == XrdfSelfCollision(
        xrdf.self_collision.geometry, {"stick": 0.0}, {"boom": ("stick",)}
    )
    assert "collision_spheres.stick" in caplog.text
    assert len(xrdf.spheres(xrdf.world_collision.geometry)["stick"]) == 1
    again = curobo(curobo_text(xrdf, robot.urdf_path, "mount"))
    assert again == robot


def test_curobo_finds_its_urdf_and_is_a_robot(tmp_path):
    # The layout of cuRobo's own folders.
    configs = tmp_path / "content" / "configs" / "robot"
    assets = tmp_path / "content" / "assets" / "robot" / "crane"
    configs.mkdir(parents=True)
    assets.mkdir(parents=True)
    (assets / "crane.urdf").write_text(xrdf_samples.URDF)
    (configs / "crane.yml").write_text(xrdf_samples.CUROBO)
    robot = load_robot(configs / "crane.yml")
    assert robot.group("arm").tip == "tcp"
    assert robot.description.collision.ignore == (("boom", "stick"),)


def test_curobo_spheres_may_stand_in_a_file_of_their_own(tmp_path):
    head, _, rest = xrdf_samples.CUROBO.partition("    collision_spheres:\n")
    lines = rest.splitlines()
    spheres = "collision_spheres:\n" + "\n".join(line[4:] for line in lines[:2])
    text = head + "    collision_spheres: spheres/crane.yml\n" + "\n".join(lines[2:])
    file = xrdf_samples.write_pair(tmp_path, "crane.yml", text)
    with pytest.raises(InvalidDescription):
        load_robot(file)
    (tmp_path / "spheres").mkdir()
    (tmp_path / "spheres" / "crane.yml").write_text(spheres)
    assert {link: len(s) for link, s in load_robot(file).spheres.items()} == {
        "boom": 1, "stick": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("[0.5, -0.7, 0.0]", "[0.5, -0.7]", "default_joint_position: has 2 numbers for the 3"),
        ("[300.0, 400.0, 500.0]", "[300.0]", "cspace.max_jerk: has 1 numbers for the 3 joints"),
        ("joint_type: FIXED", "joint_type: X_PRISM", "only FIXED ones can be added here"),
        ("max_acceleration: 12.0", "max_acceleration: fast", "kinematics.cspace.max_acceleration"),
        ("urdf_path:", "urdf:", "is missing the field `urdf_path`"),
        ("radius: 0.08", "radius: big", "collision_spheres.boom[0].radius"),
    ],
)
def test_mistakes_in_curobo_files_are_told(right, wrong, words):
    assert right in xrdf_samples.CUROBO
    with pytest.raises(InvalidDescription) as caught:
        curobo(xrdf_samples.CUROBO.replace(right, wrong, 1))
    assert words in str(caught.value)
    assert "crane.yml" in str(caught.value)


def test_words_that_nobody_knows_are_told_but_do_no_harm(caplog):
    text = xrdf_samples.CUROBO.replace("lock_joints:", "lok_joints:")
    with caplog.at_level(logging.WARNING):
        robot = curobo(text)
    assert "lok_joints has no effect: it is not known. Did you mean 'lock_joints'" in caplog.text
    assert robot.xrdf.cspace.joint_names == ("slew", "lift", "grip")


ROBOTS = ["franka", "ur10e", "jetbot", "nova_carter", "kaya", "leatherback"]


def never_checked(robot):
    bodies = link_bodies(robot)
    checked = set(checked_pairs(robot, bodies, AllowedCollisions()))
    return {
        pair_of(bodies[i].name, bodies[j].name)
        for i in range(len(bodies))
        for j in range(i + 1, len(bodies))
        if (i, j) not in checked
    }


def joints_of(root, name):
    """Return the joints of a group, also of its chains and subgroups."""
    robot = load_robot(root.attrib["name"])
    (group,) = [g for g in root.findall("group") if g.attrib["name"] == name]
    found = [joint.attrib["name"] for joint in group.findall("joint")]
    for chain in group.findall("chain"):
        way = robot.tree.path(chain.attrib["base_link"], chain.attrib["tip_link"])
        found += [joint.name for joint in way if joint.movable]
    for other in group.findall("group"):
        found += joints_of(root, other.attrib["name"])
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", ROBOTS)
def test_groups_states_passive_joints_and_pairs(name):
    robot = load_robot(name)
    pairs = never_checked(robot)
    root = Xml.fromstring(srdf(robot, pairs))
    urdf = Xml.fromstring(robot.urdf)
    assert root.attrib["name"] == urdf.attrib["name"], "MoveIt would reject this name"
    names = [g.attrib["name"] for g in root.findall("group")]
    assert len(names) == len(set(names))
    for group in robot.groups.values():
        for alias in (group.name, *group.aliases):
            assert joints_of(root, alias) == list(group.joints)
    for state in root.findall("group_state"):
        group = robot.group(state.attrib["group"])
        values = {j.attrib["name"]: float(j.attrib["value"]) for j in state.findall("joint")}
        assert list(values) == list(group.joints)
        assert group.limits.within(list(values.values()))
        expected = robot.named_state(state.attrib["name"], group.name)
        assert list(values.values()) == expected.tolist()
    assert [j.attrib["name"] for j in root.findall("passive_joint")] == list(robot.passive_joints)
    told = {
        pair_of(p.attrib["link1"], p.attrib["link2"]): p.attrib["reason"]
        for p in root.findall("disable_collisions")
    }
    assert set(told) == pairs
    links = {link.attrib["name"] for link in urdf.findall("link")}
    assert {link for pair in told for link in pair} <= links
    ignored = {pair_of(a, b) for a, b in robot.description.collision.ignore}
    for joint in robot.tree.joints.values():
        pair = pair_of(joint.parent, joint.child)
        if pair in told and pair not in ignored:
            assert told[pair] == "Adjacent"


def test_the_gripper_is_an_end_effector_of_the_arm():
    root = Xml.fromstring(srdf(load_robot("franka"), ()))
    (gripper,) = root.findall("end_effector")
    assert gripper.attrib["group"] == "gripper"
    assert gripper.attrib["parent_group"] == "arm"
    assert gripper.attrib["parent_link"] == "panda_link7"
    assert gripper.attrib["name"] not in {g.attrib["name"] for g in root.findall("group")}
    assert not Xml.fromstring(srdf(load_robot("ur10e"), ())).findall("end_effector")


def test_hands_are_groups_at_the_ends_of_arms(tmp_path):
    assert [hand.name for hand in load_robot("franka").hands] == ["gripper"]
    for name in ("ur10e", "go2", "jetbot", "cabinet"):
        assert load_robot(name).hands == ()
    robot = load_robot(write_two_arms(tmp_path))
    assert [hand.name for hand in robot.hands] == ["left_gripper", "right_gripper"]
    for hand in robot.hands:
        holder = robot.holder(hand)
        assert holder is not None
        assert holder.name == hand.name.replace("gripper", "arm")
    assert robot.holder(robot.group("both_arms")) is None
    effectors = Xml.fromstring(srdf(robot, ())).findall("end_effector")
    assert [(e.get("group"), e.get("parent_group")) for e in effectors] == [
        ("left_gripper", "left_arm"), ("right_gripper", "right_arm")
    ]  # fmt: skip
    fingers = gripper_joints(robot, robot.joint_names)
    assert [j for j, own in zip(robot.joint_names, fingers, strict=True) if own] == [
        joint for hand in robot.hands for joint in hand.joints
    ]
