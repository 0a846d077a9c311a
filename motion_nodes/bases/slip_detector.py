# SPDX-License-Identifier: Apache-2.0
"""Wheels that contradict each other: more wheels than ways to move betray slip."""

from __future__ import annotations

import numpy as np

from motion_nodes.bases.base import Array, WheeledBase


class SlipWatch:
    """How fast the wheels slide at least, by what they say of one another.

    The twist that fits all wheels best predicts each wheel; what is left over, times its radius,
    is a speed at which rubber slides on the floor. Without more wheels than ways to move there is
    nothing left over, and slip stays unseen.
    """

    def __init__(self, base: WheeledBase) -> None:
        """Watch the wheels of a base."""
        self._base = base
        self._radii = base.wheel_radii
        self._rest: Array | None = None
        self._blind = False
        if not base.steering_names:
            forward = np.array([base.twist_from_wheels(e) for e in np.eye(len(base.wheel_names))]).T
            # From the forward kinematics alone: not every solver's wheels are its inverse.
            self._rest = np.eye(len(base.wheel_names)) - np.linalg.pinv(forward) @ forward
            self._blind = bool(np.allclose(self._rest, 0.0, atol=1e-9))
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.speed = 0.0
        """Of the wheel that slides most, newest [m/s]."""
        self.wheel = ""
        """Which wheel that is."""
        self.worst = 0.0
        """Greatest since :meth:`take_worst` [m/s]."""

    def look(self, turned: Array, steering: Array, dt: float) -> None:
        """Compare how far the wheels turned [rad], shape (wheels,), in ``dt`` [s]."""
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
        """Return the greatest slip speed [m/s] since the last call."""
        worst, self.worst = self.worst, 0.0
        return worst
