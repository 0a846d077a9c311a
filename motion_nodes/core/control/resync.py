# SPDX-License-Identifier: Apache-2.0
"""Resynchronization after a stop: moves the reference to the measured positions of joints at rest.

Planners start at the measured state, controllers at their reference; after a blocked motion they
differ. The steady-state error of drives under an unknown load is excluded: it is stored while the
joints are at rest without contact, so that it never accumulates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.control.trajectory_follower import FollowGoal, Tolerances
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory, rest_to_rest_duration
from motion_nodes.typing import Array, Mask

REST_SPEED = 0.02
"""Velocity below which a joint is at rest [rad/s or m/s]."""
REST_TIME = 0.15
"""Min time at rest [s]."""
AFTER_CONTACT = 1e-3
"""Max difference that is ignored after a contact, because its force is small [rad or m]."""
CONTACT_PASSES = 6
"""Max number of corrections after a contact: joints spring back, or other joints move them."""
SHARE = 0.2
"""Fraction of the velocity and acceleration limits used for the correction."""
SHORTEST = 0.1
"""Min duration of a correction [s]."""


_NO_JOINTS: NDArray[np.intp] = np.empty(0, np.intp)


class Resync:
    """Requests to resynchronize joints with their references."""

    def __init__(self, n: int) -> None:
        """Create without requests."""
        self._passes: NDArray[np.int64] = np.zeros(n, np.int64)
        self._contact: Mask = np.zeros(n, np.bool_)
        self._sag: Array = np.zeros(n)
        self._rested: Array = np.zeros(n)
        self.never: Mask = np.zeros(n, np.bool_)
        """Joints that may push permanently, such as fingers, shape (n,)."""

    @property
    def sag(self) -> Array:
        """Steady-state errors of the joints at rest without contact [rad or m], shape (n,)."""
        return self._sag

    def request(self, joints: NDArray[np.intp], *, contact: bool = False) -> None:
        """Request the correction of joints as soon as they are at rest.

        Args:
            joints: indices, shape (k,).
            contact: whether they were blocked.
        """
        self._passes[joints] = CONTACT_PASSES if contact else 1
        self._contact[joints] = contact
        self._rested[joints] = 0.0

    def drop(self, joints: NDArray[np.intp]) -> None:
        """Cancel the requests of joints with a new command."""
        self._passes[joints] = 0
        self._contact[joints] = False
        self._rested[joints] = 0.0

    def update(
        self, dt: float, error: Array, speed: Array, leading: Mask, normal: Array | float
    ) -> NDArray[np.intp]:
        """Return joints whose reference must be moved to their measured positions, shape (k,).

        Args:
            dt: time since the last call [s].
            error: reference minus measured [rad or m], shape (n,).
            speed: measured velocities [rad/s or m/s], shape (n,).
            leading: joints whose reference moves or may not be moved, shape (n,).
            normal: tolerances below which errors are ignored [rad or m], shape (n,).
        """
        # Optimised for few operations: called in each cycle.
        size = np.abs(error)
        moves = leading | ~((np.abs(speed) < REST_SPEED) & (size < np.inf))
        self._rested += dt
        self._rested[moves] = 0.0
        ready = self._rested >= REST_TIME
        pending = self._passes > 0
        free = ready & ~pending & (size <= normal)
        np.copyto(self._sag, error, where=free)
        if not pending.any():
            return _NO_JOINTS
        due = ready & pending & ~self.never
        if not due.any():
            return _NO_JOINTS
        bound = np.where(self._contact, np.minimum(AFTER_CONTACT, normal), normal)
        away = due & (np.abs(error - self._sag) > bound)
        self._passes[due] -= 1
        self._passes[due & ~away] = 0
        self._contact[self._passes == 0] = False
        return np.flatnonzero(away)


def allowed_start(start: Array, reference: Array, measured: Array, speed: Array) -> Array:
    """Return valid start positions of a trajectory: the reference, or measured joints at rest.

    After a blocked motion these differ for a short time, and planners use measured positions.

    Args:
        start: first point of the trajectory [rad or m], shape (k,).
        reference: reference of the controller [rad or m], shape (k,).
        measured: measured positions [rad or m], shape (k,).
        speed: measured velocities [rad/s or m/s], shape (k,).

    Returns:
        For each joint the closer of the two, shape (k,).
    """
    nearer = np.abs(start - measured) < np.abs(start - reference)
    return np.where(nearer & (np.abs(speed) < REST_SPEED), measured, reference)


def return_goal(
    names: tuple[str, ...], start: Array, end: Array, limits: JointLimits
) -> FollowGoal:
    """Return a slow, smooth motion of a reference from rest to rest, without tolerances.

    Args:
        names: names of the joints.
        start: start positions [rad or m], shape (k,).
        end: end positions, clipped to the limits [rad or m], shape (k,).
        limits: limits of these joints, of which a fraction is used.
    """
    end = end.clip(limits.lower, limits.upper)
    usable = (SHARE * limits.velocity, SHARE * limits.acceleration, SHARE * limits.jerk)
    duration = max(SHORTEST, rest_to_rest_duration(np.abs(end - start), *usable))
    still = np.zeros((2, len(names)))
    none = Tolerances.uniform(len(names), 0.0)
    trajectory = JointTrajectory(
        names, np.array([0.0, duration]), np.array([start, end]), still, still
    )
    return FollowGoal(trajectory=trajectory, path=none, goal=none)
