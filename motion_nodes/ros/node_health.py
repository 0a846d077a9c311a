# SPDX-License-Identifier: Apache-2.0
"""A node's diagnostics and readiness, published by the report thread.

Faults of the ROS graph that a node can see: duplicate names, publishers of another type.
"""

from __future__ import annotations

import math
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

from motion_nodes.ros.concurrency.loops import PeriodicCall, RateLoop
from motion_nodes.ros.diagnostics import DiagnosticsPublisher, Report, Warnings
from motion_nodes.ros.readiness import LOOK, Readiness

if TYPE_CHECKING:
    from motion_nodes.ros.node import MotionNode

DUPLICATE_TIMEOUT = 30.0
"""[s] A killed process stays in the graph for a while; a duplicate name is reported after that."""
DUPLICATE_PERIOD = 5.0
"""[s] Period of its check, whose time grows with the number of nodes in the graph."""
UNKNOWN_NAME = "_NODE_NAME_UNKNOWN_"
"""What rmw gives for endpoints of DDS programs, and of nodes that are not discovered yet."""
MIN_RATE_RATIO = 0.8
"""Ratio of actual to nominal rate below which a loop is reported as slow."""


class DuplicateWatch:
    """Detects another node of the same full name, possibly on another machine."""

    def __init__(self, node: Any) -> None:
        """Watch the graph for the name of ``node``."""
        self._node = node
        self._unique_at = time.monotonic()
        self._checked_at, self._twice = -math.inf, False

    def diagnose(self, report: Report) -> None:
        """Report a duplicate that has been in the graph for :data:`DUPLICATE_TIMEOUT`."""
        now = time.monotonic()
        if now - self._checked_at > DUPLICATE_PERIOD:
            mine = (self._node.get_name(), self._node.get_namespace())
            names = self._node.get_node_names_and_namespaces()
            self._checked_at, self._twice = now, names.count(mine) > 1
        if not self._twice:
            self._unique_at = now
        elif now - self._unique_at > DUPLICATE_TIMEOUT:
            report.note("ERROR", "another node of the same name is in the graph")


class TypeWatch:
    """Detects publishers whose message type is not that of this node's subscription.

    Such messages do not arrive, and neither side gets an error.
    """

    def __init__(self, node: Any, warn: Warnings) -> None:
        """Watch the topics that ``node`` subscribes to; log with ``warn``."""
        self._node, self._warn = node, warn
        self._known: dict[str, tuple[str, int, bool]] = {}
        """For each topic its type, the number of its publishers, and whether there is a fault."""

    def diagnose(self, report: Report) -> None:
        """Report and log publishers of another type that were there at the last call, too.

        The name of a new publisher's node may not be known at first.
        """
        topics = {each.topic_name: _name(each.msg_type) for each in tuple(self._node.subscriptions)}
        known, self._known = self._known, {}
        for topic, kind in topics.items():
            count = self._node.count_publishers(topic)
            before = known.get(topic, ("", -1, False))
            changed = before[:2] != (kind, count)
            fault = self._fault(topic, kind, topics) if changed or before[2] else ""
            self._known[topic] = (kind, count, bool(fault))
            if fault and before[2]:
                report.note("WARN", fault)
                self._warn(f"type of {topic}", fault)

    def _fault(self, topic: str, kind: str, topics: dict[str, str]) -> str:
        """Return which publishers of a topic have another type, or an empty text.

        Args:
            topic: its name.
            kind: the type of this node's subscription.
            topics: types of all its subscriptions, among which one of the other type may be.
        """
        others = [i for i in self._node.get_publishers_info_by_topic(topic) if i.topic_type != kind]
        if not others:
            return ""
        sent = others[0].topic_type
        nodes = {
            "a node without a name"
            if i.node_name == UNKNOWN_NAME
            else f"{i.node_namespace.rstrip('/')}/{i.node_name}"
            for i in others
        }
        fitting = [name for name, each in topics.items() if each == sent]
        hint = f"{sent} is received on {', '.join(fitting)}" if fitting else f"publish {kind}"
        return (
            f"{', '.join(sorted(nodes))} publishes {sent} on {topic}, where this node receives "
            f"{kind}: its messages do not arrive; {hint}"
        )


class GraphWatch:
    """All watches of the graph."""

    def __init__(self, node: Any, warn: Warnings) -> None:
        """Watch the graph of ``node``; log with ``warn``."""
        self._watches = (DuplicateWatch(node), TypeWatch(node, warn))

    def diagnose(self, report: Report) -> None:
        """Report the faults that exist now."""
        for watch in self._watches:
            watch.diagnose(report)


def _name(kind: Any) -> str:
    """Return the name of a message type, such as ``std_msgs/msg/String``."""
    return f"{kind.__module__.split('.', 1)[0]}/msg/{kind.__name__}"


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
