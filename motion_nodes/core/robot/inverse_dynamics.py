# SPDX-License-Identifier: Apache-2.0
"""Inverse dynamics: joint efforts of a motion.

Calls of the generated code take a few microseconds. Construction may compile code and must not be
done in a control loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.robot.tree import KinematicTree
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownJoint
from motion_nodes.kernels.dynamics_codegen import LinkMasses, bodies_of, dynamics_calls
from motion_nodes.kernels.kinematic_arrays import pack
from motion_nodes.typing import Array

STANDARD_GRAVITY = (0.0, 0.0, -9.80665)
"""Gravity in the root frame of an upright robot [m/s^2] (CGPM 1901)."""


class DynamicsTerms(NamedTuple):
    """Terms of ``tau = M a + bias``."""

    inertia: Array
    """Joint-space inertia M(q) with the armature [kg m^2 or kg], shape (n, n)."""
    bias: Array
    """Coriolis, centrifugal and damping efforts, and gravity [N m or N], shape (n,)."""
    gravity: Array
    """Gravity compensation efforts [N m or N], shape (n,)."""


class InverseDynamics:
    """Inverse dynamics of a tree with a fixed root.

    ``tau = M(q) a + C(q, v) v + D v + g(q)``: inertia (with the armature of the drives), Coriolis
    and centrifugal efforts, the viscous joint damping of the URDF, gravity. Dry friction, whose
    sign is undefined at rest, is not included. Source: recursive Newton-Euler algorithm, Luh,
    Walker and Paul 1980; Featherstone, "Rigid Body Dynamics Algorithms", section 5.3.
    """

    def __init__(
        self,
        tree: KinematicTree,
        joints: Sequence[str] | None = None,
        *,
        gravity: Sequence[float] = STANDARD_GRAVITY,
        armature: ArrayLike = 0.0,
        generic: bool = False,
    ) -> None:
        """Create and compile.

        Args:
            tree: kinematic tree with inertial parameters.
            joints: joints of all arrays, in this order; default: all actuated joints. Others are
                fixed at 0.
            gravity: acceleration in the root frame [m/s^2], shape (3,).
            armature: rotor and gear inertia reflected to each joint [kg m^2 or kg]; one per joint,
                or a scalar.
            generic: True to use the generic implementation even if code can be generated.

        Raises:
            InvalidConfig: a gravity that is not three finite numbers, or an armature that is
                negative, not finite, or of wrong length.
            UnknownJoint: a name that is not an actuated joint.
        """
        self.joint_names = tree.joint_names if joints is None else tuple(joints)
        for name in self.joint_names:
            if name not in tree.joint_names:
                raise UnknownJoint(name, tree.joint_names, f"the actuated joints of {tree.name}")
        n = len(self.joint_names)
        g = np.asarray(gravity, dtype=np.float64)
        if g.shape != (3,) or not np.isfinite(g).all():
            raise InvalidConfig(
                f"gravity must be three finite numbers [m/s^2], got {gravity}", field="gravity"
            )
        rotor = np.asarray(armature, dtype=np.float64)
        if rotor.shape not in ((), (n,)) or not (np.isfinite(rotor) & (rotor >= 0.0)).all():
            raise InvalidConfig(
                f"armature must be {n} numbers of 0 or above, got {armature!r}", field="armature"
            )
        arrays = pack(tree.packed, self.joint_names, {})
        bodies = bodies_of(arrays, _masses(tree), np.broadcast_to(rotor, (n,)).copy(), g)
        self._run, self._run_many, self.generated = dynamics_calls(bodies, generic=generic)
        """Whether generated code is used, or the slower generic implementation."""
        self._zero = np.zeros(n)
        self._rows = np.zeros((n + 2, 3 * n))
        """Inputs of :meth:`terms`: unit accelerations, motion without acceleration, rest."""
        self._rows[:n, 2 * n :] = np.eye(n)

    def efforts(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> Array:
        """Return the efforts of a motion [N m or N], shape (n,).

        Args:
            q: joint positions [rad or m], shape (n,).
            v: velocities [rad/s or m/s], shape (n,).
            a: accelerations [rad/s^2 or m/s^2], shape (n,).

        Raises:
            InvalidCommand: an argument is not n numbers.
        """
        tau, n = np.empty_like(self._zero), len(self._zero)
        try:
            if len(q) == len(v) == n and not self._run(np.concatenate((q, v, a)), tau):  # type: ignore[arg-type]
                return tau
        except (TypeError, ValueError):
            pass
        # Lists, integers, or invalid arguments.
        x = np.concatenate([self._checked(values) for values in (q, v, a)])
        if self._run(x, tau):
            raise RuntimeError("the kernel refuses its own kind of arrays")
        return tau

    def efforts_batch(self, Q: Array, V: Array, A: Array) -> Array:
        """Return the efforts of k states [N m or N], shape (k, n).

        Args:
            Q: joint positions [rad or m], shape (k, n); all arrays are float64.
            V: velocities [rad/s or m/s], shape (k, n).
            A: accelerations [rad/s^2 or m/s^2], shape (k, n).

        Raises:
            InvalidCommand: arguments of another shape than (k, n).
        """
        shape = (len(Q), len(self._zero))
        if not Q.shape == V.shape == A.shape == shape:
            raise InvalidCommand(
                f"positions, velocities and accelerations must have shape {shape}, got "
                f"{Q.shape}, {V.shape} and {A.shape}"
            )
        return self.efforts_of_states(np.stack((Q, V, A), axis=1))

    def efforts_of_states(self, states: Array) -> Array:
        """Return the efforts of k states [N m or N], shape (k, n).

        Args:
            states: positions, velocities and accelerations, shape (k, 3, n).

        Raises:
            InvalidCommand: another shape.
        """
        if states.shape[1:] != (3, len(self._zero)):
            raise InvalidCommand(
                f"states must have shape (k, 3, {len(self._zero)}), got {states.shape}"
            )
        tau = np.empty((len(states), len(self._zero)))
        self._run_many(np.ascontiguousarray(states, np.float64).reshape(len(states), -1), tau)
        return tau

    def gravity(self, q: ArrayLike) -> Array:
        """Return the gravity compensation efforts [N m or N], shape (n,).

        Args:
            q: joint positions [rad or m], shape (n,).

        Raises:
            InvalidCommand: the argument is not n numbers.
        """
        return self.efforts(q, self._zero, self._zero)

    def terms(self, q: ArrayLike, v: ArrayLike) -> DynamicsTerms:
        """Return inertia, bias and gravity in one call.

        Args:
            q: joint positions [rad or m], shape (n,).
            v: velocities [rad/s or m/s], shape (n,).

        Raises:
            InvalidCommand: an argument is not n numbers.

        Source: the columns of M are the efforts of unit accelerations (Walker and Orin 1982,
        method 1).
        """
        n = len(self._zero)
        rows, tau = self._rows.copy(), np.empty((n + 2, n))
        rows[:, :n], rows[n, n : 2 * n] = self._checked(q), self._checked(v)
        self._run_many(rows, tau)
        gravity = tau[n + 1]
        M = tau[:n] - gravity
        return DynamicsTerms(0.5 * (M + M.T), tau[n], gravity)

    def _checked(self, values: ArrayLike) -> Array:
        try:
            array = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidCommand(f"inverse dynamics need numbers: {error}") from error
        if array.shape != self._zero.shape:
            raise InvalidCommand(
                f"inverse dynamics of {len(self._zero)} joints ({', '.join(self.joint_names)}) "
                f"were given shape {array.shape}"
            )
        return array


def _masses(tree: KinematicTree) -> LinkMasses:
    """Return the inertias of all links; zero for links without one."""
    count = len(tree.frame_names)
    mass, damping = np.zeros(count), np.zeros(count)
    center, inertia = np.zeros((count, 3)), np.zeros((count, 3, 3))
    for row, name in enumerate(tree.frame_names):
        joint, own = tree.parent_joint.get(name), tree.link(name).inertial
        damping[row] = joint.damping if joint is not None else 0.0
        if own is not None:
            R = own.X_LC[:3, :3]
            mass[row], center[row] = own.mass, own.X_LC[:3, 3]
            inertia[row] = R @ own.inertia @ R.T
    return LinkMasses(mass, center, inertia, damping)
