# SPDX-License-Identifier: Apache-2.0
"""Action clients with the suite's quality of service."""

from __future__ import annotations

from typing import Any

from rclpy.action import ActionClient
from rclpy.node import Node

from motion_nodes.ros import qos


def action_client(node: Node, action_type: Any, name: str) -> Any:
    """Create an action client whose request queues hold many simultaneous goals.

    Args:
        node: the node.
        action_type: action type.
        name: action name.
    """
    return ActionClient(
        node,
        action_type,
        name,
        goal_service_qos_profile=qos.SERVICES,
        result_service_qos_profile=qos.SERVICES,
        cancel_service_qos_profile=qos.SERVICES,
    )
