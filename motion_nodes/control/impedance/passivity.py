# SPDX-License-Identifier: Apache-2.0
"""Passivity observer and controller: a sampled spring must not generate energy.

The dissipated energy is the energy that spring and damper take from the arm, minus the energy
stored by the spring. If sampling and delays make it negative, additional damping dissipates the
difference. Source: B. Hannaford and J.-H. Ryu, "Time-domain passivity control of haptic
interfaces", IEEE T-RA 18(1), 2002.
"""

from __future__ import annotations

import numpy as np

from motion_nodes.typing import Array

MAX_ENERGY = 1.0
"""Max accumulated dissipated energy [J], so that old dissipation does not allow generation."""
MAX_DAMPING = 100.0
"""Max additional damping [N s/m and N m s/rad]."""
_STILL = 1e-4
"""Squared speed below which no energy is generated [m^2/s^2 + rad^2/s^2]."""


class PassivityObserver:
    """Observes the energy of a spring-damper at the tool."""

    def __init__(self) -> None:
        """Start with zero dissipated energy."""
        self.energy = 0.0
        """Dissipated energy [J]; negative: generated."""
        self._before: tuple[Array, float, Array] | None = None
        """Wrench, stored energy and twist at the last step."""

    def observe(self, taken_from: float | None, twist: Array, dt: float) -> float:
        """Account for a step, and return the additional damping that is required.

        Args:
            taken_from: current energy of the spring with its previous target [J]; None: unknown,
                because forces are limited.
            twist: current twist of the tool [m/s, rad/s], shape (6,).
            dt: duration of the step [s].
        """
        if self._before is None or taken_from is None:
            return 0.0
        wrench, stored, before = self._before
        taken = -0.5 * float(wrench @ (twist + before)) * dt
        self.energy = min(self.energy + taken - (taken_from - stored), MAX_ENERGY)
        speed = float(twist @ twist)
        if self.energy >= 0.0 or speed < _STILL:
            return 0.0
        return min(-self.energy / (dt * speed), MAX_DAMPING)

    def note(self, wrench: Array, stored: float, twist: Array) -> None:
        """Store the values that apply until the next step.

        Args:
            wrench: wrench of spring and damper [N, N m], shape (6,).
            stored: energy of the spring [J].
            twist: twist of the tool [m/s, rad/s], shape (6,).
        """
        self._before = np.asarray(wrench), stored, twist

    def reset(self) -> None:
        """Reset."""
        self.energy, self._before = 0.0, None
