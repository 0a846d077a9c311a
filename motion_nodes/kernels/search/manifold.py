# SPDX-License-Identifier: Apache-2.0
"""Task constraints on configurations: violations, Jacobian rows, and projection by Newton steps.

A task constraint bounds the pose of a frame P, fixed in a link, relative to a frame R, fixed in the
base or in another link: its position in R and its rotation relative to R (a task space region), or
the line of sight between both. Bounds are tightened by a margin, and a configuration is *inside* if
it satisfies the tightened ones. A violation is the ratio of the excess to the margin: 0 is inside,
and up to 1 satisfies the original bound, whatever its unit.

Source: D. Berenson, S. Srinivasa and J. Kuffner, "Task space regions", IJRR 30(12), 2011.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from motion_nodes.kernels.collision.checker_bridge import address
from motion_nodes.kernels.jit import bare_part, kernel
from motion_nodes.kernels.robot_bridge import call_both
from motion_nodes.kernels.search.task_components import (
    Work,
    make_work,
    position_components,
    rotation_components,
)
from motion_nodes.typing import Array

_CONVERGED = 0.05
"""Violation at which a projection has converged."""
_STEPS = 40
"""Max number of Newton steps of a projection."""
_LONGEST = 0.4
"""Max length of a Newton step [rad or m]."""


class Manifold(NamedTuple):
    """Constraints on configurations of n joints: t task constraints, and bounds of the joints."""

    both: Any
    """Address of ``both_one(q, pose, jacobian)`` of each link in the base, shape (t,), int64."""
    reference: Any
    """The same of the link that carries R; 0 if R is fixed in the base, shape (t,), int64."""
    X_LP: Array
    """Pose of P in its link, shape (t, 4, 4)."""
    X_RB: Array
    """Pose in R of the base, or of the link that carries R, shape (t, 4, 4)."""
    position: Any
    """NONE, BOX, BALL or CYLINDER, shape (t,), int64."""
    rotation: Any
    """NONE, EULER, VECTOR, ANGLE, SENSOR or TARGET, shape (t,), int64."""
    union: Any
    """Adjacent constraints with equal numbers from 0 on are alternatives, shape (t,), int64."""
    bounds: Array
    """Tightened bounds of the components [m, rad], infinite for none, shape (t, 6, 2)."""
    margins: Array
    """Amounts by which the bounds are tightened [m, rad], shape (t, 6)."""
    limits: Array
    """Lower and upper joint limits [rad or m], shape (2, n)."""


@bare_part
def _product(A: Array, B: Array, out: Array) -> None:
    """Write the product of two poses."""
    for i in range(3):
        for j in range(4):
            value = A[i, 3] if j == 3 else 0.0
            for k in range(3):
                value += A[i, k] * B[k, j]
            out[i, j] = value


@bare_part
def _reference(manifold: Manifold, t: int, q: Array, work: Work) -> None:
    """Write the pose of the base in R, and the Jacobian of the link that carries R, if any."""
    B, F, link = manifold.X_RB[t], work.base, work.carrier
    if manifold.reference[t] == 0:
        for i in range(3):
            for j in range(4):
                F[i, j] = B[i, j]
        return
    call_both(manifold.reference[t], address(q), address(link), address(work.carried))
    for i in range(3):
        F[i, 3] = B[i, 3]
        for j in range(3):
            F[i, j] = B[i, 0] * link[j, 0] + B[i, 1] * link[j, 1] + B[i, 2] * link[j, 2]
        for j in range(3):
            F[i, 3] -= F[i, j] * link[j, 3]


@bare_part
def _frame(manifold: Manifold, t: int, q: Array, work: Work) -> None:
    """Write pose and Jacobian of P relative to R, in the axes of R."""
    link, J, P = work.link, work.scratch, work.point
    call_both(manifold.both[t], address(q), address(link), address(J))
    _product(link, manifold.X_LP[t], P)
    _reference(manifold, t, q, work)
    F, K, moving = work.base, work.carried, manifold.reference[t] != 0
    _product(F, P, work.X)
    rx, ry, rz = P[0, 3] - link[0, 3], P[1, 3] - link[1, 3], P[2, 3] - link[2, 3]
    C = work.carrier
    sx, sy, sz = P[0, 3] - C[0, 3], P[1, 3] - C[1, 3], P[2, 3] - C[2, 3]
    for d in range(q.shape[0]):
        wx, wy, wz = J[3, d], J[4, d], J[5, d]
        vx, vy, vz = J[0, d] + wy * rz - wz * ry, J[1, d] + wz * rx - wx * rz, J[2, d]
        vz += wx * ry - wy * rx
        if moving:
            ux, uy, uz = K[3, d], K[4, d], K[5, d]
            vx -= K[0, d] + uy * sz - uz * sy
            vy -= K[1, d] + uz * sx - ux * sz
            vz -= K[2, d] + ux * sy - uy * sx
            wx, wy, wz = wx - ux, wy - uy, wz - uz
        for i in range(3):
            work.J[i, d] = F[i, 0] * vx + F[i, 1] * vy + F[i, 2] * vz
            work.J[3 + i, d] = F[i, 0] * wx + F[i, 1] * wy + F[i, 2] * wz


@bare_part
def measure(manifold: Manifold, t: int, q: Array, work: Work) -> None:
    """Write the components of a task constraint [m, rad], (6,), and their derivatives, (6, n)."""
    _frame(manifold, t, q, work)
    for i in range(6):
        work.values[i] = 0.0
        for k in range(6):
            work.gradients[i, k] = 0.0
    position_components(manifold.position[t], work)
    rotation_components(manifold.rotation[t], work)


@bare_part
def violation(manifold: Manifold, q: Array, work: Work) -> tuple[float, int]:
    """Return the largest violation, and the number of violated components.

    Of alternatives, the one with the smallest violation counts. Errors and Jacobian of the violated
    components are written to ``work``.
    """
    worst, count, n = 0.0, 0, q.shape[0]
    union, union_first, union_worst = -1, 0, 0.0
    for t in range(manifold.both.shape[0]):
        measure(manifold, t, q, work)
        first, task = count, 0.0
        for i in range(6):
            value = work.values[i]
            low, high = manifold.bounds[t, i, 0], manifold.bounds[t, i, 1]
            error = value - low if value < low else (value - high if value > high else 0.0)
            if error == 0.0:
                continue
            task = max(task, abs(error) / manifold.margins[t, i])
            work.errors[count] = error
            for d in range(n):
                total = 0.0
                for k in range(6):
                    total += work.gradients[i, k] * work.J[k, d]
                work.rows[count, d] = total
            count += 1
        number = manifold.union[t]
        if number < 0 or number != union:
            worst = max(worst, union_worst)
            union, union_first, union_worst = number, first, task
        elif task < union_worst:
            for k in range(count - first):
                work.errors[union_first + k] = work.errors[first + k]
                for d in range(n):
                    work.rows[union_first + k, d] = work.rows[first + k, d]
            count = union_first + count - first
            union_worst = task
        else:
            count = first
    return max(worst, union_worst), count


@bare_part
def project(manifold: Manifold, q: Array, work: Work) -> bool:
    """Move a configuration, (n,), inside constraints and limits; return whether it converged."""
    n = q.shape[0]
    for d in range(n):
        q[d] = min(max(q[d], manifold.limits[0, d]), manifold.limits[1, d])
    for _ in range(_STEPS):
        worst, count = violation(manifold, q, work)
        if worst <= _CONVERGED:
            return True
        _newton_step(manifold, q, count, work)
        length = 0.0
        for d in range(n):
            length += work.step[d] * work.step[d]
        length = math.sqrt(length)
        if not length > 1e-12:
            return False
        scale = min(1.0, _LONGEST / length)
        for d in range(n):
            moved = q[d] + scale * work.step[d]
            q[d] = min(max(moved, manifold.limits[0, d]), manifold.limits[1, d])
    return False


@bare_part
def _newton_step(manifold: Manifold, q: Array, count: int, work: Work) -> None:
    """Write the damped least-squares step; joints at a limit that would exceed it stay."""
    n = q.shape[0]
    square = 0.0
    for k in range(count):
        square += work.errors[k] * work.errors[k]
    damping = 1e-9 + 1e-2 * min(1.0, square)
    for _ in range(3):
        for a in range(n):
            work.step[a] = 0.0
            for k in range(count):
                work.step[a] -= work.rows[k, a] * work.errors[k]
            for b in range(a + 1):
                total = damping if a == b else 0.0
                for k in range(count):
                    total += work.rows[k, a] * work.rows[k, b]
                work.A[a, b] = total
        _solve(work.A, work.step)
        held = False
        for d in range(n):
            down = q[d] <= manifold.limits[0, d] and work.step[d] < 0.0
            up = q[d] >= manifold.limits[1, d] and work.step[d] > 0.0
            if down or up:
                held = True
                for k in range(count):
                    work.rows[k, d] = 0.0
        if not held:
            return


@bare_part
def _solve(A: Array, x: Array) -> None:
    """Solve A x = x in place for a symmetric positive definite A, given by its lower half."""
    n = x.shape[0]
    for j in range(n):
        for i in range(j, n):
            total = A[i, j]
            for k in range(j):
                total -= A[i, k] * A[j, k]
            A[i, j] = math.sqrt(max(total, 1e-300)) if i == j else total / A[j, j]
    for i in range(n):
        for k in range(i):
            x[i] -= A[i, k] * x[k]
        x[i] /= A[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            x[i] -= A[k, i] * x[k]
        x[i] /= A[i, i]


@kernel
def components(manifold: Manifold, q: Array, values: Array, jacobian: Array) -> None:
    """Write the components of all task constraints, (t, 6), and their Jacobian, (t, 6, n)."""
    work = make_work(manifold.both.shape[0], q.shape[0])
    for t in range(manifold.both.shape[0]):
        measure(manifold, t, q, work)
        values[t] = work.values
        for i in range(6):
            for d in range(q.shape[0]):
                total = 0.0
                for k in range(6):
                    total += work.gradients[i, k] * work.J[k, d]
                jacobian[t, i, d] = total


@kernel
def violations(manifold: Manifold, Q: Array, out: Array) -> None:
    """Write the largest violation of each configuration of Q, shape (m, n), to out, shape (m,)."""
    work = make_work(manifold.both.shape[0], Q.shape[1])
    q = np.empty(Q.shape[1])
    for i in range(Q.shape[0]):
        q[:] = Q[i]
        out[i] = violation(manifold, q, work)[0]


@kernel
def projected(manifold: Manifold, Q: Array, converged: Any) -> None:
    """Project configurations, shape (m, n), in place; write whether each converged, shape (m,)."""
    work = make_work(manifold.both.shape[0], Q.shape[1])
    for i in range(Q.shape[0]):
        converged[i] = project(manifold, Q[i], work)
