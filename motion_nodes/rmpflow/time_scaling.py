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
from motion_nodes.model.setting import check_settings, setting
from motion_nodes.typing import Array


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
        """Validate the settings."""
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
