# SPDX-License-Identifier: Apache-2.0
"""RViz with MoveIt's MotionPlanning panel for an arm that runs (motion_nodes.bringup.rviz_view).

ros2 launch motion_nodes moveit_rviz.launch.py robot:=ur10e
ros2 launch motion_nodes moveit_rviz.launch.py robot:="left:=franka" group:=panda_arm
"""

from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from motion_nodes.bringup.rviz_view import PANEL_ARGUMENTS, Tool, panel_tools

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
        for argument in PANEL_ARGUMENTS
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
    values = {a.name: LaunchConfiguration(a.name).perform(context) for a in PANEL_ARGUMENTS}
    return [node_of(tool) for tool in panel_tools(values, RVIZ_FOLDER)]


def generate_launch_description() -> LaunchDescription:
    """Return the launch description."""
    return LaunchDescription([*arg_all(), OpaqueFunction(function=start)])
