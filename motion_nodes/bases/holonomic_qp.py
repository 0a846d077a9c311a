# SPDX-License-Identifier: Apache-2.0
"""Wheel velocities of a holonomic base by Isaac Sim's quadratic program, solved in closed form."""

from __future__ import annotations

import numpy as np

from motion_nodes.bases.base import Twist2, check_finite
from motion_nodes.bases.holonomic import HolonomicBase, HolonomicConfig
from motion_nodes.bases.holonomic_layout import projected
from motion_nodes.typing import Array

MIRRORED_YAW = np.array((1.0, 1.0, -1.0))
"""The program uses the lever arm with the opposite sign, which inverts yaw."""


class HolonomicQpBase(HolonomicBase):
    """Min wheel velocities whose forces along x, y and about the middle add up to the twist.

    ::

        minimise  x' P x / 2,  P = diag(r) / |r|
        subject to  A x = (vx, vy, wz),  column i of A: r_i (t_x, t_y, t_x p_y - t_y p_x)

    with ``r``, ``t`` and ``p`` as in :class:`~motion_nodes.bases.holonomic.HolonomicBase`. Its
    optimum is linear in the twist, so one matrix solves it: exactly, and in microseconds.

    It treats wheel velocities as forces and does not satisfy rolling without slip. Three omni
    wheels at 120 degrees drive at two thirds of the commanded velocity, and yaw in the wrong
    direction. Use it only to reproduce Isaac Sim. :meth:`twist_from_wheels` assumes rolling wheels,
    so odometry is correct.

    Source: KKT conditions of an equality-constrained quadratic program (Boyd and Vandenberghe,
    Convex Optimization, 10.1.1): ``x = P^-1 A' (A P^-1 A')^-1 b``.
    """

    def __init__(self, config: HolonomicConfig) -> None:
        """Create from a validated configuration."""
        super().__init__(config)
        radii, layout = self.wheel_radii, self.layout
        self.constraint = self._sign * MIRRORED_YAW[:, None] * (radii[:, None] * layout.rows).T
        """``A``, shape (3, wheels)."""
        self.cost = radii / np.linalg.norm(radii)
        """Diagonal of ``P``, shape (wheels,)."""
        undriven = MIRRORED_YAW[:, None] * layout.undriven
        light = undriven / layout.weights[:, None]
        self._feasible = np.eye(3) - light @ np.linalg.solve(undriven.T @ light, undriven.T)
        # An orthonormal basis of the range of the constraints: the full space, for most bases.
        reach = np.linalg.svd(undriven)[0][:, undriven.shape[1] :]
        root = 1.0 / np.sqrt(self.cost)
        self._solve = root[:, None] * np.linalg.pinv(reach.T @ (self.constraint * root)) @ reach.T

    def nearest_twist(self, twist: Twist2) -> Twist2:
        """Return the closest twist for which the program is feasible.

        Raises:
            InvalidCommand: a twist that is not finite.
        """
        check_finite(twist)
        return projected(twist, self._feasible) if self.layout.undriven.size else twist

    def wheels_from_twist(self, twist: Twist2) -> Array:
        """Return the optimum [rad/s], shape (wheels,).

        Raises:
            InvalidCommand: for a twist that is not finite.
        """
        check_finite(twist)
        wheels: Array = self._solve.dot(twist)
        return wheels
