# SPDX-License-Identifier: Apache-2.0
"""Streams of joint commands: assignment of messages to one deliberate command.

A stream starts with a message after a pause; this message is a command and preempts others. The
following messages without a pause preempt nothing: joints of a newer command stay with it until the
stream pauses and starts again. A sender that comes to rest, or ignores its preemption, thus never
regains joints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

STREAM_PAUSE = 0.15
"""[s] Min pause after which the next message of a sender starts a new stream."""
SESSION_MARK = "#"
"""Mark in a sender name that identifies a single stream, which never restarts after a pause."""
_LOST_MESSAGES = 100
"""Max number of consecutive lost messages of a sender; after more it counts as another sender."""
_KEPT = 32
"""Max number of stored senders."""


@dataclass(frozen=True, eq=False)
class Stream:
    """One command that consists of many messages."""

    label: str
    """Name of its sender, for messages to other clients."""
    sender: str
    """Sender name in its messages; may be empty."""
    order: int
    """Its position in the order of all commands."""


@dataclass(eq=False)
class _Sender:
    topic: str
    name: str
    number: int | None
    last_time: float
    stream: Stream


class StreamSenders:
    """Assigns messages to streams."""

    def __init__(self, begin: Callable[[str, str], Stream]) -> None:
        """Create without senders.

        Args:
            begin: creates a stream from a label and a sender's name, with the newest order.
        """
        self._begin = begin
        self._senders: list[_Sender] = []

    def stream_of(self, topic: str, name: str, number: int | None, sent: float) -> Stream:
        """Return the stream of a message, a new one if the message starts one.

        Messages without a sender name are distinguished by their publishers' sequence numbers: a
        number that does not increase, or jumps, belongs to another publisher.

        Args:
            topic: topic of the message.
            name: sender name in the message.
            number: sequence number of its publisher; None if the middleware has none.
            sent: time of sending [s], by the sender's clock.
        """
        known = self._known(topic, name, number)
        if known is None or (
            SESSION_MARK not in name and not 0.0 <= sent - known.last_time < STREAM_PAUSE
        ):
            if known is not None:
                self._senders.remove(known)
            short = name.partition(SESSION_MARK)[0]
            stream = self._begin(f"{topic} of {short}" if short else topic, name)
            known = _Sender(topic, name, number, sent, stream)
            self._senders.insert(0, known)
            del self._senders[_KEPT:]
        known.number, known.last_time = number, sent
        return known.stream

    def _known(self, topic: str, name: str, number: int | None) -> _Sender | None:
        gaps = [_gap(sender, topic, name, number) for sender in self._senders]
        nearest = min(gaps, default=_LOST_MESSAGES + 1)
        return self._senders[gaps.index(nearest)] if nearest <= _LOST_MESSAGES else None


def _gap(sender: _Sender, topic: str, name: str, number: int | None) -> int:
    """Return the number of lost messages of a sender; large for a message of another sender."""
    another = _LOST_MESSAGES + 1
    if (sender.topic, sender.name) != (topic, name):
        return another
    if SESSION_MARK in name or number is None or sender.number is None:
        return 0
    gap = number - sender.number
    return gap if gap > 0 else another
