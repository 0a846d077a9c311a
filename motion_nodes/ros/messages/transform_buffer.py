# SPDX-License-Identifier: Apache-2.0
"""A serialized TFMessage of fixed frames, whose stamps and poses are written in place.

rclpy takes half a millisecond to fill and serialize the transforms of an arm; this takes a
twentieth of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from motion_nodes.ros.messages.cdr import HEADER, LITTLE_ENDIAN, add_count, add_text
from motion_nodes.typing import Array

_VALUES = 7
"""Numbers of a transform: translation (3), quaternion (4)."""


class TransformBuffer:
    """The message; its stamps and poses are 0 at first."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Create the message.

        Args:
            pairs: parent and child of each transform, as full frame names.
        """
        data = bytearray(LITTLE_ENDIAN + b"\x00\x00")
        add_count(data, len(pairs))
        stamps, poses = [], []
        for parent, child in pairs:
            data += bytes(-len(data) % 4)
            stamps.append(len(data))
            data += bytes(8)
            add_text(data, parent)
            add_text(data, child)
            data += bytes(-(len(data) - HEADER) % 8)
            poses.append(len(data))
            data += bytes(8 * _VALUES)
        self._data = data
        self._bytes = np.frombuffer(data, np.uint8)
        self._stamps = np.array(stamps, np.intp)[:, None] + np.arange(8)
        self._poses = np.array(poses, np.intp)[:, None] + np.arange(8 * _VALUES)
        self._values = np.zeros((len(pairs), _VALUES))

    def restamped(self, nanoseconds: int) -> bytes:
        """Return the serialized message with the last poses.

        Args:
            nanoseconds: time stamp of all transforms [ns].
        """
        stamp = np.array(divmod(nanoseconds, 1_000_000_000), np.int64).astype(np.uint32)
        self._bytes[self._stamps] = stamp.view(np.uint8)
        return bytes(self._data)

    def bytes(self, positions: Array, quats_xyzw: Array, nanoseconds: int) -> bytes:
        """Return the serialized message.

        Args:
            positions: of each child in its parent [m], shape (pairs, 3).
            quats_xyzw: its orientations, shape (pairs, 4).
            nanoseconds: time stamp of all transforms [ns].
        """
        self._values[:, :3], self._values[:, 3:] = positions, quats_xyzw
        self._bytes[self._poses] = self._values.view(np.uint8)
        return self.restamped(nanoseconds)
