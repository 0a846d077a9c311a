# SPDX-License-Identifier: Apache-2.0
"""Limits of a base: speeds and accelerations of the body, speeds of the wheels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from motion_nodes.bases.base import Array, Twist2
from motion_nodes.errors import BadConfig


@dataclass(frozen=True, kw_only=True)
class AxisLimits:
    """Limits of one body axis; 0 or NaN means not limited, and signs do not matter."""

    max_velocity: float = math.nan
    """[m/s or rad/s]"""
    max_acceleration: float = math.nan
    """While the speed grows in its direction [m/s^2 or rad/s^2]."""
    max_deceleration: float = math.nan
    """While the speed falls or turns round; not given: as ``max_acceleration``."""

    def __post_init__(self) -> None:
        """Check every number."""
        for name in ("max_velocity", "max_acceleration", "max_deceleration"):
            value = getattr(self, name)
            if math.isinf(value):
                raise BadConfig(f"{name} is {value}; give a finite number, or 0 for no limit")

    def velocity(self, wanted: float) -> float:
        """Return ``wanted`` within the velocity limit."""
        limit = _bound(self.max_velocity)
        return min(max(wanted, -limit), limit)

    def step(self, wanted: float, before: float, dt: float) -> float:
        """Return the value nearest to ``wanted`` that one step of ``dt`` [s] can reach.

        Speeding up means a greater magnitude in the same direction; anything else is braking. A
        change of direction brakes to zero first and speeds up from there with what time is left.
        """
        rise = _bound(self.max_acceleration)
        fall = _bound(self.max_deceleration) if _given(self.max_deceleration) else rise
        if before != 0.0 and (wanted * before <= 0.0 or abs(wanted) < abs(before)):
            goal = wanted if wanted * before > 0.0 else 0.0
            needed = abs(before - goal)
            if fall * dt < needed:
                return before - math.copysign(fall * dt, before)
            if goal == wanted:
                return goal
            left = dt - (needed / fall if math.isfinite(fall) else 0.0)
            # Without a limit, rise * 0 would be NaN.
            return _toward(0.0, wanted, rise * left) if left > 0.0 else 0.0
        return _toward(before, wanted, rise * dt)


def _given(limit: float) -> bool:
    return not math.isnan(limit) and limit != 0.0


def _bound(limit: float) -> float:
    return abs(limit) if _given(limit) else math.inf


def _toward(start: float, goal: float, distance: float) -> float:
    if abs(goal - start) <= distance:
        return goal
    return start + math.copysign(distance, goal - start)


@dataclass(frozen=True, kw_only=True)
class BaseLimits:
    """Limits of a whole base."""

    x: AxisLimits = field(default_factory=AxisLimits)
    y: AxisLimits = field(default_factory=AxisLimits)
    yaw: AxisLimits = field(default_factory=AxisLimits)
    max_wheel_velocity: float = math.nan
    """Of any wheel [rad/s]; 0 or NaN: not limited."""
    clip_wheels: bool = False
    """Clip each wheel on its own (changes the curve driven) instead of scaling the twist."""

    def __post_init__(self) -> None:
        """Check the limit of the wheels."""
        if math.isinf(self.max_wheel_velocity):
            raise BadConfig(
                f"max_wheel_velocity is {self.max_wheel_velocity}; give a finite number, or 0 for "
                "no limit"
            )


class TwistLimiter:
    """Brings wanted twists within the limits, step by step."""

    def __init__(self, limits: BaseLimits) -> None:
        """Begin at rest."""
        self.limits = limits
        self.before = Twist2()
        """What the last step returned."""

    def reset(self) -> None:
        """Forget the motion: the base stands."""
        self.before = Twist2()

    def within_velocity(self, wanted: Twist2) -> Twist2:
        """Return the twist scaled, as a whole, to within the velocity limits of the body."""
        lim = self.limits
        scale = 1.0
        for axis, value in ((lim.x, wanted.vx), (lim.y, wanted.vy), (lim.yaw, wanted.wz)):
            if value != 0.0:
                scale = min(scale, abs(axis.velocity(value) / value))
        scaled = wanted.scaled(scale)
        # Scaling may round to just above a limit.
        return Twist2(
            lim.x.velocity(scaled.vx), lim.y.velocity(scaled.vy), lim.yaw.velocity(scaled.wz)
        )

    def step(self, wanted: Twist2, dt: float) -> Twist2:
        """Return the twist to drive now.

        Velocity limits scale the whole twist, so that the curve stays; acceleration limits act on
        each axis.

        Args:
            wanted: what was asked for, finite.
            dt: time since the last step [s]; unless it is above 0 nothing changes.
        """
        if not dt > 0.0:
            return self.before
        lim = self.limits
        wanted = self.within_velocity(wanted)
        self.before = Twist2(
            lim.x.step(wanted.vx, self.before.vx, dt),
            lim.y.step(wanted.vy, self.before.vy, dt),
            lim.yaw.step(wanted.wz, self.before.wz, dt),
        )
        return self.before

    def wheels(self, wheels: Array) -> Array:
        """Return wheel speeds [rad/s] within their limit, scaled together or clipped apart."""
        bound = _bound(self.limits.max_wheel_velocity)
        if self.limits.clip_wheels:
            return wheels.clip(-bound, bound)
        fastest = float(abs(wheels).max(initial=0.0))
        return wheels if fastest <= bound else wheels * (bound / fastest)
