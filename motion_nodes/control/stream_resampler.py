# SPDX-License-Identifier: Apache-2.0
"""Resampling of a stamped stream of references at any rate with a fixed latency.

A driver samples the reference at its own rate, 500 to 1000 Hz; messages arrive at another rate,
delayed, in bursts. Their stamps define their time. With a delay of ``latency``, the reference is a
cubic Hermite polynomial between two stamps, from their positions and velocities:

    q(s0 + u h) = (2u^3 - 3u^2 + 1) q0 + (u^3 - 2u^2 + u) h v0 + (3u^2 - 2u^3) q1 + (u^3 - u^2) h v1

whose error for a smooth reference is at most ``h^4 / 384`` times its fourth derivative. If the next
message is late, the reference is extrapolated for a limited time and then braked: at its velocity,
or with its deceleration, so that a motion does not overshoot its end because of a late message.
When messages resume, it follows the same path, faster until the delay is compensated
(:mod:`motion_nodes.control.playback_clock`). The difference between extrapolation and stream decays
smoothly, so that the reference never jumps, and late messages never cause a violation of position
and velocity limits. Differences of several late messages add up, and each decays by itself: if all
messages are late, the reference is delayed by less than the duration of a decay.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from itertools import islice

import numpy as np

from motion_nodes.control.playback_clock import PlaybackClock
from motion_nodes.control.stream_pieces import Knot, Piece, Rest, StreamSample, hermite, rests
from motion_nodes.errors import InvalidConfig
from motion_nodes.typing import Array

SLOWER = 250
"""Number of consecutive gaps longer than the latency after which a stream counts as slow."""


@dataclass(frozen=True)
class ResamplerSettings:
    """Settings of the resampling.

    Raises:
        InvalidConfig: a time is negative or not finite.
    """

    latency: float = 0.008
    """[s] Delay between a stamp and the application of its sample. With two periods of the stream,
    a message may be late by one period."""
    extrapolation: float = 0.02
    """[s] Max extrapolation without a message; then the reference is braked for the same time."""
    longest_gap: float = 0.1
    """[s] Max distance of stamps that are interpolated by a cubic."""
    blending: float = 0.05
    """[s] Duration of the return to the stream after messages were missing for ``extrapolation``;
    proportionally shorter after a shorter gap, so that regular short extrapolations do not filter
    the stream, and longer if a velocity limit requires it."""
    max_lag: float = 0.5
    """[s] Max lag that is compensated along the stream; with more lag, the reference is blended to
    the newest samples."""

    def __post_init__(self) -> None:
        """Validate the times."""
        for name in ("latency", "extrapolation", "longest_gap", "blending", "max_lag"):
            value = getattr(self, name)
            if not 0.0 <= value < math.inf:
                raise InvalidConfig(
                    f"{name} is {value} s; it must be 0 or above, and finite", field=name
                )


@dataclass(frozen=True, eq=False)
class _Blend:
    """Offset to the stream that decays after a missing message."""

    begin_ns: int
    span: float
    """[s] Duration."""
    position: Array
    velocity: Array


class StreamResampler:
    """Resamples one stream; all samples contain the same joints."""

    def __init__(
        self,
        settings: ResamplerSettings | None = None,
        max_velocity: Array | None = None,
        position_limits: tuple[Array, Array] | None = None,
    ) -> None:
        """Create without samples.

        Args:
            settings: latency and limits of time.
            max_velocity: velocity limits of a catch-up [rad/s or m/s], shape (n,); None: infinite.
            position_limits: lower and upper limits of extrapolation [rad or m], shape (n,); None:
                infinite.
        """
        self.settings = settings or ResamplerSettings()
        self._max_velocity = max_velocity
        self._position_limits = position_limits
        self._knots: deque[Knot] = deque()
        self._blends: list[_Blend] = []
        self._clock = PlaybackClock(self.settings.extrapolation)
        self._max_rate = math.inf
        """Bound of the playback rate by the velocity limits."""
        self._period = math.inf
        """Period of the stream [s]; single gaps of dropped messages count as up to two periods."""
        self._long_gaps = 0
        """Number of gaps longer than the latency since the last shorter one."""
        self._ended = False
        self.extrapolated = 0
        """Number of samples of a moving reference that had to be extrapolated."""

    @property
    def lag(self) -> float:
        """Time by which the reference is behind its nominal time [s]."""
        return self._clock.lag

    @property
    def newest_ns(self) -> int | None:
        """Stamp of the newest sample [ns]; None before the first."""
        return self._knots[-1].stamp_ns if self._knots else None

    @property
    def covered_ns(self) -> int | None:
        """Time [ns] up to which the reference is interpolated, or extrapolated by one period.

        The extrapolation error is half the acceleration times the squared period, about 0.1 mrad;
        messages may thus be late by one more period.

        None: the stream has ended, or its period exceeds the latency, so that it is regularly
        extrapolated.
        """
        if not self._knots or self._ended or self._period > self.settings.latency + 1e-6:
            return None
        return self._knots[-1].stamp_ns + round((self.settings.latency + self._bridged) * 1e9)

    @property
    def moving(self) -> bool:
        """Whether the newest sample has a velocity."""
        return bool(self._knots and np.nan_to_num(self._knots[-1].sample.velocity).any())

    @property
    def resting(self) -> bool:
        """Whether the reference equals the newest sample until another one is received."""
        newest = self._knots[-1] if self._knots else None
        return (
            newest is not None
            and not self._blends
            and isinstance(newest.piece, Rest)
            and all(knot.sample is newest.sample for knot in self._knots)
        )

    def end(self) -> None:
        """End the stream until the next sample."""
        self._ended = True

    def push(self, stamp_ns: int, sample: StreamSample) -> bool:
        """Add a message.

        Args:
            stamp_ns: time at which it is valid [ns].
            sample: values; NaN for channels that are not commanded.

        Returns:
            False if it is older than the newest sample and ignored; a sample with the same stamp
            replaces the newest.
        """
        newest = self.newest_ns
        if newest is not None and stamp_ns < newest:
            return False
        self._ended = False
        played, before, missed = self._clock.played_ns, None, math.inf
        if played is not None and newest is not None and (played > newest or stamp_ns == newest):
            before = self._curve(played)
            if stamp_ns > newest:  # at least one message was missing
                missed = max((played - newest) * 1e-9, self._period)
        if stamp_ns == newest:
            self._knots.pop()
        elif newest is not None:
            self._note_gap((stamp_ns - newest) * 1e-9)
        piece = self._joined(self._knots[-1], stamp_ns, sample) if self._knots else None
        self._knots.append(Knot(stamp_ns, sample, piece))
        if before is not None and played is not None and self._knots[0].stamp_ns <= played:
            after = self._curve(played)
            if after is not before:
                self._blend_from(before, after, played, missed)
        return True

    def sample(self, time_ns: int) -> StreamSample | None:
        """Return the reference at a time [ns], which must not decrease; None before the first."""
        nominal = time_ns - round(self.settings.latency * 1e9)
        knots = self._knots
        if not knots or nominal < knots[0].stamp_ns:
            return None
        before = self._left_behind(nominal)
        if before is None:
            play = self._clock.advance(nominal, self._connected_end(), self._max_rate)
        else:
            self._clock.jump(nominal)
            play = nominal
        while len(knots) > 1 and knots[1].stamp_ns <= play:
            knots.popleft()
        if before is not None:
            self._blends.clear()
            self._blend_from(before, self._curve(play), play, math.inf)
        if len(knots) == 1 and play > knots[0].stamp_ns:
            self.extrapolated += self.moving
        value, rate = self._value(play), self._clock.rate
        if isinstance(knots[-1].piece, Rest) and value is knots[-1].sample:
            self._max_rate = math.inf
            return value
        self._limit_rate(value.velocity)
        if rate == 1.0:
            return value
        # Joints with velocity references alone have no path, and thus no lag along it.
        followed = ~np.isnan(value.position)
        return value._replace(velocity=np.where(followed, value.velocity * rate, value.velocity))

    def _note_gap(self, gap: float) -> None:
        """Estimate the period from the distance of two stamps [s].

        Simulated time waits at :attr:`covered_ns`, beyond the latency: on a busy machine each stamp
        may be that late, which does not change the period. Later ones show that it waited in vain.
        """
        latency = self.settings.latency + 1e-6
        self._long_gaps = self._long_gaps + 1 if gap > latency else 0
        waited = self._period <= latency < gap <= latency + self._bridged
        if not waited or self._long_gaps >= SLOWER:
            self._period = min(gap, 2.0 * self._period)

    @property
    def _bridged(self) -> float:
        """Time by which simulated time may exceed the stream [s]."""
        return min(self._period, self.settings.extrapolation)

    def _left_behind(self, nominal: int) -> StreamSample | None:
        """Return the current reference if it has to leave the stream's path, else None.

        This is the case after a gap in the stamps, or if the lag is too long.
        """
        played, knots = self._clock.played_ns, self._knots
        if played is None:
            return None
        end = self._connected_end()
        gap = end < knots[-1].stamp_ns and nominal >= self._after(end)
        if not gap and (nominal - played) * 1e-9 <= self.settings.max_lag:
            return None
        if not gap and end <= played:
            return None
        value, rate = self._value(played), self._clock.rate
        return value._replace(velocity=value.velocity * rate)

    def _connected_end(self) -> int:
        """Return the last stamp that is connected to the current one [ns]."""
        end = self._knots[0].stamp_ns
        for knot in islice(self._knots, 1, None):
            if knot.piece is None:
                break
            end = knot.stamp_ns
        return end

    def _after(self, stamp_ns: int) -> int:
        """Return the stamp that follows another one in the buffer [ns]."""
        return next(knot.stamp_ns for knot in self._knots if knot.stamp_ns > stamp_ns)

    def _limit_rate(self, velocity: Array) -> None:
        """Bound the playback rate so that no joint exceeds its velocity limit."""
        if self._max_velocity is None:
            return
        ratio = np.abs(velocity) / self._max_velocity
        most = float(np.nanmax(ratio, initial=0.0))
        self._max_rate = 1.0 / most if most > 0.0 else math.inf

    def _value(self, play: int) -> StreamSample:
        return self._blended(self._curve(play), play)

    def _curve(self, play: int) -> StreamSample:
        """Return the stream without the blending offset."""
        knots = self._knots
        if len(knots) > 1 and knots[1].stamp_ns <= play:
            # Only shortly after a late message.
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

    def _tail(self, knot: Knot, play: int) -> StreamSample:
        """Return the extrapolation after the last message, at its velocity or deceleration."""
        if isinstance(knot.piece, Rest):
            return knot.sample
        position, velocity, effort = knot.sample
        away, braking = (play - knot.stamp_ns) * 1e-9, knot.braking
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(braking != 0.0, np.fmin(away, -velocity / braking), away)
        moved = position + (np.nan_to_num(velocity) + 0.5 * braking * t) * t
        return self._within_limits(StreamSample(moved, velocity + braking * t, effort), position)

    def _within_limits(self, sample: StreamSample, stream: Array) -> StreamSample:
        """Return a sample clamped to the position limits, extended to the values of the stream."""
        if self._position_limits is None:
            return sample
        lower, upper = self._position_limits
        kept = np.clip(sample.position, np.fmin(lower, stream), np.fmax(upper, stream))
        beyond = sample.position - kept
        outward = beyond * sample.velocity > 0.0
        if not outward.any():
            return sample._replace(position=kept)
        return StreamSample(kept, np.where(outward, 0.0, sample.velocity), sample.effort)

    def _joined(self, last: Knot, stamp_ns: int, sample: StreamSample) -> Piece | Rest | None:
        h = (stamp_ns - last.stamp_ns) * 1e-9
        if not 0.0 < h <= self.settings.longest_gap:
            return None
        if sample is last.sample and (isinstance(last.piece, Rest) or rests(sample)):
            return Rest(last.stamp_ns, sample)
        return hermite(last, sample, h)

    def _blend_from(
        self, before: StreamSample, after: StreamSample, at: int, missed: float
    ) -> None:
        """Start the decay of the difference between two references.

        Args:
            before: previous reference.
            after: reference of the stream.
            at: current time of the stream [ns].
            missed: time without messages before it [s].
        """
        apart = np.nan_to_num(before.position - after.position)
        faster = np.where(np.isnan(after.position), 0.0, before.velocity - after.velocity)
        faster = np.nan_to_num(faster)
        settings = self.settings
        span = settings.blending * min(missed / max(settings.extrapolation, 1e-9), 1.0)
        if span <= 0.0 or not (apart.any() or faster.any()):
            return
        if self._max_velocity is not None:
            # The offset's max velocity is 1.5 |offset| / span.
            span = max(span, 1.5 * float(np.max(np.abs(apart) / self._max_velocity)))
        self._blends.append(_Blend(at, span, apart, faster))

    def _blended(self, sample: StreamSample, play: int) -> StreamSample:
        if not self._blends:
            return sample
        stream, (position, velocity, effort) = sample.position, sample
        for blend in list(self._blends):
            span = blend.span
            u = (play - blend.begin_ns) * 1e-9 / span
            if u >= 1.0:
                self._blends.remove(blend)
                continue
            # The Hermite cubic from the difference to 0, and its derivative.
            stay, move = (1.0 + 2.0 * u) * (1.0 - u) ** 2, u * (1.0 - u) ** 2 * span
            stay_rate, move_rate = 6.0 * u * (u - 1.0) / span, (1.0 - u) * (1.0 - 3.0 * u)
            position = position + stay * blend.position + move * blend.velocity
            velocity = velocity + stay_rate * blend.position + move_rate * blend.velocity
        if position is stream:
            return sample
        return self._within_limits(StreamSample(position, velocity, effort), stream)
