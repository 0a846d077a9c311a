# SPDX-License-Identifier: Apache-2.0
"""Selection of the limits that :mod:`motion_nodes.kernels.timing.jerk_limited` has to consider.

At each place of a path, most joints cannot reach a limit before another joint does, at any speed.
Limits implied by others are left out, which does not change the solution:

* accelerations: in the plane of X and U, a joint's limit is a strip. Between 0 and the X of the
  velocity limits, a strip contains the others' intersection if its borders are beyond those of
  another joint at both ends;
* jerks: K is bounded by the joint with the largest factor of K, U by the accelerations.

The remaining limits of each interval are stored in consecutive slots. Intervals are sorted by their
number of limits, so that the lanes of a block have about equally many.
"""

from __future__ import annotations

import numpy as np

from motion_nodes.kernels.jit import bare_part, part
from motion_nodes.kernels.kinematic_arrays import Array, ByteArray, IndexArray
from motion_nodes.kernels.timing.jerk_lanes import (
    BEGIN,
    END,
    GROUPS,
    JERK_ROWS,
    LANES,
    PLACES,
)

_FLAT = 1e-12
"""Factors of U below this do not bound it."""
_SHRINKS = 3
_UNBOUNDED = 1e12
"""Max X if no limit bounds it."""


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
def _borders(e: Array, cap: float, border: Array) -> tuple[int, int, int]:
    """Write the borders of the acceleration limits' strips in the plane of X and U.

    Args:
        e: factors of X and U, shape (2, n).
        cap: max X.
        border: result: bound of U at X = 0, of U and of -U at X = cap, shape (3, n).

    Returns:
        The joints with the smallest of each bound.
    """
    steep = top = bottom = 0
    for j in range(e.shape[1]):
        near = 1.0 / max(abs(e[1, j]), _FLAT)
        rise = (-cap if e[1, j] >= 0.0 else cap) * e[0, j] * near
        border[0, j], border[1, j], border[2, j] = near, near + rise, near - rise
        if near < border[0, steep]:
            steep = j
        if near + rise < border[1, top]:
            top = j
        if near - rise < border[2, bottom]:
            bottom = j
    return steep, top, bottom


@bare_part
def _mark_accelerations(
    e: Array, cap: float, border: Array, marks: ByteArray
) -> tuple[float, float]:
    """Mark the acceleration limits that are not implied by others; return the max X and U.

    ``border`` is scratch, shape (3, n).
    """
    for _ in range(_SHRINKS):
        steep, top, bottom = _borders(e, cap, border)
        # Beyond the X where the borders meet, no U is feasible.
        far = border[1, top] + border[2, bottom]
        if far >= 0.0:
            break
        near = border[0, top] + border[0, bottom]
        cap *= near / (near - far)
    steep, top, bottom = _borders(e, cap, border)
    for j in range(e.shape[1]):
        over = border[1, j] >= border[1, steep] or border[0, j] >= border[0, top]
        under = border[2, j] >= border[2, steep] or border[0, j] >= border[0, bottom]
        marks[j] = j in (steep, top, bottom) or not (over and under)
    up = min(max(border[0, steep], border[1, steep]), max(border[0, top], border[1, top]))
    down = min(max(border[0, steep], border[2, steep]), max(border[0, bottom], border[2, bottom]))
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
    least = 1.0 / cap**0.5
    for j in range(n):
        marks[j] = 1
        if j != steep and f2 != 0.0:
            r = f[2, j] / f2
            rest = abs(f[0, j] - r * f0) * cap + abs(f[1, j] - r * f1) * most
            marks[j] = not rest <= (1.0 - abs(r)) * least


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
    e, f, border = np.empty((2, n)), np.empty((3, n)), np.empty((3, n))
    for i in range(len(D)):
        least, bend, bent = _UNBOUNDED, 1e-12, 1e-18
        steep[i] = 1e-12
        for place in range(PLACES):
            cap = _joint_factors(D[i, place], inverse, e, f)
            # Accelerations at the end are limited by the next interval.
            here = marks[i, place] if place != END else marks[i, END + place]
            reach, most = _mark_accelerations(e, cap, border, here)
            _mark_jerks(f, reach, most, marks[i, END + place])
            least = min(least, cap)
            for j in range(n):
                bend, bent = max(bend, abs(e[0, j])), max(bent, abs(f[0, j]))
                steep[i] = max(steep[i], abs(e[1, j]))
        steady[i] = min(least, 1.0 / bend, bent ** (-2.0 / 3.0))


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
