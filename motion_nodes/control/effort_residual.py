# SPDX-License-Identifier: Apache-2.0
"""What joints push with beyond what their motion takes: the mark of a contact.

    r' = (tau - M(q) a - h(q, v) - r) / T

The measured effort less that of the robot's model, through a low-pass filter of time constant T;
accelerations are differences of measured velocities, which the filter smooths together with the
efforts. Source: the residual of De Luca et al., "Collision detection and safe reaction with the
DLR-III lightweight manipulator arm", IROS 2006, with differences in place of momenta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.model.inverse_dynamics import InverseDynamics

Array = NDArray[np.float64]

TIME_CONSTANT = 0.02
"""[s] Of the filter."""
LONGEST = 0.02
"""[s] Over longer gaps between measurements no difference is taken."""


@dataclass(frozen=True, eq=False)
class Ripple:
    """What drives that are led in steps push with at one moment, more or less than in the mean.

    Within a step of T the reference stands while the joint goes on: ``(kp |v| + kd |a|) T / 2``.
    """

    by_speed: Array
    """[N m s/rad or N s/m], shape (n,)."""
    by_acceleration: Array
    """[N m s^2/rad or N s^2/m], shape (n,)."""
    acceleration: Array
    """The greatest that counts [rad/s^2 or m/s^2], shape (n,); a blow has more."""

    @classmethod
    def of(cls, stiffness: Array, damping: Array, acceleration: Array, period: float) -> Ripple:
        """Return that of drives with these gains, whose references come at a period [s]."""
        half = 0.5 * period
        return cls(half * stiffness, half * damping, acceleration)


class EffortResidual:
    """The filtered residual of n joints."""

    def __init__(
        self, dynamics: InverseDynamics, ripple: Ripple, time_constant: float = TIME_CONSTANT
    ) -> None:
        """Begin with no residual.

        Args:
            dynamics: of the joints.
            ripple: of their drives; so much of a residual does not count.
            time_constant: of the filter [s].
        """
        self._dynamics, self._ripple, self._time_constant = dynamics, ripple, time_constant
        n = len(dynamics.joint_names)
        self.value: Array = np.zeros(n)
        """Efforts beyond the model [N m or N], shape (n,)."""
        self._filtered: Array = np.zeros(n)
        self._doubt: Array = np.zeros(n)
        self._before: tuple[float, Array] | None = None

    def reset(self) -> None:
        """Forget what was measured."""
        for values in (self.value, self._filtered, self._doubt):
            values[:] = 0.0
        self._before = None

    def update(self, time: float, q: Array, v: Array, effort: Array) -> Array | None:
        """Take a measurement and return the residual; None where efforts are not measured.

        Args:
            time: of the measurement [s].
            q: positions [rad or m], shape (n,).
            v: velocities [rad/s or m/s], shape (n,).
            effort: of the drives [N m or N], shape (n,); a joint without a finite one has no
                residual.
        """
        known = np.isfinite(effort)
        if not known.any():
            self._before = None
            return None
        before, self._before = self._before, (time, v.copy())
        dt = math.inf if before is None else time - before[0]
        if before is None or not 0.0 < dt <= LONGEST:
            return self.value
        mean, acceleration = 0.5 * (v + before[1]), (v - before[1]) / dt
        model = self._dynamics.efforts(q, mean, acceleration)
        residual = np.where(known, effort - model, 0.0)
        usual = np.minimum(np.abs(acceleration), self._ripple.acceleration)
        doubt = self._ripple.by_speed * np.abs(mean) + self._ripple.by_acceleration * usual
        share = -math.expm1(-dt / self._time_constant)
        self._filtered += (residual - self._filtered) * share
        self._doubt += (doubt - self._doubt) * share
        beyond = np.abs(self._filtered) - self._doubt
        self.value = np.copysign(beyond.clip(0.0), self._filtered)
        return self.value
