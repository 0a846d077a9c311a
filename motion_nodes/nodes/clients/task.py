# SPDX-License-Identifier: Apache-2.0
"""Client of ``motion task``: sends a task to a running suite and waits for its end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import rclpy
from rclpy.node import Node
from std_msgs.msg import String
from std_srvs.srv import Trigger

from motion_nodes.ros import qos, signals
from motion_nodes.ros.clients.client_node import client_node

NOTICE_AFTER = 2.0
"""Waiting time after which the user is informed [s]."""
CANCEL_TIMEOUT = 5.0
"""Timeout of a cancellation [s]."""
QUIET = 0.3
"""Time without a message after which a status is the newest one [s]."""
RESEND_AFTER = 3.0
"""Time without a response after which the task is sent again: commands are best effort [s]."""
LOST_AFTER = 10.0
"""Time without a task server after which it counts as ended [s]."""
_ENDED = ("succeeded", "failed", "canceled", "refused")


def run_task(prefix: str, text: str, timeout: float, report: Callable[[str], None]) -> str:
    """Execute a task; Ctrl-C cancels it.

    Args:
        prefix: namespace of the robot, empty or beginning with a slash.
        text: a sentence, or a plan as JSON.
        timeout: max time to wait for the task server [s].
        report: receives lines about the progress.

    Returns:
        Why it failed; empty on success.
    """
    with client_node("motion_task") as node:
        client = _TaskClient(node, f"{prefix}/task_server", report)
        fault = client.find(timeout)
        return fault or client.run(text)


class _TaskClient:
    """Sends one task and reads its status."""

    def __init__(self, node: Node, server: str, report: Callable[[str], None]) -> None:
        self._node, self._server, self._report = node, server, report
        self._status: dict[str, Any] = {}
        self._received_at = 0.0
        self._reported: list[str] = []
        node.create_subscription(String, f"{server}/status", self._on_status, qos.STATUS)
        self._commands = node.create_publisher(String, f"{server}/command", qos.COMMANDS)

    def find(self, timeout: float) -> str:
        """Wait for the task server; return why there is none."""
        began, noticed = time.monotonic(), False
        while not (self._status and self._commands.get_subscription_count()):
            waited = time.monotonic() - began
            if signals.STOP.is_set():
                return "stopped"
            if waited > timeout:
                return f"there is no {self._server}; start it by `motion up ROBOT --tasks`"
            if waited > NOTICE_AFTER and not noticed:
                noticed = True
                self._report(f"waiting for {self._server}")
            rclpy.spin_once(self._node, timeout_sec=0.05)
        # A late subscriber receives earlier states first.
        end = time.monotonic() + 10.0 * QUIET
        while time.monotonic() < min(end, self._received_at + QUIET):
            rclpy.spin_once(self._node, timeout_sec=0.05)
        return ""

    def run(self, text: str) -> str:
        """Send a task, report its events, and return why it failed."""
        if self._status["state"] == "running":
            return f"another task is under way: '{self._status['task']}'"
        number, sent = self._status["number"], -RESEND_AFTER
        seen = time.monotonic()
        while not signals.STOP.is_set():
            now = time.monotonic()
            if self._status["number"] == number and now > sent + RESEND_AFTER:
                sent = now
                self._commands.publish(String(data=text))
            rclpy.spin_once(self._node, timeout_sec=0.05)
            seen = now if self._commands.get_subscription_count() else seen
            if now > seen + LOST_AFTER:
                return f"{self._server} has ended"
            if self._status["number"] == number:
                continue
            if self._status["task"] != text[: len(self._status["task"])]:
                return f"another task was given meanwhile: '{self._status['task']}'"
            self._report_events()
            if self._status["state"] in _ENDED:
                if self._status["state"] == "succeeded":
                    return ""
                return str(self._status["reason"] or self._status["state"])
        return self._cancel()

    def _on_status(self, message: String) -> None:
        self._status, self._received_at = json.loads(message.data), time.monotonic()

    def _report_events(self) -> None:
        lines = [str(line) for line in self._status.get("events", ())]
        if self._status["state"].startswith("waiting"):
            plan = ", ".join(
                f"{step['skill']}({', '.join(step['args'].values())})"
                for step in self._status["plan"]
            )
            lines = [f"plan: {plan}; {self._status['state']}"]
        for line in _new(lines, self._reported):
            self._report(line)
        self._reported = lines

    def _cancel(self) -> str:
        client = self._node.create_client(Trigger, f"{self._server}/cancel")
        call = client.call_async(Trigger.Request())
        end = time.monotonic() + CANCEL_TIMEOUT
        while not call.done() and time.monotonic() < end:
            rclpy.spin_once(self._node, timeout_sec=0.05)
        return "canceled" if call.done() else "stopped; the cancellation was not confirmed"


def _new(lines: list[str], before: list[str]) -> list[str]:
    """Return the lines that follow those that were there before; the oldest may have gone."""
    for kept in range(min(len(before), len(lines)), 0, -1):
        if lines[:kept] == before[-kept:]:
            return lines[kept:]
    return lines
