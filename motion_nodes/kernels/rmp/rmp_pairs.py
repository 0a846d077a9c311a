# SPDX-License-Identifier: Apache-2.0
"""Loop over all pairs of spheres and obstacles, as LLVM code.

Spheres are processed one SIMD register at a time, obstacles one by one. For each sphere, metrics (6
entries of a symmetric matrix) and forces (3) are summed, and the min distance is kept. Pairs beyond
the range of the RMP in all lanes stop after the distance.
"""

from __future__ import annotations

from motion_nodes.kernels.expression_graph import ExpressionGraph, Program, Value
from motion_nodes.kernels.formulas.rmps import collision
from motion_nodes.kernels.formulas.shapes import ShapeFormula
from motion_nodes.kernels.ik.ik_memory import FieldLayout
from motion_nodes.kernels.llvm_text import LlvmFunction
from motion_nodes.kernels.rmp.rmp_distance import distance
from motion_nodes.kernels.rmp.rmp_link_motion import UPPER, at_block, broadcast
from motion_nodes.kernels.rmp.rmp_memory import OBSTACLE, RmpModel, obstacle_shapes
from motion_nodes.kernels.simd import Lanes, Writer

_SPHERE = 7  # position, velocity, radius
_SUMS = 9


def pairs_text(model: RmpModel, at: FieldLayout, spheres: int, lanes: Lanes) -> str:
    """Return the functions of the loop.

    ``rmp_<shape>(memory, first, end, obstacles, count)`` for each shape of obstacles, for the
    blocks of spheres from ``first`` to before ``end``.
    """
    places = list(model.places("collision").values())
    shapes = obstacle_shapes().values()
    return "\n".join(_pair_loop(shape, places, at, spheres, lanes) for shape in shapes)


def _components(at: FieldLayout, spheres: int) -> list[int]:
    """Return the offsets of a sphere's inputs."""
    fields = [("position", 3), ("velocity", 3), ("radius", 1)]
    return [at[name] + k * spheres for name, count in fields for k in range(count)]


def _sums(at: FieldLayout, spheres: int) -> list[int]:
    """Return the offsets of a sphere's sums; the min distance is the last."""
    fields = [("metric", 6), ("force", 3), ("nearest", 1)]
    return [at[name] + k * spheres for name, count in fields for k in range(count)]


def _pair_loop(
    shape: ShapeFormula, coefficients: list[int], at: FieldLayout, spheres: int, lanes: Lanes
) -> str:
    size = OBSTACLE
    tape = ExpressionGraph()
    sphere: list[Value] = [tape.input(i) for i in range(_SPHERE)]
    parameters: list[Value] = [tape.input(_SPHERE + i) for i in range(len(coefficients))]
    first = _SPHERE + len(coefficients)
    obstacle: list[Value] = [tape.input(first + i) for i in range(size)]
    sums: list[Value] = [tape.input(first + size + i) for i in range(_SUMS + 1)]
    d = distance(tape, shape, sphere[0:3], sphere[3:6], obstacle)
    x = d.value - sphere[6]
    per_radius = parameters[6]
    felt = tape.less(x * per_radius, 1.0)
    nearest = tape.minimum(x, sums[_SUMS])
    desired, weight = collision(tape, x, d.rate, parameters)
    force = weight * (desired - d.curvature)
    added = [s + weight * d.n[i] * d.n[j] for s, (i, j) in zip(sums[:6], UPPER, strict=True)]
    added += [s + force * n for s, n in zip(sums[6:9], d.n, strict=True)]
    near: tuple[Value, ...] = (felt, nearest)
    program = Program(tape, first + size + _SUMS + 1, (near, tuple(added)))

    writer = Writer(lanes)
    entry = Writer(lanes, prefix="c")
    names = [f"%sphere{i}" for i in range(_SPHERE)]
    names += [broadcast(entry, "%memory", at["parameters"] + index) for index in coefficients]
    places = _components(at, spheres)

    def load(index: int) -> str:
        if index < first:
            return names[index]
        if index < first + size:
            return broadcast(writer, "%obstacle", index - first)
        return f"%sum{index - first - size}"

    body = LlvmFunction(program, writer, load, lanes.count)
    body.write(near)
    any_felt = _any(writer, body.output(felt), lanes)
    writer.lines.append(f"  br i1 {any_felt}, label %heavy, label %latch")
    writer.lines.append("heavy:")
    body.write(added)
    results = [body.output(value) for value in added]
    least = body.output(nearest)
    t = lanes.type
    head = Writer(lanes, prefix="h")
    for i, place in enumerate(places):
        source = at_block(head, place)
        head.lines.append(f"  %sphere{i} = load {t}, ptr {source}, align 8")
    stores = Writer(lanes, prefix="e")
    begin = []
    for i, place in enumerate(_sums(at, spheres)):
        source = at_block(head, place)
        head.lines.append(f"  %start{i} = load {t}, ptr {source}, align 8")
        begin.append(f"  %sum{i} = phi {t} [%start{i}, %block], [%kept{i}, %latch]")
        stores.store(f"%sum{i}", source)
    kept = [
        f"  %kept{i} = phi {t} [{result}, %heavy], [%sum{i}, %loop_body]"
        for i, result in enumerate(results)
    ]
    kept.append(f"  %kept{_SUMS} = phi {t} [{least}, %heavy], [{least}, %loop_body]")
    lines = [
        f"define internal void @rmp_{shape.name}(ptr %memory, i64 %first, i64 %end, "
        "ptr %obstacles, i64 %count) nounwind {",
        "entry:",
        *entry.lines,
        "  %none = icmp eq i64 %count, 0",
        "  br i1 %none, label %done, label %blocks",
        "blocks:",
        "  %b = phi i64 [%first, %entry], [%b_next, %block_end]",
        "  %more = icmp ult i64 %b, %end",
        "  br i1 %more, label %block, label %done",
        "block:",
        f"  %offset = mul i64 %b, {lanes.count}",
        "  %here = getelementptr double, ptr %memory, i64 %offset",
        *head.lines,
        "  br label %loop",
        "loop:",
        "  %k = phi i64 [0, %block], [%k_next, %latch]",
        *begin,
        "  %left = icmp ult i64 %k, %count",
        "  br i1 %left, label %loop_body, label %block_end",
        "loop_body:",
        f"  %obstacle_at = mul i64 %k, {size}",
        "  %obstacle = getelementptr double, ptr %obstacles, i64 %obstacle_at",
        *writer.lines,
        "  br label %latch",
        "latch:",
        *kept,
        "  %k_next = add i64 %k, 1",
        "  br label %loop",
        "block_end:",
        *stores.lines,
        "  %b_next = add i64 %b, 1",
        "  br label %blocks",
        "done:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _any(writer: Writer, condition: str, lanes: Lanes) -> str:
    """Return whether a condition holds in any lane."""
    if lanes.count == 1:
        return condition
    bits = writer.emit(f"bitcast <{lanes.count} x i1> {condition} to i{lanes.count}")
    return writer.emit(f"icmp ne i{lanes.count} {bits}, 0")
