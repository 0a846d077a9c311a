# SPDX-License-Identifier: Apache-2.0
"""Resynchronization after a stop: moves the reference to the measured positions of joints at rest.

Planners start at the measured state, controllers at their reference; after a blocked motion they
differ. The steady-state error of drives under an unknown load is excluded: it is stored while the
joints are at rest without contact, so that it never accumulates.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.control.trajectory_follower import FollowGoal, Tolerances
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory, rest_to_rest_duration
from motion_nodes.kernels.cycle_code import cycle_function, cycle_part, zeros
from motion_nodes.typing import Array, Mask

REST_SPEED = 0.02
"""Velocity below which a joint is at rest [rad/s or m/s]."""
REST_TIME = 0.15
"""Min time at rest [s]."""
RESYNC_TOLERANCE = 0.05
"""Max distance of references from joints without a tolerance after a stop [rad or m]."""
AFTER_CONTACT = 1e-3
"""Max difference that is ignored after a contact, because its force is small [rad or m]."""
CONTACT_PASSES = 6
"""Max number of corrections after a contact: joints spring back, or other joints move them."""
SHARE = 0.2
"""Fraction of the velocity and acceleration limits used for the correction."""
SHORTEST = 0.1
"""Min duration of a correction [s]."""


_NO_JOINTS: NDArray[np.intp] = np.empty(0, np.intp)


class ResyncState(NamedTuple):
    """Memory of n joints, arrays of shape (n,)."""

    error: Array
    """Reference minus measured position [rad or m]."""
    speed: Array
    """Measured velocities [rad/s or m/s]."""
    leading: Mask
    """Joints whose reference moves or may not be moved."""
    normal: Array
    """Tolerances below which errors are ignored [rad or m]."""
    never: Mask
    """Joints that may push permanently."""
    passes: NDArray[np.int64]
    """Corrections left; 0 without a request."""
    contact: Mask
    """Joints that were blocked."""
    sag: Array
    """Steady-state errors [rad or m]."""
    rested: Array
    """Times at rest [s]."""
    away: Mask
    """Joints whose reference must be moved."""
    dt: Array
    """Time since the last call [s], shape (1,)."""

    @classmethod
    def of(cls, n: int) -> ResyncState:
        """Return the memory of n joints without requests."""
        masks = "leading", "never", "contact", "away"
        return zeros(cls, n, masks, passes=np.zeros(n, np.int64), dt=np.zeros(1))


@cycle_part
def count_away(s: ResyncState) -> int:
    """Update times and errors at rest; return the number of references to be moved."""
    count = 0
    for j in range(len(s.error)):
        size, requested = abs(s.error[j]), s.passes[j] > 0
        still = abs(s.speed[j]) < REST_SPEED and size < math.inf and not s.leading[j]
        s.rested[j] = s.rested[j] + s.dt[0] if still else 0.0
        ready = s.rested[j] >= REST_TIME
        s.away[j] = False
        if ready and not requested and size <= s.normal[j]:
            s.sag[j] = s.error[j]
        if not ready or not requested or s.never[j]:
            continue
        bound = min(AFTER_CONTACT, s.normal[j]) if s.contact[j] else s.normal[j]
        s.away[j] = abs(s.error[j] - s.sag[j]) > bound
        s.passes[j] = s.passes[j] - 1 if s.away[j] else 0
        s.contact[j] = s.contact[j] and s.passes[j] > 0
        count += s.away[j]
    return count


_update = cycle_function(ResyncState.of(1))(count_away)


class Resync:
    """Requests to resynchronize joints with their references."""

    def __init__(self, n: int) -> None:
        """Create without requests."""
        self.state = state = ResyncState.of(n)
        self._update = _update.bind(state)
        self._passes, self._contact, self._rested = state.passes, state.contact, state.rested
        self.never: Mask = state.never
        """Joints that may push permanently, such as fingers, shape (n,)."""

    @property
    def sag(self) -> Array:
        """Steady-state errors of the joints at rest without contact [rad or m], shape (n,)."""
        return self.state.sag

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
        state = self.state
        state.error[:], state.speed[:], state.leading[:] = error, speed, leading
        state.normal[:], state.dt[0] = normal, dt
        return np.flatnonzero(state.away) if self._update() else _NO_JOINTS


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
