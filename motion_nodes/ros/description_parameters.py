# SPDX-License-Identifier: Apache-2.0
"""URDF and SRDF as parameters of the planner, where clients of MoveIt read them from move_group."""

from __future__ import annotations

from rcl_interfaces.msg import ParameterDescriptor
from rclpy.node import Node


def declare_descriptions(node: Node, urdf: str, srdf: str) -> None:
    """Declare the read-only parameters ``robot_description`` and ``robot_description_semantic``.

    Args:
        node: the planner; parameters that are already declared are kept.
        urdf: the robot's URDF, with absolute paths of meshes.
        srdf: its groups, states and disabled collisions.
    """
    for name, text, what in (
        ("robot_description", urdf, "URDF of the robot."),
        ("robot_description_semantic", srdf, "SRDF of the robot."),
    ):
        if not node.has_parameter(name):
            descriptor = ParameterDescriptor(description=what, read_only=True)
            # Overrides of a MoveIt launch file are ignored: the planner uses its own description.
            node.declare_parameter(name, text, descriptor, ignore_override=True)
