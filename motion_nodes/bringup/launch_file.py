# SPDX-License-Identifier: Apache-2.0
"""The launch description of all launch files: arguments, and actions made from their values.

Imported by launch files only: launch_ros is part of an installed ROS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from motion_nodes.bringup.bringup_config import Argument
from motion_nodes.bringup.rviz_view import Tool


def describe(
    arguments: Sequence[Argument], start: Callable[[Mapping[str, str]], list[Any]]
) -> LaunchDescription:
    """Return a launch file's description.

    Args:
        arguments: of the launch file.
        start: returns the actions for the texts of the arguments, by name.
    """
    declared = [
        DeclareLaunchArgument(
            argument.name,
            default_value=argument.default,
            description=argument.description,
            **({"choices": list(argument.choices)} if argument.choices else {}),
        )
        for argument in arguments
    ]

    def begin(context: LaunchContext) -> list[Any]:
        return start({a.name: LaunchConfiguration(a.name).perform(context) for a in arguments})

    return LaunchDescription([*declared, OpaqueFunction(function=begin)])


def tool_node(tool: Tool) -> Node:
    """Return a program of another package."""
    return Node(
        package=tool.package,
        executable=tool.executable,
        namespace=tool.namespace,
        arguments=list(tool.arguments),
        parameters=[dict(tool.parameters)] if tool.parameters else None,
        output="screen",
    )
