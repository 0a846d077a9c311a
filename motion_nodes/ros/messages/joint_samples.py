# SPDX-License-Identifier: Apache-2.0
"""Serialized joint states: read in place, and written to a preallocated buffer."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from control_msgs.msg import JointTrajectoryControllerState
from numpy.typing import NDArray
from sensor_msgs.msg import JointState

from motion_nodes.core.control.joint_command import no_values
from motion_nodes.ros.messages.cdr import (
    AFTER_STAMP,
    HEADER,
    LITTLE_ENDIAN,
    CdrReader,
    InvalidMessage,
    add_count,
    add_text,
    message_in,
    read_stamp,
    texts_in,
    write_stamp,
)
from motion_nodes.ros.messages.message_bounds import fault_of
from motion_nodes.typing import Array

CHANNELS = ("position", "velocity", "effort")
_NONE: Array = np.empty(0)
_Numbers = tuple[slice, bytes, int, int]
"""Of a channel in a message: place and bytes of its length, its length, offset of its values."""


class JointSample(NamedTuple):
    """State of some joints; arrays may be empty, or of another length than the names."""

    stamp_ns: int
    """Time stamp [ns]."""
    names: bytes | tuple[str, ...]
    """Joint names, or their serialized form, which is equal for equal names."""
    position: Array
    """[rad or m]"""
    velocity: Array
    """[rad/s or m/s]"""
    effort: Array = np.empty(0)
    """[N m or N]; of JointState only."""
    sender: str = ""
    """The frame_id of its header, which names the sender of a command."""

    def joint_names(self) -> tuple[str, ...]:
        """Return the joint names.

        Raises:
            InvalidMessage: a name is not UTF-8.
        """
        return self.names if isinstance(self.names, tuple) else _names_in(self.names)


@dataclass(frozen=True)
class JointLayout:
    """Position of a reader's joints in messages with the same names."""

    count: int
    """Number of joints in the message."""
    places: NDArray[np.intp]
    """Indices into the reader's joints, shape (k,)."""
    columns: NDArray[np.intp]
    """Indices into the message, shape (k,)."""
    by_velocity: NDArray[np.bool_] | None
    """Which of them are read by velocity, shape (k,); None for none."""

    @classmethod
    def of(
        cls, names: Sequence[str], joints: Sequence[str], by_velocity: NDArray[np.bool_]
    ) -> JointLayout:
        """Return the layout of messages with some names.

        Args:
            names: of the messages.
            joints: of the reader.
            by_velocity: which of the reader's joints are read by velocity, shape (n,).
        """
        where = {name: i for i, name in enumerate(names)}
        pairs = [(i, where[name]) for i, name in enumerate(joints) if name in where]
        places = np.array([place for place, _ in pairs], dtype=np.intp)
        columns = np.array([column for _, column in pairs], dtype=np.intp)
        chosen = by_velocity[places]
        return cls(len(names), places, columns, chosen if chosen.any() else None)

    def values(self, channel: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a channel's values of the reader's joints, shape (k,); NaN if it is empty."""
        return channel[self.columns] if len(channel) else no_values(len(self.columns))


@functools.lru_cache(64)
def _names_in(block: bytes) -> tuple[str, ...]:
    """Decode names; kept, since the names of a stream do not change."""
    try:
        return tuple(texts_in(block))
    except UnicodeDecodeError as error:
        raise InvalidMessage("names of joints are not UTF-8") from error


class JointSampleReader:
    """Reader of the messages of one topic, serialized or not.

    Types are JointState, and JointTrajectoryControllerState, of which the reference is read: both
    begin with a header, names, positions and velocities.
    """

    def __init__(self) -> None:
        """Create the reader of a topic."""
        self._names = b""
        self._last: tuple[bytes, JointSample, tuple[_Numbers, ...], int] | None = None
        """Last message that was read in place: from its stamp to its numbers; its contents; where
        they are; its length."""

    def read(self, message: Any, kind: type[Any] = JointState) -> JointSample:
        """Read a message.

        Args:
            message: the message, or its serialized form.
            kind: its type.

        Raises:
            InvalidMessage: it cannot be read as that type, or exceeds its bounds.
        """
        if isinstance(message, bytes):
            same = self._like_the_last(message)
            if same is not None:
                return same
            plain = message.startswith(LITTLE_ENDIAN)
            sample = self._in_place(message, kind is JointState) if plain else None
            if sample is not None:
                return sample
            message = message_in(message, kind)
            fault = fault_of(message)
            if fault:
                raise InvalidMessage(fault)
        if isinstance(message, JointTrajectoryControllerState):
            names, point = message.joint_names, message.reference
            position, velocity, effort = point.positions, point.velocities, ()
        else:
            names, position, velocity = message.name, message.position, message.velocity
            effort = message.effort
        stamp = message.header.stamp
        at = int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)
        q, v, tau = (np.asarray(values) for values in (position, velocity, effort))
        return JointSample(at, tuple(names), q, v, tau, message.header.frame_id)

    def _in_place(self, data: bytes, efforts: bool) -> JointSample | None:
        """Read a serialized message; None if it is truncated."""
        reader = CdrReader(data)
        try:
            stamp = reader.stamp_ns()
            sender = reader.text()
            self._names = reader.texts(self._names)
            head = reader.at
            position, velocity = reader.doubles(), reader.doubles()
            effort = reader.doubles() if efforts else np.empty(0)
        except (struct.error, ValueError):
            return None
        sample = JointSample(stamp, self._names, position, velocity, effort, sender)
        if efforts:
            self._keep(data, head, sample)
        return sample

    def _keep(self, data: bytes, head: int, sample: JointSample) -> None:
        """Let later messages be compared with this one, whose numbers begin after ``head``."""
        at, numbers = head, []
        for values in (sample.position, sample.velocity, sample.effort):
            at = (at + 3) & ~3
            start = ((at + 4 - HEADER + 7) & ~7) + HEADER
            numbers.append((slice(at, at + 4), data[at : at + 4], len(values), start))
            at = start + 8 * len(values) if len(values) else at + 4
        self._last = data[AFTER_STAMP:head], sample, tuple(numbers), len(data)

    def _like_the_last(self, data: bytes) -> JointSample | None:
        """Read a message that is the last one but for stamp and numbers; None for another one."""
        if self._last is None or len(data) != self._last[3]:
            return None
        head, last, numbers, _ = self._last
        if not data.startswith(head, AFTER_STAMP) or not data.startswith(LITTLE_ENDIAN):
            return None
        values = []
        for where, count, length, start in numbers:
            if data[where] != count:
                return None
            values.append(np.frombuffer(data, np.float64, length, start) if length else _NONE)
        position, velocity, effort = values
        return JointSample(read_stamp(data), last.names, position, velocity, effort, last.sender)


class RepeatedValues:
    """Recognizes serialized messages that differ from an earlier one only by their stamps.

    Joints at rest are reported by such messages; they are not read again.
    """

    def __init__(self) -> None:
        """Create without a message."""
        self._rest = b""

    def keep(self, message: Any) -> None:
        """Compare later messages with this one; one that is not serialized is never repeated."""
        plain = isinstance(message, bytes) and message.startswith(LITTLE_ENDIAN)
        self._rest = message[AFTER_STAMP:] if plain else b""

    def forget(self) -> None:
        """Let no message be a repetition until the next one is kept."""
        self._rest = b""

    def stamp_ns(self, message: Any) -> int | None:
        """Return the stamp of a message that repeats the kept one [ns]; None if it does not."""
        rest = self._rest
        if not rest or not message.endswith(rest) or len(message) != len(rest) + AFTER_STAMP:
            return None
        if not message.startswith(LITTLE_ENDIAN):
            return None
        return read_stamp(message)


class JointStateBuffer:
    """A serialized JointState of fixed joints, whose stamp and values are written in place."""

    def __init__(
        self, joints: Sequence[str], channels: Sequence[str] = CHANNELS, sender: str = ""
    ) -> None:
        """Create the message, with NaN in its channels.

        Args:
            joints: joint names.
            channels: channels with values; the others are empty.
            sender: frame_id of the header, by which a stream of commands is identified.

        Raises:
            ValueError: an unknown channel.
        """
        if not set(channels) <= set(CHANNELS):
            raise ValueError(f"channels are {list(channels)}; allowed are {', '.join(CHANNELS)}")
        data = bytearray(LITTLE_ENDIAN + b"\x00\x00")
        data += bytes(AFTER_STAMP - HEADER)
        add_text(data, sender)
        add_count(data, len(joints))
        for name in joints:
            add_text(data, name)
        starts: dict[str, int] = {}
        for channel in CHANNELS:
            count = len(joints) if channel in channels else 0
            add_count(data, count)
            if count:
                data += bytes(-(len(data) - HEADER) % 8)
                starts[channel] = len(data)
                data += bytes(8 * count)
        self._data = data
        self._views = {
            name: np.frombuffer(data, np.float64, len(joints), start)
            for name, start in starts.items()
        }
        for view in self._views.values():
            view[:] = np.nan

    def channel(self, name: str) -> Array:
        """Return a writable view of a channel, shape (n,); empty if the channel is."""
        return self._views.get(name, np.empty(0))

    def bytes(self, nanoseconds: int) -> bytes:
        """Return the serialized message with a stamp [ns]."""
        write_stamp(self._data, nanoseconds)
        return bytes(self._data)
