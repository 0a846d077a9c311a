# SPDX-License-Identifier: Apache-2.0
"""Clients of ``motion stop`` and ``motion resume``: temporary participants of the latched stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rclpy.logging import LoggingSeverity
from rclpy.node import Node

from motion_nodes.ros import signals
from motion_nodes.ros.clients.client_node import client_node
from motion_nodes.ros.names import STOP_STATE_TOPIC
from motion_nodes.ros.stop_latch import (
    AT_REST,
    INACTIVE,
    MOTION,
    RESUMED,
    SECONDS,
    STOPPED,
    StopLatch,
)

Report = Callable[[str], None]
"""Receives lines for the user."""

DISCOVERY_TIME = 1.0
"""Time in which running nodes are discovered [s]."""
POLL_PERIOD = 0.02
"""Period of polling [s]."""


def stop(timeout: float, report: Report) -> bool:
    """Stop all robots and wait until they are at rest.

    Args:
        timeout: max time to wait [s].
        report: receives a line for each robot, and for each node that does not respond.

    Returns:
        Whether there are robots, and all of them are at rest.
    """
    with _quiet_node("motion_stop") as node:
        latch = StopLatch(node)
        try:
            at_rest = stop_all(node, latch, "motion stop", timeout, report)
        finally:
            latch.end()
    if at_rest:
        report("commands are rejected; `motion resume` ends that")
    return at_rest


def stop_all(node: Node, latch: StopLatch, who: str, timeout: float, report: Report) -> bool:
    """Stop all robots by a node's latch; see :func:`stop`.

    Args:
        node: the node.
        latch: its copy of the stop.
        who: the sender, for status texts.
        timeout: max time to wait [s].
        report: receives lines for the user.
    """
    # The topic is transient local: nodes that are discovered later receive it, too.
    latch.stop(who)
    reported: set[str] = set()
    waiting: dict[str, str] = {}
    for _ in _poll(latch, timeout):
        waiting = _not_at_rest(node, latch, reported, report)
        # Without any robot: discovery may take long on a loaded machine.
        if reported and not waiting:
            break
    for name, reason in waiting.items():
        report(f"{name}: {reason}")
    if not reported and not waiting:
        report("no controller of a robot was found")
    return bool(reported) and not waiting


def resume(timeout: float, report: Report) -> bool:
    """Resume all nodes after a stop.

    Args:
        timeout: max time to wait for their responses [s].
        report: receives lines for the user.

    Returns:
        Whether all nodes accept commands.
    """
    with _quiet_node("motion_resume") as node:
        latch = StopLatch(node)
        try:
            return resume_all(node, latch, timeout, report)
        finally:
            latch.end()


def resume_all(node: Node, latch: StopLatch, timeout: float, report: Report) -> bool:
    """Resume all nodes by a node's latch; see :func:`resume` and :func:`stop_all`."""
    for _ in _poll(latch, timeout):
        # Only a stop that was received can be resumed.
        if latch.received.keys() - {_name(node)} and not _unreported(node, latch):
            break
    if not latch.received.keys() - {_name(node)}:
        report("no node was found")
        return False
    stopped = latch.resume()
    waiting: dict[str, str] = {}
    for _ in _poll(latch, timeout):
        waiting = _still_stopped(node, latch)
        if not waiting:
            break
    for name, reason in waiting.items():
        report(f"{name}: {reason}")
    if not waiting:
        report("resumed: commands are accepted" if stopped else "nothing was stopped")
    return not waiting


@contextmanager
def _quiet_node(name: str) -> Iterator[Node]:
    """Context manager of a node whose latch does not log: the user sees the reports."""
    with client_node(name) as node:
        node.get_logger().set_level(LoggingSeverity.ERROR)
        yield node


def _poll(latch: StopLatch, timeout: float) -> Iterator[None]:
    """Poll the latch until the timeout; yields after the discovery time."""
    began = time.monotonic()
    while not signals.STOP.wait(POLL_PERIOD):
        latch.poll()
        elapsed = time.monotonic() - began
        if elapsed >= min(DISCOVERY_TIME, timeout):
            yield
        if elapsed > timeout:
            return


def _name(node: Node) -> str:
    return str(node.get_fully_qualified_name()).lstrip("/")


def _unreported(node: Node, latch: StopLatch) -> dict[str, str]:
    """Return the participants of the stop whose state was not received yet."""
    return dict.fromkeys(_present(node) - latch.received.keys(), "no state was received")


def _present(node: Node) -> set[str]:
    """Return the names of the participants of the stop in the ROS graph."""
    known = node.get_publishers_info_by_topic(STOP_STATE_TOPIC)
    return {f"{info.node_namespace}/{info.node_name}".strip("/") for info in known}


def _values(latch: StopLatch, node: Node) -> Iterator[tuple[str, dict[str, str]]]:
    present = _present(node)
    for name, status in list(latch.received.items()):
        if name in present and name != _name(node):
            yield name, {pair.key: pair.value for pair in status.values}


def _not_at_rest(
    node: Node, latch: StopLatch, reported: set[str], report: Report
) -> dict[str, str]:
    """Return nodes that are not stopped or whose robots move; report robots at rest once."""
    waiting = _unreported(node, latch)
    for name, values in _values(latch, node):
        if int(values[STOPPED]) <= int(values[RESUMED]):
            waiting[name] = "not stopped"
        elif values.get(MOTION, AT_REST) not in (AT_REST, INACTIVE):
            waiting[name] = values[MOTION]
        elif MOTION in values and name not in reported:
            reported.add(name)
            after = f" after {values[SECONDS]} s" if SECONDS in values else ""
            report(f"{name}: {values[MOTION]}{after}")
    return waiting


def _still_stopped(node: Node, latch: StopLatch) -> dict[str, str]:
    return _unreported(node, latch) | {
        name: "still stopped"
        for name, values in _values(latch, node)
        if int(values[STOPPED]) > int(values[RESUMED])
    }
