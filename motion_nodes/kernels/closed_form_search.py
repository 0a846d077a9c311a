# SPDX-License-Identifier: Apache-2.0
"""All solutions of an arm of six or seven joints that are within its limits, each of them checked.

An arm of seven is one of six for each value of its free joint. Every candidate of the closed form
is turned into the limits, compared with the target by the arm's own forward kinematics, improved by
a Newton step where rounding, or an arm that fits the form only nearly, makes that necessary, and
dropped if it does not hold.
"""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.kernels.closed_form import MOST, closed_form
from motion_nodes.kernels.jit import kernel, part
from motion_nodes.kernels.packed import Array
from motion_nodes.kernels.subproblems import (
    Vector,
    along,
    back,
    cross,
    dot,
    length,
    minus,
    row,
    times,
    turned_by,
)

HOLDS = 1e-9
"""A solution is no further than this from the target [m, rad]."""

_GOOD = 1e-11
_STEPS = 20
_DAMPING = 0.01
_WORSE = 100.0
"""Beside a singular configuration a step may at first lead away; so far, and the search ends."""
_SLACK = 1e-8
"""A joint so far outside its limits was put there by rounding [rad]; it is put on the limit."""
_SAME = 1e-6
"""Solutions whose joints differ by no more are one [rad]."""
_TURN = 2.0 * math.pi


@kernel
def search(
    form: int,
    free: int,
    backwards: bool,
    lines: Array,
    home: Array,
    limits: Array,
    target: Array,
    seed: Array,
    values: Array,
    enough: int,
    slack: float,
    out: Array,
) -> int:
    """Write the solutions for each value of the free joint, in the order of the values.

    Args:
        form: the form of the arm, see :mod:`motion_nodes.kernels.closed_form`.
        free: index of the free joint; -1 for an arm of six.
        backwards: whether the form is that of the arm seen from its tip.
        lines: directions and points as the form needs them, then as they are, shape (4, n, 3).
        home: pose of the tip at zero, shape (4, 4).
        limits: lower and upper ones [rad], shape (2, n).
        target: pose of the tip, shape (4, 4).
        seed: joints are turned to be near to these [rad], shape (n,).
        values: of the free joint [rad], shape (m,); for an arm of six any one number.
        enough: after a value that gives so many in all, the others are left out.
        slack: see :func:`motion_nodes.kernels.closed_form.closed_form`.
        out: the solutions [rad], shape (8 m, n).

    Returns:
        How many were written.
    """
    n = lines.shape[1]
    R = np.empty((3, 3))
    for i in range(3):
        R[i, 0], R[i, 1], R[i, 2] = times(home, (target[i, 0], target[i, 1], target[i, 2]))
    m = (home[0, 3], home[1, 3], home[2, 3])
    t = along((target[0, 3], target[1, 3], target[2, 3]), -1.0, times(R, m))
    h, p, R6 = np.empty((6, 3)), np.empty((6, 3)), np.empty((3, 3))
    usual, found, q = np.empty(6), np.empty((MOST, 6)), np.empty(n)
    work = np.empty((2 * n, 3))
    count = 0
    for value in values:
        t6 = _six(lines, free, value, backwards, R, t, h, p, R6)
        for i in range(6):
            usual[i] = seed[_joint(i, free, backwards)]
        candidates = closed_form(form, h, p, R6, t6, usual, slack, found)
        first = count
        for c in range(candidates):
            if free >= 0:
                q[free] = value
            for i in range(6):
                q[_joint(i, free, backwards)] = found[c, i]
            if not _turn_into_limits(q, limits, seed, free):
                continue
            if not _settle(lines, R, t, m, limits, free, q, work):
                continue
            if not _known(q, out, first, count):
                for j in range(n):
                    out[count, j] = q[j]
                count += 1
        if count >= enough:
            break
    return count


@part
def _joint(i: int, free: int, backwards: bool) -> int:
    """Return which joint of the arm is the i-th of the six."""
    j = 5 - i if backwards else i
    return j + 1 if 0 <= free <= j else j


@part
def _six(
    lines: Array,
    free: int,
    value: float,
    backwards: bool,
    R: Array,
    t: Vector,
    h: Array,
    p: Array,
    R6: Array,
) -> Vector:
    """Write the lines of the six joints for a value of the free one, and what they must displace.

    The free joint moves the lines behind it: ``e_f e_i = (e_f e_i e_f^-1) e_f``; then it stands
    last, and its inverse goes to the other side. Backwards, ``D^-1 = e6^-1 ... e1^-1``.

    Returns:
        The translation; the rotation goes to ``R6``.
    """
    for i in range(3):
        R6[i, 0], R6[i, 1], R6[i, 2] = row(R, i)
    t6 = t
    if free >= 0:
        axis, point = row(lines[0], free), row(lines[1], free)
        c, s = math.cos(value), math.sin(value)
        for i in range(3):
            R6[i, 0], R6[i, 1], R6[i, 2] = turned_by(axis, c, s, row(R, i))
        t6 = along(along(t, 1.0, times(R, point)), -1.0, times(R6, point))
    for i in range(6):
        j = _joint(i, free, backwards)
        direction, place = row(lines[0], j), row(lines[1], j)
        if 0 <= free < j:
            direction = turned_by(axis, c, s, direction)
            place = along(point, 1.0, turned_by(axis, c, s, minus(place, point)))
        sign = -1.0 if backwards else 1.0
        h[i, 0], h[i, 1], h[i, 2] = sign * direction[0], sign * direction[1], sign * direction[2]
        p[i, 0], p[i, 1], p[i, 2] = place
    if backwards:
        moved = back(R6, t6)
        t6 = (-moved[0], -moved[1], -moved[2])
        for i in range(3):
            for j in range(i):
                R6[i, j], R6[j, i] = R6[j, i], R6[i, j]
    return t6


@part
def _turn_into_limits(q: Array, limits: Array, seed: Array, free: int) -> bool:
    """Take full turns so that each joint is within its limits, and there nearest to the seed."""
    for j in range(q.shape[0]):
        low, high, x = limits[0, j] - _SLACK, limits[1, j] + _SLACK, q[j]
        if j != free:
            x += _TURN * round((seed[j] - x) / _TURN)
            if x > high:
                x -= _TURN * math.ceil((x - high) / _TURN)
            elif x < low:
                x += _TURN * math.ceil((low - x) / _TURN)
        if not low <= x <= high:
            return False
        q[j] = min(max(x, limits[0, j]), limits[1, j])
    return True


@part
def _known(q: Array, out: Array, first: int, count: int) -> bool:
    """Return whether a solution was found before, for the same value of the free joint."""
    for i in range(first, count):
        apart = 0.0
        for j in range(q.shape[0]):
            x = abs(q[j] - out[i, j])
            apart = max(apart, min(x, abs(_TURN - x)))
        if apart < _SAME:
            return True
    return False


@part
def _settle(
    lines: Array,
    R: Array,
    t: Vector,
    m: Vector,
    limits: Array,
    free: int,
    q: Array,
    work: Array,
) -> bool:
    """Check a candidate, and improve it by Newton steps if it is not good yet.

    Args:
        lines: as in :func:`search`.
        R: rotation of the displacement that is wanted.
        t: its translation [m].
        m: place of the tip at zero [m].
        limits: as in :func:`search`.
        free: the joint that stays.
        q: the candidate, changed in place.
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
    """Return what is missing at the tip, and write the Jacobian's columns, two rows each, at q.

    Returns:
        Translation [m], rotation vector [rad] (its sine: it is small), the greater of both lengths.
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
    """Move the joints so that what is missing becomes less; damped where the arm is singular.

    ``dq = J^T (J J^T + damping)^-1 e``, the matrix factorised by Cholesky. Source of a damping that
    goes with the squared error: T. Sugihara, IEEE Trans. Robotics 27(5), 2011.
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
