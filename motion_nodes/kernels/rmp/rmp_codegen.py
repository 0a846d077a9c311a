# SPDX-License-Identifier: Apache-2.0
"""RMPflow as one call of generated code: memory in, accelerations out."""

from __future__ import annotations

from collections.abc import Mapping

from motion_nodes.kernels import native
from motion_nodes.kernels.expression_graph import Program, Value
from motion_nodes.kernels.llvm_text import LlvmFunction, declarations
from motion_nodes.kernels.python_form import DECLARATIONS, Run, builtin, python_function
from motion_nodes.kernels.rmp.rmp_link_motion import bodies_text
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
from motion_nodes.kernels.rmp.rmp_pairs import pairs_text
from motion_nodes.kernels.rmp.rmp_robot import RmpTracer
from motion_nodes.kernels.rmp.rmp_self_collision import links_text
from motion_nodes.kernels.robot_codegen import load_code
from motion_nodes.kernels.simd import Lanes, Writer
from motion_nodes.kernels.sources import source_digest

_SOURCES = (
    "rmp.rmp_codegen",
    "rmp.rmp_memory",
    "rmp.rmp_link_motion",
    "rmp.rmp_leaves",
    "rmp.rmp_distance",
    "rmp.rmp_pairs",
    "rmp.rmp_robot",
    "rmp.rmp_self_collision",
    "formulas.linear_algebra",
    "formulas.motion",
    "formulas.rmps",
    "formulas.shapes",
)


def rmp_call(model: RmpModel) -> Run:
    """Return ``run(memory)``, which evaluates the policy; compiled at the first call per robot.

    Raises:
        CodeGenerationError: code cannot be generated on this machine.
    """
    code = load_code(f"rmp {model.digest()} {source_digest(_SOURCES)}", lambda: rmp_text(model))
    return builtin(code.address("rmp_python"), "rmp")


def rmp_text(model: RmpModel) -> str:
    """Return the LLVM module of a robot."""
    lanes = native.host_cpu().lanes("double")
    at = rmp_layout(model)
    _, guards, total = sphere_places(model)
    tracer = RmpTracer(model, at)
    first, second, third = tracer.rows(), tracer.resolve(), tracer.solve()
    joints = model.arrays.joint_count
    program = Program(
        tracer.tape, joints + at.size, tuple(tuple(x.values()) for x in (first, second, third))
    )
    writer = Writer(Lanes("double", 1))

    def load(index: int) -> str:
        place = at["q"] + index if index < joints else index - joints
        return writer.load(writer.address("%memory", place))

    body = LlvmFunction(program, writer, load, lanes.count)
    body.write(tuple(first.values()))
    _store(writer, body, first)
    per_block = BLOCK // lanes.count
    writer.lines += [
        "  call void @rmp_place(ptr %memory)",
        f"  %metric = getelementptr double, ptr %memory, i64 {at['metric']}",
        f"  call void @llvm.memset.p0.i64(ptr %metric, i8 0, i64 {8 * 9 * total}, i1 false)",
    ]
    wide = Writer(lanes, writer.lines, "n")
    for k in range(0, total, lanes.count):
        wide.store(lanes.constant(FAR), wide.address("%memory", at["nearest"] + k))
    names = tuple(obstacle_shapes())
    for name, field in (*((n, obstacle_field(n)) for n in names), ("capsules", "capsules")):
        writer.lines += [
            f"  %{name}_at = getelementptr i64, ptr %memory, i64 {at[field]}",
            f"  %{name}_address = load i64, ptr %{name}_at",
            f"  %{name} = inttoptr i64 %{name}_address to ptr",
            f"  %{name}_count_at = getelementptr i64, ptr %memory, i64 {at[field] + 1}",
            f"  %{name}_count = load i64, ptr %{name}_count_at",
        ]
    guard_blocks = f"i64 {guards // lanes.count}, i64 {total // lanes.count}"
    writer.lines += [
        f"  %blocks_at = getelementptr i64, ptr %memory, i64 {at['blocks']}",
        "  %used = load i64, ptr %blocks_at",
        f"  %blocks = mul i64 %used, {per_block}",
        *(
            f"  call void @rmp_{n}(ptr %memory, i64 0, i64 %blocks, ptr %{n}, i64 %{n}_count)"
            for n in names
        ),
        f"  call void @rmp_box(ptr %memory, {guard_blocks}, ptr %capsules, i64 %capsules_count)",
        "  call void @rmp_collect(ptr %memory)",
    ]
    body.write(tuple(second.values()))
    _store(writer, body, second)
    writer.lines.append("  call void @rmp_links(ptr %memory)")
    body.write(tuple(third.values()))
    _store(writer, body, third)
    lines = "\n".join(writer.lines)
    return "\n".join(
        [
            bodies_text(at, total, sphere_runs(model), lanes),
            pairs_text(model, at, total, lanes),
            links_text(model, at),
            f"define void @rmp_evaluate(ptr %memory) nounwind {{\n{lines}\n  ret void\n}}\n",
            python_function("rmp_python", "rmp_evaluate", [at.size]),
            DECLARATIONS,
            "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
            *declarations(lanes),
        ]
    )


def _store(writer: Writer, body: LlvmFunction, values: Mapping[int, Value]) -> None:
    for place, value in values.items():
        writer.store(body.output(value), writer.address("%memory", place))
