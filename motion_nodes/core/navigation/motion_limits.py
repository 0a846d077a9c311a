# SPDX-License-Identifier: Apache-2.0
"""Limits of base motion, velocity profiles of approaches, and ramps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from motion_nodes.core.bases.base import Twist2
from motion_nodes.settings import check_settings, setting

BaseKind = Literal["differential", "holonomic", "ackermann"]


@dataclass(frozen=True, kw_only=True)
class MotionLimits:
    """Limits of planned motion, all finite and above 0.

    Raises:
        InvalidConfig: any other value.
    """

    max_velocity: float = setting(doc="Max speed of travel.", unit="m/s", gt=0.0, le=100.0)
    max_acceleration: float = setting(doc="Max acceleration.", unit="m/s^2", gt=0.0, le=1000.0)
    max_deceleration: float = setting(
        doc="Max deceleration for goals, curves and stops; should be below the base "
        "controller's limit.",
        unit="m/s^2",
        gt=0.0,
        le=1000.0,
    )
    max_yaw_velocity: float = setting(doc="Max yaw rate.", unit="rad/s", gt=0.0, le=1000.0)
    max_yaw_acceleration: float = setting(
        doc="Max yaw acceleration.", unit="rad/s^2", gt=0.0, le=10000.0
    )
    max_yaw_deceleration: float = setting(
        doc="Max yaw deceleration.", unit="rad/s^2", gt=0.0, le=10000.0
    )
    max_lateral_acceleration: float = setting(
        0.5,
        doc="Max lateral (centripetal) acceleration; reduces the speed in curves.",
        unit="m/s^2",
        gt=0.0,
        le=1000.0,
    )

    def __post_init__(self) -> None:
        """Validate the numbers."""
        check_settings(self)

    def velocity_in_curve(self, curvature: float) -> float:
        """Return the max velocity [m/s] at a curvature [1/m] of either sign.

        Source: ``v^2 |k| <= a_lateral`` and ``v |k| <= yaw rate``.
        """
        k = abs(curvature)
        if k == 0.0:
            return self.max_velocity
        turning = min(math.sqrt(self.max_lateral_acceleration / k), self.max_yaw_velocity / k)
        return min(self.max_velocity, turning)


def approach_speed(distance: float, top: float, deceleration: float, gain: float) -> float:
    """Return the velocity of an approach to a point without overshoot.

    Far away this is constant deceleration; near the point, where a delay of the loop would cause
    overshoot, the velocity is ``gain * distance``. Both parts meet with the same value and slope,
    and the deceleration never exceeds ``deceleration``.

    Args:
        distance: distance to the point, not negative [m or rad].
        top: max velocity.
        deceleration: max deceleration.
        gain: gain [1/s]; its product with the loop's delay should be below 0.5.

    Source: ``v dv/ds = -deceleration`` from ``s = deceleration/gain^2`` on, where its slope is
    ``gain``; the continuation shifts the root of ``v^2 = 2 a s`` by half of that distance.
    """
    join = deceleration / (gain * gain)
    if distance <= join:
        return min(gain * distance, top)
    return min(math.sqrt(2.0 * deceleration * (distance - 0.5 * join)), top)


def approach(error: float, top: float, deceleration: float, gain: float) -> float:
    """Return the signed velocity that reduces an error [m or rad] to zero; see approach_speed."""
    return math.copysign(approach_speed(abs(error), top, deceleration, gain), error)


class TwistRamp:
    """Ramps the twist within the limits; (vx, vy) change as one vector.

    While a holonomic base turns, its velocity over ground is constant and rotates in the base
    frame, which is not an acceleration. A car's yaw rate is proportional to its velocity: a new
    curvature applies from the first step on, and the last one until the car is at rest.
    """

    def __init__(self, limits: MotionLimits, kind: BaseKind = "differential") -> None:
        """Start at rest."""
        self.limits = limits
        self._kind = kind
        self._curvature = 0.0
        self.twist = Twist2()
        """Result of the last step."""

    @property
    def resting(self) -> bool:
        """True when the twist is zero."""
        return self.twist == Twist2()

    def step(self, desired: Twist2, dt: float) -> Twist2:
        """Return the twist closest to ``desired`` that is reachable in ``dt`` [s]."""
        if dt > 0.0:
            lim, now = self.limits, self.twist
            if self._kind == "holonomic":
                c, s = math.cos(now.wz * dt), math.sin(now.wz * dt)
                now = Twist2(c * now.vx + s * now.vy, c * now.vy - s * now.vx, now.wz)
            vx, vy = _within(desired.vx, desired.vy, lim.max_velocity)
            vx, vy = _toward(
                (now.vx, now.vy),
                (vx, vy),
                lim.max_acceleration * dt,
                lim.max_deceleration * dt,
            )
            self.twist = Twist2(vx, vy, self._yaw_rate(desired, now.wz, vx, dt))
        return self.twist

    def _yaw_rate(self, desired: Twist2, before: float, vx: float, dt: float) -> float:
        lim = self.limits
        if self._kind == "ackermann":
            if desired.vx != 0.0:
                self._curvature = desired.wz / desired.vx
            return self._curvature * vx
        wz, _ = _within(desired.wz, 0.0, lim.max_yaw_velocity)
        rise, fall = lim.max_yaw_acceleration * dt, lim.max_yaw_deceleration * dt
        return _toward((before, 0.0), (wz, 0.0), rise, fall)[0]


def _within(x: float, y: float, bound: float) -> tuple[float, float]:
    length = math.hypot(x, y)
    return (x, y) if length <= bound else (x * bound / length, y * bound / length)


def _toward(
    now: tuple[float, float], desired: tuple[float, float], rise: float, fall: float
) -> tuple[float, float]:
    """Return the vector closest to ``desired`` that one step can reach."""
    dx, dy = desired[0] - now[0], desired[1] - now[1]
    change, before = math.hypot(dx, dy), math.hypot(*now)
    against = now[0] * desired[0] + now[1] * desired[1] <= 0.0 < before
    if against and before > fall:
        return _within(now[0], now[1], before - fall)
    if against:
        # Reversal: after the stop, the rest of the step accelerates.
        return _within(desired[0], desired[1], rise * (1.0 - before / fall))
    step = fall if math.hypot(*desired) < before else rise
    if change <= step:
        return desired
    return now[0] + dx * step / change, now[1] + dy * step / change
