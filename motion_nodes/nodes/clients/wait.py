# SPDX-License-Identifier: Apache-2.0
"""Client of ``motion wait``: waits until nodes report that they are ready.

Launch files use ``python -m motion_nodes.nodes.clients.wait SECONDS NODE...``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus

from motion_nodes.ros import qos, signals
from motion_nodes.ros.clients.client_node import client_node
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription

_POLL_PERIOD = 0.02
"""Period of polling [s]."""


def wait_for_nodes(
    names: Iterable[str], seconds: float, report: Callable[[str, float], None]
) -> dict[str, str]:
    """Wait until all nodes report on ``/diagnostics`` that they are ready.

    Args:
        names: full names of the nodes.
        seconds: timeout [s].
        report: called for each node that is ready, with the elapsed time [s].

    Returns:
        Nodes that are not ready, and the reason; empty if all are.
    """
    missing = dict.fromkeys(names, "no diagnostics were received")
    with client_node("motion_wait") as node:
        reports = PolledSubscription(node, DiagnosticArray, "/diagnostics", qos.DIAGNOSTICS)
        began = time.monotonic()
        while missing and time.monotonic() - began < seconds:
            if signals.STOP.wait(_POLL_PERIOD):
                break
            for status in (status for message in reports.all() for status in message.status):
                name = f"/{status.name}"
                if name not in missing:
                    continue
                missing[name] = _reason_not_ready(status)
                if not missing[name]:
                    del missing[name]
                    report(name, time.monotonic() - began)
    return missing


def _reason_not_ready(status: DiagnosticStatus) -> str:
    """Return why a node is not ready; empty if it is."""
    values = {pair.key: pair.value for pair in status.values}
    ready = values.get("ready", "")
    if ready == "yes":
        return ""
    return str(ready.removeprefix("no: ") or status.message)


def wait_and_report(names: Sequence[str], seconds: float, report: Callable[[str], None]) -> bool:
    """Wait for nodes and report the progress to the user.

    Args:
        names: full names of the nodes.
        seconds: timeout [s].
        report: receives lines for the user.

    Returns:
        Whether all are ready.
    """
    last = 0.0

    def report_ready(name: str, after: float) -> None:
        nonlocal last
        last = after
        report(f"{name.strip('/')} is ready ({after:.1f} s)")

    missing = wait_for_nodes(names, seconds, report_ready)
    for name, reason in missing.items():
        report(f"{name.strip('/')} is NOT ready: {reason}")
    if not missing:
        report(f"READY after {last:.1f} s, {len(names)} nodes")
    return not missing


def main(arguments: Sequence[str]) -> int:
    """Wait for the nodes on the command line; return the exit code."""
    seconds, *names = arguments
    return 0 if wait_and_report(names, float(seconds), lambda text: print(text, flush=True)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
