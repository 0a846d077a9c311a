# SPDX-License-Identifier: Apache-2.0
"""Loops over all pairs of spheres and obstacles, one function per shape, as LLVM code.

Spheres are processed one SIMD register at a time, obstacles one by one. For each sphere, metrics (6
entries of a symmetric matrix) and forces (3) are summed, and the min distance is kept. Obstacles
whose bounding sphere is beyond the range of the RMP from the box around a register's spheres are
skipped, which does not change the result; the indices of all others are listed first, a register of
obstacles at a time, so that the loop over them has no branches that depend on distances (a
misprediction costs half as much as a pair). Repulsions below 1e-13 of their gain are omitted;
obstacles that may be closer are in a second list.

Balls have a loop of their own. Robots among point clouds or many small objects have thousands of
such pairs, so they are computed in float32, the same spheres beside two balls in one register.
Distances are accurate to 1e-6 m, sums to 1e-5 of their largest terms, far below the accuracy of any
sensor.

The signed distance of a moving point has a direction, a rate and a curvature. The curvature is v^T
H v, with H the second derivative of the distance: the second time derivative of the distance at
constant velocity. Inside an obstacle it is taken as 0. Direction and curvature come from the
distance formula (:mod:`motion_nodes.kernels.formulas.shapes`), evaluated on moving values.

Obstacles are stored as in :class:`motion_nodes.kernels.rmp.rmp_memory.ObstacleArrays`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from motion_nodes.kernels.expression_graph import ExpressionGraph, Program, Value
from motion_nodes.kernels.formulas.ops import (
    TINY,
    MotionOps,
    Moving,
    Ops,
    Vector,
    cross,
    dot,
    minus,
    moving,
    plus,
    scaled,
    times_vector,
    transposed,
)
from motion_nodes.kernels.formulas.rmps import collision, repulsion
from motion_nodes.kernels.formulas.shapes import BALL, ShapeFormula, signed_distance
from motion_nodes.kernels.llvm_builder import FunctionBuilder, IrValue, Pointer, Turn, Writer
from motion_nodes.kernels.llvm_text import LlvmFunction, declarations
from motion_nodes.kernels.memory_layout import FieldLayout
from motion_nodes.kernels.rmp.rmp_memory import (
    BALL_VALUES,
    BLOCK,
    BOUND,
    BOUNDED_BY,
    FAR,
    MOVES,
    OBSTACLE,
    SINGLES,
    RmpModel,
    obstacle_shapes,
)
from motion_nodes.kernels.rmp.rmp_robot import UPPER
from motion_nodes.kernels.simd import Lanes

_SUMS = 9
_PUSHED = 30.0
"""Distance beyond which the repulsion is negligible, in decay lengths."""
_SLACK = 1e-9
"""Margin of bounds for rounding errors [m]."""
_PICKS = "@rmp_picks"
Inputs = tuple[list[IrValue] | None, ...]
"""Inputs of the formulas of a pair."""


@dataclass(frozen=True)
class Distance:
    """Signed distance of a point to the surface of an obstacle."""

    value: Any
    """Signed distance [m]."""
    away: Vector
    """Vector away from the obstacle in the base frame, not normalized."""
    rate: Any
    """Time derivative of the distance [m/s]."""
    curvature: Any
    """Second time derivative at constant velocity [m/s^2]; 0 inside."""
    per_length: Any = 1.0
    """1 / length of ``away``."""

    @property
    def n(self) -> Vector:
        """Unit vector away from the obstacle."""
        return scaled(self.per_length, self.away)


def relative_velocity(
    p: Sequence[Any], v: Sequence[Any], obstacle: Sequence[Any]
) -> tuple[Vector, Any]:
    """Return the velocity of a point relative to an obstacle [m/s], and its square.

    Arguments as for :func:`distance`; for an obstacle at rest the velocity is ``v``.
    """
    offset = minus(p, obstacle[9:12])
    relative = minus(v, plus(obstacle[16:19], cross(obstacle[19:22], offset)))
    return relative, dot(relative, relative)


def distance(
    ops: Ops, shape: ShapeFormula, p: Sequence[Any], v: Sequence[Any], obstacle: Sequence[Any]
) -> Distance:
    """Return the distance of a point to an obstacle, both moving.

    Args:
        ops: operations.
        shape: shape of the obstacle.
        p: position of the point in the base frame [m], shape (3,).
        v: its velocity [m/s], shape (3,).
        obstacle: the 22 values of a row, see :class:`ObstacleArrays`.
    """
    return moved_distance(ops, shape, p, *relative_velocity(p, v, obstacle), obstacle)


def moved_distance(
    ops: Ops,
    shape: ShapeFormula,
    p: Sequence[Any],
    relative: Vector,
    squared: Any,
    obstacle: Sequence[Any],
) -> Distance:
    """Return the distance, given the relative velocity and its square; see :func:`distance`."""
    R = [list(obstacle[3 * i : 3 * i + 3]) for i in range(3)]
    offset = minus(p, obstacle[9:12])
    if shape is BALL:
        return _from_ball(ops, offset, relative, squared, obstacle[15])
    if shape.rotated:
        back = transposed(R)
        offset, relative = times_vector(back, offset), times_vector(back, relative)
    x = [Moving(a, b) for a, b in zip(offset, relative, strict=True)]
    sizes = [Moving(size) for size in obstacle[12:15]]
    found = signed_distance(MotionOps(ops), shape, x, sizes)
    n = [moving(component).value for component in found.direction]
    curvature = ops.choose(found.inside, 0.0, found.length.bend)
    rate = dot(n, relative)
    n = times_vector(R, n) if shape.rotated else n
    return Distance(found.value.value - obstacle[15], n, rate, curvature)


def _from_ball(ops: Ops, offset: Vector, relative: Vector, squared: Any, radius: Any) -> Distance:
    """Return the distance from a ball; equal to that of its formula, with fewer operations."""
    length = ops.root(dot(offset, offset))
    inside = ops.less(length, TINY)
    per_length = ops.divide(1.0, ops.choose(inside, 1.0, length))
    away = [ops.choose(inside, 1.0, offset[0]), *offset[1:]]
    rate = dot(away, relative) * per_length
    curvature = ops.choose(inside, 0.0, (squared - rate * rate) * per_length)
    return Distance(length - radius, away, rate, curvature, per_length)


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


def single_lanes(lanes: Lanes) -> Lanes:
    """Return the type of float32 values in registers of the same size."""
    return Lanes("float", 2 * lanes.count)


class BallLoop(PairLoop):
    """Writes the function of balls, for at least two lanes."""

    def __init__(
        self, shape: ShapeFormula, places: list[int], at: FieldLayout, spheres: int, lanes: Lanes
    ) -> None:
        super().__init__(shape, places, at, spheres, lanes)
        self._lanes = single_lanes(lanes)
        self._single = ObstaclePair(shape, len(places), "float")
        self._writer = Writer(self._lanes, self.flow.lines, "s")
        self._singles = [self._doubled(x) for x in self.parameters]
        halves = ", ".join(f"i1 {half}" for half in ("false", "true") for _ in range(lanes.count))
        self._second = IrValue(self.flow, f"<{self._lanes.count} x i1>", f"<{halves}>")

    def _doubled(self, x: IrValue) -> IrValue:
        single = x.to("float")
        return single.beside(single)

    def _summed(
        self, spheres: SphereBlock, counts: tuple[IrValue, IrValue], sums: dict[str, IrValue]
    ) -> dict[str, IrValue]:
        flow, n = self.flow, self.n
        position, velocity = (
            [self._doubled(x) for x in each] for each in (spheres.position, spheres.velocity)
        )
        vx, vy, vz = velocity
        at_rest = [*velocity, vx * vx + vy * vy + vz * vz]
        *_, nearest = sums
        totals = {name: self._constant(0.0) for name in sums} | {nearest: self._constant(FAR)}
        with flow.loop(len(counts), **totals) as part:
            count = part.index.equals(0).choose(*counts)
            with flow.loop((count + 1) // 2, **part.values) as turn:
                self._add_two(turn, count, part.index, (position, velocity, at_rest))
            part.values = dict(turn.values)
        halves = [[part[name].lanes(start, n).to("double") for start in (0, n)] for name in sums]
        *added, (first, second) = halves
        found = {name: sums[name] + (a + b) for name, (a, b) in zip(sums, added, strict=False)}
        return found | {nearest: first.smaller(second).smaller(sums[nearest])}

    def _constant(self, number: float) -> IrValue:
        return IrValue(self.flow, self._lanes.type, self._lanes.constant(number))

    def _typed(self, text: str) -> IrValue:
        return IrValue(self.flow, self._lanes.type, text)

    def _add_two(
        self, turn: Turn, count: IrValue, near: IrValue, spheres: tuple[list[IrValue], ...]
    ) -> None:
        """Write the sums with two balls of a list added; ``near`` is 1 in the near list."""
        flow, pair = self.flow, self._single
        position, velocity, at_rest = spheres
        begin = turn.index * 2
        exists = begin + 1 < count
        listed = self._list(near)
        balls = [listed.load(begin), listed.load(exists.choose(begin + 1, begin))]
        # A ball too few: the first one is repeated, with spheres that are out of its range.
        beyond = exists.choose(0.0, IrValue(flow, "float", Lanes("float").constant(FAR))).splat(
            2 * self.n
        )
        *center, radius = position
        apart = [*center, radius - self._second.choose(beyond, self._constant(0.0))]
        motion = self._motions(balls, position, velocity, at_rest)
        push: list[IrValue] = []
        total = [*turn.values.values()]
        inputs = (apart, velocity, motion, self._singles, None, total, push)
        body = self._two(pair.program, balls, inputs)
        body.write((pair.nearest,))
        push.append(self._pushed(pair, body, near, self._constant(0.0)))
        body.write((*pair.weighted, *pair.added))
        results: tuple[Value, ...] = (*pair.added, pair.nearest)
        for name, value in zip(turn.values, results, strict=True):
            turn[name] = self._typed(body.output(value))

    def _motions(
        self,
        balls: list[IrValue],
        position: list[IrValue],
        velocity: list[IrValue],
        at_rest: list[IrValue],
    ) -> list[IrValue]:
        """Return the velocities relative to two balls, and their squares."""
        row = self._bounds.at(self._stride * MOVES)
        moves = row.load(balls[0]) + row.load(balls[1]) > 0.0
        with self.flow.when(moves, **dict(zip("xyzs", at_rest, strict=True))) as moving:
            body = self._two(
                self._single.relative, balls, (position, velocity, [], [], None, [], [])
            )
            body.write()
            for name, value in zip("xyzs", self._single.motion, strict=True):
                moving[name] = self._typed(body.output(value))
        return [*moving.values.values()]

    def _two(self, program: Program, balls: list[IrValue], inputs: Inputs) -> LlvmFunction:
        """Return the writer of a program for two balls, whose values replace None."""
        load = self._single.loader(inputs, lambda place: self._of_two(balls, place))
        return LlvmFunction(program, self._writer, load, self._lanes.count)

    def _of_two(self, balls: list[IrValue], place: int) -> IrValue:
        """Return a value of both balls, each in its half of the lanes."""
        if place in BALL_VALUES:
            table = self._bounds.at(self._stride * SINGLES).of("float")
            at, step = table.at(BALL_VALUES.index(place)), len(BALL_VALUES)
            values = [at.load(ball * step) for ball in balls]
        else:
            rows = self.flow.pointer("obstacles").at(place)
            values = [rows.load(ball * OBSTACLE).to("float") for ball in balls]
        first, second = (value.splat(self._lanes.count) for value in values)
        return self._second.choose(second, first)


def pairs_text(model: RmpModel, at: FieldLayout, spheres: int, lanes: Lanes) -> str:
    """Return the functions of the loops.

    ``rmp_<shape>(memory, first, end, obstacles, count, bounds)`` for each shape of obstacles; it
    processes the blocks of spheres from ``first`` to ``end - 1``.
    """
    places = list(model.places("collision").values())
    loops = [
        (BallLoop if shape is BALL else PairLoop)(shape, places, at, spheres, lanes).text()
        for shape in obstacle_shapes().values()
    ]
    return "\n".join([picks_text(lanes.count), *loops])


def pair_declarations(lanes: Lanes) -> list[str]:
    """Return the declarations of the functions called by the loops, besides those of ``lanes``."""
    largest = f"declare double @llvm.vector.reduce.fmax.{lanes.suffix}({lanes.type})"
    return [largest, *declarations(single_lanes(lanes))]
