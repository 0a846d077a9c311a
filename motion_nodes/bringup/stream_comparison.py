# SPDX-License-Identifier: Apache-2.0
"""Comparison of the messages that processes receive, to detect one that a publisher does not reach.

Over shared memory, the middleware may lose the connection of one publisher to one process for good:
if its port is judged dead while the process is starved, publishers that start later write to
another one. Both processes run and answer others, so only a comparison of receivers shows it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

FRESH = 1.0
"""Max time between two messages with which a topic counts as received without interruption [s]."""


@dataclass(frozen=True)
class MissedStream:
    """A topic that one process no longer receives, and another one does."""

    topic: str
    seconds: float
    """Time for which the other process has received messages and this one has not [s]."""
    receiver: str
    """Name of a process that receives it."""


@dataclass
class _Count:
    messages: int
    silent: float
    """Time of the last message, or of the first report [s]."""
    arrived: float = -math.inf
    """Time of the last message [s]; a first report says nothing of it."""
    flowing: float = math.inf
    """Time since which messages arrive without interruption [s]."""

    def update(self, messages: int, now: float) -> None:
        """Record a report."""
        if messages == self.messages:
            return
        if now - self.arrived > FRESH:
            self.flowing = now
        self.messages, self.silent, self.arrived = messages, now, now


class StreamComparison:
    """Numbers of messages received by topic and process."""

    def __init__(self) -> None:
        """Begin without observations."""
        self._counts: dict[str, dict[str, _Count]] = {}

    def update(self, process: str, received: Mapping[str, int], now: float) -> None:
        """Record what a process has received.

        Args:
            process: its name.
            received: number of messages by topic, of all topics that it subscribes to now.
            now: time [s].
        """
        before = self._counts.get(process, {})
        counts = self._counts[process] = {}
        for topic, messages in received.items():
            counts[topic] = before.get(topic) or _Count(messages, now)
            counts[topic].update(messages, now)

    def forget(self, process: str) -> None:
        """Remove a process that has ended."""
        self._counts.pop(process, None)

    def missed(self, process: str, now: float) -> MissedStream | None:
        """Return the topic that a process misses for the longest time; None without one.

        Only the time counts in which the other process received messages without interruption:
        after a pause of the publisher, reports of one process come before those of another.
        """
        found = [
            MissedStream(topic, now - max(count.silent, others[topic].flowing), receiver)
            for topic, count in self._counts.get(process, {}).items()
            for receiver, others in self._counts.items()
            if topic in others and now - others[topic].arrived <= FRESH < now - count.silent
        ]
        found = [missed for missed in found if missed.seconds > FRESH]
        return max(found, key=lambda missed: missed.seconds, default=None)
