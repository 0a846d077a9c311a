# SPDX-License-Identifier: Apache-2.0
"""Effort limits for joints whose own drives follow positions.

Such a drive accepts no effort limit with a command, but its effort is its stiffness times the
position error. A reference within ``limit / stiffness`` of the joint bounds it:

    |q* - q| <= limit / kp   =>   |kp (q* - q)| <= limit

The joint's position passes a first-order filter on its way: references travel to the drive with
some delay, and a reference tied to the newest position would make the two oscillate. A joint that
moves towards its target is pushed less by this, as by a damper. Where a limit begins or ends the
reference moves at the joint's velocity limit, so that no push comes or goes in a step.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from motion_nodes.control.joint_controller import JointReference
from motion_nodes.model.limits import JointLimits

Array = NDArray[np.float64]

FILTER_TIME = 0.02
"""Time constant of the filter [s]; several periods of the stream and of its latency."""


class EffortLimiter:
    """Limits the distance of references from their joints where efforts are limited."""

    def __init__(self, stiffness: Array, limits: JointLimits) -> None:
        """Create a limiter for n joints.

        Args:
            stiffness: of the drives [N m/rad or N/m], shape (n,); 0 if unknown, then nothing is
                limited.
            limits: of the joints; a filtered position stays within those of position and velocity,
                whatever a state message contains.
        """
        self._stiffness, self._limits = stiffness, limits
        self._filtered: Array | None = None
        self._last: Array = np.full(len(stiffness), np.nan)
        """Last limited references [rad or m]; NaN for joints that follow their own."""

    def reset(self) -> None:
        """Forget positions and limited references."""
        self._filtered = None
        self._last[:] = np.nan

    def limit(
        self, reference: JointReference, position: Array, max_effort: Array, dt: float
    ) -> JointReference:
        """Return a reference that the drives follow within the given efforts.

        Args:
            reference: of n joints.
            position: measured positions [rad or m], shape (n,).
            max_effort: effort limits [N m or N], shape (n,); infinite for no limit.
            dt: time since the last call [s].
        """
        # Updated without limits too: a false state must not cause a jump when a limit begins.
        near = self._filter(position, dt)
        if np.isinf(max_effort).all() and np.isnan(self._last).all():
            return reference
        reach = np.divide(
            max_effort,
            self._stiffness,
            out=np.full_like(max_effort, np.inf),
            where=self._stiffness > 0.0,
        )
        goal = reference.positions.clip(near - reach, near + reach)
        step = self._limits.velocity * dt
        away = ~np.isnan(self._last)
        last = np.where(away, self._last, reference.positions)
        # Joints without a limit follow their references at any velocity.
        slow = np.isfinite(reach) | away
        positions = np.where(slow, goal.clip(last - step, last + step), goal)
        limited = (positions != reference.positions) & ~np.isnan(reference.positions)
        self._last = np.where(limited, positions, np.nan)
        # Damping against a reference at rest only reduces the effort.
        velocities = np.where(limited, 0.0, reference.velocities)
        return dataclasses.replace(reference, positions=positions, velocities=velocities)

    def _filter(self, position: Array, dt: float) -> Array:
        limits = self._limits
        position = position.clip(limits.lower, limits.upper)
        if self._filtered is None:
            self._filtered = position
        step = (position - self._filtered) * -math.expm1(-dt / FILTER_TIME)
        reach = limits.velocity * dt
        self._filtered = self._filtered + step.clip(-reach, reach)
        return self._filtered
