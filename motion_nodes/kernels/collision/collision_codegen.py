# SPDX-License-Identifier: Apache-2.0
"""Collision checks as LLVM code: one SIMD register of configurations at a time.

One configuration per lane; on an edge the lanes are spread over its whole length, so that an
obstacle in the middle is found early. For each register:

1. the robot's own code computes the poses of its groups
   (:mod:`~motion_nodes.kernels.collision.group_frames`), and from them each body's bounding sphere;
2. bounding spheres of body pairs are tested, then, if any lane is in collision, the spheres
   themselves;
3. for each body, the box around its bounding spheres in all lanes is tested against the boxes of
   the world's leaves, a register at a time, in two levels; then the bounding spheres against the
   remaining leaves, lane by lane; then the spheres themselves.

Spheres are placed only when needed, which is rare. This code is the same for every robot; the robot
is read from memory (``collision_memory``).
"""

from __future__ import annotations

from collections.abc import Sequence

from motion_nodes.kernels.collision.collision_memory import LEAF, PLANES, array, field
from motion_nodes.kernels.collision.collision_shapes import centre, collision_tests
from motion_nodes.kernels.collision.entry_points import entry_functions
from motion_nodes.kernels.collision.shape_kinds import KINDS
from motion_nodes.kernels.control_flow import FunctionBuilder, Turn
from motion_nodes.kernels.llvm_text import declarations
from motion_nodes.kernels.simd import Lanes

_SCRATCH = ("poses", "bounds", "spheres", "placed")
_FAR_APART = 4.0  # In radii of a body; the lanes of an edge are closer to each other than this.
_LARGE_WORLD = 64  # In leaves.
_POINTERS = ", ".join(["ptr %h", *(f"ptr %{name}" for name in _SCRATCH)])


def checks_text(lanes: Lanes) -> str:
    """Return the LLVM module.

    ``edge(a, b, memory)`` and ``state(q, memory)`` return 1 if collision-free; ``many(Q, m, free,
    memory)`` writes 1 or 0 (int8) for each of m configurations. All inputs are float64.
    """
    n = lanes.count
    reductions = [
        f"declare float @llvm.vector.reduce.{name}.v{n}f32({lanes.type})"
        for name in ("fmin", "fmax")
    ]
    wide = [f"declare <{n} x double> @llvm.{f}.v{n}f64(<{n} x double>)" for f in ("rint", "fabs")]
    scalar = [f"declare double @llvm.{f}.f64(double)" for f in ("rint", "fabs", "sqrt", "ceil")]
    parts = [
        collision_tests(lanes, KINDS),
        _set_off(lanes),
        _ensure_placed(lanes),
        _self_hits(lanes),
        _body_hits(lanes),
        _block(lanes),
        entry_functions(lanes),
        "declare i64 @llvm.cttz.i64(i64, i1)",
        *reductions,
        *wide,
        *scalar,
    ]
    return "\n".join([*parts, *declarations(lanes)])


def _index(flow: FunctionBuilder, base: str, at: str | int) -> str:
    """Return an element of an int32 array as i64."""
    return flow.emit(f"sext i32 {flow.get(base, at, 'i32')} to i64")


def _set_off(lanes: Lanes) -> str:
    """Write the function that transforms points of a group: ``R c + p`` for each."""
    flow, n = FunctionBuilder(lanes), lanes.count
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
    """Write the function that places a body's spheres unless already done."""
    flow, n = FunctionBuilder(lanes), lanes.count
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


def _pose_of(flow: FunctionBuilder, body: str) -> str:
    group = _index(flow, array(flow, "body_groups"), body)
    return flow.at("%poses", flow.times(group, 12 * flow.lanes.count))


def _place(flow: FunctionBuilder, body: str) -> tuple[str, str]:
    """Place a body's spheres; return the index of the first one and their count."""
    pointers = ", ".join(["ptr %h", *(f"ptr %{name}" for name in _SCRATCH)])
    flow.emit(f"call i64 @ensure_placed({pointers}, i64 {body})")
    firsts = array(flow, "body_firsts")
    first = _index(flow, firsts, body)
    return first, flow.emit(f"sub i64 {_index(flow, firsts, flow.plus(body, 1))}, {first}")


def _touching(flow: FunctionBuilder, a: Sequence[str], b: Sequence[str], ra: str, rb: str) -> str:
    """Return the lanes in which two spheres overlap."""
    square = flow.sum_of_squares(*(flow.binary("fsub", x, y) for x, y in zip(a, b, strict=True)))
    reach = flow.emit(f"fadd float {ra}, {rb}")
    return flow.compare("ult", square, flow.splat(flow.emit(f"fmul float {reach}, {reach}")))


def _some(flow: FunctionBuilder, mask: str) -> str:
    return flow.emit(f"icmp ne i64 {mask}, 0")


def _add_hits(flow: FunctionBuilder, turn: Turn, mask: str) -> None:
    """Add lanes to the colliding ones; return early once the limit is reached."""
    turn["hits"] = flow.emit(f"or i64 {turn['hits']}, {mask}")
    flow.return_if(flow.emit(f"icmp uge i64 {turn['hits']}, %limit"), "i64", turn["hits"])


def _self_hits(lanes: Lanes) -> str:
    flow = FunctionBuilder(lanes)
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


def _pair_hits(flow: FunctionBuilder, a: str, b: str, bound: str, turn: Turn) -> None:
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
    """Write the test of one body against the world.

    If the lanes are far from each other, the box around all of them covers most of a large world;
    each lane is then queried separately.
    """
    flow, n = FunctionBuilder(lanes), lanes.count
    bound = flow.at("%bounds", flow.times("%body", 3 * n))
    radius = flow.get(array(flow, "body_radii"), "%body")
    ends, widest = [], "0.0"
    for axis in range(3):
        x = flow.load(flow.at(bound, axis * n))
        # NaN cannot occur here, so the shorter code without NaN handling is used.
        least, greatest = (
            flow.emit(f"call nnan float @llvm.vector.reduce.{name}.v{n}f32({lanes.type} {x})")
            for name in ("fmin", "fmax")
        )
        ends.append((least, greatest))
        extent = flow.emit(f"fsub float {greatest}, {least}")
        wider = flow.emit(f"fcmp ogt float {extent}, {widest}")
        widest = flow.emit(f"select i1 {wider}, float {extent}, float {widest}")
    limit = flow.emit(f"fmul float {radius}, {_FAR_APART:e}")
    far = flow.emit(f"fcmp ogt float {widest}, {limit}")
    large = flow.emit(f"icmp sgt i64 {field(flow, 'leaf_count')}, {_LARGE_WORLD}")
    alone = flow.emit(f"and i1 {far}, {large}")
    with flow.loop(flow.emit(f"select i1 {alone}, i64 {n}, i64 1"), hits=("i64", "0")) as turn:
        low: list[str] = []
        high: list[str] = []
        for axis, (least, greatest) in enumerate(ends):
            x = flow.get(bound, flow.plus(turn.index, axis * n))
            for end, operation, side in ((least, "fsub", low), (greatest, "fadd", high)):
                middle = flow.emit(f"select i1 {alone}, float {x}, float {end}")
                side.append(flow.splat(flow.emit(f"{operation} float {middle}, {radius}")))
        # A lane known to be in collision needs no query.
        shifted = flow.emit(f"lshr i64 {turn['hits']}, {turn.index}")
        bit = flow.emit(f"and i64 {shifted}, 1")
        known = flow.emit(f"and i1 {alone}, {flow.emit(f'icmp ne i64 {bit}, 0')}")
        unknown = flow.emit(f"xor i1 {known}, true")
        with flow.when(unknown, hits=("i64", turn["hits"])) as test:
            test["hits"] = _look_up(flow, bound, low, high, test["hits"])
        turn["hits"] = test["hits"]
    flow.ret("i64", turn["hits"])
    return flow.function("body_hits", "i64", f"{_POINTERS}, i64 %limit, i64 %body")


def _look_up(flow: FunctionBuilder, bound: str, low: list[str], high: list[str], hits: str) -> str:
    """Test all leaves whose boxes overlap a box; return the lanes in collision."""
    n = flow.lanes.count
    branch_boxes, block_boxes = array(flow, "branch_boxes"), array(flow, "block_boxes")
    with flow.loop(field(flow, "branches"), hits=("i64", hits)) as branch:
        blocks = _overlapping(flow, branch_boxes, branch.index, low, high)
        with flow.bits(blocks, hits=("i64", branch["hits"])) as block:
            number = flow.plus(flow.times(branch.index, n), block.index)
            leaves = _overlapping(flow, block_boxes, number, low, high)
            with flow.bits(leaves, hits=("i64", block["hits"])) as leaf:
                place = flow.plus(flow.times(number, n), leaf.index)
                row = flow.at(array(flow, "leaves"), flow.times(place, LEAF))
                _test_leaf(flow, leaf, bound, row)
            block["hits"] = leaf["hits"]
        branch["hits"] = block["hits"]
    return branch["hits"]


def _overlapping(
    flow: FunctionBuilder, boxes: str, index: str, low: list[str], high: list[str]
) -> str:
    """Return which boxes of a register overlap a box, as bits."""
    n, t = flow.lanes.count, flow.lanes.type
    box = flow.at(boxes, flow.times(index, 6 * n))
    held = ""
    for axis in range(3):
        least, greatest = (flow.load(flow.at(box, (axis + 3 * k) * n)) for k in range(2))
        for test in (f"ole {t} {least}, {high[axis]}", f"oge {t} {greatest}, {low[axis]}"):
            this = flow.emit(f"fcmp {test}")
            held = flow.emit(f"and <{n} x i1> {held}, {this}") if held else this
    return flow.mask(held)


def _test_leaf(flow: FunctionBuilder, turn: Turn, bound: str, leaf: str) -> None:
    """Test a leaf against the body's bounding sphere, then against its spheres."""
    planes = array(flow, "planes")
    row = flow.times(_index(flow, leaf, 1), field(flow, "bodies"))
    checked = flow.get(array(flow, "checked"), flow.plus(row, "%body"), "i8")
    with flow.when(flow.emit(f"icmp ne i8 {checked}, 0"), hits=("i64", turn["hits"])) as test:
        radii = flow.at(array(flow, "body_radii"), "%body")
        # The test of planes ignores radii, so a bounding sphere cannot exclude them.
        kind = flow.get(leaf, 0, "i32")
        always = flow.emit(f"icmp eq i32 {kind}, {PLANES}")
        around = flow.emit(
            f"call i64 @hits(ptr {leaf}, ptr {bound}, ptr {radii}, i64 1, i64 1, ptr {planes})"
        )
        near = flow.emit(f"or i1 {always}, {_some(flow, around)}")
        with flow.when(near, hits=("i64", test["hits"])) as close:
            first, count = _place(flow, "%body")
            spheres = flow.at("%spheres", flow.times(first, 3 * flow.lanes.count))
            own = flow.at(array(flow, "sphere_radii"), first)
            touching = flow.emit(
                f"call i64 @hits(ptr {leaf}, ptr {spheres}, ptr {own}, i64 {count}, "
                f"i64 %limit, ptr {planes})"
            )
            _add_hits(flow, close, touching)
        test["hits"] = close["hits"]
    turn["hits"] = test["hits"]


def _block(lanes: Lanes) -> str:
    """Write the test of one register of configurations; it returns the lanes in collision."""
    flow, n = FunctionBuilder(lanes), lanes.count
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
