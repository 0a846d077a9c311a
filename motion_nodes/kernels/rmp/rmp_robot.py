# SPDX-License-Identifier: Apache-2.0
"""RMPflow of one robot as an expression graph: sphere motion, and resolution of all RMPs.

Velocities and forces of links are those of rigid bodies about the origin of the base frame:
(angular, linear), where the linear part is that of the body-fixed point at the origin. Thus joint
columns and link metrics simply add along the tree, and J^T M J is computed without a Jacobian per
sphere, as the composite rigid body algorithm does it for masses. Source: Featherstone, Rigid Body
Dynamics Algorithms (2008), sections 2.2 to 2.5 and 6.2.

Velocities of links are distributed to their spheres, metrics and forces of spheres added to their
links. Spheres are processed one SIMD register at a time. The spheres of a link need not fill their
last block: values written beyond them belong to the next link, which is processed afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from motion_nodes.kernels.expression_graph import ExpressionGraph, Program, Value
from motion_nodes.kernels.formulas import rmps as formulas
from motion_nodes.kernels.formulas.ops import (
    Vector,
    cross,
    dot,
    factorized,
    minus,
    plus,
    scaled,
    solved,
    times_vector,
)
from motion_nodes.kernels.formulas.rmps import JointState, ToolState
from motion_nodes.kernels.kinematic_arrays import PRISMATIC, REVOLUTE
from motion_nodes.kernels.llvm_builder import FunctionBuilder
from motion_nodes.kernels.llvm_text import LlvmFunction
from motion_nodes.kernels.memory_layout import FieldLayout
from motion_nodes.kernels.rmp.rmp_memory import MOTION, WRENCH, RmpModel, RmpRun, sphere_runs
from motion_nodes.kernels.robot_codegen import KinematicsTracer
from motion_nodes.kernels.simd import Lanes

UPPER = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
"""Entries of a symmetric matrix in storage order."""
_TERMS = 27
_LEAST_PIVOT = 1e-300
_Terms = list[Value]


def bodies_text(at: FieldLayout, spheres: int, runs: Sequence[RmpRun], lanes: Lanes) -> str:
    """Return the functions ``rmp_place(memory)`` and ``rmp_collect(memory)``.

    The first computes position, velocity and J-dot qd of each sphere from the motion of its link;
    the second sums metrics and forces of the spheres of each link, as a rigid body about the
    origin.
    """
    return "\n".join(
        (
            _place_run(at, spheres, lanes),
            _place_all(at, runs, lanes),
            _wrench_loop(at, spheres, lanes),
            _collect(at, runs, lanes),
        )
    )


def moved_point(
    p: Vector, turn: Vector, linear: Vector, bend: Vector, linear_bend: Vector
) -> tuple[Vector, Vector, Vector]:
    """Return position, velocity and J-dot qd of a point at p of a rigid body.

    Args:
        p: position of the point [m].
        turn: angular velocity of the body [rad/s].
        linear: velocity of the body-fixed point at the origin [m/s].
        bend: angular part of the spatial acceleration at zero joint accelerations [rad/s^2].
        linear_bend: its linear part [m/s^2].

    Source: Featherstone, Rigid Body Dynamics Algorithms (2008), section 2.11.
    """
    v = plus(linear, cross(turn, p))
    return p, v, plus(plus(linear_bend, cross(bend, p)), cross(turn, v))


def _place_run(at: FieldLayout, spheres: int, lanes: Lanes) -> str:
    """Write ``rmp_place_run(memory, link, first, blocks)``."""
    tape = ExpressionGraph()
    numbers: list[Value] = [tape.input(i) for i in range(MOTION)]
    centre: Vector = [tape.input(MOTION + i) for i in range(3)]
    R = [numbers[0:3], numbers[3:6], numbers[6:9]]
    p = plus(numbers[9:12], times_vector(R, centre))
    parts = moved_point(p, numbers[12:15], numbers[15:18], numbers[18:21], numbers[21:24])
    outputs = tuple(x for part in parts for x in part)

    flow, n = (
        FunctionBuilder(lanes, memory="ptr", link="ptr", first="i64", blocks="i64"),
        lanes.count,
    )
    link = [flow.pointer("link").load(i).splat(n) for i in range(MOTION)]
    spheres_here = flow.pointer("memory").at(flow.argument("first"))
    with flow.loop(flow.argument("blocks")) as block:
        here = spheres_here.at(block.index * n)

        def load(index: int) -> str:
            if index < MOTION:
                return link[index]
            return here.load(at["centre"] + (index - MOTION) * spheres, n)

        body = LlvmFunction(Program(tape, MOTION + 3, (outputs,)), flow, load, n)
        body.write()
        for k, value in enumerate(outputs):
            field = ("position", "velocity", "bias")[k // 3]
            here.store(flow.typed(body.output(value)), at[field] + k % 3 * spheres)
    return flow.function("rmp_place_run")


def _place_all(at: FieldLayout, runs: Sequence[RmpRun], lanes: Lanes) -> str:
    flow = FunctionBuilder(memory="ptr")
    memory = flow.pointer("memory")
    for k, run in enumerate(runs):
        link, blocks = memory.at(at["links"] + MOTION * k), -(-run.count // lanes.count)
        flow.call("void", "rmp_place_run", memory, link, run.start, blocks)
    return flow.function("rmp_place")


def _wrench_loop(at: FieldLayout, spheres: int, lanes: Lanes) -> str:
    """Write ``rmp_wrenches(memory)``: metrics and forces of spheres as those of rigid bodies.

    With the twist (angular velocity w, velocity v0 of the origin), the velocity of a point p is v0
    + w x p; so its metric M becomes [p] M [p]^T, [p] M and M, its force f the moment p x f, and f.
    """
    tape = ExpressionGraph()
    inputs: list[Value] = [tape.input(i) for i in range(15)]
    p, bias, force = list(inputs[0:3]), list(inputs[3:6]), list(inputs[12:15])
    M = symmetric(inputs[6:12])
    rest = minus(force, times_vector(M, bias))
    outputs = tuple(rigid_terms(p, M, rest))
    fields = [("position", 3), ("bias", 3), ("metric", 6), ("force", 3)]
    places = [at[field] + k * spheres for field, count in fields for k in range(count)]

    flow, n = FunctionBuilder(lanes, memory="ptr"), lanes.count
    memory = flow.pointer("memory")
    with flow.loop(spheres // n) as block:
        first = block.index * n
        here, rows = memory.at(first), memory.at(first * WRENCH)
        body = LlvmFunction(
            Program(tape, 15, (outputs,)), flow, lambda i: here.load(places[i], n), n
        )
        body.write()
        values = [body.output(value) for value in outputs]
        values += [lanes.constant(0.0)] * (WRENCH - _TERMS)
        for k in range(0, WRENCH, n):
            for lane, part in enumerate(flow.transposed(values[k : k + n])):
                rows.store(flow.typed(part), at["wrench"] + lane * WRENCH + k)
    return flow.function("rmp_wrenches")


def _collect(at: FieldLayout, runs: Sequence[RmpRun], lanes: Lanes) -> str:
    flow, n = FunctionBuilder(lanes, memory="ptr"), lanes.count
    memory = flow.pointer("memory")
    flow.call("void", "rmp_wrenches", memory)
    for k, run in enumerate(runs):
        for part in range(0, WRENCH, n):
            first = at["wrench"] + run.start * WRENCH + part
            total = memory.load(first, n)
            for sphere in range(1, run.count):
                total = total + memory.load(first + sphere * WRENCH, n)
            memory.store(total, at["sums"] + k * WRENCH + part)
    return flow.function("rmp_collect")


def symmetric(upper: Sequence[Value]) -> list[list[Value]]:
    """Return a symmetric matrix, shape (3, 3), from its six entries in the order of UPPER."""
    M: list[list[Value]] = [[0.0] * 3 for _ in range(3)]
    for value, (i, j) in zip(upper, UPPER, strict=True):
        M[i][j] = M[j][i] = value
    return M


def rigid_terms(p: Vector, M: list[list[Value]], force: Vector) -> list[Value]:
    """Return the metric and force of a point at p [m] as those of its rigid body.

    Returns:
        27 values: upper part of the angular block (6), angular by linear block (9), upper part of
            the linear block (6), moment (3), force (3).
    """
    columns = [cross(p, [M[0][j], M[1][j], M[2][j]]) for j in range(3)]
    B = [[columns[j][i] for j in range(3)] for i in range(3)]
    angular = [cross(p, row) for row in B]
    return [
        *(angular[i][j] for i, j in UPPER),
        *(x for row in B for x in row),
        *(M[i][j] for i, j in UPPER),
        *cross(p, force),
        *force,
    ]


@dataclass(frozen=True)
class _LinkMotion:
    """Velocity of a link, and its acceleration at zero joint accelerations."""

    turn: Vector
    linear: Vector
    bend: Vector
    linear_bend: Vector


class RmpTracer:
    """Traces the parts of the policy; inputs are offsets in the memory."""

    def __init__(self, model: RmpModel, at: FieldLayout) -> None:
        self.model = model
        self.at = at
        self._tree = KinematicsTracer(model.arrays)
        self.tape = self._tree.tape
        zero: Vector = [0.0, 0.0, 0.0]
        self._motions = {0: _LinkMotion(zero, zero, zero, zero)}
        self._columns: dict[int, tuple[Vector, Vector]] = {}

    def _in(self, field: str, index: int = 0) -> Value:
        # Inputs 0..n-1 of the tree are the configuration; all others follow.
        return self.tape.input(self.model.arrays.joint_count + self.at[field] + index)

    def _vector(self, field: str) -> Vector:
        return [self._in(field, i) for i in range(3)]

    def column(self, row: int) -> tuple[Vector, Vector]:
        """Return the (angular, linear) velocity of a row per joint velocity."""
        if row not in self._columns:
            arrays = self.model.arrays
            R, p = self._tree.pose(row)
            axis = times_vector(R, [float(a) for a in arrays.axis[row]])
            axis = scaled(float(arrays.multiplier[row]), axis)
            if arrays.kind[row] == REVOLUTE:
                self._columns[row] = (axis, cross(p, axis))
            else:
                self._columns[row] = ([0.0, 0.0, 0.0], axis)
        return self._columns[row]

    def motion(self, row: int) -> _LinkMotion:
        """Return the velocity of a row, and its acceleration at zero joint accelerations."""
        if row in self._motions:
            return self._motions[row]
        arrays = self.model.arrays
        above = self.motion(int(arrays.parent[row]))
        if arrays.kind[row] not in (REVOLUTE, PRISMATIC):
            self._motions[row] = above
            return above
        qd = self._in("qd", int(arrays.q_index[row]))
        turn, linear = (scaled(qd, part) for part in self.column(row))
        bend = cross(above.turn, turn)
        linear_bend = plus(cross(above.turn, linear), cross(above.linear, turn))
        self._motions[row] = _LinkMotion(
            plus(above.turn, turn),
            plus(above.linear, linear),
            plus(above.bend, bend),
            plus(above.linear_bend, linear_bend),
        )
        return self._motions[row]

    def _tool_point(self) -> tuple[Vector, Vector, Vector]:
        """Return position, velocity and J-dot qd of the tool."""
        _, p = self._tree.pose(self.model.tool_row)
        m = self.motion(self.model.tool_row)
        return moved_point(p, m.turn, m.linear, m.bend, m.linear_bend)

    def rows(self) -> dict[int, Value]:
        """Return the results of the first part, by offset in the memory: motion of the links."""
        stored: dict[int, Value] = {}
        for k, run in enumerate(sphere_runs(self.model)):
            R, p = self._tree.pose(run.row)
            m = self.motion(run.row)
            numbers = [*R[0], *R[1], *R[2], *p, *m.turn, *m.linear, *m.bend, *m.linear_bend]
            stored.update({self.at["links"] + MOTION * k + i: x for i, x in enumerate(numbers)})
        for k, row in enumerate(self.model.moving_rows):
            column = [*self.column(row)[0], *self.column(row)[1]]
            stored.update({self.at["columns"] + 6 * k + i: x for i, x in enumerate(column)})
        R, p = self._tree.pose(self.model.tool_row)
        elements = [x for i in range(3) for x in (*R[i], p[i])]
        stored.update({self.at["tool"] + i: x for i, x in enumerate(elements)})
        return stored

    def resolve(self) -> dict[int, Value]:
        """Return the results of the second part: the linear system without link pairs."""
        n, at = self.model.active, self.at
        M: list[list[Value]] = [[0.0] * n for _ in range(n)]
        f: list[Value] = [0.0] * n
        self._add_bodies(M, f)
        self._add_joints(M, f)
        stored = {at["rhs"] + i: f[i] for i in range(n)}
        for i in range(n):
            for j in range(n):
                stored[at["M"] + i * n + j] = M[max(i, j)][min(i, j)]
        return stored

    def solve(self) -> dict[int, Value]:
        """Return the results of the third part: the solution of the system in memory.

        A pivot that is negligible relative to its diagonal entry indicates an ill-conditioned
        system, so the min relative pivot is stored as well.
        """
        tape, n = self.tape, self.model.active
        M = [[self._in("M", i * n + j) for j in range(n)] for i in range(n)]
        f = [self._in("rhs", i) for i in range(n)]
        L, inverse, pivots = factorized(tape, M, _LEAST_PIVOT)
        least: Value = 1.0
        for i, pivot in enumerate(pivots):
            least = tape.minimum(tape.divide(pivot, tape.maximum(M[i][i], _LEAST_PIVOT)), least)
        solution, most = solved(L, inverse, f), self._coefficients("resolve")["most"]
        norm = tape.root(dot(solution, solution))
        share = tape.divide(most, tape.maximum(norm, most))
        stored = {self.at["qdd"] + i: share * x for i, x in enumerate(solution)}
        return {**stored, self.at["least_pivot"]: least}

    def _add_bodies(self, M: list[list[Value]], f: list[Value]) -> None:
        """Add all RMPs that act on links."""
        rows = self._link_terms()
        rows[self.model.tool_row] = plus(
            rows.get(self.model.tool_row, [0.0] * _TERMS), self._tool_terms()
        )
        arrays = self.model.arrays
        for row in range(len(arrays.parent) - 1, 0, -1):
            if row not in rows:
                continue
            if self._moves(row):
                self._add_column(row, rows[row], M, f)
            above = int(arrays.parent[row])
            rows[above] = plus(rows[above], rows[row]) if above in rows else rows[row]

    def _moves(self, row: int) -> bool:
        arrays = self.model.arrays
        return arrays.kind[row] in (REVOLUTE, PRISMATIC) and (
            int(arrays.q_index[row]) < self.model.active
        )

    def _add_column(self, row: int, terms: _Terms, M: list[list[Value]], f: list[Value]) -> None:
        """Add metric and force of all links after a joint to it and to the joints before it."""
        arrays = self.model.arrays
        turn, linear = self.column(row)
        A: list[list[Value]] = [[0.0] * 3 for _ in range(3)]
        C: list[list[Value]] = [[0.0] * 3 for _ in range(3)]
        for k, (i, j) in enumerate(UPPER):
            A[i][j] = A[j][i] = terms[k]
            C[i][j] = C[j][i] = terms[15 + k]
        B = [terms[6 + 3 * i : 9 + 3 * i] for i in range(3)]
        B_T = [list(column) for column in zip(*B, strict=True)]
        moment = plus(times_vector(A, turn), times_vector(B, linear))
        force = plus(times_vector(B_T, turn), times_vector(C, linear))
        q = int(arrays.q_index[row])
        f[q] = f[q] + dot(turn, terms[21:24]) + dot(linear, terms[24:27])
        other = row
        while other > 0:
            if self._moves(other):
                other_turn, other_linear = self.column(other)
                entry = dot(other_turn, moment) + dot(other_linear, force)
                k = int(arrays.q_index[other])
                if other != row and k == q:  # two rows moved by the same joint
                    entry = 2.0 * entry
                M[max(q, k)][min(q, k)] = M[max(q, k)][min(q, k)] + entry
            other = int(arrays.parent[other])

    def _link_terms(self) -> dict[int, _Terms]:
        """Return the sums of the spheres of each row."""
        rows: dict[int, _Terms] = {}
        for k, run in enumerate(sphere_runs(self.model)):
            terms = [self._in("sums", WRENCH * k + i) for i in range(_TERMS)]
            rows[run.row] = plus(rows[run.row], terms) if run.row in rows else terms
        return rows

    def _tool_terms(self) -> _Terms:
        """Return the sum of the RMPs of the tool's position and axes."""
        tape, has_position = self.tape, self._in("has_goal", 0)
        x, v, bias = self._tool_point()
        state = ToolState(x, v, self._vector("goal"))
        metric: list[list[Value]] = [[0.0] * 3 for _ in range(3)]
        force: Vector = [0.0, 0.0, 0.0]
        for leaf in self.model.leaves:
            if leaf.tool is None:
                continue
            M, f = leaf.tool(tape, state, self._coefficients(leaf.name))
            share = has_position if leaf.needs_position else 1.0
            metric = [plus(a, scaled(share, b)) for a, b in zip(metric, M, strict=True)]
            force = plus(force, scaled(share, f))
        terms = rigid_terms(x, metric, minus(force, times_vector(metric, bias)))
        offset, p = minus(state.goal, x), self._coefficients("axis")
        weight = formulas.axis_weight(tape, dot(offset, offset), has_position, p)
        weight = weight * self._in("has_goal", 1)
        row = self.model.tool_row
        m = self.motion(row)
        R, _ = self._tree.pose(row)
        for k in range(3):
            axis = [R[i][k] for i in range(3)]
            goal = [self._in("goal_axes", 3 * i + k) for i in range(3)]
            rate = cross(m.turn, axis)
            bend = plus(cross(m.bend, axis), cross(m.turn, rate))
            moment = cross(axis, minus(formulas.axis_target(axis, rate, goal, p), bend))
            for i in range(3):
                terms[21 + i] = terms[21 + i] + weight * moment[i]
        # Over three orthogonal axes, the sum of w (1 - n n^T) is 2 w.
        for k, (i, j) in enumerate(UPPER):
            if i == j:
                terms[k] = terms[k] + 2.0 * weight
        return terms

    def _add_joints(self, M: list[list[Value]], f: list[Value]) -> None:
        """Add the RMPs of single joints."""
        tape, n = self.tape, self.model.active
        q = [tape.input(i) for i in range(n)]
        offset = [self._in("posture", i) - q[i] for i in range(n)]
        distance = tape.root(dot(offset, offset))
        for i in range(n):
            names = ("qd", "lower", "upper", "max_velocity", "region")
            given = {name: self._in(name, i) for name in names}
            state = JointState(q[i], offset=offset[i], distance=distance, **given)
            for leaf in self.model.leaves:
                if leaf.joint is not None:
                    metric, force = leaf.joint(tape, state, self._coefficients(leaf.name))
                    M[i][i], f[i] = M[i][i] + metric, f[i] + force

    def _coefficients(self, group: str) -> dict[str, Value]:
        """Return the coefficients of a leaf, or of another group, by name."""
        return {name: self._in("parameters", k) for name, k in self.model.places(group).items()}
