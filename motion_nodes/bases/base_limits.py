# SPDX-License-Identifier: Apache-2.0
"""Limits of a base: of its body along each axis, and of its wheels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from motion_nodes.bases.base import Twist2
from motion_nodes.errors import InvalidConfig
from motion_nodes.model.setting import check_settings, setting


def given(limit: float) -> bool:
    """Return whether a limit is set: NaN means that it is not; 0 is a limit of zero."""
    return not math.isnan(limit)


def bound(*limits: float) -> float:
    """Return the magnitude of the first limit that is set [SI units, m, s], else infinity."""
    return next((abs(limit) for limit in limits if given(limit)), math.inf)


def bound_above_zero(*limits: float) -> float:
    """Return the magnitude of the first limit that is neither 0 nor NaN, else infinity.

    For braking, as a base that must not brake could not be stopped, and for settings of other
    systems in which 0 means unlimited.
    """
    return bound(*(limit if limit != 0.0 else math.nan for limit in limits))


def _limit(rate: str, doc: str) -> Any:
    """Return the field of a limit; ``rate`` completes its units, such as ``/s^2``."""
    return setting(math.nan, doc=doc, unit=f"m{rate} or rad{rate}", nan=True)


@dataclass(frozen=True, kw_only=True)
class BodyAxisLimits:
    """Limits of one body axis; NaN means not set, and signs are ignored.

    The names are those of ros2_controllers, where limits of the opposite direction and of braking
    are negative numbers. A velocity, acceleration or jerk of 0 is a limit of zero: the axis does
    not move in that direction, and comes to rest if it does.

    Raises:
        InvalidConfig: an infinite limit, or a jerk limit without a velocity or acceleration limit.
    """

    max_velocity: float = _limit(
        "/s", "Max velocity along this axis; 0: no motion, NaN: unlimited."
    )
    min_velocity: float = _limit(
        "/s",
        "Max velocity in the negative direction, as a magnitude (the sign is ignored); 0: no "
        "motion in that direction, NaN: same as max_velocity.",
    )
    max_acceleration: float = _limit(
        "/s^2", "Max acceleration while speeding up; 0: no motion, NaN: unlimited."
    )
    max_deceleration: float = _limit(
        "/s^2", "Max deceleration while slowing down; 0 or NaN: same as max_acceleration."
    )
    max_acceleration_reverse: float = _limit(
        "/s^2",
        "Max acceleration while speeding up in the negative direction; 0: no motion in that "
        "direction, NaN: same as max_acceleration.",
    )
    max_deceleration_reverse: float = _limit(
        "/s^2",
        "Max deceleration while slowing down from motion in the negative direction; 0 or NaN: same "
        "as max_deceleration.",
    )
    max_jerk: float = _limit("/s^3", "Max jerk; 0: no motion, NaN: unlimited.")
    min_jerk: float = _limit(
        "/s^3",
        "Max jerk in the negative direction; the smaller of min_jerk and max_jerk is used. 0: no "
        "motion, NaN: same as max_jerk.",
    )

    def __post_init__(self) -> None:
        """Validate the numbers."""
        check_settings(self)
        if math.isfinite(self.jerk) and math.isinf(self.steepest):
            raise InvalidConfig(
                "max_jerk requires max_acceleration or max_velocity of the same axis",
                field="max_jerk",
            )

    @cached_property
    def forward(self) -> float:
        """Max positive velocity [m/s or rad/s]."""
        held = 0.0 in (self.max_acceleration, self._least_jerk)
        return 0.0 if held else bound(self.max_velocity)

    @cached_property
    def backward(self) -> float:
        """Max velocity in the opposite direction, as a positive number [m/s or rad/s]."""
        rise = bound(self.max_acceleration_reverse, self.max_acceleration)
        held = 0.0 in (rise, self._least_jerk)
        return 0.0 if held else bound(self.min_velocity, self.max_velocity)

    @cached_property
    def jerk(self) -> float:
        """Max rate of change of the acceleration [m/s^3 or rad/s^3]."""
        return self._least_jerk or math.inf

    @property
    def _least_jerk(self) -> float:
        return min(bound(self.max_jerk), bound(self.min_jerk))

    @cached_property
    def _default(self) -> float:
        """Default acceleration: that of a jerk-limited change between both max velocities."""
        change = bound(self.max_velocity) + bound(self.min_velocity, self.max_velocity)
        # An axis that is held comes to rest within a second.
        return math.sqrt(change * self.jerk) if change > 0.0 else self.jerk

    @cached_property
    def _rise(self) -> tuple[float, float]:
        # An axis whose acceleration is 0 is held by its velocity limits.
        rise = min(bound_above_zero(self.max_acceleration), self._default)
        return rise, min(bound_above_zero(self.max_acceleration_reverse, rise), self._default)

    @cached_property
    def _fall(self) -> tuple[float, float]:
        rise, rise_back = self._rise
        fall = bound_above_zero(self.max_deceleration, rise)
        return fall, bound_above_zero(
            self.max_deceleration_reverse, self.max_deceleration, rise_back
        )

    @cached_property
    def steepest(self) -> float:
        """The maximum of all accelerations [m/s^2 or rad/s^2]."""
        return max(*self._rise, *self._fall)

    @cached_property
    def even(self) -> bool:
        """True if all accelerations are equal."""
        return min(*self._rise, *self._fall) == self.steepest

    def velocity(self, desired: float) -> float:
        """Return a velocity clamped to the limits.

        Args:
            desired: velocity [m/s or rad/s].
        """
        return min(max(desired, -self.backward), self.forward)

    def rise(self, direction: float) -> float:
        """Return the max acceleration while the magnitude increases [m/s^2 or rad/s^2].

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

    Body limits apply to all axes together: the twist is scaled to within the velocity limits, and
    changes along a straight line of twists, at the rate of the slowest axis. Diagonal motions thus
    remain straight, and the curvature is constant while the base starts and stops.
    """

    x: BodyAxisLimits = field(default_factory=BodyAxisLimits)
    """Longitudinal axis."""
    y: BodyAxisLimits = field(default_factory=BodyAxisLimits)
    """Lateral axis."""
    yaw: BodyAxisLimits = field(default_factory=BodyAxisLimits)
    """Yaw axis."""
    clip_axes: bool = setting(
        False,
        doc="Limit each axis of the twist separately, which changes the curvature, instead of "
        "scaling the whole twist.",
    )
    max_wheel_velocity: float = setting(
        math.nan,
        doc="Max angular velocity of each wheel; 0: no motion, NaN: unlimited.",
        unit="rad/s",
        nan=True,
    )
    max_wheel_acceleration: float = setting(
        math.nan,
        doc="Max angular acceleration of each wheel; 0: no motion, NaN: unlimited.",
        unit="rad/s^2",
        nan=True,
    )
    clip_wheels: bool = setting(
        False,
        doc="Limit each wheel separately, which changes the curvature, instead of scaling all "
        "wheels.",
    )

    def __post_init__(self) -> None:
        """Validate the limits of the wheels."""
        check_settings(self)

    @cached_property
    def axes(self) -> tuple[BodyAxisLimits, BodyAxisLimits, BodyAxisLimits]:
        """In the order of a twist: x, y, yaw."""
        return self.x, self.y, self.yaw

    @cached_property
    def wheel_velocity(self) -> float:
        """Max velocity of a wheel [rad/s], or infinity."""
        return 0.0 if self.max_wheel_acceleration == 0.0 else bound(self.max_wheel_velocity)

    @cached_property
    def wheel_acceleration(self) -> float:
        """Max acceleration of a wheel [rad/s^2], or infinity."""
        return bound_above_zero(self.max_wheel_acceleration)

    def within_velocity(self, desired: Twist2) -> Twist2:
        """Return a twist within the velocity limits of the body, scaled as a whole.

        A component whose limit is 0 is dropped, which does not stop the others.

        Args:
            desired: twist in the base frame.
        """
        x, y, yaw = self.axes
        desired = Twist2(*(
            v if axis.velocity(v) != 0.0 else 0.0
            for axis, v in zip(self.axes, desired, strict=True)
        ))  # fmt: skip
        clipped = Twist2(x.velocity(desired.vx), y.velocity(desired.vy), yaw.velocity(desired.wz))
        if self.clip_axes or clipped == desired:
            return clipped
        scaled = desired.scaled(
            min(c / v for c, v in zip(clipped, desired, strict=True) if v != 0.0)
        )
        # Rounding of the scaling may exceed a limit.
        return Twist2(x.velocity(scaled.vx), y.velocity(scaled.vy), yaw.velocity(scaled.wz))
