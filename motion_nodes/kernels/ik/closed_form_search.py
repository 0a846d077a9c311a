# SPDX-License-Identifier: Apache-2.0
"""All verified solutions of a six- or seven-joint arm within its joint limits.

An arm with seven joints is one with six for each value of its redundant joint. Every candidate of
the closed form is shifted by full turns into the limits, verified by forward kinematics, refined by
Newton steps where rounding or an approximately matching geometry requires it, and rejected if its
pose error remains above the tolerance.

The arm is a product of exponentials, as in :mod:`motion_nodes.kernels.ik.closed_form`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from motion_nodes.kernels.ik.closed_form import (
    MOST,
    SixJoints,
    Vector,
    along,
    back,
    closed_form,
    cross,
    dot,
    length,
    minus,
    row,
    times,
    turned_by,
)
from motion_nodes.kernels.jit import kernel, part
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
NO_POSE = -1
NEARLY = 1e-3
"""Max deviation of a rotation matrix from orthonormal; the nearest rotation is used."""
_SLACK = 1e-6
"""Max violation of a joint limit by rounding [rad]; the joint is set to the limit."""
_SAME = 1e-6
"""Solutions whose joints differ by less are duplicates [rad]."""
_TURN = 2.0 * math.pi


class Chain(NamedTuple):
    """An arm with n joints, and memory."""

    lines: Array
    """As in :func:`search`."""
    m: Vector
    """Position of the tip at zero [m]."""
    limits: Array
    """Lower and upper joint limits [rad], shape (2, n)."""
    free: int
    """Index of the redundant joint, which is not moved; -1 for none."""
    work: Array
    """Memory for the Jacobian, shape (2 n, 3)."""


@part
def settle(chain: Chain, R: Array, t: Vector, q: Array) -> bool:
    """Verify a candidate, and refine it by Newton steps if necessary.

    Args:
        chain: the arm.
        R: rotation of the desired displacement, shape (3, 3).
        t: translation of the desired displacement [m], shape (3,).
        q: the candidate, changed in place [rad], shape (n,).

    Returns:
        Whether it is a solution.
    """
    goal = along(times(R, chain.m), 1.0, t)
    error, before = math.inf, math.inf
    for _ in range(_STEPS):
        place, spin, error = _compare(chain, R, goal, q)
        if error <= _GOOD:
            return True
        if error > 0.1 or error > _WORSE * before:
            break
        before = error
        _newton(chain, place, spin, q)
    return bool(error <= HOLDS)


@part
def _compare(chain: Chain, R: Array, goal: Vector, q: Array) -> tuple[Vector, Vector, float]:
    """Return the pose error of the tip at q, and write the Jacobian's columns, two rows each.

    Returns:
        Position error [m]; rotation error as axis times sine of the angle, close to its rotation
        vector [rad]; the max of both norms, infinite if the angle is above 60 degrees.
    """
    lines, m, work = chain.lines, chain.m, chain.work
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
def _newton(chain: Chain, place: Vector, spin: Vector, q: Array) -> None:
    """Damped Newton step that reduces the pose error.

    ``dq = J^T (J J^T + damping)^-1 e``, with a Cholesky factorization. Source of a damping
    proportional to the squared error: T. Sugihara, IEEE Trans. Robotics 27(5), 2011.
    """
    n, free, limits, work = q.shape[0], chain.free, chain.limits, chain.work
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
    weights: Array,
    norm: float,
    values: Array,
    enough: int,
    slack: float,
    out: Array,
) -> int:
    """Write the solutions for some values of the redundant joint, sorted by distance from the seed.

    Args:
        form: the form of the arm, see :mod:`motion_nodes.kernels.ik.closed_form`.
        free: index of the redundant joint; -1 for an arm with six joints.
        backwards: whether the form is that of the arm seen from its tip.
        lines: directions and points as the form needs them, then as they are, shape (4, n, 3).
        home: pose of the tip in the base at zero, shape (4, 4).
        limits: lower and upper joint limits [rad], shape (2, n).
        target: pose of the tip in the base, shape (4, 4).
        seed: solutions are shifted by full turns to be close to it [rad], shape (n,).
        weights: of the joints in the distance, shape (n,).
        norm: order p of the distance, at least 1; infinity is the maximum norm.
        values: of the redundant joint [rad], shape (m,); for an arm with six joints, any number.
        enough: number of solutions after which no further value is tried.
        slack: see :func:`motion_nodes.kernels.ik.closed_form.closed_form`.
        out: the solutions [rad], shape (8 m, n).

    Returns:
        Number of solutions written; ``NO_POSE`` if the target is not a valid pose.
    """
    n = lines.shape[1]
    R, tidy = np.empty((3, 3)), np.empty((3, 3))
    if not _rotation(target, tidy):
        return NO_POSE
    for i in range(3):
        R[i, 0], R[i, 1], R[i, 2] = times(home, row(tidy, i))
    m = (home[0, 3], home[1, 3], home[2, 3])
    t = along((target[0, 3], target[1, 3], target[2, 3]), -1.0, times(R, m))
    usual, found, q = np.empty(6), np.empty((MOST, 6)), np.empty(n)
    room = np.empty((2, 6))
    for i in range(6):
        j = _joint(i, free, backwards)
        usual[i] = seed[j]
        # Refinement may remove small violations of a limit.
        margin = 1e-3 + 10.0 * slack
        room[0, i] = max(limits[0, j] - margin, -1e6)
        room[1, i] = limits[1, j] - limits[0, j] + 2.0 * margin
    six = SixJoints(np.empty((6, 3)), np.empty((6, 3)), np.empty((3, 3)), usual, room, slack)
    chain = Chain(lines, m, limits, free, np.empty((2 * n, 3)))
    count = 0
    for value in values:
        t6 = _six(chain, value, backwards, R, t, six)
        candidates = closed_form(form, six, t6, found)
        first = count
        for c in range(candidates):
            if free >= 0:
                q[free] = value
            for i in range(6):
                q[_joint(i, free, backwards)] = found[c, i]
            if not _turn_into_limits(q, limits, seed, free):
                continue
            if not settle(chain, R, t, q):
                continue
            if not _known(q, out, first, count):
                for j in range(n):
                    out[count, j] = q[j]
                count += 1
        if count >= enough:
            break
    _sort(seed, weights, norm, count, out)
    return count


@part
def _rotation(X: Array, R: Array) -> bool:
    """Write the rotation of a pose, orthonormal to machine precision; return False if invalid.

    Source: N. Higham, "Computing the polar decomposition", 1986: Newton-Schulz iteration.
    """
    if X[3, 0] != 0.0 or X[3, 1] != 0.0 or X[3, 2] != 0.0 or X[3, 3] != 1.0:
        return False
    for i in range(3):
        R[i, 0], R[i, 1], R[i, 2] = row(X, i)
    if not dot(row(R, 0), cross(row(R, 1), row(R, 2))) > 0.0:
        return False
    # Rejects NaN in the translation.
    if not length((X[0, 3], X[1, 3], X[2, 3])) < math.inf:
        return False
    for step in range(3):
        a, b, c = row(R, 0), row(R, 1), row(R, 2)
        ab, bc, ca = dot(a, b), dot(b, c), dot(c, a)
        aa, bb, cc = dot(a, a) - 1.0, dot(b, b) - 1.0, dot(c, c) - 1.0
        away = max(abs(ab), abs(bc), abs(ca), max(abs(aa), abs(bb), abs(cc)))
        if step == 0 and not away < NEARLY:
            return False
        for j in range(3):
            R[0, j] = a[j] - 0.5 * (aa * a[j] + ab * b[j] + ca * c[j])
            R[1, j] = b[j] - 0.5 * (ab * a[j] + bb * b[j] + bc * c[j])
            R[2, j] = c[j] - 0.5 * (ca * a[j] + bc * b[j] + cc * c[j])
        if away < 1e-8:
            break
    return True


@part
def _sort(seed: Array, weights: Array, norm: float, count: int, out: Array) -> None:
    """Sort solutions by distance from the seed, closest first."""
    n = out.shape[1]
    away, order, kept = np.empty(count), np.empty(count, np.int64), np.empty((count, n))
    for i in range(count):
        total = 0.0
        for j in range(n):
            x = weights[j] * abs(out[i, j] - seed[j])
            kept[i, j] = out[i, j]
            if norm == math.inf:
                total = max(total, x)
            else:
                total += x * x if norm == 2.0 else x**norm
        at = i
        while at > 0 and away[at - 1] > total:
            away[at], order[at] = away[at - 1], order[at - 1]
            at -= 1
        away[at], order[at] = total, i
    for i in range(count):
        for j in range(n):
            out[i, j] = kept[order[i], j]


@part
def _joint(i: int, free: int, backwards: bool) -> int:
    """Return the index in the arm of the i-th of the six joints."""
    j = 5 - i if backwards else i
    return j + 1 if 0 <= free <= j else j


@part
def _six(
    chain: Chain, value: float, backwards: bool, R: Array, t: Vector, six: SixJoints
) -> Vector:
    """Write axes and rotation of the six joints for a value of the redundant one.

    The redundant joint moves the axes after it: ``e_f e_i = (e_f e_i e_f^-1) e_f``. It is then the
    last factor, and its inverse moves to the other side. Backwards, ``D^-1 = e6^-1 ... e1^-1``.

    Returns:
        The translation [m].
    """
    lines, free, h, p, R6 = chain.lines, chain.free, six.h, six.p, six.R
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
    """Shift joints by full turns into their limits, closest to the seed; False if impossible."""
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
    """Return whether a solution is a duplicate, for the same value of the redundant joint."""
    for i in range(first, count):
        apart = 0.0
        for j in range(q.shape[0]):
            x = abs(q[j] - out[i, j])
            apart = max(apart, min(x, abs(_TURN - x)))
        if apart < _SAME:
            return True
    return False
