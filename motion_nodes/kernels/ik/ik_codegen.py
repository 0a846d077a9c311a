# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics of one chain as LLVM code: complete solves in one call, without the GIL.

Eight descents run side by side, one per lane of an 8-wide vector; the first to converge wins. A
step of all eight takes about as long as one in scalar code, so the solve time is that of the best
seed.

The step is straight-line code from :mod:`motion_nodes.kernels.ik.ik_step`; the surrounding loop is
LLVM text as well. A Numba kernel would be no faster, and importing Numba costs a quarter of a
second and 100 MB.

Each lane descends independently. The first one to converge ends the loop; a stalled lane restarts
from the next seed.

The functions take the address of the workspace of :mod:`motion_nodes.kernels.ik.ik_step`.
``test/kernels/numpy_ik.py`` does the same in NumPy.

Given seeds come first, then one from each block of a table of random configurations: the one whose
pose is closest to the target, measured by

    weight^2 |p - p_T|^2 - closeness * trace(R^T R_T),

the squared distance and (nearly) the squared angle. As a function of a configuration's features
(|p|^2, p, R) this is linear, so a block is searched with a dozen multiplications per SIMD register
of float32.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

from motion_nodes.kernels.cache import source_digest
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program, Value
from motion_nodes.kernels.formulas.ops import cross, dot
from motion_nodes.kernels.ik.ik_step import (
    BLOCK,
    EXHAUSTED,
    FEATURES,
    FOUND,
    LANES,
    NO_POSE,
    PAUSED,
    REPORT,
    IkWorkspace,
    common_inputs,
    lane_inputs,
    step_program,
    work_layout,
)
from motion_nodes.kernels.kinematic_arrays import PackedArrays
from motion_nodes.kernels.llvm_builder import FunctionBuilder, IrValue, Pointer
from motion_nodes.kernels.llvm_text import LlvmFunction, declarations
from motion_nodes.kernels.memory_layout import FieldLayout, Fields
from motion_nodes.kernels.robot_codegen import load_code
from motion_nodes.kernels.simd import Lanes
from motion_nodes.typing import Array

WIDE = Lanes("float", 16)
"""float32 values compared per instruction."""
DECLARATIONS = f"""declare float @llvm.vector.reduce.fmin.{WIDE.suffix}({WIDE.type})
declare {WIDE.type} @llvm.fma.{WIDE.suffix}({WIDE.type}, {WIDE.type}, {WIDE.type})"""
_ALL = (1 << LANES) - 1
_ENDLESS = 1 << 62
_DEFECT = 1e-6  # Max sum of squared deviations of a valid pose.
_INTEGERS = """declare i64 @llvm.cttz.i64(i64, i1)
declare i64 @llvm.ctpop.i64(i64)"""
_SOURCES = ("ik.ik_step", "ik.ik_codegen")
_One = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_Many = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)


def copy(source: Pointer, target: Pointer, count: int, step: int = 1) -> None:
    """Copy numbers, ``step`` apart, to an array."""
    for k in range(count):
        target.store(source.load(k * step), k)


def nearest_text(at: FieldLayout) -> str:
    """Write ``ik_nearest(work, block)``, which returns the closest configuration of a block."""
    flow, n = FunctionBuilder(WIDE, work="ptr", block="i64"), WIDE.count
    work = Fields(flow.pointer("work"), at)
    factors = [work.real("direction", i).to("float").splat(n) for i in range(FEATURES)]
    first = flow.argument("block") * BLOCK
    features = work.pointer("features", "float").at(first * FEATURES)
    rows = IrValue(flow, f"<{n} x i64>", "zeroinitializer")
    with flow.loop(BLOCK // n, least=flow.constant(math.inf), row=rows) as turn:
        start = turn.index * n
        group, distance = features.at(start), flow.constant(0.0)
        for i, factor in enumerate(factors):
            distance = group.load(i * BLOCK, n).fused(factor, distance)
        nearer = distance < turn["least"]
        turn["least"] = nearer.choose(distance, turn["least"])
        turn["row"] = nearer.choose(start.splat(n), turn["row"])
    closest = turn["least"].equals(turn["least"].smallest().splat(n))
    lane = closest.bits().lowest()
    flow.ret(first + turn["row"].lane(lane) + lane)
    return flow.function("ik_nearest")


def start_text(n: int, at: FieldLayout) -> str:
    """Write ``ik_start(work, lane)``: store the next seed, clamped to the limits, in a lane."""
    flow, own, common = FunctionBuilder(work="ptr", lane="i64"), lane_inputs(n), common_inputs(n)
    work = Fields(flow.pointer("work"), at)
    following, given = work.whole("next"), work.whole("given")
    work.set(next=following + 1)
    seeds = work.pointer("starts").at(following * n)
    with flow.when(following >= given, row=seeds) as table:
        row = flow.call("i64", "ik_nearest", work.memory, following - given)
        table["row"] = work.pointer("table").at(row * n)
    lane = work.memory.at(flow.argument("lane"))
    for k in range(n):
        lower, upper = (work.real("common", common[name] + k) for name in ("lower", "upper"))
        q = flow.pointer(table["row"]).load(k)
        lane.store(q.larger(lower).smaller(upper), k * LANES)
    lane.store(math.inf, own["best"] * LANES)
    lane.store(0.0, own["stalled"] * LANES)
    return flow.function("ik_start")


def loop_text(n: int) -> str:
    """Return the LLVM code around ``ik_restate(work)`` and ``ik_step(work)``, for n joints.

    ``ik_solve(work)`` begins with the target in the workspace, ``ik_resume(work)`` continues after
    a pause or a solution; both return an outcome. ``ik_many(work, m, targets, q, report)`` solves
    for m poses one after the other; with ``given`` = 1, ``starts`` holds a seed for each of them.
    It discards solutions that ``accept`` rejects.
    """
    at = work_layout(n)
    parts = (nearest_text(at), start_text(n, at), _give_up(n, at), _replace(at), _answer(n, at))
    solves = (_run(at), _solve(at), _resume(at), _accepted(at), _many(n, at))
    return "\n".join((DECLARATIONS, _INTEGERS, *parts, *solves))


def _give_up(n: int, at: FieldLayout) -> str:
    """Write ``ik_give_up(work, lane)``: end a lane's descent and store the smallest error."""
    flow = FunctionBuilder(work="ptr", lane="i64")
    work, lane = Fields(flow.pointer("work"), at), flow.argument("lane")
    work.set(wait=work.whole("wait") & ~(flow.whole(1) << lane))
    squared = work.at("squared").at(lane).load()
    with flow.when(squared < work.real("nearest")):
        work.set(nearest=squared)
        copy(work.memory.at(lane), work.at("nearest", 1), n, LANES)
    return flow.function("ik_give_up")


def _replace(at: FieldLayout) -> str:
    """Write ``ik_replace(work, lanes)``: restart lanes (one bit each), or stop them."""
    flow = FunctionBuilder(work="ptr", lanes="i64")
    work = Fields(flow.pointer("work"), at)
    attempts = work.whole("attempts")
    with flow.bits(flow.argument("lanes")) as turn:
        lane = flow.whole(1) << turn.index
        live, more = work.whole("live"), work.whole("next") < attempts
        work.set(live=more.choose(live | lane, live & ~lane))
        with flow.when(more):
            flow.call("void", "ik_start", work.memory, turn.index)
    return flow.function("ik_replace")


def _answer(n: int, at: FieldLayout) -> str:
    """Write ``ik_answer(work, lane)``: copy a lane's solution and errors to the results."""
    flow = FunctionBuilder(work="ptr", lane="i64")
    work, lane = Fields(flow.pointer("work"), at), flow.argument("lane")
    copy(work.memory.at(lane), work.at("answer"), n, LANES)
    copy(work.at("errors").at(lane), work.at("answer", n), 6, LANES)
    return flow.function("ik_answer")


def _run(at: FieldLayout) -> str:
    """Write ``ik_run(work)``: steps until a solution, or no step of the budget or no seed is left.

    Lanes that hold a solution do not move while another one is awaited.
    """
    flow = FunctionBuilder(work="ptr")
    work = Fields(flow.pointer("work"), at)
    work.set(found=0)
    with flow.loop(work.whole("grant")):
        live = work.whole("live")
        flow.return_if(live.equals(0), flow.whole(EXHAUSTED))
        found = flow.call("i64", "ik_step", work.memory)
        moved = flow.call("i64", "llvm.ctpop.i64", live)
        work.set(iterations=work.whole("iterations") + moved)
        with flow.when(found.differs(0)):
            work.set(found=found)
            flow.call("void", "ik_answer", work.memory, found.lowest())
            flow.ret(flow.whole(FOUND))
        hopeless, solved = (flags(work, name) for name in ("hopeless", "solved"))
        failed = hopeless & live & ~solved
        with flow.when(failed.differs(0)):
            with flow.bits(failed) as lane:
                flow.call("void", "ik_give_up", work.memory, lane.index)
            flow.call("void", "ik_replace", work.memory, failed)
    exhausted = work.whole("live").equals(0)
    flow.ret(exhausted.choose(EXHAUSTED, flow.whole(PAUSED)))
    return flow.function("ik_run")


def flags(work: Fields, name: str) -> IrValue:
    """Return the lanes whose flag is 1, as bits."""
    return (work.at(name).load(lanes=LANES) > 0.0).bits()


def _solve(at: FieldLayout) -> str:
    flow = FunctionBuilder(work="ptr")
    work = Fields(flow.pointer("work"), at)
    flow.call("void", "ik_restate", work.memory)
    flow.return_if(~(work.real("defect") < _DEFECT), flow.whole(NO_POSE))  # also if it is NaN
    work.set(wait=work.whole("prefer"), next=0, live=0, iterations=0, nearest=math.inf)
    flow.call("void", "ik_replace", work.memory, _ALL)
    flow.ret(flow.call("i64", "ik_run", work.memory))
    return flow.function("ik_solve", linkage="")


def _resume(at: FieldLayout) -> str:
    flow = FunctionBuilder(work="ptr")
    work = Fields(flow.pointer("work"), at)
    flow.call("void", "ik_replace", work.memory, work.whole("discard"))
    flow.ret(flow.call("i64", "ik_run", work.memory))
    return flow.function("ik_resume", linkage="")


def _accepted(at: FieldLayout) -> str:
    """Write ``ik_accepted(work)``: a solve that discards solutions rejected by ``accept``."""
    flow = FunctionBuilder(work="ptr")
    work = Fields(flow.pointer("work"), at)
    first = flow.call("i64", "ik_solve", work.memory)
    flow.return_if(work.whole("accept").equals(0), first)
    accept, data = work.pointer("accept"), work.pointer("accept_data")
    with flow.loop(_ENDLESS, outcome=first) as turn:
        flow.return_if(turn["outcome"].differs(FOUND), turn["outcome"])
        accepted = flow.call("i32", accept, work.at("answer"), data)
        flow.return_if(accepted.differs(0), flow.whole(FOUND))
        work.set(discard=flow.whole(1) << work.whole("found").lowest(), wait=0)
        turn["outcome"] = flow.call("i64", "ik_resume", work.memory)
    flow.ret(flow.whole(EXHAUSTED))
    return flow.function("ik_accepted")


def _many(n: int, at: FieldLayout) -> str:
    """Write ``ik_many(work, m, targets, q, report)``; each run has the whole step budget."""
    flow = FunctionBuilder(work="ptr", m="i64", targets="ptr", q="ptr", report="ptr")
    work = Fields(flow.pointer("work"), at)
    given, seeds = work.whole("given"), work.pointer("starts")
    with flow.loop(flow.argument("m")) as pose:
        copy(flow.pointer("targets").at(pose.index * 16), work.at("target"), 16)
        work.set(starts=seeds.at(pose.index * given * n))
        outcome = flow.call("i64", "ik_accepted", work.memory)
        line = flow.pointer("report").at(pose.index * REPORT)
        for k, number in enumerate((outcome, work.whole("iterations"), work.whole("next"))):
            line.store(number.to("double"), k)
        best = outcome.equals(FOUND).choose(work.at("answer"), work.at("nearest", 1))
        copy(flow.pointer(best), flow.pointer("q").at(pose.index * n), n)
        copy(work.at("answer", n), line.at(3), 6)
    return flow.function("ik_many", linkage="")


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
        """Begin a solve and return its outcome; see :mod:`motion_nodes.kernels.ik.ik_step`."""
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
