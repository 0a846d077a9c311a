# SPDX-License-Identifier: Apache-2.0
"""A client of the task server, for tests."""

import json
from collections.abc import Callable
from typing import Any

from action_calls import ActionCalls
from ros_client import RosClient
from std_msgs.msg import String

from motion_nodes.ros import qos

SERVER = "/task_server"


class TaskClient:
    """Sends tasks and receives their states."""

    def __init__(self, client: RosClient) -> None:
        self.client = client
        self.heard = client.listen(String, f"{SERVER}/status", qos.STATUS)
        self.commands = client.publisher(String, f"{SERVER}/command")
        self.actions = ActionCalls(client, SERVER)

    @property
    def status(self) -> dict[str, Any]:
        return json.loads(self.heard.newest.data) if self.heard else {}

    def until(self, condition: Callable[[dict[str, Any]], bool], within: float = 60.0) -> None:
        try:
            self.client.wait(lambda: self.heard and condition(self.status), "the status", within)
        except AssertionError as error:
            raise AssertionError(f"{error}; status: {self.status}") from None

    def ask(self, text: str, state: str, within: float = 90.0) -> dict[str, Any]:
        """Send a task, wait until it is in a state, and return its status."""
        self.heard.clear()
        self.commands.publish(String(data=text))
        self.until(lambda s: s["task"] == text[:1000] and s["state"] == state, within)
        return self.status
