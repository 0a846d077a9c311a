# SPDX-License-Identifier: Apache-2.0
"""A robot's inertial parameters as plain arrays: one rigid body per moving joint.

Links joined by fixed joints move as one, so their inertias are summed once. A body is described
about the origin of its own frame (mass, first and second moment), where inertias add regardless of
the centre of mass.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from motion_nodes.kernels.kinematic_arrays import FIXED, PRISMATIC, PackedArrays, joint_motion
from motion_nodes.typing import Array


@dataclass(frozen=True)
class LinkMasses:
    """Inertial parameters of the ``f`` rows of a packed tree, each in its own frame."""

    mass: Array
    """Masses [kg], shape (f,)."""
    center: Array
    """Centres of mass [m], shape (f, 3)."""
    inertia: Array
    """Inertia about the centre of mass, in the row's axes [kg m^2], shape (f, 3, 3)."""
    damping: Array
    """Viscous damping of the row's joint [N m s/rad or N s/m], shape (f,)."""


@dataclass(frozen=True)
class RigidBodies:
    """Rigid bodies of a robot: body 0 is the fixed base, each other one is moved by its joint."""

    arrays: PackedArrays
    """Kinematics; every row except 0 moves."""
    mass: Array
    """Masses [kg], shape (b,)."""
    moment: Array
    """Mass times centre of mass in the body's frame [kg m], shape (b, 3)."""
    inertia: Array
    """Inertia about the origin of the body's frame [kg m^2], shape (b, 3, 3)."""
    damping: Array
    """Viscous damping of the body's joint [N m s/rad or N s/m], shape (b,)."""
    armature: Array
    """Rotor and gear inertia reflected to each joint [kg m^2 or kg], shape (n,)."""
    gravity: Array
    """Acceleration of gravity in the axes of row 0 [m/s^2], shape (3,)."""

    def digest(self) -> str:
        """Return a hash of all numbers."""
        sha = hashlib.sha256(self.arrays.digest().encode())
        for name in ("mass", "moment", "inertia", "damping", "armature", "gravity"):
            array = np.ascontiguousarray(getattr(self, name), np.float64)
            sha.update(f"{name}{array.shape}".encode() + array.tobytes())
        return sha.hexdigest()


def bodies_of(
    arrays: PackedArrays, links: LinkMasses, armature: Array, gravity: Array
) -> RigidBodies:
    """Merge links that are joined by fixed joints.

    Args:
        arrays: kinematics of the links.
        links: their inertial parameters.
        armature: reflected inertia of each joint [kg m^2 or kg], shape (n,).
        gravity: in the axes of row 0 [m/s^2], shape (3,).

    Returns:
        One body per moving joint, and the base.

    Source: Steiner's (parallel axis) theorem.
    """
    moving = [row for row, kind in enumerate(arrays.kind) if row == 0 or kind != FIXED]
    body_of_row = np.zeros(len(arrays.kind), np.int32)
    X_BL = np.tile(np.eye(4), (len(arrays.kind), 1, 1))
    X_PJ = np.tile(np.eye(4), (len(moving), 1, 1))
    parent = np.full(len(moving), -1, np.int32)
    mass, moment = np.zeros(len(moving)), np.zeros((len(moving), 3))
    inertia = np.zeros((len(moving), 3, 3))
    for row in range(len(arrays.kind)):
        above = int(arrays.parent[row])
        if row in moving:
            body = moving.index(row)
            if row > 0:
                parent[body] = body_of_row[above]
                X_PJ[body] = X_BL[above] @ arrays.X_PJ[row]
        else:
            body = int(body_of_row[above])
            X_BL[row] = X_BL[above] @ arrays.X_PJ[row]
        body_of_row[row] = body
        R, p = X_BL[row, :3, :3], X_BL[row, :3, 3]
        center, m = R @ links.center[row] + p, float(links.mass[row])
        mass[body] += m
        moment[body] += m * center
        # From the centre of mass to the origin of the body's frame.
        steiner = m * (center @ center * np.eye(3) - np.outer(center, center))
        inertia[body] += R @ links.inertia[row] @ R.T + steiner
    joined = PackedArrays(
        arrays.joint_count,
        parent,
        arrays.kind[moving],
        X_PJ,
        arrays.axis[moving],
        arrays.q_index[moving],
        arrays.multiplier[moving],
        arrays.offset[moving],
        tuple(range(len(moving))),
    )
    damping = np.asarray(links.damping)[moving]
    return RigidBodies(joined, mass, moment, inertia, damping, armature, gravity)


def inverse_dynamics(bodies: RigidBodies, q: Array, v: Array, a: Array) -> Array:
    """Return the joint efforts of a motion, shape (n,): recursive Newton-Euler algorithm.

    NumPy implementation, for robots that are evaluated a few times, and as reference for the
    generated code.

    Args:
        bodies: the robot.
        q: joint positions [rad or m], shape (n,).
        v: joint velocities [rad/s or m/s], shape (n,).
        a: joint accelerations [rad/s^2 or m/s^2], shape (n,).

    Returns:
        Efforts [N m or N], shape (n,).

    Source: Luh, Walker and Paul, "On-line computational scheme for mechanical manipulators", 1980,
    with moments about frame origins: f = m a + dw x h + w x (w x h), n = I dw + w x I w + h x a.
    """
    arrays = bodies.arrays
    count = len(arrays.kind)
    X = np.empty((count, 4, 4))
    w, dw, acc = np.zeros((count, 3)), np.zeros((count, 3)), np.zeros((count, 3))
    # Gravity is equivalent to a base that accelerates upwards.
    acc[0] = -bodies.gravity
    for i in range(1, count):
        p, k, axis = arrays.parent[i], arrays.q_index[i], arrays.axis[i]
        ratio = arrays.multiplier[i]
        kind = int(arrays.kind[i])
        X[i] = arrays.X_PJ[i] @ joint_motion(kind, axis, ratio * q[k] + arrays.offset[i])
        R, r = X[i, :3, :3], X[i, :3, 3]
        w[i], dw[i] = R.T @ w[p], R.T @ dw[p]
        acc[i] = R.T @ (acc[p] + _cross(dw[p], r) + _cross(w[p], _cross(w[p], r)))
        speed, push = ratio * v[k] * axis, ratio * a[k] * axis
        if kind == PRISMATIC:
            acc[i] += 2.0 * _cross(w[i], speed) + push
        else:
            dw[i] += _cross(w[i], speed) + push
            w[i] += speed
    force, torque = np.zeros((count, 3)), np.zeros((count, 3))
    tau = bodies.armature * a
    for i in range(count - 1, 0, -1):
        h, inertia = bodies.moment[i], bodies.inertia[i]
        k, ratio = arrays.q_index[i], arrays.multiplier[i]
        force[i] += bodies.mass[i] * acc[i] + _cross(dw[i], h)
        force[i] += _cross(w[i], _cross(w[i], h))
        torque[i] += inertia @ dw[i] + _cross(w[i], inertia @ w[i]) + _cross(h, acc[i])
        along = force[i] if arrays.kind[i] == PRISMATIC else torque[i]
        tau[k] += ratio * (arrays.axis[i] @ along + bodies.damping[i] * ratio * v[k])
        p, R, r = arrays.parent[i], X[i, :3, :3], X[i, :3, 3]
        force[p] += R @ force[i]
        torque[p] += R @ torque[i] + _cross(r, R @ force[i])
    return np.asarray(tau)


def _cross(a: Array, b: Array) -> Array:
    """Return the cross product; np.cross takes ten times as long for three numbers."""
    (x, y, z), (u, v, w) = a.tolist(), b.tolist()
    return np.array([y * w - z * v, z * u - x * w, x * v - y * u])
