# SPDX-License-Identifier: Apache-2.0
"""Momentum observer: joint efforts of external forces, without accelerations.

    r = k (p - p_0 - integral(tau + M' v - h(q, v) + r) dt),   p = M(q) v

r follows the external efforts with a first-order lag of 1 / k. Source: A. De Luca and R. Mattone,
"Sensorless robot collision detection and hybrid force/motion control", ICRA 2005.
"""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.control.impedance.operational_space import ArmState
from motion_nodes.typing import Array

BANDWIDTH = 50.0
"""Default gain k [1/s]: a lag of 20 ms."""
MAX_GAP = 0.05
"""Max time between measurements [s]; the observer is reset after a longer one."""


class MomentumObserver:
    """Estimates the joint efforts of external forces from measured joint states."""

    def __init__(self, count: int, bandwidth: float = BANDWIDTH) -> None:
        """Create an observer for a number of joints with a bandwidth [1/s]."""
        self._bandwidth = bandwidth
        self.efforts: Array = np.zeros(count)
        """External efforts [N m or N], shape (n,)."""
        self._before: tuple[Array, Array, Array] | None = None
        """Inertia, momentum, and drive efforts minus bias at the last measurement."""

    def reset(self) -> None:
        """Reset to zero external efforts."""
        self.efforts[:] = 0.0
        self._before = None

    def update(self, state: ArmState, drive_efforts: Array, dt: float) -> Array:
        """Process a measurement and return the external efforts, shape (n,).

        Args:
            state: state of the arm, with gravity in its bias.
            drive_efforts: measured efforts of the drives [N m or N], shape (n,).
            dt: time since the last measurement [s].
        """
        momentum, driving = state.M @ state.v, drive_efforts - state.bias
        before, self._before = self._before, (state.M, momentum, driving)
        if before is None or not 0.0 < dt <= MAX_GAP:
            return self.efforts
        # Over the step: (M - M_before) v is the integral of M' v.
        change = momentum - before[1] - (state.M - before[0]) @ state.v
        external = change / dt - 0.5 * (driving + before[2])
        self.efforts = self.efforts + (external - self.efforts) * -math.expm1(-self._bandwidth * dt)
        return self.efforts
