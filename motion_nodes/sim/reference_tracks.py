# SPDX-License-Identifier: Apache-2.0
"""The stamped streams that lead a robot's joints, and which of them has which joint.

Controllers stream to one topic, each its own joints; a joint belongs to the stream that named it
last. A stream is played back by its stamps (:mod:`motion_nodes.control.stream_resampler`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motion_nodes.control.stream_resampler import (
    ResamplerSettings,
    StreamResampler,
    StreamSample,
)

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class ReferenceTracks:
    """The streams of one robot, over all of its joints."""

    def __init__(self, max_velocity: Array, settings: ResamplerSettings) -> None:
        """Create without streams.

        Args:
            max_velocity: velocity limits of the joints [rad/s or m/s], shape (n,), may be inf.
            settings: of the resampling of every stream.
        """
        self._settings = settings
        self._max_velocity = max_velocity
        self._tracks: dict[bytes, tuple[Mask, StreamResampler]] = {}
        """By the joints that a stream names: those it still has, and its samples."""

    @property
    def streaming(self) -> bool:
        """True while a stream has a joint."""
        return bool(self._tracks)

    def clear(self) -> None:
        """Forget all streams."""
        self._tracks.clear()

    def push(self, stamp_ns: int, sample: StreamSample, named: Mask) -> None:
        """Take a message that speaks of the joints ``named``, shape (n,)."""
        key = named.tobytes()
        track = self._tracks.get(key)
        if track is None or not np.array_equal(track[0], named):
            self.drop(named)
            track = named.copy(), StreamResampler(self._settings, self._max_velocity)
            self._tracks[key] = track
        track[1].push(stamp_ns, sample)

    def drop(self, joints: Mask) -> None:
        """Take some joints from their streams; they are led no more."""
        for key, (owned, _) in list(self._tracks.items()):
            owned &= ~joints
            if not owned.any():
                del self._tracks[key]

    def sample(self, time_ns: int) -> StreamSample | None:
        """Return the references of all joints at a time [ns], NaN where none leads; None: none."""
        merged: StreamSample | None = None
        for owned, resampler in self._tracks.values():
            found = resampler.sample(time_ns)
            if found is None:
                continue
            if merged is None:
                merged = StreamSample(*(np.full(len(self._max_velocity), np.nan) for _ in range(3)))
            for channel, values in zip(merged, found, strict=True):
                np.copyto(channel, values, where=owned)
        return merged
