# SPDX-License-Identifier: Apache-2.0
"""Collision checks as LLVM code: a register full of configurations side by side.

One configuration per lane; on an edge the lanes are spread over its whole length, so that an
obstacle in the middle is met at once. For a register full:

1. the robot's own code places its groups (:mod:`~motion_nodes.kernels.collision_robot`), and each
   body's bounding sphere with them;
2. bounding spheres of pairs of bodies, then, where some lane touches, the spheres themselves;
3. for each body the box around its bounding spheres in all lanes against the boxes of the world's
   leaves, a register full at a time, in two levels; then the bounding spheres against what is left,
   lane by lane; then the spheres themselves.

Spheres are placed only where they are needed: of most configurations, few are. All this code is
the same for every robot; what differs is read from memory (``collision_memory``).
"""

from __future__ import annotations

from collections.abc import Sequence

from motion_nodes.kernels.collision_flow import Flow, Turn
from motion_nodes.kernels.collision_memory import FIELDS, LEAF, LONGEST_EDGE, PLANES, WRAP_LIMIT
from motion_nodes.kernels.collision_shapes import KINDS, centre, shape_functions
from motion_nodes.kernels.lanes import Lanes, Writer
from motion_nodes.kernels.llvm_text import declarations

_SCRATCH = ("poses", "bounds", "spheres", "placed")
_POINTERS = ", ".join(["ptr %h", *(f"ptr %{name}" for name in _SCRATCH)])


def checks_text(lanes: Lanes) -> str:
    """Return the LLVM module.

    ``edge(a, b, memory)`` and ``state(q, memory)`` return 1 if all is free; ``many(Q, m, free,
    memory)`` writes 1 or 0 (int8) for each of m configurations. All numbers given are float64.
    """
    n = lanes.count
    reductions = [
        f"declare float @llvm.vector.reduce.{name}.v{n}f32({lanes.type})"
        for name in ("fmin", "fmax")
    ]
    wide = [f"declare <{n} x double> @llvm.{f}.v{n}f64(<{n} x double>)" for f in ("rint", "fabs")]
    scalar = [f"declare double @llvm.{f}.f64(double)" for f in ("rint", "fabs", "sqrt", "ceil")]
    parts = [
        shape_functions(lanes),
        _leaf_hits(),
        _set_off(lanes),
        _ensure_placed(lanes),
        _self_hits(lanes),
        _body_hits(lanes),
        _block(lanes),
        _edge(lanes),
        _STATE,
        _many(lanes),
        "declare i64 @llvm.cttz.i64(i64, i1)",
        *reductions,
        *wide,
        *scalar,
    ]
    return "\n".join([*parts, *declarations(lanes)])


def field(flow: Flow, name: str) -> str:
    """Return a whole number of the table."""
    return flow.get("%h", FIELDS[name], "i64")


def array(flow: Flow, name: str) -> str:
    """Return an array of the table."""
    return flow.get("%h", FIELDS[name], "ptr")


def _index(flow: Flow, base: str, at: str | int) -> str:
    """Return an int32 of an array as i64."""
    return flow.emit(f"sext i32 {flow.get(base, at, 'i32')} to i64")


def _leaf_hits() -> str:
    """Write the choice of the test for a leaf's kind."""
    arguments = "ptr %leaf, ptr %centres, ptr %radii, i64 %count, i64 %limit"
    cases, ways = [], []
    for kind, name in KINDS.items():
        extra = ", ptr %planes" if kind == PLANES else ""
        cases.append(f"    i32 {kind}, label %case_{name}")
        ways.append(f"case_{name}:\n  %hits{kind} = call i64 @leaf_{name}({arguments}{extra})")
        ways.append(f"  ret i64 %hits{kind}")
    choice = "\n".join(cases)
    bodies = "\n".join(ways)
    return f"""define internal i64 @leaf_hits({arguments}, ptr %planes) nounwind {{
  %kind = load i32, ptr %leaf
  switch i32 %kind, label %none [
{choice}
  ]
none:
  ret i64 0
{bodies}
}}
"""


def _set_off(lanes: Lanes) -> str:
    """Write the function that places points of a group: ``R c + p`` for each of them."""
    flow, n = Flow(lanes), lanes.count
    pose = [flow.load(flow.at("%pose", k * n)) for k in range(12)]
    with flow.loop("%count") as turn:
        point = flow.at("%points", flow.times(turn.index, 3))
        numbers = [flow.splat(flow.get(point, k)) for k in range(3)]
        out = flow.at("%out", flow.times(turn.index, 3 * n))
        for axis in range(3):
            total = pose[9 + axis]
            for k in range(3):
                total = flow.fused(pose[3 * axis + k], numbers[k], total)
            flow.store(total, flow.at(out, axis * n))
    flow.lines.append("  ret void")
    return flow.function("set_off", "void", "ptr %pose, ptr %points, ptr %out, i64 %count")


def _ensure_placed(lanes: Lanes) -> str:
    """Write the function that places a body's spheres unless that was done before."""
    flow, n = Flow(lanes), lanes.count
    done = flow.get("%placed", "%body", "i8")
    flow.return_if(flow.emit(f"icmp ne i8 {done}, 0"), "i64", "0")
    flow.lines.append(f"  store i8 1, ptr {flow.at('%placed', '%body', 'i8')}")
    firsts = array(flow, "body_firsts")
    first = _index(flow, firsts, "%body")
    count = flow.emit(f"sub i64 {_index(flow, firsts, flow.plus('%body', 1))}, {first}")
    pose = _pose_of(flow, "%body")
    points = flow.at(array(flow, "sphere_centres"), flow.times(first, 3))
    out = flow.at("%spheres", flow.times(first, 3 * n))
    flow.lines.append(f"  call void @set_off(ptr {pose}, ptr {points}, ptr {out}, i64 {count})")
    flow.ret("i64", "0")
    return flow.function("ensure_placed", "i64", f"{_POINTERS}, i64 %body")


def _pose_of(flow: Flow, body: str) -> str:
    group = _index(flow, array(flow, "body_groups"), body)
    return flow.at("%poses", flow.times(group, 12 * flow.lanes.count))


def _place(flow: Flow, body: str) -> tuple[str, str]:
    """Place a body's spheres; return its first one and how many it has."""
    pointers = ", ".join(["ptr %h", *(f"ptr %{name}" for name in _SCRATCH)])
    flow.emit(f"call i64 @ensure_placed({pointers}, i64 {body})")
    firsts = array(flow, "body_firsts")
    first = _index(flow, firsts, body)
    return first, flow.emit(f"sub i64 {_index(flow, firsts, flow.plus(body, 1))}, {first}")


def _touching(flow: Flow, a: Sequence[str], b: Sequence[str], ra: str, rb: str) -> str:
    """Return the lanes in which two spheres touch."""
    square = flow.sum_of_squares(*(flow.binary("fsub", x, y) for x, y in zip(a, b, strict=True)))
    reach = flow.emit(f"fadd float {ra}, {rb}")
    return flow.compare("ult", square, flow.splat(flow.emit(f"fmul float {reach}, {reach}")))


def _some(flow: Flow, mask: str) -> str:
    return flow.emit(f"icmp ne i64 {mask}, 0")


def _add_hits(flow: Flow, turn: Turn, mask: str) -> None:
    """Add lanes to those that collide; return if that is enough."""
    turn["hits"] = flow.emit(f"or i64 {turn['hits']}, {mask}")
    flow.return_if(flow.emit(f"icmp uge i64 {turn['hits']}, %limit"), "i64", turn["hits"])


def _self_hits(lanes: Lanes) -> str:
    flow = Flow(lanes)
    pairs, radii = array(flow, "pair_bodies"), array(flow, "body_self_radii")
    with flow.loop(field(flow, "pairs"), hits=("i64", "0")) as turn:
        pair = flow.at(pairs, flow.times(turn.index, 2), "i32")
        a, b = _index(flow, pair, 0), _index(flow, pair, 1)
        ra, rb = flow.get(radii, a), flow.get(radii, b)
        near = _touching(flow, centre(flow, "%bounds", a), centre(flow, "%bounds", b), ra, rb)
        with flow.when(_some(flow, near), hits=("i64", turn["hits"])) as close:
            _pair_hits(flow, a, b, rb, close)
        turn["hits"] = close["hits"]
    flow.ret("i64", turn["hits"])
    return flow.function("self_hits", "i64", f"{_POINTERS}, i64 %limit")


def _pair_hits(flow: Flow, a: str, b: str, bound: str, turn: Turn) -> None:
    """Test the spheres of two bodies against each other."""
    (first_a, count_a), (first_b, count_b) = _place(flow, a), _place(flow, b)
    radii, whole = array(flow, "sphere_self_radii"), centre(flow, "%bounds", b)
    with flow.loop(count_a, hits=("i64", turn["hits"])) as one:
        index = flow.plus(first_a, one.index)
        x, r = centre(flow, "%spheres", index), flow.get(radii, index)
        near = _touching(flow, x, whole, r, bound)
        with flow.when(_some(flow, near), hits=("i64", one["hits"])) as close:
            with flow.loop(count_b, hits=("i64", close["hits"])) as other:
                second = flow.plus(first_b, other.index)
                y, s = centre(flow, "%spheres", second), flow.get(radii, second)
                _add_hits(flow, other, _touching(flow, x, y, r, s))
            close["hits"] = other["hits"]
        one["hits"] = close["hits"]
    turn["hits"] = one["hits"]


def _body_hits(lanes: Lanes) -> str:
    """Write the test of one body against the world."""
    flow, n = Flow(lanes), lanes.count
    bound = flow.at("%bounds", flow.times("%body", 3 * n))
    radius = flow.get(array(flow, "body_radii"), "%body")
    low: list[str] = []
    high: list[str] = []
    for axis in range(3):
        x = flow.load(flow.at(bound, axis * n))
        for name, operation, side in (("fmin", "fsub", low), ("fmax", "fadd", high)):
            # No NaN gets here, so the shorter code for numbers will do.
            end = f"call nnan float @llvm.vector.reduce.{name}.v{n}f32({lanes.type} {x})"
            side.append(flow.splat(flow.emit(f"{operation} float {flow.emit(end)}, {radius}")))
    branch_boxes, block_boxes = array(flow, "branch_boxes"), array(flow, "block_boxes")
    with flow.loop(field(flow, "branches"), hits=("i64", "0")) as branch:
        blocks = _overlapping(flow, branch_boxes, branch.index, low, high)
        with flow.bits(blocks, hits=("i64", branch["hits"])) as block:
            number = flow.plus(flow.times(branch.index, n), block.index)
            leaves = _overlapping(flow, block_boxes, number, low, high)
            with flow.bits(leaves, hits=("i64", block["hits"])) as leaf:
                place = flow.plus(flow.times(number, n), leaf.index)
                _test_leaf(
                    flow, leaf, bound, flow.at(array(flow, "leaves"), flow.times(place, LEAF))
                )
            block["hits"] = leaf["hits"]
        branch["hits"] = block["hits"]
    flow.ret("i64", branch["hits"])
    return flow.function("body_hits", "i64", f"{_POINTERS}, i64 %limit, i64 %body")


def _overlapping(flow: Flow, boxes: str, index: str, low: list[str], high: list[str]) -> str:
    """Return which of a register full of boxes overlap a box, as bits."""
    n, t = flow.lanes.count, flow.lanes.type
    box = flow.at(boxes, flow.times(index, 6 * n))
    held = ""
    for axis in range(3):
        least, greatest = (flow.load(flow.at(box, (axis + 3 * k) * n)) for k in range(2))
        for test in (f"ole {t} {least}, {high[axis]}", f"oge {t} {greatest}, {low[axis]}"):
            this = flow.emit(f"fcmp {test}")
            held = flow.emit(f"and <{n} x i1> {held}, {this}") if held else this
    return flow.mask(held)


def _test_leaf(flow: Flow, turn: Turn, bound: str, leaf: str) -> None:
    """Test a leaf against the body's bounding sphere, then against its spheres."""
    planes = array(flow, "planes")
    row = flow.times(_index(flow, leaf, 1), field(flow, "bodies"))
    checked = flow.get(array(flow, "checked"), flow.plus(row, "%body"), "i8")
    with flow.when(flow.emit(f"icmp ne i8 {checked}, 0"), hits=("i64", turn["hits"])) as test:
        radii = flow.at(array(flow, "body_radii"), "%body")
        # The planes' own test takes no radius: a bounding sphere would have to be let through.
        kind = flow.get(leaf, 0, "i32")
        always = flow.emit(f"icmp eq i32 {kind}, {PLANES}")
        around = flow.emit(
            f"call i64 @leaf_hits(ptr {leaf}, ptr {bound}, ptr {radii}, i64 1, i64 1, ptr {planes})"
        )
        near = flow.emit(f"or i1 {always}, {_some(flow, around)}")
        with flow.when(near, hits=("i64", test["hits"])) as close:
            first, count = _place(flow, "%body")
            spheres = flow.at("%spheres", flow.times(first, 3 * flow.lanes.count))
            own = flow.at(array(flow, "sphere_radii"), first)
            touching = flow.emit(
                f"call i64 @leaf_hits(ptr {leaf}, ptr {spheres}, ptr {own}, i64 {count}, "
                f"i64 %limit, ptr {planes})"
            )
            _add_hits(flow, close, touching)
        test["hits"] = close["hits"]
    turn["hits"] = test["hits"]


def _block(lanes: Lanes) -> str:
    """Write the test of a register full of configurations; returns the lanes that collide."""
    flow, n = Flow(lanes), lanes.count
    flow.lines.append(f"  call void {array(flow, 'place')}(ptr %q, ptr %poses)")
    bodies = field(flow, "bodies")
    centres = array(flow, "body_centres")
    with flow.loop(bodies) as body:
        flow.lines.append(f"  store i8 0, ptr {flow.at('%placed', body.index, 'i8')}")
        point = flow.at(centres, flow.times(body.index, 3))
        out = flow.at("%bounds", flow.times(body.index, 3 * n))
        pose = _pose_of(flow, body.index)
        flow.lines.append(f"  call void @set_off(ptr {pose}, ptr {point}, ptr {out}, i64 1)")
    pointers = ", ".join(["ptr %h", *(f"ptr %{name}" for name in _SCRATCH), "i64 %limit"])
    itself = flow.emit(f"call i64 @self_hits({pointers})")
    flow.return_if(flow.emit(f"icmp uge i64 {itself}, %limit"), "i64", itself)
    with flow.loop(bodies, hits=("i64", itself)) as body:
        _add_hits(flow, body, flow.emit(f"call i64 @body_hits({pointers}, i64 {body.index})"))
    flow.ret("i64", body["hits"])
    return flow.function("block", "i64", f"ptr %q, {_POINTERS}, i64 %limit")


def _scratch(flow: Flow) -> tuple[str, str]:
    """Write the memory for a register full on the stack; return q, and the arguments after it."""
    n = flow.lanes.count
    bodies = field(flow, "bodies")
    sizes = [
        flow.times(field(flow, "inputs"), n),
        flow.times(field(flow, "groups"), 12 * n),
        flow.times(bodies, 3 * n),
        flow.times(field(flow, "spheres"), 3 * n),
        bodies,  # one byte each would do
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
    flow, n = Flow(lanes), lanes.count
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
        flow.return_if(_some(flow, hits), "i32", "0")
    flow.ret("i32", "1")
    return flow.function("edge", "i32", "ptr %a, ptr %b, ptr %h", "")


def lanes_literal(number: int) -> str:
    """Return a small whole number as a float literal."""
    return f"{float(number):e}"


def _unwound(flow: Flow, kind: str, suffix: str, value: str, turn: str) -> str:
    """Return an angle without its whole turns; float32 would lose the rest beside them."""
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
    flow, n = Flow(lanes), lanes.count
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
