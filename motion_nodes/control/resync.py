# SPDX-License-Identifier: Apache-2.0
"""After a stop: brings the reference to where the joints stand, once they rest.

Planners begin where a robot is measured, controllers where they lead it; after a jam these are far
apart. What drives sag under a load that they do not know is no such distance: it is remembered from
when the joints last rested freely and left alone, so that it never adds up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motion_nodes.model.limits import JointLimits
from motion_nodes.trajectory.joint_trajectory import JointTrajectory

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

REST_SPEED = 0.02
"""[rad/s or m/s] Slower than this a joint rests."""
REST_TIME = 0.15
"""[s] It must have rested for so long."""
AFTER_CONTACT = 1e-3
"""[rad or m] After a contact smaller distances are left: they press with little force."""
CONTACT_PASSES = 2
"""Times that a reference is brought to joints that something held: they spring back a little."""
SHARE = 0.2
"""Of the limits of velocity and acceleration at which the reference is brought back."""
SHORTEST = 0.1
"""[s]"""


class Resync:
    """Which joints of n are to be brought together with their references, and when."""

    def __init__(self, n: int) -> None:
        """Begin with none."""
        self._passes: NDArray[np.int64] = np.zeros(n, np.int64)
        self._contact: Mask = np.zeros(n, np.bool_)
        self._sag: Array = np.zeros(n)
        self._rested: Array = np.zeros(n)
        self.never: Mask = np.zeros(n, np.bool_)
        """Joints that go on pushing, such as fingers, shape (n,)."""

    @property
    def sag(self) -> Array:
        """How far behind their references joints stood when they last rested freely, shape (n,)."""
        return self._sag

    def request(self, joints: NDArray[np.intp], *, contact: bool = False) -> None:
        """Have joints looked at, once they rest.

        Args:
            joints: indices, shape (k,).
            contact: whether something held them.
        """
        self._passes[joints] = CONTACT_PASSES if contact else 1
        self._contact[joints] = contact
        self._rested[joints] = 0.0

    def drop(self, joints: NDArray[np.intp]) -> None:
        """Forget joints that are commanded anew."""
        self._passes[joints] = 0
        self._contact[joints] = False
        self._rested[joints] = 0.0

    def look(
        self, dt: float, error: Array, speed: Array, leading: Mask, normal: Array
    ) -> NDArray[np.intp]:
        """Return joints whose reference is to be brought to where they stand, shape (k,).

        Args:
            dt: time since the last look [s].
            error: reference minus measured [rad or m], shape (n,).
            speed: measured [rad/s or m/s], shape (n,).
            leading: joints whose reference moves or may not be moved, shape (n,).
            normal: errors up to which nothing is done [rad or m], shape (n,).
        """
        rests = (np.abs(speed) < REST_SPEED) & ~leading & np.isfinite(error)
        self._rested = np.where(rests, self._rested + dt, 0.0)
        ready = self._rested >= REST_TIME
        pending = self._passes > 0
        free = ready & ~pending & (np.abs(error) <= normal)
        np.copyto(self._sag, error, where=free)
        due = ready & pending & ~self.never
        if not due.any():
            return np.zeros(0, np.intp)
        bound = np.where(self._contact, np.minimum(AFTER_CONTACT, normal), normal)
        away = due & (np.abs(error - self._sag) > bound)
        self._passes[due] -= 1
        self._passes[due & ~away] = 0
        self._contact[self._passes == 0] = False
        return np.flatnonzero(away)


def way_back(
    names: tuple[str, ...], start: Array, end: Array, limits: JointLimits
) -> JointTrajectory:
    """Return a slow, smooth motion of a reference from rest to rest.

    A quintic's greatest speed is 15/8 of the mean, its acceleration 10/sqrt(3) d/T^2, its jerk
    60 d/T^3.

    Args:
        names: of the joints.
        start: [rad or m], shape (k,).
        end: likewise.
        limits: of these joints, of which a part is used.
    """
    d = np.abs(end - start)
    times = (
        1.875 * d / (SHARE * limits.velocity),
        np.sqrt(10.0 / np.sqrt(3.0) * d / (SHARE * limits.acceleration)),
        np.cbrt(60.0 * d / (SHARE * limits.jerk)),
    )
    duration = max(SHORTEST, *(float(t.max(initial=0.0)) for t in times))
    still = np.zeros((2, len(names)))
    return JointTrajectory(names, np.array([0.0, duration]), np.array([start, end]), still, still)
