# SPDX-License-Identifier: Apache-2.0
"""Entry points of the collision checks as LLVM code: an edge, a state, many states.

Configurations are float64. Full turns are removed before the conversion to float32, which would
otherwise lose precision.
"""

from __future__ import annotations

from motion_nodes.kernels.collision.collision_memory import LONGEST_EDGE, WRAP_LIMIT, array, field
from motion_nodes.kernels.control_flow import FunctionBuilder
from motion_nodes.kernels.simd import Lanes, Writer


def entry_functions(lanes: Lanes) -> str:
    """Return the functions ``edge``, ``state`` and ``many``; they call ``block``."""
    return "\n".join((_edge(lanes), _STATE, _many(lanes)))


def _scratch(flow: FunctionBuilder) -> tuple[str, str]:
    """Allocate the memory for one register on the stack; return q and the remaining arguments."""
    n = flow.lanes.count
    bodies = field(flow, "bodies")
    sizes = [
        flow.times(field(flow, "inputs"), n),
        flow.times(field(flow, "groups"), 12 * n),
        flow.times(bodies, 3 * n),
        flow.times(field(flow, "spheres"), 3 * n),
        bodies,  # one byte each would suffice
    ]
    total = "0"
    starts = []
    for size in sizes:
        starts.append(total)
        total = flow.plus(total, size)
    memory = flow.emit(f"alloca float, i64 {total}, align 64")
    q, *rest = (flow.at(memory, start) for start in starts)
    joints = field(flow, "joints")
    standing = array(flow, "standing")
    with flow.loop(flow.emit(f"sub i64 {field(flow, 'inputs')}, {joints}")) as turn:
        row = flow.at(q, flow.times(flow.plus(joints, turn.index), n))
        flow.store(flow.splat(flow.get(standing, turn.index)), row)
    return q, ", ".join(["ptr %h", *(f"ptr {pointer}" for pointer in rest)])


def _edge(lanes: Lanes) -> str:
    flow, n = FunctionBuilder(lanes), lanes.count
    joints = field(flow, "joints")
    inverse_steps, turns = array(flow, "inverse_steps"), array(flow, "turns")
    with flow.loop(joints, total=("double", "0.0")) as joint:
        start, end = (flow.get(x, joint.index, "double") for x in ("%a", "%b"))
        way = flow.emit(f"fsub double {end}, {start}")
        share = flow.emit(f"fmul double {way}, {flow.get(inverse_steps, joint.index, 'double')}")
        square = flow.emit(f"fmul double {share}, {share}")
        joint["total"] = flow.emit(f"fadd double {joint['total']}, {square}")
    length = flow.emit(f"call double @llvm.sqrt.f64(double {joint['total']})")
    too_long = flow.emit(f"fcmp uge double {length}, {LONGEST_EDGE:e}")
    flow.return_if(too_long, "i32", "0")
    whole = flow.emit(f"call double @llvm.ceil.f64(double {length})")
    least = flow.emit(f"fcmp ogt double {whole}, 1.0")
    whole = flow.emit(f"select i1 {least}, double {whole}, double 1.0")
    count = flow.emit(f"fptosi double {whole} to i64")
    q, scratch = _scratch(flow)
    ends = flow.emit(f"alloca float, i64 {flow.times(joints, 2)}, align 4")
    with flow.loop(joints) as joint:
        start, end = (flow.get(x, joint.index, "double") for x in ("%a", "%b"))
        way = flow.emit(f"fsub double {end}, {start}")
        turn = flow.get(turns, joint.index, "double")
        near = _unwound(flow, "double", "f64", start, turn)
        size = flow.emit(f"call double @llvm.fabs.f64(double {near})")
        flow.return_if(flow.emit(f"fcmp uge double {size}, {WRAP_LIMIT:e}"), "i32", "0")
        place = flow.at(ends, flow.times(joint.index, 2))
        for k, number in enumerate((near, way)):
            short = flow.emit(f"fptrunc double {number} to float")
            flow.lines.append(f"  store float {short}, ptr {flow.at(place, k)}")
    blocks = flow.emit(f"udiv i64 {flow.plus(count, n - 1)}, {n}")
    last, stride = (flow.splat(flow.emit(f"uitofp i64 {x} to float")) for x in (count, blocks))
    numbers = "<" + ", ".join(f"float {lanes_literal(k)}" for k in range(n)) + ">"
    spread = flow.binary("fmul", numbers, stride)
    with flow.loop(blocks) as block:
        shift = flow.emit(f"uitofp i64 {flow.plus(block.index, 1)} to float")
        step = flow.smaller(flow.binary("fadd", spread, flow.splat(shift)), last)
        share = flow.binary("fdiv", step, last)
        with flow.loop(joints) as joint:
            place = flow.at(ends, flow.times(joint.index, 2))
            start, way = (flow.splat(flow.get(place, k)) for k in range(2))
            row = flow.at(q, flow.times(joint.index, n))
            flow.store(flow.fused(share, way, start), row)
        hits = flow.emit(f"call i64 @block(ptr {q}, {scratch}, i64 1)")
        flow.return_if(flow.emit(f"icmp ne i64 {hits}, 0"), "i32", "0")
    flow.ret("i32", "1")
    return flow.function("edge", "i32", "ptr %a, ptr %b, ptr %h", "")


def lanes_literal(number: int) -> str:
    """Return a small integer as a float literal."""
    return f"{float(number):e}"


def _unwound(flow: FunctionBuilder, kind: str, suffix: str, value: str, turn: str) -> str:
    """Return an angle without its full turns, which would cost precision in float32."""
    share = flow.emit(f"fdiv {kind} {value}, {turn}")
    whole = flow.emit(f"call {kind} @llvm.rint.{suffix}({kind} {share})")
    rest = flow.emit(f"fsub {kind} {value}, {flow.emit(f'fmul {kind} {whole}, {turn}')}")
    zero = "0.0" if kind == "double" else "zeroinitializer"
    turns = flow.emit(f"fcmp ogt {kind} {turn}, {zero}")
    bools = "i1" if kind == "double" else f"<{flow.lanes.count} x i1>"
    return flow.emit(f"select {bools} {turns}, {kind} {rest}, {kind} {value}")


_STATE = """define i32 @state(ptr %q, ptr %h) nounwind {
  %free = call i32 @edge(ptr %q, ptr %q, ptr %h)
  ret i32 %free
}
"""


def _many(lanes: Lanes) -> str:
    flow, n = FunctionBuilder(lanes), lanes.count
    wide = Writer(Lanes("double", n), flow.lines, "d")
    vector = f"<{n} x double>"
    joints, turns = field(flow, "joints"), array(flow, "turns")
    q, scratch = _scratch(flow)
    final = flow.emit("sub i64 %m, 1")
    groups = flow.emit(f"udiv i64 {flow.plus('%m', n - 1)}, {n}")
    with flow.loop(groups) as group:
        base = flow.times(group.index, n)
        rows = []
        for lane in range(n):
            row = flow.plus(base, lane)
            inside = flow.emit(f"icmp slt i64 {row}, {final}")
            row = flow.emit(f"select i1 {inside}, i64 {row}, i64 {final}")
            rows.append(flow.at("%Q", flow.times(row, joints), "double"))
        with flow.loop(joints, bad=("i64", "0")) as joint:
            value = wide.joined([flow.get(row, joint.index, "double") for row in rows])
            turn = wide.joined([flow.get(turns, joint.index, "double")] * n)
            near = _unwound(flow, vector, f"v{n}f64", value, turn)
            size = flow.emit(f"call {vector} @llvm.fabs.v{n}f64({vector} {near})")
            usable = flow.emit(f"fcmp olt {vector} {size}, {wide.lanes.constant(WRAP_LIMIT)}")
            number = flow.emit(
                f"select <{n} x i1> {usable}, {vector} {near}, {vector} zeroinitializer"
            )
            short = flow.emit(f"fptrunc {vector} {number} to {lanes.type}")
            flow.store(short, flow.at(q, flow.times(joint.index, n)))
            others = flow.emit(f"xor i64 {flow.mask(usable)}, {(1 << n) - 1}")
            joint["bad"] = flow.emit(f"or i64 {joint['bad']}, {others}")
        hits = flow.emit(f"call i64 @block(ptr {q}, {scratch}, i64 {(1 << n) - 1})")
        hits = flow.emit(f"or i64 {hits}, {joint['bad']}")
        left = flow.emit(f"sub i64 %m, {base}")
        some = flow.emit(f"icmp slt i64 {left}, {n}")
        with flow.loop(flow.emit(f"select i1 {some}, i64 {left}, i64 {n}")) as one:
            bit = flow.emit(f"and i64 {flow.emit(f'lshr i64 {hits}, {one.index}')}, 1")
            free = flow.emit(f"trunc i64 {flow.emit(f'xor i64 {bit}, 1')} to i8")
            place = flow.at("%free", flow.plus(base, one.index), "i8")
            flow.lines.append(f"  store i8 {free}, ptr {place}")
    flow.lines.append("  ret void")
    return flow.function("many", "void", "ptr %Q, i64 %m, ptr %free, ptr %h", "")
