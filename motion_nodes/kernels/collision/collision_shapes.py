# SPDX-License-Identifier: Apache-2.0
"""Tests and distances of spheres to one leaf of the world as LLVM code, one function per kind.

``hits_<shape>(leaf, centres, radii, count, limit)`` tests ``count`` spheres, whose centres are
stored as x, y, z in lanes, and returns the lanes in which any sphere collides with the leaf, as
bits of an i64. It returns early once these bits are ``limit`` or more. NaN counts as a collision.

``distance_<shape>(leaf, x, out)`` writes signed distance and direction, in the base frame, of one
point per lane.

The formulas are those of :mod:`motion_nodes.kernels.formulas.shapes`. Planes, the inside of a hull,
have no formula: their number varies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from motion_nodes.kernels.collision.collision_memory import PARAMETERS, PLANES
from motion_nodes.kernels.control_flow import FunctionBuilder, Turn
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program, Value
from motion_nodes.kernels.formulas.linear_algebra import Vector, dot
from motion_nodes.kernels.formulas.shapes import ShapeFormula, signed_distance, square_distance
from motion_nodes.kernels.llvm_text import LlvmFunction
from motion_nodes.kernels.simd import Lanes

_FIRST = 4  # Values of a leaf before R, t and sizes.
_LEAF = 15
"""Inputs of a formula that belong to the leaf: R (9), t (3), sizes (3); the point follows."""

TEST = "ptr %leaf, ptr %centres, ptr %radii, i64 %count, i64 %limit"
DISTANCE = "ptr %leaf, ptr %x, ptr %out"


def dispatch(name: str, arguments: str, shapes: Mapping[int, ShapeFormula]) -> str:
    """Return the function ``<name>`` that calls ``<name>_<shape>`` for a leaf's kind."""
    names = {kind: shape.name for kind, shape in shapes.items()}
    cases, ways = [], []
    for kind, shape in {**names, PLANES: "planes"}.items():
        extra = ", ptr %planes" if kind == PLANES else ""
        cases.append(f"    i32 {kind}, label %case{kind}")
        ways.append(f"case{kind}:\n  %result{kind} = call i64 @{name}_{shape}({arguments}{extra})")
        ways.append(f"  ret i64 %result{kind}")
    choice, bodies = "\n".join(cases), "\n".join(ways)
    return f"""define internal i64 @{name}({arguments}, ptr %planes) nounwind {{
  %kind = load i32, ptr %leaf
  switch i32 %kind, label %none [
{choice}
  ]
none:
  ret i64 0
{bodies}
}}
"""


class _LeafFormula:
    """A formula on a point in a leaf's frame, in the graph and in the function being written."""

    def __init__(self, flow: FunctionBuilder, shape: ShapeFormula) -> None:
        self.tape = ExpressionGraph()
        self._flow = flow
        numbers: list[Value] = [self.tape.input(i) for i in range(_LEAF)]
        x: Vector = [self.tape.input(_LEAF + i) for i in range(3)]
        self.R = [numbers[3 * i : 3 * i + 3] for i in range(3)]
        self.sizes = numbers[12:15]
        # Beginning with t, each product is fused with its sum.
        one: list[list[Value]] = [[float(i == j) for j in range(3)] for i in range(3)]
        turn = self.R if shape.rotated else one
        self.local = [dot([1.0, *turn[i]], [numbers[9 + i], *x]) for i in range(3)]
        if not shape.rotated:
            self.R = one
        self.point: list[str] = []
        """Names of x, y, z in lanes, set before a result is written."""

    def body(self, *results: Value) -> LlvmFunction:
        """Return the writer of some results."""
        program = Program(self.tape, _LEAF + 3, (results,))
        return LlvmFunction(program, self._flow, self._load, self._flow.lanes.count)

    def _load(self, index: int) -> str:
        if index >= _LEAF:
            return self.point[index - _LEAF]
        return self._flow.splat(self._flow.get("%leaf", _FIRST + index))


def collision_tests(lanes: Lanes, shapes: Mapping[int, ShapeFormula]) -> str:
    """Return the collision tests of all kinds, and ``hits``, which selects one."""
    parts = [_test(lanes, shape) for shape in shapes.values()]
    return "\n".join([*parts, _planes_test(lanes), dispatch("hits", TEST, shapes)])


def distance_functions(lanes: Lanes, shapes: Mapping[int, ShapeFormula]) -> str:
    """Return the distances of all kinds, and ``distance``, which selects one."""
    parts = [_distance(lanes, shape) for shape in shapes.values()]
    return "\n".join([*parts, _planes_distance(lanes), dispatch("distance", DISTANCE, shapes)])


def _test(lanes: Lanes, shape: ShapeFormula) -> str:
    flow = FunctionBuilder(lanes)
    leaf = _LeafFormula(flow, shape)
    squared = square_distance(leaf.tape, shape, leaf.local, leaf.sizes)
    body = leaf.body(squared)
    body.write_constant(range(_LEAF, _LEAF + 3))
    rounding = ""
    if shape.rounding is not None:
        rounding = flow.get("%leaf", _FIRST + PARAMETERS["size"] + shape.rounding)

    def touching(turn: Turn) -> str:
        leaf.point = centre(flow, "%centres", turn.index)
        radius = flow.get("%radii", turn.index)
        if rounding:
            radius = flow.emit(f"fadd float {radius}, {rounding}")
        reach = flow.splat(flow.emit(f"fmul float {radius}, {radius}"))
        body.write()
        return flow.compare("ult", body.output(squared), reach)

    return _over_spheres(flow, f"hits_{shape.name}", TEST, touching)


def _over_spheres(
    flow: FunctionBuilder, name: str, arguments: str, touching: Callable[[Turn], str]
) -> str:
    """Write the loop over spheres; ``touching`` writes the test of one sphere in all lanes."""
    with flow.loop("%count", hits=("i64", "0")) as turn:
        turn["hits"] = flow.emit(f"or i64 {turn['hits']}, {touching(turn)}")
        flow.leave_if(turn, flow.emit(f"icmp uge i64 {turn['hits']}, %limit"))
    flow.ret("i64", turn["hits"])
    return flow.function(name, "i64", arguments)


def centre(flow: FunctionBuilder, centres: str, index: str) -> list[str]:
    """Return x, y, z of a sphere in lanes."""
    n = flow.lanes.count
    base = flow.at(centres, flow.times(index, 3 * n))
    return [flow.load(flow.at(base, k * n)) for k in range(3)]


def _distance(lanes: Lanes, shape: ShapeFormula) -> str:
    flow, n = FunctionBuilder(lanes), lanes.count
    leaf = _LeafFormula(flow, shape)
    found = signed_distance(leaf.tape, shape, leaf.local, leaf.sizes)
    value = found.value if shape.rounding is None else found.value - leaf.sizes[shape.rounding]
    results = [value, *(dot(column, found.direction) for column in zip(*leaf.R, strict=True))]
    leaf.point = [flow.load(flow.at("%x", k * n)) for k in range(3)]
    body = leaf.body(*results)
    body.write()
    for k, result in enumerate(results):
        flow.store(body.output(result), flow.at("%out", k * n))
    flow.ret("i64", "0")
    return flow.function(f"distance_{shape.name}", "i64", DISTANCE)


def _planes_of(flow: FunctionBuilder) -> tuple[str, str]:
    """Return address and count of a leaf's planes."""
    at = _FIRST + PARAMETERS["size"]
    first, faces = (
        flow.emit(f"sext i32 {flow.get('%leaf', at + k, 'i32')} to i64") for k in range(2)
    )
    return flow.at("%planes", flow.times(first, 4)), faces


def _beyond_plane(
    flow: FunctionBuilder, planes: str, index: str, x: list[str]
) -> tuple[list[str], str]:
    """Return normal and signed distance of a plane."""
    plane = flow.at(planes, flow.times(index, 4))
    normal = [flow.splat(flow.get(plane, k)) for k in range(3)]
    beyond = flow.negated(flow.splat(flow.get(plane, 3)))
    for k in range(3):
        beyond = flow.fused(normal[k], x[k], beyond)
    return normal, beyond


def _planes_test(lanes: Lanes) -> str:
    """Write the test whether a sphere's centre is inside all planes; faces are triangles."""
    flow = FunctionBuilder(lanes)
    planes, faces = _planes_of(flow)

    def touching(turn: Turn) -> str:
        x = centre(flow, "%centres", turn.index)
        with flow.loop(faces, most=(lanes.type, lanes.constant(-1e30))) as face:
            _, beyond = _beyond_plane(flow, planes, face.index, x)
            face["most"] = flow.greater(beyond, face["most"])
        return flow.compare("ult", face["most"], lanes.constant(0.0))

    return _over_spheres(flow, "hits_planes", TEST + ", ptr %planes", touching)


def _planes_distance(lanes: Lanes) -> str:
    """Write the depth below the closest plane; infinite outside, where the triangles are used."""
    flow, n = FunctionBuilder(lanes), lanes.count
    planes, faces = _planes_of(flow)
    x = [flow.load(flow.at("%x", k * n)) for k in range(3)]
    t, zero = lanes.type, lanes.constant(0.0)
    start = {"most": (t, lanes.constant(-1e30)), **{f"n{k}": (t, zero) for k in range(3)}}
    with flow.loop(faces, **start) as face:
        normal, beyond = _beyond_plane(flow, planes, face.index, x)
        nearer = flow.emit(f"fcmp ogt {t} {beyond}, {face['most']}")
        face["most"] = flow.where(nearer, beyond, face["most"])
        for k in range(3):
            face[f"n{k}"] = flow.where(nearer, normal[k], face[f"n{k}"])
    outside = flow.emit(f"fcmp oge {t} {face['most']}, {zero}")
    flow.store(flow.where(outside, lanes.constant(float("inf")), face["most"]), "%out")
    for k in range(3):
        flow.store(face[f"n{k}"], flow.at("%out", (1 + k) * n))
    flow.ret("i64", "0")
    return flow.function("distance_planes", "i64", f"{DISTANCE}, ptr %planes")
