# SPDX-License-Identifier: Apache-2.0
"""Loops of :mod:`motion_nodes.kernels.timing.jerk_limited` over all intervals of a path.

Common arguments:

* order: interval of each lane;
* rows: weights of the coefficients at each place, shape (blocks, PLACES, SPLINE_ROWS * LANES);
* slots: first slot of each group of limits of each block, and the end;
* E: factors of the limits of each slot;
* caps, shares: inverses of the max X, and weights of the duration, shape (blocks, PLACES, LANES);
* b, move: coefficients of X and their step;
* m, mv, mb: multipliers of slots, velocity limits and coefficients; dm, dmv, dmb their changes;
* W, D: workspaces.
"""

from __future__ import annotations

import math

from motion_nodes.kernels.jit import fused_part
from motion_nodes.kernels.timing.jerk_lanes import (
    CUBE,
    DECREASE,
    END,
    ERROR,
    GAP,
    LANES,
    LESS_MULTIPLIER,
    LESS_ROOM,
    PLACES,
    SLOPES,
    TIME,
    USE,
    acceleration_start,
    acceleration_terms,
    acceleration_use,
    end_place,
    gather,
    jerk_start,
    jerk_terms,
    jerk_use,
    scatter,
    state,
    velocity_start,
    velocity_terms,
    velocity_use,
)
from motion_nodes.kernels.timing.jerk_steps import (
    acceleration_predict,
    acceleration_step,
    end_predict,
    jerk_predict,
    jerk_step,
    scatter_errors,
    velocity_predict,
    velocity_step,
)
from motion_nodes.typing import Array, IndexArray

_MARGIN = 0.95
"""Max fraction of the distance to the closest limit per step."""


@fused_part
def _fill(W: Array, row: int, value: float, rows: int = 1) -> None:
    for i in range(rows * LANES):
        W[row + i] = value


@fused_part
def _sum(W: Array, row: int) -> float:
    total = 0.0
    for i in range(LANES):
        total += W[row + i]
    return total


@fused_part
def _max(W: Array, row: int) -> float:
    most = 0.0
    for i in range(LANES):
        most = max(most, W[row + i])
    return most


@fused_part
def limits_use(
    order: IndexArray, rows: Array, slots: IndexArray, E: Array, caps: Array, b: Array, W: Array
) -> float:
    """Return the divisor of the coefficients with which all limits are satisfied."""
    _fill(W, USE, 0.0, 2)
    for block in range(len(rows)):
        at, slot = order[block * LANES : (block + 1) * LANES], slots[block]
        gather(b, at, W)
        for place in range(PLACES):
            state(rows[block, place], W)
            velocity_use(caps[block, place], W)
            if place != END:
                acceleration_use(E, slot[place], slot[place + 1], W)
            k = END + place
            jerk_use(E, slot[k], slot[k + 1], W)
    return max(_max(W, USE), math.pow(_max(W, CUBE), 1.0 / 3.0))


@fused_part
def start(
    order: IndexArray,
    rows: Array,
    slots: IndexArray,
    E: Array,
    shares: Array,
    caps: Array,
    b: Array,
    gap: float,
    m: Array,
    mv: Array,
    mb: Array,
    W: Array,
) -> None:
    """Write multipliers such that all products with their slacks are equal.

    Each product is ``gap``, as a fraction of the duration.
    """
    _fill(W, TIME, 0.0)
    for block in range(len(rows)):
        at, slot = order[block * LANES : (block + 1) * LANES], slots[block]
        gather(b, at, W)
        for place in range(PLACES):
            state(rows[block, place], W)
            velocity_start(shares[block, place], caps[block, place], mv[block, place], W)
            if place != END:
                acceleration_start(E, m, slot[place], slot[place + 1], W)
            k = END + place
            jerk_start(E, m, slot[k], slot[k + 1], W)
    weight = gap * _sum(W, TIME)
    m *= weight
    mv *= weight
    for i in range(len(mb)):
        mb[i] = weight / b[i]


@fused_part
def system(
    order: IndexArray,
    rows: Array,
    slots: IndexArray,
    E: Array,
    shares: Array,
    caps: Array,
    b: Array,
    m: Array,
    mv: Array,
    mb: Array,
    W: Array,
    slope: Array,
    pull: Array,
    band: Array,
) -> tuple[float, float]:
    """Write gradients of duration and limits, and the Hessian.

    Returns:
        The duality gap (upper bound of the excess duration), and the duration.
    """
    for i in range(len(slope)):
        slope[i] = pull[i] = band[0, i] = band[1, i] = band[2, i] = 0.0
    _fill(W, GAP, 0.0)
    _fill(W, TIME, 0.0)
    for block in range(len(rows)):
        at, slot = order[block * LANES : (block + 1) * LANES], slots[block]
        gather(b, at, W)
        _fill(W, SLOPES, 0.0, 12)
        for place in range(PLACES):
            row, share = rows[block, place], shares[block, place]
            state(row, W)
            velocity_terms(share, caps[block, place], mv[block, place], W)
            if place != END:
                acceleration_terms(E, m, slot[place], slot[place + 1], W)
            k = END + place
            jerk_terms(E, m, slot[k], slot[k + 1], W)
            end_place(row, share, W)
        scatter(at, W, slope, pull, band)
    gap = _sum(W, GAP)
    # Coefficients above 0 keep X positive everywhere, not only at the places.
    for i in range(len(mb)):
        pull[i] += 1.0 / b[i]
        band[0, i] += mb[i] / b[i]
        gap += mb[i] * b[i]
    return gap, _sum(W, TIME)


@fused_part
def predict(
    order: IndexArray,
    rows: Array,
    slots: IndexArray,
    E: Array,
    caps: Array,
    b: Array,
    move: Array,
    gap: float,
    m: Array,
    mv: Array,
    mb: Array,
    dm: Array,
    dmv: Array,
    dmb: Array,
    W: Array,
    D: Array,
    errors: Array,
) -> tuple[float, float]:
    """Write the errors of the products after a predicted step, and their effect on the gradient.

    Returns:
        The fraction of the gap that would remain after the step, and the feasible step length.
    """
    for i in range(len(errors)):
        errors[i] = 0.0
    for row in (LESS_ROOM, LESS_MULTIPLIER, DECREASE, ERROR):
        _fill(W, row, 0.0)
    for block in range(len(rows)):
        at, slot = order[block * LANES : (block + 1) * LANES], slots[block]
        gather(b, at, W)
        gather(move, at, D)
        _fill(W, SLOPES, 0.0, 3)
        for place in range(PLACES):
            row = rows[block, place]
            state(row, W)
            state(row, D)
            velocity_predict(caps[block, place], mv[block, place], dmv[block, place], W, D)
            if place != END:
                acceleration_predict(E, m, dm, slot[place], slot[place + 1], W, D)
            k = END + place
            jerk_predict(E, m, dm, slot[k], slot[k + 1], W, D)
            end_predict(row, W)
        scatter_errors(at, W, errors)
    decrease, error = _sum(W, DECREASE), _sum(W, ERROR)
    less, fewer = _max(W, LESS_ROOM), _max(W, LESS_MULTIPLIER)
    for i in range(len(mb)):
        share = -move[i] / b[i]
        less, fewer = max(less, share), max(fewer, 1.0 - share)
        dmb[i] = mb[i] * b[i] * share * (1.0 - share)
        errors[i] += dmb[i] / b[i]
        decrease += mb[i] * b[i] * share
        error += dmb[i]
    far, long = 1.0 / max(1.0, less), 1.0 / max(1.0, fewer)
    left = gap * (1.0 - long) + (long - far) * decrease + far * long * error
    return max(left, 0.0) / gap, min(far, long)


@fused_part
def step_lengths(
    order: IndexArray,
    rows: Array,
    slots: IndexArray,
    E: Array,
    caps: Array,
    b: Array,
    move: Array,
    target: float,
    share: float,
    m: Array,
    mv: Array,
    mb: Array,
    dm: Array,
    dmv: Array,
    dmb: Array,
    W: Array,
    D: Array,
) -> tuple[float, float]:
    """Write the changes of the multipliers; return max lengths of the primal and dual step."""
    _fill(W, LESS_ROOM, 1e-9)
    _fill(W, LESS_MULTIPLIER, 1e-9)
    for block in range(len(rows)):
        at, slot = order[block * LANES : (block + 1) * LANES], slots[block]
        gather(b, at, W)
        gather(move, at, D)
        for place in range(PLACES):
            state(rows[block, place], W)
            state(rows[block, place], D)
            here, change = mv[block, place], dmv[block, place]
            velocity_step(caps[block, place], here, change, target, share, W, D)
            if place != END:
                acceleration_step(E, m, dm, slot[place], slot[place + 1], target, share, W, D)
            k = END + place
            jerk_step(E, m, dm, slot[k], slot[k + 1], target, share, W, D)
    less, fewer = _max(W, LESS_ROOM), _max(W, LESS_MULTIPLIER)
    for i in range(len(mb)):
        dmb[i] = (target - share * dmb[i] - mb[i] * move[i]) / b[i] - mb[i]
        less, fewer = max(less, -move[i] / b[i]), max(fewer, -dmb[i] / mb[i])
    return min(1.0, _MARGIN / less), min(1.0, _MARGIN / fewer)


@fused_part
def advance(m: Array, dm: Array, share: float) -> None:
    """Add a share of their changes to the multipliers."""
    for k in range(len(m)):
        for i in range(m.shape[1]):
            m[k, i] += share * dm[k, i]


@fused_part
def factorize(band: Array, count: int) -> None:
    """Factorize a symmetric band matrix in place: L D L^T (Cholesky), with inverses of D.

    Args:
        band: diagonal and the two subdiagonals, shape (3, count or more).
        count: number of unknowns.

    Source: Golub and Van Loan, Matrix Computations, section 4.3.
    """
    d0, d1, d2 = band[0], band[1], band[2]
    d0[0] = before = 1.0 / d0[0]
    factor = d1[1] * before
    d0[1] = here = 1.0 / (d0[1] - factor * d1[1])
    d1[1] = last = factor
    for i in range(2, count):
        outer = d2[i] * before
        inner = d1[i] - d2[i] * last
        last = inner * here
        before, here = here, 1.0 / (d0[i] - outer * d2[i] - last * inner)
        d0[i], d1[i], d2[i] = here, last, outer


@fused_part
def solve(band: Array, x: Array, count: int) -> None:
    """Solve a band system in place; x is the right-hand side, then the solution.

    Args:
        band: from :func:`factorize`.
        x: shape (count or more,).
        count: number of unknowns.
    """
    d0, d1, d2 = band[0], band[1], band[2]
    before, here = x[0], x[1] - d1[1] * x[0]
    x[1] = here
    for i in range(2, count):
        before, here = here, (x[i] - d2[i] * before) - d1[i] * here
        x[i] = here
    for i in range(count):
        x[i] *= d0[i]
    after = x[count - 1]
    here = x[count - 2] - d1[count - 1] * after
    x[count - 2] = here
    for i in range(count - 3, -1, -1):
        after, here = here, (x[i] - d2[i + 2] * after) - d1[i + 1] * here
        x[i] = here
