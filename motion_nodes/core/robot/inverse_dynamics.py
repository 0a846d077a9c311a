# SPDX-License-Identifier: Apache-2.0
"""Inverse dynamics: joint efforts of a motion, also with a payload at the tool.

Calls of the generated code take a few microseconds. Construction may compile code and must not be
done in a control loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.robot import Robot
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


_GRAVITY = np.array(STANDARD_GRAVITY)
LEAST_PAYLOAD = 0.02
"""Smaller masses are identified as no payload [kg]."""
_DIFFERENCE = 1e-4
"""Time step of finite differences of the Jacobian [s]."""


@dataclass(frozen=True)
class Payload:
    """A point mass attached to a link."""

    link: str
    """Link that carries the payload."""
    mass: float
    """Mass [kg]."""
    center: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Center of mass in the link's frame [m]."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "mass", _checked(self.mass, self.center))

    def efforts_batch(self, kinematics: Kinematics, Q: Array, V: Array, A: Array) -> Array:
        """Compute the additional efforts due to the payload in k states.

        Args:
            kinematics: kinematics of n joints, with the root as base.
            Q: positions [rad or m], shape (k, n).
            V: velocities [rad/s or m/s], shape (k, n).
            A: accelerations [rad/s^2 or m/s^2], shape (k, n).

        Returns:
            Efforts [N m or N], shape (k, n).
        """
        J = self._jacobians(kinematics, Q)
        acceleration = np.einsum("kij,kj->ki", J, A) - _GRAVITY
        if V.any():
            change = self._jacobians(kinematics, Q + _DIFFERENCE * V) - J
            acceleration += np.einsum("kij,kj->ki", change, V) / _DIFFERENCE
        return np.asarray(self.mass * np.einsum("kij,ki->kj", J, acceleration))

    def _jacobians(self, kinematics: Kinematics, Q: Array) -> Array:
        """Return the linear Jacobians of the center, shape (k, 3, n)."""
        J = kinematics.jacobian_batch(Q, self.link)
        c = kinematics.pose_batch(Q, self.link)[:, :3, :3] @ np.array(self.center)
        return np.asarray(J[:, :3] + np.cross(J[:, 3:], c[:, :, None], axis=1))


class PayloadDynamics(InverseDynamics):
    """Inverse dynamics with a point mass at the tool, which may change at any time.

    A mass m at c adds ``J_c^T m (J_c a + J_c' v - g)``, with the linear Jacobian J_c of c.
    """

    def __init__(self, robot: Robot, joints: Sequence[str], tool: str) -> None:
        """Create without a payload, and compile.

        Args:
            robot: robot with inertial parameters; the armatures are those of its drives.
            joints: joints of all arrays, in this order.
            tool: frame that carries the payload.

        Raises:
            UnknownJoint, UnknownFrame: lists the names.
        """
        armature = [robot.drive(joint).armature for joint in joints]
        super().__init__(robot.tree, joints, armature=armature)
        self._kinematics = Kinematics(robot.tree, joints)
        self._kinematics.pose_and_jacobian(np.zeros(len(joints)), tool)  # compiles
        self.tool, self.payload_mass = tool, 0.0
        self.payload_center: Array = np.zeros(3)
        """Center of mass in the tool frame [m], shape (3,)."""
        self._known: tuple[Array, Array, Array] | None = None
        """Last configuration, center, and their Jacobian."""

    def set_payload(self, mass: float, center: ArrayLike = (0.0, 0.0, 0.0)) -> None:
        """Set the payload.

        Args:
            mass: mass [kg]; 0: no payload.
            center: center of mass in the tool frame [m], shape (3,).

        Raises:
            InvalidConfig: a negative mass, or a value that is not finite.
        """
        c = np.array(center, dtype=np.float64)
        self.payload_mass, self.payload_center = _checked(mass, center), c

    def efforts(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> Array:
        """Return the efforts of a motion with the payload [N m or N], shape (n,).

        Arguments and errors are those of :meth:`InverseDynamics.efforts`.
        """
        tau = super().efforts(q, v, a)
        if self.payload_mass > 0.0:
            J, drift = self._payload_motion(np.asarray(q, np.float64), np.asarray(v, np.float64))
            acceleration = J @ np.asarray(a, np.float64) + drift - _GRAVITY
            tau += self.payload_mass * (J.T @ acceleration)
        return tau

    def efforts_batch(self, Q: Array, V: Array, A: Array) -> Array:
        """Return the efforts of k states with the payload [N m or N], shape (k, n).

        Arguments and errors are those of :meth:`InverseDynamics.efforts_batch`.
        """
        x, y, z = self.payload_center.tolist()
        payload = Payload(self.tool, self.payload_mass, (x, y, z))
        tau = super().efforts_batch(Q, V, A)
        return tau + payload.efforts_batch(self._kinematics, Q, V, A)

    def terms(self, q: ArrayLike, v: ArrayLike) -> DynamicsTerms:
        """Return inertia [kg m^2 or kg], bias and gravity [N m or N] with the payload.

        Arguments and errors are those of :meth:`InverseDynamics.terms`.
        """
        found = super().terms(q, v)
        if self.payload_mass == 0.0:
            return found
        J, drift = self._payload_motion(np.asarray(q, np.float64), np.asarray(v, np.float64))
        mJ = self.payload_mass * J
        return DynamicsTerms(
            found.inertia + mJ.T @ J,
            found.bias + mJ.T @ (drift - _GRAVITY),
            found.gravity - mJ.T @ _GRAVITY,
        )

    def _payload_motion(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Return the Jacobian J of the payload's center, shape (3, n), and J' v, shape (3,)."""
        J = self._jacobian(q)
        if not v.any():
            return J, np.zeros(3)
        return J, (self._jacobian_at(q + _DIFFERENCE * v) - J) @ v / _DIFFERENCE

    def _jacobian(self, q: Array) -> Array:
        """Return the linear Jacobian of the payload's center, shape (3, n)."""
        # Another thread may set the payload meanwhile.
        known, center = self._known, self.payload_center
        if known is None or known[1] is not center or not np.array_equal(known[0], q):
            known = self._known = (q.copy(), center, self._jacobian_at(q))
        return known[2]

    def _jacobian_at(self, q: Array) -> Array:
        X, J = self._kinematics.pose_and_jacobian(q, self.tool)
        x, y, z = X[:3, :3] @ self.payload_center
        skew = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        return np.asarray(J[:3] - skew @ J[3:])


def _checked(mass: float, center: ArrayLike) -> float:
    """Return a mass; reject negative masses and values that are not finite."""
    c = np.array(center, dtype=np.float64)
    if not (np.isfinite(mass) and mass >= 0.0 and c.shape == (3,) and np.isfinite(c).all()):
        raise InvalidConfig(
            f"a payload has a mass of 0 kg or above and a center of three finite numbers [m], "
            f"got {mass} and {c.tolist()}"
        )
    return float(mass)


def too_heavy(payload: Payload) -> str:
    """Return the statement that a robot cannot carry a payload, for errors."""
    return f"a payload of {payload.mass:g} kg at {payload.link} is too heavy"


def payload_of(wrench: Array, R_BT: Array, mass: float, center: ArrayLike) -> tuple[float, Array]:
    """Identify mass and center of the payload from the external wrench on a tool at rest.

    The component of the center along gravity is not observable and is kept.

    Args:
        wrench: external wrench at the tool, in the axes of an upright base [N, N m], shape (6,).
        R_BT: orientation of the tool in the base, shape (3, 3).
        mass: mass of the payload in the model [kg].
        center: center of that payload in the tool frame [m], shape (3,).

    Returns:
        Mass [kg] and center in the tool frame [m], shape (3,); zeros below :data:`LEAST_PAYLOAD`.

    Raises:
        InvalidCommand: an unknown wrench, or one that is not due to a weight.
    """
    if not np.isfinite(wrench).all():
        raise InvalidCommand("the external wrench is not known: joint efforts are not measured")
    c = R_BT @ np.asarray(center, np.float64)
    force = wrench[:3] + mass * _GRAVITY
    torque = wrench[3:] + np.cross(c, mass * _GRAVITY)
    g = float(np.linalg.norm(_GRAVITY))
    down = _GRAVITY / g
    weight = float(force @ down)
    aside = float(np.linalg.norm(force - weight * down))
    if aside > max(1.0, 0.3 * abs(weight)) or weight < -1.0:
        raise InvalidCommand(
            f"the external force at the tool ({force[0]:.1f}, {force[1]:.1f}, {force[2]:.1f}) N is "
            "not that of a weight; move the arm out of contact"
        )
    if weight < LEAST_PAYLOAD * g:
        return 0.0, np.zeros(3)
    lever = np.cross(down, torque) / weight
    return weight / g, np.asarray(R_BT.T @ (lever + (c @ down) * down))
