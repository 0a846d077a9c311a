# SPDX-License-Identifier: Apache-2.0
"""Comparison of the messages that processes receive, to detect one that a publisher does not reach.

Over shared memory, the middleware may lose the connection of one publisher to one process for good:
if its port is judged dead while the process is starved, publishers that start later write to
another one. Both processes run and answer others, so only a comparison of receivers shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FRESH = 1.0
"""Max time since the last message with which a topic counts as received [s]."""


@dataclass(frozen=True)
class MissedStream:
    """A topic that one process no longer receives, and another one does."""

    topic: str
    seconds: float
    """Time since the process received a message [s]."""
    receiver: str
    """Name of a process that receives it."""


@dataclass
class _Count:
    messages: int
    changed: float
    """Time of the last change [s]."""


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
            known = before.get(topic)
            changed = known is None or known.messages != messages
            counts[topic] = _Count(messages, now) if known is None or changed else known

    def forget(self, process: str) -> None:
        """Remove a process that has ended."""
        self._counts.pop(process, None)

    def missed(self, process: str, now: float) -> MissedStream | None:
        """Return the topic that a process misses for the longest time; None without one."""
        found = [
            MissedStream(topic, now - count.changed, receiver)
            for topic, count in self._counts.get(process, {}).items()
            if now - count.changed > FRESH
            for receiver, others in self._counts.items()
            if topic in others and now - others[topic].changed <= FRESH
        ]
        return max(found, key=lambda missed: missed.seconds, default=None)
