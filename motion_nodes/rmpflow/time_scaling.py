# SPDX-License-Identifier: Apache-2.0
"""Time scaling: a policy is slowed down where its accelerations jump.

A policy at speed s is evaluated at velocity qd / s and its acceleration is multiplied by s^2: the
same path at another speed. A jump reduces s, which then recovers gradually.
Source of names and values: RmpFlowSmoothed of Isaac Sim (Cortex).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import InvalidConfig
from motion_nodes.model.tree import Array


@dataclass(frozen=True)
class SmoothingSettings:
    """Parameters of the time scaling."""

    desired_speed_scalar: float = 1.0
    """Nominal speed, as a fraction of the policy's own."""
    min_speed_scalar: float = 0.2
    """Min speed, after a big jump."""
    min_time_between_jerk_reductions: float = 0.5
    """Min time between two speed reductions [s]."""
    big_jump: float = 10.0
    """Change of acceleration per step that reduces the speed [rad/s^2, norm]."""
    medium_jump: float = 7.0
    """Max change of acceleration per step [rad/s^2, norm]."""
    recovery: float = 0.985
    """Fraction of the distance from the nominal speed that remains after a step."""

    def __post_init__(self) -> None:
        """Validate the settings."""
        for name in ("desired_speed_scalar", "min_speed_scalar", "big_jump", "medium_jump"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0.0):
                raise InvalidConfig(f"smoothing.{name} is {value}; it must be above 0 and finite.")
        if not 0.0 <= self.recovery < 1.0:
            raise InvalidConfig(
                f"smoothing.recovery is {self.recovery}; it must be 0 or more, below 1."
            )
        wait = self.min_time_between_jerk_reductions
        if not (np.isfinite(wait) and wait >= 0.0):
            raise InvalidConfig(
                f"smoothing.min_time_between_jerk_reductions is {wait} s; it must be finite and "
                f"not negative."
            )


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
        wanted = p.desired_speed_scalar
        self.speed_scalar = wanted + p.recovery * (self.speed_scalar - wanted)
        return desired

    def _scaled(self, policy: Callable[[Array], Array], qd: Array) -> Array:
        s = self.speed_scalar
        return policy(qd / s) * (s * s)
