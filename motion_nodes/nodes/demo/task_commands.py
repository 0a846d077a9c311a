# SPDX-License-Identifier: Apache-2.0
"""Tasks of a show: sends them to a task server, and waits for their end."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Collection
from typing import Any

from std_msgs.msg import String

from motion_nodes.nodes.demo.client import ClientNode
from motion_nodes.nodes.task.remote_work import Work
from motion_nodes.ros import qos
from motion_nodes.ros.clients.task_client import ENDED
from motion_nodes.ros.names import TASK_SERVER
from motion_nodes.tasks.task_runner import SkillFailed

RESEND_AFTER = 10.0
"""Time without a response after which a task is sent again: commands are best effort [s]."""


class TaskCommands:
    """Client of the task server of one robot."""

    def __init__(self, client: ClientNode, namespace: str) -> None:
        """Create the endpoints; the namespace is the robot's."""
        server = f"/{namespace}/{TASK_SERVER}"
        self.failed_attempts: list[str] = []
        """Failed attempts of all tasks, with their reasons."""
        self.number = 0
        """Number of this client's newest task; the server's differs after another client's."""
        self._status: dict[str, Any] = {}
        self._command = client.node.create_publisher(String, f"{server}/command", qos.STREAM)
        client.subscribe(String, f"{server}/status", self._on_status, qos.STATUS)

    @property
    def objects(self) -> Collection[str]:
        """Names of the objects that the task server knows."""
        return tuple(self._status.get("objects", ()))

    @property
    def replaced(self) -> bool:
        """Whether another client has sent a task since this client's newest one."""
        return bool(self.number) and self._status.get("number") != self.number

    def execute(self, task: str) -> Work:
        """Execute a task.

        Args:
            task: a sentence, or a plan as JSON.

        Raises:
            SkillFailed: with the reason of the task server.
        """
        before, sent = self._status["number"], -math.inf
        while self._status["number"] == before:
            if time.monotonic() > sent + RESEND_AFTER:
                sent = time.monotonic()
                self._command.publish(String(data=task))
            yield
        self.number = self._status["number"]
        while self._status["state"] not in ENDED and not self.replaced:
            yield
        if self.replaced:
            raise SkillFailed("another client has replaced the task")
        events = self._status.get("events", ())
        self.failed_attempts += [text for text in events if " failed: " in text]
        if self._status["state"] != "succeeded":
            raise SkillFailed(str(self._status["reason"] or self._status["state"]))

    def _on_status(self, message: String) -> None:
        self._status = json.loads(message.data)
