# SPDX-License-Identifier: Apache-2.0
"""A node's diagnostics and readiness, published by the report thread."""

from __future__ import annotations

import threading
import traceback
from typing import TYPE_CHECKING, Any

from motion_nodes.ros.concurrency.rate_loop import RateLoop
from motion_nodes.ros.concurrency.report_thread import PeriodicCall
from motion_nodes.ros.diagnostics import DiagnosticsPublisher, Report
from motion_nodes.ros.graph_watch import GraphWatch
from motion_nodes.ros.readiness import LOOK, Readiness

if TYPE_CHECKING:
    from motion_nodes.ros.node import MotionNode

MIN_RATE_RATIO = 0.8
"""Ratio of actual to nominal rate below which a loop is reported as slow."""


def report_loop(report: Report, loop: RateLoop, skipped: int) -> None:
    """Add the statistics of a loop since the last report.

    Args:
        report: the report to extend.
        loop: the loop.
        skipped: number of deadlines that were not served.
    """
    statistics = loop.statistics()
    nominal = statistics.nominal or 1.0 / loop.period
    report.value("rate [Hz]", statistics.rate)
    report.value("nominal rate [Hz]", nominal)
    report.value("late ticks", statistics.late)
    report.value("skipped deadlines", skipped)
    report.value("worst lateness [ms]", statistics.worst_lateness * 1e3)
    report.value("busy", statistics.busy)
    if statistics.rate < MIN_RATE_RATIO * nominal:
        report.note("WARN", f"loop runs at {statistics.rate:.0f} of {nominal:.0f} Hz")


class HealthReporter:
    """Publishes one node's diagnostics periodically, and its readiness when that changes."""

    def __init__(
        self,
        node: MotionNode[Any],
        hardware_id: str,
        period: float,
        transition: threading.RLock,
    ) -> None:
        """Start reporting.

        Args:
            node: the node.
            hardware_id: hardware id in the diagnostics.
            period: time between two reports [s].
            transition: held during transitions, when no report is made.
        """
        self._node, self._transition = node, transition
        self._publisher = DiagnosticsPublisher(node, hardware_id)
        self._graph = GraphWatch(node, node.warn)
        self._readiness = Readiness(node, self.report)
        self._reporting = PeriodicCall(self.report, period)
        self._polling = PeriodicCall(self._check_ready, LOOK)

    def report(self) -> None:
        """Publish a report now, unless a transition is under way."""
        if not self._transition.acquire(blocking=False):
            return
        try:
            report = Report()
            self._graph.diagnose(report)
            self._node.fill_report(report)
            self._publisher.publish(report)
        except Exception:
            self._log(f"diagnostics failed:\n{traceback.format_exc()}")
        finally:
            self._transition.release()

    def fault(self, text: str, *, restart: bool) -> None:
        """Report a fault at once.

        Args:
            text: description of the fault.
            restart: whether the node may become ready again.
        """
        self._readiness.fault(text)
        self._polling.end()
        if restart:
            self._polling = PeriodicCall(self._check_ready, LOOK)
        self.report()

    def end(self) -> None:
        """Stop reporting."""
        self._polling.end()
        self._reporting.end()

    def _check_ready(self) -> None:
        try:
            ready = self._readiness.poll()
        except Exception:
            self._log(f"checking readiness failed:\n{traceback.format_exc()}")
            ready = True
        if ready:
            self._polling.end()

    def _log(self, text: str) -> None:
        self._node.get_logger().error(text)
