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

from motion_nodes.model.bounds import Bound
from motion_nodes.ros.messages.message_bounds import fault_of

M = TypeVar("M")

MAX_UNREADABLE = 100
"""Messages in a row that cannot be read, after which the rest waits for the next take."""


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
    return [message for message, _ in _take(subscription, raw)[0]]


def _take(subscription: Any, raw: bool) -> tuple[list[tuple[Any, dict[str, int | None]]], str]:
    """Return what waits, each message or its bytes with what the middleware tells of it.

    ``take_message`` is rclpy's half-internal call, the same in Jazzy and Kilted; this is the only
    place that uses it. A message that cannot be converted (a text that is no UTF-8) is left out;
    second is what was wrong with the last such one, or nothing.
    """
    taken: list[tuple[Any, dict[str, int | None]]] = []
    fault, faults = "", 0
    handle = subscription.handle
    with handle:
        while faults < MAX_UNREADABLE:
            try:
                pair = handle.take_message(subscription.msg_type, raw)
            except MemoryError:
                raise
            except Exception as error:  # rclpy raises what its converters make of it
                fault, faults = f"it cannot be read ({type(error).__name__}: {error})", faults + 1
                continue
            if pair is None:
                break
            taken.append(pair)
    return taken, fault


class PolledSubscription(Generic[M]):
    """A topic whose messages the owner's loop takes by itself."""

    def __init__(
        self,
        node: Node,
        kind: type[M],
        topic: str,
        qos: QoSProfile,
        *,
        raw: bool = False,
        lengths: Bound | None = None,
    ) -> None:
        """Subscribe ``node`` to ``topic``; the depth of ``qos`` bounds what can wait.

        With ``raw`` all that is taken are the bytes of messages; most of the cost of a message is
        to make an object of it. Else messages beyond their bounds are left out with a warning;
        ``lengths`` is the bound of coordinates where it is not that of the type.
        """
        self._node = node
        self._raw = raw
        self._lengths = lengths
        self._subscription = node.create_subscription(
            kind, topic, _never_called, qos, callback_group=PolledGroup()
        )
        self.arrived: float | None = None
        """``time.monotonic()`` of the last take that brought a message; None before the first."""
        self.count = 0
        """How many messages were taken."""
        self.refused = 0
        """How many takes met a message that was refused: unreadable, or beyond its bounds."""
        self.sent = 0.0
        """When the newest message was sent [s], by its publisher's clock."""
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

    def traced(self) -> list[tuple[M, int | None, float]]:
        """Return what waits, oldest first, each with its publisher's count and clock [s]."""
        return [
            (message, info["publication_sequence_number"], (info["source_timestamp"] or 0) * 1e-9)
            for message, info in self._take()
        ]

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
        taken, fault = _take(self._subscription, self._raw)
        if not self._raw:
            taken, fault = self._within_bounds(taken, fault)
        if fault:
            self._refuse(fault)
        if taken:
            self.arrived = time.monotonic()
            self.count += len(taken)
            self.number = taken[-1][1]["publication_sequence_number"]
            self.sent = (taken[-1][1]["source_timestamp"] or 0) * 1e-9
        return taken

    def _within_bounds(
        self, taken: list[tuple[M, dict[str, int | None]]], fault: str
    ) -> tuple[list[tuple[M, dict[str, int | None]]], str]:
        kept = []
        for pair in taken:
            found = fault_of(pair[0], self._lengths)
            fault = found or fault
            if not found:
                kept.append(pair)
        return kept, fault

    def _refuse(self, fault: str) -> None:
        self.refused += 1
        text = f"message on {self.topic} refused: {fault}"
        warn = getattr(self._node, "warn", None)
        if warn is not None:
            warn(f"refused {self.topic}", text)
        else:
            self._node.get_logger().warning(text)

    def destroy(self) -> None:
        """Unsubscribe."""
        self._node.destroy_subscription(self._subscription)


def _never_called(_message: object) -> None:
    raise AssertionError("a polled subscription was dispatched by an executor")
