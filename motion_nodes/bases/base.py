# SPDX-License-Identifier: Apache-2.0
"""Interface of wheeled bases, and its values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from motion_nodes.errors import InvalidCommand
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

    def steer(self, twist: Twist2, steering: Array, dt: float) -> Array:
        """Return the steering angles [rad] one step towards those of ``twist``.

        Args:
            twist: the commanded twist, as returned by :meth:`nearest_twist`.
            steering: current angles [rad], shape (steering joints,).
            dt: duration of the step [s].
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

    def steer(self, twist: Twist2, steering: Array, dt: float) -> Array:
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
