# SPDX-License-Identifier: Apache-2.0
"""Base of the demo's clients: results of checks, and a node that receives messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile

from motion_nodes.ros import signals
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription

FRAME = "motion_demo"
"""``frame_id`` of the demo's messages, which identifies them."""
STOPPED = 130
"""Exit code after a stop signal, as shells report SIGINT."""
_POLL_PERIOD = 0.01
"""Period of polling [s]; the fastest topics have a few messages per period."""


@dataclass
class DemoFindings:
    """Results of the checks of a show."""

    lines: list[str] = field(default_factory=list)
    """Of all rounds."""
    ok: bool = True
    _before: int = 0
    """Number of lines of the previous rounds."""

    def begin_round(self) -> None:
        """Begin a round, in which each check runs once more."""
        self._before = len(self.lines)

    def check(self, ok: bool, text: str) -> None:
        """Record and print the result of a check; not after a stop signal, which cuts motions."""
        if signals.STOP.is_set():
            return
        self.ok &= ok
        self.lines.append(f"[{'ok' if ok else 'FAILED'}] {text}")
        print(f"  {self.lines[-1]}", flush=True)

    def missing(self, checks: Sequence[str]) -> list[str]:
        """Return the checks that have no line in this round; see :meth:`conclude`."""
        lines = self.lines[self._before :]
        return [check for check in checks if not any(check in line for line in lines)]

    def conclude(self, checks: Sequence[str], *, headless: bool) -> int:
        """Print the result of all checks, and which did not run.

        Args:
            checks: of a round, each by words that its lines contain.
            headless: whether all checks had to run.

        Returns:
            Exit code: 0, 1 if a check failed or did not run, 130 after a stop signal before all
            have run. With a page, a stop signal is the normal end: 0.
        """
        missing = self.missing(checks)
        if not self.ok:
            print("demo: checks FAILED", flush=True)
        elif not missing:
            print("demo: all checks passed", flush=True)
        if missing:
            why = "stopped" if signals.STOP.is_set() else "incomplete"
            print(f"demo: {why}; these checks did not run: {', '.join(missing)}", flush=True)
        if not self.ok or not (headless and missing):
            return 0 if self.ok else 1
        return STOPPED if signals.STOP.is_set() else 1


class ClientNode:
    """A node that leaves robots to other clients as soon as these command them."""

    def __init__(self) -> None:
        """Create the node."""
        self.node = Node("motion_demo", use_global_arguments=False)
        self.guests: set[str] = set()
        """Robots and objects that other clients command."""
        self._subscriptions: list[tuple[PolledSubscription[Any], Callable[[Any], object]]] = []

    def subscribe(
        self, kind: type, topic: str, callback: Callable[[Any], object], profile: QoSProfile
    ) -> None:
        """Subscribe to a topic; the callback is called in :meth:`spin`."""
        subscription: PolledSubscription[Any] = PolledSubscription(self.node, kind, topic, profile)
        self._subscriptions.append((subscription, callback))

    def spin(self, seconds: float) -> bool:
        """Receive messages for a time [s]; return False after a stop signal."""
        end = time.monotonic() + seconds
        while not signals.STOP.is_set():
            for subscription, callback in self._subscriptions:
                for message in subscription.all():
                    callback(message)
            remaining = end - time.monotonic()
            if remaining <= 0.0:
                break
            signals.STOP.wait(min(_POLL_PERIOD, remaining))
        return not signals.STOP.is_set()

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Receive messages until a condition holds; return False on a timeout [s]."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end or not self.spin(0.05):
                return False
        return True

    def waiting_for(self) -> str:
        """Return the parts that are not ready yet, as far as known."""
        return ""

    def release(self, name: str) -> None:
        """Leave a robot or object to another client."""
        if name not in self.guests:
            self.guests.add(name)
            print(f"  another client commands the {name}; the demo releases it", flush=True)
