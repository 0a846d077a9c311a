# SPDX-License-Identifier: Apache-2.0
"""Seeds of inverse kinematics, as LLVM code.

Given seeds come first, then one from each block of a table of random configurations: the one whose
pose is closest to the target, measured by

    weight^2 |p - p_T|^2 - closeness * trace(R^T R_T),

the squared distance and (nearly) the squared angle. As a function of a configuration's features
(|p|^2, p, R) this is linear, so a block is searched with a dozen multiplications per SIMD register
of float32.
"""

from __future__ import annotations

import math

from motion_nodes.kernels.control_flow import FunctionBuilder
from motion_nodes.kernels.ik.ik_memory import (
    BLOCK,
    FEATURES,
    LANES,
    common_inputs,
    lane_inputs,
)
from motion_nodes.kernels.ir_value import IrValue, Pointer
from motion_nodes.kernels.memory_layout import FieldLayout, Fields
from motion_nodes.kernels.simd import Lanes

WIDE = Lanes("float", 16)
"""float32 values compared per instruction."""

DECLARATIONS = f"""declare float @llvm.vector.reduce.fmin.{WIDE.suffix}({WIDE.type})
declare {WIDE.type} @llvm.fma.{WIDE.suffix}({WIDE.type}, {WIDE.type}, {WIDE.type})"""


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
