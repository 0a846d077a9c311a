# SPDX-License-Identifier: Apache-2.0
"""Clients of the actions of one node, or of one robot."""

from typing import Any

from joint_client import Call
from rclpy.action import ActionClient
from ros_client import RosClient


class ActionCalls:
    """Sends goals; creates an action client at the first goal of each action."""

    def __init__(self, client: RosClient, root: str) -> None:
        """Remember the namespace of the actions."""
        self._client, self._root = client, root
        self._actions: dict[str, ActionClient] = {}

    def send(self, kind: Any, name: str, goal: Any) -> Call:
        """Send a goal."""
        if name not in self._actions:
            self._actions[name] = ActionClient(self._client.node, kind, f"{self._root}/{name}")
        action = self._actions[name]
        self._client.wait(action.server_is_ready, f"the action {name}")
        feedback: list[Any] = []
        return Call(self._client, action.send_goal_async(goal, feedback.append), feedback)

    def close(self) -> None:
        """Destroy the action clients."""
        for action in self._actions.values():
            action.destroy()
