# SPDX-License-Identifier: Apache-2.0
"""Inverse dynamics of one robot, recorded as an expression graph and compiled.

The formulas are those of :func:`inverse_dynamics`; the graph drops operations that this robot does
not need, such as those of a base at rest.

Inertial parameters are plain arrays, with one rigid body per moving joint. Links joined by fixed
joints move as one, so their inertias are summed once. A body is described about the origin of its
own frame (mass, first and second moment), where inertias add regardless of the centre of mass.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from motion_nodes.kernels.cache import source_digest
from motion_nodes.kernels.expression_graph import Program, Value
from motion_nodes.kernels.formulas.ops import Matrix, Vector, cross, dot, plus, scaled, times_vector
from motion_nodes.kernels.kinematic_arrays import FIXED, PRISMATIC, PackedArrays, joint_motion
from motion_nodes.kernels.python_form import Run, RunMany, builtin
from motion_nodes.kernels.robot_codegen import KinematicsTracer
from motion_nodes.typing import Array

_SOURCES = ("dynamics_codegen",)


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


class DynamicsCalls(NamedTuple):
    """Functions for the inverse dynamics of a robot."""

    run: Run
    """For one motion, see :func:`dynamics_calls`."""
    run_many: Callable[[Array, Array], None]
    """For many: contiguous rows of the same arrays, shapes (m, 3 n) and (m, n), float64."""
    generated: bool
    """True for generated code, False for the slower generic implementation."""


def dynamics_calls(bodies: RigidBodies, *, generic: bool = False) -> DynamicsCalls:
    """Return the functions for the inverse dynamics of a robot.

    A robot without joints always uses the generic implementation.

    ``run(x, tau)`` reads q, v and a, concatenated in one array [rad or m, and their derivatives],
    shape (3 n,), and writes the efforts [N m or N], shape (n,). It returns 0; or 1 without writing
    if ``x`` (of generated code: or ``tau``) is no float64 array of that length.

    Args:
        bodies: the robot.
        generic: True for the NumPy implementation, which needs no compilation.

    Raises:
        CodeGenerationError: code cannot be generated on this machine (not raised if ``generic``).
    """
    n = bodies.arrays.joint_count
    if not generic and n > 0:
        return _generated(bodies)

    def generic_run(x: Array, tau: Array) -> int:
        if x.shape != (3 * n,) or x.dtype != np.float64:
            return 1
        tau[...] = inverse_dynamics(bodies, x[:n], x[n : 2 * n], x[2 * n :])
        return 0

    def generic_many(rows: Array, out: Array) -> None:
        for x, tau in zip(rows, out, strict=True):
            generic_run(x, tau)

    return DynamicsCalls(generic_run, generic_many, generated=False)


def inverse_dynamics_program(bodies: RigidBodies) -> Program:
    """Return the program from q, v and a (concatenated) to the efforts, shape (n,)."""
    arrays, n = bodies.arrays, bodies.arrays.joint_count
    tracer = KinematicsTracer(arrays)
    tape = tracer.tape
    count = len(arrays.kind)
    still: Vector = [0.0, 0.0, 0.0]
    w, dw = [still] * count, [still] * count
    acc: list[Vector] = [[-float(g) for g in bodies.gravity]] * count
    poses: list[tuple[Matrix, Vector]] = [tracer.pose(0)] * count
    for i in range(1, count):
        p, k = int(arrays.parent[i]), int(arrays.q_index[i])
        ratio, axis = float(arrays.multiplier[i]), [float(x) for x in arrays.axis[i]]
        R, r = poses[i] = tracer.local_pose(i)
        back = [list(column) for column in zip(*R, strict=True)]
        w[i], dw[i] = times_vector(back, w[p]), times_vector(back, dw[p])
        turning = cross(w[p], cross(w[p], r))
        acc[i] = times_vector(back, plus(plus(acc[p], cross(dw[p], r)), turning))
        speed: Vector = [ratio * x * tape.input(n + k) for x in axis]
        push: Vector = [ratio * x * tape.input(2 * n + k) for x in axis]
        if arrays.kind[i] == PRISMATIC:
            acc[i] = plus(plus(acc[i], scaled(2.0, cross(w[i], speed))), push)
        else:
            dw[i] = plus(plus(dw[i], cross(w[i], speed)), push)
            w[i] = plus(w[i], speed)
    force, torque = [still] * count, [still] * count
    tau: list[Value] = [float(bodies.armature[k]) * tape.input(2 * n + k) for k in range(n)]
    for i in range(count - 1, 0, -1):
        p, k = int(arrays.parent[i]), int(arrays.q_index[i])
        ratio, axis = float(arrays.multiplier[i]), [float(x) for x in arrays.axis[i]]
        h: Vector = [float(x) for x in bodies.moment[i]]
        inertia: Matrix = [[float(x) for x in row] for row in bodies.inertia[i]]
        turning = plus(cross(dw[i], h), cross(w[i], cross(w[i], h)))
        force[i] = plus(force[i], plus(scaled(float(bodies.mass[i]), acc[i]), turning))
        spin = cross(w[i], times_vector(inertia, w[i]))
        own = plus(plus(times_vector(inertia, dw[i]), spin), cross(h, acc[i]))
        torque[i] = plus(torque[i], own)
        along = dot(axis, force[i] if arrays.kind[i] == PRISMATIC else torque[i])
        drag = float(bodies.damping[i]) * ratio * tape.input(n + k)
        tau[k] = tau[k] + ratio * (along + drag)
        if p > 0:
            R, r = poses[i]
            passed = times_vector(R, force[i])
            force[p] = plus(force[p], passed)
            torque[p] = plus(torque[p], plus(times_vector(R, torque[i]), cross(r, passed)))
    return Program(tape, 3 * n, (tuple(tau),))


def _generated(bodies: RigidBodies) -> DynamicsCalls:
    from motion_nodes.kernels import llvm_text, native
    from motion_nodes.kernels.robot_codegen import load_code

    def text() -> str:
        programs = {"efforts": inverse_dynamics_program(bodies)}
        lanes = native.host_cpu().lanes("double")
        return llvm_text.module_text(programs, {"efforts": ("one", "python", "many")}, lanes)

    code = load_code(f"inverse dynamics {bodies.digest()} {source_digest(_SOURCES)}", text)
    many = RunMany(code.address("efforts_many"))

    def run_many(rows: Array, out: Array) -> None:
        many(rows.ctypes.data, len(rows), out.ctypes.data)

    return DynamicsCalls(builtin(code.address("efforts_python"), "efforts"), run_many, True)
