# SPDX-License-Identifier: Apache-2.0
"""What a node reports on ``/diagnostics``, as diagnostic_updater does: once a second by default."""

from __future__ import annotations

import math
import re
import threading
import time
from dataclasses import dataclass, field

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import ParameterDescriptor
from rclpy.node import Node

from motion_nodes.errors import InvalidConfig
from motion_nodes.ros import qos
from motion_nodes.ros.parameters import declare_early

LEVELS = {"OK": DiagnosticStatus.OK, "WARN": DiagnosticStatus.WARN, "ERROR": DiagnosticStatus.ERROR}
_ORDER = ("OK", "WARN", "ERROR")
PERIOD = "diagnostic_updater.period"
"""Parameter of every node that says how often it reports, named as diagnostic_updater names it."""
SHORTEST, LONGEST = 0.05, 3.0
"""[s] Allowed periods; a node that says nothing for 4 s counts as silent."""


def report_period(node: Node) -> float:
    """Declare the period of a node's reports, and return it [s].

    Raises:
        InvalidConfig: what was given is not allowed.
    """
    fixed = ParameterDescriptor(description="Time between two reports.", read_only=True)
    period = float(declare_early(node, PERIOD, 1.0, fixed))
    if not SHORTEST <= period <= LONGEST:
        raise InvalidConfig(
            f"{node.get_fully_qualified_name()}: parameter '{PERIOD}' is {period:g} s; allowed is "
            f"{SHORTEST:g} to {LONGEST:g} s"
        )
    return period


@dataclass
class Report:
    """One status under construction: the worst level wins, its texts are joined."""

    level: str = "OK"
    texts: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)

    def note(self, level: str, text: str) -> None:
        """Add a finding of ``OK``, ``WARN`` or ``ERROR``."""
        if _ORDER.index(level) > _ORDER.index(self.level):
            self.level = level
        self.texts.append(text)

    def value(self, key: str, value: object) -> None:
        """Add a figure; floats are shown with four digits."""
        self.values[key] = f"{value:.4g}" if isinstance(value, float) else str(value)


class DiagnosticsPublisher:
    """Publishes a node's reports."""

    def __init__(self, node: Node, hardware_id: str) -> None:
        """Create the publisher of ``node``."""
        self._node = node
        self._hardware_id = hardware_id
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", qos.DIAGNOSTICS)

    def publish(self, report: Report) -> None:
        """Send one report under the node's full name."""
        status = DiagnosticStatus(
            level=LEVELS[report.level],
            name=self._node.get_fully_qualified_name().lstrip("/"),
            message="; ".join(report.texts) or "running",
            hardware_id=self._hardware_id,
            values=[KeyValue(key=key, value=value) for key, value in report.values.items()],
        )
        message = DiagnosticArray(status=[status])
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(message)


class Warnings:
    """Logs each problem at most once per pause, with the number of repeats in between.

    A problem is a kind of warning together with its text without the numbers in it: another joint
    or another reason is another problem, another value of the same one is not. Each kind may log
    :data:`MAX_PROBLEMS` problems per pause, so that a stream of ever new names stays limited.
    """

    MAX_PROBLEMS = 16
    """Different problems of one kind that are logged per pause; all others count as one more."""
    MAX_REMEMBERED = 256
    """Problems that are remembered over all kinds; the oldest are forgotten."""

    def __init__(self, node: Node, pause: float = 10.0) -> None:
        """Log through ``node``; repeat a problem at most every ``pause`` [s]."""
        self._logger = node.get_logger()
        self._pause = pause
        self._logged: dict[tuple[str, str], tuple[float, int]] = {}
        self._lock = threading.Lock()
        self.total = 0
        """Number of warnings, logged or not."""
        self.last = ""
        """Text of the newest warning, logged or not."""

    def __call__(self, kind: str, text: str) -> None:
        """Warn.

        Args:
            kind: what the warning is about, such as a topic; few different ones per node.
            text: what is logged.
        """
        # The loop, the executor and request threads all warn.
        with self._lock:
            self.total += 1
            self.last = text
            repeats = self._count(kind, text, time.monotonic())
        if repeats is not None:
            self._logger.warning(f"{text} ({repeats} more like this)" if repeats else text)

    def _count(self, kind: str, text: str, now: float) -> int | None:
        """Return how many like this were not logged; None where this one is not logged, either."""
        key = self._key(kind, _problem(text), now)
        logged, repeats = self._logged.pop(key, (-math.inf, 0))
        if now - logged < self._pause:
            self._logged[key] = (logged, repeats + 1)
            return None
        self._logged[key] = (now, 0)
        if len(self._logged) > self.MAX_REMEMBERED:
            del self._logged[next(iter(self._logged))]
        return repeats

    def _key(self, kind: str, problem: str, now: float) -> tuple[str, str]:
        """Return under which key a warning is counted: its own, or the one for the overflow."""
        key = (kind, problem)
        logged = self._logged.get(key)
        if logged is not None and now - logged[0] < self._pause:
            return key
        recent = sum(
            name == kind and now - logged < self._pause
            for (name, _), (logged, _) in self._logged.items()
        )
        return key if recent < self.MAX_PROBLEMS else (kind, "")


_NUMBERS = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?(?:,? +(?=[-+.\d]))?")
"""Numbers that are not part of a name such as ``joint1``, and what separates them in lists."""


def _problem(text: str) -> str:
    """Return the text of a warning with its numbers left out, at most 300 characters."""
    return _NUMBERS.sub("", text)[:300]
