# SPDX-License-Identifier: Apache-2.0
"""Loop over all pairs of spheres and balls, as LLVM code.

Robots among point clouds or many small objects have thousands of such pairs, so they are computed
in float32, the same spheres beside two balls in one register. Distances are accurate to 1e-6 m,
sums to 1e-5 of their largest terms, far below the accuracy of any sensor.
"""

from __future__ import annotations

from motion_nodes.kernels.control_flow import Turn
from motion_nodes.kernels.expression_graph import Program, Value
from motion_nodes.kernels.formulas.shapes import ShapeFormula
from motion_nodes.kernels.ir_value import IrValue
from motion_nodes.kernels.llvm_text import LlvmFunction
from motion_nodes.kernels.memory_layout import FieldLayout
from motion_nodes.kernels.rmp.rmp_memory import BALL_VALUES, FAR, MOVES, OBSTACLE, SINGLES
from motion_nodes.kernels.rmp.rmp_pair_loop import Inputs, ObstaclePair, PairLoop, SphereBlock
from motion_nodes.kernels.simd import Lanes, Writer


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
