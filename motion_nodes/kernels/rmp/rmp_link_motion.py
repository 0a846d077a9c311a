# SPDX-License-Identifier: Apache-2.0
"""From links to their spheres and back, as LLVM code: velocities out, metrics and forces in.

Spheres are processed one SIMD register at a time. The spheres of a link need not fill their last
block: values written beyond them belong to the next link, which is processed afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from motion_nodes.kernels.control_flow import FunctionBuilder
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program, Value
from motion_nodes.kernels.formulas.linear_algebra import Vector, cross, minus, plus, times_vector
from motion_nodes.kernels.llvm_text import LlvmFunction
from motion_nodes.kernels.memory_layout import FieldLayout
from motion_nodes.kernels.rmp.rmp_memory import MOTION, WRENCH, RmpRun
from motion_nodes.kernels.simd import Lanes

UPPER = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
"""Entries of a symmetric matrix in storage order."""
_TERMS = 27


def bodies_text(at: FieldLayout, spheres: int, runs: Sequence[RmpRun], lanes: Lanes) -> str:
    """Return the functions ``rmp_place(memory)`` and ``rmp_collect(memory)``.

    The first computes position, velocity and J-dot qd of each sphere from the motion of its link;
    the second sums metrics and forces of the spheres of each link, as a rigid body about the
    origin.
    """
    return "\n".join(
        (
            _place_run(at, spheres, lanes),
            _place_all(at, runs, lanes),
            _wrench_loop(at, spheres, lanes),
            _collect(at, runs, lanes),
        )
    )


def moved_point(
    p: Vector, turn: Vector, linear: Vector, bend: Vector, linear_bend: Vector
) -> tuple[Vector, Vector, Vector]:
    """Return position, velocity and J-dot qd of a point at p of a rigid body.

    Args:
        p: position of the point [m].
        turn: angular velocity of the body [rad/s].
        linear: velocity of the body-fixed point at the origin [m/s].
        bend: angular part of the spatial acceleration at zero joint accelerations [rad/s^2].
        linear_bend: its linear part [m/s^2].

    Source: Featherstone, Rigid Body Dynamics Algorithms (2008), section 2.11.
    """
    v = plus(linear, cross(turn, p))
    return p, v, plus(plus(linear_bend, cross(bend, p)), cross(turn, v))


def _place_run(at: FieldLayout, spheres: int, lanes: Lanes) -> str:
    """Write ``rmp_place_run(memory, link, first, blocks)``."""
    tape = ExpressionGraph()
    numbers: list[Value] = [tape.input(i) for i in range(MOTION)]
    centre: Vector = [tape.input(MOTION + i) for i in range(3)]
    R = [numbers[0:3], numbers[3:6], numbers[6:9]]
    p = plus(numbers[9:12], times_vector(R, centre))
    parts = moved_point(p, numbers[12:15], numbers[15:18], numbers[18:21], numbers[21:24])
    outputs = tuple(x for part in parts for x in part)

    flow, n = (
        FunctionBuilder(lanes, memory="ptr", link="ptr", first="i64", blocks="i64"),
        lanes.count,
    )
    link = [flow.pointer("link").load(i).splat(n) for i in range(MOTION)]
    spheres_here = flow.pointer("memory").at(flow.argument("first"))
    with flow.loop(flow.argument("blocks")) as block:
        here = spheres_here.at(block.index * n)

        def load(index: int) -> str:
            if index < MOTION:
                return link[index]
            return here.load(at["centre"] + (index - MOTION) * spheres, n)

        body = LlvmFunction(Program(tape, MOTION + 3, (outputs,)), flow, load, n)
        body.write()
        for k, value in enumerate(outputs):
            field = ("position", "velocity", "bias")[k // 3]
            here.store(flow.typed(body.output(value)), at[field] + k % 3 * spheres)
    return flow.function("rmp_place_run")


def _place_all(at: FieldLayout, runs: Sequence[RmpRun], lanes: Lanes) -> str:
    flow = FunctionBuilder(memory="ptr")
    memory = flow.pointer("memory")
    for k, run in enumerate(runs):
        link, blocks = memory.at(at["links"] + MOTION * k), -(-run.count // lanes.count)
        flow.call("void", "rmp_place_run", memory, link, run.start, blocks)
    return flow.function("rmp_place")


def _wrench_loop(at: FieldLayout, spheres: int, lanes: Lanes) -> str:
    """Write ``rmp_wrenches(memory)``: metrics and forces of spheres as those of rigid bodies.

    With the twist (angular velocity w, velocity v0 of the origin), the velocity of a point p is v0
    + w x p; so its metric M becomes [p] M [p]^T, [p] M and M, its force f the moment p x f, and f.
    """
    tape = ExpressionGraph()
    inputs: list[Value] = [tape.input(i) for i in range(15)]
    p, bias, force = list(inputs[0:3]), list(inputs[3:6]), list(inputs[12:15])
    M = symmetric(inputs[6:12])
    rest = minus(force, times_vector(M, bias))
    outputs = tuple(rigid_terms(p, M, rest))
    fields = [("position", 3), ("bias", 3), ("metric", 6), ("force", 3)]
    places = [at[field] + k * spheres for field, count in fields for k in range(count)]

    flow, n = FunctionBuilder(lanes, memory="ptr"), lanes.count
    memory = flow.pointer("memory")
    with flow.loop(spheres // n) as block:
        first = block.index * n
        here, rows = memory.at(first), memory.at(first * WRENCH)
        body = LlvmFunction(
            Program(tape, 15, (outputs,)), flow, lambda i: here.load(places[i], n), n
        )
        body.write()
        values = [body.output(value) for value in outputs]
        values += [lanes.constant(0.0)] * (WRENCH - _TERMS)
        for k in range(0, WRENCH, n):
            for lane, part in enumerate(flow.transposed(values[k : k + n])):
                rows.store(flow.typed(part), at["wrench"] + lane * WRENCH + k)
    return flow.function("rmp_wrenches")


def _collect(at: FieldLayout, runs: Sequence[RmpRun], lanes: Lanes) -> str:
    flow, n = FunctionBuilder(lanes, memory="ptr"), lanes.count
    memory = flow.pointer("memory")
    flow.call("void", "rmp_wrenches", memory)
    for k, run in enumerate(runs):
        for part in range(0, WRENCH, n):
            first = at["wrench"] + run.start * WRENCH + part
            total = memory.load(first, n)
            for sphere in range(1, run.count):
                total = total + memory.load(first + sphere * WRENCH, n)
            memory.store(total, at["sums"] + k * WRENCH + part)
    return flow.function("rmp_collect")


def symmetric(upper: Sequence[Value]) -> list[list[Value]]:
    """Return a symmetric matrix, shape (3, 3), from its six entries in the order of UPPER."""
    M: list[list[Value]] = [[0.0] * 3 for _ in range(3)]
    for value, (i, j) in zip(upper, UPPER, strict=True):
        M[i][j] = M[j][i] = value
    return M


def rigid_terms(p: Vector, M: list[list[Value]], force: Vector) -> list[Value]:
    """Return the metric and force of a point at p [m] as those of its rigid body.

    Returns:
        27 values: upper part of the angular block (6), angular by linear block (9), upper part of
            the linear block (6), moment (3), force (3).
    """
    columns = [cross(p, [M[0][j], M[1][j], M[2][j]]) for j in range(3)]
    B = [[columns[j][i] for j in range(3)] for i in range(3)]
    angular = [cross(p, row) for row in B]
    return [
        *(angular[i][j] for i, j in UPPER),
        *(x for row in B for x in row),
        *(M[i][j] for i, j in UPPER),
        *cross(p, force),
        *force,
    ]
