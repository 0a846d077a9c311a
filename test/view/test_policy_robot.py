# SPDX-License-Identifier: Apache-2.0
"""A robot under a policy has a drive pad on the page, and no controls of single joints."""

from __future__ import annotations

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot


def test_a_robot_with_a_policy_has_a_drive_pad_only():
    plain = ViewedRobot.of(load_robot("go2"), "dog", followers=("ik",), edits_scene=True)
    assert not plain.drive
    assert plain.sliders
    walking = plain.driven_by_policy()
    assert walking.drive
    assert walking.name == "dog"
    for part in ("sliders", "named_states", "followers", "tool", "gripper"):
        assert not getattr(walking, part)
