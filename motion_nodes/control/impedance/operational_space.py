# SPDX-License-Identifier: Apache-2.0
"""Operational space of an arm: inertia at the tool, and the dynamically consistent nullspace.

    Lambda = (J M^-1 J^T)^-1,   J_bar = M^-1 J^T Lambda,   N = 1 - J^T J_bar^T

Source: O. Khatib, "A unified approach for motion and force control of robot manipulators", IEEE
Journal of Robotics and Automation 3(1), 1987.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.payload import PayloadDynamics
from motion_nodes.model.robot import Robot
from motion_nodes.typing import Array

MAX_INERTIA = 300.0
"""Max eigenvalue of Lambda [kg or kg m^2], which is infinite in singular directions: forces along
them do not accelerate the tool."""


@dataclass(frozen=True, eq=False)
class ArmState:
    """Kinematics and dynamics of an arm in one state; spatial vectors are (linear, angular)."""

    q: Array
    """Joint positions [rad or m], shape (n,)."""
    v: Array
    """Joint velocities [rad/s or m/s], shape (n,)."""
    X_BT: Array
    """Pose of the tool in the base, shape (4, 4)."""
    J: Array
    """Jacobian of the tool in the base's axes, shape (6, n)."""
    M: Array
    """Joint-space inertia, shape (n, n)."""
    M_inv: Array
    """Its inverse, shape (n, n)."""
    bias: Array
    """Coriolis, centrifugal and damping efforts, and gravity if compensated [N m], shape (n,)."""
    inertia: Array
    """Inertia of the arm at the tool, Lambda, shape (6, 6)."""

    @property
    def twist(self) -> Array:
        """Velocity of the tool in the base's axes [m/s, rad/s], shape (6,)."""
        return np.asarray(self.J @ self.v)

    @property
    def nullspace(self) -> Array:
        """Projector of joint efforts that do not accelerate the tool, shape (n, n)."""
        return np.asarray(np.eye(len(self.q)) - self.J.T @ (self.inertia @ self.J @ self.M_inv))

    def wrench_of(self, efforts: Array) -> Array:
        """Return the wrench at the tool that is equivalent to joint efforts, shape (6,)."""
        return np.asarray(self.inertia @ (self.J @ (self.M_inv @ efforts)))


class OperationalSpace:
    """Computes :class:`ArmState` for the joints of a group."""

    def __init__(self, robot: Robot, joints: Sequence[str], tool: str) -> None:
        """Create and compile.

        Args:
            robot: robot with inertial parameters.
            joints: joints of the arm, in order.
            tool: frame of wrenches and poses.

        Raises:
            UnknownJoint, UnknownFrame: unknown name.
        """
        self.joint_names, self.tool = tuple(joints), tool
        self._kinematics = Kinematics(robot.tree, joints, base=robot.base_frame)
        self.dynamics = PayloadDynamics(robot, joints, tool)
        """Inverse dynamics, with the payload."""
        self.at(robot.home[robot.indices(self.joint_names)], np.zeros(len(joints)))  # compiles

    def at(self, q: Array, v: Array, *, gravity: bool = True) -> ArmState:
        """Return the state at joint positions and velocities.

        Args:
            q: positions [rad or m], shape (n,).
            v: velocities [rad/s or m/s], shape (n,).
            gravity: whether the bias includes gravity.
        """
        X, J = self._kinematics.pose_and_jacobian(q, self.tool)
        M, bias, weight = self.dynamics.terms(q, v)
        if not gravity:
            bias = bias - weight
        M_inv = np.asarray(np.linalg.inv(M), np.float64)
        return ArmState(q, v, X, J, M, M_inv, bias, inertia_at(J @ M_inv @ J.T))


def inertia_at(mobility: Array) -> Array:
    """Return the inverse of the mobility ``J M^-1 J^T``, shape (6, 6), bounded at singularities.

    Eigenvalues of the inertia are bounded by :data:`MAX_INERTIA`, so that efforts stay finite where
    the tool cannot be accelerated.
    """
    values, vectors = np.linalg.eigh(mobility)
    return np.asarray((vectors / values.clip(1.0 / MAX_INERTIA)) @ vectors.T)
