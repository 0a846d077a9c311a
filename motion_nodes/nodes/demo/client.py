# SPDX-License-Identifier: Apache-2.0
"""What the demo's clients share: findings, and a node that hears while it waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile

from motion_nodes.ros import signals
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription

FRAME = "motion_demo"
"""The ``frame_id`` of what the demo sends, by which it knows its own messages."""
_POLL = 0.01  # [s] the fastest topics bring a few messages in this time


@dataclass
class DemoFindings:
    """What a show showed."""

    lines: list[str] = field(default_factory=list)
    ok: bool = True

    def check(self, ok: bool, text: str) -> None:
        """Note one check."""
        self.ok &= ok
        self.lines.append(f"[{'ok' if ok else 'FAILED'}] {text}")
        print(f"  {self.lines[-1]}", flush=True)


class ClientNode:
    """A node, and whom it gave way to: once somebody else commands a robot, it is theirs."""

    def __init__(self) -> None:
        """Create the node."""
        self.node = Node("motion_demo", use_global_arguments=False)
        self.guests: set[str] = set()
        """Robots that somebody else commands."""
        self._heard: list[tuple[PolledSubscription[Any], Callable[[Any], object]]] = []

    def hear(
        self, kind: type, topic: str, call: Callable[[Any], object], profile: QoSProfile
    ) -> None:
        """Have a function called with each message of a topic, while the client spins."""
        self._heard.append((PolledSubscription(self.node, kind, topic, profile), call))

    def spin(self, seconds: float) -> bool:
        """Hear messages for a while; False once a stop was asked for."""
        end = time.monotonic() + seconds
        while not signals.STOP.is_set():
            for subscription, call in self._heard:
                for message in subscription.all():
                    call(message)
            left = end - time.monotonic()
            if left <= 0.0:
                break
            signals.STOP.wait(min(_POLL, left))
        return not signals.STOP.is_set()

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Hear messages until a condition holds; False when it did not in time."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end or not self.spin(0.05):
                return False
        return True

    def welcome(self, robot: str) -> None:
        """Leave a robot to somebody else."""
        if robot not in self.guests:
            self.guests.add(robot)
            print(f"  the {robot} is yours now; the demo lets go of it", flush=True)
