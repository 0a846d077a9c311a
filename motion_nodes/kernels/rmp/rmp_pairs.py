# SPDX-License-Identifier: Apache-2.0
"""Loop over all pairs of spheres and obstacles, as LLVM code.

Spheres are processed one SIMD register at a time, obstacles one by one. For each sphere, metrics (6
entries of a symmetric matrix) and forces (3) are summed, and the min distance is kept. Obstacles
whose bounding sphere is beyond the range of the RMP from the box around a register's spheres are
left out, which does not change the result; the indices of all others are listed first, a register
of obstacles at a time, so that the loop over them has no branches that depend on distances (each
one taken unexpectedly costs as much as half of a pair). Where the repulsion is less than 1e-13 of
its gain, it is left out; obstacles that may be closer are a second list.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from motion_nodes.kernels.control_flow import FunctionBuilder, Turn
from motion_nodes.kernels.expression_graph import Program
from motion_nodes.kernels.formulas.rmps import PER_OCTAVE
from motion_nodes.kernels.formulas.shapes import BALL, ShapeFormula
from motion_nodes.kernels.ir_value import IrValue, Pointer
from motion_nodes.kernels.llvm_text import LlvmFunction
from motion_nodes.kernels.memory_layout import FieldLayout
from motion_nodes.kernels.rmp.rmp_memory import (
    BLOCK,
    BOUND,
    BOUNDED_BY,
    FAR,
    MOVES,
    OBSTACLE,
    RmpModel,
    obstacle_shapes,
)
from motion_nodes.kernels.rmp.rmp_pair_formula import (
    FOUND,
    BallPair,
    ObstaclePair,
    component_places,
    sum_places,
)
from motion_nodes.kernels.simd import Lanes

_PUSHED = 30.0 * PER_OCTAVE
"""Distance from which on the repulsion is negligible, in lengths in which it halves."""
_SLACK = 1e-9
"""Added to bounds against rounding errors [m]."""
_PICKS = "@rmp_picks"

_SIDE_BY_SIDE = 2
"""Balls per turn: operations wait for those of the same one."""
_FOUND_NAMES = [[f"found{k}_{i}" for i in range(FOUND)] for k in range(_SIDE_BY_SIDE)]
_Inputs = tuple[list[IrValue] | None, ...]


def pairs_text(model: RmpModel, at: FieldLayout, spheres: int, lanes: Lanes) -> str:
    """Return the functions of the loop.

    ``rmp_<shape>(memory, first, end, obstacles, count, bounds)`` for each shape of obstacles, for
    the blocks of spheres from ``first`` to before ``end``.
    """
    places = list(model.places("collision").values())
    shapes = obstacle_shapes().values()
    loops = [_PairLoop(shape, places, at, spheres, lanes).text() for shape in shapes]
    return "\n".join([_picks(lanes.count), *loops])


def _picks(n: int) -> str:
    """Write the table of lanes by mask: the indices of its bits first."""
    rows = [[k for k in range(n) if mask >> k & 1] for mask in range(1 << n)]
    text = "".join(f"\\{k:02X}" for row in rows for k in [*row, *[0] * n][:n])
    return f'{_PICKS} = internal constant [{n << n} x i8] c"{text}"'


@dataclass(frozen=True)
class _SphereBlock:
    """The spheres of a register, and a box around the centers of those in use."""

    position: list[IrValue]
    """Position and radius."""
    velocity: list[IrValue]
    center: list[IrValue]
    half: list[IrValue]
    radius: IrValue
    """The largest one."""


@dataclass(frozen=True)
class _List:
    """A list of obstacles."""

    part: IrValue
    """0 far, 1 near."""
    count: IrValue
    spheres: _SphereBlock
    """That they are close to."""
    squared: IrValue
    """Squares of the velocities of these."""


class _PairLoop:
    """Writes the function of one shape."""

    def __init__(
        self, shape: ShapeFormula, places: list[int], at: FieldLayout, spheres: int, lanes: Lanes
    ) -> None:
        arguments = {"memory": "ptr", "first": "i64", "end": "i64", "obstacles": "ptr"}
        self.flow = flow = FunctionBuilder(lanes, **arguments, count="i64", bounds="ptr")
        self.n, self.pair = lanes.count, ObstaclePair(shape, len(places))
        self.balls = BallPair(len(places)) if shape is BALL else None
        self.memory, self.count = flow.pointer("memory"), flow.argument("count")
        self._bounds = flow.pointer("bounds")
        self._stride = ((self.count + (BLOCK - 1)) // BLOCK) * BLOCK
        self.shape, self.at, self.spheres = shape, at, spheres
        numbers = [self.memory.load(at["parameters"] + index) for index in places]
        self.parameters = [number.splat(self.n) for number in numbers]
        self.reach = IrValue(flow, "double", "1.0") / numbers[6]
        self.pushed = IrValue(flow, "double", repr(_PUSHED)) / numbers[5]

    def text(self) -> str:
        """Return the function."""
        flow, n, first = self.flow, self.n, self.flow.argument("first")
        flow.return_if(self.count.equals(0))
        with flow.loop(flow.argument("end") - first) as block:
            here = self.memory.at((first + block.index) * n)
            *position, vx, vy, vz, radius = (
                here.load(place, n) for place in component_places(self.at, self.spheres)
            )
            places = [here.at(place) for place in sum_places(self.at, self.spheres)]
            sums = {f"sum{i}": place.load(lanes=n) for i, place in enumerate(places)}
            *_, nearest = sums
            used = radius > -FAR
            spheres = self._bounded([*position, radius], [vx, vy, vz], used)
            counts = self._listed(spheres)
            squared = vx * vx + vy * vy + vz * vz
            with flow.loop(len(counts), **sums) as part:
                chosen = _List(part.index, part.index.equals(0).choose(*counts), spheres, squared)
                add = self._add_others if self.balls is None else self._add_balls
                part.values = add(chosen, part.values)
            sums = dict(part.values)
            # Distances beyond the range of the RMP matter where no closer one was found.
            farthest = _largest(used.choose(sums[nearest], flow.constant(-FAR)))
            with flow.when(farthest > self.reach, **{nearest: sums[nearest]}) as rest:
                limit = self._limit(spheres, farthest)
                with self._near(spheres.center, limit, {nearest: rest[nearest]}) as turn:
                    body = self._body(
                        self.pair.distance,
                        self.pair.counts,
                        turn.index,
                        (spheres.position, [], [], [], None, [turn[nearest]] * len(sums), []),
                    )
                    body.write()
                    turn[nearest] = flow.typed(body.output(self.pair.nearest))
                rest[nearest] = turn[nearest]
            sums[nearest] = rest[nearest]
            for place, total in zip(places, sums.values(), strict=True):
                place.store(total)
        return flow.function(f"rmp_{self.shape.name}", aligned=True)

    def _bounded(
        self, position: list[IrValue], velocity: list[IrValue], used: IrValue
    ) -> _SphereBlock:
        """Return the spheres of a block with a box around the used ones."""
        center, half = [], []
        for x in position[:3]:
            known = used.choose(x, _first(x).splat(self.n))
            upper, lower = _largest(known), -_largest(-known)
            center.append((lower + upper) * 0.5)
            half.append((upper - lower) * 0.5)
        return _SphereBlock(position, velocity, center, half, _largest(position[3]) + _SLACK)

    def _list(self, part: IrValue) -> Pointer:
        """Return the address of a list of indices: 0 far, 1 near."""
        return self._bounds.at(self._stride * (part + BOUND)).of("i64")

    def _listed(self, spheres: _SphereBlock) -> tuple[IrValue, IrValue]:
        """Write lists of the obstacles within the range; return their lengths, far and near."""
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

    def _limit(self, spheres: _SphereBlock, farthest: IrValue) -> IrValue:
        """Return how far from the center obstacles may be the closest of one of the spheres."""
        size = spheres.half[0] * spheres.half[0]
        for half in spheres.half[1:]:
            size = half.fused(half, size)
        size = size.root() + spheres.radius
        most = size + farthest
        if self.shape.name not in BOUNDED_BY:
            return most
        # None of the spheres is farther than this from the obstacle with the closest center.
        with self._groups(spheres.center, [], least=self.flow.constant(FAR * FAR)) as group:
            group["least"] = self._squares.smaller(group["least"])
        return (-_largest(-group["least"].root()) + size + size).smaller(most)

    @contextmanager
    def _groups(
        self, center: list[IrValue], half: list[IrValue], **carried: IrValue
    ) -> Iterator[Turn]:
        """Write a loop over registers of obstacles; ``_squares`` are those of distances."""
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
        """Write a loop over the obstacles up to a limit."""
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

    def _body(
        self, program: Program, counts: tuple[int, ...], index: IrValue | None, inputs: _Inputs
    ) -> LlvmFunction:
        """Return the writer of a program about an obstacle, whose numbers take the place of None.

        Inputs are read when they are needed, so the last ones may be added meanwhile.
        """
        number = self.flow.whole(0) if index is None else index
        obstacle = self.flow.pointer("obstacles").at(number * OBSTACLE)

        def load(place: int) -> str:
            for count, values in zip(counts, inputs, strict=True):
                if place < count:
                    return obstacle.load(place).splat(self.n) if values is None else values[place]
                place -= count
            raise IndexError(place)

        return LlvmFunction(program, self.flow, load, self.n)

    def _motion(self, index: IrValue, spheres: _SphereBlock, squared: IrValue) -> list[IrValue]:
        """Return the velocities relative to an obstacle, and their squares."""
        flow = self.flow
        moves = self._bounds.at(self._stride * MOVES).load(index) > 0.0
        at_rest = dict(zip("xyzs", (*spheres.velocity, squared), strict=True))
        with flow.when(moves, **at_rest) as moving:
            body = self._body(
                self.pair.relative,
                self.pair.counts,
                index,
                (spheres.position, spheres.velocity, [], [], None, [], []),
            )
            body.write()
            for name, value in zip("xyzs", self.pair.motion, strict=True):
                moving[name] = flow.typed(body.output(value))
        return [*moving.values.values()]

    def _pair(self, chosen: _List, place: IrValue) -> tuple[IrValue, IrValue, list[IrValue]]:
        """Return an obstacle of a list: its index, the radii, and the relative velocities.

        Beyond the end of the list nothing is near to it.
        """
        flow = self.flow
        exists = place < chosen.count
        zero = flow.whole(0)
        index = exists.choose(self._list(chosen.part).load(exists.choose(place, zero)), zero)
        beyond = exists.choose(0.0, IrValue(flow, "double", str(FAR)))
        radius = chosen.spheres.position[3] - beyond.splat(self.n)
        return index, radius, self._motion(index, chosen.spheres, chosen.squared)

    def _add_balls(self, chosen: _List, sums: dict[str, IrValue]) -> dict[str, IrValue]:
        """Write a loop over pairs of balls of a list; return the sums with theirs added.

        Distances are those of the next two balls.
        """
        flow, balls, begin = self.flow, self.balls, self._first_stage(chosen, self.flow.whole(0))
        assert balls is not None
        for body in begin:
            body.write()
        ahead = self._found(begin)
        with flow.loop((chosen.count + 1) // _SIDE_BY_SIDE, **sums, **ahead) as turn:
            begin = self._first_stage(chosen, turn.index + 1)
            pushes: list[list[IrValue]] = [[] for _ in begin]
            totals: list[list[IrValue]] = [[] for _ in begin]
            found = [[turn[name] for name in names] for names in _FOUND_NAMES]
            bodies = [
                self._body(balls.second, balls.second_counts, None, (x, self.parameters, t, p))
                for x, t, p in zip(found, totals, pushes, strict=True)
            ]
            for body in bodies:
                body.write((balls.outside,))
            nothing = {f"push{k}": flow.constant(0.0) for k in range(len(bodies))}
            with flow.when(chosen.part.differs(0), **nothing) as strong:
                for name, body in zip(nothing, bodies, strict=True):
                    body.write((balls.push,))
                    strong[name] = flow.typed(body.output(balls.push))
            for push, value in zip(pushes, strong.values.values(), strict=True):
                push.append(value)
            steps = [body.steps(balls.weighted) for body in bodies]
            for _ in itertools.zip_longest(*steps, *(body.steps() for body in begin)):
                pass
            total = {name: turn[name] for name in sums}
            for body, values in zip(bodies, totals, strict=True):
                values[:] = total.values()
                results = (*balls.added, balls.nearest)
                body.write(results)
                total = {
                    name: flow.typed(body.output(value))
                    for name, value in zip(total, results, strict=True)
                }
            turn.values = {**total, **self._found(begin)}
        return {name: turn[name] for name in sums}

    def _first_stage(self, chosen: _List, turn: IrValue) -> list[LlvmFunction]:
        """Return the writers of the distances from the balls of a turn."""
        balls, bodies = self.balls, list[LlvmFunction]()
        assert balls is not None
        for k in range(_SIDE_BY_SIDE):
            index, radius, motion = self._pair(chosen, turn * _SIDE_BY_SIDE + k)
            sphere = [*chosen.spheres.position[:3], radius]
            bodies.append(
                self._body(balls.first, balls.first_counts, index, (sphere, motion, None))
            )
        return bodies

    def _found(self, bodies: list[LlvmFunction]) -> dict[str, IrValue]:
        """Return the results of the first stage by name."""
        assert self.balls is not None
        return {
            name: self.flow.typed(body.output(value))
            for names, body in zip(_FOUND_NAMES, bodies, strict=True)
            for name, value in zip(names, self.balls.found, strict=True)
        }

    def _add_others(self, chosen: _List, sums: dict[str, IrValue]) -> dict[str, IrValue]:
        """Write a loop over the obstacles of a list; return the sums with theirs added."""
        flow, pair = self.flow, self.pair
        mask = f"<{self.n} x i1>" if self.n > 1 else "i1"
        with flow.loop(chosen.count, **sums) as turn:
            index, _, motion = self._pair(chosen, turn.index)
            spheres, push, total = chosen.spheres, list[IrValue](), list(turn.values.values())
            inputs = (spheres.position, spheres.velocity, motion, self.parameters, None)
            body = self._body(pair.program, pair.counts, index, (*inputs, total, push))
            body.write((pair.nearest, pair.felt))
            *added, nearest = turn.values
            turn[nearest] = flow.typed(body.output(pair.nearest))
            felt = IrValue(flow, mask, body.output(pair.felt)).any()
            with flow.when(felt, **{name: turn[name] for name in added}) as close:
                body.write((pair.outside,))
                with flow.when(chosen.part.differs(0), push=flow.constant(0.0)) as strong:
                    body.write((pair.push,))
                    strong["push"] = flow.typed(body.output(pair.push))
                push.append(strong["push"])
                body.write(pair.added)
                for name, value in zip(added, pair.added, strict=True):
                    close[name] = flow.typed(body.output(value))
            turn.values = {**close.values, nearest: turn[nearest]}
        return dict(turn.values)


def _first(x: IrValue) -> IrValue:
    return x.lane(0) if x.lane_count > 1 else x


def _largest(x: IrValue) -> IrValue:
    return x.largest() if x.lane_count > 1 else x


def reductions(lanes: Lanes) -> list[str]:
    """Return the declarations of functions that the loops call."""
    if lanes.count == 1:
        return []
    return [f"declare double @llvm.vector.reduce.fmax.{lanes.suffix}({lanes.type})"]
