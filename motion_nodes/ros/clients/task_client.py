# SPDX-License-Identifier: Apache-2.0
"""Client of the task server: plans and executes tasks, and waits for their end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import rclpy
from rclpy.node import Node
from std_msgs.msg import String
from std_srvs.srv import Trigger

from motion_nodes.errors import MotionError
from motion_nodes.extras.tasks.task_plan import TaskOrder
from motion_nodes.ros import qos, signals

NOTICE_AFTER = 2.0
"""Waiting time after which the user is informed [s]."""
CANCEL_TIMEOUT = 5.0
"""Timeout of a cancellation [s]."""
QUIET = 0.3
"""Time without a message after which a status is the newest one [s]."""
RESEND_AFTER = 3.0
"""Time without a response after which the task is sent again: commands are best effort [s]."""
ENDING = 1.0
"""Time within which a task that seems to be under way may turn out to have ended [s]."""
LOST_AFTER = 10.0
"""Time without a task server after which it counts as ended [s]."""
FIELDS = {"state", "number", "task", "plan", "reason"}
"""Fields of a status that are read."""
ENDED = ("succeeded", "planned", "failed", "canceled", "refused")
"""States of a task that has ended."""


class TaskNotDone(MotionError):
    """A task that was refused, failed or canceled; the text is the reason."""

    def __init__(self, text: str, code: str = "") -> None:
        """Create the error from a sentence and the code in the status, if there is one."""
        self.code = code
        super().__init__(text)


class TaskClient:
    """Sends tasks, one at a time, and reads their status."""

    def __init__(
        self, node: Node, server: str, report: Callable[[str], None], *, spinning: bool = False
    ) -> None:
        """Create the endpoints.

        Args:
            node: the node.
            server: full name of the task server.
            report: receives lines about the progress.
            spinning: whether another thread spins the node.
        """
        self._node, self._server, self.report = node, server, report
        self._spinning = spinning
        self._status: dict[str, Any] = {}
        self._received_at = 0.0
        self._reported: list[str] = []
        node.create_subscription(String, f"{server}/status", self._on_status, qos.STATUS)
        self._commands = node.create_publisher(String, f"{server}/command", qos.COMMANDS)
        self._cancellation = node.create_client(
            Trigger, f"{server}/cancel", qos_profile=qos.SERVICES
        )

    def find(self, timeout: float) -> None:
        """Wait for the task server.

        Args:
            timeout: max time to wait [s].

        Raises:
            TaskNotDone: no task server responded.
        """
        began, noticed = time.monotonic(), False
        while not (self._status and self._commands.get_subscription_count()):
            waited = time.monotonic() - began
            if signals.STOP.is_set():
                raise TaskNotDone("stopped")
            if waited > timeout:
                raise TaskNotDone(
                    f"there is no {self._server}; start it by `motion up ROBOT --tasks`"
                )
            if waited > NOTICE_AFTER and not noticed:
                noticed = True
                self.report(f"waiting for {self._server} of `motion up ROBOT --tasks`")
            self._spin()
        # A late subscriber receives earlier states first.
        end = time.monotonic() + 10.0 * QUIET
        while time.monotonic() < min(end, self._received_at + QUIET):
            self._spin()

    def run(self, order: TaskOrder) -> list[dict[str, Any]]:
        """Send a task, report its events, and wait for its end; Ctrl-C cancels it.

        Returns:
            The plan of skills.

        Raises:
            TaskNotDone: with the reason.
        """
        # Its end may be on the way: another client's task has just ended.
        end = time.monotonic() + ENDING
        while self._status["state"] == "running" and time.monotonic() < end:
            self._spin()
        if self._status["state"] == "running":
            raise TaskNotDone(f"another task is under way: '{self._status['task']}'")
        number, sent = self._status["number"], -RESEND_AFTER
        seen = time.monotonic()
        while not signals.STOP.is_set():
            now = time.monotonic()
            if self._status["number"] == number and now > sent + RESEND_AFTER:
                sent = now
                self._commands.publish(String(data=order.as_text()))
            self._spin()
            status = self._status
            seen = now if self._commands.get_subscription_count() else seen
            if now > seen + LOST_AFTER:
                raise TaskNotDone(f"{self._server} has ended")
            if status["number"] == number:
                continue
            if status["task"] != order.task[: len(status["task"])]:
                raise TaskNotDone(f"another task was given meanwhile: '{status['task']}'")
            self._report_events(status)
            if status["state"] in ENDED:
                if status["state"] not in ("succeeded", "planned"):
                    text = str(status["reason"] or status["state"])
                    raise TaskNotDone(text, str(status.get("code", "")))
                return list(status["plan"])
        raise TaskNotDone(self.cancel())

    def cancel(self) -> str:
        """Cancel the active task; return whether that was confirmed, as text."""
        call = self._cancellation.call_async(Trigger.Request())
        end = time.monotonic() + CANCEL_TIMEOUT
        while not call.done() and time.monotonic() < end:
            self._spin()
        return "canceled" if call.done() else "stopped; the cancellation was not confirmed"

    def _spin(self) -> None:
        if self._spinning:
            time.sleep(0.02)
        else:
            rclpy.spin_once(self._node, timeout_sec=0.05)

    def _on_status(self, message: String) -> None:
        try:
            status = json.loads(message.data)
        except ValueError:
            status = None
        # An exception would end the thread that spins the node.
        if isinstance(status, dict) and status.keys() >= FIELDS:
            self._status, self._received_at = status, time.monotonic()
        else:
            self._node.get_logger().warning(
                f"message on {self._server}/status ignored: it needs {', '.join(sorted(FIELDS))}",
                throttle_duration_sec=10.0,
            )

    def _report_events(self, status: dict[str, Any]) -> None:
        lines = [str(line) for line in status.get("events", ())]
        if status["state"].startswith("waiting") or status["state"] == "planned":
            plan = ", ".join(
                f"{step['skill']}({', '.join(step['args'].values())})" for step in status["plan"]
            )
            lines = [f"plan: {plan}; {status['state']}"]
        for line in _new(lines, self._reported):
            self.report(line)
        self._reported = lines


def _new(lines: list[str], before: list[str]) -> list[str]:
    """Return the lines added since the last status; the oldest may have been dropped."""
    for kept in range(min(len(before), len(lines)), 0, -1):
        if lines[:kept] == before[-kept:]:
            return lines[kept:]
    return lines
