# SPDX-License-Identifier: Apache-2.0
"""Inverse dynamics of one robot, recorded as an expression graph and compiled.

The formulas are those of :func:`motion_nodes.kernels.rigid_bodies.inverse_dynamics`; the graph
drops operations that this robot does not need, such as those of a base at rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from motion_nodes.kernels.expression_graph import Program, Value
from motion_nodes.kernels.formulas.linear_algebra import (
    Matrix,
    Vector,
    cross,
    dot,
    plus,
    scaled,
    times_vector,
)
from motion_nodes.kernels.kinematic_arrays import PRISMATIC
from motion_nodes.kernels.kinematics_codegen import KinematicsTracer
from motion_nodes.kernels.python_form import Run, RunMany, builtin
from motion_nodes.kernels.rigid_bodies import RigidBodies, inverse_dynamics
from motion_nodes.kernels.sources import source_digest
from motion_nodes.typing import Array

_SOURCES = ("rigid_bodies", "dynamics_codegen")


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
