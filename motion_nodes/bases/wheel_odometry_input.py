# SPDX-License-Identifier: Apache-2.0
"""Wheel displacements between measurements."""

from __future__ import annotations

import numpy as np

from motion_nodes.bases.base import NO_STEERING, Array


class WheelMotion:
    """Differences of measured wheel angles, or integrals of measured wheel velocities."""

    def __init__(self) -> None:
        """Create without a measurement."""
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
            Shapes (wheels,) [rad], (steering joints,) [rad], and [s]. None at the first
            measurement, and for one that is not finite: its time is added to the next.
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
        return turned, 0.5 * (between + self._steering), dt
