# SPDX-License-Identifier: Apache-2.0
"""Stamped reference streams of a robot, and the assignment of its joints to them.

Several controllers publish to one topic, each for its own joints; a joint belongs to the stream
that contained it last. Streams are resampled by their stamps
(:mod:`motion_nodes.control.stream_resampler`).
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
    """The reference streams of one robot."""

    def __init__(self, max_velocity: Array, settings: ResamplerSettings) -> None:
        """Create without streams.

        Args:
            max_velocity: velocity limits of the joints [rad/s or m/s], shape (n,), may be inf.
            settings: of the resampling of every stream.
        """
        self._settings = settings
        self._max_velocity = max_velocity
        self._tracks: dict[bytes, tuple[Mask, StreamResampler]] = {}
        """By the joints that a stream contains: those assigned to it, and its resampler."""

    @property
    def streaming(self) -> bool:
        """Whether any joint is assigned to a stream."""
        return bool(self._tracks)

    @property
    def covered_ns(self) -> int | None:
        """Time up to which all moving position references are interpolated [ns]; None: no bound."""
        times = (resampler.covered_ns for _, resampler in self._tracks.values())
        return min((time for time in times if time is not None), default=None)

    def clear(self) -> None:
        """Remove all streams."""
        self._tracks.clear()

    def push(self, stamp_ns: int, sample: StreamSample, named: Mask) -> None:
        """Add a sample, and assign its joints to its stream.

        Args:
            stamp_ns: time stamp [ns].
            sample: values of all joints, shape (n,) per channel.
            named: joints that the sample contains, shape (n,).
        """
        key = named.tobytes()
        track = self._tracks.get(key)
        if track is None or not np.array_equal(track[0], named):
            self.drop(named)
            track = named.copy(), StreamResampler(self._settings, self._max_velocity)
            self._tracks[key] = track
        track[1].push(stamp_ns, sample)

    def drop(self, joints: Mask) -> None:
        """Remove joints, shape (n,), from their streams."""
        for key, (owned, _) in list(self._tracks.items()):
            owned &= ~joints
            if not owned.any():
                del self._tracks[key]

    def sample(self, time_ns: int) -> StreamSample | None:
        """Return the references of all joints.

        Args:
            time_ns: time on the clock of the stamps [ns].

        Returns:
            Values of all joints, shape (n,) per channel, NaN for joints without a stream; None if
            no stream has a reference.
        """
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
