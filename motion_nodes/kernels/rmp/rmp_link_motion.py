# SPDX-License-Identifier: Apache-2.0
"""From links to their spheres and back, as LLVM code: velocities out, metrics and forces in.

Spheres are processed one SIMD register at a time. The spheres of one link need not fill their last
block: values written beyond it belong to the next link, which is processed afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from motion_nodes.kernels.expression_graph import ExpressionGraph, Program, Value
from motion_nodes.kernels.formulas.linear_algebra import Vector, cross, minus, plus, times_vector
from motion_nodes.kernels.ik.ik_memory import FieldLayout
from motion_nodes.kernels.llvm_text import LlvmFunction
from motion_nodes.kernels.rmp.rmp_memory import MOTION, WRENCH, RmpRun
from motion_nodes.kernels.simd import Lanes, Writer

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
            _collect(at, spheres, runs, lanes),
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
        bend: angular part of the spatial acceleration at zero joint accelerations.
        linear_bend: linear part of it.

    Source: Featherstone, Rigid Body Dynamics Algorithms (2008), section 2.11.
    """
    v = plus(linear, cross(turn, p))
    return p, v, plus(plus(linear_bend, cross(bend, p)), cross(turn, v))


def _place_run(at: FieldLayout, spheres: int, lanes: Lanes) -> str:
    """Write ``rmp_place_run(memory, link, start, end)``."""
    tape = ExpressionGraph()
    numbers: list[Value] = [tape.input(i) for i in range(MOTION)]
    centre: Vector = [tape.input(MOTION + i) for i in range(3)]
    R = [numbers[0:3], numbers[3:6], numbers[6:9]]
    p = plus(numbers[9:12], times_vector(R, centre))
    parts = moved_point(p, numbers[12:15], numbers[15:18], numbers[18:21], numbers[21:24])
    outputs = tuple(x for part in parts for x in part)
    entry, writer = Writer(lanes, prefix="c"), Writer(lanes)
    link = [broadcast(entry, "%link", i) for i in range(MOTION)]

    def load(index: int) -> str:
        if index < MOTION:
            return link[index]
        return writer.load(at_block(writer, at["centre"] + (index - MOTION) * spheres))

    body = LlvmFunction(Program(tape, MOTION + 3, (outputs,)), writer, load, lanes.count)
    body.write()
    for k, value in enumerate(outputs):
        field = ("position", "velocity", "bias")[k // 3]
        writer.store(body.output(value), at_block(writer, at[field] + k % 3 * spheres))
    return _loop(
        "rmp_place_run(ptr %memory, ptr %link, i64 %first, i64 %end)",
        entry.lines,
        writer.lines,
        lanes.count,
    )


def _place_all(at: FieldLayout, runs: Sequence[RmpRun], lanes: Lanes) -> str:
    lines = []
    for k, run in enumerate(runs):
        blocks = -(-run.count // lanes.count)
        lines += [
            f"  %link{k} = getelementptr double, ptr %memory, i64 {at['links'] + MOTION * k}",
            f"  call void @rmp_place_run(ptr %memory, ptr %link{k}, i64 {run.start}, "
            f"i64 {run.start + blocks * lanes.count})",
        ]
    text = "\n".join(lines)
    return f"define internal void @rmp_place(ptr %memory) nounwind {{\n{text}\n  ret void\n}}\n"


def _wrench_loop(at: FieldLayout, spheres: int, lanes: Lanes) -> str:
    """Write the function that converts sums of spheres to those of rigid bodies.

    With the twist (angular velocity w, velocity v0 of the origin) a point p moves with v0 + w x p,
    so its metric M becomes [p] M [p]^T, [p] M and M, and its force f the moment p x f, and f.
    """
    tape = ExpressionGraph()
    inputs: list[Value] = [tape.input(i) for i in range(15)]
    p, bias, force = list(inputs[0:3]), list(inputs[3:6]), list(inputs[12:15])
    M = symmetric(inputs[6:12])
    rest = minus(force, times_vector(M, bias))
    outputs = tuple(rigid_terms(p, M, rest))
    fields = [("position", 3), ("bias", 3), ("metric", 6), ("force", 3)]
    places = [at[field] + k * spheres for field, count in fields for k in range(count)]
    writer = Writer(lanes)
    body = LlvmFunction(
        Program(tape, 15, (outputs,)),
        writer,
        lambda i: writer.load(at_block(writer, places[i])),
        lanes.count,
    )
    body.write()
    values = [body.output(value) for value in outputs]
    values += [lanes.constant(0.0)] * (WRENCH - _TERMS)
    writer.lines += [
        f"  %row = mul i64 %at, {WRENCH}",
        "  %rows = getelementptr double, ptr %memory, i64 %row",
    ]
    for k in range(0, WRENCH, lanes.count):
        turned = writer.transposed(values[k : k + lanes.count])
        for lane, block in enumerate(turned):
            place = at["wrench"] + lane * WRENCH + k
            writer.store(block, writer.emit(f"getelementptr double, ptr %rows, i64 {place}"))
    return _loop("rmp_wrenches(ptr %memory, i64 %first, i64 %end)", [], writer.lines, lanes.count)


def _collect(at: FieldLayout, spheres: int, runs: Sequence[RmpRun], lanes: Lanes) -> str:
    writer = Writer(lanes)
    for k, run in enumerate(runs):
        for part in range(0, WRENCH, lanes.count):
            total = ""
            for sphere in range(run.start, run.start + run.count):
                place = at["wrench"] + sphere * WRENCH + part
                more = writer.load(writer.address("%memory", place))
                total = writer.binary("fadd", total, more) if total else more
            writer.store(total, writer.address("%memory", at["sums"] + k * WRENCH + part))
    lines = "\n".join(writer.lines)
    return f"""define internal void @rmp_collect(ptr %memory) nounwind {{
  call void @rmp_wrenches(ptr %memory, i64 0, i64 {spheres})
{lines}
  ret void
}}
"""


def _loop(signature: str, entry: list[str], inner: list[str], step: int) -> str:
    """Write a function that loops over spheres from ``first`` to before ``end``."""
    return "\n".join(
        [
            f"define internal void @{signature} nounwind {{",
            "entry:",
            *entry,
            "  br label %check",
            "check:",
            "  %at = phi i64 [%first, %entry], [%next, %block]",
            "  %more = icmp ult i64 %at, %end",
            "  br i1 %more, label %block, label %done",
            "block:",
            "  %here = getelementptr double, ptr %memory, i64 %at",
            *inner,
            f"  %next = add i64 %at, {step}",
            "  br label %check",
            "done:",
            "  ret void",
            "}\n",
        ]
    )


def symmetric(upper: Sequence[Value]) -> list[list[Value]]:
    """Return a symmetric matrix from its six entries."""
    M: list[list[Value]] = [[0.0] * 3 for _ in range(3)]
    for value, (i, j) in zip(upper, UPPER, strict=True):
        M[i][j] = M[j][i] = value
    return M


def rigid_terms(p: Vector, M: list[list[Value]], force: Vector) -> list[Value]:
    """Return a point's metric and force as those of the rigid body it belongs to.

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


def at_block(writer: Writer, place: int) -> str:
    """Return the address of an element, relative to the current block of spheres."""
    return writer.emit(f"getelementptr double, ptr %here, i64 {place}")


def broadcast(writer: Writer, base: str, index: int) -> str:
    """Return an array element broadcast to all lanes."""
    lanes = writer.lanes
    place = writer.emit(f"getelementptr double, ptr {base}, i64 {index}")
    number = writer.emit(f"load double, ptr {place}, align 8")
    if lanes.count == 1:
        return number
    one = writer.emit(f"insertelement {lanes.type} poison, double {number}, i64 0")
    picks = f"<{lanes.count} x i32> zeroinitializer"
    return writer.emit(f"shufflevector {lanes.type} {one}, {lanes.type} poison, {picks}")
