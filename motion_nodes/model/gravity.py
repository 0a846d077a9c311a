# SPDX-License-Identifier: Apache-2.0
"""The efforts that hold a robot against gravity, from its masses and its kinematics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from motion_nodes.errors import BadConfig
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.tree import Array, KinematicTree

STANDARD_GRAVITY = (0.0, 0.0, -9.80665)
"""[m/s^2] in the root frame of a robot that stands upright (CGPM 1901)."""


class GravityLoad:
    """Efforts of gravity on the joints of a tree that stands still.

    ``tau_j = - sum_i m_i g . dp_i/dq_j`` over the centres of mass p_i: the effort that a joint must
    put up. Source: virtual work; Lynch and Park, "Modern Robotics", eq. 8.62.
    """

    def __init__(
        self,
        tree: KinematicTree,
        joints: Sequence[str] | None = None,
        gravity: Sequence[float] = STANDARD_GRAVITY,
    ) -> None:
        """Prepare and compile.

        Args:
            tree: with the masses.
            joints: whose efforts are wanted, in this order; all actuated ones by default. The
                others are taken as standing at 0.
            gravity: acceleration in the root frame [m/s^2], shape (3,).

        Raises:
            BadConfig: for a gravity that is not three finite numbers.
            UnknownJoint: for a name that is not among the joints.
        """
        g = np.asarray(gravity, dtype=np.float64)
        if g.shape != (3,) or not np.isfinite(g).all():
            raise BadConfig(f"gravity must be three finite numbers [m/s^2], got {gravity}")
        self._gravity = g
        self._kinematics = Kinematics(tree, joints)
        self._bodies = [
            (name, inertial.mass, inertial.X_LC[:3, 3])
            for name in tree.frame_names[1:]
            if (inertial := tree.link(name).inertial) is not None
        ]
        self._kinematics.warm_up([name for name, _, _ in self._bodies])

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joints whose efforts are given, in this order."""
        return self._kinematics.joint_names

    def efforts(self, q: Array) -> Array:
        """Return the efforts that hold the robot at ``q`` [rad or m], shape (n,), [N m or N]."""
        tau = np.zeros(len(self.joint_names))
        for name, mass, p_LC in self._bodies:
            X_WL, J_WL = self._kinematics.pose_and_jacobian(q, name)
            weight = mass * self._gravity
            # J of the centre of mass: linear part plus angular part times the arm to it.
            arm = X_WL[:3, :3] @ p_LC
            tau -= J_WL[:3].T @ weight + J_WL[3:].T @ np.cross(arm, weight)
        return tau
