# SPDX-License-Identifier: Apache-2.0
"""Barrier terms of velocity, acceleration and jerk limits, for many path intervals at once.

Part of :mod:`motion_nodes.kernels.timing.jerk_limited`, which explains the symbols. Intervals of
the path are processed in blocks of :data:`LANES`; every loop over them is vectorized, because each
array consists of rows of lanes at offsets known to the compiler.

A limit is a slack that must stay above 0: ``1 - X / cap`` for the velocity, ``1 - a`` and ``1 + a``
for an acceleration, ``y - j`` and ``y + j`` for a jerk, with a linear in X and U, j linear in X, U
and K, and ``y = 1 / sqrt(X)``. Each slack has a multiplier. Accelerations are continuous, so the
acceleration at the end of an interval is limited by the next interval.

Only limits that can be reached are considered. At each place of a path, most joints cannot reach a
limit before another joint does, at any speed. Limits implied by others are left out, which does not
change the solution:

* accelerations: in the plane of X and U, a joint's limit is a strip. Between 0 and the X of the
  velocity limits, reduced to where any U is feasible, a strip contains the others' intersection if
  its borders are beyond those of another joint at both ends;
* jerks: K is bounded by the joint with the largest factor of K, U by the accelerations.

The remaining limits of each interval are stored in consecutive slots. Intervals are sorted by their
number of limits, so that the lanes of a block have about equally many.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from motion_nodes.kernels.jit import bare_part, fused_part, part
from motion_nodes.kernels.kinematic_arrays import ByteArray
from motion_nodes.typing import Array, IndexArray

LANES = 16
"""Intervals per block."""
PLACES = 3
"""Places at which each interval is evaluated: begin, middle and end."""
BEGIN, END = 0, PLACES - 1
SPLINE_ROWS = 9
"""Number of weights: of three coefficients in X, then in U, then in K."""
JERK_ROWS = 3
"""Factors of X, U and K in a jerk relative to its limit; an acceleration has two, of X and U."""
GROUPS = 2 + PLACES
"""Groups of limits: accelerations at begin and middle, jerks at all places."""
ROOMS = 2
"""Slacks per limit, one on each side."""
_BENT = 14 * LANES
"""Multipliers of jerks, which contribute negative curvature."""
SLOPES, PULLS, BANDS = 24 * LANES, 27 * LANES, 30 * LANES
"""Gradients and Hessian with respect to the three coefficients of each lane: 3, 3 and 6 rows."""
USE, CUBE = 36 * LANES, 37 * LANES
"""Max ratio of velocities and accelerations to their limits, and of jerks, cubed."""
WORK_ROWS = 38
_FLAT = 1e-12
"""Factors of U below this do not bound it."""
_UNBOUNDED = 1e12
"""Max X if no limit bounds it."""
_SHRINKS = 2
"""Max number of reductions of the max X to where acceleration limits meet."""
# Rows of a workspace.
AT_X, AT_U, AT_K, AT_Y = (row * LANES for row in range(4))
_SLOPE, PULL, _PULL1, _PULL2 = (row * LANES for row in range(4, 8))
_H00, _H10, _H11, _H20, _H21, _H22 = (row * LANES for row in range(8, 14))
_B0, _B1, _B2 = (row * LANES for row in range(15, 18))
GAP, TIME, LESS_ROOM, LESS_MULTIPLIER = (row * LANES for row in range(18, 22))
"""Sums of slacks times multipliers, and of the duration; max relative decrease of slacks and of
multipliers in a step."""
DECREASE, ERROR = (row * LANES for row in range(22, 24))
"""Sums of multipliers times decreases of the slacks, and of the products of both changes."""


class PathLimits(NamedTuple):
    """Limits of all intervals of a path, in blocks of lanes."""

    order: IndexArray
    """Interval of each lane."""
    rows: Array
    """Weights of the coefficients at each place, shape (blocks, PLACES, SPLINE_ROWS * LANES)."""
    slots: IndexArray
    """First slot of each group of limits of each block, and the end."""
    E: Array
    """Factors of the limits of each slot."""
    caps: Array
    """Inverses of the max X, shape (blocks, PLACES, LANES)."""
    shares: Array
    """Weights of the duration, shape (blocks, PLACES, LANES)."""


@fused_part
def gather(b: Array, at: IndexArray, W: Array) -> None:
    """Write the three coefficients of each lane."""
    for i in range(LANES):
        k = at[i]
        W[_B0 + i], W[_B1 + i], W[_B2 + i] = b[k], b[k + 1], b[k + 2]


@fused_part
def state(rows: Array, W: Array) -> None:
    """Write X, U and K at a place of the lanes' intervals."""
    for i in range(LANES):
        b0, b1, b2 = W[_B0 + i], W[_B1 + i], W[_B2 + i]
        W[AT_X + i] = rows[i] * b0 + rows[LANES + i] * b1 + rows[2 * LANES + i] * b2
        W[AT_U + i] = rows[3 * LANES + i] * b0 + rows[4 * LANES + i] * b1 + rows[5 * LANES + i] * b2
        W[AT_K + i] = rows[6 * LANES + i] * b0 + rows[7 * LANES + i] * b1 + rows[8 * LANES + i] * b2


@fused_part
def acceleration_at(e0: float, e1: float, i: int, W: Array) -> float:
    """Return an acceleration relative to its limit, or its change if W holds changes."""
    return e0 * W[AT_X + i] + e1 * W[AT_U + i]  # type: ignore[no-any-return]


@fused_part
def jerk_at(f0: float, f1: float, f2: float, i: int, W: Array) -> float:
    """Return a jerk relative to its limit, divided by sqrt(X); its change if W holds changes."""
    return f0 * W[AT_X + i] + f1 * W[AT_U + i] + f2 * W[AT_K + i]  # type: ignore[no-any-return]


@fused_part
def velocity_terms(shares: Array, caps: Array, m: Array, W: Array) -> None:
    """Begin a place: write the contributions of the duration and the velocity limit."""
    for i in range(LANES):
        X, cap = W[AT_X + i], caps[i]
        y = 1.0 / math.sqrt(X)
        inverse = 1.0 / (1.0 - X * cap)
        W[AT_Y + i] = y
        W[_SLOPE + i] = -0.5 * shares[i] * y * y * y
        W[PULL + i] = -cap * inverse
        W[_PULL1 + i] = W[_PULL2 + i] = 0.0
        W[_H00 + i] = m[i] * inverse * cap * cap
        W[_H10 + i] = W[_H11 + i] = W[_H20 + i] = W[_H21 + i] = W[_H22 + i] = 0.0
        W[_BENT + i] = 0.0
        W[GAP + i] += m[i] * (1.0 - X * cap)
        W[TIME + i] += shares[i] * y


@fused_part
def acceleration_terms(E: Array, m: Array, first: int, last: int, W: Array) -> None:
    """Add the contributions of acceleration limits, in a range of slots."""
    for k in range(first, last):
        for i in range(LANES):
            e0, e1, m0, m1 = E[k, i], E[k, LANES + i], m[k, i], m[k, LANES + i]
            a = acceleration_at(e0, e1, i, W)
            inverse = 1.0 / (1.0 - a * a)  # one division for the inverses of both slacks
            p0, p1 = inverse * (1.0 + a), inverse * (1.0 - a)
            h = m0 * p0 + m1 * p1
            W[PULL + i] += (p1 - p0) * e0
            W[_PULL1 + i] += (p1 - p0) * e1
            W[_H00 + i] += h * e0 * e0
            W[_H10 + i] += h * e0 * e1
            W[_H11 + i] += h * e1 * e1
            W[GAP + i] += m0 * (1.0 - a) + m1 * (1.0 + a)


@fused_part
def jerk_terms(E: Array, m: Array, first: int, last: int, W: Array) -> None:
    """Add the contributions of jerk limits."""
    for k in range(first, last):
        for i in range(LANES):
            y = W[AT_Y + i]
            f0, f1, f2 = E[k, i], E[k, LANES + i], E[k, 2 * LANES + i]
            m2, m3 = m[k, i], m[k, LANES + i]
            j = jerk_at(f0, f1, f2, i, W)
            inverse = 1.0 / (y * y - j * j)
            p2, p3 = inverse * (y + j), inverse * (y - j)
            d = 0.5 * y * y * y
            both, one = m2 * p2 + m3 * p3, (m2 * p2 - m3 * p3) * d
            W[PULL + i] += (p3 - p2) * f0 - (p2 + p3) * d
            W[_PULL1 + i] += (p3 - p2) * f1
            W[_PULL2 + i] += (p3 - p2) * f2
            W[_H00 + i] += both * (d * d + f0 * f0) + 2.0 * one * f0
            W[_H10 + i] += one * f1 + both * f0 * f1
            W[_H11 + i] += both * f1 * f1
            W[_H20 + i] += one * f2 + both * f0 * f2
            W[_H21 + i] += both * f1 * f2
            W[_H22 + i] += both * f2 * f2
            W[_BENT + i] += m2 + m3
            W[GAP + i] += m2 * (y - j) + m3 * (y + j)


@fused_part
def end_place(rows: Array, shares: Array, W: Array) -> None:
    """Add the contributions of a place to gradients and Hessian of the coefficients."""
    for i in range(LANES):
        # The duration is convex, the jerk limits are concave; their curvature is clamped at 0.
        y = W[AT_Y + i]
        W[_H00 + i] += 0.75 * max(shares[i] - W[_BENT + i], 0.0) * y * y * y * y * y
    for c in range(3):
        for i in range(LANES):
            r0, r1, r2 = (rows[c * LANES + i], rows[(3 + c) * LANES + i], rows[(6 + c) * LANES + i])
            W[SLOPES + c * LANES + i] += W[_SLOPE + i] * r0
            W[PULLS + c * LANES + i] += W[PULL + i] * r0 + W[_PULL1 + i] * r1 + W[_PULL2 + i] * r2
    for i in range(LANES):
        h00, h10, h11 = W[_H00 + i], W[_H10 + i], W[_H11 + i]
        h20, h21, h22 = W[_H20 + i], W[_H21 + i], W[_H22 + i]
        x0, x1, x2 = rows[i], rows[LANES + i], rows[2 * LANES + i]
        u0, u1, u2 = rows[3 * LANES + i], rows[4 * LANES + i], rows[5 * LANES + i]
        k0, k1, k2 = rows[6 * LANES + i], rows[7 * LANES + i], rows[8 * LANES + i]
        p0, p1, p2 = (
            h00 * x0 + h10 * u0 + h20 * k0,
            h10 * x0 + h11 * u0 + h21 * k0,
            h20 * x0 + h21 * u0 + h22 * k0,
        )
        q0, q1, q2 = (
            h00 * x1 + h10 * u1 + h20 * k1,
            h10 * x1 + h11 * u1 + h21 * k1,
            h20 * x1 + h21 * u1 + h22 * k1,
        )
        r0, r1, r2 = (
            h00 * x2 + h10 * u2 + h20 * k2,
            h10 * x2 + h11 * u2 + h21 * k2,
            h20 * x2 + h21 * u2 + h22 * k2,
        )
        W[BANDS + i] += p0 * x0 + p1 * u0 + p2 * k0
        W[BANDS + LANES + i] += q0 * x1 + q1 * u1 + q2 * k1
        W[BANDS + 2 * LANES + i] += r0 * x2 + r1 * u2 + r2 * k2
        W[BANDS + 3 * LANES + i] += p0 * x1 + p1 * u1 + p2 * k1
        W[BANDS + 4 * LANES + i] += q0 * x2 + q1 * u2 + q2 * k2
        W[BANDS + 5 * LANES + i] += p0 * x2 + p1 * u2 + p2 * k2


@fused_part
def scatter(at: IndexArray, W: Array, slope: Array, pull: Array, band: Array) -> None:
    """Add the lanes' gradients and Hessian to those of all coefficients."""
    for i in range(LANES):
        k = at[i]
        for c in range(3):
            slope[k + c] += W[SLOPES + c * LANES + i]
            pull[k + c] += W[PULLS + c * LANES + i]
            band[0, k + c] += W[BANDS + c * LANES + i]
        band[1, k + 1] += W[BANDS + 3 * LANES + i]
        band[1, k + 2] += W[BANDS + 4 * LANES + i]
        band[2, k + 2] += W[BANDS + 5 * LANES + i]


@fused_part
def velocity_start(shares: Array, caps: Array, m: Array, W: Array) -> None:
    """Write multipliers whose products with the slacks are 1."""
    for i in range(LANES):
        m[i] = 1.0 / (1.0 - W[AT_X + i] * caps[i])
        W[TIME + i] += shares[i] / math.sqrt(W[AT_X + i])


@fused_part
def acceleration_start(E: Array, m: Array, first: int, last: int, W: Array) -> None:
    """The same for the slacks of acceleration limits."""
    for k in range(first, last):
        for i in range(LANES):
            a = acceleration_at(E[k, i], E[k, LANES + i], i, W)
            m[k, i], m[k, LANES + i] = 1.0 / (1.0 - a), 1.0 / (1.0 + a)


@fused_part
def jerk_start(E: Array, m: Array, first: int, last: int, W: Array) -> None:
    """The same for the slacks of jerk limits."""
    for k in range(first, last):
        for i in range(LANES):
            y = 1.0 / math.sqrt(W[AT_X + i])
            j = jerk_at(E[k, i], E[k, LANES + i], E[k, 2 * LANES + i], i, W)
            m[k, i], m[k, LANES + i] = 1.0 / (y - j), 1.0 / (y + j)


@fused_part
def velocity_use(caps: Array, W: Array) -> None:
    """Raise the lanes' max ratios of X to its cap."""
    for i in range(LANES):
        W[USE + i] = max(W[USE + i], W[AT_X + i] * caps[i])


@fused_part
def acceleration_use(E: Array, first: int, last: int, W: Array) -> None:
    """Raise the lanes' max ratios of an acceleration to its limit."""
    for k in range(first, last):
        for i in range(LANES):
            W[USE + i] = max(W[USE + i], abs(acceleration_at(E[k, i], E[k, LANES + i], i, W)))


@fused_part
def jerk_use(E: Array, first: int, last: int, W: Array) -> None:
    """Raise the cubes of the lanes' divisors of X with which all jerk limits are satisfied."""
    for k in range(first, last):
        for i in range(LANES):
            j = jerk_at(E[k, i], E[k, LANES + i], E[k, 2 * LANES + i], i, W)
            W[CUBE + i] = max(W[CUBE + i], j * j * W[AT_X + i])


@bare_part
def _joint_factors(D: Array, inverse: Array, e: Array, f: Array) -> float:
    """Write the factors of accelerations (2, n) and jerks (3, n) at a place; return the max X.

    Args:
        D: derivatives at the place, shape (3, n).
        inverse: inverses of the limits of velocity, acceleration and jerk, shape (3, n).
        e: result.
        f: result.
    """
    rate = 1.0 / _UNBOUNDED**0.5
    for j in range(D.shape[1]):
        p1, p2, p3 = D[0, j], D[1, j], D[2, j]
        a, jolt = inverse[1, j], inverse[2, j]
        rate = max(rate, abs(p1) * inverse[0, j])
        e[0, j], e[1, j] = p2 * a, p1 * a
        f[0, j], f[1, j], f[2, j] = p3 * jolt, 3.0 * p2 * jolt, p1 * jolt
    return float(1.0 / (rate * rate))


@bare_part
def _borders(e: Array, border: Array) -> int:
    """Write the borders of the acceleration limits' strips; return the joint with the least U.

    Args:
        e: factors of X and U, shape (2, n).
        border: result: bound of U at X = 0, and its slope over X; the bound of -U has the negative
            slope. Shape (2, n).
    """
    steep = 0
    for j in range(e.shape[1]):
        near = 1.0 / max(abs(e[1, j]), _FLAT)
        border[0, j], border[1, j] = near, (-near if e[1, j] >= 0.0 else near) * e[0, j]
        steep = j if near < border[0, steep] else steep
    return steep


@bare_part
def _least(border: Array, X: float) -> tuple[int, int]:
    """Return the joints with the least bounds of U and of -U at X."""
    top = bottom = 0
    up = down = math.inf
    for j in range(border.shape[1]):
        over, under = border[0, j] + X * border[1, j], border[0, j] - X * border[1, j]
        top, bottom = j if over < up else top, j if under < down else bottom
        up, down = min(up, over), min(down, under)
    return top, bottom


@bare_part
def _mark_accelerations(
    e: Array, cap: float, border: Array, marks: ByteArray
) -> tuple[float, float]:
    """Mark the acceleration limits that are not implied by others; return the max X and U.

    ``border`` is scratch, shape (2, n).
    """
    steep = _borders(e, border)
    near, rise = border[0], border[1]
    top, bottom = _least(border, cap)
    for _ in range(_SHRINKS):
        # Beyond the X at which both borders meet, no U is feasible.
        height, slope = near[top] + near[bottom], rise[top] - rise[bottom]
        if height + cap * slope >= 0.0:
            break
        cap = -height / slope
        top, bottom = _least(border, cap)
    t0, t1 = near[top], near[top] + cap * rise[top]
    b0, b1 = near[bottom], near[bottom] - cap * rise[bottom]
    s0, s1, s2 = near[steep], near[steep] + cap * rise[steep], near[steep] - cap * rise[steep]
    for j in range(e.shape[1]):
        over = (near[j] + cap * rise[j] >= s1) | (near[j] >= t0)
        under = (near[j] - cap * rise[j] >= s2) | (near[j] >= b0)
        marks[j] = not (over & under)
    marks[steep] = marks[top] = marks[bottom] = 1
    up, down = min(max(s0, s1), max(t0, t1)), min(max(s0, s2), max(b0, b1))
    return cap, float(max(up, down))


@bare_part
def _mark_jerks(f: Array, cap: float, most: float, marks: ByteArray) -> None:
    """Mark the jerk limits that are not implied by others, for X up to cap and U up to most."""
    n = f.shape[1]
    steep = 0
    for j in range(1, n):
        if abs(f[2, j]) > abs(f[2, steep]):
            steep = j
    f0, f1, f2 = f[0, steep], f[1, steep], f[2, steep]
    least = 1.0 / math.sqrt(cap)
    for j in range(n):
        marks[j] = 1
        if j != steep and f2 != 0.0:
            r = f[2, j] / f2
            rest = abs(f[0, j] - r * f0) * cap + abs(f[1, j] - r * f1) * most
            marks[j] = not rest <= (1.0 - abs(r)) * least


class _Scratch(NamedTuple):
    """Memory for one place."""

    e: Array
    """Factors of X and U in accelerations, shape (2, n)."""
    f: Array
    """Factors of X, U and K in jerks, shape (3, n)."""
    border: Array
    """Borders of the accelerations' strips, shape (2, n)."""


@bare_part
def _mark_place(
    D: Array, inverse: Array, scratch: _Scratch, first: ByteArray, second: ByteArray
) -> tuple[float, float, float, float]:
    """Mark accelerations and jerks at a place.

    Args:
        D: derivatives, shape (3, n).
        inverse: inverses of the limits, shape (3, n).
        scratch: memory.
        first: result, accelerations.
        second: result, jerks.

    Returns:
        Max X of the velocities, and max factors of X in accelerations, of U in them and of X in
        jerks.
    """
    e, f, border = scratch
    cap = _joint_factors(D, inverse, e, f)
    reach, most = _mark_accelerations(e, cap, border, first)
    _mark_jerks(f, reach, most, second)
    bend, steep, bent = 1e-12, 1e-12, 1e-18
    for j in range(e.shape[1]):
        bend, steep = max(bend, abs(e[0, j])), max(steep, abs(e[1, j]))
        bent = max(bent, abs(f[0, j]))
    return cap, bend, steep, bent


@bare_part
def _equal(A: Array, B: Array) -> bool:
    different = 0.0
    for row in range(A.shape[0]):
        for j in range(A.shape[1]):
            different = max(different, abs(A[row, j] - B[row, j]))
    return different == 0.0


@bare_part
def _mark_all(
    D: Array, inverse: Array, scratch: _Scratch, marks: ByteArray, steady: Array, steep: Array
) -> None:
    last = len(D) - 1
    begin = (0.0, 0.0, 0.0, 0.0)
    for i in range(last, -1, -1):
        # Accelerations at the end are limited by the next interval.
        end, jerks = begin, marks[i, END + END]
        if i < last and _equal(D[i, END], D[i + 1, BEGIN]):
            for j in range(D.shape[3]):
                jerks[j] = marks[i + 1, END + BEGIN, j]
        else:
            end = _mark_place(D[i, END], inverse, scratch, jerks, jerks)
        middle = _mark_place(D[i, 1], inverse, scratch, marks[i, 1], marks[i, END + 1])
        begin = _mark_place(D[i, BEGIN], inverse, scratch, marks[i, BEGIN], marks[i, END])
        cap = min(begin[0], middle[0], end[0])
        bend = max(begin[1], middle[1], end[1])
        steep[i] = max(begin[2], middle[2], end[2])
        bent = max(begin[3], middle[3], end[3])
        steady[i] = X = min(cap, 1.0 / bend)
        if bent * bent * X * X * X > 1.0:
            steady[i] = bent ** (-2.0 / 3.0)


@part
def mark_limits(D: Array, inverse: Array, marks: ByteArray, steady: Array, steep: Array) -> None:
    """Mark which limits are needed, shape (N, GROUPS, n).

    Args:
        D: derivatives, shape (N, PLACES, 3, n).
        inverse: inverses of the limits of velocity, acceleration and jerk, shape (3, n).
        marks: result.
        steady: result, X of feasible constant speed in each interval, shape (N,).
        steep: result, max factor of U in each interval, shape (N,).
    """
    n = D.shape[3]
    scratch = _Scratch(np.empty((2, n)), np.empty((3, n)), np.empty((2, n)))
    _mark_all(D, inverse, scratch, marks, steady, steep)


@bare_part
def sort_intervals(marks: ByteArray, counts: IndexArray, order: IndexArray) -> None:
    """Write the intervals sorted by their numbers of limits (counting sort)."""
    N, n = len(marks), marks.shape[2]
    for key in range(len(counts)):
        counts[key] = 0
    for i in range(N):
        counts[_key(marks[i], n) + 1] += 1
    for key in range(1, len(counts)):
        counts[key] += counts[key - 1]
    for i in range(N):
        key = _key(marks[i], n)
        order[counts[key]] = i
        counts[key] += 1
    for k in range(N, len(order)):
        order[k] = N + 2  # unused lanes: coefficients of 1


@bare_part
def _key(marks: ByteArray, n: int) -> int:
    most = total = 0
    for g in range(GROUPS):
        here = 0
        for j in range(n):
            here += marks[g, j]
        most, total = max(most, here), total + here
    return most * (GROUPS * n + 1) + total


@bare_part
def lay_out(marks: ByteArray, order: IndexArray, slots: IndexArray) -> int:
    """Write the first slot of each group of each block, and the end; return the number of slots."""
    N, n = len(marks), marks.shape[2]
    total = 0
    for block in range(len(slots)):
        for g in range(GROUPS):
            slots[block, g] = total
            most = 0
            for lane in range(LANES):
                i = order[block * LANES + lane]
                here = 0
                if i < N:
                    for j in range(n):
                        here += marks[i, g, j]
                most = max(most, here)
            total += most
        slots[block, GROUPS] = total
    return total


@part
def fill_limits(D: Array, inverse: Array, marks: ByteArray, limits: PathLimits) -> None:
    """Write the factors of the marked limits, and the inverses of the max X."""
    order, slots, E, caps = limits.order, limits.slots, limits.E, limits.caps
    N, n = marks.shape[0], marks.shape[2]
    e, f = np.empty((2, n)), np.empty((3, n))
    for block in range(len(slots)):
        for lane in range(LANES):
            i = order[block * LANES + lane]
            if i >= N:
                continue
            for place in range(PLACES):
                caps[block, place, lane] = 1.0 / _joint_factors(D[i, place], inverse, e, f)
                slot = slots[block, place]
                for j in range(n):
                    if place != END and marks[i, place, j]:
                        E[slot, lane], E[slot, LANES + lane] = e[0, j], e[1, j]
                        slot += 1
                slot = slots[block, END + place]
                for j in range(n):
                    if marks[i, END + place, j]:
                        E[slot, lane], E[slot, LANES + lane] = f[0, j], f[1, j]
                        E[slot, 2 * LANES + lane] = f[2, j]
                        slot += 1


@bare_part
def tighten(tight: Array, limits: PathLimits, factors: Array) -> None:
    """Divide the limits of each interval.

    Args:
        tight: divisors of the limits of max X, acceleration and jerk, shape (N, 3).
        limits: the limits, changed.
        factors: scratch, shape (GROUPS, LANES).
    """
    order, slots, E, caps = limits.order, limits.slots, limits.E, limits.caps
    for block in range(len(slots)):
        for lane in range(LANES):
            i = order[block * LANES + lane]
            for g in range(GROUPS):
                factors[g, lane] = 1.0
            if i < len(tight):
                factors[BEGIN, lane] = max(tight[i, 1], tight[max(i - 1, 0), 1])
                factors[BEGIN + 1, lane] = tight[i, 1]
                for place in range(PLACES):
                    factors[END + place, lane] = tight[i, 2]
                    caps[block, place, lane] *= tight[i, 0]
        for g in range(GROUPS):
            for k in range(slots[block, g], slots[block, g + 1]):
                for row in range(JERK_ROWS):
                    for lane in range(LANES):
                        E[k, row * LANES + lane] *= factors[g, lane]
