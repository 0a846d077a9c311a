# SPDX-License-Identifier: Apache-2.0
"""What ``motion wait`` does: a client that waits until the nodes of a suite say they are ready.

``python -m motion_nodes.nodes.clients.wait SECONDS NODE...`` does it for launch files.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus

from motion_nodes.ros import qos, signals
from motion_nodes.ros.clients.client_node import client_node
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription

_LOOK = 0.02
"""[s] Between two looks."""


def wait_for_nodes(
    names: Iterable[str], seconds: float, news: Callable[[str, float], None]
) -> dict[str, str]:
    """Wait until all nodes report on ``/diagnostics`` that they are ready.

    Args:
        names: full names.
        seconds: how long at most.
        news: told of each node that is ready, with how long that took [s].

    Returns:
        The nodes that are not ready, and why, as far as it is known; empty when all are.
    """
    missing = dict.fromkeys(names, "nothing was heard of it")
    with client_node("motion_wait") as node:
        reports = PolledSubscription(node, DiagnosticArray, "/diagnostics", qos.DIAGNOSTICS)
        began = time.monotonic()
        while missing and time.monotonic() - began < seconds and not signals.STOP.wait(_LOOK):
            for status in (status for message in reports.all() for status in message.status):
                name = f"/{status.name}"
                if name not in missing:
                    continue
                missing[name] = _why_not(status)
                if not missing[name]:
                    del missing[name]
                    news(name, time.monotonic() - began)
    return missing


def _why_not(status: DiagnosticStatus) -> str:
    """Return why a node is not ready; empty when it is."""
    values = {pair.key: pair.value for pair in status.values}
    ready = values.get("ready", "")
    if ready == "yes":
        return ""
    return str(ready.removeprefix("no: ") or status.message)


def wait_and_say(names: Sequence[str], seconds: float, say: Callable[[str], None]) -> bool:
    """Wait for nodes, and tell people how it goes; True when all are ready in time."""
    last = 0.0

    def news(name: str, after: float) -> None:
        nonlocal last
        last = after
        say(f"{name.strip('/')} is ready ({after:.1f} s)")

    missing = wait_for_nodes(names, seconds, news)
    for name, why in missing.items():
        say(f"{name.strip('/')} is NOT ready: {why}")
    if not missing:
        say(f"READY after {last:.1f} s, {len(names)} nodes")
    return not missing


def main(arguments: Sequence[str]) -> int:
    """Wait for so many seconds for the nodes that are named; return the exit code."""
    seconds, *names = arguments
    return 0 if wait_and_say(names, float(seconds), lambda text: print(text, flush=True)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
