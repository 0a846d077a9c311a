# SPDX-License-Identifier: Apache-2.0
"""Ramps of the body twist, with preserved direction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from motion_nodes.bases.base import Twist2
from motion_nodes.bases.base_limits import BaseLimits, BodyAxisLimits
from motion_nodes.bases.jerk_limiter import Smoother
from motion_nodes.typing import Array

Profile = list[tuple[float, list[float]]]
"""Segments of a ramp: duration of each [s], and the velocities (x, y, yaw) at its end."""


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
