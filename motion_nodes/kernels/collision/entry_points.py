# SPDX-License-Identifier: Apache-2.0
"""Entry points of the collision checks as LLVM code: an edge, a state, many states.

Configurations are float64 [rad or m]. Full turns are removed before the conversion to float32, to
keep precision.
"""

from __future__ import annotations

from motion_nodes.kernels.collision.collision_memory import LONGEST_EDGE, WRAP_LIMIT, table_of
from motion_nodes.kernels.control_flow import FunctionBuilder
from motion_nodes.kernels.ir_value import IrValue, Pointer
from motion_nodes.kernels.memory_layout import Fields
from motion_nodes.kernels.simd import Lanes, Writer


def entry_functions(lanes: Lanes) -> str:
    """Return the functions ``edge``, ``state`` and ``many``, which call ``block``."""
    return "\n".join((_edge(lanes), _state(), _many(lanes)))


def _scratch(flow: FunctionBuilder, table: Fields) -> list[Pointer]:
    """Allocate the memory for one register on the stack; return q and the other arguments."""
    n, bodies = flow.lanes.count, table.whole("bodies")
    sizes = [
        table.whole("inputs") * n,
        table.whole("groups") * (12 * n),
        bodies * (3 * n),
        table.whole("spheres") * (3 * n),
        bodies,  # one byte each would suffice
    ]
    starts = [flow.whole(0)]
    for size in sizes:
        starts.append(starts[-1] + size)
    memory = flow.allocated(starts.pop(), "float", align=64)
    q, *rest = (memory.at(start) for start in starts)
    joints, standing = table.whole("joints"), table.pointer("standing", "float")
    with flow.loop(table.whole("inputs") - joints) as turn:
        q.store(standing.load(turn.index).splat(n), (joints + turn.index) * n)
    return [q, table.memory, *rest]


def _edge(lanes: Lanes) -> str:
    flow, n = FunctionBuilder(lanes, a="ptr", b="ptr", h="ptr"), lanes.count
    table, collision, free = table_of(flow), IrValue(flow, "i32", "0"), IrValue(flow, "i32", "1")
    joints, turns = table.whole("joints"), table.pointer("turns")
    inverse_steps, a, b = table.pointer("inverse_steps"), flow.pointer("a"), flow.pointer("b")
    with flow.loop(joints, total=IrValue(flow, "double", "0.0")) as joint:
        steps = (b.load(joint.index) - a.load(joint.index)) * inverse_steps.load(joint.index)
        joint["total"] = joint["total"] + steps * steps
    length = joint["total"].root()
    flow.return_if(~(length < LONGEST_EDGE), collision)  # also if it is NaN
    whole = length.rounded_up()
    count = (whole > 1.0).choose(whole, IrValue(flow, "double", "1.0")).to("i64")
    q, *scratch = _scratch(flow, table)
    ends = flow.allocated(joints * 2, "float", align=4)
    with flow.loop(joints) as joint:
        start = a.load(joint.index)
        near = _unwound(start, turns.load(joint.index))
        flow.return_if(~(near.size() < WRAP_LIMIT), collision)
        end = ends.at(joint.index * 2)
        end.store(near.to("float"), 0)
        end.store((b.load(joint.index) - start).to("float"), 1)
    blocks = (count + (n - 1)) // n
    last, stride = (x.to("float").splat(n) for x in (count, blocks))
    numbers = ", ".join(f"float {float(k):e}" for k in range(n))
    spread = flow.typed(f"<{numbers}>") * stride
    with flow.loop(blocks) as block:
        step = (spread + (block.index + 1).to("float").splat(n)).smaller(last)
        share = step / last
        with flow.loop(joints) as joint:
            end = ends.at(joint.index * 2)
            start, way = (end.load(k).splat(n) for k in range(2))
            q.store(share.fused(way, start), joint.index * n)
        flow.return_if(flow.call("i64", "block", q, *scratch, 1).differs(0), collision)
    flow.ret(free)
    return flow.function("edge", linkage="")


def _unwound(value: IrValue, turn: IrValue) -> IrValue:
    """Return an angle without its full turns; unchanged if its period ``turn`` is 0."""
    return (turn > 0.0).choose(value - (value / turn).rounded() * turn, value)


def _state() -> str:
    flow = FunctionBuilder(q="ptr", h="ptr")
    q = flow.pointer("q")
    flow.ret(flow.call("i32", "edge", q, q, flow.pointer("h")))
    return flow.function("state", linkage="")


def _many(lanes: Lanes) -> str:
    flow, n = FunctionBuilder(lanes, Q="ptr", m="i64", free="ptr", h="ptr"), lanes.count
    wide = Writer(Lanes("double", n), flow.lines, "d")
    table, Q, m = table_of(flow), flow.pointer("Q"), flow.argument("m")
    joints, turns = table.whole("joints"), table.pointer("turns")
    q, *scratch = _scratch(flow, table)
    final, everything = m - 1, (1 << n) - 1
    with flow.loop((m + (n - 1)) // n) as group:
        base = group.index * n
        rows = [Q.at((base + lane).smaller(final) * joints) for lane in range(n)]
        with flow.loop(joints, bad=flow.whole(0)) as joint:
            numbers = wide.joined([row.load(joint.index) for row in rows])
            near = _unwound(
                IrValue(flow, wide.lanes.type, numbers), turns.load(joint.index).splat(n)
            )
            usable = near.size() < WRAP_LIMIT
            zero = IrValue(flow, near.kind, "zeroinitializer")
            q.store(usable.choose(near, zero).to("float"), joint.index * n)
            joint["bad"] = joint["bad"] | (usable.bits() ^ everything)
        hits = flow.call("i64", "block", q, *scratch, everything) | joint["bad"]
        with flow.loop((m - base).smaller(flow.whole(n))) as one:
            free = ((hits >> one.index) & 1) ^ 1
            flow.pointer("free", "i8").store(free.to("i8"), base + one.index)
    return flow.function("many", linkage="")
