# SPDX-License-Identifier: Apache-2.0
"""Slip detection from redundant wheels."""

from __future__ import annotations

import numpy as np

from motion_nodes.bases.base import WheeledBase
from motion_nodes.typing import Array


class SlipWatch:
    """Lower bound of the slip velocity, from the consistency of the wheels.

    The least squares twist of all wheels predicts each wheel; the residual, times its radius, is a
    slip velocity. Without redundant wheels there is no residual, and slip is not observable.
    """

    def __init__(self, base: WheeledBase) -> None:
        """Create the detector for a base."""
        self._base = base
        self._radii = base.wheel_radii
        self._rest: Array | None = None
        self._blind = False
        if not base.steering_names:
            forward = np.array([base.twist_from_wheels(e) for e in np.eye(len(base.wheel_names))]).T
            # Uses forward kinematics only, because not every solver is its inverse.
            self._rest = np.eye(len(base.wheel_names)) - np.linalg.pinv(forward) @ forward
            self._blind = bool(np.allclose(self._rest, 0.0, atol=1e-9))
        self.forget()

    def forget(self) -> None:
        """Reset."""
        self.speed = 0.0
        """Newest slip velocity of the wheel with the max slip [m/s]."""
        self.wheel = ""
        """Name of that wheel."""
        self.worst = 0.0
        """Max since :meth:`take_worst` [m/s]."""

    def update(self, turned: Array, steering: Array, dt: float) -> None:
        """Update with wheel rotations [rad], shape (wheels,), in ``dt`` [s]."""
        if self._blind or not dt > 0.0:
            return
        if self._rest is None:
            twist = self._base.twist_from_wheels(turned, steering)
            left = turned - self._base.wheels_from_twist(twist)
        else:
            left = self._rest @ turned
        slid = abs(left * self._radii) / dt
        most = int(slid.argmax())
        self.speed, self.wheel = float(slid[most]), self._base.wheel_names[most]
        self.worst = max(self.worst, self.speed)

    def take_worst(self) -> float:
        """Return the max slip velocity [m/s] since the last call."""
        worst, self.worst = self.worst, 0.0
        return worst
