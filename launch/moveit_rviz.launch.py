# SPDX-License-Identifier: Apache-2.0
"""RViz with MoveIt's MotionPlanning panel for a running arm (motion_nodes.bringup.rviz_view).

ros2 launch motion_nodes moveit_rviz.launch.py robot:=ur10e
ros2 launch motion_nodes moveit_rviz.launch.py robot:="left:=franka" group:=panda_arm
"""

from collections.abc import Mapping
from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch_ros.actions import Node

from motion_nodes.bringup.launch_file import describe, tool_node
from motion_nodes.bringup.rviz_view import PANEL_ARGUMENTS, panel_tools

RVIZ_FOLDER = Path(__file__).parents[1] / "config" / "rviz"


def start(_context: LaunchContext, values: Mapping[str, str]) -> list[Node]:
    """Return RViz for the given arguments."""
    return [tool_node(tool) for tool in panel_tools(values, RVIZ_FOLDER)]


def generate_launch_description() -> LaunchDescription:
    """Return the launch description."""
    return describe(PANEL_ARGUMENTS, start)
