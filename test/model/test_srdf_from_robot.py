# SPDX-License-Identifier: Apache-2.0
"""SRDF of the shipped robots agrees with their models."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

import pytest

from motion_nodes.core.robot.files.srdf_file import srdf
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene.allowed_collisions import AllowedCollisions, pair_of
from motion_nodes.core.scene.robot_spheres import checked_pairs, link_bodies

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
