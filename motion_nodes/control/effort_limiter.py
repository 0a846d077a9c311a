# SPDX-License-Identifier: Apache-2.0
"""Effort limits for joints with position-controlled drives.

Such a drive has no effort limit per command, but its effort is its stiffness times the position
error. A reference within ``limit / stiffness`` of the joint bounds it:

    |q* - q| <= limit / kp   =>   |kp (q* - q)| <= limit

The joint's position is filtered (first order): the drive receives references with a delay, and a
reference relative to the newest position would oscillate. The lag of the filter acts as a damper on
a joint that moves towards its target. The reference satisfies the joint's velocity and acceleration
limits for any measurement: at distance d behind its goal, it is faster by at most ``sqrt(2 a d)``.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from motion_nodes.control.joint_reference import JointReference
from motion_nodes.model.limits import JointLimits
from motion_nodes.typing import Array

FILTER_TIME = 0.02
"""Time constant of the filter [s]; several periods of the stream and of its latency."""
_EXACT = 1e-12
"""Distance within which a reference is at its goal [rad or m]."""


class EffortLimiter:
    """Limits the distance between references and joints with an effort limit."""

    def __init__(self, stiffness: Array, limits: JointLimits) -> None:
        """Create a limiter for n joints.

        Args:
            stiffness: stiffness of the drives [N m/rad or N/m], shape (n,); 0: unknown, not
                limited.
            limits: limits of the joints; filtered positions satisfy position and velocity limits
                for any measurement.
        """
        self._stiffness, self._limits = stiffness, limits
        self._limited: NDArray[np.bool_]
        """Joints whose references were limited."""
        self.reset()

    def reset(self) -> None:
        """Reset positions and references."""
        n = len(self._stiffness)
        self._filtered: Array | None = None
        self._limited = np.zeros(n, np.bool_)
        self._sent = self._goal = self._before = np.full(n, np.nan)
        self._dt = math.inf
        """Time from the reference before the last sent one to that [s]."""

    def limit(
        self, reference: JointReference, position: Array, max_effort: Array, dt: float
    ) -> JointReference:
        """Return a reference that the drives follow within the given efforts.

        Args:
            reference: reference of n joints.
            position: measured positions [rad or m], shape (n,).
            max_effort: effort limits [N m or N], shape (n,); infinite for no limit.
            dt: time since the last call [s].
        """
        if not np.count_nonzero(self._limited | (max_effort < np.inf)):
            self._filtered = None
            self._note(reference.positions, reference.positions, dt)
            return reference
        near = self._filter(position, dt)
        reach = np.divide(
            max_effort,
            self._stiffness,
            out=np.full_like(max_effort, np.inf),
            where=self._stiffness > 0.0,
        )
        goal = reference.positions.clip(near - reach, near + reach)
        # Joints without a limit follow their references at any velocity.
        slow = np.isfinite(reach) | self._limited
        positions = np.where(slow, self._approached(goal, reference.positions, dt), goal)
        before = self._limited
        self._limited = (positions != reference.positions) & ~np.isnan(reference.positions)
        self._note(positions, goal, dt)
        # Damping with a reference at rest only reduces the effort. When the original reference is
        # met again, the sent one is not yet as fast.
        speed = self._speed()
        least, most = np.minimum(speed, 0.0), np.maximum(speed, 0.0)
        velocities = np.where(before, reference.velocities.clip(least, most), reference.velocities)
        velocities = np.where(self._limited, 0.0, velocities)
        return dataclasses.replace(reference, positions=positions, velocities=velocities)

    def _approached(self, goal: Array, reference: Array, dt: float) -> Array:
        """Return the next positions towards goals [rad or m], shape (n,)."""
        last = np.where(np.isnan(self._sent), reference, self._sent)
        if dt <= 0.0:
            return last
        limits, gain = self._limits, self._limits.acceleration * dt
        lead = np.nan_to_num((goal - self._goal) / dt).clip(-limits.velocity, limits.velocity)
        behind = goal - last - lead * dt
        brake = np.full_like(gain, np.inf)
        bounded = np.isfinite(gain)
        half = 0.5 * gain[bounded]
        brake[bounded] = (
            np.sqrt(half**2 + 2.0 * gain[bounded] / dt * np.abs(behind[bounded])) - half
        )
        before = self._speed()
        speed = lead + (behind / dt).clip(-brake, brake)
        speed = speed.clip(before - gain, before + gain)
        positions = last + speed.clip(-limits.velocity, limits.velocity) * dt
        return np.where(np.abs(goal - positions) < _EXACT, goal, positions)

    def _note(self, positions: Array, goal: Array, dt: float) -> None:
        """Store the sent reference and its goal."""
        if dt > 0.0:
            self._before, self._dt = self._sent, dt
        else:
            self._before = positions - (self._sent - self._before)
        self._sent, self._goal = positions, goal

    def _speed(self) -> Array:
        """Return the velocity of the sent references, shape (n,); computed only if used."""
        return np.asarray(np.nan_to_num((self._sent - self._before) / self._dt))

    def _filter(self, position: Array, dt: float) -> Array:
        limits = self._limits
        position = np.minimum(np.maximum(position, limits.lower), limits.upper)
        if self._filtered is None:
            self._filtered = position
        step = (position - self._filtered) * -math.expm1(-dt / FILTER_TIME)
        reach = limits.velocity * dt
        self._filtered = self._filtered + np.minimum(np.maximum(step, -reach), reach)
        return self._filtered
