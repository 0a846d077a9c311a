# SPDX-License-Identifier: Apache-2.0
"""RMPflow as one call of generated code: memory in, accelerations out.

Self-collision avoidance is a loop over pairs of links and their spheres. Spheres a and b of two
links have the distance x = |p_a - p_b| - r_a - r_b along the line n through both centres. Its
Jacobian needs no Jacobian of either point: a force along n acts on both with the same moment p x n,
so joints that move both cancel, and x changes by (p x n, n) . S_k for each joint k between the two
links, with S_k the column of the joint (angular, linear about the origin). The RMP is that of
obstacles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels import native
from motion_nodes.kernels.cache import source_digest
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program, Value
from motion_nodes.kernels.formulas.ops import TINY, cross, dot, minus, scaled
from motion_nodes.kernels.formulas.rmps import collision
from motion_nodes.kernels.llvm_builder import FunctionBuilder, IrValue, Pointer
from motion_nodes.kernels.llvm_text import LlvmFunction, declarations
from motion_nodes.kernels.memory_layout import FieldLayout, Fields
from motion_nodes.kernels.python_form import DECLARATIONS, Run, builtin, python_function
from motion_nodes.kernels.rmp.rmp_memory import (
    BLOCK,
    FAR,
    RmpModel,
    obstacle_field,
    obstacle_shapes,
    rmp_layout,
    sphere_places,
    sphere_runs,
)
from motion_nodes.kernels.rmp.rmp_pairs import pair_declarations, pairs_text
from motion_nodes.kernels.rmp.rmp_robot import RmpTracer, bodies_text
from motion_nodes.kernels.robot_codegen import load_code
from motion_nodes.kernels.simd import Lanes
from motion_nodes.typing import Array

_PARAMETERS = 10
_RADIUS = 18  # Inputs: nine values of each sphere, then both radii, then the parameters.
_SOURCES = (
    "rmp.rmp_codegen",
    "rmp.rmp_memory",
    "rmp.rmp_robot",
    "rmp.rmp_leaves",
    "rmp.rmp_pairs",
    "formulas.ops",
    "formulas.rmps",
    "formulas.shapes",
)


@dataclass(frozen=True)
class LinkTables:
    """Pairs of links as read by the code; all arrays are C-contiguous."""

    pairs: NDArray[np.int64]
    """First index and end of the spheres of one link, of the other, and of their path, shape (p,
    6)."""
    sizes: Array
    """Sum of the radii of two balls about the links' first spheres that contain all [m], shape
    (p,)."""
    paths: NDArray[np.int64]
    """Joints that move one link relative to the other: column, joint, sign; shape (k, 3)."""
    radii: Array
    """Radius of each sphere [m], shape (s,): those in the memory, then the fixed ones."""
    fixed: Array
    """Fixed spheres: position [m], velocity and J-dot qd (both 0), shape (9, f)."""


class _LinkPair:
    """Formulas of two spheres."""

    def __init__(self) -> None:
        tape = self.tape = ExpressionGraph()
        given: list[Value] = [tape.input(i) for i in range(_RADIUS + 2 + _PARAMETERS)]
        a, b, p = given[0:9], given[9:18], given[_RADIUS + 2 :]
        offset, velocity = minus(a[:3], b[:3]), minus(a[3:6], b[3:6])
        self.length = tape.root(dot(offset, offset))
        self.x = self.length - given[_RADIUS] - given[_RADIUS + 1]
        per_length = tape.divide(1.0, self.length)
        n = scaled(per_length, offset)
        rate = dot(n, velocity)
        bend = (dot(velocity, velocity) - rate * rate) * per_length
        desired, self.weight = collision(tape, self.x, rate, p)
        self.force = self.weight * (desired - bend - dot(n, minus(a[6:], b[6:])))
        self.wrench = [*cross(a[:3], n), *n]
        self.per_radius = p[6]

    def program(self, *results: Value) -> Program:
        return Program(self.tape, _RADIUS + 2 + _PARAMETERS, (results,))


class _LinkPairsWriter:
    """Writes ``rmp_links(memory)``."""

    def __init__(self, model: RmpModel, at: FieldLayout) -> None:
        self.flow, self.joints = FunctionBuilder(memory="ptr"), model.active
        self.memory = memory = Fields(self.flow.pointer("memory"), at)
        self._stride = sphere_places(model)[2]
        self._parameters = list(model.places("self").values())
        self._spheres: dict[int, tuple[Pointer, IrValue, IrValue]] = {}
        self._pairs, self._paths = (memory.pointer(f"link_{x}", "i64") for x in ("pairs", "paths"))
        self._sizes, self._radii = (memory.pointer(f"link_{x}") for x in ("sizes", "radii"))
        self._fixed, self._fixed_count = memory.pointer("link_fixed"), memory.whole("link_fixed", 1)
        self._moving = memory.whole("moving_spheres")
        self._u = self.flow.allocated(max(1, len(model.moving_rows)))

    def text(self) -> str:
        """Return the function."""
        flow, pair = self.flow, _LinkPair()
        gap = LlvmFunction(pair.program(pair.length), flow, self._load, 1)
        body = LlvmFunction(
            pair.program(pair.x, pair.force, pair.weight, *pair.wrench), flow, self._load, 1
        )
        body.write_constant(range(_RADIUS + 2))
        per_radius = flow.typed(body.output(pair.per_radius))
        count = self.memory.whole("link_pairs", 1)
        with flow.loop(count, least=flow.constant(FAR)) as turn:
            row = self._pairs.at(turn.index * 6)
            a0, a1, b0, b1, k0, k1 = (row.load(k) for k in range(6))
            self._set(0, a0)
            self._set(1, b0)
            gap.write()
            apart = flow.typed(gap.output(pair.length)) - self._sizes.load(turn.index)
            near = (apart * per_radius <= 1.0) | (apart <= turn["least"])
            with flow.when(near, least=turn["least"]) as close:
                with flow.loop(a1 - a0, least=close["least"]) as a:
                    self._set(0, a0 + a.index)
                    with flow.loop(b1 - b0, least=a["least"]) as b:
                        self._set(1, b0 + b.index)
                        body.write((pair.x,))
                        x, length = (flow.typed(body.output(v)) for v in (pair.x, pair.length))
                        b["least"] = x.smaller(b["least"])
                        with flow.when((x * per_radius < 1.0) & (length >= TINY)):
                            body.write()
                            values = (pair.force, pair.weight, *pair.wrench)
                            self._add(k0, k1 - k0, [flow.typed(body.output(v)) for v in values])
                    a["least"] = b["least"]
                close["least"] = a["least"]
            turn["least"] = close["least"]
        self.memory.set(nearest_links=turn["least"])
        return flow.function("rmp_links")

    def _set(self, which: int, sphere: IrValue) -> None:
        """Set the first or second sphere, which is in the memory or fixed."""
        moves = sphere < self._moving
        fixed = self._fixed.at(sphere - self._moving)
        base = moves.choose(self.memory.at("position").at(sphere), fixed)
        stride = moves.choose(self._stride, self._fixed_count)
        self._spheres[which] = self.flow.pointer(base), stride, sphere

    def _load(self, index: int) -> str:
        if index < _RADIUS:  # position, velocity and bias are adjacent in the memory
            base, stride, _ = self._spheres[index // 9]
            return base.load(stride * (index % 9))
        if index < _RADIUS + 2:
            return self._radii.load(self._spheres[index - _RADIUS][2])
        return self.memory.real("parameters", self._parameters[index - _RADIUS - 2])

    def _add(self, first: IrValue, count: IrValue, values: list[IrValue]) -> None:
        """Add the RMP of two spheres to M and rhs, for the joints between their links."""
        flow, (force, weight, *wrench) = self.flow, values
        columns, rhs, M = (self.memory.at(name) for name in ("columns", "rhs", "M"))
        with flow.loop(count) as k:
            column, _, sign = self._path(first + k.index)
            S = columns.at(column * 6)
            u = wrench[0] * S.load()
            for i in range(1, 6):
                u = wrench[i].fused(S.load(i), u)
            self._u.store(sign.to("double") * u, k.index)
        with flow.loop(count) as k:
            joint, u = self._path(first + k.index)[1], self._u.load(k.index)
            rhs.store(force.fused(u, rhs.load(joint)), joint)
            row, weighted = M.at(joint * self.joints), weight * u
            with flow.loop(count) as other:
                column = self._path(first + other.index)[1]
                row.store(weighted.fused(self._u.load(other.index), row.load(column)), column)

    def _path(self, k: IrValue) -> tuple[IrValue, IrValue, IrValue]:
        """Return column, joint and sign of a row of the paths."""
        row = self._paths.at(k * 3)
        return row.load(0), row.load(1), row.load(2)


def links_text(model: RmpModel, at: FieldLayout) -> str:
    """Return the function ``rmp_links(memory)``: adds the RMPs of all link pairs to M and rhs."""
    return _LinkPairsWriter(model, at).text()


def rmp_calls(model: RmpModel) -> tuple[Run, int]:
    """Return ``run(memory)``, which evaluates the policy, and the address of the same function.

    Code is compiled at the first call per robot. Other generated code calls the function at that
    address with the address of the memory.

    Raises:
        CodeGenerationError: code cannot be generated on this machine.
    """
    code = load_code(f"rmp {model.digest()} {source_digest(_SOURCES)}", lambda: rmp_text(model))
    return builtin(code.address("rmp_python"), "rmp"), code.address("rmp_evaluate")


def rmp_text(model: RmpModel) -> str:
    """Return the LLVM module of a robot."""
    lanes = native.host_cpu().lanes("double")
    at = rmp_layout(model)
    total = sphere_places(model)[2]
    return "\n".join(
        [
            bodies_text(at, total, sphere_runs(model), lanes),
            pairs_text(model, at, total, lanes),
            links_text(model, at),
            _evaluate(model, at, lanes),
            python_function("rmp_python", "rmp_evaluate", [at.size]),
            DECLARATIONS,
            "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
            *declarations(lanes),
            *pair_declarations(lanes),
        ]
    )


def _evaluate(model: RmpModel, at: FieldLayout, lanes: Lanes) -> str:
    """Write ``rmp_evaluate(memory)``."""
    _, guards, total = sphere_places(model)
    tracer = RmpTracer(model, at)
    parts = (tracer.rows(), tracer.resolve(), tracer.solve())
    joints = model.arrays.joint_count
    flow = FunctionBuilder(memory="ptr")
    memory = Fields(flow.pointer("memory"), at)
    program = Program(tracer.tape, joints + at.size, tuple(tuple(x.values()) for x in parts))
    body = LlvmFunction(
        program,
        flow,
        lambda i: memory.real("q", i) if i < joints else memory.memory.load(i - joints),
        lanes.count,
    )

    def write(values: Mapping[int, Value]) -> None:
        body.write(tuple(values.values()))
        for place, value in values.items():
            memory.memory.store(flow.typed(body.output(value)), place)

    first, second, third = parts
    write(first)
    flow.call("void", "rmp_place", memory.memory)
    clear = f"ptr {memory.at('metric')}, i8 0, i64 {8 * 9 * total}, i1 false"
    flow.lines.append(f"  call void @llvm.memset.p0.i64({clear})")
    far = flow.constant(FAR).splat(lanes.count)
    for k in range(0, total, lanes.count):
        memory.at("nearest", k).store(far)
    blocks = memory.whole("blocks") * (BLOCK // lanes.count)
    for shape in obstacle_shapes():
        field = obstacle_field(shape)
        obstacles = _table(memory, field)
        flow.call("void", f"rmp_{shape}", memory.memory, 0, blocks, *obstacles)
    guard_blocks = (guards // lanes.count, total // lanes.count)
    capsules = _table(memory, "capsules")
    flow.call("void", "rmp_box", memory.memory, *guard_blocks, *capsules)
    flow.call("void", "rmp_collect", memory.memory)
    write(second)
    flow.call("void", "rmp_links", memory.memory)
    write(third)
    return flow.function("rmp_evaluate", linkage="")


def _table(memory: Fields, field: str) -> tuple[IrValue, IrValue, IrValue]:
    """Return address and count of obstacles, and the address of their bounds."""
    bounds = memory.at(field, 2).of("ptr").load()
    return memory.pointer(field), memory.whole(field, 1), bounds
