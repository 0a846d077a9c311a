# SPDX-License-Identifier: Apache-2.0
"""Selection of the limits that :mod:`motion_nodes.kernels.timing.jerk_limited` has to consider.

At each place of a path, most joints cannot reach a limit before another joint does, at any speed.
Limits implied by others are left out, which does not change the solution:

* accelerations: in the plane of X and U, a joint's limit is a strip. Between 0 and the X of the
  velocity limits, reduced to where any U is feasible, a strip contains the others' intersection if
  its borders are beyond those of another joint at both ends;
* jerks: K is bounded by the joint with the largest factor of K, U by the accelerations.

The remaining limits of each interval are stored in consecutive slots. Intervals are sorted by their
number of limits, so that the lanes of a block have about equally many.
"""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.kernels.jit import bare_part, part
from motion_nodes.kernels.kinematic_arrays import ByteArray
from motion_nodes.kernels.timing.jerk_lanes import (
    BEGIN,
    END,
    GROUPS,
    JERK_ROWS,
    LANES,
    PLACES,
)
from motion_nodes.typing import Array, IndexArray

_FLAT = 1e-12
"""Factors of U below this do not bound it."""
_UNBOUNDED = 1e12
"""Max X if no limit bounds it."""
_SHRINKS = 2
"""Max number of reductions of the max X to where acceleration limits meet."""


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


@bare_part
def _mark_place(
    D: Array, inverse: Array, e: Array, f: Array, border: Array, first: ByteArray, second: ByteArray
) -> tuple[float, float, float, float]:
    """Mark accelerations and jerks at a place.

    Args:
        D: derivatives, shape (3, n).
        inverse: inverses of the limits, shape (3, n).
        e: scratch, shape (2, n).
        f: scratch, shape (3, n).
        border: scratch, shape (2, n).
        first: result, accelerations.
        second: result, jerks.

    Returns:
        Max X of the velocities, and max factors of X in accelerations, of U in them and of X in
        jerks.
    """
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
    D: Array,
    inverse: Array,
    e: Array,
    f: Array,
    border: Array,
    marks: ByteArray,
    steady: Array,
    steep: Array,
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
            end = _mark_place(D[i, END], inverse, e, f, border, jerks, jerks)
        middle = _mark_place(D[i, 1], inverse, e, f, border, marks[i, 1], marks[i, END + 1])
        begin = _mark_place(D[i, BEGIN], inverse, e, f, border, marks[i, BEGIN], marks[i, END])
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
    e, f, border = np.empty((2, n)), np.empty((3, n)), np.empty((2, n))
    _mark_all(D, inverse, e, f, border, marks, steady, steep)


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
def fill_limits(
    D: Array,
    inverse: Array,
    marks: ByteArray,
    order: IndexArray,
    slots: IndexArray,
    E: Array,
    caps: Array,
) -> None:
    """Write the factors of the marked limits, and the inverses of the max X."""
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
def tighten(
    tight: Array, order: IndexArray, slots: IndexArray, E: Array, caps: Array, factors: Array
) -> None:
    """Divide the limits of each interval.

    Args:
        tight: divisors of the limits of max X, acceleration and jerk, shape (N, 3).
        order: intervals of the lanes.
        slots: first slot of each group of each block, and the end.
        E: factors of the limits.
        caps: inverses of the max X.
        factors: scratch, shape (GROUPS, LANES).
    """
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
