# SPDX-License-Identifier: Apache-2.0
"""Collision tests and distances of spheres to one leaf as LLVM code, one function per kind.

``hits_<shape>(leaf, centres, radii, count, limit)`` tests ``count`` spheres, whose centres are
stored as x, y, z in lanes, and returns the lanes in which any sphere collides with the leaf, as
bits of an i64. It returns early once these bits, as a number, are at least ``limit``. NaN counts as
a collision.

``distance_<shape>(leaf, x, out)`` writes signed distance [m] and direction (unit vector), in the
base frame, of one point per lane.

The formulas are those of :mod:`motion_nodes.kernels.formulas.shapes`. ``PLANES``, the inside of a
hull, have no formula, because their number varies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from motion_nodes.kernels.collision.collision_memory import PARAMETERS, PLANES
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program, Value
from motion_nodes.kernels.formulas.ops import Vector, dot
from motion_nodes.kernels.formulas.shapes import ShapeFormula, signed_distance, square_distance
from motion_nodes.kernels.llvm_builder import FunctionBuilder, IrValue, Pointer
from motion_nodes.kernels.llvm_text import LlvmFunction
from motion_nodes.kernels.simd import Lanes

_FIRST = 4  # Values of a leaf before R, t and sizes.
_LEAF = 16
"""Number of a formula's inputs from the leaf: R (9), t (3), sizes (3) and a
rounding radius that is none of them; the point follows."""

TEST = {"leaf": "ptr", "centres": "ptr", "radii": "ptr", "count": "i64", "limit": "i64"}
DISTANCE = {"leaf": "ptr", "x": "ptr", "out": "ptr"}
_PLANES = {"planes": "ptr"}


def dispatch(name: str, arguments: Mapping[str, str], shapes: Mapping[int, ShapeFormula]) -> str:
    """Return the function ``<name>``, which calls ``<name>_<shape>`` for a leaf's kind."""
    names = {**{kind: shape.name for kind, shape in shapes.items()}, PLANES: "planes"}
    flow = FunctionBuilder(**arguments, **_PLANES)
    given = [flow.argument(argument) for argument in arguments]
    with flow.cases(flow.pointer("leaf", "i32").load(), list(names)) as cases:
        for kind in cases:
            planes = [flow.argument("planes")] if kind == PLANES else []
            flow.ret(flow.call("i64", f"{name}_{names[kind]}", *given, *planes))
    flow.ret(flow.whole(0))
    return flow.function(name)


class _LeafFormula:
    """Inputs of a leaf's formula: symbols of the graph, operands of the function being written."""

    def __init__(self, flow: FunctionBuilder, shape: ShapeFormula) -> None:
        self.tape = ExpressionGraph()
        self._flow = flow
        numbers: list[Value] = [self.tape.input(i) for i in range(_LEAF)]
        x: Vector = [self.tape.input(_LEAF + i) for i in range(3)]
        self.R = [numbers[3 * i : 3 * i + 3] for i in range(3)]
        self.sizes = numbers[12:15]
        self.rounding = 0.0 if shape.rounding is None else numbers[12 + shape.rounding]
        # Starting with t, each product is fused with an addition.
        one: list[list[Value]] = [[float(i == j) for j in range(3)] for i in range(3)]
        turn = self.R if shape.rotated else one
        self.local = [dot([1.0, *turn[i]], [numbers[9 + i], *x]) for i in range(3)]
        if not shape.rotated:
            self.R = one
        self.point: list[IrValue] = []
        """Operands of x, y, z in lanes, set before a result is written."""

    def body(self, *results: Value) -> LlvmFunction:
        """Return the writer of some results."""
        program = Program(self.tape, _LEAF + 3, (results,))
        return LlvmFunction(program, self._flow, self._load, self._flow.lanes.count)

    def _load(self, index: int) -> str:
        if index >= _LEAF:
            return self.point[index - _LEAF]
        leaf = self._flow.pointer("leaf", "float")
        return leaf.load(_FIRST + index).splat(self._flow.lanes.count)


def collision_tests(lanes: Lanes, shapes: Mapping[int, ShapeFormula]) -> str:
    """Return the collision tests of all kinds, and their dispatch ``hits``."""
    parts = [_test(lanes, shape) for shape in shapes.values()]
    return "\n".join([*parts, _planes_test(lanes), dispatch("hits", TEST, shapes)])


def distance_functions(lanes: Lanes, shapes: Mapping[int, ShapeFormula]) -> str:
    """Return the distances of all kinds, and their dispatch ``distance``."""
    parts = [_distance(lanes, shape) for shape in shapes.values()]
    return "\n".join([*parts, _planes_distance(lanes), dispatch("distance", DISTANCE, shapes)])


def _test(lanes: Lanes, shape: ShapeFormula) -> str:
    flow = FunctionBuilder(lanes, **TEST)
    leaf = _LeafFormula(flow, shape)
    squared = square_distance(leaf.tape, shape, leaf.local, leaf.sizes)
    body = leaf.body(squared)
    body.write_constant(range(_LEAF, _LEAF + 3))
    radii = flow.pointer("radii", "float")
    rounding = None
    if shape.rounding is not None:
        place = _FIRST + PARAMETERS["size"] + shape.rounding
        rounding = flow.pointer("leaf", "float").load(place)

    def touching(index: IrValue) -> IrValue:
        leaf.point = centre(flow.pointer("centres", "float"), index, lanes.count)
        radius = radii.load(index)
        reach = radius if rounding is None else radius + rounding
        body.write()
        return flow.typed(body.output(squared)).below((reach * reach).splat(lanes.count))

    return _over_spheres(flow, f"hits_{shape.name}", touching)


def _over_spheres(flow: FunctionBuilder, name: str, touching: Callable[[IrValue], IrValue]) -> str:
    """Write the loop over spheres; ``touching`` writes the test of one sphere in all lanes."""
    with flow.loop(flow.argument("count"), hits=flow.whole(0)) as turn:
        turn["hits"] = turn["hits"] | touching(turn.index).bits()
        flow.leave_if(turn, turn["hits"] >= flow.argument("limit"))
    flow.ret(turn["hits"])
    return flow.function(name)


def centre(centres: Pointer, index: IrValue, lanes: int) -> list[IrValue]:
    """Return x, y, z of a sphere in lanes."""
    place = centres.at(index * (3 * lanes))
    return [place.load(k * lanes, lanes) for k in range(3)]


def _distance(lanes: Lanes, shape: ShapeFormula) -> str:
    flow, n = FunctionBuilder(lanes, **DISTANCE), lanes.count
    leaf = _LeafFormula(flow, shape)
    found = signed_distance(leaf.tape, shape, leaf.local, leaf.sizes)
    value = found.value if shape.rounding is None else found.value - leaf.rounding
    results = [value, *(dot(column, found.direction) for column in zip(*leaf.R, strict=True))]
    x, out = (flow.pointer(name, "float") for name in ("x", "out"))
    leaf.point = [x.load(k * n, n) for k in range(3)]
    body = leaf.body(*results)
    body.write()
    for k, result in enumerate(results):
        out.store(flow.typed(body.output(result)), k * n)
    flow.ret(flow.whole(0))
    return flow.function(f"distance_{shape.name}")


def _planes_of(flow: FunctionBuilder) -> tuple[Pointer, IrValue]:
    """Return address and number of a leaf's planes."""
    sizes = flow.pointer("leaf", "i32").at(_FIRST + PARAMETERS["size"])
    first, faces = (sizes.load(k).to("i64") for k in range(2))
    return flow.pointer("planes", "float").at(first * 4), faces


def _beyond_plane(
    planes: Pointer, index: IrValue, x: list[IrValue]
) -> tuple[list[IrValue], IrValue]:
    """Return normal and signed distance of a plane."""
    plane, n = planes.at(index * 4), x[0].lane_count
    *normal, offset = (plane.load(k).splat(n) for k in range(4))
    beyond = -offset
    for k in range(3):
        beyond = normal[k].fused(x[k], beyond)
    return normal, beyond


def _planes_test(lanes: Lanes) -> str:
    """Write the test whether a sphere's centre is below all planes; faces are other leaves."""
    flow = FunctionBuilder(lanes, **TEST, **_PLANES)
    planes, faces = _planes_of(flow)

    def touching(index: IrValue) -> IrValue:
        x = centre(flow.pointer("centres", "float"), index, lanes.count)
        with flow.loop(faces, most=flow.constant(-1e30)) as face:
            _, beyond = _beyond_plane(planes, face.index, x)
            face["most"] = beyond.larger(face["most"])
        return face["most"].below(0.0)

    return _over_spheres(flow, "hits_planes", touching)


def _planes_distance(lanes: Lanes) -> str:
    """Write the depth below the closest plane; infinite outside, where triangles determine it."""
    flow, n = FunctionBuilder(lanes, **DISTANCE, **_PLANES), lanes.count
    planes, faces = _planes_of(flow)
    given, out = (flow.pointer(name, "float") for name in ("x", "out"))
    x = [given.load(k * n, n) for k in range(3)]
    start = {"most": flow.constant(-1e30), **{f"n{k}": flow.constant(0.0) for k in range(3)}}
    with flow.loop(faces, **start) as face:
        normal, beyond = _beyond_plane(planes, face.index, x)
        nearer = beyond > face["most"]
        face["most"] = nearer.choose(beyond, face["most"])
        for k in range(3):
            face[f"n{k}"] = nearer.choose(normal[k], face[f"n{k}"])
    out.store((face["most"] >= 0.0).choose(math.inf, face["most"]))
    for k in range(3):
        out.store(face[f"n{k}"], (1 + k) * n)
    flow.ret(flow.whole(0))
    return flow.function("distance_planes")
