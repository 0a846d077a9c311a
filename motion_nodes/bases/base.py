# SPDX-License-Identifier: Apache-2.0
"""What every wheeled base can do, and the values that go in and out."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NO_STEERING: Array = np.zeros(0)
"""Angles of no steering joints."""


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
        """Return the twist times a factor: same direction of travel, same curvature.

        Args:
            factor: of all three components.
        """
        return Twist2(self.vx * factor, self.vy * factor, self.wz * factor)


class WheeledBase(Protocol):
    """Kinematics of a base: wheel speeds from a twist and the twist from wheel motion.

    A base on steered wheels has steering joints too; what they do to the twist is settled first
    (:meth:`steer`, then :meth:`twist_along`), so that wheel speeds always fit the steering.
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
        """Steering joints, in the order of all steering arrays; empty where wheels do not steer."""
        ...

    def nearest_twist(self, twist: Twist2) -> Twist2:
        """Return the twist nearest to ``twist`` that the base can drive at all.

        Raises:
            InvalidCommand: for a twist that is not finite.
        """
        ...

    def steer(self, twist: Twist2, steering: Array, dt: float) -> Array:
        """Return steering angles [rad] on the way to those of ``twist``, one step on.

        Args:
            twist: what is to be driven, as :meth:`nearest_twist` gives it.
            steering: angles now [rad], shape (steering joints,).
            dt: time to move in [s].
        """
        ...

    def twist_along(self, twist: Twist2, steering: Array) -> Twist2:
        """Return ``twist`` with the curvature that the steering angles [rad] give it."""
        ...

    def wheels_from_twist(self, twist: Twist2) -> Array:
        """Return wheel speeds [rad/s], shape (wheels,), that drive the base with ``twist``."""
        ...

    def twist_from_wheels(self, wheels: Array, steering: Array = NO_STEERING) -> Twist2:
        """Return the twist that wheel speeds [rad/s], shape (wheels,), drive the base with.

        The map is linear in the wheels, so wheel angles [rad] give the path travelled
        [m, m, rad] in the body frame. ``steering`` are the angles [rad] meanwhile.
        """
        ...


class Unsteered:
    """The steering of a base that has none."""

    @property
    def steering_names(self) -> tuple[str, ...]:
        """None."""
        return ()

    def steer(self, twist: Twist2, steering: Array, dt: float) -> Array:
        """Return what there is: nothing."""
        return NO_STEERING

    def twist_along(self, twist: Twist2, steering: Array) -> Twist2:
        """Return the twist as it is."""
        return twist


class BaseCommand(NamedTuple):
    """What a base is to do now."""

    twist: Twist2
    """The twist that wheels and steering give."""
    wheels: Array
    """Wheel speeds [rad/s], shape (wheels,)."""
    steering: Array
    """Steering angles [rad], shape (steering joints,)."""
