# SPDX-License-Identifier: Apache-2.0
"""Integration of accelerations to motion within all joint limits, for any parameters.

A policy is slowed down where its accelerations jump. At speed s it is evaluated at velocity qd / s
and its acceleration is multiplied by s^2: the same path at another speed. A jump reduces s, which
then recovers gradually. Source of names and values: RmpFlowSmoothed of Isaac Sim (Cortex).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from motion_nodes.core.reactive.compiled_policy import Evaluator
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.errors import InvalidConfig
from motion_nodes.kernels.rmp.rmp_integration import HEADER, ROWS, integration_code
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

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
        self._limits, self._code = limits, integration_code()
        self._acceleration = np.where(np.isfinite(limits.acceleration), limits.acceleration, most)
        blocks = -(-n // self._code.lanes)
        self._memory = np.zeros(HEADER.size + len(ROWS) * blocks * self._code.lanes)
        self._whole, self._address = self._memory.view(np.int64), self._memory.ctypes.data
        self._whole[HEADER["joints"]], self._whole[HEADER["blocks"]] = n, blocks
        rows = self._memory[HEADER.size :].reshape(len(ROWS), -1)
        x = dict(zip(ROWS, rows, strict=True))
        for row in (x["upper"], x["speed"], x["acceleration"], x["jerk"]):
            row[:] = 1.0  # also of lanes without a joint, which rest at 0
        x["lower"][:] = -1.0
        self._rows = {name: row[:n] for name, row in x.items()}
        jerk = limits.jerk if bounded_jerk else np.full(n, _HARDEST)
        self._rows["lower"][:] = np.where(np.isfinite(limits.lower), limits.lower, -1e9)
        self._rows["upper"][:] = np.where(np.isfinite(limits.upper), limits.upper, 1e9)
        self._rows["acceleration"][:] = self._acceleration
        self._rows["jerk"][:] = np.minimum(jerk, _HARDEST)
        self._state = rows[:3, :n]
        self._addresses: tuple[int, ...] = ()
        self.set_max_velocity(limits.velocity)

    @property
    def acceleration(self) -> Array:
        """Acceleration limits, finite [rad/s^2 or m/s^2], shape (n,)."""
        return self._acceleration

    def set_max_velocity(self, velocity: Array) -> None:
        """Set velocity limits below those of the joints, shape (n,) [rad/s or m/s]."""
        self._rows["speed"][:] = np.minimum(np.minimum(velocity, self._limits.velocity), 1e6)

    def step(self, state: JointMotion, desired: Array, dt: float) -> None:
        """Advance a state by one step.

        Args:
            state: changed in place.
            desired: accelerations of the policy [rad/s^2 or m/s^2], shape (n,).
            dt: length of the step [s].
        """
        self._load(state, dt)
        self._rows["desired"][:] = desired
        self._code.step(self._address)
        self._store(state)

    def run(
        self, state: JointMotion, evaluator: Evaluator, offset: Array, count: int, dt: float
    ) -> int:
        """Advance a state by steps of RMPs, and return how many were done.

        Args:
            state: changed in place.
            evaluator: of the RMPs; its watched joints are set.
            offset: from the state to the positions that the RMPs use, shape (n,).
            count: number of steps; they end before one whose RMPs cannot be solved reliably.
            dt: length of a step [s].
        """
        self._load(state, dt)
        self._rows["offset"][:] = offset
        if evaluator.addresses is not self._addresses:
            self._addresses = evaluator.addresses
            self._whole[: len(evaluator.addresses)] = evaluator.addresses
        self._whole[HEADER["count"]] = count
        self._code.run(self._address)
        self._store(state)
        return int(self._whole[HEADER["done"]])

    def _load(self, state: JointMotion, dt: float) -> None:
        rows = self._state
        rows[0], rows[1], rows[2] = state.q, state.qd, state.qdd
        self._memory[HEADER["dt"]] = dt

    def _store(self, state: JointMotion) -> None:
        state.q, state.qd, state.qdd = self._state.copy()


@dataclass(frozen=True)
class SmoothingSettings:
    """Parameters of the time scaling."""

    desired_speed_scalar: float = setting(1.0, doc="Speed scaling in normal operation.", gt=0.0)
    min_speed_scalar: float = setting(0.2, doc="Speed scaling after a large discontinuity.", gt=0.0)
    min_time_between_jerk_reductions: float = setting(
        0.5, doc="Min time between two reductions of the speed.", unit="s", ge=0.0
    )
    big_jump: float = setting(
        10.0,
        doc="Change of the joint acceleration in one step above which the speed is reduced.",
        unit="rad/s^2",
        gt=0.0,
    )
    medium_jump: float = setting(
        7.0,
        doc="Change of the joint acceleration in one step above which the acceleration is clipped.",
        unit="rad/s^2",
        gt=0.0,
    )
    recovery: float = setting(
        0.985,
        doc="Fraction of a speed reduction that remains after each step; 0: the speed "
        "recovers at once.",
        ge=0.0,
        le=1.0,
    )

    def __post_init__(self) -> None:
        check_settings(self, "smoothing.")
        if self.recovery == 1.0:
            raise InvalidConfig("smoothing.recovery is 1; it must be less, or no speed recovers")


class Smoothing:
    """Scales the time of a policy."""

    def __init__(self, settings: SmoothingSettings) -> None:
        self.settings = settings
        self.speed_scalar = settings.desired_speed_scalar
        self._since_drop = np.inf

    def reset(self) -> None:
        """Reset to the nominal speed."""
        self.speed_scalar = self.settings.desired_speed_scalar
        self._since_drop = np.inf

    def acceleration(
        self, policy: Callable[[Array], Array], qd: Array, last: Array, dt: float
    ) -> Array:
        """Return the scaled acceleration of a policy.

        Args:
            policy: from velocities to accelerations, shape (n,).
            qd: velocities [rad/s or m/s], shape (n,).
            last: acceleration of the previous step [rad/s^2 or m/s^2], shape (n,).
            dt: length of the step [s].
        """
        p = self.settings
        desired = self._scaled(policy, qd)
        self._since_drop += dt
        if np.linalg.norm(desired - last) > p.big_jump and (
            self._since_drop >= p.min_time_between_jerk_reductions
        ):
            self.speed_scalar = min(self.speed_scalar, p.min_speed_scalar)
            self._since_drop = 0.0
            desired = self._scaled(policy, qd)
        jump = float(np.linalg.norm(desired - last))
        if jump > p.medium_jump:
            desired = last + (p.medium_jump / jump) * (desired - last)
        speed = p.desired_speed_scalar
        self.speed_scalar = speed + p.recovery * (self.speed_scalar - speed)
        return desired

    def _scaled(self, policy: Callable[[Array], Array], qd: Array) -> Array:
        s = self.speed_scalar
        return policy(qd / s) * (s * s)
