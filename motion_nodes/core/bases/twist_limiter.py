# SPDX-License-Identifier: Apache-2.0
"""Limits of a commanded twist: gains and velocity limits, then ramps with preserved direction.

For jerk limits, ramps are averaged over time: the moving average of a ramp is an S-curve. For a
base with steered wheels, the velocity has the ramp of the limits and the curvature that of the
steering.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from motion_nodes.core.bases.base import (
    BaseCommand,
    BaseLimits,
    BodyAxisLimits,
    Twist2,
    WheeledBase,
    bound_above_zero,
)
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

INSTANT = 1e-9
"""Durations below this are rounding errors [s]."""
Profile = list[tuple[float, list[float]]]
"""Segments of a ramp: duration of each [s], and the velocities (x, y, yaw) at its end."""
SHARES = (*(0.5**k for k in range(12)), 0.0)
"""Fractions of the steering motion of a step; the first within all limits is used. Steering without
a rate limit may need a small one, since the yaw rate has a limit of its change in each step."""


class _Corner(NamedTuple):
    """A corner of a piecewise linear ramp."""

    time: float
    velocity: float
    travel: float
    """Integral of the velocity up to here."""


class Smoother:
    """Moving average of one axis's ramp over the time in which its acceleration builds up.

    A ramp of acceleration A, averaged over A/J, has the jerk J. As an average of feasible
    velocities, the result satisfies every limit that they satisfy.

    Source: Biagiotti and Melchiorri, "FIR filters for online trajectory planning with time- and
    frequency-domain specifications", Control Engineering Practice 20 (2012), section 2; here in
    continuous time, for commands that change at any time (see :meth:`rates`).
    """

    def __init__(self, window: float, jerk: float, velocity: float = 0.0) -> None:
        """Start at a constant velocity.

        Args:
            window: length of the average [s]; at least the max acceleration divided by ``jerk``.
                With 0 the ramp is unchanged.
            jerk: limit, may be infinite.
            velocity: initial velocity.
        """
        self.window = window
        self._change = jerk * window if window > 0.0 else math.inf
        self._start(velocity)

    def _start(self, velocity: float) -> None:
        self._ramp = deque((_Corner(0.0, velocity, 0.0),))
        self._steady_since = -math.inf

    def rates(self, dt: float) -> tuple[float, float]:
        """Return the min and max acceleration of the ramp for the next ``dt`` [s].

        The average's jerk is the ramp's acceleration minus that of one window ago, divided by the
        window. Zero is always allowed.
        """
        lower, upper = -self._change, self._change
        if len(self._ramp) == 1 or math.isinf(self._change):
            return lower, upper
        end = self._ramp[-1].time - self.window + dt
        corners = iter(self._ramp)
        begin = next(corners)
        for corner in corners:
            if begin.time >= end:
                break
            time, change = corner.time - begin.time, corner.velocity - begin.velocity
            begin = corner
            if time < INSTANT:
                continue
            past = min(max(change / time, -self._change), self._change)
            lower, upper = max(lower, past - self._change), min(upper, past + self._change)
        return lower, upper

    def advance(self, velocity: float, time: float) -> None:
        """Continue the ramp linearly to ``velocity`` in a time [s]; 0 is a jump."""
        last = self._ramp[-1]
        if velocity == last.velocity and time == 0.0:
            return
        now = last.time + time
        if velocity != last.velocity:
            self._steady_since = now
        elif now - self._steady_since >= self.window:
            self._start(velocity)
            return
        travel = last.travel + 0.5 * (last.velocity + velocity) * time
        self._ramp.append(_Corner(now, velocity, travel))
        while self._ramp[1].time <= now - self.window and len(self._ramp) > 2:
            self._ramp.popleft()

    @property
    def mean(self) -> float:
        """Average of the ramp's velocity over the current window [m/s or rad/s]."""
        newest = self._ramp[-1]
        if len(self._ramp) == 1 or self.window == 0.0:
            return newest.velocity
        return (newest.travel - self._travel(newest.time - self.window)) / self.window

    def _travel(self, time: float) -> float:
        """Return the integral of the velocity until ``time``, not after the second corner."""
        first, second = self._ramp[0], self._ramp[1]
        since = time - first.time
        if since <= 0.0:
            return first.travel + first.velocity * since
        rise = (second.velocity - first.velocity) / (second.time - first.time)
        return first.travel + (first.velocity + 0.5 * rise * since) * since


class _AxisMove:
    """Change of one axis from a velocity to another."""

    def __init__(
        self,
        axis: int,
        start: float,
        goal: float,
        limits: BodyAxisLimits,
        rates: tuple[float, float],
    ) -> None:
        self.axis, self.goal = axis, goal
        self._start, self._limits, self._rates = start, limits, rates
        self.change = goal - start
        self._braking = start * self.change < 0.0
        self.rest = self._rest = -start / self.change if self._braking else math.inf
        """Fraction of the change at which the axis passes through zero; 1 or more: not within it.
        """

    def share_rate(self) -> float:
        """Return the max rate of the fraction at the current velocity [1/s]."""
        limits = self._limits
        limit = limits.fall(self._start) if self._braking else limits.rise(self.change)
        allowed = self._rates[1] if self.change > 0.0 else -self._rates[0]
        return max(0.0, min(limit, allowed)) / abs(self.change)

    def at(self, share: float) -> float:
        """Return the velocity at a fraction of the change."""
        if share == self._rest:  # also where the goal is beyond zero by less than rounding
            return 0.0
        return self.goal if share >= 1.0 else self._start + share * self.change

    def pass_rest(self) -> None:
        """Record that the axis accelerates from here on."""
        self._braking, self.rest = False, math.inf


class _Pause:
    """Delays the reversal of an axis while its smoothed velocity lags.

    Otherwise the average of hard braking and the start in the other direction would accelerate at
    the braking limit.
    """

    def __init__(self) -> None:
        self.left = 0.0
        """Remaining waiting time [s]."""
        self.direction = 0.0
        """Direction of motion before the stop."""

    def holds(self, now: float, goal: float) -> bool:
        """Return whether an axis that changes from ``now`` to ``goal`` must wait."""
        return self.left > 0.0 and now == 0.0 and goal * self.direction < 0.0


class TwistLimiter:
    """Limits twists of the body, step by step.

    The twist moves along a straight line to the commanded one (see :class:`BaseLimits`), at the
    rate of the slowest axis; with jerk limits, the result is the moving average of that ramp
    (:class:`Smoother`). Both stay within the velocity limits.
    """

    def __init__(
        self, limits: BaseLimits, wheel_rates: Callable[[Twist2], Array] | None = None
    ) -> None:
        """Start at rest.

        Args:
            limits: limits of the body and the wheels.
            wheel_rates: linear map from an acceleration of the body to wheel accelerations
                [rad/s^2]; None: wheel accelerations are not limited here.
        """
        self.limits = limits
        self._wheel_rates = wheel_rates if math.isfinite(limits.wheel_acceleration) else None
        windows = [a.steepest / a.jerk if math.isfinite(a.jerk) else 0.0 for a in limits.axes]
        apart = limits.clip_axes and self._wheel_rates is None
        self._windows = windows if apart else [max(windows)] * 3
        self.start(Twist2())

    def start(self, twist: Twist2) -> None:
        """Start at a constant twist."""
        self.before = twist
        """Result of the last step."""
        self._ramp = twist
        self._smoothers = tuple(
            Smoother(window, axis.jerk, velocity)
            for axis, window, velocity in zip(self.limits.axes, self._windows, twist, strict=True)
        )
        self._pauses = (_Pause(), _Pause(), _Pause())

    def step(self, desired: Twist2, dt: float) -> Twist2:
        """Return the current twist.

        Args:
            desired: the commanded twist, finite.
            dt: time since the last step [s]; unless it is above 0 nothing changes.
        """
        if not dt > 0.0:
            return self.before
        desired = self.limits.within_velocity(desired)
        for pause in self._pauses:
            pause.left = max(0.0, pause.left - dt)
        if self.limits.clip_axes:
            self._axes_apart(desired, dt)
        else:
            self._advance(self._along(desired, dt, (0, 1, 2)), (0, 1, 2))
        self.before = Twist2(*(smoother.mean for smoother in self._smoothers))
        return self.before

    def _axes_apart(self, desired: Twist2, dt: float) -> None:
        """Move each axis separately; the wheels' accelerations still apply to all of them."""
        now, profiles = self._ramp, [self._along(desired, dt, (axis,)) for axis in range(3)]
        goal = [profile[-1][1][axis] for axis, profile in enumerate(profiles)]
        if self._wheel_rates is not None:
            change = [g - v for v, g in zip(now, goal, strict=True)]
            share = min(1.0, self._wheels_share_rate(change) * dt)
            short = [
                g if share == 1.0 else v + share * (g - v) for v, g in zip(now, goal, strict=True)
            ]
            profiles = [[(dt, short)]] * 3
        for axis, profile in enumerate(profiles):
            self._advance(profile, (axis,))

    def _advance(self, profile: Profile, axes: Sequence[int]) -> None:
        """Advance the ramps of some axes."""
        ramp = list(self._ramp)
        for axis in axes:
            for time, velocities in profile:
                self._smoothers[axis].advance(velocities[axis], time)
            ramp[axis] = profile[-1][1][axis]
        self._ramp = Twist2(*ramp)

    def _wheels_share_rate(self, change: Sequence[float]) -> float:
        """Return the max rate of a twist change permitted by the wheels, as a fraction [1/s]."""
        if self._wheel_rates is None or not any(change):
            return math.inf
        fastest = float(abs(self._wheel_rates(Twist2(*change))).max(initial=0.0))
        return self.limits.wheel_acceleration / fastest if fastest > 0.0 else math.inf

    def _share_rate(self, moves: Sequence[_AxisMove]) -> float:
        """Return the max common rate of some axes, as a fraction of their changes [1/s]."""
        rate = min(move.share_rate() for move in moves)
        if self._wheel_rates is None or self.limits.clip_axes:
            return rate
        change = [0.0, 0.0, 0.0]
        for move in moves:
            change[move.axis] = move.change
        return min(rate, self._wheels_share_rate(change))

    def _along(self, desired: Twist2, dt: float, axes: Sequence[int]) -> Profile:
        """Return the common motion of some axes towards ``desired`` in ``dt`` [s].

        The rate is that of the slowest axis. It changes where an axis passes through zero: there
        braking ends and acceleration begins.
        """
        now, profile = list(self._ramp), []
        moves = [
            _AxisMove(i, now[i], desired[i], self.limits.axes[i], self._smoothers[i].rates(dt))
            for i in axes
            if now[i] != desired[i] and not self._pauses[i].holds(now[i], desired[i])
        ]
        done, left = 0.0, dt
        while moves and done < 1.0 and left > 0.0:
            rate = self._share_rate(moves)
            until = min(1.0, *(move.rest for move in moves), 1.0)
            if rate * left < until - done:
                done, time = done + rate * left, left
            else:
                done, time = until, (until - done) / rate if until > done else 0.0
            left -= time
            for move in moves:
                now[move.axis] = move.at(done)
                if done >= move.rest:
                    move.pass_rest()
                    self._stood(move.axis)
            profile.append((time, now.copy()))
            moves = [m for m in moves if not self._pauses[m.axis].holds(now[m.axis], m.goal)]
        profile.append((max(left, 0.0), now))
        return profile

    def _stood(self, axis: int) -> None:
        """Record that an axis came to rest."""
        if not self.limits.axes[axis].even and self._windows[axis] > 0.0:
            pause = self._pauses[axis]
            pause.left, pause.direction = self._windows[axis], self._ramp[axis]


class SteeredLimiter:
    """Limits twists of a base whose curvature is given by its steering.

    The velocity is ramped; the steering moves at its own rate. If yaw rate or wheels would exceed
    their rate limits, first the velocity is adapted within its limits, then the steering. As fixed
    steering can satisfy every limit, all limits are satisfied except jerk limits while the velocity
    is adapted.
    """

    def __init__(self, limits: BaseLimits, base: WheeledBase) -> None:
        self.limits = limits
        self._base = base
        self._speed = TwistLimiter(BaseLimits(x=limits.x))
        self.start(Twist2())

    def start(self, twist: Twist2) -> None:
        """Start at a constant twist."""
        self.before = twist
        """Result of the last step."""
        self._speed.start(Twist2(twist.vx))

    def step(self, desired: Twist2, steering: Array, dt: float) -> BaseCommand:
        """Return the current references.

        Args:
            desired: the commanded twist, as returned by ``nearest_twist`` of the base.
            steering: current angles [rad], shape (steering joints,).
            dt: time since the last step [s]; unless it is above 0 nothing changes.
        """
        base, lim = self._base, self.limits
        if not dt > 0.0:
            return BaseCommand(self.before, base.wheels_from_twist(self.before), steering)
        before = self.before
        wheels_before = base.wheels_from_twist(before)
        slowest, fastest = lim.x.reach(before.vx, dt)
        ramped = self._speed.step(Twist2(desired.vx), dt).vx
        # Reverse along the current curve: earlier steering would yaw in the wrong direction.
        for share in SHARES if before.vx * desired.vx >= 0.0 else (0.0,):
            angles = base.steer(desired, steering, dt, share) if share > 0.0 else steering
            unit = base.twist_along(Twist2(1.0), angles)
            low, high = self._speeds(unit, base.wheels_from_twist(unit), wheels_before, dt)
            low, high = max(low, slowest), min(high, fastest)
            if low <= high:
                break
        else:
            # Limits were reduced during the motion: approach them within the previous rate limits.
            low = high = min(max(ramped, slowest), fastest)
        speed = min(max(ramped, low), high)
        self.before = unit.scaled(speed)
        if speed != ramped:
            self._speed.start(Twist2(speed))
        return BaseCommand(self.before, base.wheels_from_twist(self.before), angles)

    def _speeds(
        self, unit: Twist2, wheels: Array, wheels_before: Array, dt: float
    ) -> tuple[float, float]:
        """Return the min and max velocity [m/s] permitted by yaw rate and wheels.

        Args:
            unit: twist at a velocity of 1 m/s.
            wheels: wheel velocities at that twist [rad/s], shape (wheels,).
            wheels_before: current wheel velocities [rad/s], shape (wheels,).
            dt: duration of the step [s].
        """
        lim = self.limits
        bounds = [
            (lim.yaw.reach(self.before.wz, dt), unit.wz),
            *self._wheels(wheels, wheels_before, dt),
        ]
        bounds.append(((-lim.yaw.backward, lim.yaw.forward), unit.wz))
        return _common(bounds)

    def _wheels(
        self, wheels: Array, before: Array, dt: float
    ) -> Iterable[tuple[tuple[float, float], float]]:
        top, change = self.limits.wheel_velocity, self.limits.wheel_acceleration * dt
        if math.isinf(top) and math.isinf(change):
            return
        low = np.maximum(before - change, -top).tolist()
        high = np.minimum(before + change, top).tolist()
        yield from zip(zip(low, high, strict=True), wheels.tolist(), strict=True)


def _common(bounds: Iterable[tuple[tuple[float, float], float]]) -> tuple[float, float]:
    """Return the range of factors for which every rate is within its bounds."""
    lower, upper = -math.inf, math.inf
    for (low, high), rate in bounds:
        if rate > 0.0:
            lower, upper = max(lower, low / rate), min(upper, high / rate)
        elif rate < 0.0:
            lower, upper = max(lower, high / rate), min(upper, low / rate)
        elif not low <= 0.0 <= high:
            return math.inf, -math.inf
    return lower, upper


@dataclass(frozen=True, kw_only=True)
class CommandShape:
    """Preprocessing of a command; a limit of 0 or NaN is not set.

    Unlike the limits of the body's axes, which scale a twist as a whole, these treat translation
    and rotation separately.

    Raises:
        InvalidConfig: a gain that is negative or not finite, or an infinite limit.
    """

    linear_gain: float = setting(
        1.0, doc="Gain applied to the linear velocity command.", ge=0.0, le=1000.0
    )
    angular_gain: float = setting(
        1.0, doc="Gain applied to the angular velocity command.", ge=0.0, le=1000.0
    )
    max_linear_speed: float = setting(
        math.nan,
        doc="Max norm of the linear velocity; faster commands are scaled down in their direction. "
        "0 or NaN: unlimited.",
        unit="m/s",
        nan=True,
    )
    max_angular_speed: float = setting(
        math.nan,
        doc="Max yaw rate, limited separately from the linear velocity; 0 or NaN: unlimited.",
        unit="rad/s",
        nan=True,
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def shaped(self, twist: Twist2) -> Twist2:
        """Return a finite twist times the gains, within the speed limits."""
        vx, vy = twist.vx * self.linear_gain, twist.vy * self.linear_gain
        wz = twist.wz * self.angular_gain
        speed, fastest = math.hypot(vx, vy), bound_above_zero(self.max_linear_speed)
        if speed > fastest:
            vx, vy = vx * (fastest / speed), vy * (fastest / speed)
        turn = bound_above_zero(self.max_angular_speed)
        return Twist2(vx, vy, min(max(wz, -turn), turn))
