# SPDX-License-Identifier: Apache-2.0
"""Starts everything for one or more robots; what runs is decided in motion_nodes.bringup.compose.

ros2 launch motion_nodes bringup.launch.py robot:=franka
ros2 launch motion_nodes bringup.launch.py robot:="a:=jetbot@0,0,0; b:=franka@1,0,0"
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

from launch import LaunchDescription
from launch.actions import ExecuteProcess
from launch_ros.actions import Node

from motion_nodes.bringup.arguments import ARGUMENTS, config_from
from motion_nodes.bringup.compose import NodeSpec, nodes_for
from motion_nodes.bringup.launch_file import describe

PATIENCE = "60"
"""[s] Nodes that are not ready by then are named."""


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


def waiter(specs: list[NodeSpec]) -> ExecuteProcess:
    """Return what says when each node is ready, and when all are; then it ends."""
    names = [spec.full_name for spec in specs]
    command = [sys.executable, "-m", "motion_nodes.nodes.clients.wait", PATIENCE, *names]
    return ExecuteProcess(cmd=command, name="wait", output="screen")


def start(values: Mapping[str, str]) -> list[Any]:
    """Return what the arguments ask for."""
    config = config_from(values)
    specs = nodes_for(config)
    apart = [s for s in specs if values["use_composition"] == "false" or s.stands_alone]
    together = [spec for spec in specs if spec not in apart]
    nodes = [node_alone(s) for s in apart] + ([node_container(together)] if together else [])
    return [*nodes, waiter(specs)] if config.autostart else nodes


def generate_launch_description() -> LaunchDescription:
    """Return the launch description."""
    return describe(ARGUMENTS, start)
