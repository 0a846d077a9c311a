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
class _Reception:
    newest: float
    """Newest reported time of a message, on the clock of the process [s]."""
    silent: float
    """Time of the last message, or of the first report [s]."""
    arrived: float = -math.inf
    """Time of the last message [s]; a first report does not count as one."""
    flowing: float = math.inf
    """Time since which messages arrive without interruption [s]."""

    def update(self, newest: float, now: float) -> None:
        """Record a report."""
        if newest <= self.newest:
            return
        if now - self.arrived > FRESH:
            self.flowing = now
        self.newest, self.silent, self.arrived = newest, now, now


class StreamComparison:
    """Receptions by process and topic."""

    def __init__(self) -> None:
        """Begin without observations."""
        self._receptions: dict[str, dict[str, _Reception]] = {}

    def update(self, process: str, received: Mapping[str, float], now: float) -> None:
        """Record what a process has received.

        Args:
            process: its name.
            received: time of the newest message by topic, of all topics that it polls now [s].
            now: time [s].
        """
        before = self._receptions.get(process, {})
        receptions = self._receptions[process] = {}
        for topic, newest in received.items():
            receptions[topic] = before.get(topic) or _Reception(newest, now)
            receptions[topic].update(newest, now)

    def forget(self, process: str) -> None:
        """Remove a process that has ended."""
        self._receptions.pop(process, None)

    def missed(self, process: str, now: float) -> MissedStream | None:
        """Return the topic that a process misses for the longest time; None without one.

        Only the time counts in which the other process received messages without interruption:
        after a pause of the publisher, reports of one process come before those of another.
        """
        found = [
            MissedStream(topic, now - max(own.silent, others[topic].flowing), receiver)
            for topic, own in self._receptions.get(process, {}).items()
            for receiver, others in self._receptions.items()
            if topic in others and now - others[topic].arrived <= FRESH
        ]
        found = [missed for missed in found if missed.seconds > FRESH]
        return max(found, key=lambda missed: missed.seconds, default=None)
