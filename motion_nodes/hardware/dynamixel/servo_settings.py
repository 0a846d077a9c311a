# SPDX-License-Identifier: Apache-2.0
"""Settings of the driver of Dynamixel servos."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from motion_nodes.errors import InvalidConfig
from motion_nodes.hardware.servo_bus import REPLY_TIMEOUT, check_servo_ids
from motion_nodes.model.setting import check_settings, setting

COUNTS = 4096
"""Counts per revolution."""


@dataclass(frozen=True)
class DynamixelSettings:
    """The block ``hardware.settings``."""

    ids: dict[str, int]
    """Id of each joint's servo."""
    zero: dict[str, int] = field(default_factory=dict)
    """Zero position of a joint [counts]; default: the middle, 2048."""
    scale: dict[str, float] = field(default_factory=dict)
    """Transmission: motion of a joint per radian of its servo [rad or m]; -1 reverses it."""
    torque_per_count: dict[str, float] = field(default_factory=dict)
    """Effort of a joint per count of the servo's current [N m or N]; without it the effort is not
    measured."""
    baud_rate: int = setting(
        1_000_000, doc="Baud rate of the bus.", unit="bit/s", ge=9600, le=4_500_000
    )
    rate: float = setting(100.0, doc="Rate of the bus.", unit="Hz", gt=0.0, le=500.0)
    reply_timeout: float = setting(
        REPLY_TIMEOUT, doc="Max time to wait for a servo's answer.", unit="s", gt=0.0, le=1.0
    )
    watchdog: float = setting(
        0.2,
        doc="Timeout of the bus, after which the servos stop; 0: none.",
        unit="s",
        ge=0.0,
        le=2.5,
    )

    def __post_init__(self) -> None:
        """Check the settings."""
        check_settings(self)
        check_servo_ids(self.ids)
        for joint, value in (*self.scale.items(), *self.torque_per_count.items()):
            if not math.isfinite(value) or (joint in self.scale and self.scale[joint] == 0.0):
                raise InvalidConfig(f"{joint}: {value} is not a valid factor")

    @property
    def named_joints(self) -> tuple[str, ...]:
        """All joints in the settings."""
        return (*self.ids, *self.zero, *self.scale, *self.torque_per_count)

    def column(self, joint: str) -> tuple[float, float, float]:
        """Return zero [counts], scale and effort per count (NaN: not measured) of a joint."""
        zero = self.zero.get(joint, COUNTS // 2)
        return zero, self.scale.get(joint, 1.0), self.torque_per_count.get(joint, math.nan)
