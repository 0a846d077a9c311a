# SPDX-License-Identifier: Apache-2.0
"""Serialized messages, read field by field without building message objects.

rclpy takes 35 us to build a JointState of nine joints and 150 us for a controller's state, for all
fields and each element on its own. A loop that needs two arrays of them reads these in place.

Source: OMG DDS-XTypes 1.3, 7.4 (plain CDR, version 1): four bytes of header, then the fields in
their order, each aligned to its own size, counted from the end of the header.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.serialization import deserialize_message

from motion_nodes.errors import MotionError
from motion_nodes.model.bounds import NAMES

Array = NDArray[np.float64]

LITTLE_ENDIAN = b"\x00\x01"
"""First bytes of plain CDR of this kind, which nearly all computers send."""
HEADER = 4
"""[bytes] The second half of the header holds options that do not matter here."""
MOST_ITEMS = NAMES
"""Longer sequences are refused before anything is made of them."""

_UINT32 = struct.Struct("<I")
_STAMP = struct.Struct("<iI")
_NONE: Array = np.empty(0)


class InvalidMessage(MotionError):
    """Bytes that are no message of their type."""


class CdrReader:
    """Goes through a message from its beginning; each call reads the next field."""

    def __init__(self, data: bytes) -> None:
        """Begin; the message must start with a header of little-endian plain CDR."""
        self.data = data
        self._at = HEADER

    def stamp_ns(self) -> int:
        """Read a time [ns]."""
        seconds, nanoseconds = _STAMP.unpack_from(self.data, self._at)
        self._at += _STAMP.size
        return int(seconds) * 1_000_000_000 + int(nanoseconds)

    def skip_string(self) -> None:
        """Pass over a text."""
        length = self._count()
        self._at += length

    def text(self) -> str:
        """Read a text."""
        length = self._count()
        start, self._at = self._at, self._at + length
        return self.data[start : start + length - 1].decode() if length else ""

    def texts(self, known: bytes = b"") -> bytes:
        """Pass over a sequence of texts and return its bytes; :func:`texts_in` decodes them.

        Args:
            known: what was here in the message before; most often it is here again.
        """
        start = self._at = (self._at + 3) & ~3
        if known and self.data.startswith(known, start):
            self._at += len(known)
            return known
        for _ in range(self._count()):
            self.skip_string()
        return self.data[start : self._at]

    def doubles(self) -> Array:
        """Read a sequence of float64, shape (n,): read-only, in the message's memory."""
        count = self._count()
        if not count:
            return _NONE
        start = ((self._at - HEADER + 7) & ~7) + HEADER
        self._at = start + 8 * count
        return np.frombuffer(self.data, np.float64, count, start)

    def count(self, most: int) -> int:
        """Read the number of entries of a sequence.

        Raises:
            InvalidMessage: there are more than ``most``.
        """
        return self._count(most)

    def _count(self, most: int = MOST_ITEMS) -> int:
        at = (self._at + 3) & ~3
        (count,) = _UINT32.unpack_from(self.data, at)
        if count > most:
            raise InvalidMessage(f"a list of {count} entries; allowed are {most}")
        self._at = at + 4
        return int(count)


def texts_in(block: bytes) -> list[str]:
    """Return the texts of a sequence that :meth:`CdrReader.texts` passed over.

    Raises:
        UnicodeDecodeError: bytes that are no UTF-8.
    """
    # Sequences begin at a multiple of four, so they can be read as if they were a message.
    reader = CdrReader(b"\x00" * HEADER + block)
    return [reader.text() for _ in range(reader._count())]


def message_in(data: bytes, kind: type[Any]) -> Any:
    """Return the message object of any serialized message.

    Raises:
        InvalidMessage: bytes that are none of that type.
    """
    try:
        return deserialize_message(data, kind)
    except Exception as error:  # rclpy raises what its middleware makes of it
        raise InvalidMessage(f"a message of {len(data)} bytes is no {kind.__name__}") from error
