# SPDX-License-Identifier: Apache-2.0
"""Shows robots that run in RViz; what it shows is decided in motion_nodes.bringup.rviz_view.

ros2 launch motion_nodes view.launch.py robot:=jetbot
ros2 launch motion_nodes view.launch.py robot:="a:=jetbot@0,0,0; b:=franka@1,0,0"
"""

from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from motion_nodes.bringup.rviz_view import VIEW_ARGUMENTS, Tool, view_tools

RVIZ_FOLDER = Path(__file__).parents[1] / "config" / "rviz"


def arg_all() -> list[DeclareLaunchArgument]:
    """Return the launch arguments, as motion_nodes.bringup.rviz_view lists them."""
    return [
        DeclareLaunchArgument(
            argument.name,
            default_value=argument.default,
            description=argument.description,
            **({"choices": list(argument.choices)} if argument.choices else {}),
        )
        for argument in VIEW_ARGUMENTS
    ]


def node_of(tool: Tool) -> Node:
    """Return a program of another package."""
    return Node(
        package=tool.package,
        executable=tool.executable,
        namespace=tool.namespace,
        arguments=list(tool.arguments),
        parameters=[dict(tool.parameters)] if tool.parameters else None,
        output="screen",
    )


def start(context: LaunchContext) -> list[Node]:
    """Return what the arguments ask for."""
    values = {a.name: LaunchConfiguration(a.name).perform(context) for a in VIEW_ARGUMENTS}
    return [node_of(tool) for tool in view_tools(values, RVIZ_FOLDER)]


def generate_launch_description() -> LaunchDescription:
    """Return the launch description."""
    return LaunchDescription([*arg_all(), OpaqueFunction(function=start)])
