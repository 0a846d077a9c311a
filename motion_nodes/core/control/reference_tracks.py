# SPDX-License-Identifier: Apache-2.0
"""Stamped reference streams of a robot, and the assignment of its joints to them.

Several controllers publish to one topic, each for its own joints; a joint belongs to the last
stream that contained it. Streams are resampled by their stamps
(:mod:`motion_nodes.core.control.stream_resampler`); streams of control loops over the robot
(efforts alone, or drives with gains set at run time) apply immediately.
"""

from __future__ import annotations

import operator
from typing import NamedTuple

import numpy as np

from motion_nodes.core.control.stream_resampler import (
    ResamplerSettings,
    StreamResampler,
    StreamSample,
)
from motion_nodes.typing import Array, Mask


class _Immediate(NamedTuple):
    """The newest sample of an immediate stream."""

    joints: Mask
    stamp_ns: int
    period_ns: int
    """Time since the previous sample; 0: unknown."""


class ReferenceTracks:
    """The reference streams of one robot."""

    def __init__(
        self,
        max_velocity: Array,
        settings: ResamplerSettings,
        position_limits: tuple[Array, Array] | None = None,
    ) -> None:
        """Create without streams.

        Args:
            max_velocity: velocity limits of the joints [rad/s or m/s], shape (n,), may be inf.
            settings: settings of the resampling of every stream.
            position_limits: see :class:`StreamResampler`.
        """
        self._position_limits = position_limits
        self._settings = settings
        self._max_velocity = max_velocity
        self._tracks: dict[bytes, tuple[Mask, StreamResampler]] = {}
        """Joints assigned to a stream, and its resampler, by the joints that it contains."""
        self._immediate: _Immediate | None = None
        self._merged: tuple[list[StreamSample], StreamSample] | None = None
        """The last merged samples of all streams, and the result; None after a change of the
        assignment of joints."""

    @property
    def streaming(self) -> bool:
        """Whether any joint is assigned to a stream."""
        return bool(self._tracks)

    @property
    def resting(self) -> bool:
        """Whether the references of all streams are constant until another sample is received."""
        return all(resampler.resting for _, resampler in self._tracks.values())

    @property
    def driven(self) -> bool:
        """Whether any joint is assigned to a stream, resampled or immediate."""
        return self.streaming or self._immediate is not None

    @property
    def covered_ns(self) -> int | None:
        """Time up to which all streams have references [ns]; None: no bound.

        See :attr:`StreamResampler.covered_ns`; immediate streams cover the latency, because their
        control loops do not tolerate longer delays.
        """
        times = [resampler.covered_ns for _, resampler in self._tracks.values()]
        times.append(self._immediate_covered_ns)
        return min((time for time in times if time is not None), default=None)

    @property
    def _immediate_covered_ns(self) -> int | None:
        latency, newest = round(self._settings.latency * 1e9), self._immediate
        if newest is None or not 0 < newest.period_ns <= latency + 1000:
            return None
        return newest.stamp_ns + latency

    def end_late(self, time_ns: int, *, resting: bool) -> None:
        """End the streams that do not cover a time, until their next sample.

        Args:
            time_ns: the time [ns].
            resting: only streams whose reference is at rest.
        """
        for _, resampler in self._tracks.values():
            covered = resampler.covered_ns
            if covered is not None and covered <= time_ns and not (resting and resampler.moving):
                resampler.end()
        covered = self._immediate_covered_ns
        if (
            self._immediate is not None
            and covered is not None
            and covered <= time_ns
            and not resting
        ):
            self._immediate = self._immediate._replace(period_ns=0)

    @property
    def extrapolated(self) -> int:
        """Number of samples of moving references that had to be extrapolated."""
        return sum(resampler.extrapolated for _, resampler in self._tracks.values())

    def clear(self) -> None:
        """Remove all streams."""
        self._tracks.clear()
        self._immediate = self._merged = None

    def push(self, stamp_ns: int, sample: StreamSample, named: Mask) -> None:
        """Add a sample, and assign its joints to its stream.

        Args:
            stamp_ns: time stamp [ns].
            sample: values of all joints, shape (n,) per channel.
            named: joints that the sample contains, shape (n,).
        """
        key = named.tobytes()
        track = self._tracks.get(key)
        if track is None or track[0].tobytes() != key:
            self.drop(named)
            self._merged = None
            track = (
                named.copy(),
                StreamResampler(self._settings, self._max_velocity, self._position_limits),
            )
            self._tracks[key] = track
        track[1].push(stamp_ns, sample)

    def push_immediate(self, stamp_ns: int, joints: Mask) -> None:
        """Record an immediate sample, and remove its joints from other streams.

        Args:
            stamp_ns: time stamp [ns].
            joints: joints that the sample contains, shape (n,).
        """
        last = self._immediate
        known = last is not None and np.array_equal(last.joints, joints)
        self.drop(joints)
        period_ns = stamp_ns - last.stamp_ns if last is not None and known else 0
        self._immediate = _Immediate(joints.copy(), stamp_ns, period_ns)

    def drop(self, joints: Mask) -> None:
        """Remove joints, shape (n,), from their streams."""
        if self._immediate is not None and bool((self._immediate.joints & joints).any()):
            self._immediate = None
        for key, (owned, _) in list(self._tracks.items()):
            if not (owned & joints).any():
                continue
            self._merged = None
            owned &= ~joints
            if not owned.any():
                del self._tracks[key]

    def sample(self, time_ns: int) -> StreamSample | None:
        """Return the references of all joints.

        Args:
            time_ns: time on the clock of the stamps [ns].

        Returns:
            Values of all joints, shape (n,) per channel, NaN for joints without a stream; None if
            no stream has a reference. The same object while all references are at rest.
        """
        found = [
            (owned, sample)
            for owned, resampler in self._tracks.values()
            if (sample := resampler.sample(time_ns)) is not None
        ]
        if not found:
            return None
        samples = [sample for _, sample in found]
        if self._merged is not None:
            before, merged = self._merged
            if len(before) == len(samples) and all(map(operator.is_, before, samples)):
                return merged
        merged = StreamSample(*(np.full(len(self._max_velocity), np.nan) for _ in range(3)))
        for owned, sample in found:
            for channel, values in zip(merged, sample, strict=True):
                np.copyto(channel, values, where=owned)
        self._merged = samples, merged
        return merged
