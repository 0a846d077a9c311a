# SPDX-License-Identifier: Apache-2.0
"""Links that may touch an attached object: those of the gripper, or those fixed to its link."""

from __future__ import annotations

import pytest
from raised_errors import about

from motion_nodes.core.robot.loader import available_robots, load_robot
from motion_nodes.core.scene.allowed_collisions import touch_links
from motion_nodes.errors import UnknownFrame

ROBOTS = sorted(available_robots())


@pytest.mark.parametrize("name", ROBOTS)
def test_they_are_links_and_include_the_carrier_but_never_the_whole_arm(name):
    robot = load_robot(name)
    for link in robot.tree.frame_names:
        found = touch_links(robot, link)
        assert link in found
        assert found <= set(robot.tree.frame_names)
    for group in robot.groups.values():
        if group.tip is not None:
            first = robot.tree.joint(group.joints[0])
            assert first.parent not in touch_links(robot, group.tip)


@pytest.mark.parametrize("name", [n for n in ROBOTS if "gripper" in load_robot(n).groups])
def test_a_gripper_carries_with_all_its_fingers(name):
    robot = load_robot(name)
    fingers = {robot.tree.joint(joint).child for joint in robot.groups["gripper"].joints}
    palms = {robot.tree.joint(joint).parent for joint in robot.groups["gripper"].joints}
    for link in (robot.tool_frame, *fingers, *palms):
        assert fingers | palms <= touch_links(robot, link)


def test_fingers_that_mimic_others_touch_too():
    robot = load_robot("open_manipulator_x")
    assert {"gripper_left_link", "gripper_right_link"} <= touch_links(robot, robot.tool_frame)


def test_an_arm_without_a_gripper_touches_with_its_flange():
    found = touch_links(load_robot("ur10e"), "tool0")
    assert "wrist_3_link" in found
    assert "wrist_2_link" not in found


def test_wheels_are_no_gripper():
    robot = load_robot("jetbot")
    wheels = {robot.tree.joint(joint).child for joint in robot.base.wheel_names}
    assert not wheels & touch_links(robot, robot.base_frame)


def test_an_unknown_link():
    with pytest.raises(UnknownFrame, check=about("panda_hnad")):
        touch_links(load_robot("franka"), "panda_hnad")
