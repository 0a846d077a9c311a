# SPDX-License-Identifier: Apache-2.0
"""Reports of nodes on ``/diagnostics``, as by diagnostic_updater: once a second by default.

A node's diagnostics and readiness are published by the report thread. Faults of the ROS graph that
a node can see: duplicate names, publishers of another type.
"""

from __future__ import annotations

import math
import re
import threading
import time
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import ParameterDescriptor
from rclpy.node import Node

from motion_nodes.errors import InvalidConfig
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.loops import PeriodicCall, RateLoop
from motion_nodes.ros.parameters import declare_early
from motion_nodes.ros.process_reports import LOOK, Readiness

if TYPE_CHECKING:
    from motion_nodes.ros.node import MotionNode

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
        self, node: MotionNode[Any], hardware_id: str, period: float, transition: threading.RLock
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
