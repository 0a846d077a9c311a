# SPDX-License-Identifier: Apache-2.0
"""Passivity observer and controller: a sampled spring must not generate energy.

What spring and damper take from the arm, minus what the spring stores, is dissipated. Sampling and
delays can make it negative; damping then dissipates as much. Source: B. Hannaford and J.-H. Ryu,
"Time-domain passivity control of haptic interfaces", IEEE T-RA 18(1), 2002.
"""

from __future__ import annotations

import numpy as np

from motion_nodes.model.tree import Array

MAX_ENERGY = 1.0
"""Max dissipated energy that is remembered [J]: older dissipation does not excuse generation."""
MAX_DAMPING = 100.0
"""Max additional damping [N s/m and N m s/rad]."""
_STILL = 1e-4
"""Squared speed below which nothing is generated [m^2/s^2 + rad^2/s^2]."""


class PassivityObserver:
    """Observes the energy of a spring-damper at the tool."""

    def __init__(self) -> None:
        """Begin with nothing dissipated."""
        self.energy = 0.0
        """Dissipated energy [J]; negative: generated."""
        self._before: tuple[Array, float, Array] | None = None
        """Wrench, stored energy and twist at the last step."""

    def observe(self, taken_from: float | None, twist: Array, dt: float) -> float:
        """Account for a step, and return the additional damping that is required.

        Args:
            taken_from: energy stored by the spring now, with its previous target [J]; None: forces
                are limited, and the energy is not known.
            twist: of the tool now [m/s, rad/s], shape (6,).
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
        """Keep what acts until the next step.

        Args:
            wrench: of spring and damper [N, N m], shape (6,).
            stored: energy of the spring [J].
            twist: of the tool [m/s, rad/s], shape (6,).
        """
        self._before = np.asarray(wrench), stored, twist

    def reset(self) -> None:
        """Reset."""
        self.energy, self._before = 0.0, None
