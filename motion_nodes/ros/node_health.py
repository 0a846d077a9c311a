# SPDX-License-Identifier: Apache-2.0
"""What every node reports of itself: how its loop runs, and whether it is alone."""

from __future__ import annotations

import time

from rclpy.node import Node

from motion_nodes.ros.concurrency.rate_loop import RateLoop
from motion_nodes.ros.diagnostics import Report

LEAST_RATE = 0.8
"""Share of its nominal rate below which a loop is reported."""

TWIN_PATIENCE = 30.0
"""[s] A killed process stays in the graph for a while; only after that is a twin another node."""


def report_loop(report: Report, loop: RateLoop, skipped: int) -> None:
    """Add the figures of a loop since the last report; ``skipped`` deadlines were not served."""
    statistics = loop.statistics()
    nominal = 1.0 / loop.period
    report.value("rate [Hz]", statistics.rate)
    report.value("nominal rate [Hz]", nominal)
    report.value("late ticks", statistics.late)
    report.value("skipped deadlines", skipped)
    report.value("worst lateness [ms]", statistics.worst_lateness * 1e3)
    report.value("busy", statistics.busy)
    if statistics.rate < LEAST_RATE * nominal:
        report.note("WARN", f"loop runs at {statistics.rate:.0f} of {nominal:.0f} Hz")


class TwinWatch:
    """Looks for another node of the same full name, which may be on another machine."""

    def __init__(self, node: Node) -> None:
        """Begin to look."""
        self._node = node
        self._alone_at = time.monotonic()

    def look(self, report: Report) -> None:
        """Report a twin that has been in the graph for long."""
        mine = (self._node.get_name(), self._node.get_namespace())
        now = time.monotonic()
        if sum(pair == mine for pair in self._node.get_node_names_and_namespaces()) < 2:
            self._alone_at = now
        elif now - self._alone_at > TWIN_PATIENCE:
            report.note("ERROR", "another node of the same name is in the graph")
