# SPDX-License-Identifier: Apache-2.0
"""RMPflow as one call of generated code: memory in, accelerations out."""

from __future__ import annotations

from collections.abc import Mapping

from motion_nodes.kernels import native
from motion_nodes.kernels.control_flow import FunctionBuilder
from motion_nodes.kernels.expression_graph import Program, Value
from motion_nodes.kernels.ir_value import IrValue
from motion_nodes.kernels.llvm_text import LlvmFunction, declarations
from motion_nodes.kernels.memory_layout import FieldLayout, Fields
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
from motion_nodes.kernels.rmp.rmp_pairs import pair_declarations, pairs_text
from motion_nodes.kernels.rmp.rmp_robot import RmpTracer
from motion_nodes.kernels.rmp.rmp_self_collision import links_text
from motion_nodes.kernels.robot_codegen import load_code
from motion_nodes.kernels.simd import Lanes
from motion_nodes.kernels.sources import source_digest

_SOURCES = (
    "rmp.rmp_codegen",
    "rmp.rmp_memory",
    "rmp.rmp_link_motion",
    "rmp.rmp_leaves",
    "rmp.rmp_distance",
    "rmp.rmp_ball_pairs",
    "rmp.rmp_pair_loop",
    "rmp.rmp_pairs",
    "rmp.rmp_robot",
    "rmp.rmp_self_collision",
    "formulas.linear_algebra",
    "formulas.motion",
    "formulas.ops",
    "formulas.rmps",
    "formulas.shapes",
)


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
