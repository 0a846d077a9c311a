# SPDX-License-Identifier: Apache-2.0
"""Ramps of a base on steered wheels: its speed by limits, its curve by the steering."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from motion_nodes.bases.base import Array, BaseCommand, Twist2, WheeledBase
from motion_nodes.bases.base_limits import BaseLimits
from motion_nodes.bases.twist_limiter import TwistLimiter

SHARES = (1.0, 0.5, 0.25, 0.125, 0.0)
"""Of what the steering could move in a step; the first that all limits allow is taken."""


class SteeredLimiter:
    """Brings wanted twists within the limits of a base whose curvature its steering gives.

    The speed is ramped; the steering moves at its own pace. Where yaw rate or wheels would change
    faster than their limits, the speed gives way as far as its own limits allow, then the steering.
    Without moving the steering every limit can be kept, so together they always are; only a jerk
    limit does not hold where the speed gave way.
    """

    def __init__(self, limits: BaseLimits, base: WheeledBase) -> None:
        """Begin at rest."""
        self.limits = limits
        self._base = base
        self._speed = TwistLimiter(BaseLimits(x=limits.x))
        self.start(Twist2())

    def start(self, twist: Twist2) -> None:
        """Go on from a steady twist."""
        self.before = twist
        """What the last step returned."""
        self._speed.start(Twist2(twist.vx))

    def step(self, wanted: Twist2, steering: Array, dt: float) -> BaseCommand:
        """Return what to do now.

        Args:
            wanted: what the base is to drive, as its ``nearest_twist`` gives it.
            steering: angles now [rad], shape (steering joints,).
            dt: time since the last step [s]; unless it is above 0 nothing changes.
        """
        base, lim = self._base, self.limits
        if not dt > 0.0:
            return BaseCommand(self.before, base.wheels_from_twist(self.before), steering)
        before = self.before
        wheels_before = base.wheels_from_twist(before)
        slowest, fastest = lim.x.reach(before.vx, dt)
        ramped = self._speed.step(Twist2(wanted.vx), dt).vx
        # It turns round on the curve that it is on: steered before, it would yaw the wrong way.
        for share in SHARES if before.vx * wanted.vx >= 0.0 else (0.0,):
            angles = base.steer(wanted, steering, share * dt) if share > 0.0 else steering
            unit = base.twist_along(Twist2(1.0), angles)
            low, high = self._speeds(unit, base.wheels_from_twist(unit), wheels_before, dt)
            low, high = max(low, slowest), min(high, fastest)
            if low <= high:
                break
        else:
            # Limits were lowered under way: the new ones are met as soon as the old ways allow.
            low = high = min(max(ramped, slowest), fastest)
        speed = min(max(ramped, low), high)
        self.before = unit.scaled(speed)
        if speed != ramped:
            self._speed.start(Twist2(speed))
        return BaseCommand(self.before, base.wheels_from_twist(self.before), angles)

    def _speeds(
        self, unit: Twist2, wheels: Array, wheels_before: Array, dt: float
    ) -> tuple[float, float]:
        """Return the least and greatest speed [m/s] that yaw rate and wheels allow.

        Args:
            unit: twist at a speed of 1 m/s.
            wheels: speeds of the wheels with it.
            wheels_before: speeds of the wheels now.
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
    """Return between which factors every rate times the factor is within its bounds."""
    least, greatest = -math.inf, math.inf
    for (low, high), rate in bounds:
        if rate > 0.0:
            least, greatest = max(least, low / rate), min(greatest, high / rate)
        elif rate < 0.0:
            least, greatest = max(least, high / rate), min(greatest, low / rate)
        elif not low <= 0.0 <= high:
            return math.inf, -math.inf
    return least, greatest
