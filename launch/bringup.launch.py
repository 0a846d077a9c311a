# SPDX-License-Identifier: Apache-2.0
"""Starts everything for one or more robots; what runs is decided in motion_nodes.bringup.compose.

ros2 launch motion_nodes bringup.launch.py robot:=franka
ros2 launch motion_nodes bringup.launch.py robot:="a:=jetbot@0,0,0; b:=franka@1,0,0"
"""

import json
from collections.abc import Mapping

from launch import LaunchDescription
from launch_ros.actions import Node

from motion_nodes.bringup.arguments import ARGUMENTS, config_from
from motion_nodes.bringup.compose import NodeSpec, nodes_for
from motion_nodes.bringup.launch_file import describe


def node_alone(spec: NodeSpec) -> Node:
    """Return one node as a process of its own."""
    return Node(
        package="motion_nodes",
        executable=spec.executable,
        ros_arguments=spec.ros_args()[1:],
        output="screen",
    )


def node_container(specs: list[NodeSpec]) -> Node:
    """Return several nodes as one process."""
    listed = [{"executable": spec.executable, "ros_args": spec.ros_args()} for spec in specs]
    return Node(
        package="motion_nodes",
        executable="container",
        arguments=["--nodes", json.dumps(listed)],
        output="screen",
    )


def start(values: Mapping[str, str]) -> list[Node]:
    """Return what the arguments ask for."""
    specs = nodes_for(config_from(values))
    apart = [s for s in specs if values["use_composition"] == "false" or s.stands_alone]
    together = [spec for spec in specs if spec not in apart]
    return [node_alone(s) for s in apart] + ([node_container(together)] if together else [])


def generate_launch_description() -> LaunchDescription:
    """Return the launch description."""
    return describe(ARGUMENTS, start)
