# SPDX-License-Identifier: Apache-2.0
"""Shows running robots in RViz (motion_nodes.bringup.rviz_view).

ros2 launch motion_nodes view.launch.py robot:=jetbot
ros2 launch motion_nodes view.launch.py robot:="a:=jetbot@0,0,0; b:=franka@1,0,0"
"""

from collections.abc import Mapping
from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch_ros.actions import Node

from motion_nodes.bringup.launch_file import describe, tool_node
from motion_nodes.bringup.rviz_view import VIEW_ARGUMENTS, view_tools

RVIZ_FOLDER = Path(__file__).parents[1] / "config" / "rviz"


def start(_context: LaunchContext, values: Mapping[str, str]) -> list[Node]:
    """Return RViz for the given arguments."""
    return [tool_node(tool) for tool in view_tools(values, RVIZ_FOLDER)]


def generate_launch_description() -> LaunchDescription:
    """Return the launch description."""
    return describe(VIEW_ARGUMENTS, start)
