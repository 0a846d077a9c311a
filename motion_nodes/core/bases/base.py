# SPDX-License-Identifier: Apache-2.0
"""Interface of wheeled bases, with its commands, states and limits.

Limits are those of the body along each axis, and of the wheels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

NO_STEERING: Array = np.zeros(0)
"""Steering angles of a base without steering joints."""


class Twist2(NamedTuple):
    """Velocity of the base frame in itself (x forward, y left, yaw counter-clockwise)."""

    vx: float = 0.0
    """Longitudinal velocity [m/s]."""
    vy: float = 0.0
    """Lateral velocity [m/s]."""
    wz: float = 0.0
    """Yaw rate [rad/s]."""

    @property
    def finite(self) -> bool:
        """True when no component is NaN or infinite."""
        return math.isfinite(self.vx) and math.isfinite(self.vy) and math.isfinite(self.wz)

    def scaled(self, factor: float) -> Twist2:
        """Return the twist times a factor: same direction, same curvature.

        Args:
            factor: factor of all three components.
        """
        return Twist2(self.vx * factor, self.vy * factor, self.wz * factor)


def check_finite(twist: Twist2) -> None:
    """Check that all components of a twist are numbers.

    Raises:
        InvalidCommand: one is NaN or infinite.
    """
    if not twist.finite:
        raise InvalidCommand(f"twist {tuple(twist)} is not finite", field="twist")


def check_wheel_count(wheels: Array | Sequence[float], count: int) -> None:
    """Check that there is one value for each driven wheel, shape (n,).

    Raises:
        InvalidCommand: there are more or fewer.
    """
    if len(wheels) != count:
        raise InvalidCommand(
            f"{len(wheels)} wheel values given; the base has {count}", field="wheels"
        )


class WheeledBase(Protocol):
    """Kinematics of a base: wheel velocities from a twist and vice versa.

    A base with steered wheels also has steering joints; their effect on the twist is computed first
    (:meth:`steer`, then :meth:`twist_along`), so that wheel velocities always match the steering.
    """

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """Driven wheel joints, in the order of all wheel arrays."""
        ...

    @property
    def wheel_radii(self) -> Array:
        """Rolling radius of each driven wheel [m], shape (wheels,)."""
        ...

    @property
    def steering_names(self) -> tuple[str, ...]:
        """Steering joints, in the order of all steering arrays; empty without steered wheels."""
        ...

    def nearest_twist(self, twist: Twist2) -> Twist2:
        """Return the feasible twist closest to ``twist``.

        Raises:
            InvalidCommand: a twist that is not finite.
        """
        ...

    def steer(self, twist: Twist2, steering: Array, dt: float, share: float = 1.0) -> Array:
        """Return the steering angles [rad] one step towards those of ``twist``.

        Args:
            twist: the commanded twist, as returned by :meth:`nearest_twist`.
            steering: current angles [rad], shape (steering joints,).
            dt: duration of the step [s].
            share: fraction of the step's motion, 0 to 1.
        """
        ...

    def twist_along(self, twist: Twist2, steering: Array) -> Twist2:
        """Return ``twist`` with the curvature of the steering angles [rad]."""
        ...

    def wheels_from_twist(self, twist: Twist2) -> Array:
        """Return the wheel velocities [rad/s], shape (wheels,), of a twist."""
        ...

    def twist_from_wheels(self, wheels: Array, steering: Array = NO_STEERING) -> Twist2:
        """Return the twist of wheel velocities [rad/s], shape (wheels,).

        The map is linear in the wheels, so wheel angles [rad] give the displacement [m, m, rad] in
        the body frame. ``steering`` contains the steering angles of the motion [rad].
        """
        ...


class Unsteered:
    """Mixin for a base without steering."""

    @property
    def steering_names(self) -> tuple[str, ...]:
        """None."""
        return ()

    def steer(self, twist: Twist2, steering: Array, dt: float, share: float = 1.0) -> Array:
        """Return no angles [rad], shape (0,)."""
        return NO_STEERING

    def twist_along(self, twist: Twist2, steering: Array) -> Twist2:
        """Return the twist unchanged."""
        return twist


class BaseCommand(NamedTuple):
    """References of a base."""

    twist: Twist2
    """Twist given by wheels and steering."""
    wheels: Array
    """Wheel velocities [rad/s], shape (wheels,)."""
    steering: Array
    """Steering angles [rad], shape (steering joints,)."""


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
