# SPDX-License-Identifier: Apache-2.0
"""Ramps of a base with steered wheels: velocity by limits, curvature by the steering."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from motion_nodes.bases.base import BaseCommand, Twist2, WheeledBase
from motion_nodes.bases.base_limits import BaseLimits
from motion_nodes.bases.twist_limiter import TwistLimiter
from motion_nodes.typing import Array

SHARES = (1.0, 0.5, 0.25, 0.125, 0.0)
"""Fractions of the max steering motion per step; the first within all limits is used."""


class SteeredLimiter:
    """Limits twists of a base whose curvature is given by its steering.

    The velocity is ramped; the steering moves at its own rate. If yaw rate or wheels would exceed
    their rate limits, first the velocity is adapted within its limits, then the steering. As fixed
    steering can satisfy every limit, all limits are satisfied except jerk limits while the velocity
    is adapted.
    """

    def __init__(self, limits: BaseLimits, base: WheeledBase) -> None:
        """Start at rest."""
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
            angles = base.steer(desired, steering, share * dt) if share > 0.0 else steering
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
