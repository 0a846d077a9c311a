# SPDX-License-Identifier: Apache-2.0
"""Streams of joint commands: which messages belong to one deliberate command.

A stream begins with a message after a pause; that message is a command like any other and takes
its joints. What follows without a pause goes on with it and takes nothing: joints that a newer
command has taken meanwhile stay with that one until the stream pauses and begins anew. So a sender
that comes to rest, or does not know that it was preempted, never takes joints back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

STREAM_PAUSE = 0.15
"""[s] A sender that was silent for so long begins a new stream with its next message."""
SESSION_MARK = "#"
"""A sender's name that holds it names one stream: such a stream never begins anew by a pause."""
_LOST_MESSAGES = 100
"""So many messages of a sender may be lost in a row for it to count as the same one."""
_KEPT = 32
"""So many senders are remembered."""


@dataclass(frozen=True, eq=False)
class Stream:
    """One deliberate command that comes in many messages."""

    label: str
    """Whose it is, for messages to others."""
    sender: str
    """Name that its sender gives itself; may be empty."""
    order: int
    """Its place among all commands."""


@dataclass(eq=False)
class _Sender:
    topic: str
    name: str
    number: int | None
    heard: float
    stream: Stream


class StreamSenders:
    """Tells which stream a message belongs to."""

    def __init__(self, begin: Callable[[str, str], Stream]) -> None:
        """Begin without a sender.

        Args:
            begin: makes a stream of a label and a sender's name, with the newest order.
        """
        self._begin = begin
        self._senders: list[_Sender] = []

    def stream_of(self, topic: str, name: str, number: int | None, sent: float) -> Stream:
        """Return the stream of a message, a new one where it begins one.

        Messages that bear no name are told apart by their publishers' counts: one that does not
        grow, or jumps, is another publisher's.

        Args:
            topic: where it came.
            name: of its sender, as the message has it.
            number: its publisher's count of messages; None where the middleware has none.
            sent: when it was sent [s], by the sender's clock.
        """
        known = self._known(topic, name, number)
        if known is None or (
            SESSION_MARK not in name and not 0.0 <= sent - known.heard < STREAM_PAUSE
        ):
            if known is not None:
                self._senders.remove(known)
            short = name.partition(SESSION_MARK)[0]
            stream = self._begin(f"{topic} of {short}" if short else topic, name)
            known = _Sender(topic, name, number, sent, stream)
            self._senders.insert(0, known)
            del self._senders[_KEPT:]
        known.number, known.heard = number, sent
        return known.stream

    def _known(self, topic: str, name: str, number: int | None) -> _Sender | None:
        gaps = [_gap(sender, topic, name, number) for sender in self._senders]
        nearest = min(gaps, default=_LOST_MESSAGES + 1)
        return self._senders[gaps.index(nearest)] if nearest <= _LOST_MESSAGES else None


def _gap(sender: _Sender, topic: str, name: str, number: int | None) -> int:
    """Return how many messages lie between a sender's last one and this; many for another's."""
    another = _LOST_MESSAGES + 1
    if (sender.topic, sender.name) != (topic, name):
        return another
    if SESSION_MARK in name or number is None or sender.number is None:
        return 0
    gap = number - sender.number
    return gap if gap > 0 else another
