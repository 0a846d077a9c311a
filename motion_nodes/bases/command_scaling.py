# SPDX-License-Identifier: Apache-2.0
"""Gains and velocity limits applied to a command first."""

from __future__ import annotations

import math
from dataclasses import dataclass

from motion_nodes.bases.base import Twist2
from motion_nodes.bases.base_limits import bound, check_finite
from motion_nodes.errors import InvalidConfig


@dataclass(frozen=True, kw_only=True)
class CommandShape:
    """Preprocessing of a command; a limit of 0 or NaN is not set.

    Unlike the limits of the body's axes, which scale a twist as a whole, these treat translation
    and rotation separately.

    Raises:
        InvalidConfig: a gain that is negative or not finite, or an infinite limit.
    """

    linear_gain: float = 1.0
    """Factor on vx and vy."""
    angular_gain: float = 1.0
    """Factor on wz."""
    max_linear_speed: float = math.nan
    """Max norm of vx and vy [m/s]; a faster command is scaled in its own direction."""
    max_angular_speed: float = math.nan
    """Max yaw rate [rad/s]."""

    def __post_init__(self) -> None:
        """Validate the numbers."""
        check_finite(self)
        for name in ("linear_gain", "angular_gain"):
            value = getattr(self, name)
            if not value >= 0.0:
                raise InvalidConfig(f"{name} is {value}; it must be a finite number, 0 or above")

    def shaped(self, twist: Twist2) -> Twist2:
        """Return a finite twist times the gains, within the speed limits."""
        vx, vy = twist.vx * self.linear_gain, twist.vy * self.linear_gain
        wz = twist.wz * self.angular_gain
        speed, fastest = math.hypot(vx, vy), bound(self.max_linear_speed)
        if speed > fastest:
            vx, vy = vx * (fastest / speed), vy * (fastest / speed)
        turn = bound(self.max_angular_speed)
        return Twist2(vx, vy, min(max(wz, -turn), turn))
