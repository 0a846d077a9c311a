# SPDX-License-Identifier: Apache-2.0
"""Shows of several robots: each executes a routine, at the same time; checked by the simulation.

A routine is a generator that yields while it waits, see :mod:`motion_nodes.nodes.task.remote_work`.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from std_msgs.msg import String

from motion_nodes.errors import MotionError
from motion_nodes.extras.tasks.task_codes import SkillFailed
from motion_nodes.nodes.demo.arm import ClientNode, DemoFindings
from motion_nodes.nodes.task.remote_work import Work
from motion_nodes.ros import qos
from motion_nodes.ros.clients.task_client import ENDED
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.concurrency.rclpy_internals import LeanExecutor
from motion_nodes.ros.names import TASK_SERVER
from motion_nodes.typing import Array

SIMULATION = "mujoco_sim"
REPORT_TIMEOUT = 10.0
"""Max time until the simulation reports its contacts [s]."""
_SLICE = 0.01
"""Period of the executor [s]."""
_PERIOD = 0.02
"""Period in which routines are advanced [s]."""
RESEND_AFTER = 10.0
"""Time without a response after which a task is sent again: commands are best effort [s]."""


class Travel:
    """Distance moved, without measurement noise, with its times."""

    DEAD_BAND = 5e-3
    """Movements below this are noise [m or rad]."""

    def __init__(self) -> None:
        self.length = 0.0
        """Distance moved [m or rad]."""
        self.begin = self.end = np.nan
        """Times of the first and the last movement [s]."""
        self._at: Array | None = None

    def update(self, time: float, position: Array) -> None:
        """Add a position [m or rad], shape (n,), at a time [s]."""
        if self._at is None:
            self._at = position
        step = float(np.linalg.norm(position - self._at))
        if step > self.DEAD_BAND:
            self.length += step
            self._at, self.end = position, time
            if np.isnan(self.begin):
                self.begin = time


def together(travels: Sequence[Travel]) -> float:
    """Return the time from the last begin to the first end of movements [s]; 0 without one."""
    # NaN, of one that has not moved, stays NaN.
    begin = np.max([travel.begin for travel in travels])
    span = np.min([travel.end for travel in travels]) - begin
    return max(0.0, float(span)) if np.isfinite(span) else 0.0


class RoutineClient(ClientNode):
    """Executes routines, and reads the contacts reported by the simulation."""

    def __init__(self, nodes: Sequence[str]) -> None:
        """Create the client.

        Args:
            nodes: nodes that must be ready, as NAMESPACE/NAME.
        """
        super().__init__()
        self.jobs = ExecutorQueue(self.node)
        self._executor = LeanExecutor()
        self._executor.add_node(self.node)
        self._missing = {SIMULATION, *nodes}
        self.contacts = 0
        """Unexpected contacts since the start of the simulation."""
        self.pairs = ""
        """Their bodies, as text."""
        self._reports = 0
        self.subscribe(DiagnosticArray, "/diagnostics", self._on_diagnostics, qos.DIAGNOSTICS)

    @property
    def ready(self) -> bool:
        """Whether all nodes are ready."""
        return not self._missing

    def waiting_for(self) -> str:
        """Return the nodes that are not ready yet."""
        return ", ".join(sorted(self._missing))

    def spin(self, seconds: float) -> bool:
        """Receive messages and responses for a time [s]; return False after a stop signal."""
        end = time.monotonic() + seconds
        while True:
            self._executor.spin_once(timeout_sec=0.0)
            remaining = end - time.monotonic()
            if not super().spin(min(max(remaining, 0.0), _SLICE)):
                return False
            if remaining <= _SLICE:
                return True

    def run(self, routines: Mapping[str, Work], timeout: float) -> dict[str, str]:
        """Execute routines at the same time.

        Args:
            routines: by robot.
            timeout: max real time [s].

        Returns:
            Why each failed, by robot; empty: it has succeeded.
        """
        end, active = time.monotonic() + timeout, dict(routines)
        failures = dict.fromkeys(routines, "")
        while active:
            for name, work in list(active.items()):
                try:
                    next(work)
                except StopIteration:
                    del active[name]
                except MotionError as error:
                    del active[name]
                    failures[name] = str(error)
            stopped = not self.spin(_PERIOD)
            if stopped or time.monotonic() > end:
                late = "stopped" if stopped else f"not done after {timeout:.0f} s"
                failures |= dict.fromkeys(active, late)
                break
        for work in active.values():
            work.close()
        return failures

    def check_contacts(self, findings: DemoFindings, before: int = 0) -> None:
        """Check that no contact was reported beyond the number before."""
        # The report after the next one began after the last motion.
        seen = self._reports
        reported = self.wait(lambda: self._reports > seen + 1, REPORT_TIMEOUT)
        count = self.contacts - before
        text = f"{count} contacts: {self.pairs}" if count else "MuJoCo reports no contact"
        findings.check(reported and count == 0, text if reported else "no report of contacts")

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            name = status.name.strip("/")
            values = {pair.key: pair.value for pair in status.values}
            if values.get("ready") == "yes":
                self._missing.discard(name)
            if name == SIMULATION and "contacts" in values:
                self._reports += 1
                self.contacts, self.pairs = int(values["contacts"]), values["contact pairs"]


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
