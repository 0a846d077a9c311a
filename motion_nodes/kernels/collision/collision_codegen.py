# SPDX-License-Identifier: Apache-2.0
"""Collision checks as LLVM code: one SIMD register of configurations at a time.

One configuration per lane; on an edge the lanes are spread over its whole length, so that an
obstacle in the middle is found early. For each register:

1. the robot's own code computes the poses of its groups
   (:mod:`~motion_nodes.kernels.collision.collision_binding`), and from them each body's bounding
   sphere;
2. bounding spheres of body pairs are tested, then, if they overlap in any lane, the spheres
   themselves;
3. for each body, the box around its bounding spheres in all lanes is tested against the boxes of
   the world's leaves, a register at a time, in two levels; then its bounding sphere in each lane
   against the remaining leaves; then its spheres.

Spheres are placed only when needed, which is rare. This code is the same for all robots; it reads
the robot from memory (``collision_memory``).

Entry points check an edge, a state, or many states. Configurations are float64 [rad or m]. Full
turns are removed before the conversion to float32, to keep precision.

Signed distances and directions of spheres to the world are computed with one sphere per lane:
``nearest(count, x, checked, out, memory)`` finds the closest leaf for each of ``count`` spheres (a
multiple of the lane count). ``x`` holds x, y, z and radius of the spheres [m], shape (4, count);
``checked``, int8, shape (objects, count), selects the objects of each sphere. ``out`` receives
distance [m], direction (unit vector) and object index (as float, -1 for none), shape (5, count).
``x`` and ``out`` are float32, in the robot's base frame.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence

from motion_nodes.kernels.collision.collision_memory import (
    KINDS,
    LEAF,
    LONGEST_EDGE,
    PLANES,
    WRAP_LIMIT,
    table_of,
)
from motion_nodes.kernels.collision.collision_shapes import (
    centre,
    collision_tests,
    distance_functions,
)
from motion_nodes.kernels.llvm_builder import FunctionBuilder, IrValue, Pointer, Turn, Writer
from motion_nodes.kernels.llvm_text import declarations
from motion_nodes.kernels.memory_layout import Fields
from motion_nodes.kernels.simd import Lanes

_SCRATCH = ("poses", "bounds", "spheres", "placed")
_FAR_APART = 4.0  # In radii of a body; the lanes of an edge are usually closer together.
_LARGE_WORLD = 64  # In leaves.


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


def checks_text(lanes: Lanes) -> str:
    """Return the LLVM module with the functions ``edge``, ``state`` and ``many``.

    ``edge(a, b, memory)`` and ``state(q, memory)`` return 1 if collision-free, else 0; ``many(Q, m,
    free, memory)`` writes 1 or 0 (int8) for each of m configurations. Configurations are float64
    [rad or m].
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
        set_off_function(lanes),
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


class _Arguments:
    """The table, and the scratch memory of one SIMD register, as arguments of a function."""

    def __init__(self, lanes: Lanes, *first: str, **arguments: str) -> None:
        scratch = dict.fromkeys(("h", *_SCRATCH), "ptr")
        every = {**dict.fromkeys(first, "ptr"), **scratch, **arguments}
        flow = self.flow = FunctionBuilder(lanes, **every)
        self.table = table_of(flow)
        self.poses, self.bounds, self.spheres = (flow.pointer(x, "float") for x in _SCRATCH[:3])
        self.placed = flow.pointer("placed", "i8")
        self.pointers = [flow.argument(name) for name in scratch]

    def pose(self, body: IrValue) -> Pointer:
        """Return the address of the pose of a body's group."""
        group = self.table.pointer("body_groups", "i32").load(body).to("i64")
        return self.poses.at(group * (12 * self.flow.lanes.count))

    def run(self, body: IrValue) -> tuple[IrValue, IrValue]:
        """Return the index of a body's first sphere, and the number of its spheres."""
        firsts = self.table.pointer("body_firsts", "i32").at(body)
        first = firsts.load().to("i64")
        return first, firsts.load(1).to("i64") - first

    def place(self, body: IrValue) -> tuple[IrValue, IrValue]:
        """Place a body's spheres; return the index of the first one and their number."""
        self.flow.call("i64", "ensure_placed", *self.pointers, body)
        return self.run(body)

    def centre(self, spheres: Pointer, index: IrValue) -> list[IrValue]:
        """Return x, y, z of a sphere in lanes."""
        return centre(spheres, index, self.flow.lanes.count)

    def add_hits(self, turn: Turn, mask: IrValue) -> None:
        """Add lanes to the colliding ones; return early once the limit is reached."""
        turn["hits"] = turn["hits"] | mask
        self.flow.return_if(turn["hits"] >= self.flow.argument("limit"), turn["hits"])


def set_off_function(lanes: Lanes) -> str:
    """Write ``set_off(pose, points, out, count)``: points of a group in the base frame [m]."""
    arguments = {"pose": "ptr", "points": "ptr", "out": "ptr", "count": "i64"}
    flow, n = FunctionBuilder(lanes, **arguments), lanes.count
    pose = [flow.pointer("pose", "float").load(k * n, n) for k in range(12)]
    with flow.loop(flow.argument("count")) as turn:
        point = flow.pointer("points", "float").at(turn.index * 3)
        numbers = [point.load(k).splat(n) for k in range(3)]
        out = flow.pointer("out", "float").at(turn.index * (3 * n))
        for axis in range(3):
            total = pose[9 + axis]
            for k in range(3):
                total = pose[3 * axis + k].fused(numbers[k], total)
            out.store(total, axis * n)
    return flow.function("set_off")


def _ensure_placed(lanes: Lanes) -> str:
    """Write the function that places a body's spheres, unless they are placed already."""
    given, n = _Arguments(lanes, body="i64"), lanes.count
    flow = given.flow
    body = flow.argument("body")
    flow.return_if(given.placed.load(body).differs(0), flow.whole(0))
    given.placed.store(1, body)
    first, count = given.run(body)
    points = given.table.pointer("sphere_centres", "float").at(first * 3)
    out = given.spheres.at(first * (3 * n))
    flow.call("void", "set_off", given.pose(body), points, out, count)
    flow.ret(flow.whole(0))
    return flow.function("ensure_placed")


def _touching(a: Sequence[IrValue], b: Sequence[IrValue], ra: IrValue, rb: IrValue) -> IrValue:
    """Return the lanes in which two spheres overlap, as bits."""
    x, y, z = (p - q for p, q in zip(a, b, strict=True))
    reach = ra + rb
    square = z.fused(z, y.fused(y, x * x))
    return square.below((reach * reach).splat(x.lane_count)).bits()


def _self_hits(lanes: Lanes) -> str:
    given = _Arguments(lanes, limit="i64")
    flow = given.flow
    pairs = given.table.pointer("pair_bodies", "i32")
    radii = given.table.pointer("body_self_radii", "float")
    with flow.loop(given.table.whole("pairs"), hits=flow.whole(0)) as turn:
        pair = pairs.at(turn.index * 2)
        a, b = (pair.load(k).to("i64") for k in range(2))
        x, y = (given.centre(given.bounds, body) for body in (a, b))
        rb = radii.load(b)
        near = _touching(x, y, radii.load(a), rb)
        with flow.when(near.differs(0), hits=turn["hits"]) as close:
            _pair_hits(given, a, b, rb, close)
        turn["hits"] = close["hits"]
    flow.ret(turn["hits"])
    return flow.function("self_hits")


def _pair_hits(given: _Arguments, a: IrValue, b: IrValue, bound: IrValue, turn: Turn) -> None:
    """Test the spheres of two bodies against each other."""
    flow = given.flow
    (first_a, count_a), (first_b, count_b) = given.place(a), given.place(b)
    radii = given.table.pointer("sphere_self_radii", "float")
    whole = given.centre(given.bounds, b)
    with flow.loop(count_a, hits=turn["hits"]) as one:
        index = first_a + one.index
        x, r = given.centre(given.spheres, index), radii.load(index)
        near = _touching(x, whole, r, bound)
        with flow.when(near.differs(0), hits=one["hits"]) as close:
            with flow.loop(count_b, hits=close["hits"]) as other:
                second = first_b + other.index
                y, s = given.centre(given.spheres, second), radii.load(second)
                given.add_hits(other, _touching(x, y, r, s))
            close["hits"] = other["hits"]
        one["hits"] = close["hits"]
    turn["hits"] = one["hits"]


def _body_hits(lanes: Lanes) -> str:
    """Write the test of one body against the world.

    If the lanes are far apart, the box around all of them covers most of a large world; each lane
    is then queried separately.
    """
    given, n = _Arguments(lanes, limit="i64", body="i64"), lanes.count
    flow = given.flow
    body = flow.argument("body")
    bound = given.bounds.at(body * (3 * n))
    radius = given.table.pointer("body_radii", "float").load(body)
    # NaN cannot occur here.
    ends = [(x.smallest(), x.largest()) for x in (bound.load(axis * n, n) for axis in range(3))]
    widest = IrValue(flow, "float", "0.0")
    for lowest, highest in ends:
        widest = (highest - lowest).larger(widest)
    far = widest > radius * _FAR_APART
    alone = far & (given.table.whole("leaf_count") > _LARGE_WORLD)
    with flow.loop(alone.choose(n, flow.whole(1)), hits=flow.whole(0)) as turn:
        low: list[IrValue] = []
        high: list[IrValue] = []
        for axis, (lowest, highest) in enumerate(ends):
            x = bound.load(turn.index + axis * n)
            low.append((alone.choose(x, lowest) - radius).splat(n))
            high.append((alone.choose(x, highest) + radius).splat(n))
        # Skip lanes that are known to be in collision.
        known = alone & ((turn["hits"] >> turn.index) & 1).differs(0)
        with flow.when(~known, hits=turn["hits"]) as test:
            test["hits"] = _look_up(given, bound, low, high, test["hits"])
        turn["hits"] = test["hits"]
    flow.ret(turn["hits"])
    return flow.function("body_hits")


def _look_up(
    given: _Arguments, bound: Pointer, low: list[IrValue], high: list[IrValue], hits: IrValue
) -> IrValue:
    """Test all leaves whose boxes overlap a box; return the lanes in collision."""
    flow = given.flow
    n, table = flow.lanes.count, given.table
    branch_boxes, block_boxes = (table.pointer(f"{x}_boxes", "float") for x in ("branch", "block"))
    with flow.loop(table.whole("branches"), hits=hits) as branch:
        blocks = _overlapping(branch_boxes, branch.index, low, high)
        with flow.bits(blocks, hits=branch["hits"]) as block:
            number = branch.index * n + block.index
            leaves = _overlapping(block_boxes, number, low, high)
            with flow.bits(leaves, hits=block["hits"]) as leaf:
                place = (number * n + leaf.index) * LEAF
                _test_leaf(given, leaf, bound, table.pointer("leaves", "float").at(place))
            block["hits"] = leaf["hits"]
        branch["hits"] = block["hits"]
    return branch["hits"]


def _overlapping(
    boxes: Pointer, index: IrValue, low: list[IrValue], high: list[IrValue]
) -> IrValue:
    """Return which boxes of a register overlap a box, as bits."""
    n = low[0].lane_count
    box = boxes.at(index * (6 * n))
    tests = [box.load(axis * n, n) <= high[axis] for axis in range(3)]
    tests += [box.load((axis + 3) * n, n) >= low[axis] for axis in range(3)]
    return functools.reduce(operator.and_, tests).bits()


def _test_leaf(given: _Arguments, turn: Turn, bound: Pointer, leaf: Pointer) -> None:
    """Test a leaf against the body's bounding sphere, then against its spheres."""
    flow = given.flow
    table, body, planes = given.table, flow.argument("body"), given.table.pointer("planes")
    kind, item = (leaf.of("i32").load(k) for k in range(2))
    row = item.to("i64") * table.whole("bodies")
    checked = table.pointer("checked", "i8").load(row + body)
    with flow.when(checked.differs(0), hits=turn["hits"]) as test:
        radii = table.pointer("body_radii", "float").at(body)
        around = flow.call("i64", "hits", leaf, bound, radii, 1, 1, planes)
        # The test of planes ignores radii, so it is not conservative for a bounding sphere.
        near = kind.equals(PLANES) | around.differs(0)
        with flow.when(near, hits=test["hits"]) as close:
            first, count = given.place(body)
            spheres = given.spheres.at(first * (3 * flow.lanes.count))
            own = table.pointer("sphere_radii", "float").at(first)
            limit = flow.argument("limit")
            touching = flow.call("i64", "hits", leaf, spheres, own, count, limit, planes)
            given.add_hits(close, touching)
        test["hits"] = close["hits"]
    turn["hits"] = test["hits"]


def _block(lanes: Lanes) -> str:
    """Write the test of one register of configurations; it returns the lanes in collision."""
    given, n = _Arguments(lanes, "q", limit="i64"), lanes.count
    flow = given.flow
    table, limit = given.table, flow.argument("limit")
    flow.call("void", table.pointer("place"), flow.argument("q"), given.poses)
    bodies, centres = table.whole("bodies"), table.pointer("body_centres", "float")
    with flow.loop(bodies) as body:
        given.placed.store(0, body.index)
        point, out = centres.at(body.index * 3), given.bounds.at(body.index * (3 * n))
        flow.call("void", "set_off", given.pose(body.index), point, out, 1)
    itself = flow.call("i64", "self_hits", *given.pointers, limit)
    flow.return_if(itself >= limit, itself)
    with flow.loop(bodies, hits=itself) as body:
        given.add_hits(body, flow.call("i64", "body_hits", *given.pointers, limit, body.index))
    flow.ret(body["hits"])
    return flow.function("block")


def nearest_text(lanes: Lanes) -> str:
    """Return the LLVM module with the function ``nearest``."""
    return "\n".join([distance_functions(lanes, KINDS), _nearest(lanes), *declarations(lanes)])


def _nearest(lanes: Lanes) -> str:
    arguments = {"count": "i64", "x": "ptr", "checked": "ptr", "out": "ptr", "h": "ptr"}
    flow, n = FunctionBuilder(lanes, **arguments), lanes.count
    count, table = flow.argument("count"), table_of(flow)
    given, out = (flow.pointer(name, "float") for name in ("x", "out"))
    leaves, planes = table.pointer("leaves", "float"), table.pointer("planes", "float")
    found = flow.allocated(4 * n, "float", align=64)
    point = flow.allocated(3 * n, "float", align=64)
    with flow.loop(count // n) as block:
        start = block.index * n
        *x, radius = (given.load(count * k + start, n) for k in range(4))
        for k in range(3):
            point.store(x[k], k * n)
        best, far = flow.constant(math.inf), flow.constant(0.0)
        names = {"best": best, "dx": far, "dy": far, "dz": far, "object": flow.constant(-1.0)}
        with flow.loop(table.whole("leaf_count"), **names) as turn:
            leaf = leaves.at(turn.index * LEAF)
            number = leaf.of("i32").load(1)
            flow.call("i64", "distance", leaf, point, found, planes)
            row = number.to("i64") * count + start
            counts = flow.pointer("checked", "i8").at(row).load(lanes=n).differs(0)
            distance = found.load(lanes=n) - radius
            nearer = (distance < turn["best"]) & counts
            direction = (found.load((1 + k) * n, n) for k in range(3))
            values = (distance, *direction, number.to("float").splat(n))
            for name, value in zip(names, values, strict=True):
                turn[name] = nearer.choose(value, turn[name])
        for k, name in enumerate(names):
            out.store(turn[name], count * k + start)
    return flow.function("nearest", linkage="")
