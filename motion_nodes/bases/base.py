# SPDX-License-Identifier: Apache-2.0
"""What every wheeled base can do, and the values that go in and out."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Twist2(NamedTuple):
    """Velocity of the base frame in itself (x forward, y left, yaw counter-clockwise)."""

    vx: float = 0.0
    """[m/s]"""
    vy: float = 0.0
    """[m/s]"""
    wz: float = 0.0
    """[rad/s]"""

    @property
    def finite(self) -> bool:
        """True when no component is NaN or infinite."""
        return math.isfinite(self.vx) and math.isfinite(self.vy) and math.isfinite(self.wz)

    def scaled(self, factor: float) -> Twist2:
        """Return the twist times a factor: same direction of travel, same curvature."""
        return Twist2(self.vx * factor, self.vy * factor, self.wz * factor)


class WheeledBase(Protocol):
    """Kinematics of a base: wheel speeds from a twist and the twist from wheel motion."""

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """Wheel joints, in the order of all wheel arrays."""
        ...

    def wheels_from_twist(self, twist: Twist2) -> Array:
        """Return wheel speeds [rad/s], shape (wheels,), that drive the base with ``twist``."""
        ...

    def twist_from_wheels(self, wheels: Array) -> Twist2:
        """Return the twist that wheel speeds [rad/s], shape (wheels,), drive the base with.

        The map is linear, so wheel angles [rad] give the path travelled [m, m, rad] in the
        body frame.
        """
        ...
