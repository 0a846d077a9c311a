# SPDX-License-Identifier: Apache-2.0
"""Reports of nodes on ``/diagnostics``, as by diagnostic_updater: once a second by default."""

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
"""Period parameter of every node, named as by diagnostic_updater."""
MIN_PERIOD, MAX_PERIOD = 0.05, 3.0
"""[s] Allowed periods; a node without reports for 4 s counts as lost."""


def report_period(node: Node) -> float:
    """Declare the period of a node's diagnostics, and return it [s].

    Raises:
        InvalidConfig: a value outside the allowed range.
    """
    fixed = ParameterDescriptor(description="Period of the node's diagnostics [s].", read_only=True)
    period = float(declare_early(node, PERIOD, 1.0, fixed))
    if not MIN_PERIOD <= period <= MAX_PERIOD:
        raise InvalidConfig(
            f"{node.get_fully_qualified_name()}: parameter '{PERIOD}' is {period:g} s; allowed is "
            f"{MIN_PERIOD:g} to {MAX_PERIOD:g} s",
            field=PERIOD,
        )
    return period


@dataclass
class Report:
    """A diagnostic status under construction: the worst level of its texts."""

    level: str = "OK"
    texts: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)

    def note(self, level: str, text: str) -> None:
        """Add a status text of level ``OK``, ``WARN`` or ``ERROR``."""
        if _ORDER.index(level) > _ORDER.index(self.level):
            self.level = level
        self.texts.append(text)

    def value(self, key: str, value: object) -> None:
        """Add a key-value pair; floats are rounded to four digits."""
        self.values[key] = f"{value:.4g}" if isinstance(value, float) else str(value)


class DiagnosticsPublisher:
    """Publishes a node's reports."""

    def __init__(self, node: Node, hardware_id: str) -> None:
        """Create the publisher of ``node``."""
        self._node = node
        self._hardware_id = hardware_id
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", qos.DIAGNOSTICS)

    def publish(self, report: Report) -> None:
        """Publish one report under the node's full name."""
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
    """Throttled warnings of a node: each is logged once per pause, with the number of repeats.

    Warnings of the same kind and the same text, apart from its numbers, are repeats: another joint
    or reason is another warning, another value is not. Each kind may log :data:`MAX_PROBLEMS`
    warnings per pause, which bounds the log where names keep changing.
    """

    MAX_PROBLEMS = 16
    """Max different warnings of one kind per pause; all others count as one."""
    MAX_REMEMBERED = 256
    """Max stored warnings of all kinds; the oldest are dropped."""

    def __init__(self, node: Node, pause: float = 10.0) -> None:
        """Create the warnings of a node.

        Args:
            node: its logger is used.
            pause: min time between two logs of the same warning [s].
        """
        self._logger = node.get_logger()
        self._pause = pause
        self._logged: dict[tuple[str, str], tuple[float, int]] = {}
        self._lock = threading.Lock()
        self.total = 0
        """Number of warnings, logged or not."""
        self.last = ""
        """Text of the newest warning, logged or not."""

    def __call__(self, kind: str, text: str) -> None:
        """Log a warning, unless it is throttled; thread-safe.

        Args:
            kind: subject of the warning, such as a topic; few different ones per node.
            text: the warning.
        """
        with self._lock:
            self.total += 1
            self.last = text
            repeats = self._count(kind, text, time.monotonic())
        if repeats is not None:
            self._logger.warning(f"{text} ({repeats} more like this)" if repeats else text)

    def diagnose(self, report: Report) -> None:
        """Add the number of warnings and the newest one to a report."""
        if self.total:
            report.value("warnings", self.total)
            report.value("last warning", self.last)

    def _count(self, kind: str, text: str, now: float) -> int | None:
        """Return the number of throttled repeats; None if this warning is throttled too."""
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
        """Return the key of a warning: its own, or that of the overflow."""
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
"""Numbers that are not part of a name such as ``joint1``, and separators of lists of them."""


def _problem(text: str) -> str:
    """Return the text of a warning without its numbers, at most 300 characters."""
    return _NUMBERS.sub("", text)[:300]
