# SPDX-License-Identifier: Apache-2.0
"""SRDF: reading, writing, errors, and robots from an SRDF with a URDF."""

from __future__ import annotations

import logging

import pytest
from model import xrdf_samples

from motion_nodes.core.robot.files.srdf_file import SrdfPair, parse_srdf, srdf_of, srdf_text
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.errors import InvalidDescription

TREE = read_urdf(xrdf_samples.URDF)


def test_what_is_written_is_read_again():
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
    assert robot.group("hand").joints == ("grip",)
    assert robot.group("whole").joints == ("slew", "lift", "grip")
    assert dict(robot.states["ready"]) == {"slew": 0.5, "lift": -0.7, "grip": 0.02}
    assert robot.tool_frame == "palm"
    assert robot.description.collision.ignore == (("foot", "boom"), ("boom", "stick"))
    assert robot.spheres == {"boom": ((0.1, 0.0, 0.0, 0.08),)}


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
        ('tip_link="palm"', 'tip_link="plam"', "line 4: chain: tip_link 'plam' is not known. Did"),
        ('base_link="foot"', 'base_link="left"', "'palm' is not below base_link 'left'"),
        ('<joint name="grip"/>', '<joint name="grap"/>', "Did you mean 'grip'"),
        ('<group name="arm"/></', '<group name="amr"/></', "name 'amr' is not known"),
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
