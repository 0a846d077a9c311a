# SPDX-License-Identifier: Apache-2.0
"""Clearances of many configurations that are too small, with their gradients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.typing import Array

_STEP = 1e-5
"""Step of forward differences of sphere positions [rad or m]."""
_REACH = 0.05
"""Pairs of the robot's spheres that are farther apart at first are not considered [m]."""


class Shortfalls(NamedTuple):
    """Distances below the desired clearance."""

    row: NDArray[np.intp]
    """Index of the configuration, shape (k,)."""
    missing: Array
    """Missing distance [m], shape (k,)."""
    gradient: Array
    """Of the distance [m/rad or m/m], shape (k, n)."""


class Clearances:
    """Clearances of one checker's robot, by its collision spheres."""

    def __init__(self, checker: CollisionChecker, world: float, between: float) -> None:
        """Create.

        Args:
            checker: robot and scene.
            world: desired distance of each sphere from the world, beyond the clearance [m].
            between: the same between spheres of the robot [m].
        """
        self._checker, self._pairs = checker, checker.sphere_pairs()
        self._world = world + checker.clearance
        self._between = between
        self._near: NDArray[np.intp] | None = None

    def shortfalls(self, Q: Array) -> Shortfalls:
        """Return all clearances that are too small.

        Args:
            Q: configurations [rad or m], shape (m, n).
        """
        distance, direction = self._checker.world_distances(Q)
        in_world = distance < self._world
        centres = self._pairs.centres(Q)
        if self._near is None:
            gap, _ = self._pairs.own_gaps(centres, slice(None))
            self._near = np.flatnonzero((gap < self._between + _REACH).any(axis=0))
        gap, normal = self._pairs.own_gaps(centres, self._near)
        in_robot = gap < self._between
        rows = np.flatnonzero(in_world.any(axis=1) | in_robot.any(axis=1))
        J = self._jacobians(Q[rows], centres[rows])
        where = np.zeros(len(Q), np.intp)
        where[rows] = np.arange(len(rows))
        row, sphere = np.nonzero(in_world)
        moves = np.einsum("kjc,kc->kj", J[where[row], :, sphere], direction[row, sphere])
        other, pair = np.nonzero(in_robot)
        first, second = self._pairs.own_spheres(self._near[pair])
        apart = J[where[other], :, first] - J[where[other], :, second]
        moves2 = np.einsum("kjc,kc->kj", apart, normal[other, pair])
        missing = [self._world - distance[in_world], self._between - gap[in_robot]]
        return Shortfalls(
            np.concatenate([row, other]), np.concatenate(missing), np.concatenate([moves, moves2])
        )

    def _jacobians(self, Q: Array, centres: Array) -> Array:
        """Return the derivatives of the spheres' positions, shape (m, n, s, 3)."""
        m, n = Q.shape
        moved = (Q[:, None] + _STEP * np.eye(n)).reshape(m * n, n)
        ahead = self._pairs.centres(moved).reshape(m, n, *centres.shape[1:])
        return np.asarray((ahead - centres[:, None]) / _STEP)
