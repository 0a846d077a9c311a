# SPDX-License-Identifier: Apache-2.0
"""Speed limits of points that move with the joints, such as a tool, along a path.

With the speed s' along a path q(s), a point with the Jacobian J moves with ``|J q'| s'``: its limit
is one of the speed along the path at each place, so that the motion is as fast as all other limits
permit where the point is slower, and has a phase of constant speed where it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import InvalidConfig
from motion_nodes.trajectory.timed_path import TimedPath
from motion_nodes.typing import Array

_SLOWEST = 1e-12
"""Rate of a point, as a share of its limit per unit of the distance, below which it is at rest."""


@dataclass(frozen=True, eq=False)
class PointSpeeds:
    """Speed limits of some points.

    Raises:
        InvalidConfig: a limit that is not above 0.
    """

    jacobians: Sequence[Callable[[Array], Array]]
    """Jacobian of each point: configurations, shape (k, n), to matrices, shape (k, 3, n)."""
    limits: Sequence[float]
    """Max speed of each [m/s]."""

    def __post_init__(self) -> None:
        """Check the limits."""
        for limit in self.limits:
            if not limit > 0.0:
                raise InvalidConfig(
                    f"max_speed is {limit} m/s; it must be above 0.", field="max_speed"
                )

    @property
    def count(self) -> int:
        """Number of points."""
        return len(self.limits)

    def shares(self, q: Array, rate: Array) -> Array:
        """Return the speeds of the points as shares of their limits, shape (k, count).

        Args:
            q: configurations [rad or m], shape (k, n).
            rate: velocities, or derivatives by the distance along a path, shape (k, n).
        """
        found = [
            np.linalg.norm(np.einsum("kij,kj->ki", jacobian(q), rate), axis=1) / limit
            for jacobian, limit in zip(self.jacobians, self.limits, strict=True)
        ]
        return np.stack(found, axis=1) if found else np.zeros((len(q), 0))

    def max_squared(self, q: Array, rate: Array) -> Array:
        """Return the max of the squared speed along a path, shape (k,); see :meth:`shares`."""
        most = self.shares(q, rate).max(axis=1, initial=0.0)
        return np.asarray(1.0 / np.maximum(most, _SLOWEST) ** 2)

    def stretch(self, motion: TimedPath) -> float:
        """Return the factor by which a motion must be slowed down for the limits; 1: none."""
        times = np.union1d(motion.times, 0.5 * (motion.times[1:] + motion.times[:-1]))
        q, v, _, _ = motion.states(times)
        return max(float(self.shares(q, v).max(initial=0.0)), 1.0)
