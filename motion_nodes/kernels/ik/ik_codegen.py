# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics of one chain as LLVM code: complete solves in one call, without the GIL.

Eight descents run side by side, one per lane of an 8-wide vector; the first to converge wins. A
step of all eight takes about as long as one in scalar code, so the solve time is that of the best
seed.

The step is straight-line code from :mod:`motion_nodes.kernels.ik.ik_step`; the surrounding loop is
LLVM text as well (:mod:`~motion_nodes.kernels.ik.ik_loop`,
:mod:`~motion_nodes.kernels.ik.ik_seeds`). A Numba kernel would be no faster, and importing Numba
costs a quarter of a second and 100 MB.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from motion_nodes.kernels.control_flow import FunctionBuilder
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program, Value
from motion_nodes.kernels.formulas.linear_algebra import cross, dot
from motion_nodes.kernels.ik.ik_loop import loop_text
from motion_nodes.kernels.ik.ik_memory import LANES, IkWorkspace, lane_inputs, work_layout
from motion_nodes.kernels.ik.ik_step import step_program
from motion_nodes.kernels.ir_value import Pointer
from motion_nodes.kernels.kinematic_arrays import PackedArrays
from motion_nodes.kernels.llvm_text import LlvmFunction, declarations
from motion_nodes.kernels.memory_layout import Fields
from motion_nodes.kernels.robot_codegen import load_code
from motion_nodes.kernels.simd import Lanes
from motion_nodes.kernels.sources import source_digest
from motion_nodes.typing import Array

_SOURCES = (
    "ik.ik_memory",
    "ik.ik_step",
    "ik.ik_seeds",
    "ik.ik_loop",
    "ik.ik_codegen",
)

_One = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_Many = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)


class GeneratedIk:
    """Solver of one chain with generated code. Thread-safe."""

    def __init__(self, arrays: PackedArrays, row: int) -> None:
        """Compile the code, or load it from the cache.

        Args:
            arrays: the robot; poses are relative to its row 0.
            row: row of the tip.

        Raises:
            CodeGenerationError: code cannot be generated on this machine.
        """
        known = f"{arrays.digest()} {row} {source_digest(_SOURCES)}"
        self._code = load_code(f"ik {known}", lambda: solve_text(arrays, row))
        self._solve = _One(self._code.address("ik_solve"))
        self._resume = _One(self._code.address("ik_resume"))
        self._many = _Many(self._code.address("ik_many"))

    def solve(self, work: IkWorkspace) -> int:
        """Begin a solve and return its outcome; see :mod:`motion_nodes.kernels.ik.ik_memory`."""
        outcome: int = self._solve(work.address)
        return outcome

    def resume(self, work: IkWorkspace) -> int:
        """Continue after a pause or a solution and return the outcome."""
        outcome: int = self._resume(work.address)
        return outcome

    def many(self, work: IkWorkspace, targets: Array, q: Array, report: Array) -> None:
        """Solve for m poses one after the other.

        Args:
            work: the workspace; with ``given`` = 1, ``starts`` is the address of m seeds. Solutions
                that its ``accept`` rejects are discarded.
            targets: poses of the tip in row 0, shape (m, 4, 4).
            q: results [rad or m], shape (m, n): solutions, or the configurations with the smallest
                error.
            report: outcome, iterations, seeds used, errors of the solution [m, rad], shape (m,
                REPORT).
        """
        addresses = (targets.ctypes.data, q.ctypes.data, report.ctypes.data)
        self._many(work.address, len(targets), *addresses)


def target_program() -> Program:
    """Return the program that transforms a target.

    Inputs: pose of the target in row 0, shape (4, 4); weights of position and rotation in the seed
    metric. Outputs: pose of row 0 in the target (rotation, then translation); factors of the
    features; the sum of squared deviations of the input from a valid pose.
    """
    tape = ExpressionGraph()
    X = [[tape.input(4 * i + j) for j in range(4)] for i in range(4)]
    R, p = [row[:3] for row in X[:3]], [row[3] for row in X[:3]]
    weight, closeness = tape.input(16), tape.input(17)
    columns = [list(column) for column in zip(*R, strict=True)]
    inverse = [x for column in columns for x in column] + [-dot(column, p) for column in columns]
    direction = [weight, *(-2.0 * weight * x for x in p)]
    direction += [-closeness * x for row in R for x in row]
    deviations = [
        dot(columns[i], columns[j]) - float(i == j) for i in range(3) for j in range(i, 3)
    ]
    deviations.append(dot(columns[0], cross(columns[1], columns[2])) - 1.0)
    deviations += [X[3][0], X[3][1], X[3][2], X[3][3] - 1.0]
    finite = [tape.less(tape.maximum(-x, x), 1e100) for x in p]
    deviations += [tape.choose(condition, 0.0, 1.0) for condition in finite]
    return Program(tape, 18, ((*inverse,), (*direction,), (dot(deviations, deviations),)))


def solve_text(arrays: PackedArrays, row: int) -> str:
    """Return the LLVM module of a chain, with the functions of ``loop_text``."""
    n = arrays.joint_count
    parts = (_step(step_program(arrays, row), n), _restate(n), loop_text(n))
    return "\n".join([*parts, *declarations(Lanes("double", LANES))])


def _step(program: Program, n: int) -> str:
    """Write the function that performs one step in all lanes.

    It returns the lanes that hold a solution, one bit each, if no other lane is awaited, and then
    moves none; otherwise 0.
    """
    flow, own = FunctionBuilder(Lanes("double", LANES), work="ptr"), lane_inputs(n)
    work = Fields(flow.pointer("work"), work_layout(n))

    def load(index: int) -> str:
        if index < own.size:
            return work.at("own", index * LANES).load(lanes=LANES)
        return work.real("common", index - own.size).splat(LANES)

    body = LlvmFunction(program, flow, load, LANES)

    def store(values: Sequence[Value], place: Pointer) -> None:
        body.write(values)
        for k, value in enumerate(values):
            place.store(flow.typed(body.output(value)), k * LANES)

    moved, measures, flags, errors = program.outputs
    store(errors, work.at("errors"))
    store(flags[:1], work.at("solved"))
    solved = (flow.typed(body.output(flags[0])) > 0.0).bits()
    found, awaited = solved & work.whole("live"), work.whole("wait") & ~solved
    flow.return_if(found.differs(0) & awaited.equals(0), found)
    store(moved, work.at("own", own["q"] * LANES))
    for name, value in zip(("best", "stalled"), measures[1:], strict=True):
        store((value,), work.at("own", own[name] * LANES))
    store(measures[:1], work.at("squared"))
    store(flags[1:], work.at("hopeless"))
    flow.ret(flow.whole(0))
    return flow.function("ik_step")


def _restate(n: int) -> str:
    """Write the function that prepares the target for the step and for the selection of seeds."""
    flow, own, program = FunctionBuilder(work="ptr"), lane_inputs(n), target_program()
    work = Fields(flow.pointer("work"), work_layout(n))
    # ``importance`` follows ``target``, and ``defect`` follows ``direction``.
    body = LlvmFunction(program, flow, lambda i: work.real("target", i), 1)
    body.write()
    inverse, direction, defect = program.outputs
    for i, value in enumerate(inverse):
        number = flow.typed(body.output(value)).splat(LANES)
        work.at("own", (own["X_TB"] + i) * LANES).store(number)
    for i, value in enumerate((*direction, *defect)):
        work.at("direction", i).store(flow.typed(body.output(value)))
    return flow.function("ik_restate")
