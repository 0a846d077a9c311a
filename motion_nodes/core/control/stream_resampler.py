# SPDX-License-Identifier: Apache-2.0
"""Resampling of a stamped stream of references at any rate with a fixed latency.

A driver samples the reference at its own rate, 500 to 1000 Hz; messages arrive at another rate,
delayed, in bursts. Their stamps define their time. With a delay of ``latency``, the reference is a
cubic Hermite polynomial between two stamps, from their positions and velocities:

    q(s0 + u h) = (2u^3 - 3u^2 + 1) q0 + (u^3 - 2u^2 + u) h v0 + (3u^2 - 2u^3) q1 + (u^3 - u^2) h v1

whose error for a smooth reference is at most ``h^4 / 384`` times its fourth derivative. If the next
message is late, the reference is extrapolated for a limited time and then braked: at its velocity,
or with its deceleration, so that a motion does not overshoot its end because of a late message.
When messages resume, it follows the same path, faster until the delay is compensated. The
difference between extrapolation and stream decays smoothly, so that the reference never jumps, and
late messages never cause a violation of position and velocity limits. Differences of several late
messages add up, and each decays by itself: if all messages are late, the reference is delayed by
less than the duration of a decay.

The playback time ``p`` follows the nominal time ``p*`` (current time minus latency). If messages
are late, ``p`` passes the end of the buffer by a limited extrapolation and stops; when they arrive,
it runs faster than time until the lag ``p* - p`` is zero. As the reference is a function of ``p``,
a late reference follows the same path, at ``dp/dt`` times its velocity. The rate of change of
``dp/dt`` is bounded, which bounds the additional acceleration to ``|velocity| * RAMP``.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from motion_nodes.errors import InvalidConfig
from motion_nodes.typing import Array

CATCH_UP = 1.0
"""Max excess of dp/dt above 1."""
RAMP = 20.0
"""[1/s] Max increase of dp/dt per second, and its decrease towards the end of a catch-up."""
BRAKED = 1.5
"""Distance by which the playback time passes the end of the buffer until it stops, in durations of
the extrapolation: one at rate 1, half of one while it brakes."""
_STEP = 0.002
"""[s] Max step of the integration while p lags or brakes."""
SLOWER = 250
"""Number of consecutive gaps longer than the latency after which a stream counts as slow."""


class StreamSample(NamedTuple):
    """One value per joint and channel, NaN for no value."""

    position: Array
    """Positions [rad or m], shape (n,)."""
    velocity: Array
    """Velocities [rad/s or m/s], shape (n,)."""
    effort: Array
    """Efforts [N m or N], shape (n,)."""


def rests(sample: StreamSample) -> bool:
    """Return whether a sample commands no velocity other than 0."""
    velocity = sample.velocity
    return not (velocity[~np.isnan(velocity)] != 0.0).any()


class Rest(NamedTuple):
    """A constant reference from ``stamp_ns`` on, used instead of a :class:`Piece`."""

    stamp_ns: int
    sample: StreamSample

    def at(self, _t: float) -> StreamSample:
        """Return the sample."""
        return self.sample


@dataclass(frozen=True, eq=False)
class Piece:
    """Polynomials in the time since ``stamp_ns`` [s], lowest coefficient first."""

    stamp_ns: int
    position: tuple[Array, Array, Array, Array]
    velocity: tuple[Array, Array, Array]
    effort: tuple[Array, Array]

    def at(self, t: float) -> StreamSample:
        """Return the values at a time since ``stamp_ns`` [s]."""
        p, v, e = self.position, self.velocity, self.effort
        return StreamSample(
            p[0] + t * (p[1] + t * (p[2] + t * p[3])), v[0] + t * (v[1] + t * v[2]), e[0] + t * e[1]
        )


@dataclass(frozen=True, eq=False)
class Knot:
    """One message of a stream."""

    stamp_ns: int
    sample: StreamSample
    piece: Piece | Rest | None = None
    """Piece from the previous knot to this one; None if they are not connected."""

    @property
    def braking(self) -> Array:
        """Mean accelerations since the previous knot that oppose velocities [rad/s^2], else 0."""
        position, velocity, _ = self.sample
        if self.piece is None or isinstance(self.piece, Rest):
            return np.zeros_like(position)
        duration = (self.stamp_ns - self.piece.stamp_ns) * 1e-9
        rate = np.nan_to_num(velocity - self.piece.velocity[0]) / duration
        opposing = (rate * np.nan_to_num(velocity) < 0.0) & ~np.isnan(position)
        return np.where(opposing, rate, 0.0)


def hermite(last: Knot, sample: StreamSample, h: float) -> Piece:
    """Return the interpolation of two samples ``h`` [s] apart.

    Positions with velocities: cubic; without, or with velocities of 0 (drives that only damp):
    linear. Velocities alone: linear. A channel of only one of them: the value of the first, until
    the stamp of the second.
    """
    (q0, v0, e0), (q1, v1, e1) = last.sample, sample
    zero = np.zeros_like(q0)
    slope = (q1 - q0) / h
    damped = (v0 == 0.0) & (v1 == 0.0)
    cubic = ~np.isnan(slope + v0 + v1) & ~damped
    line = ~np.isnan(slope) & (damped | (np.isnan(v0) & np.isnan(v1)))
    driven = np.isnan(q0) & np.isnan(q1) & ~np.isnan(v0 + v1)
    c1 = np.where(cubic, v0, np.where(line, slope, zero))
    c2 = np.where(cubic, (3.0 * slope - 2.0 * v0 - v1) / h, zero)
    c3 = np.where(cubic, (v0 + v1 - 2.0 * slope) / h**2, zero)
    rate = np.where(cubic, 2.0 * c2, np.where(driven, (v1 - v0) / h, zero))
    e_rate = (e1 - e0) / h
    return Piece(
        last.stamp_ns,
        (q0, c1, c2, c3),
        (v0, rate, 3.0 * c3),
        (e0, np.where(np.isnan(e_rate), zero, e_rate)),
    )


class PlaybackClock:
    """Integrates the playback time."""

    def __init__(self, extrapolation: float) -> None:
        """Create the clock.

        Args:
            extrapolation: time after the end of the buffer at which braking begins, and its
                duration [s].
        """
        self._hold = extrapolation
        self._nominal: int | None = None
        self._time = 0.0
        """Playback time minus nominal time (negative lag), at most 0 [s]."""
        self.rate = 1.0
        """dp/dt."""

    @property
    def played_ns(self) -> int | None:
        """Playback time of the last step [ns]; None before the first."""
        return None if self._nominal is None else self._nominal + round(self._time * 1e9)

    @property
    def lag(self) -> float:
        """Lag: nominal minus playback time [s]."""
        return -self._time

    def jump(self, nominal_ns: int) -> None:
        """Set the playback time to the nominal time [ns], at rate 1."""
        self._nominal, self._time, self.rate = nominal_ns, 0.0, 1.0

    def advance(self, nominal_ns: int, end_ns: int, max_rate: float = math.inf) -> int:
        """Integrate up to a nominal time.

        Args:
            nominal_ns: nominal time [ns]; must not decrease.
            end_ns: end of the buffer [ns].
            max_rate: bound of dp/dt while it catches up; below 1: 1.

        Returns:
            The playback time [ns].
        """
        if self._nominal is None:
            self._nominal, self._time = nominal_ns, min(end_ns - nominal_ns, 0) * 1e-9
        left, end = (nominal_ns - self._nominal) * 1e-9, (end_ns - nominal_ns) * 1e-9
        self._nominal = nominal_ns
        self._time -= left
        # Times below are relative to the nominal time at the end of the step.
        if self._time + left > -1e-9 and self.rate == 1.0 and end + self._hold >= 0.0:
            self._time = 0.0
        else:
            self._integrate(left, end, max(max_rate, 1.0))
        return nominal_ns + round(self._time * 1e9)

    def _integrate(self, left: float, end: float, max_rate: float) -> None:
        rest = end + BRAKED * self._hold
        while left > 1e-12:
            h = min(left, _STEP)
            left -= h
            # Lag at the end of this step if p stops.
            lag = -left - self._time
            fastest = 1.0 + min(CATCH_UP, math.sqrt(2.0 * RAMP * max(lag - h, 0.0)))
            self.rate = min(self.rate + RAMP * h, fastest, max_rate)
            self._brake(rest, h)
            if self._time >= -left:
                self._time, self.rate = -left, min(self.rate, 1.0)
            if self._time >= rest - 1e-12 and self.rate < 1e-9:
                return

    def _brake(self, rest: float, h: float) -> None:
        """Advance by ``h`` [s] at the rate, or along the braking curve that ends at ``rest``.

        On the curve ``dp/dt = sqrt(2 (rest - p) / hold)``: it decreases by 1/hold per second.
        """
        if self._hold <= 0.0:
            self._time = max(self._time, min(self._time + self.rate * h, rest))
            self.rate = self.rate if self._time < rest else 0.0
            return
        begin = rest - 0.5 * self.rate**2 * self._hold
        free = min(max((begin - self._time) / self.rate, 0.0), h) if self.rate > 0.0 else 0.0
        self._time += self.rate * free
        if free < h:
            root = math.sqrt(max(rest - self._time, 0.0)) - (h - free) / math.sqrt(2 * self._hold)
            self._time = max(self._time, rest - max(root, 0.0) ** 2)
            self.rate = math.sqrt(2.0 * max(rest - self._time, 0.0) / self._hold)


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
