# SPDX-License-Identifier: Apache-2.0
"""Streams of joint commands: assignment of messages to one deliberate command.

A stream begins with a message after a pause; that message is a command like any other and takes its
joints. Messages that follow without a pause continue it and take nothing: joints that a newer
command has taken meanwhile stay with that one until the stream pauses and begins again. A sender
that comes to rest, or does not know that it was preempted, thus never takes joints back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

STREAM_PAUSE = 0.15
"""[s] After a pause of this length the next message of a sender begins a new stream."""
SESSION_MARK = "#"
"""A sender name that contains it identifies one stream, which never begins again after a pause."""
_LOST_MESSAGES = 100
"""Max number of consecutive lost messages of a sender; beyond it, it counts as another one."""
_KEPT = 32
"""Max number of remembered senders."""


@dataclass(frozen=True, eq=False)
class Stream:
    """One deliberate command that consists of many messages."""

    label: str
    """Name of its sender, for messages to others."""
    sender: str
    """Name in its messages; may be empty."""
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
        """Return the stream of a message; a new one if the message begins one.

        Messages without a sender name are distinguished by their publishers' sequence numbers: one
        that does not increase, or jumps, belongs to another publisher.

        Args:
            topic: topic of the message.
            name: name of its sender in the message.
            number: its publisher's sequence number; None if the middleware has none.
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
    """Return the number of messages between a sender's last one and this; large for another's."""
    another = _LOST_MESSAGES + 1
    if (sender.topic, sender.name) != (topic, name):
        return another
    if SESSION_MARK in name or number is None or sender.number is None:
        return 0
    gap = number - sender.number
    return gap if gap > 0 else another
