# SPDX-License-Identifier: Apache-2.0
"""Resampling of a stamped stream of references at any rate with a fixed latency.

A driver needs a reference at its own times, 500 to 1000 times a second; messages arrive at another
rate, delayed, in bursts. Their stamps define when each is valid. With a delay of ``latency``, the
reference is a cubic Hermite polynomial between two stamps, from their positions and velocities:

    q(s0 + u h) = (2u^3 - 3u^2 + 1) q0 + (u^3 - 2u^2 + u) h v0 + (3u^2 - 2u^3) q1 + (u^3 - u^2) h v1

whose error for a smooth reference is at most ``h^4 / 384`` times its fourth derivative. If the next
message is late, the reference is extrapolated at its velocity for a limited time and then braked;
when messages resume, the difference is blended out, so it never jumps.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.errors import InvalidConfig

Array = NDArray[np.float64]


class StreamSample(NamedTuple):
    """One value per joint and channel, NaN where there is none."""

    position: Array
    """Positions [rad or m], shape (n,)."""
    velocity: Array
    """Velocities [rad/s or m/s], shape (n,)."""
    effort: Array
    """Efforts [N m or N], shape (n,)."""


@dataclass(frozen=True)
class ResamplerSettings:
    """Settings of the resampling.

    Raises:
        InvalidConfig: a time is negative or not finite.
    """

    latency: float = 0.008
    """[s] Delay between a stamp and the time its sample is applied. Two periods of the stream
    tolerate a message that is late by one."""
    extrapolation: float = 0.02
    """[s] Max extrapolation without a message; then the reference is braked for the same time."""
    longest_gap: float = 0.05
    """[s] Max distance of stamps that are connected by a cubic."""
    blending: float = 0.05
    """[s] Duration in which the reference returns to the stream after missing messages."""

    def __post_init__(self) -> None:
        """Validate the times."""
        for name in ("latency", "extrapolation", "longest_gap", "blending"):
            value = getattr(self, name)
            if not 0.0 <= value < math.inf:
                raise InvalidConfig(f"{name} is {value} s; it must be 0 or above, and finite")


@dataclass(frozen=True, eq=False)
class _Piece:
    """Polynomials in the time since ``stamp_ns`` [s], lowest coefficient first."""

    stamp_ns: int
    position: tuple[Array, Array, Array, Array]
    velocity: tuple[Array, Array, Array]
    effort: tuple[Array, Array]

    def at(self, t: float) -> StreamSample:
        p, v, e = self.position, self.velocity, self.effort
        return StreamSample(
            p[0] + t * (p[1] + t * (p[2] + t * p[3])), v[0] + t * (v[1] + t * v[2]), e[0] + t * e[1]
        )


@dataclass(frozen=True, eq=False)
class _Knot:
    stamp_ns: int
    sample: StreamSample
    piece: _Piece | None = None
    """From the previous knot to this one; None if they are not connected."""


@dataclass(frozen=True, eq=False)
class _Blend:
    """Offset to the stream that decays after missing messages."""

    begin_ns: int
    position: Array
    velocity: Array


class StreamResampler:
    """Resamples one stream; all samples contain the same joints."""

    def __init__(self, settings: ResamplerSettings | None = None) -> None:
        """Create without samples."""
        self.settings = settings or ResamplerSettings()
        self._knots: deque[_Knot] = deque()
        self._blend: _Blend | None = None
        self._played: int | None = None
        """Last stream time that was evaluated [ns]."""
        self.extrapolated = 0
        """Number of samples that had to be extrapolated."""

    @property
    def newest_ns(self) -> int | None:
        """Stamp of the newest sample [ns]; None before the first."""
        return self._knots[-1].stamp_ns if self._knots else None

    def push(self, stamp_ns: int, sample: StreamSample) -> bool:
        """Add a message.

        Args:
            stamp_ns: time at which it is valid [ns].
            sample: NaN where the stream does not command a channel.

        Returns:
            False if it is older than the newest and ignored; one with the same stamp replaces it.
        """
        newest = self.newest_ns
        if newest is not None and stamp_ns < newest:
            return False
        played, before = self._played, None
        if played is not None and newest is not None and (played > newest or stamp_ns == newest):
            before = self._value(played)
        if stamp_ns == newest:
            self._knots.pop()
        piece = self._joined(self._knots[-1], stamp_ns, sample) if self._knots else None
        self._knots.append(_Knot(stamp_ns, sample, piece))
        if before is not None and played is not None and self._knots[0].stamp_ns <= played:
            self._blend = None
            self._blend_from(before, self._curve(played), played)
        return True

    def sample(self, time_ns: int) -> StreamSample | None:
        """Return the reference at a time [ns], which must not decrease; None before the first."""
        play = time_ns - round(self.settings.latency * 1e9)
        knots = self._knots
        if not knots or play < knots[0].stamp_ns:
            return None
        while len(knots) > 1 and knots[1].stamp_ns <= play:
            left = knots.popleft()
            new = self._played is None or knots[0].stamp_ns > self._played
            if knots[0].piece is None and new:
                # Messages were missing: blend from the extrapolated reference back to the stream.
                at = knots[0].stamp_ns
                before = self._blended(self._tail(left, at), at)
                self._blend = None
                self._blend_from(before, knots[0].sample, at)
        self._played = play
        self.extrapolated += len(knots) == 1 and play > knots[0].stamp_ns
        return self._value(play)

    def _value(self, play: int) -> StreamSample:
        return self._blended(self._curve(play), play)

    def _curve(self, play: int) -> StreamSample:
        """Return the stream without the blending offset."""
        knots = self._knots
        if len(knots) > 1 and knots[1].stamp_ns <= play:
            # Only shortly after a message that came too late.
            newest = knots[-1]
            return self._tail(newest, play) if newest.stamp_ns <= play else self._between(play)
        if len(knots) > 1 and knots[1].piece is not None:
            return knots[1].piece.at((play - knots[0].stamp_ns) * 1e-9)
        return self._tail(knots[0], play)

    def _between(self, play: int) -> StreamSample:
        for left, right in zip(list(self._knots)[:-1], list(self._knots)[1:], strict=True):
            if left.stamp_ns <= play < right.stamp_ns:
                joined = right.piece
                away = (play - left.stamp_ns) * 1e-9
                return joined.at(away) if joined is not None else self._tail(left, play)
        return self._tail(self._knots[-1], play)

    def _tail(self, knot: _Knot, play: int) -> StreamSample:
        """Return the extrapolation after the last message: constant velocity, then to rest."""
        held, away = self.settings.extrapolation, (play - knot.stamp_ns) * 1e-9
        position, velocity, effort = knot.sample
        braking = min(max(away - held, 0.0), held)
        share = 1.0 - braking / held if held > 0.0 else 0.0
        length = min(away, held) + braking * (1.0 - 0.5 * braking / held if held > 0.0 else 0.0)
        led = ~np.isnan(position)
        return StreamSample(
            position + np.nan_to_num(velocity) * length,
            np.where(led, velocity * share, velocity),
            effort,
        )

    def _joined(self, last: _Knot, stamp_ns: int, sample: StreamSample) -> _Piece | None:
        h = (stamp_ns - last.stamp_ns) * 1e-9
        return _hermite(last, sample, h) if 0.0 < h <= self.settings.longest_gap else None

    def _blend_from(self, before: StreamSample, after: StreamSample, at: int) -> None:
        """Let the difference of two references at a time [ns] decay."""
        apart = np.nan_to_num(before.position - after.position)
        faster = np.where(np.isnan(after.position), 0.0, before.velocity - after.velocity)
        faster = np.nan_to_num(faster)
        if self.settings.blending > 0.0 and (apart.any() or faster.any()):
            self._blend = _Blend(at, apart, faster)

    def _blended(self, sample: StreamSample, play: int) -> StreamSample:
        blend, span = self._blend, self.settings.blending
        if blend is None:
            return sample
        u = (play - blend.begin_ns) * 1e-9 / span
        if u >= 1.0:
            self._blend = None
            return sample
        # The Hermite cubic from the difference to 0, and its derivative.
        stay, move = (1.0 + 2.0 * u) * (1.0 - u) ** 2, u * (1.0 - u) ** 2 * span
        stay_rate, move_rate = 6.0 * u * (u - 1.0) / span, (1.0 - u) * (1.0 - 3.0 * u)
        return StreamSample(
            sample.position + stay * blend.position + move * blend.velocity,
            sample.velocity + stay_rate * blend.position + move_rate * blend.velocity,
            sample.effort,
        )


def _hermite(last: _Knot, sample: StreamSample, h: float) -> _Piece:
    """Return the interpolation of two samples ``h`` [s] apart.

    Positions with velocities: the cubic; without: linear. Velocities alone: linear. A channel that
    only one of them has: the value of the first, until the second is valid.
    """
    (q0, v0, e0), (q1, v1, e1) = last.sample, sample
    zero = np.zeros_like(q0)
    slope = (q1 - q0) / h
    cubic = ~np.isnan(slope + v0 + v1)
    line = ~cubic & ~np.isnan(slope) & np.isnan(v0) & np.isnan(v1)
    driven = np.isnan(q0) & np.isnan(q1) & ~np.isnan(v0 + v1)
    c1 = np.where(cubic, v0, np.where(line, slope, zero))
    c2 = np.where(cubic, (3.0 * slope - 2.0 * v0 - v1) / h, zero)
    c3 = np.where(cubic, (v0 + v1 - 2.0 * slope) / h**2, zero)
    rate = np.where(cubic, 2.0 * c2, np.where(driven, (v1 - v0) / h, zero))
    e_rate = (e1 - e0) / h
    return _Piece(
        last.stamp_ns,
        (q0, c1, c2, c3),
        (v0, rate, 3.0 * c3),
        (e0, np.where(np.isnan(e_rate), zero, e_rate)),
    )
