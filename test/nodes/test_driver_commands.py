# SPDX-License-Identifier: Apache-2.0
"""The part of joint_command that a driver executes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sensor_msgs.msg import JointState

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.nodes.robot_driver import RobotDriverNode
from motion_nodes.ros.messages.joint_channels import JointChannels

ROBOT = load_robot("franka")
ARM = ROBOT.arm_joints[:7]
"""A driver without the hand."""


class _Node(RobotDriverNode):
    """The node without ROS."""

    def __init__(self, *messages: JointState) -> None:
        self.accepted: list[StreamSample] = []
        self.warnings: list[str] = []
        self._commands = SimpleNamespace(all=lambda: messages)
        self._channels = JointChannels(ROBOT.joint_names, ROBOT.name)
        self._indices = ROBOT.indices(ARM)
        self.session = SimpleNamespace(command=lambda *parts: self.accepted.append(parts[2]))
        self.warn = lambda _, text: self.warnings.append(text)
        self._take_commands(1)


def test_joints_that_the_driver_does_not_move_are_left_out() -> None:
    names = list(reversed(ROBOT.joint_names))
    positions = np.arange(float(len(names)))
    node = _Node(JointState(name=names, position=positions.tolist()))
    (sample,) = node.accepted
    assert sample.position.tolist() == [positions[names.index(joint)] for joint in ARM]
    assert np.isnan(sample.velocity).all()


@pytest.mark.parametrize("channel", ["position", "velocity", "effort"])
@pytest.mark.parametrize("count", [1, 8, 10])
def test_arrays_of_another_length_are_refused_as_a_whole(channel: str, count: int) -> None:
    n = len(ROBOT.joint_names)
    channels = {"position": [0.0] * n, "velocity": [0.0] * n} | {channel: [0.0] * count}
    node = _Node(JointState(name=list(ROBOT.joint_names), **channels))
    assert not node.accepted
    assert len(node.warnings) == 1


def test_unknown_joints_are_refused() -> None:
    node = _Node(JointState(name=[*ARM, "elbow"], position=[0.0] * 8))
    assert not node.accepted
    assert "elbow" in node.warnings[0]
