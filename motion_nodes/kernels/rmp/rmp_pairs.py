# SPDX-License-Identifier: Apache-2.0
"""Loop over all pairs of spheres and obstacles, as LLVM code.

Spheres are processed one SIMD register at a time, obstacles one by one. For each sphere, metrics (6
entries of a symmetric matrix) and forces (3) are summed, and the min distance is kept. Obstacles
whose bounding sphere is beyond the range of the RMP from that of a register's spheres are passed
over, a register of obstacles at a time, which does not change the result; those beyond the range in
all lanes stop after the distance. Where the repulsion is less than 1e-13 of its gain in all lanes,
it is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from motion_nodes.kernels.control_flow import FunctionBuilder, Turn
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program
from motion_nodes.kernels.formulas.rmps import collision, repulsion
from motion_nodes.kernels.formulas.shapes import ShapeFormula
from motion_nodes.kernels.ir_value import IrValue
from motion_nodes.kernels.llvm_text import LlvmFunction
from motion_nodes.kernels.memory_layout import FieldLayout
from motion_nodes.kernels.rmp.rmp_distance import distance
from motion_nodes.kernels.rmp.rmp_link_motion import UPPER
from motion_nodes.kernels.rmp.rmp_memory import (
    BLOCK,
    BOUNDED_BY,
    FAR,
    OBSTACLE,
    RmpModel,
    obstacle_shapes,
)
from motion_nodes.kernels.simd import Lanes

_SPHERE = 7  # position, velocity, radius
_SUMS = 9
_PUSHED = 30.0
"""Distance from which on the repulsion is negligible, in lengths of its decay."""
_SLACK = 1e-9
"""Added to bounds against rounding errors [m]."""


def pairs_text(model: RmpModel, at: FieldLayout, spheres: int, lanes: Lanes) -> str:
    """Return the functions of the loop.

    ``rmp_<shape>(memory, first, end, obstacles, count, bounds)`` for each shape of obstacles, for
    the blocks of spheres from ``first`` to before ``end``.
    """
    places = list(model.places("collision").values())
    shapes = obstacle_shapes().values()
    return "\n".join(_PairLoop(shape, places, at, spheres, lanes).text() for shape in shapes)


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
        self.counts = (_SPHERE, coefficients, OBSTACLE, _SUMS + 1, 1)
        self.inputs = sum(self.counts)
        numbers = iter(range(self.inputs))
        sphere, parameters, obstacle, sums, (push,) = (
            [tape.input(next(numbers)) for _ in range(count)] for count in self.counts
        )
        d = distance(tape, shape, sphere[0:3], sphere[3:6], obstacle)
        x = d.value - sphere[6]
        per_radius, per_repulsion = parameters[6], parameters[5]
        self.felt = tape.less(x * per_radius, 1.0)
        self.nearest = tape.minimum(x, sums[_SUMS])
        self.pushed = tape.less(x * per_repulsion, _PUSHED)
        self.outside = tape.maximum(x, 0.0)  # part of both branches that follow
        self.push = repulsion(tape, x, parameters)
        desired, weight = collision(tape, x, d.rate, parameters, push)
        force = weight * (desired - d.curvature)
        added = [s + weight * d.n[i] * d.n[j] for s, (i, j) in zip(sums[:6], UPPER, strict=True)]
        added += [s + force * n for s, n in zip(sums[6:9], d.n, strict=True)]
        self.added = tuple(added)
        near = (self.pushed, self.outside)
        parts = ((self.felt, self.nearest), near, (self.push,), self.added)
        self.program = Program(tape, self.inputs, parts)
        self.distance = Program(tape, self.inputs, ((self.nearest,),))


class _PairLoop:
    """Writes the function of one shape."""

    def __init__(
        self, shape: ShapeFormula, places: list[int], at: FieldLayout, spheres: int, lanes: Lanes
    ) -> None:
        arguments = {"memory": "ptr", "first": "i64", "end": "i64", "obstacles": "ptr"}
        self.flow = flow = FunctionBuilder(lanes, **arguments, count="i64", bounds="ptr")
        self.n, self.pair = lanes.count, _ObstaclePair(shape, len(places))
        self.memory, self.count = flow.pointer("memory"), flow.argument("count")
        self._bounds = flow.pointer("bounds")
        self.name, self.at, self.spheres = f"rmp_{shape.name}", at, spheres
        numbers = [self.memory.load(at["parameters"] + index) for index in places]
        self.parameters = [number.splat(self.n) for number in numbers]
        self.reach = IrValue(flow, "double", "1.0") / numbers[6]

    def text(self) -> str:
        """Return the function."""
        flow, n, first = self.flow, self.n, self.flow.argument("first")
        flow.return_if(self.count.equals(0))
        with flow.loop(flow.argument("end") - first) as block:
            here = self.memory.at((first + block.index) * n)
            sphere = [here.load(place, n) for place in _components(self.at, self.spheres)]
            places = [here.at(place) for place in _sums(self.at, self.spheres)]
            sums = {f"sum{i}": place.load(lanes=n) for i, place in enumerate(places)}
            *_, nearest = sums
            used = sphere[6] > -FAR
            centre, size = self._bound(sphere, used)
            with self._near(centre, size + self.reach, None, sums) as turn:
                self._add(turn, sphere)
            sums = dict(turn.values)
            # Distances beyond the range of the RMP matter where no closer one was found.
            farthest = _largest(used.choose(sums[nearest], flow.constant(-FAR)))
            with flow.when(farthest > self.reach, **{nearest: sums[nearest]}) as rest:
                found = {nearest: rest[nearest]}
                limits = (self._limit(centre, size, farthest), size + self.reach)
                with self._near(centre, *limits, found) as turn:
                    load = self._loader(turn, sphere, dict.fromkeys(sums, turn[nearest]))
                    body = LlvmFunction(self.pair.distance, flow, load, n)
                    body.write()
                    turn[nearest] = flow.typed(body.output(self.pair.nearest))
                rest[nearest] = turn[nearest]
            sums[nearest] = rest[nearest]
            for place, total in zip(places, sums.values(), strict=True):
                place.store(total)
        return flow.function(self.name)

    def _bound(self, sphere: list[IrValue], used: IrValue) -> tuple[list[IrValue], IrValue]:
        """Return a sphere that contains all used ones of a block."""
        centre, squares = [], self.flow.constant(0.0)
        for x in sphere[:3]:
            known = used.choose(x, _first(x).splat(self.n))
            middle = (-_largest(-known) + _largest(known)) * 0.5
            centre.append(middle)
            offset = x - middle.splat(self.n)
            squares = offset.fused(offset, squares)
        return centre, _largest(squares.root() + sphere[6]) + _SLACK

    def _limit(self, centre: list[IrValue], size: IrValue, farthest: IrValue) -> IrValue:
        """Return how far from the center obstacles may be the closest of one of the spheres."""
        most = size + farthest
        if self.name.removeprefix("rmp_") not in BOUNDED_BY:
            return most
        # None of the spheres is farther than this from the obstacle with the closest center.
        with self._groups(centre, least=self.flow.constant(FAR * FAR)) as group:
            group["least"] = self._squares.smaller(group["least"])
        return (-_largest(-group["least"].root()) + size + size).smaller(most)

    @contextmanager
    def _groups(self, centre: list[IrValue], **carried: IrValue) -> Iterator[Turn]:
        """Write a loop over registers of obstacles; ``_squares`` are those of distances."""
        flow, n = self.flow, self.n
        self._stride = ((self.count + (BLOCK - 1)) // BLOCK) * BLOCK
        at = [x.splat(n) for x in centre]
        with flow.loop((self.count + (n - 1)) // n, **carried) as group:
            group.index = group.index * n
            self._squares = flow.constant(0.0)
            for k, x in enumerate(at):
                offset = self._bounds.load(group.index + self._stride * k, n) - x
                self._squares = offset.fused(offset, self._squares)
            yield group

    @contextmanager
    def _near(
        self, centre: list[IrValue], limit: IrValue, least: IrValue | None, sums: dict[str, IrValue]
    ) -> Iterator[Turn]:
        """Write a loop over the obstacles up to a limit, and not closer than another."""
        flow, n = self.flow, self.n
        far, near = limit.splat(n), None if least is None else least.splat(n)
        with self._groups(centre, **sums) as group:
            begin, squares, zero = group.index, self._squares, flow.constant(0.0)
            size = self._bounds.load(begin + self._stride * 3, n)
            most = (size + far).larger(zero)
            chosen = squares < most * most
            if near is not None:
                closer = (size + near).larger(zero)
                chosen = chosen & (squares >= closer * closer)
            with flow.bits(chosen.bits(), **group.values) as turn:
                turn.index = begin + turn.index
                yield turn
            group.values = dict(turn.values)
        turn.values = dict(group.values)

    def _loader(
        self, turn: Turn, sphere: list[IrValue], sums: dict[str, IrValue], push: str = ""
    ) -> Callable[[int], str]:
        obstacle = self.flow.pointer("obstacles").at(turn.index * OBSTACLE)

        def load(index: int) -> str:
            groups = (sphere, self.parameters, None, [*sums.values()], [push])
            for count, values in zip(self.pair.counts, groups, strict=True):
                if index < count:
                    return values[index] if values else obstacle.load(index).splat(self.n)
                index -= count
            raise IndexError(index)

        return load

    def _add(self, turn: Turn, sphere: list[IrValue]) -> None:
        """Write the sums with an obstacle added."""
        flow, n, pair = self.flow, self.n, self.pair
        pushes: list[str] = []
        load = self._loader(turn, sphere, turn.values)
        body = LlvmFunction(
            pair.program, flow, lambda i: pushes[0] if i == pair.inputs - 1 else load(i), n
        )
        body.write((pair.felt, pair.nearest))
        mask = f"<{n} x i1>" if n > 1 else "i1"
        felt = IrValue(flow, mask, body.output(pair.felt))
        *added, nearest = turn.values
        with flow.when(felt.any(), **{name: turn[name] for name in added}) as close:
            body.write((pair.pushed, pair.outside))
            pushed = IrValue(flow, mask, body.output(pair.pushed))
            with flow.when(pushed.any(), push=flow.constant(0.0)) as strong:
                body.write((pair.push,))
                strong["push"] = flow.typed(body.output(pair.push))
            pushes.append(strong["push"])
            body.write(pair.added)
            for name, value in zip(added, pair.added, strict=True):
                close[name] = flow.typed(body.output(value))
        turn.values = {**close.values, nearest: flow.typed(body.output(pair.nearest))}


def _first(x: IrValue) -> IrValue:
    return x.lane(0) if x.lane_count > 1 else x


def _largest(x: IrValue) -> IrValue:
    return x.largest() if x.lane_count > 1 else x


def reductions(lanes: Lanes) -> list[str]:
    """Return the declarations of functions that the loops call."""
    if lanes.count == 1:
        return []
    return [f"declare double @llvm.vector.reduce.fmax.{lanes.suffix}({lanes.type})"]
