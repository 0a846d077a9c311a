# SPDX-License-Identifier: Apache-2.0
"""Task constraints on configurations: violations, Jacobian rows, and projection by Newton steps.

A task constraint bounds the pose of a frame P, fixed in a link, relative to a frame R, fixed in the
base or in another link: its position in R and its rotation relative to R (a task space region), or
the line of sight between both. Bounds are tightened by a margin, and a configuration is *inside* if
it satisfies the tightened ones. A violation is the ratio of the excess to the margin: 0 is inside,
and up to 1 satisfies the original bound, whatever its unit.

Source: D. Berenson, S. Srinivasa and J. Kuffner, "Task space regions", IJRR 30(12), 2011.

Source of the derivatives: T. Barfoot, "State Estimation for Robotics", 2017, eq. 7.76 (rate of the
rotation vector).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from motion_nodes.kernels.bridges import address, call_both
from motion_nodes.kernels.jit import bare_part, kernel, part
from motion_nodes.typing import Array

NONE = -1
BOX, BALL, CYLINDER = 0, 1, 2
"""Position components: x, y, z; the norm; the distance from the z axis, and z."""
EULER, VECTOR, ANGLE, SENSOR, TARGET = 0, 1, 2, 3, 4
"""Rotation components: intrinsic x, y, z angles; rotation vector; its norm; line of sight with P as
the sensor or as the target: view angle, then range angle."""
_TINY = 1e-9
_CONVERGED = 0.05
"""Violation at which a projection has converged."""
_STEPS = 40
"""Max number of Newton steps of a projection."""
_LONGEST = 0.4
"""Max length of a Newton step [rad or m]."""


class Work(NamedTuple):
    """Scratch memory for one configuration."""

    X: Array
    """Pose of P in R, shape (4, 4)."""
    J: Array
    """Jacobian of P in R, shape (6, n)."""
    values: Array
    """Components, shape (6,)."""
    gradients: Array
    """Derivatives of the components with respect to the twist of P in R, shape (6, 6)."""
    errors: Array
    """Excess over the violated bounds [m or rad], shape (rows,)."""
    rows: Array
    """Jacobian of the violated components, shape (rows, n)."""
    A: Array
    """Normal matrix of a Newton step, shape (n, n)."""
    step: Array
    """Newton step [rad or m], shape (n,)."""
    scratch: Array
    """Jacobian of the link of P, shape (6, n)."""
    link: Array
    """Pose of the link of P, shape (4, 4)."""
    point: Array
    """Pose of P in the base, shape (4, 4)."""
    base: Array
    """Pose of the base in R, shape (4, 4)."""
    carrier: Array
    """Pose of the link that carries R, shape (4, 4)."""
    carried: Array
    """Jacobian of the link that carries R, shape (6, n)."""
    q: Array
    """A configuration between two others [rad or m], shape (n,)."""


@part
def make_work(tasks: int, n: int) -> Work:
    """Return scratch memory for a number of task constraints on n joints."""
    return Work(
        np.empty((4, 4)),
        np.empty((6, n)),
        np.empty(6),
        np.empty((6, 6)),
        np.empty(6 * tasks + 1),
        np.empty((6 * tasks + 1, n)),
        np.empty((n, n)),
        np.empty(n),
        np.empty((6, n)),
        np.empty((4, 4)),
        np.empty((4, 4)),
        np.empty((4, 4)),
        np.zeros((4, 4)),
        np.empty((6, n)),
        np.empty(n),
    )


@bare_part
def position_components(kind: int, work: Work) -> None:
    """Write the position components [m] and their derivatives."""
    X, values, g = work.X, work.values, work.gradients
    x, y, z = X[0, 3], X[1, 3], X[2, 3]
    if kind == BOX:
        for i in range(3):
            values[i] = X[i, 3]
            g[i, i] = 1.0
    elif kind == BALL:
        radius = math.sqrt(x * x + y * y + z * z)
        values[0] = radius
        for i in range(3):
            g[0, i] = X[i, 3] / max(radius, _TINY)
    elif kind == CYLINDER:
        radius = math.sqrt(x * x + y * y)
        values[0], values[2] = radius, z
        g[0, 0], g[0, 1], g[2, 2] = x / max(radius, _TINY), y / max(radius, _TINY), 1.0


@bare_part
def rotation_components(kind: int, work: Work) -> None:
    """Write the rotation components [rad] and their derivatives."""
    if kind == EULER:
        _euler(work)
    elif kind == VECTOR or kind == ANGLE:
        _rotation_vector(kind == ANGLE, work)
    elif kind == SENSOR or kind == TARGET:
        _sight(kind == SENSOR, work)


@bare_part
def _euler(work: Work) -> None:
    """Write the intrinsic angles a, b, c about x, y, z: R = Rx(a) Ry(b) Rz(c)."""
    R, values, g = work.X, work.values, work.gradients
    cosine = math.sqrt(R[0, 0] * R[0, 0] + R[0, 1] * R[0, 1])
    a, b = math.atan2(-R[1, 2], R[2, 2]), math.atan2(R[0, 2], cosine)
    values[3], values[4], values[5] = a, b, math.atan2(-R[0, 1], R[0, 0])
    sa, ca, sb, cb = math.sin(a), math.cos(a), R[0, 2], max(cosine, 1e-3)
    # omega = a' ex + b' Rx ey + c' Rx Ry ez, solved for the rates.
    g[5, 4], g[5, 5] = -sa / cb, ca / cb
    g[4, 4], g[4, 5] = ca, sa
    g[3, 3], g[3, 4], g[3, 5] = 1.0, -sb * g[5, 4], -sb * g[5, 5]


@bare_part
def _rotation_vector(norm: bool, work: Work) -> None:
    """Write the rotation vector or its norm, from the largest element of the quaternion."""
    R, values, g = work.X, work.values, work.gradients
    trace = R[0, 0] + R[1, 1] + R[2, 2]
    if trace >= max(R[0, 0], R[1, 1], R[2, 2]):
        w = 1.0 + trace
        x, y, z = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    elif R[0, 0] >= max(R[1, 1], R[2, 2]):
        w, x = R[2, 1] - R[1, 2], 1.0 + 2.0 * R[0, 0] - trace
        y, z = R[1, 0] + R[0, 1], R[0, 2] + R[2, 0]
    elif R[1, 1] >= R[2, 2]:
        w, y = R[0, 2] - R[2, 0], 1.0 + 2.0 * R[1, 1] - trace
        x, z = R[1, 0] + R[0, 1], R[2, 1] + R[1, 2]
    else:
        w, z = R[1, 0] - R[0, 1], 1.0 + 2.0 * R[2, 2] - trace
        x, y = R[0, 2] + R[2, 0], R[2, 1] + R[1, 2]
    s = math.sqrt(x * x + y * y + z * z)
    angle = 2.0 * math.atan2(s, abs(w))
    scale = math.copysign(angle / s, w) if s > _TINY else 0.0
    x, y, z = scale * x, scale * y, scale * z
    if norm:
        values[3] = angle
        scale = 1.0 / angle if angle > _TINY else 0.0
        g[3, 3], g[3, 4], g[3, 5] = scale * x, scale * y, scale * z
        return
    values[3], values[4], values[5] = x, y, z
    c = 1.0 / 12.0
    if angle > 1e-3:
        c = 1.0 / (angle * angle) - 1.0 / (2.0 * angle * math.tan(0.5 * angle))
    square = angle * angle
    g[3, 3], g[4, 4], g[5, 5] = (
        1.0 + c * (x * x - square),
        1.0 + c * (y * y - square),
        1.0 + c * (z * z - square),
    )
    g[3, 4], g[3, 5] = c * x * y + 0.5 * z, c * x * z - 0.5 * y
    g[4, 3], g[4, 5] = c * x * y - 0.5 * z, c * y * z + 0.5 * x
    g[5, 3], g[5, 4] = c * x * z + 0.5 * y, c * y * z - 0.5 * x


@bare_part
def _sight(sensor: bool, work: Work) -> None:
    """Write view angle (between the axes of sensor and target) and range angle.

    The axes are z of both frames: the sensor looks along its own; the target's points to the
    sensor.
    """
    X, values, g = work.X, work.values, work.gradients
    ax, ay, az = X[0, 2], X[1, 2], X[2, 2]
    values[3] = math.acos(min(1.0, max(-1.0, -az)))
    sine = max(math.sqrt(ax * ax + ay * ay), 1e-3)
    g[3, 3], g[3, 4] = ay / sine, -ax / sine
    length = math.sqrt(X[0, 3] ** 2 + X[1, 3] ** 2 + X[2, 3] ** 2)
    far = max(length, _TINY)
    px, py, pz = X[0, 3] / far, X[1, 3] / far, X[2, 3] / far
    cosine = -(ax * px + ay * py + az * pz) if sensor else pz
    cosine = min(1.0, max(-1.0, cosine))
    values[4] = math.acos(cosine)
    sine = max(math.sqrt(1.0 - cosine * cosine), 1e-3)
    # d cos / d position, then d cos / d rotation
    if sensor:
        dot = -cosine
        g[4, 0], g[4, 1], g[4, 2] = (
            (ax - dot * px) / (far * sine),
            (ay - dot * py) / (far * sine),
            (az - dot * pz) / (far * sine),
        )
        g[4, 3], g[4, 4], g[4, 5] = (
            (ay * pz - az * py) / sine,
            (az * px - ax * pz) / sine,
            (ax * py - ay * px) / sine,
        )
    else:
        g[4, 0], g[4, 1], g[4, 2] = (
            pz * px / (far * sine),
            pz * py / (far * sine),
            (pz * pz - 1.0) / (far * sine),
        )


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
