# SPDX-License-Identifier: Apache-2.0
"""Verification of candidate solutions by forward kinematics, and refinement by Newton steps.

The arm is a product of exponentials, as in :mod:`motion_nodes.kernels.ik.closed_form`.
"""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.kernels.ik.subproblems import (
    Vector,
    along,
    cross,
    dot,
    length,
    minus,
    row,
    times,
    turned_by,
)
from motion_nodes.kernels.jit import part
from motion_nodes.typing import Array

HOLDS = 1e-9
"""Max pose error of a solution [m, rad]."""

_GOOD = 1e-11
_STEPS = 20
_DAMPING = 0.01
_WORSE = 100.0
"""Abort refinement when the error exceeds this multiple of its initial value (near singularities
the first steps may increase it).
"""


@part
def settle(
    lines: Array,
    R: Array,
    t: Vector,
    m: Vector,
    limits: Array,
    free: int,
    q: Array,
    work: Array,
) -> bool:
    """Verify a candidate, and refine it by Newton steps if necessary.

    Args:
        lines: as in :func:`motion_nodes.kernels.ik.closed_form_search.search`.
        R: rotation of the desired displacement, shape (3, 3).
        t: translation of the desired displacement [m], shape (3,).
        m: position of the tip at zero [m], shape (3,).
        limits: lower and upper joint limits [rad], shape (2, n).
        free: index of the redundant joint, which is not moved; -1 for none.
        q: the candidate, changed in place [rad], shape (n,).
        work: memory for the Jacobian, shape (2 n, 3).

    Returns:
        Whether it is a solution.
    """
    goal = along(times(R, m), 1.0, t)
    error, before = math.inf, math.inf
    for _ in range(_STEPS):
        place, spin, error = _compare(lines, R, goal, m, q, work)
        if error <= _GOOD:
            return True
        if error > 0.1 or error > _WORSE * before:
            break
        before = error
        _newton(place, spin, q.shape[0], free, limits, q, work)
    return bool(error <= HOLDS)


@part
def _compare(
    lines: Array, R: Array, goal: Vector, m: Vector, q: Array, work: Array
) -> tuple[Vector, Vector, float]:
    """Return the pose error of the tip at q, and write the Jacobian's columns, two rows each.

    Returns:
        Position error [m]; rotation error as axis times sine of the angle, close to its rotation
        vector [rad]; the max of both norms, infinite if the angle is above 60 degrees.
    """
    n = q.shape[0]
    x, y, z, o = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.0)
    for j in range(n):
        a, b = row(lines[2], j), row(lines[3], j)
        axis = along(along((a[0] * x[0], a[0] * x[1], a[0] * x[2]), a[1], y), a[2], z)
        point = along(along(along(o, b[0], x), b[1], y), b[2], z)
        c, s = math.cos(q[j]), math.sin(q[j])
        x, y, z = turned_by(axis, c, s, x), turned_by(axis, c, s, y), turned_by(axis, c, s, z)
        o = along(point, 1.0, turned_by(axis, c, s, minus(o, point)))
        work[2 * j, 0], work[2 * j, 1], work[2 * j, 2] = point
        work[2 * j + 1, 0], work[2 * j + 1, 1], work[2 * j + 1, 2] = axis
    tip = along(along(along(o, m[0], x), m[1], y), m[2], z)
    wx, wy, wz = (
        (R[0, 0], R[1, 0], R[2, 0]),
        (R[0, 1], R[1, 1], R[2, 1]),
        (R[0, 2], R[1, 2], R[2, 2]),
    )
    spin = along(along(cross(x, wx), 1.0, cross(y, wy)), 1.0, cross(z, wz))
    spin = (0.5 * spin[0], 0.5 * spin[1], 0.5 * spin[2])
    place = minus(goal, tip)
    error = max(length(place), length(spin))
    if dot(x, wx) + dot(y, wy) + dot(z, wz) < 2.0:
        error = math.inf
    for j in range(n):
        axis, point = row(work, 2 * j + 1), row(work, 2 * j)
        work[2 * j, 0], work[2 * j, 1], work[2 * j, 2] = cross(axis, minus(tip, point))
    return place, spin, error


@part
def _newton(
    place: Vector, spin: Vector, n: int, free: int, limits: Array, q: Array, work: Array
) -> None:
    """Damped Newton step that reduces the pose error.

    ``dq = J^T (J J^T + damping)^-1 e``, with a Cholesky factorization. Source of a damping
    proportional to the squared error: T. Sugihara, IEEE Trans. Robotics 27(5), 2011.
    """
    e = np.array([place[0], place[1], place[2], spin[0], spin[1], spin[2]])
    J, L = np.zeros((6, n)), np.zeros((6, 6))
    damping = 1e-14 + _DAMPING * (dot(place, place) + dot(spin, spin))
    for j in range(n):
        if j != free:
            for i in range(3):
                J[i, j], J[i + 3, j] = work[2 * j, i], work[2 * j + 1, i]
    for i in range(6):
        for k in range(i + 1):
            total = damping if i == k else 0.0
            for j in range(n):
                total += J[i, j] * J[k, j]
            for j in range(k):
                total -= L[i, j] * L[k, j]
            L[i, k] = math.sqrt(max(total, damping)) if i == k else total / L[k, k]
        for k in range(i):
            e[i] -= L[i, k] * e[k]
        e[i] /= L[i, i]
    for i in range(5, -1, -1):
        for k in range(i + 1, 6):
            e[i] -= L[k, i] * e[k]
        e[i] /= L[i, i]
    for j in range(n):
        step = 0.0
        for i in range(6):
            step += J[i, j] * e[i]
        q[j] = min(max(q[j] + step, limits[0, j]), limits[1, j])
