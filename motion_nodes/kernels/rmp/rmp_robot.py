# SPDX-License-Identifier: Apache-2.0
"""RMPflow of one robot as an expression graph: sphere motion, and resolution of all RMPs.

Velocities and forces of links are those of rigid bodies about the origin of the base frame:
(angular, linear), where the linear part is that of the body-fixed point at the origin. Thus joint
columns and link metrics simply add along the tree, and J^T M J is computed without a Jacobian per
sphere, as the composite rigid body algorithm does it for masses. Source: Featherstone, Rigid Body
Dynamics Algorithms (2008), sections 2.2 to 2.5 and 6.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from motion_nodes.kernels.expression_graph import Value
from motion_nodes.kernels.formulas import rmps as formulas
from motion_nodes.kernels.formulas.linear_algebra import (
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
from motion_nodes.kernels.kinematics_codegen import KinematicsTracer
from motion_nodes.kernels.memory_layout import FieldLayout
from motion_nodes.kernels.rmp.rmp_link_motion import UPPER, moved_point, rigid_terms
from motion_nodes.kernels.rmp.rmp_memory import (
    MOTION,
    WRENCH,
    RmpModel,
    sphere_runs,
)

_TERMS = 27
_LEAST_PIVOT = 1e-300
_Terms = list[Value]


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
