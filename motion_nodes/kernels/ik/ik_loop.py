# SPDX-License-Identifier: Apache-2.0
"""The loop around a step of inverse kinematics, and the selection of seeds, as LLVM code.

Each lane descends independently. The first one to converge ends the loop; a stalled lane restarts
from the next seed.

The functions take the address of the workspace of :mod:`motion_nodes.kernels.ik.ik_memory`.
``test/kernels/numpy_ik.py`` does the same in NumPy.
"""

from __future__ import annotations

import math

from motion_nodes.kernels.control_flow import FunctionBuilder
from motion_nodes.kernels.ik.ik_memory import (
    EXHAUSTED,
    FOUND,
    LANES,
    NO_POSE,
    PAUSED,
    REPORT,
    work_layout,
)
from motion_nodes.kernels.ik.ik_seeds import DECLARATIONS, copy, nearest_text, start_text
from motion_nodes.kernels.ir_value import IrValue
from motion_nodes.kernels.memory_layout import FieldLayout, Fields

_ALL = (1 << LANES) - 1
_ENDLESS = 1 << 62
_DEFECT = 1e-6  # Max sum of squared deviations of a valid pose.
_INTEGERS = """declare i64 @llvm.cttz.i64(i64, i1)
declare i64 @llvm.ctpop.i64(i64)"""


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
