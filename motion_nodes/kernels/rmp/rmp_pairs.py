# SPDX-License-Identifier: Apache-2.0
"""Loop over all pairs of spheres and obstacles, as LLVM code.

Spheres are processed one SIMD register at a time, obstacles one by one. For each sphere, metrics (6
entries of a symmetric matrix) and forces (3) are summed, and the min distance is kept. Pairs beyond
the range of the RMP in all lanes stop after the distance.
"""

from __future__ import annotations

from motion_nodes.kernels.control_flow import FunctionBuilder
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program
from motion_nodes.kernels.formulas.rmps import collision
from motion_nodes.kernels.formulas.shapes import ShapeFormula
from motion_nodes.kernels.ir_value import IrValue
from motion_nodes.kernels.llvm_text import LlvmFunction
from motion_nodes.kernels.memory_layout import FieldLayout
from motion_nodes.kernels.rmp.rmp_distance import distance
from motion_nodes.kernels.rmp.rmp_link_motion import UPPER
from motion_nodes.kernels.rmp.rmp_memory import OBSTACLE, RmpModel, obstacle_shapes
from motion_nodes.kernels.simd import Lanes

_SPHERE = 7  # position, velocity, radius
_SUMS = 9


def pairs_text(model: RmpModel, at: FieldLayout, spheres: int, lanes: Lanes) -> str:
    """Return the functions of the loop.

    ``rmp_<shape>(memory, first, end, obstacles, count)`` for each shape of obstacles, for the
    blocks of spheres from ``first`` to before ``end``.
    """
    places = list(model.places("collision").values())
    shapes = obstacle_shapes().values()
    return "\n".join(_pair_loop(shape, places, at, spheres, lanes) for shape in shapes)


def _components(at: FieldLayout, spheres: int) -> list[int]:
    """Return the offsets of a sphere's inputs."""
    fields = [("position", 3), ("velocity", 3), ("radius", 1)]
    return [at[name] + k * spheres for name, count in fields for k in range(count)]


def _sums(at: FieldLayout, spheres: int) -> list[int]:
    """Return the offsets of a sphere's sums; the min distance is the last."""
    fields = [("metric", 6), ("force", 3), ("nearest", 1)]
    return [at[name] + k * spheres for name, count in fields for k in range(count)]


class _ObstaclePair:
    """The formulas of a sphere and an obstacle of one shape, added to the sphere's sums."""

    def __init__(self, shape: ShapeFormula, coefficients: int) -> None:
        tape = ExpressionGraph()
        self.counts = (_SPHERE, coefficients, OBSTACLE, _SUMS + 1)
        self.inputs = sum(self.counts)
        numbers = iter(range(self.inputs))
        sphere, parameters, obstacle, sums = (
            [tape.input(next(numbers)) for _ in range(count)] for count in self.counts
        )
        d = distance(tape, shape, sphere[0:3], sphere[3:6], obstacle)
        x = d.value - sphere[6]
        per_radius = parameters[6]
        self.felt = tape.less(x * per_radius, 1.0)
        self.nearest = tape.minimum(x, sums[_SUMS])
        desired, weight = collision(tape, x, d.rate, parameters)
        force = weight * (desired - d.curvature)
        added = [s + weight * d.n[i] * d.n[j] for s, (i, j) in zip(sums[:6], UPPER, strict=True)]
        added += [s + force * n for s, n in zip(sums[6:9], d.n, strict=True)]
        self.added = tuple(added)
        self.program = Program(tape, self.inputs, ((self.felt, self.nearest), self.added))


def _pair_loop(
    shape: ShapeFormula, coefficients: list[int], at: FieldLayout, spheres: int, lanes: Lanes
) -> str:
    arguments = {"memory": "ptr", "first": "i64", "end": "i64", "obstacles": "ptr", "count": "i64"}
    flow, n, pair = (
        FunctionBuilder(lanes, **arguments),
        lanes.count,
        _ObstaclePair(shape, len(coefficients)),
    )
    memory, first, count = flow.pointer("memory"), flow.argument("first"), flow.argument("count")
    flow.return_if(count.equals(0))
    parameters = [memory.load(at["parameters"] + index).splat(n) for index in coefficients]
    with flow.loop(flow.argument("end") - first) as block:
        here = memory.at((first + block.index) * n)
        sphere = [here.load(place, n) for place in _components(at, spheres)]
        places = [here.at(place) for place in _sums(at, spheres)]
        sums = {f"sum{i}": place.load(lanes=n) for i, place in enumerate(places)}
        with flow.loop(count, **sums) as turn:
            obstacle = flow.pointer("obstacles").at(turn.index * OBSTACLE)

            def load(index: int) -> str:
                for k, values in enumerate((sphere, parameters, None, [*turn.values.values()])):
                    if index < pair.counts[k]:
                        return values[index] if values else obstacle.load(index).splat(n)
                    index -= pair.counts[k]
                raise IndexError(index)

            body = LlvmFunction(pair.program, flow, load, n)
            body.write((pair.felt, pair.nearest))
            felt = IrValue(flow, f"<{n} x i1>" if n > 1 else "i1", body.output(pair.felt))
            *added, nearest = turn.values
            with flow.when(felt.any(), **{name: turn[name] for name in added}) as close:
                body.write(pair.added)
                for name, value in zip(added, pair.added, strict=True):
                    close[name] = flow.typed(body.output(value))
            turn.values = {**close.values, nearest: flow.typed(body.output(pair.nearest))}
        for place, total in zip(places, turn.values.values(), strict=True):
            place.store(total)
    return flow.function(f"rmp_{shape.name}")
