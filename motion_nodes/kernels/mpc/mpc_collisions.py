# SPDX-License-Identifier: Apache-2.0
"""Costs of small distances as LLVM code: spheres to obstacles, spheres to spheres.

One sample per lane. Bounding spheres of bodies are tested first, and the spheres themselves only if
any lane is within the margin. A distance d within a margin m costs ((m - d) / m)^2 times a weight.
"""

from __future__ import annotations

from collections.abc import Sequence

from motion_nodes.kernels.collision.collision_shapes import centre
from motion_nodes.kernels.control_flow import FunctionBuilder, Turn
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program
from motion_nodes.kernels.formulas.linear_algebra import dot
from motion_nodes.kernels.formulas.shapes import ShapeFormula, signed_distance
from motion_nodes.kernels.ir_value import IrValue
from motion_nodes.kernels.llvm_text import LlvmFunction
from motion_nodes.kernels.memory_layout import Fields
from motion_nodes.kernels.mpc.mpc_memory import ROW, WEIGHTS, table_of
from motion_nodes.kernels.simd import Lanes

_PLACED = {"h": "ptr", "bounds": "ptr", "spheres": "ptr", "sums": "ptr"}
_OBSTACLE = 15
"""Number of inputs from the obstacle: rotation, translation and sizes; the point follows."""


def weight(table: Fields, name: str, lanes: int) -> IrValue:
    """Return a weight in lanes."""
    return table.pointer("weights", "float").load(WEIGHTS.index(name)).splat(lanes)


def placement_function(lanes: Lanes) -> str:
    """Write ``place_spheres(h, poses, bounds, spheres)``: all spheres in the base frame [m]."""
    arguments = {"h": "ptr", "poses": "ptr", "bounds": "ptr", "spheres": "ptr"}
    flow, n = FunctionBuilder(lanes, **arguments), lanes.count
    table = table_of(flow)
    poses, bounds, spheres = (flow.pointer(x, "float") for x in ("poses", "bounds", "spheres"))
    around, points = (table.pointer(f"{x}_centres", "float") for x in ("body", "sphere"))
    with flow.loop(table.whole("bodies")) as body:
        group = table.pointer("body_groups", "i32").load(body.index).to("i64")
        pose, (first, count) = poses.at(group * (12 * n)), sphere_run(table, body.index)
        flow.call("void", "set_off", pose, around.at(body.index * 3),
                  bounds.at(body.index * (3 * n)), 1)  # fmt: skip
        flow.call("void", "set_off", pose, points.at(first * 3), spheres.at(first * (3 * n)), count)
    return flow.function("place_spheres")


def sphere_run(table: Fields, body: IrValue) -> tuple[IrValue, IrValue]:
    """Return the index of a body's first sphere, and the number of its spheres."""
    firsts = table.pointer("body_firsts", "i32").at(body)
    first = firsts.load().to("i64")
    return first, firsts.load(1).to("i64") - first


class _Hinge:
    """Adds the costs of distances to a turn's ``cost`` and ``near``."""

    def __init__(self, flow: FunctionBuilder, table: Fields, margin: str, strength: str) -> None:
        n = flow.lanes.count
        self.flow = flow
        self.margin = weight(table, margin, n)
        self._inverse = flow.constant(1.0) / self.margin
        self._weight = weight(table, strength, n)

    def add(self, turn: Turn, distance: IrValue) -> None:
        """Add the cost of distances in lanes."""
        short = (self.margin - distance) * self._inverse
        short = short.larger(self.flow.constant(0.0))
        turn["cost"] = (short * short).fused(self._weight, turn["cost"])
        turn["near"] = distance.smaller(turn["near"])


def _sums(flow: FunctionBuilder) -> dict[str, IrValue]:
    n, sums = flow.lanes.count, flow.pointer("sums", "float")
    return {"cost": sums.load(0, n), "near": sums.load(n, n)}


def _store_sums(flow: FunctionBuilder, turn: Turn) -> None:
    sums = flow.pointer("sums", "float")
    sums.store(turn["cost"], 0)
    sums.store(turn["near"], flow.lanes.count)


def _square(a: Sequence[IrValue], b: Sequence[IrValue]) -> IrValue:
    x, y, z = (p - q for p, q in zip(a, b, strict=True))
    return z.fused(z, y.fused(y, x * x))


class _Distance:
    """Signed distance of points to one obstacle, whose row is loaded once."""

    def __init__(self, flow: FunctionBuilder, shape: ShapeFormula, row: list[IrValue]) -> None:
        tape = ExpressionGraph()
        given = [tape.input(i) for i in range(_OBSTACLE)]
        x = [tape.input(_OBSTACLE + i) for i in range(3)]
        local = [dot([1.0, *given[3 * i : 3 * i + 3]], [given[9 + i], *x]) for i in range(3)]
        found = signed_distance(tape, shape, local, given[12:15])
        self._value = found.value
        self._program = Program(tape, _OBSTACLE + 3, ((found.value,),))
        self._flow, self._row = flow, row

    def at(self, point: list[IrValue]) -> IrValue:
        """Write the distance of a point in lanes to the obstacle's rounded surface."""
        numbers = [*self._row[:_OBSTACLE], *point]
        body = LlvmFunction(self._program, self._flow, numbers.__getitem__, self._flow.lanes.count)
        body.write()
        return self._flow.typed(body.output(self._value)) - self._row[_OBSTACLE]


def obstacle_function(lanes: Lanes, shape: ShapeFormula) -> str:
    """Write ``world_<shape>(h, bounds, spheres, sums, rows, count)``: costs of its obstacles."""
    flow, n = FunctionBuilder(lanes, **_PLACED, rows="ptr", count="i64"), lanes.count
    table = table_of(flow)
    count = flow.argument("count")
    flow.return_if(count.equals(0))
    hinge = _Hinge(flow, table, "margin", "world")
    bounds, spheres = flow.pointer("bounds", "float"), flow.pointer("spheres", "float")
    around, radii = (table.pointer(f"{x}_radii", "float") for x in ("body", "sphere"))
    with flow.loop(count, **_sums(flow)) as obstacle:
        start = flow.pointer("rows", "float").at(obstacle.index * ROW)
        row = [start.load(k).splat(n) for k in range(ROW)]
        distance = _Distance(flow, shape, row)
        reach = row[-1] + hinge.margin
        with flow.loop(table.whole("world_bodies"), **obstacle.values) as body:
            x, radius = centre(bounds, body.index, n), around.load(body.index).splat(n)
            far = reach + radius
            close = (_square(x, row[-4:-1]) < far * far).any()
            with flow.when(close, **body.values) as inside:
                within = (distance.at(x) < radius + hinge.margin).any()
                with flow.when(within, **inside.values) as felt:
                    first, number = sphere_run(table, body.index)
                    with flow.loop(number, **felt.values) as one:
                        index = first + one.index
                        point = centre(spheres, index, n)
                        hinge.add(one, distance.at(point) - radii.load(index).splat(n))
                    felt.values = one.values
                inside.values = felt.values
            body.values = inside.values
        obstacle.values = body.values
    _store_sums(flow, obstacle)
    return flow.function(f"world_{shape.name}")


def links_function(lanes: Lanes) -> str:
    """Write ``links(h, bounds, spheres, sums)``: costs of the checked pairs of bodies."""
    flow, n = FunctionBuilder(lanes, **_PLACED), lanes.count
    table = table_of(flow)
    hinge = _Hinge(flow, table, "self_margin", "self")
    bounds, spheres = flow.pointer("bounds", "float"), flow.pointer("spheres", "float")
    around, radii = (table.pointer(f"{x}_radii", "float") for x in ("body", "sphere"))
    pairs = table.pointer("pair_bodies", "i32")
    with flow.loop(table.whole("pairs"), **_sums(flow)) as pair:
        a, b = (pairs.load(pair.index * 2 + k).to("i64") for k in range(2))
        whole, bound = centre(bounds, b, n), around.load(b).splat(n) + hinge.margin
        far = around.load(a).splat(n) + bound
        close = (_square(centre(bounds, a, n), whole) < far * far).any()
        with flow.when(close, **pair.values) as felt:
            (first_a, count_a), (first_b, count_b) = sphere_run(table, a), sphere_run(table, b)
            with flow.loop(count_a, **felt.values) as one:
                x, r = centre(spheres, first_a + one.index, n), radii.load(first_a + one.index)
                reach = r.splat(n) + bound
                near = (_square(x, whole) < reach * reach).any()
                with flow.when(near, **one.values) as met:
                    with flow.loop(count_b, **met.values) as other:
                        index = first_b + other.index
                        length = _square(x, centre(spheres, index, n)).root()
                        hinge.add(other, length - (r + radii.load(index)).splat(n))
                    met.values = other.values
                one.values = met.values
            felt.values = one.values
        pair.values = felt.values
    _store_sums(flow, pair)
    return flow.function("links")
