# SPDX-License-Identifier: Apache-2.0
"""The URDF of a single group."""

from __future__ import annotations

import numpy as np
import pytest

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.robot_xml import group_urdf
from motion_nodes.core.robot.urdf import read_urdf


def part(robot, name):
    group = robot.group(name)
    ends = [link for link in (group.base, group.tip) if link]
    text = group_urdf(robot.urdf, robot.tree, group.name, group.joints, ends)
    return group, read_urdf(text, "part")


@pytest.mark.parametrize("name", ["franka", "ur10e", "xarm7"])
def test_the_part_of_an_arm_has_its_kinematics(name):
    robot = load_robot(name)
    group, tree = part(robot, "arm")
    assert tree.name == group.name
    rng, whole = np.random.default_rng(1), Kinematics(robot.tree, group.joints, base=group.base)
    own = Kinematics(tree, group.joints, base=group.base)
    q = rng.uniform(group.limits.lower, group.limits.upper)
    assert np.allclose(own.pose(q, group.tip), whole.pose(q, group.tip))


def test_a_group_without_a_chain_has_the_links_of_its_joints():
    robot = load_robot("franka")
    _, tree = part(robot, "hand")
    assert {"panda_hand", "panda_leftfinger", "panda_rightfinger"} == set(tree.links)
