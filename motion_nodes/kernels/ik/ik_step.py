# SPDX-License-Identifier: Apache-2.0
"""One branch-free step of inverse kinematics as an expression graph: error, damping, joint limits.

Poses and Jacobian are expressed in the target frame, so that the pose of the tip is the error
itself and its axes are those of the tolerances; multiplying by the target's inverse pose replaces
the comparison at no extra cost.

The step is that of Levenberg and Marquardt with an error-dependent damping,

    dq = -J^T (J J^T + lambda I)^-1 r,   lambda = DAMPING * |r|^2 + LEAST_DAMPING,

(up to six joints: the equivalent n x n form), where r is the weighted position error and the
rotation vector. Sources: T. Sugihara, "Solvability-unconcerned inverse kinematics by the
Levenberg-Marquardt method", IEEE Trans. Robotics 27(5), 2011, eq. 22 (damping); D. P. Bertsekas,
"Projected Newton methods", SIAM J. Control 20(2), 1982 (joints at a limit that the error pushes
outward are removed from the step).

Generated code and the solver share the memory of :class:`IkWorkspace` and nothing else. Eight
descents run side by side; values that differ between them are stored as eight consecutive numbers,
one per *lane*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from motion_nodes.kernels.expression_graph import ExpressionGraph, Program, Symbol, Value
from motion_nodes.kernels.formulas.ops import (
    Matrix,
    Vector,
    dot,
    factorized,
    solved,
    times_matrix,
    times_vector,
    transposed,
)
from motion_nodes.kernels.kinematic_arrays import PackedArrays
from motion_nodes.kernels.memory_layout import FieldLayout
from motion_nodes.kernels.robot_codegen import KinematicsTracer
from motion_nodes.typing import Array

LANES = 8
"""Descents side by side; the same on every CPU, so that equal seeds give equal results up to
rounding.
"""
BLOCK = 64
"""Random configurations per block; the one closest to the target is a seed."""
FEATURES = 13
"""Values for the distance of a configuration to the target: |p|^2, p, R."""
REPORT = 9
"""Values per pose of a batch: outcome, iterations, seeds used, errors."""
PAUSED, FOUND, EXHAUSTED, NO_POSE = 0, 1, 2, 3
"""Outcomes: step budget used up; solutions in some lanes; no seed left; the target is not a valid
pose.
"""
DAMPING = 0.03
LEAST_DAMPING = 1e-9
STEP_BOUND = 0.8
PROGRESS = 0.8
"""A step is progress if it reduces the squared error below this fraction of the smallest one."""
PATIENCE = 5.0
"""Max number of consecutive steps without progress."""
# atan(t) / t in powers of t^2 on [0, 1], interpolated at Chebyshev nodes; relative error 1.8e-8.
_ARCTANGENT = (
    0.9999999817886556,
    -0.3333303670928606,
    0.1999187202910154,
    -0.1419779779403033,
    0.10618370636764626,
    -0.07456854825657469,
    0.042137623585791324,
    -0.015731249120549736,
    0.002766283501479087,
)


def lane_inputs(n: int) -> FieldLayout:
    """Return the inputs of a step that differ between lanes.

    Configuration [rad or m]; pose of row 0 in the target, rotation, then translation [m]; smallest
    squared error reached; number of steps without progress.
    """
    return FieldLayout(q=n, X_TB=12, best=1, stalled=1)


def common_inputs(n: int) -> FieldLayout:
    """Return the inputs of a step that are common to all lanes.

    Per task-space axis (position [m], then rotation vector [rad], in the target frame): dead zone
    ``slack`` and tolerance ``box``, shape (6,) each; ``tolerance``: squared norm tolerance of
    position and rotation error beyond the dead zone, shape (2,); ``weight``: position weight [1/m];
    ``lower``, ``upper``: joint limits [rad or m], shape (n,) each.
    """
    return FieldLayout(slack=6, box=6, tolerance=2, weight=1, lower=n, upper=n)


def work_layout(n: int) -> FieldLayout:
    """Return the complete layout: inputs and results of the step, then those of the solve.

    Inputs of a solve besides those of the step:

    * ``target``: its pose in row 0; ``importance``: weights of position and rotation in the seed
      metric;
    * ``starts``: address of ``given`` seeds, shape (given, n); ``table`` and ``features``:
      addresses of random configurations, shape (blocks * BLOCK, n), and of their features, shape
      (blocks, FEATURES, BLOCK), float32; ``attempts``: total number of seeds;
    * ``grant``: step budget until a pause; ``prefer``: lanes, one bit each, that are awaited even
      if others have converged; ``discard``: lanes that restart from the next seed on resumption;
    * ``accept``: address of ``int32 accept(const double* q, const void* data)``, which returns
      whether a solution of a batch is accepted, or 0 for none; ``accept_data``: address of its
      data.

    Results: ``found``: lanes that hold a solution, one bit each; ``answer``: configuration [rad or
    m] and errors [m, rad] of the lowest of them; ``nearest``: smallest squared error of all
    abandoned descents, and its configuration; ``iterations``: steps taken, summed over active
    lanes; ``next``: seeds used.
    Internal: ``direction`` (factors of the features), ``defect`` (deviation of the target from a
    valid pose), ``live`` (active lanes), ``wait`` (lanes still awaited), ``steps`` (remaining
    steps).
    """
    return FieldLayout(
        own=lane_inputs(n).size * LANES,
        squared=LANES,
        solved=LANES,
        hopeless=LANES,
        errors=6 * LANES,
        common=common_inputs(n).size,
        target=16,
        importance=2,
        direction=FEATURES,
        defect=1,
        answer=n + 6,
        nearest=1 + n,
        live=1,
        found=1,
        discard=1,
        wait=1,
        next=1,
        attempts=1,
        given=1,
        iterations=1,
        grant=1,
        prefer=1,
        starts=1,
        table=1,
        features=1,
        accept=1,
        accept_data=1,
    )


class IkWorkspace:
    """Workspace of one solve of a chain with n joints. Used by one thread at a time."""

    def __init__(self, n: int) -> None:
        at, own, common = work_layout(n), lane_inputs(n), common_inputs(n)
        self.n = n
        self.at = at
        # 64-byte alignment: a vector of eight numbers is loaded in one instruction.
        memory = np.zeros(at.size + 8)
        first = -(memory.ctypes.data // 8) % 8
        self.memory: Array = memory[first : first + at.size]
        self.integers = self.memory.view(np.int64)
        self.address = int(self.memory.ctypes.data)

        def lanes(start: int, rows: int) -> Array:
            return self.memory[start : start + rows * LANES].reshape(rows, LANES)

        def field(start: int, size: int) -> Array:
            return self.memory[start : start + size]

        self.q = lanes(own["q"] * LANES, n)
        self.X_TB = lanes(own["X_TB"] * LANES, 12)
        self.best = lanes(own["best"] * LANES, 1)[0]
        self.stalled = lanes(own["stalled"] * LANES, 1)[0]
        self.squared = lanes(at["squared"], 1)[0]
        self.solved = lanes(at["solved"], 1)[0]
        self.hopeless = lanes(at["hopeless"], 1)[0]
        self.errors = lanes(at["errors"], 6)
        self.slack = field(at["common"] + common["slack"], 6)
        self.box = field(at["common"] + common["box"], 6)
        self.tolerance = field(at["common"] + common["tolerance"], 2)
        self.weight = field(at["common"] + common["weight"], 1)
        self.lower = field(at["common"] + common["lower"], n)
        self.upper = field(at["common"] + common["upper"], n)
        self.target = field(at["target"], 16).reshape(4, 4)
        self.importance = field(at["importance"], 2)
        self.direction = field(at["direction"], FEATURES)
        self.answer = field(at["answer"], n + 6)
        self.nearest = field(at["nearest"], 1 + n)

    def get(self, name: str) -> int:
        """Return an integer field."""
        return int(self.integers[self.at[name]])

    def set(self, **values: int) -> None:
        """Set integer fields."""
        for name, value in values.items():
            self.integers[self.at[name]] = value


def step_program(arrays: PackedArrays, row: int) -> Program:
    """Return the program of one step.

    Args:
        arrays: the robot.
        row: row of the tip.

    Returns:
        Inputs as in :func:`lane_inputs`, then :func:`common_inputs`. Outputs: the next
            configuration [rad or m], shape (n,); squared error, smallest squared error and steps
            without progress; whether the input configuration is a solution, and whether it is
            abandoned (1 or 0 each); its errors [m, rad], shape (6,). A solution or an abandoned
            configuration is returned unchanged.
    """
    n = arrays.joint_count
    own, common = lane_inputs(n), common_inputs(n)
    tracer = KinematicsTracer(arrays, base_input=own["X_TB"])
    tape = tracer.tape

    def given(name: str, count: int) -> list[Symbol]:
        start = own[name] if name in own else own.size + common[name]
        return [tape.input(start + i) for i in range(count)]

    q, lower, upper = given("q", n), given("lower", n), given("upper", n)
    errors, half_cotangent = _errors(tracer, row)
    residuals, active = _outside_slack(tape, errors, given("slack", 6))
    lengths = [dot(residuals[:3], residuals[:3]), dot(residuals[3:], residuals[3:])]
    (weight,) = given("weight", 1)
    squared = weight * weight * lengths[0] + lengths[1]
    sizes = [tape.maximum(x, -x) for x in errors]
    solved = _all_less(tape, [*sizes, *lengths], [*given("box", 6), *given("tolerance", 2)])
    (before,), (steps,) = given("best", 1), given("stalled", 1)
    progress = tape.less(squared, PROGRESS * before)
    stalled = tape.choose(progress, 0.0, steps + 1.0)
    best = tape.choose(progress, squared, before)
    hopeless = tape.choose(tape.less(PATIENCE, stalled), 1.0, 0.0)

    flat = tracer.jacobian_elements(row)
    J = [list(flat[n * i : n * i + n]) for i in range(6)]
    J[3:] = times_matrix(_rate_of_rotation_vector(tape, errors[3:], half_cotangent), J[3:])
    scale = [active[i] * weight if i < 3 else active[i] for i in range(6)]
    J = [[scale[i] * x for x in J[i]] for i in range(6)]
    r = [residuals[i] * weight if i < 3 else residuals[i] for i in range(6)]
    J = _without_blocked(tape, J, r, q, lower, upper)
    damping = DAMPING * squared + LEAST_DAMPING
    dq = _bounded(tape, _damped_step(tape, J, r, damping))
    stay = tape.less(0.5, solved + hopeless)
    moved = []
    for k in range(n):
        reached = tape.minimum(tape.maximum(q[k] - dq[k], lower[k]), upper[k])
        moved.append(tape.choose(stay, q[k], reached))
    outputs = ((*moved,), (squared, best, stalled), (solved, hopeless), (*errors,))
    return Program(tape, own.size + common.size, outputs)


def _errors(tracer: KinematicsTracer, row: int) -> tuple[Vector, Value]:
    """Return position [m] and rotation vector [rad] of the tip in the target, and a/2 cot(a/2).

    Here a is the angle of the rotation. Its quaternion is computed from the largest element, so
    that half a turn is no special case; it need not be normalized, because only ratios of its
    elements are used.
    Sources: S. W. Shepperd, "Quaternion from rotation matrix", 1978; J. Sola, "Quaternion
    kinematics for the error-state Kalman filter", 2017, eq. 105.
    """
    tape = tracer.tape
    R, p = tracer.pose(row)
    xx, yy, zz = R[0][0], R[1][1], R[2][2]
    trace = xx + yy + zz
    xy, xz, yz = R[0][1] + R[1][0], R[0][2] + R[2][0], R[1][2] + R[2][1]
    wx, wy, wz = R[2][1] - R[1][2], R[0][2] - R[2][0], R[1][0] - R[0][1]
    quaternion: Vector = [1.0 + trace, wx, wy, wz]  # times 4 w
    largest: Value = trace
    for pivot, candidate in (
        (xx, [wx, 1.0 + 2.0 * xx - trace, xy, xz]),
        (yy, [wy, xy, 1.0 + 2.0 * yy - trace, yz]),
        (zz, [wz, xz, yz, 1.0 + 2.0 * zz - trace]),
    ):
        better = tape.less(largest, pivot)
        largest = tape.choose(better, pivot, largest)
        quaternion = [tape.choose(better, a, b) for a, b in zip(candidate, quaternion, strict=True)]
    w, *v = quaternion
    negative = tape.less(w, 0.0)
    w = tape.choose(negative, -w, w)
    s = tape.root(dot(v, v))
    # The angle is 2 atan2(s, w); here the angle divided by s is needed.
    small = tape.less(s, w)
    inverse = tape.divide(1.0, tape.maximum(s, w))
    t = tape.minimum(s, w) * inverse
    ratio = _polynomial(t * t, _ARCTANGENT)
    factor = tape.choose(small, 2.0 * ratio * inverse, (math.pi - 2.0 * t * ratio) * inverse)
    half_cotangent = 0.5 * factor * w
    factor = tape.choose(negative, -factor, factor)
    return [*p, *(factor * x for x in v)], half_cotangent


def _rate_of_rotation_vector(tape: ExpressionGraph, phi: Vector, half_cotangent: Value) -> Matrix:
    """Return the matrix that maps an angular velocity to the rate of the rotation vector.

    It is symmetric except for half a cross product. If all axes are constrained it changes only the
    weights, because a rotation vector is an eigenvector of its own matrix; if some axes are free,
    it is required to separate tilts about different axes.

    Source: T. Barfoot, "State Estimation for Robotics", 2017, eq. 7.76 (inverse left Jacobian).
    """
    square = dot(phi, phi)
    small = tape.less(square, 1e-4)
    ratio = tape.divide(1.0 - half_cotangent, tape.choose(small, 1.0, square))
    ratio = tape.choose(small, 1.0 / 12.0, ratio)
    x, y, z = phi
    skew: Matrix = [[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]
    return [
        [
            ratio * phi[i] * phi[j] - 0.5 * skew[i][j] + (half_cotangent if i == j else 0.0)
            for j in range(3)
        ]
        for i in range(3)
    ]


def _polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
    """Return c0 + c1 x + c2 x^2 + ... (Horner)."""
    total: Value = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def _outside_slack(
    tape: ExpressionGraph, errors: Vector, slacks: Sequence[Symbol]
) -> tuple[Vector, Vector]:
    """Return each error beyond its dead zone, and 1 or 0 for whether its axis is constrained.

    An axis inside its dead zone is unconstrained; one with an infinite dead zone always is.
    """
    residuals: Vector = []
    active: Vector = []
    for error, slack in zip(errors, slacks, strict=True):
        inside = tape.maximum(tape.minimum(error, slack), -slack)
        size = tape.maximum(error, -error)
        free = tape.less(size, slack)
        residuals.append(tape.choose(free, 0.0, error - inside))
        active.append(tape.choose(free, 0.0, 1.0))
    return residuals, active


def _all_less(tape: ExpressionGraph, values: Sequence[Value], bounds: Sequence[Value]) -> Value:
    """Return 1 if each value is below its bound, else 0."""
    holds: Value = 1.0
    for value, bound in zip(values, bounds, strict=True):
        holds = tape.choose(tape.less(value, bound), holds, 0.0)
    return holds


def _without_blocked(
    tape: ExpressionGraph,
    J: Matrix,
    r: Vector,
    q: Sequence[Value],
    lower: Sequence[Value],
    upper: Sequence[Value],
) -> Matrix:
    """Return the Jacobian with zero columns for joints at a limit that the error pushes outward."""
    columns = []
    for k, column in enumerate(zip(*J, strict=True)):
        slope = dot(column, r)
        low, high = tape.less(lower[k], q[k]), tape.less(q[k], upper[k])
        # A positive gradient decreases the joint position.
        room = tape.choose(
            tape.less(0.0, slope), tape.choose(low, 1.0, 0.0), tape.choose(high, 1.0, 0.0)
        )
        columns.append([room * x for x in column])
    return [list(row) for row in zip(*columns, strict=True)]


def _damped_step(tape: ExpressionGraph, J: Matrix, r: Vector, damping: Value) -> Vector:
    """Return J^T (J J^T + damping I)^-1 r, or the equivalent (J^T J + damping I)^-1 J^T r."""
    columns = transposed(J)
    if len(columns) > 6:
        y = _solve(tape, _gram(J, damping), r)
        return times_vector(columns, y)
    return _solve(tape, _gram(columns, damping), times_vector(columns, r))


def _solve(tape: ExpressionGraph, A: Matrix, b: Vector) -> Vector:
    """Return the solution of A x = b for a positive definite A, given by its lower half."""
    L, inverse, _ = factorized(tape, A)
    return solved(L, inverse, b)


def _gram(rows: Matrix, damping: Value) -> Matrix:
    """Return the Gram matrix of the rows, plus ``damping`` on the diagonal."""
    return [
        [dot(a, b) + (damping if i == j else 0.0) for j, b in enumerate(rows[: i + 1])]
        for i, a in enumerate(rows)
    ]


def _bounded(tape: ExpressionGraph, dq: Vector) -> Vector:
    """Return a step scaled down so that no joint moves more than STEP_BOUND [rad or m]."""
    largest: Value = STEP_BOUND
    for x in dq:
        largest = tape.maximum(tape.maximum(x, -x), largest)
    scale = tape.divide(STEP_BOUND, largest)
    return [scale * x for x in dq]
