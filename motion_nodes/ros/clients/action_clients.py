# SPDX-License-Identifier: Apache-2.0
"""Clients of actions, with the quality of service that our servers and clients agree on."""

from __future__ import annotations

from typing import Any

from rclpy.action import ActionClient
from rclpy.node import Node

from motion_nodes.ros import qos


def action_client(node: Node, action_type: Any, name: str) -> Any:
    """Return a client whose requests are kept however many come at once."""
    return ActionClient(
        node,
        action_type,
        name,
        goal_service_qos_profile=qos.ACTION_REQUESTS,
        result_service_qos_profile=qos.ACTION_REQUESTS,
        cancel_service_qos_profile=qos.ACTION_REQUESTS,
    )
