# SPDX-License-Identifier: Apache-2.0
"""What a node reports on ``/diagnostics``, as diagnostic_updater does: once a second by default."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import ParameterDescriptor
from rclpy.node import Node

from motion_nodes.errors import BadConfig
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
        BadConfig: what was given is not allowed.
    """
    fixed = ParameterDescriptor(description="Time between two reports.", read_only=True)
    period = float(declare_early(node, PERIOD, 1.0, fixed))
    if not SHORTEST <= period <= LONGEST:
        raise BadConfig(
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
    """Says each kind of warning once, then again only after a pause, with the count between."""

    def __init__(self, node: Node, pause: float = 10.0) -> None:
        """Log through ``node``; repeat a kind at most every ``pause`` [s]."""
        self._logger = node.get_logger()
        self._pause = pause
        self._said: dict[str, tuple[float, int]] = {}
        self.total = 0
        """How many warnings there were, said or not."""
        self.last = ""
        """The newest warning's text."""

    def __call__(self, kind: str, text: str) -> None:
        """Warn of ``kind``; the text of the first and of the repeats is logged."""
        self.total += 1
        self.last = text
        now = time.monotonic()
        said, missed = self._said.get(kind, (-float("inf"), 0))
        if now - said < self._pause:
            self._said[kind] = (said, missed + 1)
            return
        self._said[kind] = (now, 0)
        self._logger.warning(f"{text} ({missed} more like this)" if missed else text)
