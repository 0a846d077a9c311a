# SPDX-License-Identifier: Apache-2.0
"""Subscriptions that no executor spins: a control loop takes their messages when it wants them.

A Python executor spends 0.2 to 0.4 ms on each message it dispatches; taking the message directly
costs some microseconds. Such a subscription sits in a callback group that never lets an executor
run it, so it may live on a node whose services and parameters an executor spins in another thread.
"""

from __future__ import annotations

import time
from typing import Any, Generic, TypeVar

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile

M = TypeVar("M")


class PolledGroup(CallbackGroup):
    """A callback group whose entities no executor may run."""

    def can_execute(self, entity: Any) -> bool:
        """Never: an executor leaves these entities out of its wait set."""
        return False

    def beginning_execution(self, entity: Any) -> bool:
        """Never."""
        return False

    def ending_execution(self, entity: Any) -> None:
        """Nothing began, so nothing ends."""


def take_all(subscription: Any, *, raw: bool = False) -> list[Any]:
    """Return the messages that wait in a polled subscription, oldest first."""
    return [message for message, _ in _take(subscription, raw)]


def _take(subscription: Any, raw: bool) -> list[tuple[Any, dict[str, int | None]]]:
    """Return what waits, each message or its bytes with what the middleware tells of it.

    ``take_message`` is rclpy's half-internal call, the same in Jazzy and Kilted; this is the only
    place that uses it.
    """
    taken = []
    handle = subscription.handle
    with handle:
        while (pair := handle.take_message(subscription.msg_type, raw)) is not None:
            taken.append(pair)
    return taken


class PolledSubscription(Generic[M]):
    """A topic whose messages the owner's loop takes by itself."""

    def __init__(
        self, node: Node, kind: type[M], topic: str, qos: QoSProfile, *, raw: bool = False
    ) -> None:
        """Subscribe ``node`` to ``topic``; the depth of ``qos`` bounds what can wait.

        With ``raw`` all that is taken are the bytes of messages; most of the cost of a message is
        to make an object of it.
        """
        self._node = node
        self._raw = raw
        self._subscription = node.create_subscription(
            kind, topic, _never_called, qos, callback_group=PolledGroup()
        )
        self.arrived: float | None = None
        """``time.monotonic()`` of the last take that brought a message; None before the first."""
        self.count = 0
        """How many messages were taken."""
        self.number: int | None = None
        """Its publisher's count of messages at the newest; None where the middleware has none."""

    @property
    def topic(self) -> str:
        """The topic's full name."""
        return str(self._subscription.topic_name)

    @property
    def publishers(self) -> int:
        """How many publishers the topic has now."""
        return int(self._node.count_publishers(self.topic))

    def numbered(self) -> list[tuple[M, int | None]]:
        """Return what waits, oldest first, each with its publisher's count of messages.

        The count is None where the middleware has none.
        """
        return [(message, info["publication_sequence_number"]) for message, info in self._take()]

    def timed(self) -> list[tuple[M, int]]:
        """Return what waits, oldest first, each with the time at which it arrived [ns].

        By these times the messages of several topics can be put in their order.
        """
        return [(message, info["received_timestamp"] or 0) for message, info in self._take()]

    def all(self) -> list[M]:
        """Return what waits, oldest first."""
        return [message for message, _ in self._take()]

    def newest(self) -> M | None:
        """Return the newest message and drop the older ones; None when nothing came."""
        taken = self._take()
        return taken[-1][0] if taken else None

    def drop(self) -> int:
        """Throw away what waits, as if it had not come; return how many messages that was."""
        return len(take_all(self._subscription, raw=True))

    def age(self) -> float:
        """Seconds of wall time since the last message; infinite before the first."""
        return float("inf") if self.arrived is None else time.monotonic() - self.arrived

    def _take(self) -> list[tuple[M, dict[str, int | None]]]:
        taken = _take(self._subscription, self._raw)
        if taken:
            self.arrived = time.monotonic()
            self.count += len(taken)
            self.number = taken[-1][1]["publication_sequence_number"]
        return taken

    def destroy(self) -> None:
        """Unsubscribe."""
        self._node.destroy_subscription(self._subscription)


def _never_called(_message: object) -> None:
    raise AssertionError("a polled subscription was dispatched by an executor")
