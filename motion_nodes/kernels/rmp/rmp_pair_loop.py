# SPDX-License-Identifier: Apache-2.0
"""Loop over all pairs of spheres and obstacles of one shape, as LLVM code.

Spheres are processed one SIMD register at a time, obstacles one by one. For each sphere, metrics (6
entries of a symmetric matrix) and forces (3) are summed, and the min distance is kept. Obstacles
whose bounding sphere is beyond the range of the RMP from the box around a register's spheres are
skipped, which does not change the result; the indices of all others are listed first, a register of
obstacles at a time, so that the loop over them has no branches that depend on distances (a
misprediction costs half as much as a pair). Repulsions below 1e-13 of their gain are omitted;
obstacles that may be closer are in a second list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from motion_nodes.kernels.control_flow import FunctionBuilder, Turn
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program
from motion_nodes.kernels.formulas.rmps import collision, repulsion
from motion_nodes.kernels.formulas.shapes import ShapeFormula
from motion_nodes.kernels.ir_value import IrValue, Pointer
from motion_nodes.kernels.llvm_text import LlvmFunction
from motion_nodes.kernels.memory_layout import FieldLayout
from motion_nodes.kernels.rmp.rmp_distance import moved_distance, relative_velocity
from motion_nodes.kernels.rmp.rmp_link_motion import UPPER
from motion_nodes.kernels.rmp.rmp_memory import (
    BLOCK,
    BOUND,
    BOUNDED_BY,
    FAR,
    MOVES,
    OBSTACLE,
)
from motion_nodes.kernels.simd import Lanes

_SUMS = 9
_PUSHED = 30.0
"""Distance beyond which the repulsion is negligible, in decay lengths."""
_SLACK = 1e-9
"""Margin of bounds for rounding errors [m]."""
_PICKS = "@rmp_picks"

Inputs = tuple[list[IrValue] | None, ...]
"""Inputs of the formulas of a pair."""


def picks_text(n: int) -> str:
    """Return the table that maps a mask of ``n`` bits to the indices of its bits, padded with 0."""
    rows = [[k for k in range(n) if mask >> k & 1] for mask in range(1 << n)]
    text = "".join(f"\\{k:02X}" for row in rows for k in [*row, *[0] * n][:n])
    return f'{_PICKS} = internal constant [{n << n} x i8] c"{text}"'


def _components(at: FieldLayout, spheres: int) -> list[int]:
    """Return the offsets of a sphere's inputs."""
    fields = [("position", 3), ("velocity", 3), ("radius", 1)]
    return [at[name] + k * spheres for name, count in fields for k in range(count)]


def _sums(at: FieldLayout, spheres: int) -> list[int]:
    """Return the offsets of a sphere's sums; the min distance is the last."""
    fields = [("metric", 6), ("force", 3), ("nearest", 1)]
    return [at[name] + k * spheres for name, count in fields for k in range(count)]


class ObstaclePair:
    """The formulas of a sphere and an obstacle of one shape, added to the sphere's sums."""

    def __init__(self, shape: ShapeFormula, coefficients: int, element: str = "double") -> None:
        """Record the formulas, for elements of a type."""
        tape = ExpressionGraph(element)
        # Position and radius; velocity; relative velocity and its square.
        self.counts = (4, 3, 4, coefficients, OBSTACLE, _SUMS + 1, 1)
        self.inputs = sum(self.counts)
        numbers = iter(range(self.inputs))
        sphere, velocity, motion, parameters, obstacle, sums, (push,) = (
            [tape.input(next(numbers)) for _ in range(count)] for count in self.counts
        )
        relative, squared = relative_velocity(sphere[:3], velocity, obstacle)
        self.motion = (*relative, squared)
        d = moved_distance(tape, shape, sphere[:3], motion[:3], motion[3], obstacle)
        x = d.value - sphere[3]
        self.x = x
        self.felt = tape.less(x * parameters[6], 1.0)
        self.nearest = tape.minimum(x, sums[_SUMS])
        self.outside = tape.maximum(x, 0.0)  # used by both of the following branches
        self.push = repulsion(tape, x, parameters)
        desired, weight = collision(tape, x, d.rate, parameters, push)
        weight = weight * d.per_length
        force, metric = weight * (desired - d.curvature), weight * d.per_length
        self.weighted, away = (force, metric), d.away
        added = [s + metric * away[i] * away[j] for s, (i, j) in zip(sums[:6], UPPER, strict=True)]
        added += [s + force * n for s, n in zip(sums[6:9], away, strict=True)]
        self.added = tuple(added)
        distances = (x, self.felt, self.nearest, self.outside)
        parts = (distances, (self.push,), self.weighted, self.added)
        self.program = Program(tape, self.inputs, parts)
        self.relative = Program(tape, self.inputs, (self.motion,))
        self.distance = Program(tape, self.inputs, ((self.nearest,),))

    def loader(self, inputs: Inputs, obstacle: Callable[[int], str]) -> Callable[[int], str]:
        """Return the function that loads an input of the programs.

        Args:
            inputs: in the order of ``counts``; None: the values of the obstacle.
            obstacle: returns one of them.
        """

        def load(place: int) -> str:
            for count, values in zip(self.counts, inputs, strict=True):
                if place < count:
                    return obstacle(place) if values is None else values[place]
                place -= count
            raise IndexError(place)

        return load


@dataclass(frozen=True)
class SphereBlock:
    """The spheres of a register, and a box around the centers of those in use."""

    position: list[IrValue]
    """Position and radius."""
    velocity: list[IrValue]
    center: list[IrValue]
    half: list[IrValue]
    radius: IrValue
    """The largest one."""


class PairLoop:
    """Writes the function of one shape."""

    def __init__(
        self, shape: ShapeFormula, places: list[int], at: FieldLayout, spheres: int, lanes: Lanes
    ) -> None:
        arguments = {"memory": "ptr", "first": "i64", "end": "i64", "obstacles": "ptr"}
        self.flow = flow = FunctionBuilder(lanes, **arguments, count="i64", bounds="ptr")
        self.n, self.pair = lanes.count, ObstaclePair(shape, len(places))
        self.memory, self.count = flow.pointer("memory"), flow.argument("count")
        self._bounds = flow.pointer("bounds")
        self._stride = ((self.count + (BLOCK - 1)) // BLOCK) * BLOCK
        self.shape, self.at, self.spheres = shape, at, spheres
        numbers = [self.memory.load(at["parameters"] + index) for index in places]
        self.parameters = [number.splat(self.n) for number in numbers]
        self.reach = IrValue(flow, "double", "1.0") / numbers[6]
        self.pushed = IrValue(flow, "double", str(_PUSHED)) / numbers[5]

    def text(self) -> str:
        """Return the function."""
        flow, n, first = self.flow, self.n, self.flow.argument("first")
        flow.return_if(self.count.equals(0))
        with flow.loop(flow.argument("end") - first) as block:
            here = self.memory.at((first + block.index) * n)
            *position, vx, vy, vz, radius = (
                here.load(place, n) for place in _components(self.at, self.spheres)
            )
            places = [here.at(place) for place in _sums(self.at, self.spheres)]
            sums = {f"sum{i}": place.load(lanes=n) for i, place in enumerate(places)}
            *_, nearest = sums
            used = radius > -FAR
            spheres = self._bounded([*position, radius], [vx, vy, vz], used)
            sums = self._summed(spheres, self._listed(spheres), sums)
            # Distances beyond the range of the RMP are computed only if no closer one was found.
            farthest = _largest(used.choose(sums[nearest], flow.constant(-FAR)))
            with flow.when(farthest > self.reach, **{nearest: sums[nearest]}) as rest:
                limit = self._limit(spheres, farthest)
                with self._near(spheres.center, limit, {nearest: rest[nearest]}) as turn:
                    body = self._body(
                        self.pair.distance,
                        turn.index,
                        (spheres.position, [], [], [], None, [turn[nearest]] * len(sums), []),
                    )
                    body.write()
                    turn[nearest] = flow.typed(body.output(self.pair.nearest))
                rest[nearest] = turn[nearest]
            sums[nearest] = rest[nearest]
            for place, total in zip(places, sums.values(), strict=True):
                place.store(total)
        return flow.function(f"rmp_{self.shape.name}")

    def _bounded(
        self, position: list[IrValue], velocity: list[IrValue], used: IrValue
    ) -> SphereBlock:
        """Return the spheres of a block, with a box around those in use."""
        center, half = [], []
        for x in position[:3]:
            known = used.choose(x, _first(x).splat(self.n))
            upper, lower = _largest(known), -_largest(-known)
            center.append((lower + upper) * 0.5)
            half.append((upper - lower) * 0.5)
        return SphereBlock(position, velocity, center, half, _largest(position[3]) + _SLACK)

    def _list(self, part: IrValue) -> Pointer:
        """Return the address of a list of indices: 0 far, 1 near."""
        return self._bounds.at(self._stride * (part + BOUND)).of("i64")

    def _listed(self, spheres: SphereBlock) -> tuple[IrValue, IrValue]:
        """Write the lists of obstacles in range; return the lengths of the far and near one."""
        flow, n = self.flow, self.n
        zero, none = flow.constant(0.0), flow.whole(0)
        limits = [(spheres.radius + reach).splat(n) for reach in (self.reach, self.pushed)]
        lists = [self._list(flow.whole(part)) for part in (0, 1)]
        with self._groups(spheres.center, spheres.half, far=none, near=none) as group:
            begin, squares = group.index, self._squares
            size = self._bounds.load(begin + self._stride * 3, n)
            most = [(size + limit).larger(zero) for limit in limits]
            felt, near = (squares < x * x for x in most)
            for name, chosen, place in zip(
                ("far", "near"), (felt & ~near, felt & near), lists, strict=True
            ):
                bits = chosen.bits()
                picks = flow.pointer(_PICKS, "i8").at(bits * n).load(0, n)
                kind = f"<{n} x i64>" if n > 1 else "i64"
                lanes = flow.value(kind, f"zext {picks.kind} {picks} to {kind}")
                place.store(lanes + begin.splat(n), group[name])
                group[name] = group[name] + flow.call("i64", "llvm.ctpop.i64", bits)
        return group["far"], group["near"]

    def _limit(self, spheres: SphereBlock, farthest: IrValue) -> IrValue:
        """Return the max distance from the center at which an obstacle may be the closest one."""
        size = spheres.half[0] * spheres.half[0]
        for half in spheres.half[1:]:
            size = half.fused(half, size)
        size = size.root() + spheres.radius
        most = size + farthest
        if self.shape.name not in BOUNDED_BY:
            return most
        # No sphere is farther than this from the obstacle with the closest center.
        with self._groups(spheres.center, [], least=self.flow.constant(FAR * FAR)) as group:
            group["least"] = self._squares.smaller(group["least"])
        return (-_largest(-group["least"].root()) + size + size).smaller(most)

    @contextmanager
    def _groups(
        self, center: list[IrValue], half: list[IrValue], **carried: IrValue
    ) -> Iterator[Turn]:
        """Write a loop over registers of obstacles; sets ``_squares``, the squared distances."""
        flow, n, zero = self.flow, self.n, self.flow.constant(0.0)
        at, sizes = ([x.splat(n) for x in each] for each in (center, half))
        with flow.loop((self.count + (n - 1)) // n, **carried) as group:
            group.index = group.index * n
            self._squares = zero
            for k, x in enumerate(at):
                offset = self._bounds.load(group.index + self._stride * k, n) - x
                if sizes:
                    offset = (offset.size() - sizes[k]).larger(zero)
                self._squares = offset.fused(offset, self._squares)
            yield group

    @contextmanager
    def _near(
        self, center: list[IrValue], limit: IrValue, sums: dict[str, IrValue]
    ) -> Iterator[Turn]:
        """Write a loop over the obstacles within a distance of the center."""
        flow, n = self.flow, self.n
        far = limit.splat(n)
        with self._groups(center, [], **sums) as group:
            begin, squares, zero = group.index, self._squares, flow.constant(0.0)
            size = self._bounds.load(begin + self._stride * 3, n)
            most = (size + far).larger(zero)
            with flow.bits((squares < most * most).bits(), **group.values) as turn:
                turn.index = begin + turn.index
                yield turn
            group.values = dict(turn.values)
        turn.values = dict(group.values)

    def _body(self, program: Program, index: IrValue, inputs: Inputs) -> LlvmFunction:
        """Return the writer of a program for an obstacle, whose values replace None.

        Inputs are read on demand, so the last ones may be added later.
        """
        obstacle = self.flow.pointer("obstacles").at(index * OBSTACLE)

        def value(place: int) -> str:
            return obstacle.load(place).splat(self.n)

        load = self.pair.loader(inputs, value)
        return LlvmFunction(program, self.flow, load, self.n)

    def _summed(
        self, spheres: SphereBlock, counts: tuple[IrValue, IrValue], sums: dict[str, IrValue]
    ) -> dict[str, IrValue]:
        """Return the sums with all listed obstacles added; the counts are the lists' lengths."""
        flow = self.flow
        vx, vy, vz = spheres.velocity
        squared = vx * vx + vy * vy + vz * vz
        with flow.loop(len(counts), **sums) as part:
            count = part.index.equals(0).choose(*counts)
            with flow.loop(count, **part.values) as turn:
                index = self._list(part.index).load(turn.index)
                motion = self._motion(index, spheres, squared)
                self._add(turn, index, (spheres.position, spheres.velocity, motion), part.index)
            part.values = dict(turn.values)
        return dict(part.values)

    def _motion(self, index: IrValue, spheres: SphereBlock, squared: IrValue) -> list[IrValue]:
        """Return the velocities relative to an obstacle, and their squares."""
        flow = self.flow
        moves = self._bounds.at(self._stride * MOVES).load(index) > 0.0
        at_rest = dict(zip("xyzs", (*spheres.velocity, squared), strict=True))
        with flow.when(moves, **at_rest) as moving:
            inputs: Inputs = (spheres.position, spheres.velocity, [], [], None, [], [])
            body = self._body(self.pair.relative, index, inputs)
            body.write()
            for name, value in zip("xyzs", self.pair.motion, strict=True):
                moving[name] = flow.typed(body.output(value))
        return [*moving.values.values()]

    def _add(self, turn: Turn, index: IrValue, inputs: Inputs, near: IrValue) -> None:
        """Write the sums with an obstacle added; ``near`` is 1 in the near list."""
        flow, pair = self.flow, self.pair
        push: list[IrValue] = []
        total: list[IrValue] = [*turn.values.values()]
        body = self._body(pair.program, index, (*inputs, self.parameters, None, total, push))
        body.write((pair.x, pair.nearest, pair.felt))
        *added, nearest = turn.values
        turn[nearest] = flow.typed(body.output(pair.nearest))
        felt = IrValue(flow, f"<{self.n} x i1>", body.output(pair.felt)).any()
        with flow.when(felt, **{name: turn[name] for name in added}) as close:
            push.append(self._pushed(pair, body, near, flow.constant(0.0)))
            body.write((*pair.weighted, *pair.added))
            for name, value in zip(added, pair.added, strict=True):
                close[name] = flow.typed(body.output(value))
        turn.values = {**close.values, nearest: turn[nearest]}

    def _pushed(
        self, pair: ObstaclePair, body: LlvmFunction, near: IrValue, zero: IrValue
    ) -> IrValue:
        """Write the repulsion of a pair, which is ``zero`` in the far list; return it."""
        body.write((pair.outside,))
        with self.flow.when(near.differs(0), push=zero) as strong:
            body.write((pair.push,))
            strong["push"] = IrValue(self.flow, zero.kind, body.output(pair.push))
        return strong["push"]


def _first(x: IrValue) -> IrValue:
    return x.lane(0) if x.lane_count > 1 else x


def _largest(x: IrValue) -> IrValue:
    return x.largest() if x.lane_count > 1 else x
