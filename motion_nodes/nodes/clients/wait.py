# SPDX-License-Identifier: Apache-2.0
"""Client of ``motion wait``: waits until nodes report that they are ready.

Launch files use ``python -m motion_nodes.nodes.clients.wait SECONDS NODE...``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.node import Node

from motion_nodes.ros import qos, signals
from motion_nodes.ros.clients.client_node import client_node
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.process_reports import NEVER

_POLL_PERIOD = 0.02
"""Period of polling [s]."""
_REPORT_PERIOD = 5.0
"""Period of progress reports to the user [s]."""
_NOTHING = "no diagnostics were received"


def wait_for_nodes(
    names: Iterable[str],
    seconds: float,
    report: Callable[[str, float], None],
    *,
    others: Collection[str] = (),
    remind: Callable[[dict[str, str]], None] = lambda _missing: None,
) -> dict[str, str]:
    """Wait until all nodes report on ``/diagnostics`` that they are ready.

    Args:
        names: full names of the nodes.
        seconds: timeout [s].
        report: called for each node that is ready, with the elapsed time [s].
        others: names of optional nodes, awaited only if they run: simulation and page.
        remind: called every few seconds with the nodes that are not ready, and the reasons.

    Returns:
        Nodes that are not ready, and the reason; empty if all are.
    """
    missing, found = dict.fromkeys(names, _NOTHING), set[str]()
    with client_node("motion_wait") as node:
        reports = PolledSubscription(node, DiagnosticArray, "/diagnostics", qos.DIAGNOSTICS)
        began = reminded = time.monotonic()
        while missing and time.monotonic() - began < seconds:
            # A robot that was left out is never ready; all others are awaited.
            if all(reason.startswith(NEVER) for reason in missing.values()):
                break
            if signals.STOP.wait(_POLL_PERIOD):
                break
            for name in _running(node, others) - found:
                found.add(name)
                missing[name] = _NOTHING
            if time.monotonic() - reminded > _REPORT_PERIOD:
                reminded = time.monotonic()
                remind(dict(missing))
            for status in (status for message in reports.all() for status in message.status):
                name = f"/{status.name}"
                if name not in missing:
                    continue
                missing[name] = _reason_not_ready(status)
                if not missing[name]:
                    del missing[name]
                    report(name, time.monotonic() - began)
    return missing


def _running(node: Node, names: Collection[str]) -> set[str]:
    """Return those of some nodes that are in the ROS graph."""
    if not names:
        return set()
    graph = node.get_node_names_and_namespaces()
    return set(names) & {f"{namespace.rstrip('/')}/{name}" for name, namespace in graph}


def _reason_not_ready(status: DiagnosticStatus) -> str:
    """Return why a node is not ready; empty if it is."""
    values = {pair.key: pair.value for pair in status.values}
    ready = values.get("ready", "")
    if ready == "yes":
        return ""
    return str(ready.removeprefix("no: ") or status.message)


def wait_and_report(
    names: Sequence[str],
    seconds: float,
    report: Callable[[str], None],
    *,
    others: Collection[str] = (),
) -> bool:
    """Wait for nodes and report the progress to the user.

    Args:
        names: full names of the nodes.
        seconds: timeout [s].
        report: receives lines for the user.
        others: see :func:`wait_for_nodes`.

    Returns:
        Whether all are ready.
    """
    last, count = 0.0, 0

    def report_ready(name: str, after: float) -> None:
        nonlocal last, count
        last, count = after, count + 1
        report(f"{name.strip('/')} is ready ({after:.1f} s)")

    def remind(missing: dict[str, str]) -> None:
        if not count and set(missing.values()) == {_NOTHING}:
            domain = os.environ.get("ROS_DOMAIN_ID", "0")
            report(f"no node has reported yet; is `motion up` running, in ROS domain {domain}?")
        else:
            waiting = (f"{name.strip('/')} ({reason})" for name, reason in missing.items())
            report(f"waiting for {', '.join(waiting)}")

    missing = wait_for_nodes(names, seconds, report_ready, others=others, remind=remind)
    for name, reason in missing.items():
        report(f"{name.strip('/')} is NOT ready: {reason.removeprefix(NEVER)}")
    if not missing:
        report(f"READY after {last:.1f} s, {count} nodes")
    return not missing


def main(arguments: Sequence[str]) -> int:
    """Wait for the nodes on the command line; return the exit code."""
    seconds, *names = arguments
    return 0 if wait_and_report(names, float(seconds), lambda text: print(text, flush=True)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
