# SPDX-License-Identifier: Apache-2.0
"""Integration of accelerations to motion within all joint limits, for any parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import InvalidConfig
from motion_nodes.kernels.rmp.rmp_joint_limits import INPUTS, generated_bound
from motion_nodes.model.limits import JointLimits
from motion_nodes.model.tree import Array

_REGISTER = 8  # min number of rows for the generated code
_HARDEST = 1e6  # replaces a missing jerk limit [rad/s^3]


@dataclass
class JointMotion:
    """State of the active joints, shape (n,) each."""

    q: Array
    """Positions [rad or m], shape (n,)."""
    qd: Array
    """Velocities [rad/s or m/s], shape (n,)."""
    qdd: Array
    """Accelerations of the last step [rad/s^2 or m/s^2], shape (n,)."""

    def copy(self) -> JointMotion:
        """Return a copy with its own arrays."""
        return JointMotion(self.q.copy(), self.qd.copy(), self.qdd.copy())


def substeps(duration: float, longest: float) -> tuple[int, float]:
    """Return the number of equal steps in a duration, and their length [s].

    Args:
        duration: total time [s].
        longest: max length of a step [s].

    Raises:
        InvalidConfig: a duration that is not positive and finite.
    """
    if not (math.isfinite(duration) and duration > 0.0):
        raise InvalidConfig(
            f"the duration is {duration} s; it must be above 0 and finite.", field="duration"
        )
    # Tolerance: 1/60 s must give five steps of 1/300 s, not six because of rounding.
    count = max(1, math.ceil(duration / longest * (1.0 - 1e-9)))
    return count, duration / count


class Integrator:
    """Explicit Euler steps within limits of position, velocity, acceleration and jerk.

    If a joint exceeds its acceleration limit, all joints are scaled down together to preserve the
    direction; then each joint is limited so that it can stop in time.
    """

    def __init__(self, limits: JointLimits, most: float, *, bounded_jerk: bool) -> None:
        """Create the integrator.

        Args:
            limits: of the active joints.
            most: acceleration limit of joints without one [rad/s^2].
            bounded_jerk: whether jerk limits are respected.
        """
        n = len(limits.names)
        self._limits = limits
        self._lower, self._upper = limits.lower, limits.upper
        self._acceleration = np.where(np.isfinite(limits.acceleration), limits.acceleration, most)
        jerk = limits.jerk if bounded_jerk else np.full(n, _HARDEST)
        # Padded to a full register, else the code processes one joint after the other.
        self._rows = np.ones((max(n, _REGISTER), len(INPUTS)))
        self._columns = {name: self._rows[:n, i] for i, name in enumerate(INPUTS)}
        self._columns["lower"][:] = np.where(np.isfinite(limits.lower), limits.lower, -1e9)
        self._columns["upper"][:] = np.where(np.isfinite(limits.upper), limits.upper, 1e9)
        self._columns["speed"][:] = np.minimum(limits.velocity, 1e6)
        self._columns["acceleration"][:] = self._acceleration
        self._columns["jerk"][:] = np.minimum(jerk, _HARDEST)
        self._out = np.zeros(len(self._rows))
        self._bound = generated_bound()

    @property
    def acceleration(self) -> Array:
        """Acceleration limits, finite [rad/s^2 or m/s^2], shape (n,)."""
        return self._acceleration

    def set_max_velocity(self, velocity: Array) -> None:
        """Set velocity limits below those of the joints, shape (n,) [rad/s or m/s]."""
        self._columns["speed"][:] = np.minimum(np.minimum(velocity, self._limits.velocity), 1e6)

    def step(self, state: JointMotion, desired: Array, dt: float) -> None:
        """Advance a state by one step.

        Args:
            state: changed in place.
            desired: accelerations of the policy [rad/s^2 or m/s^2], shape (n,).
            dt: length of the step [s].
        """
        share = float((np.abs(desired) / self._acceleration).max(initial=1.0))
        x = self._columns
        x["q"][:], x["qd"][:], x["last"][:] = state.q, state.qd, state.qdd
        x["desired"][:] = desired if share == 1.0 else desired / share
        x["dt"][:] = dt
        self._bound(self._rows, self._out)
        qdd = self._out[: len(desired)].copy()
        before = state.q
        state.q, state.qd, state.qdd = before + dt * state.qd, state.qd + dt * qdd, qdd
        if not ((state.q >= self._lower) & (state.q <= self._upper)).all():
            self._hold(state, before)

    def _hold(self, state: JointMotion, before: Array) -> None:
        """Stop at the position limits; a joint outside may move back, but not farther out."""
        q, qd = state.q, state.qd
        held = np.clip(q, np.minimum(self._lower, before), np.maximum(self._upper, before))
        stopped = (held != q) & ((q - held) * qd > 0.0)
        state.q = held
        state.qd = np.where(stopped, 0.0, qd)
        state.qdd = np.where(stopped, 0.0, state.qdd)
