# SPDX-License-Identifier: Apache-2.0
"""Subscriptions that a control loop polls instead of an executor spinning them.

A Python executor spends 0.2 to 0.4 ms on each message; taking a message directly costs some
microseconds. The subscription is in a callback group that no executor runs, so its node's services
and parameters can be spun in another thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message

from motion_nodes.ros.concurrency.rclpy_internals import (
    EntityWait,
    PolledGroup,
    RCLError,
    check_exists,
    taker,
)
from motion_nodes.ros.messages.message_bounds import fault_of

M = TypeVar("M")

IDLE_PERIOD = 0.0035
"""[s] Period of the polls of a relaxed subscription to an idle topic. Below the period of a loop of
250 Hz, which therefore polls in each cycle."""

UNUSED_PERIOD = 0.02
"""[s] The same for a topic without a message so far."""

ACTIVE_TIME = 0.1
"""[s] Time since its last message after which a topic is idle."""

MAX_UNREADABLE = 100
"""Max number of consecutive unreadable messages in one take."""

_Taken = list[tuple[Any, dict[str, int | None]]]
"""Messages, each with its information from the middleware."""


def take_all(subscription: Any, *, raw: bool = False) -> list[Any]:
    """Return the pending messages of a polled subscription, oldest first."""
    return [message for message, _ in _take(taker(subscription), subscription, raw)[0]]


def _take(take: Any, subscription: Any, raw: bool) -> tuple[_Taken, str]:
    """Take the pending messages of a subscription by a function, serialized if ``raw``.

    Messages that cannot be converted (a text that is not UTF-8) are dropped.

    Returns:
        The messages, and the error of the last dropped one, or an empty text.

    Raises:
        InvalidHandle: the subscription was destroyed.
    """
    taken: _Taken = []
    fault, faults, kind = "", 0, subscription.msg_type
    while faults < MAX_UNREADABLE:
        try:
            pair = take(kind, raw)
        except MemoryError:
            raise
        except Exception as error:  # rclpy's converters raise various types
            fault, faults = _unreadable(subscription, error), faults + 1
            continue
        if pair is None:
            break
        taken.append(pair)
    return taken, fault


def _unreadable(subscription: Any, error: Exception) -> str:
    """Return why a message was dropped, as text.

    Raises:
        InvalidHandle: the subscription was destroyed.
    """
    check_exists(subscription)
    return f"it cannot be read ({type(error).__name__}: {error})"


class PolledSubscription(Generic[M]):
    """A subscription whose messages its owner polls."""

    def __init__(
        self,
        node: Node,
        kind: type[M],
        topic: str,
        qos: QoSProfile,
        *,
        raw: bool = False,
        relaxed: bool = False,
    ) -> None:
        """Create the subscription.

        Args:
            node: the node.
            kind: message type.
            topic: topic name.
            qos: quality of service; its depth is the max number of pending messages.
            raw: whether messages stay serialized, since deserialization is most of the cost;
                otherwise messages that exceed their bounds are dropped with a warning.
            relaxed: whether the first message after a pause may wait for :data:`IDLE_PERIOD`, and
                the first of all for :data:`UNUSED_PERIOD`, so that a fast loop need not poll an
                idle topic in each cycle.
        """
        self._node = node
        self._raw = raw
        self._relaxed = relaxed
        self._qos = qos
        self._returned: tuple[bytes, dict[str, int | None]] | None = None
        """A message that was put back."""
        self._use(self._created(kind, topic))
        self.topic = str(self._subscription.topic_name)
        """Full topic name."""
        self.polled = -float("inf")
        """Time of the last take on ``time.monotonic()`` [s]."""
        self.arrived: float | None = None
        """Time of the last take with a message on ``time.monotonic()`` [s]; None before it."""
        self.count = 0
        """Number of messages taken."""
        self.refused = 0
        """Number of takes with a refused message: unreadable, or beyond its bounds."""
        self.sent = 0.0
        """Source time stamp of the newest message, by its publisher's clock [s]."""
        self.number: int | None = None
        """Publication sequence number of the newest message; None if not supported."""

    def _created(self, kind: type[M], topic: str) -> Any:
        return self._node.create_subscription(
            kind, topic, _never_called, self._qos, callback_group=PolledGroup()
        )

    def _use(self, subscription: Any) -> None:
        self._subscription, self._kind = subscription, subscription.msg_type
        self._take_one = taker(subscription)

    def match_publishers(self) -> None:
        """Subscribe reliably if all publishers are reliable, else with best effort.

        A message of megabytes has many parts, of which best effort must not lose one.
        """
        infos = self._node.get_publishers_info_by_topic(self.topic)
        every = all(i.qos_profile.reliability == ReliabilityPolicy.RELIABLE for i in infos)
        desired = ReliabilityPolicy.RELIABLE if every else ReliabilityPolicy.BEST_EFFORT
        if infos and desired != self._qos.reliability:
            kind, topic = self._subscription.msg_type, self.topic
            self._node.destroy_subscription(self._subscription)
            self._qos = QoSProfile(depth=self._qos.depth, reliability=desired)
            self._use(self._created(kind, topic))

    def suspend(self) -> None:
        """Unsubscribe until :meth:`resume`, so that messages that nobody reads cost nothing."""
        if self._subscription is not None:
            self._node.destroy_subscription(self._subscription)
            self._subscription = None

    def resume(self) -> None:
        """Subscribe again."""
        if self._subscription is None:
            self._use(self._created(self._kind, self.topic))

    @property
    def publishers(self) -> int:
        """Current number of publishers of the topic."""
        return int(self._node.count_publishers(self.topic))

    def numbered(self) -> list[tuple[M, int | None]]:
        """Return pending messages, oldest first, each with its publication sequence number."""
        return [(message, info["publication_sequence_number"]) for message, info in self._take()]

    def traced(self) -> list[tuple[M, int | None, float]]:
        """Return pending messages, oldest first, with sequence number and source time [s]."""
        taken = self._take()
        if not taken:
            return []
        return [
            (message, info["publication_sequence_number"], (info["source_timestamp"] or 0) * 1e-9)
            for message, info in taken
        ]

    def times(self) -> list[tuple[M, int, int]]:
        """Return pending messages, oldest first, with times of publication and reception [ns].

        Unknown times are 0.
        """
        return [
            (message, info["source_timestamp"] or 0, info["received_timestamp"] or 0)
            for message, info in self._take()
        ]

    def all(self) -> list[M]:
        """Return pending messages, oldest first."""
        return [message for message, _ in self._take()]

    def newest(self) -> M | None:
        """Return the newest pending message and drop older ones; None if there is none."""
        taken = self._take()
        return taken[-1][0] if taken else None

    def newest_raw(self) -> bytes | None:
        """Return the newest pending message, serialized, and drop older ones; None without one.

        For topics that are read in each cycle: it records nothing about the message.
        """
        found = None
        for _ in range(max(self._qos.depth, 1)):  # no further take if the depth is 1
            pair = None if self._subscription is None else self._take_one(self._kind, True)
            if pair is None:
                break
            found = pair[0]
        return found

    def poll_next(self) -> None:
        """Let the next call look for messages, however short the time since the last one."""
        self.polled = -float("inf")

    @property
    def subscription(self) -> Any:
        """The subscription of rclpy; None while suspended."""
        return self._subscription

    @property
    def handle(self) -> Any:
        """The handle of rclpy, for :mod:`~motion_nodes.ros.concurrency.repeated_cycles`."""
        return self._subscription.handle

    @property
    def returned(self) -> bool:
        """Whether a message was put back and not read yet."""
        return self._returned is not None

    def put_back(self, data: bytes, info: dict[str, int | None]) -> None:
        """Let the next call return a message first that was taken by other means.

        Args:
            data: the serialized message.
            info: its information from the middleware.
        """
        self._returned, self._take_one = (data, info), self._take_returned
        self.poll_next()

    def note(self, count: int, number: int | None, sent_ns: int, arrived: float) -> None:
        """Count messages that were taken by other means.

        Args:
            count: their number.
            number: publication sequence number of the last one.
            sent_ns: its source time stamp [ns].
            arrived: when it was taken, on ``time.monotonic()`` [s].
        """
        self.count += count
        self.number, self.sent, self.arrived = number, sent_ns * 1e-9, arrived

    def _take_returned(self, kind: type[Any], raw: bool) -> Any:
        """Take the message that was put back; the next one is that of the middleware again."""
        self._take_one = taker(self._subscription)
        returned, self._returned = self._returned, None
        if returned is None:
            return self._take_one(kind, raw)
        data, info = returned
        return (data if raw else deserialize_message(data, kind)), info

    def drop(self) -> int:
        """Drop pending messages without counting them; return their number."""
        self._returned = None
        return 0 if self._subscription is None else len(take_all(self._subscription, raw=True))

    def age(self) -> float:
        """Return the wall time since the last message [s]; infinite before the first."""
        return float("inf") if self.arrived is None else time.monotonic() - self.arrived

    def _take(self) -> _Taken:
        now, fault = time.monotonic(), ""
        if self._subscription is None or (
            self._relaxed and now - self.polled < self._idle_period(now)
        ):
            return []
        self.polled = now
        try:
            first = self._take_one(self._kind, self._raw)
        except MemoryError:
            raise
        except Exception as error:
            first, fault = None, _unreadable(self._subscription, error)
        if first is None and not fault:
            # As most polls do; their cost is most of that of a loop at rest.
            return []
        taken, later = _take(self._take_one, self._subscription, self._raw)
        if first is not None:
            taken.insert(0, first)
        fault = later or fault
        if not self._raw:
            taken, fault = self._within_bounds(taken, fault)
        if fault:
            self.refuse(fault)
        if taken:
            self.arrived = self.polled
            self.count += len(taken)
            self.number = taken[-1][1]["publication_sequence_number"]
            self.sent = (taken[-1][1]["source_timestamp"] or 0) * 1e-9
        return taken

    def _idle_period(self, now: float) -> float:
        """Return the period of polls [s]; 0 while messages arrive."""
        if self.arrived is None:
            return UNUSED_PERIOD
        return IDLE_PERIOD if now - self.arrived > ACTIVE_TIME else 0.0

    def _within_bounds(self, taken: _Taken, fault: str) -> tuple[_Taken, str]:
        kept = []
        for pair in taken:
            found = fault_of(pair[0])
            fault = found or fault
            if not found:
                kept.append(pair)
        return kept, fault

    def refuse(self, fault: str) -> None:
        """Count a message that cannot be used, and warn.

        Args:
            fault: description of the fault.
        """
        self.refused += 1
        text = f"message on {self.topic} refused: {fault}"
        warn = getattr(self._node, "warn", None)
        if warn is not None:
            warn(f"refused {self.topic}", text)
        else:
            self._node.get_logger().warning(text)

    def destroy(self) -> None:
        """Destroy the subscription."""
        self.suspend()


def _never_called(_message: object) -> None:
    raise AssertionError("a polled subscription was dispatched by an executor")


class MessageWait:
    """Waits for messages of polled subscriptions: a loop without work need not poll them."""

    def __init__(self, node: Node) -> None:
        """Create the wait for subscriptions of a node."""
        self._entities = EntityWait(node)
        self.inputs: Iterable[PolledSubscription[Any]] = ()
        """The subscriptions; suspended ones are left out."""

    def wake(self) -> None:
        """End a wait, or the next one; thread-safe."""
        self._entities.wake()

    def wait(self, seconds: float) -> bool:
        """Wait until a message is pending or :meth:`wake` is called.

        Args:
            seconds: max time [s].

        Returns:
            False once the time has passed, or a subscription or the context was destroyed.
        """
        subscribed = [s for i in self.inputs if (s := i.subscription) is not None]
        try:
            return self._entities.wait(seconds, subscriptions=subscribed)
        except (InvalidHandle, RCLError):
            return False
