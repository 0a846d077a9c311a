# SPDX-License-Identifier: Apache-2.0
"""A client that waits for joint states in the middleware itself, so that it adds no delay."""

from __future__ import annotations

import time
from typing import Any

from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from sensor_msgs.msg import JointState

from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledGroup, take_all

WAIT = 0.2
"""[s] Longest wait for the next message."""


class StateProbe:
    """Hears JointState topics through one wait set, without an executor."""

    def __init__(self, node: Node, *topics: str) -> None:
        """Subscribe to the topics."""
        self._node = node
        self._subscriptions = [
            node.create_subscription(
                JointState, topic, lambda _: None, qos.COMMANDS, callback_group=PolledGroup()
            )
            for topic in topics
        ]
        self._wait_set = rclpy_implementation.WaitSet(
            len(topics), 0, 0, 0, 0, 0, node.context.handle
        )

    def wait(self, seconds: float = WAIT) -> tuple[int, list[list[Any]]]:
        """Wait for a message on any topic.

        Returns:
            ``time.monotonic_ns()`` right after waking, and the new messages of each topic.
        """
        self._wait_set.clear_entities()
        for subscription in self._subscriptions:
            self._wait_set.add_subscription(subscription.handle)
        self._wait_set.wait(max(0, int(seconds * 1e9)))
        woke = time.monotonic_ns()
        return woke, [take_all(subscription) for subscription in self._subscriptions]

    def position(self, joint: str, limit: float = 30.0) -> float:
        """Wait for the next state of the first topic; return a joint's position [rad].

        Raises:
            TimeoutError: none came within ``limit`` [s].
        """
        end = time.monotonic() + limit
        while time.monotonic() < end:
            messages = self.wait()[1][0]
            if messages:
                newest = messages[-1]
                return float(newest.position[newest.name.index(joint)])
        raise TimeoutError(f"no joint state within {limit:g} s")

    def arrivals(self, seconds: float) -> list[list[int]]:
        """Return when the messages of each topic arrived during some time [ns]."""
        times: list[list[int]] = [[] for _ in self._subscriptions]
        self.wait(0.0)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            woke, messages = self.wait()
            for kept, new in zip(times, messages, strict=True):
                kept += [woke] * len(new)
        return times

    def close(self) -> None:
        """Unsubscribe."""
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
