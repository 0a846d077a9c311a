# SPDX-License-Identifier: Apache-2.0
"""A serialized message whose stamp and numbers are written in place, for messages sent often.

rclpy converts and serializes a controller's state in 0.2 ms; writing its numbers takes a tenth.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from rclpy.serialization import serialize_message

from motion_nodes.ros.messages.cdr import write_stamp
from motion_nodes.typing import Array


class MessageTemplate:
    """A message that begins with a header; everything but its stamp and some arrays is fixed."""

    def __init__(
        self,
        message: Any,
        lengths: Mapping[str, int] | None = None,
        durations: Sequence[str] = (),
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

    def bytes(self, nanoseconds: int) -> bytes:
        """Return the message with a stamp [ns]."""
        write_stamp(self._data, nanoseconds)
        return bytes(self._data)
