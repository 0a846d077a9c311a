# SPDX-License-Identifier: Apache-2.0
"""Signed distances and directions of spheres to the world as LLVM code, one sphere per lane.

``nearest(count, x, checked, out, memory)`` finds the closest leaf for each of ``count`` spheres (a
multiple of the lane count). ``x`` holds x, y, z and radius of the spheres, one array after the
other [m]; ``checked`` (objects, count), int8, tells which objects count for which sphere. ``out``
receives distance [m], direction (unit vector) and object index (as float, -1 for none), one array
after the other. All are float32, in the robot's base frame.

The formulas are those of :mod:`motion_nodes.scene.signed_distance`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from motion_nodes.kernels.collision.collision_memory import (
    ALIGNED_BOX,
    BOX,
    CAPSULE,
    CONE,
    CYLINDER,
    HALF_SPACE,
    LEAF,
    PARAMETERS,
    PLANES,
    SPHERE,
    TRIANGLE,
    array,
    field,
)
from motion_nodes.kernels.control_flow import FunctionBuilder
from motion_nodes.kernels.llvm_text import declarations
from motion_nodes.kernels.simd import Lanes

Found = tuple[str, list[str]]
"""Distance and direction."""


@dataclass(frozen=True)
class _Point:
    """Sphere centres in a leaf's frame, and the leaf's sizes."""

    flow: FunctionBuilder
    x: list[str]
    sizes: list[str]

    @property
    def zero(self) -> str:
        """0 in all lanes."""
        return self.flow.lanes.constant(0.0)

    def unit(self, offset: list[str], fallback: list[str]) -> Found:
        """Return length and direction of an offset; ``fallback`` where the length is 0."""
        flow = self.flow
        length = flow.root(flow.sum_of_squares(*offset))
        apart = flow.emit(f"fcmp ogt {flow.lanes.type} {length}, {flow.lanes.constant(1e-12)}")
        inverse = flow.binary("fdiv", flow.lanes.constant(1.0), length)
        return length, [
            flow.where(apart, flow.binary("fmul", a, inverse), b)
            for a, b in zip(offset, fallback, strict=True)
        ]

    def clamped(self, value: str, low: str, high: str) -> str:
        """Return a value clamped to an interval."""
        return self.flow.smaller(self.flow.greater(value, low), high)

    def signed(self, size: str, sign_of: str) -> str:
        """Return a size with the sign of another value."""
        t = self.flow.lanes.type
        negative = self.flow.emit(f"fcmp olt {t} {sign_of}, {self.zero}")
        return self.flow.where(negative, self.flow.negated(size), size)


def _axis(point: _Point, number: int, count: int = 3) -> list[str]:
    return [point.flow.lanes.constant(float(k == number)) for k in range(count)]


def _ball(point: _Point) -> Found:
    length, direction = point.unit(point.x, _axis(point, 0))
    return point.flow.binary("fsub", length, point.sizes[0]), direction


def _capsule(point: _Point) -> Found:
    flow, half = point.flow, point.sizes[1]
    core = point.clamped(point.x[2], flow.negated(half), half)
    offset = [*point.x[:2], flow.binary("fsub", point.x[2], core)]
    length, direction = point.unit(offset, _axis(point, 0))
    return flow.binary("fsub", length, point.sizes[0]), direction


def _half_space(point: _Point) -> Found:
    return point.x[2], _axis(point, 2)


def _box(point: _Point) -> Found:
    return _boxed(point, point.x, point.sizes)


def _boxed(point: _Point, x: list[str], half: list[str]) -> Found:
    """Return the signed distance to a box of any dimension."""
    flow, t = point.flow, point.flow.lanes.type
    beyond = [flow.binary("fsub", flow.size(a), h) for a, h in zip(x, half, strict=True)]
    most = beyond[0]
    for value in beyond[1:]:
        most = flow.greater(value, most)
    inward, taken = [], ""
    for value in beyond:  # the first of equally close faces
        this = flow.emit(f"fcmp oge {t} {value}, {most}")
        if taken:
            fresh = flow.emit(f"xor <{flow.lanes.count} x i1> {taken}, {_all(flow)}")
            this = flow.emit(f"and <{flow.lanes.count} x i1> {this}, {fresh}")
        taken = flow.emit(f"or <{flow.lanes.count} x i1> {taken}, {this}") if taken else this
        inward.append(flow.where(this, flow.lanes.constant(1.0), point.zero))
    outside = [flow.greater(value, point.zero) for value in beyond]
    length, direction = point.unit(outside, inward)
    apart = flow.emit(f"fcmp ogt {t} {most}, {point.zero}")
    signed = [point.signed(d, a) for d, a in zip(direction, x, strict=True)]
    return flow.where(apart, length, most), signed


def _all(flow: FunctionBuilder) -> str:
    return "<" + ", ".join(["i1 true"] * flow.lanes.count) + ">"


def _turned(point: _Point, solve: Callable[[_Point, str, str], Found]) -> Found:
    """Solve in the half plane of axis distance and height, and rotate the result back."""
    flow = point.flow
    across, radial = point.unit(point.x[:2], _axis(point, 0, 2))
    distance, (outward, up) = solve(point, across, point.x[2])
    return distance, [*(flow.binary("fmul", outward, r) for r in radial), up]


def _cylinder(point: _Point) -> Found:
    return _turned(point, lambda p, across, z: _boxed(p, [across, z], p.sizes[:2]))


def _cone(point: _Point) -> Found:
    return _turned(point, _cone_section)


def _cone_section(point: _Point, across: str, z: str) -> Found:
    flow, t = point.flow, point.flow.lanes.type
    radius, half = point.sizes[:2]
    height = flow.binary("fadd", half, half)
    length, (along, out) = point.unit([radius, height], _axis(point, 0, 2))
    beyond_rim, above_base = flow.binary("fsub", across, radius), flow.binary("fadd", z, half)
    up = flow.binary(
        "fsub", flow.binary("fmul", above_base, out), flow.binary("fmul", beyond_rim, along)
    )
    step = point.clamped(up, point.zero, length)
    slant, slant_way = point.unit(
        [
            flow.binary("fadd", beyond_rim, flow.binary("fmul", step, along)),
            flow.binary("fsub", above_base, flow.binary("fmul", step, out)),
        ],
        [out, along],
    )
    down = [point.zero, flow.lanes.constant(-1.0)]
    base, base_way = point.unit([flow.greater(beyond_rim, point.zero), above_base], down)
    nearer = flow.emit(f"fcmp olt {t} {base}, {slant}")
    outside = flow.where(nearer, base, slant)
    outside_way = [flow.where(nearer, a, b) for a, b in zip(base_way, slant_way, strict=True)]
    over_slant = flow.fused(beyond_rim, out, flow.binary("fmul", above_base, along))
    under_base = flow.negated(above_base)
    least = flow.greater(over_slant, under_base)
    inside = flow.emit(f"fcmp ole {t} {least}, {point.zero}")
    to_base = flow.emit(f"fcmp ogt {t} {under_base}, {over_slant}")
    inside_way = [flow.where(to_base, a, b) for a, b in zip(down, [out, along], strict=True)]
    return flow.where(inside, least, outside), [
        flow.where(inside, a, b) for a, b in zip(inside_way, outside_way, strict=True)
    ]


def _triangle(point: _Point) -> Found:
    """Return the distance to a triangle; it is a surface, so the distance is never negative."""
    flow, t, n = point.flow, point.flow.lanes.type, point.flow.lanes.count
    u, v, w = point.x
    b, c, d = point.sizes
    corners = ((point.zero, point.zero), (b, point.zero), (c, d))
    best, offset, inside = "", ["", ""], ""
    for (au, av), (bu, bv) in zip(corners, (*corners[1:], corners[0]), strict=True):
        eu, ev = flow.binary("fsub", bu, au), flow.binary("fsub", bv, av)
        pu, pv = flow.binary("fsub", u, au), flow.binary("fsub", v, av)
        along = flow.fused(pu, eu, flow.binary("fmul", pv, ev))
        share = flow.binary("fdiv", along, flow.sum_of_squares(eu, ev))
        share = point.clamped(share, point.zero, flow.lanes.constant(1.0))
        du = flow.binary("fsub", pu, flow.binary("fmul", share, eu))
        dv = flow.binary("fsub", pv, flow.binary("fmul", share, ev))
        square = flow.sum_of_squares(du, dv)
        left = flow.binary("fsub", flow.binary("fmul", eu, pv), flow.binary("fmul", ev, pu))
        held = flow.emit(f"fcmp oge {t} {left}, {point.zero}")
        if not best:
            best, offset, inside = square, [du, dv], held
            continue
        nearer = flow.emit(f"fcmp olt {t} {square}, {best}")
        best = flow.where(nearer, square, best)
        offset = [flow.where(nearer, du, offset[0]), flow.where(nearer, dv, offset[1])]
        inside = flow.emit(f"and <{n} x i1> {inside}, {held}")
    beside = [flow.where(inside, point.zero, value) for value in offset]
    return point.unit([*beside, w], _axis(point, 2))


_KINDS: dict[int, Callable[[_Point], Found]] = {
    SPHERE: _ball,
    BOX: _box,
    ALIGNED_BOX: _box,
    CYLINDER: _cylinder,
    CAPSULE: _capsule,
    CONE: _cone,
    HALF_SPACE: _half_space,
    TRIANGLE: _triangle,
}


def nearest_text(lanes: Lanes) -> str:
    """Return the LLVM module with the function ``nearest``."""
    parts = [_kind_function(lanes, kind, solve) for kind, solve in _KINDS.items()]
    return "\n".join([*parts, _planes(lanes), _choice(), _nearest(lanes), *declarations(lanes)])


_ARGUMENTS = "ptr %leaf, ptr %x, ptr %out"


def _kind_function(lanes: Lanes, kind: int, solve: Callable[[_Point], Found]) -> str:
    """Write the function for distance and direction, in the base frame, to a leaf of a kind."""
    flow, n = FunctionBuilder(lanes), lanes.count
    numbers = [flow.splat(flow.get("%leaf", 4 + k)) for k in range(12)]
    at = 4 + PARAMETERS["size"]
    sizes = [flow.splat(flow.get("%leaf", at + k)) for k in range(3)]
    x = [flow.load(flow.at("%x", k * n)) for k in range(3)]
    local = []
    for axis in range(3):
        total = numbers[9 + axis]
        for k in range(3):
            total = flow.fused(numbers[3 * axis + k], x[k], total)
        local.append(total)
    distance, direction = solve(_Point(flow, local, sizes))
    flow.store(distance, "%out")
    for k in range(3):
        total = flow.binary("fmul", numbers[k], direction[0])
        for axis in (1, 2):
            total = flow.fused(numbers[3 * axis + k], direction[axis], total)
        flow.store(total, flow.at("%out", (1 + k) * n))
    flow.ret("i64", "0")
    return flow.function(f"way_{kind}", "i64", _ARGUMENTS)


def _planes(lanes: Lanes) -> str:
    """Write the depth below the closest plane; infinite outside, where the triangles are used."""
    flow, n = FunctionBuilder(lanes), lanes.count
    size = 4 + PARAMETERS["size"]
    first = flow.emit(f"sext i32 {flow.get('%leaf', size, 'i32')} to i64")
    faces = flow.emit(f"sext i32 {flow.get('%leaf', size + 1, 'i32')} to i64")
    planes = flow.at("%planes", flow.times(first, 4))
    x = [flow.load(flow.at("%x", k * n)) for k in range(3)]
    t, zero = lanes.type, lanes.constant(0.0)
    start = {"most": (t, lanes.constant(-1e30)), **{f"n{k}": (t, zero) for k in range(3)}}
    with flow.loop(faces, **start) as face:
        plane = flow.at(planes, flow.times(face.index, 4))
        normal = [flow.splat(flow.get(plane, k)) for k in range(3)]
        beyond = flow.negated(flow.splat(flow.get(plane, 3)))
        for k in range(3):
            beyond = flow.fused(normal[k], x[k], beyond)
        nearer = flow.emit(f"fcmp ogt {t} {beyond}, {face['most']}")
        face["most"] = flow.where(nearer, beyond, face["most"])
        for k in range(3):
            face[f"n{k}"] = flow.where(nearer, normal[k], face[f"n{k}"])
    outside = flow.emit(f"fcmp oge {t} {face['most']}, {zero}")
    flow.store(flow.where(outside, lanes.constant(float("inf")), face["most"]), "%out")
    for k in range(3):
        flow.store(face[f"n{k}"], flow.at("%out", (1 + k) * n))
    flow.ret("i64", "0")
    return flow.function(f"way_{PLANES}", "i64", f"{_ARGUMENTS}, ptr %planes")


def _choice() -> str:
    kinds = (*_KINDS, PLANES)
    cases = "\n".join(f"    i32 {kind}, label %case_{kind}" for kind in kinds)
    bodies = []
    for kind in kinds:
        extra = ", ptr %planes" if kind == PLANES else ""
        bodies.append(f"case_{kind}:\n  %done{kind} = call i64 @way_{kind}({_ARGUMENTS}{extra})")
        bodies.append(f"  ret i64 %done{kind}")
    lines = "\n".join(bodies)
    return f"""define internal i64 @way_out({_ARGUMENTS}, ptr %planes) nounwind {{
  %kind = load i32, ptr %leaf
  switch i32 %kind, label %none [
{cases}
  ]
none:
  ret i64 0
{lines}
}}
"""


def _nearest(lanes: Lanes) -> str:
    flow, n, t = FunctionBuilder(lanes), lanes.count, lanes.type
    leaves, planes = array(flow, "leaves"), array(flow, "planes")
    way = flow.emit(f"alloca float, i64 {4 * n}, align 64")
    place = flow.emit(f"alloca float, i64 {3 * n}, align 64")
    with flow.loop(flow.emit(f"udiv i64 %count, {n}")) as block:
        start = flow.times(block.index, n)
        for k in range(3):
            x = flow.load(flow.at("%x", flow.plus(flow.times("%count", k), start)))
            flow.store(x, flow.at(place, k * n))
        radius = flow.load(flow.at("%x", flow.plus(flow.times("%count", 3), start)))
        names = ("dx", "dy", "dz")
        carried = {
            "best": (t, lanes.constant(float("inf"))),
            "object": (t, lanes.constant(-1.0)),
            **{name: (t, lanes.constant(0.0)) for name in names},
        }
        with flow.loop(field(flow, "leaf_count"), **carried) as turn:
            leaf = flow.at(leaves, flow.times(turn.index, LEAF))
            number = flow.get(leaf, 1, "i32")
            wide = flow.emit(f"sext i32 {number} to i64")
            flow.emit(f"call i64 @way_out(ptr {leaf}, ptr {place}, ptr {way}, ptr {planes})")
            row = flow.at("%checked", flow.plus(flow.times(wide, "%count"), start), "i8")
            flags = flow.emit(f"load <{n} x i8>, ptr {row}, align 1")
            counts = flow.emit(f"icmp ne <{n} x i8> {flags}, zeroinitializer")
            distance = flow.binary("fsub", flow.load(way), radius)
            nearer = flow.emit(f"fcmp olt {t} {distance}, {turn['best']}")
            nearer = flow.emit(f"and <{n} x i1> {nearer}, {counts}")
            turn["best"] = flow.where(nearer, distance, turn["best"])
            name = flow.splat(flow.emit(f"sitofp i32 {number} to float"))
            turn["object"] = flow.where(nearer, name, turn["object"])
            for k, axis in enumerate(names):
                value = flow.load(flow.at(way, (1 + k) * n))
                turn[axis] = flow.where(nearer, value, turn[axis])
        for k, result in enumerate(("best", *names, "object")):
            flow.store(turn[result], flow.at("%out", flow.plus(flow.times("%count", k), start)))
    flow.lines.append("  ret void")
    arguments = "i64 %count, ptr %x, ptr %checked, ptr %out, ptr %h"
    return flow.function("nearest", "void", arguments, "")
