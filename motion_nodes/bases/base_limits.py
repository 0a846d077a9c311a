# SPDX-License-Identifier: Apache-2.0
"""Limits of a base: of its body along each axis, and of its wheels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from functools import cached_property

from motion_nodes.bases.base import Twist2
from motion_nodes.errors import InvalidConfig


def given(limit: float) -> bool:
    """Return whether a limit is set: 0 and NaN mean that it is not."""
    return not math.isnan(limit) and limit != 0.0


def bound(*limits: float) -> float:
    """Return the magnitude of the first limit that is set, else infinity."""
    return next((abs(limit) for limit in limits if given(limit)), math.inf)


def check_finite(owner: object) -> None:
    """Refuse infinite numbers among a dataclass's fields: no limit is written as 0.

    Raises:
        InvalidConfig: naming the field.
    """
    for entry in fields(owner):  # type: ignore[arg-type]
        value = getattr(owner, entry.name)
        if isinstance(value, float) and math.isinf(value):
            raise InvalidConfig(f"{entry.name} is {value}; give a finite number, or 0 for no limit")


@dataclass(frozen=True, kw_only=True)
class BodyAxisLimits:
    """Limits of one body axis; 0 or NaN means not set, and signs do not matter.

    The names are those of ros2_controllers, which writes limits of the other direction and of
    braking as negative numbers.

    Raises:
        InvalidConfig: for an infinite limit, or a jerk limit where nothing bounds the acceleration.
    """

    max_velocity: float = math.nan
    """Forward, left or counter-clockwise [m/s or rad/s]."""
    min_velocity: float = math.nan
    """The other way; not set: as ``max_velocity``."""
    max_acceleration: float = math.nan
    """While the speed grows [m/s^2 or rad/s^2]."""
    max_deceleration: float = math.nan
    """While the speed falls; not set: as ``max_acceleration``."""
    max_acceleration_reverse: float = math.nan
    """While the speed grows the other way; not set: as ``max_acceleration``."""
    max_deceleration_reverse: float = math.nan
    """While the speed of the other way falls; not set: as ``max_deceleration``."""
    max_jerk: float = math.nan
    """Rate of change of the acceleration [m/s^3 or rad/s^3]."""
    min_jerk: float = math.nan
    """The same for falling acceleration; the smaller one of both holds for both."""

    def __post_init__(self) -> None:
        """Check every number."""
        check_finite(self)
        if math.isfinite(self.jerk) and math.isinf(self.steepest):
            raise InvalidConfig(
                "max_jerk needs max_acceleration or max_velocity of its axis beside it"
            )

    @cached_property
    def forward(self) -> float:
        """Greatest positive velocity."""
        return bound(self.max_velocity)

    @cached_property
    def backward(self) -> float:
        """Greatest velocity the other way, as a positive number."""
        return bound(self.min_velocity, self.max_velocity)

    @cached_property
    def jerk(self) -> float:
        """Greatest rate of change of the acceleration."""
        return min(bound(self.max_jerk), bound(self.min_jerk))

    @cached_property
    def _default(self) -> float:
        """Acceleration where none is set: what a jerk limit lets happen between both top speeds."""
        return math.sqrt((self.forward + self.backward) * self.jerk)

    @cached_property
    def _rise(self) -> tuple[float, float]:
        rise = min(bound(self.max_acceleration), self._default)
        return rise, min(bound(self.max_acceleration_reverse, rise), self._default)

    @cached_property
    def _fall(self) -> tuple[float, float]:
        rise, rise_back = self._rise
        fall = bound(self.max_deceleration, rise)
        same = self.max_deceleration if given(self.max_deceleration) else rise_back
        return fall, bound(self.max_deceleration_reverse, same)

    @cached_property
    def steepest(self) -> float:
        """The greatest of all accelerations."""
        return max(*self._rise, *self._fall)

    @cached_property
    def even(self) -> bool:
        """True when all accelerations are the same."""
        return min(*self._rise, *self._fall) == self.steepest

    def velocity(self, wanted: float) -> float:
        """Return a velocity within the limits.

        Args:
            wanted: velocity [m/s or rad/s].
        """
        return min(max(wanted, -self.backward), self.forward)

    def rise(self, direction: float) -> float:
        """Return the max acceleration while the speed grows [m/s^2 or rad/s^2].

        Args:
            direction: sign of the velocity.
        """
        return self._rise[1 if direction < 0.0 else 0]

    def fall(self, direction: float) -> float:
        """Return the max deceleration [m/s^2 or rad/s^2].

        Args:
            direction: sign of the velocity.
        """
        return self._fall[1 if direction < 0.0 else 0]

    def reach(self, velocity: float, dt: float) -> tuple[float, float]:
        """Return the min and max velocity that one step can reach [m/s or rad/s].

        Args:
            velocity: before the step [m/s or rad/s].
            dt: duration of the step [s].
        """
        up = self._reach_up(velocity, dt, self.rise(1.0), self.fall(-1.0))
        return -self._reach_up(-velocity, dt, self.rise(-1.0), self.fall(1.0)), up

    @staticmethod
    def _reach_up(velocity: float, dt: float, rise: float, fall: float) -> float:
        if velocity >= 0.0:
            return velocity + rise * dt
        left = dt + velocity / fall
        if left < 0.0:
            return velocity + fall * dt
        # Without a limit, rise * 0 would be NaN.
        return rise * left if left > 0.0 else 0.0


@dataclass(frozen=True, kw_only=True)
class BaseLimits:
    """Limits of a whole base.

    Body limits act on all axes alike: the twist is scaled to within the velocity limits, and it
    changes along a straight line of twists, no faster than the axis that takes longest. So a
    diagonal stays straight, and a curve keeps its curvature while the base starts and stops.
    """

    x: BodyAxisLimits = field(default_factory=BodyAxisLimits)
    """Forward and backward."""
    y: BodyAxisLimits = field(default_factory=BodyAxisLimits)
    """Sideways."""
    yaw: BodyAxisLimits = field(default_factory=BodyAxisLimits)
    """Turning."""
    clip_axes: bool = False
    """Limit each body axis by itself, as ros2_controllers does; changes the curve driven."""
    max_wheel_velocity: float = math.nan
    """Of any wheel [rad/s]; 0 or NaN: not limited."""
    max_wheel_acceleration: float = math.nan
    """Of any wheel [rad/s^2]; 0 or NaN: not limited."""
    clip_wheels: bool = False
    """Clip each wheel by itself, which changes the curve driven, instead of scaling the twist."""

    def __post_init__(self) -> None:
        """Check the limits of the wheels."""
        check_finite(self)

    @cached_property
    def axes(self) -> tuple[BodyAxisLimits, BodyAxisLimits, BodyAxisLimits]:
        """In the order of a twist: x, y, yaw."""
        return self.x, self.y, self.yaw

    @cached_property
    def wheel_velocity(self) -> float:
        """Greatest speed of a wheel [rad/s], or infinity."""
        return bound(self.max_wheel_velocity)

    @cached_property
    def wheel_acceleration(self) -> float:
        """Greatest acceleration of a wheel [rad/s^2], or infinity."""
        return bound(self.max_wheel_acceleration)

    def within_velocity(self, wanted: Twist2) -> Twist2:
        """Return a twist within the velocity limits of the body, scaled as a whole.

        Args:
            wanted: twist in the base frame.
        """
        x, y, yaw = self.axes
        clipped = Twist2(x.velocity(wanted.vx), y.velocity(wanted.vy), yaw.velocity(wanted.wz))
        if self.clip_axes or clipped == wanted:
            return clipped
        scaled = wanted.scaled(min(c / v for c, v in zip(clipped, wanted, strict=True) if v != 0.0))
        # Scaling may round to just above a limit.
        return Twist2(x.velocity(scaled.vx), y.velocity(scaled.vy), yaw.velocity(scaled.wz))
