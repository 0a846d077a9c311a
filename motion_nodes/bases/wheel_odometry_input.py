# SPDX-License-Identifier: Apache-2.0
"""Wheel displacements between measurements."""

from __future__ import annotations

import numpy as np

from motion_nodes.bases.base import NO_STEERING, Twist2, WheeledBase
from motion_nodes.bases.base_limits import BaseLimits
from motion_nodes.model.plausible_step import max_plausible_step
from motion_nodes.typing import Array


class WheelMotion:
    """Differences of measured wheel angles, or integrals of measured wheel velocities."""

    def __init__(self, max_velocity: Array) -> None:
        """Create without a measurement.

        Args:
            max_velocity: max velocity of the wheels [rad/s], shape (wheels,); may be infinite.
        """
        self.max_velocity = max_velocity
        self.jumps = 0
        """Number of implausible displacements that were rejected."""
        self.forget()

    def forget(self) -> None:
        """Reset: the next measurement is the new reference, without motion."""
        self._wheels: Array | None = None
        self._steering: Array = NO_STEERING
        self._passed_over = 0.0

    @property
    def begun(self) -> bool:
        """True if there is a reference measurement."""
        return self._wheels is not None

    def since_last(
        self, wheels: Array, steering: Array, dt: float, by_angle: bool
    ) -> tuple[Array, Array, float] | None:
        """Return wheel displacements, mean steering angles, and the elapsed time.

        Args:
            wheels: angles [rad], or velocities [rad/s], shape (wheels,).
            steering: angles [rad], shape (steering joints,).
            dt: time since the last measurement [s].
            by_angle: whether ``wheels`` are angles.

        Returns:
            Shapes (wheels,) [rad], (steering joints,) [rad], and [s]. None for the first
            measurement, for one that is not finite (its time is added to the next), and for one
            that is unreachable, as after a reset of encoders: it becomes the new reference.
        """
        if not (np.isfinite(wheels).all() and np.isfinite(steering).all()):
            self._passed_over += dt
            return None
        last, self._wheels = self._wheels, np.array(wheels, dtype=np.float64)
        between, self._steering = self._steering, np.array(steering, dtype=np.float64)
        if last is None:
            self._passed_over = 0.0
            return None
        dt, self._passed_over = dt + self._passed_over, 0.0
        turned = self._wheels - last if by_angle else 0.5 * (self._wheels + last) * dt
        if (np.abs(turned) > max_plausible_step(self.max_velocity, dt)).any():
            self.jumps += 1
            return None
        return turned, 0.5 * (between + self._steering), dt


def max_wheel_velocity(base: WheeledBase, limits: BaseLimits) -> Array:
    """Return the max velocity of each wheel [rad/s], shape (wheels,), by the limits of a base.

    The limit of the wheels if there is one, else the velocity at the limits of the body; infinite
    where neither is set.
    """
    wheels = len(base.wheel_names)
    if np.isfinite(limits.wheel_velocity):
        return np.full(wheels, limits.wheel_velocity)
    total: Array = np.zeros(wheels)
    for axis, unit in zip(limits.axes, np.eye(3), strict=True):
        # Zero along an axis that the base cannot drive by itself, such as the yaw of a car.
        share = np.abs(base.wheels_from_twist(base.nearest_twist(Twist2(*unit))))
        used = share > 0.0
        total[used] += share[used] * max(axis.forward, axis.backward)
    return total
