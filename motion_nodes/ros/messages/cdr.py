# SPDX-License-Identifier: Apache-2.0
"""Serialized messages: read field by field without deserialization, and parts to write them.

rclpy takes 12 us to deserialize a JointState of nine joints and 71 us for a controller's state,
since it converts each element; reading the arrays in place takes 4 us and 3 us
(docs/dependencies.md).

Source: OMG DDS-XTypes 1.3, 7.4 (plain CDR, version 1): a header of four bytes, then the fields in
order, each aligned to its size, relative to the end of the header.

Stamps and numbers of messages that are sent often are written in place. rclpy converts and
serializes a controller's state in 0.2 ms; writing its numbers takes a tenth.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from rclpy.serialization import deserialize_message, serialize_message

from motion_nodes.core.robot.bounds import NAMES, OBJECTS
from motion_nodes.errors import MotionError
from motion_nodes.typing import Array

LITTLE_ENDIAN = b"\x00\x01"
"""First bytes of little-endian plain CDR."""
HEADER = 4
"""Size of the header [bytes]; its second half holds options, which are ignored."""
AFTER_STAMP = HEADER + 8
"""Offset of the field after the stamp, in a message that begins with one [bytes]."""
MAX_ITEMS = NAMES
"""Max length of a sequence."""
_UINT32 = struct.Struct("<I")
_STAMP = struct.Struct("<iI")
_TRANSFORM = 7 * 8  # translation (3), quaternion (4) [bytes]
_NONE: Array = np.empty(0)


class InvalidMessage(MotionError):
    """A serialized message that cannot be read as its type."""


class CdrReader:
    """Sequential reader of a message; each call reads the next field."""

    def __init__(self, data: bytes) -> None:
        """Start at the first field of a message in little-endian plain CDR."""
        self.data = data
        self.at = HEADER
        """Offset of the next field, before its alignment [bytes]."""

    def stamp_ns(self) -> int:
        """Read a time stamp [ns]."""
        at = self.at
        self.at += _STAMP.size
        return read_stamp(self.data, at)

    def skip_string(self) -> None:
        """Skip a string."""
        length = self._count()
        self.at += length

    def text(self) -> str:
        """Read a string."""
        length = self._count()
        start, self.at = self.at, self.at + length
        return self.data[start : start + length - 1].decode() if length else ""

    def texts(self, known: bytes = b"") -> bytes:
        """Skip a sequence of strings and return its bytes, for :func:`texts_in`.

        Args:
            known: the bytes in the previous message; if equal, they are skipped at once.
        """
        start = self.at = (self.at + 3) & ~3
        if known and self.data.startswith(known, start):
            self.at += len(known)
            return known
        for _ in range(self._count()):
            self.skip_string()
        return self.data[start : self.at]

    def doubles(self) -> Array:
        """Read a sequence of float64 as a read-only view of the message, shape (n,)."""
        count = self._count()
        if not count:
            return _NONE
        start = ((self.at - HEADER + 7) & ~7) + HEADER
        self.at = start + 8 * count
        return np.frombuffer(self.data, np.float64, count, start)

    def count(self, limit: int) -> int:
        """Read the length of a sequence.

        Args:
            limit: max length.

        Raises:
            InvalidMessage: the sequence is longer.
        """
        return self._count(limit)

    def _count(self, limit: int = MAX_ITEMS) -> int:
        at = (self.at + 3) & ~3
        (count,) = _UINT32.unpack_from(self.data, at)
        if count > limit:
            raise InvalidMessage(f"a list of {count} entries; allowed are {limit}")
        self.at = at + 4
        return int(count)


def read_stamp(data: bytes, at: int = HEADER) -> int:
    """Return the time stamp at an offset of a little-endian message [ns].

    Raises:
        struct.error: the message ends before.
    """
    seconds, nanoseconds = _STAMP.unpack_from(data, at)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)


def write_stamp(data: bytearray, nanoseconds: int) -> None:
    """Write the time stamp [ns] at the beginning of a little-endian message."""
    _STAMP.pack_into(data, HEADER, *divmod(nanoseconds, 1_000_000_000))


def child_frames(data: bytes) -> set[bytes]:
    """Return the child frames of a serialized TFMessage.

    Raises:
        InvalidMessage, struct.error: it is not a TFMessage.
    """
    reader, frames = CdrReader(data), set()
    for _ in range(reader.count(OBJECTS)):
        reader.at = ((reader.at + 3) & ~3) + _STAMP.size
        reader.skip_string()
        length = reader.count(len(data))
        frames.add(data[reader.at : reader.at + length - 1])
        reader.at = ((reader.at + length - HEADER + 7) & ~7) + HEADER + _TRANSFORM
    return frames


def texts_in(block: bytes) -> list[str]:
    """Decode the bytes of a sequence of strings, from :meth:`CdrReader.texts`.

    Raises:
        UnicodeDecodeError: a string is not UTF-8.
    """
    # Sequences are aligned to four bytes, so they can be read like a message.
    reader = CdrReader(b"\x00" * HEADER + block)
    return [reader.text() for _ in range(reader._count())]


def message_in(data: bytes, kind: type[Any]) -> Any:
    """Deserialize a message.

    Args:
        data: the serialized message.
        kind: its type.

    Raises:
        InvalidMessage: it is not a message of that type.
    """
    try:
        return deserialize_message(data, kind)
    except Exception as error:  # the middleware raises various types
        raise InvalidMessage(
            f"a message of {len(data)} bytes cannot be read as {kind.__name__}"
        ) from error


def add_count(data: bytearray, count: int) -> None:
    """Append the length of a sequence to a message."""
    data += bytes(-len(data) % 4)
    data += _UINT32.pack(count)


def add_text(data: bytearray, text: str) -> None:
    """Append a string to a message."""
    encoded = text.encode() + b"\x00"
    add_count(data, len(encoded))
    data += encoded


class MessageTemplate:
    """A message that begins with a header; everything but its stamp and some arrays is fixed."""

    def __init__(
        self, message: Any, lengths: Mapping[str, int] | None = None, durations: Sequence[str] = ()
    ) -> None:
        """Serialize a message.

        Args:
            message: with the fixed fields.
            lengths: length of each array of float64 that will be written, by its path, such as
                ``reference.positions``; 0: a single number.
            durations: paths of durations that will be written.
        """
        times = {}
        for k, path in enumerate(durations):
            target = attrgetter(path)(message)
            target.sec, target.nanosec = 0x5EC0DE00 + k, 0x3A5EC000 + k
            times[path] = struct.pack("<iI", target.sec, target.nanosec)
        marks = {}
        for k, (path, length) in enumerate((lengths or {}).items()):
            # Exact in float64, and found nowhere else in the message.
            marks[path] = mark = 2.0**40 * (k + 1) + np.arange(max(length, 1))
            owner, _, field = path.rpartition(".")
            target = attrgetter(owner)(message) if owner else message
            setattr(target, field, mark.tolist() if length else float(mark[0]))
        self._data = bytearray(serialize_message(message))
        self.arrays: dict[str, Array] = {}
        """Writable views of the arrays, by path."""
        for path, mark in marks.items():
            at = self._data.index(mark.tobytes())
            self.arrays[path] = np.frombuffer(self._data, np.float64, len(mark), at)

        self._durations = {path: self._data.index(mark) for path, mark in times.items()}
        for path in durations:
            self.set_duration(path, 0.0)

    def set_duration(self, path: str, value: float) -> None:
        """Write a duration [s]; negative values become 0."""
        nanoseconds = round(max(value, 0.0) * 1e9)
        struct.pack_into("<iI", self._data, self._durations[path], *divmod(nanoseconds, 10**9))

    @property
    def data(self) -> bytearray:
        """The serialized message itself."""
        return self._data

    def bytes(self, nanoseconds: int) -> bytes:
        """Return the message with a stamp [ns]."""
        write_stamp(self._data, nanoseconds)
        return bytes(self._data)
