# SPDX-License-Identifier: Apache-2.0
"""Effort residual: measured joint efforts minus the robot's model, an indicator of contacts.

    r' = (tau - M(q) a - h(q, v) - r) / T

The residual passes a low-pass filter of time constant T; accelerations are differences of measured
velocities, which the filter smooths together with the efforts. Source: the residual of De Luca et
al., "Collision detection and safe reaction with the DLR-III lightweight manipulator arm", IROS
2006, with differences in place of momenta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from motion_nodes.model.inverse_dynamics import InverseDynamics
from motion_nodes.typing import Array

TIME_CONSTANT = 0.02
"""Time constant of the filter [s]."""
MAX_GAP = 0.02
"""Max time between measurements for which a difference is computed [s]."""
MAX_SHARE = 1.6
"""Max time between measurements as a multiple of the usual one: if a measurement is missing, the
acceleration is a mean over two periods, but the effort is that of the last."""


@dataclass(frozen=True, eq=False)
class Ripple:
    """Max deviation of drive efforts from their mean, caused by the sampling of references.

    Within a sampling period T the reference is constant while the joint moves: ``(kp |v| + kd |a|)
    T / 2``.
    """

    by_speed: Array
    """[N m s/rad or N s/m], shape (n,)."""
    by_acceleration: Array
    """[N m s^2/rad or N s^2/m], shape (n,)."""
    acceleration: Array
    """Max acceleration that is considered [rad/s^2 or m/s^2], shape (n,); an impact exceeds it."""

    @classmethod
    def of(cls, stiffness: Array, damping: Array, acceleration: Array, period: float) -> Ripple:
        """Return the ripple of drives with given gains.

        Args:
            stiffness: position gains [N m/rad or N/m], shape (n,).
            damping: velocity gains [N m s/rad or N s/m], shape (n,).
            acceleration: max acceleration considered [rad/s^2 or m/s^2], shape (n,).
            period: sampling period of the references [s].
        """
        half = 0.5 * period
        return cls(half * stiffness, half * damping, acceleration)


class EffortResidual:
    """Filtered effort residual of n joints."""

    def __init__(
        self, dynamics: InverseDynamics, ripple: Ripple, time_constant: float = TIME_CONSTANT
    ) -> None:
        """Start with zero residual.

        Args:
            dynamics: dynamics of the joints.
            ripple: ripple of their drives; subtracted from the residual.
            time_constant: time constant of the filter [s].
        """
        self._dynamics, self._ripple, self._time_constant = dynamics, ripple, time_constant
        n = len(dynamics.joint_names)
        self.value: Array = np.zeros(n)
        """Residual minus the ripple [N m or N], shape (n,)."""
        self.filtered: Array = np.zeros(n)
        """Residual including the ripple [N m or N], shape (n,)."""
        self.doubt: Array = np.zeros(n)
        """Max ripple in it [N m or N], shape (n,)."""
        self._before: tuple[float, Array, Array] | None = None
        self._usual = MAX_GAP
        """Usual time between measurements [s]: a slowly increasing minimum."""

    def reset(self) -> None:
        """Reset the filter."""
        for values in (self.value, self.filtered, self.doubt):
            values[:] = 0.0
        self._before = None

    def update(self, time: float, q: Array, v: Array, effort: Array) -> Array | None:
        """Process a measurement and return the residual; None if efforts are not measured.

        Args:
            time: time of the measurement [s].
            q: positions [rad or m], shape (n,).
            v: velocities [rad/s or m/s], shape (n,).
            effort: efforts of the drives [N m or N], shape (n,); a joint without a finite value has
                no residual.
        """
        known = np.isfinite(effort)
        if not known.any():
            self._before = None
            return None
        before, self._before = self._before, (time, v.copy(), effort.copy())
        if before is None or not self._regular(time - before[0]):
            return self.value
        dt = time - before[0]
        mean, acceleration = 0.5 * (v + before[1]), (v - before[1]) / dt
        model = self._dynamics.efforts(q, mean, acceleration)
        residual = np.where(known, 0.5 * (effort + before[2]) - model, 0.0)
        residual[np.isnan(residual)] = 0.0
        usual = np.minimum(np.abs(acceleration), self._ripple.acceleration)
        doubt = self._ripple.by_speed * np.abs(mean) + self._ripple.by_acceleration * usual
        share = -math.expm1(-dt / self._time_constant)
        self.filtered += (residual - self.filtered) * share
        self.doubt += (doubt - self.doubt) * share
        beyond = np.abs(self.filtered) - self.doubt
        self.value = np.copysign(beyond.clip(0.0), self.filtered)
        return self.value

    def repeat(self, time: float) -> None:
        """Process a measurement of the same values at another time [s]; the residual stays."""
        if self._before is not None:
            self._before = (time, *self._before[1:])

    def _regular(self, dt: float) -> bool:
        """Return whether no measurement is missing between two that are dt [s] apart."""
        if not 0.0 < dt <= MAX_GAP:
            return False
        self._usual = min(dt, 1.02 * self._usual)
        return dt <= MAX_SHARE * self._usual
