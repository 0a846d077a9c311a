# SPDX-License-Identifier: Apache-2.0
"""Starts the nodes of one or more robots, each process by an action of launch_ros (docs/launch.md).

ros2 launch motion_nodes bringup.launch.py robot:=franka
ros2 launch motion_nodes bringup.launch.py robot:="a:=jetbot@0,0,0; b:=franka@1,0,0"
"""

from launch import LaunchDescription

from motion_nodes.bringup.bringup_config import ARGUMENTS
from motion_nodes.bringup.launch_file import describe, suite_actions


def generate_launch_description() -> LaunchDescription:
    """Return the launch description."""
    return describe(ARGUMENTS, suite_actions)
