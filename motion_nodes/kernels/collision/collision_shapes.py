# SPDX-License-Identifier: Apache-2.0
"""Collision tests of spheres against one leaf of the world as LLVM code, one function per kind.

``leaf_<kind>(leaf, centres, radii, count, limit)`` tests ``count`` spheres, whose centres are
stored as x, y, z in lanes, and returns the lanes in which any sphere collides with the leaf, as
bits of an i64. It returns early once these bits are ``limit`` or more. NaN counts as a collision.

Each kind provides the squared distance from the leaf's *core* to the sphere's centre; the leaf is
all points within ``rounding`` of its core. Formulas: closest points as in Ericson, Real-Time
Collision Detection (2005), chapter 5.
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
    PARAMETERS,
    PLANES,
    SPHERE,
    TRIANGLE,
)
from motion_nodes.kernels.control_flow import FunctionBuilder
from motion_nodes.kernels.simd import Lanes

KINDS = {
    SPHERE: "sphere",
    BOX: "box",
    ALIGNED_BOX: "aligned_box",
    CYLINDER: "cylinder",
    CAPSULE: "capsule",
    CONE: "cone",
    HALF_SPACE: "half_space",
    TRIANGLE: "triangle",
    PLANES: "planes",
}


@dataclass(frozen=True)
class _Leaf:
    """Values of a leaf that are loaded before the loop over spheres."""

    flow: FunctionBuilder
    numbers: list[str]
    """R (9) and t (3) broadcast to all lanes, as far as the kind needs them."""
    scalars: list[str]
    """Sizes as scalars [m]."""
    sizes: list[str]
    """Sizes broadcast to all lanes [m]."""

    def local(self, axis: int, x: list[str]) -> str:
        """Return a coordinate of a point in the leaf's frame."""
        total = self.numbers[9 + axis]
        for k in range(3):
            total = self.flow.fused(self.numbers[3 * axis + k], x[k], total)
        return total

    def shifted(self, axis: int, x: list[str]) -> str:
        """Return the coordinate for a leaf without rotation."""
        return self.flow.binary("fadd", x[axis], self.numbers[9 + axis])


SquareDistance = Callable[[_Leaf, list[str]], str]


def shape_functions(lanes: Lanes) -> str:
    """Return the functions of all kinds except planes and half spaces (no distance function)."""
    squares: dict[int, tuple[SquareDistance, bool, bool]] = {
        # squared distance, whether rotated, whether rounded by its first size
        SPHERE: (_point, False, True),
        BOX: (_box, True, False),
        ALIGNED_BOX: (_aligned_box, False, False),
        CYLINDER: (_cylinder, True, False),
        CAPSULE: (_capsule, True, True),
        CONE: (_cone, True, False),
        TRIANGLE: (_triangle, True, False),
    }
    parts = [_function(lanes, kind, *how) for kind, how in squares.items()]
    return "\n".join([*parts, _half_space(lanes), _planes(lanes)])


_ARGUMENTS = "ptr %leaf, ptr %centres, ptr %radii, i64 %count, i64 %limit"


def _leaf(flow: FunctionBuilder, turned: bool) -> _Leaf:
    first = 4
    needed = range(12) if turned else range(9, 12)
    numbers = [flow.splat(flow.get("%leaf", first + k)) if k in needed else "" for k in range(12)]
    scalars = [flow.get("%leaf", first + PARAMETERS["size"] + k) for k in range(3)]
    return _Leaf(flow, numbers, scalars, [flow.splat(s) for s in scalars])


def _function(lanes: Lanes, kind: int, square: SquareDistance, turned: bool, rounded: bool) -> str:
    flow = FunctionBuilder(lanes)
    leaf = _leaf(flow, turned)
    with flow.loop("%count", hits=("i64", "0")) as turn:
        radius = flow.get("%radii", turn.index)
        if rounded:
            radius = flow.emit(f"fadd float {radius}, {leaf.scalars[0]}")
        reach = flow.splat(flow.emit(f"fmul float {radius}, {radius}"))
        touching = flow.compare("ult", square(leaf, centre(flow, "%centres", turn.index)), reach)
        _collect(flow, turn, touching)
    flow.ret("i64", turn["hits"])
    return flow.function(f"leaf_{KINDS[kind]}", "i64", _ARGUMENTS)


def _collect(flow: FunctionBuilder, turn: object, touching: str) -> None:
    turn["hits"] = flow.emit(f"or i64 {turn['hits']}, {touching}")  # type: ignore[index]
    enough = flow.emit(f"icmp uge i64 {turn['hits']}, %limit")  # type: ignore[index]
    flow.leave_if(turn, enough)  # type: ignore[arg-type]


def centre(flow: FunctionBuilder, centres: str, index: str) -> list[str]:
    """Return x, y, z of a sphere in lanes."""
    n = flow.lanes.count
    base = flow.at(centres, flow.times(index, 3 * n))
    return [flow.load(flow.at(base, k * n)) for k in range(3)]


def _beyond(flow: FunctionBuilder, value: str, half: str) -> str:
    """Return the distance of a value from the interval [-half, half], at least 0."""
    zero = flow.lanes.constant(0.0)
    return flow.greater(flow.binary("fsub", flow.size(value), half), zero)


def _between(flow: FunctionBuilder, value: str, low: str, high: str) -> str:
    return flow.smaller(flow.greater(value, low), high)


def _point(leaf: _Leaf, x: list[str]) -> str:
    return leaf.flow.sum_of_squares(*(leaf.shifted(k, x) for k in range(3)))


def _box(leaf: _Leaf, x: list[str]) -> str:
    parts = (_beyond(leaf.flow, leaf.local(k, x), leaf.sizes[k]) for k in range(3))
    return leaf.flow.sum_of_squares(*parts)


def _aligned_box(leaf: _Leaf, x: list[str]) -> str:
    parts = (_beyond(leaf.flow, leaf.shifted(k, x), leaf.sizes[k]) for k in range(3))
    return leaf.flow.sum_of_squares(*parts)


def _capsule(leaf: _Leaf, x: list[str]) -> str:
    a, b = leaf.local(0, x), leaf.local(1, x)
    return leaf.flow.sum_of_squares(a, b, _beyond(leaf.flow, leaf.local(2, x), leaf.sizes[1]))


def _from_axis(leaf: _Leaf, x: list[str]) -> str:
    return leaf.flow.root(leaf.flow.sum_of_squares(leaf.local(0, x), leaf.local(1, x)))


def _cylinder(leaf: _Leaf, x: list[str]) -> str:
    flow = leaf.flow
    across, along = _from_axis(leaf, x), leaf.local(2, x)
    outside = flow.greater(flow.binary("fsub", across, leaf.sizes[0]), flow.lanes.constant(0.0))
    return flow.sum_of_squares(outside, _beyond(flow, along, leaf.sizes[1]))


def _cone(leaf: _Leaf, x: list[str]) -> str:
    """Return the squared distance in the half plane of axis distance and height."""
    flow = leaf.flow
    zero, one = flow.lanes.constant(0.0), flow.lanes.constant(1.0)
    radius, half = leaf.sizes[:2]
    height = flow.binary("fadd", half, half)
    beyond_rim = flow.binary("fsub", _from_axis(leaf, x), radius)
    above_base = flow.binary("fadd", leaf.local(2, x), half)
    # The slant runs from the rim, here (0, 0), to the apex at (-radius, height).
    length = flow.sum_of_squares(radius, height)
    up = flow.binary(
        "fsub", flow.binary("fmul", above_base, height), flow.binary("fmul", beyond_rim, radius)
    )
    share = _between(flow, flow.binary("fdiv", up, length), zero, one)
    slant = flow.sum_of_squares(
        flow.fused(share, radius, beyond_rim),
        flow.binary("fsub", above_base, flow.binary("fmul", share, height)),
    )
    base = flow.sum_of_squares(flow.greater(beyond_rim, zero), above_base)
    outside = flow.fused(beyond_rim, height, flow.binary("fmul", above_base, radius))
    t = flow.lanes.type
    n = flow.lanes.count
    below_slant = flow.emit(f"fcmp olt {t} {outside}, {zero}")
    over_base = flow.emit(f"fcmp ogt {t} {above_base}, {zero}")
    inside = flow.emit(f"and <{n} x i1> {below_slant}, {over_base}")
    return flow.where(inside, zero, flow.smaller(slant, base))


def _triangle(leaf: _Leaf, x: list[str]) -> str:
    """Return the squared distance to a triangle (0, 0), (b, 0), (c, d) in the plane z = 0."""
    flow = leaf.flow
    zero = flow.lanes.constant(0.0)
    t, n = flow.lanes.type, flow.lanes.count
    u, v, w = (leaf.local(k, x) for k in range(3))
    b, c, d = leaf.sizes
    corners = ((zero, zero), (b, zero), (c, d))
    nearest, inside = "", ""
    for (au, av), (bu, bv) in zip(corners, (*corners[1:], corners[0]), strict=True):
        eu, ev = flow.binary("fsub", bu, au), flow.binary("fsub", bv, av)
        pu, pv = flow.binary("fsub", u, au), flow.binary("fsub", v, av)
        along = flow.fused(pu, eu, flow.binary("fmul", pv, ev))
        share = flow.binary("fdiv", along, flow.sum_of_squares(eu, ev))
        share = _between(flow, share, zero, flow.lanes.constant(1.0))
        du = flow.binary("fsub", pu, flow.binary("fmul", share, eu))
        dv = flow.binary("fsub", pv, flow.binary("fmul", share, ev))
        square = flow.sum_of_squares(du, dv)
        left = flow.binary("fsub", flow.binary("fmul", eu, pv), flow.binary("fmul", ev, pu))
        held = flow.emit(f"fcmp oge {t} {left}, {zero}")
        nearest = flow.smaller(nearest, square) if nearest else square
        inside = flow.emit(f"and <{n} x i1> {inside}, {held}") if inside else held
    return flow.fused(w, w, flow.where(inside, zero, nearest))


def _half_space(lanes: Lanes) -> str:
    flow = FunctionBuilder(lanes)
    leaf = _leaf(flow, True)
    with flow.loop("%count", hits=("i64", "0")) as turn:
        radius = flow.splat(flow.get("%radii", turn.index))
        height = leaf.local(2, centre(flow, "%centres", turn.index))
        _collect(flow, turn, flow.compare("ult", height, radius))
    flow.ret("i64", turn["hits"])
    return flow.function("leaf_half_space", "i64", _ARGUMENTS)


def _planes(lanes: Lanes) -> str:
    """Write the test whether a sphere's centre is inside all planes; faces are triangles."""
    flow = FunctionBuilder(lanes)
    size = 4 + PARAMETERS["size"]
    first = flow.emit(f"sext i32 {flow.get('%leaf', size, 'i32')} to i64")
    faces = flow.emit(f"sext i32 {flow.get('%leaf', size + 1, 'i32')} to i64")
    planes = flow.at("%planes", flow.times(first, 4))
    with flow.loop("%count", hits=("i64", "0")) as turn:
        x = centre(flow, "%centres", turn.index)
        lowest = flow.lanes.constant(-1e30)
        with flow.loop(faces, most=(flow.lanes.type, lowest)) as face:
            plane = flow.at(planes, flow.times(face.index, 4))
            normal = [flow.splat(flow.get(plane, k)) for k in range(3)]
            beyond = flow.binary("fmul", normal[0], x[0])
            for k in (1, 2):
                beyond = flow.fused(normal[k], x[k], beyond)
            beyond = flow.binary("fsub", beyond, flow.splat(flow.get(plane, 3)))
            face["most"] = flow.greater(beyond, face["most"])
        _collect(flow, turn, flow.compare("ult", face["most"], flow.lanes.constant(0.0)))
    flow.ret("i64", turn["hits"])
    return flow.function("leaf_planes", "i64", _ARGUMENTS + ", ptr %planes")
