# SPDX-License-Identifier: Apache-2.0
"""Gains and velocity limits, the first step of the processing of a command."""

from __future__ import annotations

import math
from dataclasses import dataclass

from motion_nodes.bases.base import Twist2
from motion_nodes.bases.base_limits import bound_above_zero
from motion_nodes.model.setting import check_settings, setting


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
        """Validate the numbers."""
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
