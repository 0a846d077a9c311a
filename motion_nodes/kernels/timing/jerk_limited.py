# SPDX-License-Identifier: Apache-2.0
"""Time-optimal motion along a path under limits of velocity, acceleration and jerk.

The squared speed X along the path is a quadratic spline over the path parameter; with U half its
slope and K half its curvature, a joint p moves with

    velocity  p' sqrt(X),   acceleration  p'' X + p' U,   jerk  (p''' X + 3 p'' U + p' K) sqrt(X),

(chain rule; e.g. D. Verscheure et al., "Time-optimal path tracking for robots: a convex
optimization approach", IEEE Transactions on Automatic Control 54(10), 2009, for the first two). The
duration, the integral of 1 / sqrt(X), is convex, and so are the first two limits. A jerk limit,
written as ``|p''' X + 3 p'' U + p' K| <= J / sqrt(X)``, is not, but its tangents are conservative:
a step on the safe side of the tangent satisfies the limit. A primal-dual interior-point method (J.
Nocedal, S. Wright, "Numerical Optimization", 2006, chapter 19) is therefore feasible after each of
its steps. Each step solves a system of bandwidth five, because a limit involves three neighbouring
coefficients of the spline. The terms of the limits are in
:mod:`motion_nodes.kernels.timing.jerk_lanes`, the precomputed tables in
:mod:`motion_nodes.kernels.timing.jerk_tables`.
"""

from __future__ import annotations

import numpy as np

from motion_nodes.kernels.jit import bare_part, kernel
from motion_nodes.kernels.kinematic_arrays import Array, ByteArray, IndexArray
from motion_nodes.kernels.timing.jerk_lanes import (
    END,
    GAP,
    JERK_ROWS,
    LANES,
    LESS_MULTIPLIER,
    LESS_ROOM,
    PLACES,
    ROOMS,
    ROWS,
    SPLINE_ROWS,
    TIME,
    WORK_ROWS,
    acceleration_start,
    acceleration_step,
    acceleration_terms,
    acceleration_use,
    end_place,
    jerk_start,
    jerk_step,
    jerk_terms,
    jerk_use,
    state,
    velocity_start,
    velocity_step,
    velocity_terms,
    velocity_use,
)
from motion_nodes.kernels.timing.jerk_tables import fill_limits, fill_rows, guess
from motion_nodes.kernels.timing.path_pieces import slopes

_ENOUGH = 5e-4
"""Convergence tolerance: max relative excess of the duration over its minimum."""
_STEPS = 100
"""Max number of steps; the motion is feasible after each of them."""
_MARGIN = 0.98
"""Max fraction of the distance to the closest limit per step."""
_LEAST_TARGET = 0.02
"""Min fraction of the gap left by a step: closer to the limits later steps are short."""
_CLOSE = 0.3
"""Min utilization of a limit that is considered by a step close to the solution."""
_CHOICE = 0.1
"""Duality gap from which on other limits are omitted, as a fraction of the duration."""
_COLD, _WARM = 0.9, 0.99
"""Max utilization of the limits by an initial guess and by a previous solution."""


@bare_part
def _fill(W: Array, row: int, value: float) -> None:
    for i in range(LANES):
        W[row + i] = value


@bare_part
def _sum(W: Array, row: int) -> float:
    total = 0.0
    for i in range(LANES):
        total += W[row + i]
    return total


@bare_part
def _use(rows: Array, E: Array, caps: Array, b: Array, W: Array) -> float:
    """Return the factor by which the coefficients must be divided to satisfy all limits."""
    n = E.shape[1] // ROWS
    most = 0.0
    for block in range(len(rows)):
        for place in range(PLACES):
            state(rows[block, place], b, block * LANES, W)
            most = max(most, velocity_use(caps[block, place], W))
            if place != END:
                for j in range(place * n, place * n + n):
                    most = max(most, acceleration_use(E[block, j], W))
            for j in range((END + place) * n, (END + place + 1) * n):
                most = max(most, jerk_use(E[block, j], W))
    return most


@bare_part
def _choose(
    rows: Array, E: Array, b: Array, W: Array, close: float, keep: bool, used: ByteArray
) -> int:
    """Mark the limits of each block that are close to their bounds; return how many there are.

    Limits with a utilization below ``close`` have no effect on the solution; ``keep`` keeps their
    marks.
    """
    n = E.shape[1] // ROWS
    found = 0
    for block in range(len(rows)):
        for place in range(PLACES):
            state(rows[block, place], b, block * LANES, W)
            if place != END:
                for j in range(place * n, place * n + n):
                    near = acceleration_use(E[block, j], W) > close
                    used[block, j] = near or (keep and used[block, j])
            for j in range((END + place) * n, (END + place + 1) * n):
                near = jerk_use(E[block, j], W) > close
                used[block, j] = near or (keep and used[block, j])
        for j in range(ROWS * n):
            found += used[block, j]
    return found


@bare_part
def _advance(used: ByteArray, m: Array, dm: Array, share: float) -> None:
    """Add a share of their changes to the multipliers."""
    for block in range(len(m)):
        for k in range(m.shape[1]):
            if k < PLACES or used[block, k - PLACES]:
                old, change = m[block, k], dm[block, k]
                for i in range(ROOMS * LANES):
                    old[i] += share * change[i]


@bare_part
def _start(
    rows: Array,
    E: Array,
    shares: Array,
    caps: Array,
    b: Array,
    used: ByteArray,
    gap: float,
    m: Array,
    mb: Array,
    W: Array,
) -> None:
    """Write multipliers such that all products with the slacks are equal.

    Their sum is ``gap``, as a fraction of the duration.
    """
    n = E.shape[1] // ROWS
    _fill(W, TIME, 0.0)
    for block in range(len(rows)):
        for place in range(PLACES):
            state(rows[block, place], b, block * LANES, W)
            velocity_start(shares[block, place], caps[block, place], m[block, place], W)
            if place != END:
                for j in range(place * n, place * n + n):
                    if used[block, j]:
                        acceleration_start(E[block, j], m[block, PLACES + j], W)
            for j in range((END + place) * n, (END + place + 1) * n):
                if used[block, j]:
                    jerk_start(E[block, j], m[block, PLACES + j], W)
    weight = gap * _sum(W, TIME)
    _advance(used, m, m, weight - 1.0)
    for i in range(len(mb)):
        mb[i] = weight / b[i]


@bare_part
def _system(
    rows: Array,
    E: Array,
    shares: Array,
    caps: Array,
    b: Array,
    used: ByteArray,
    m: Array,
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
    n = E.shape[1] // ROWS
    for i in range(len(slope)):
        slope[i] = pull[i] = band[0, i] = band[1, i] = band[2, i] = 0.0
    _fill(W, GAP, 0.0)
    _fill(W, TIME, 0.0)
    for block in range(len(rows)):
        for place in range(PLACES):
            row, share = rows[block, place], shares[block, place]
            state(row, b, block * LANES, W)
            velocity_terms(share, caps[block, place], m[block, place], W)
            if place != END:
                for j in range(place * n, place * n + n):
                    if used[block, j]:
                        acceleration_terms(E[block, j], m[block, PLACES + j], W)
            for j in range((END + place) * n, (END + place + 1) * n):
                if used[block, j]:
                    jerk_terms(E[block, j], m[block, PLACES + j], W)
            end_place(row, share, block * LANES, W, slope, pull, band)
    gap = _sum(W, GAP)
    # coefficients above 0, so that X is positive everywhere, not only at the places
    for i in range(len(mb)):
        pull[i] += 1.0 / b[i]
        band[0, i] += mb[i] / b[i]
        gap += mb[i] * b[i]
    return gap, _sum(W, TIME)


@bare_part
def _step_lengths(
    rows: Array,
    E: Array,
    caps: Array,
    b: Array,
    move: Array,
    used: ByteArray,
    target: float,
    m: Array,
    dm: Array,
    mb: Array,
    dmb: Array,
    W: Array,
    D: Array,
) -> tuple[float, float]:
    """Write the multipliers' changes; return max step lengths of coefficients and multipliers."""
    n = E.shape[1] // ROWS
    _fill(W, LESS_ROOM, 1e-9)
    _fill(W, LESS_MULTIPLIER, 1e-9)
    for block in range(len(rows)):
        for place in range(PLACES):
            state(rows[block, place], b, block * LANES, W)
            state(rows[block, place], move, block * LANES, D)
            here, change = m[block], dm[block]
            velocity_step(caps[block, place], here[place], change[place], target, W, D)
            if place != END:
                for j in range(place * n, place * n + n):
                    if used[block, j]:
                        e, k = E[block, j], PLACES + j
                        acceleration_step(e, here[k], change[k], target, W, D)
            for j in range((END + place) * n, (END + place + 1) * n):
                if used[block, j]:
                    jerk_step(E[block, j], here[PLACES + j], change[PLACES + j], target, W, D)
    less = fewer = 0.0
    for i in range(LANES):
        less, fewer = max(less, W[LESS_ROOM + i]), max(fewer, W[LESS_MULTIPLIER + i])
    for i in range(len(mb)):
        dmb[i] = (target - mb[i] * move[i]) / b[i] - mb[i]
        less, fewer = max(less, -move[i] / b[i]), max(fewer, -dmb[i] / mb[i])
    return min(1.0, _MARGIN / less), min(1.0, _MARGIN / fewer)


@bare_part
def _solve(band: Array, x: Array, count: int) -> None:
    """Solve a banded system, factorized in place (Cholesky, L D L')."""
    d0, d1, d2 = band[0], band[1], band[2]
    for i in range(1, count):
        if i >= 2:
            factor = d2[i] / d0[i - 2]
            d1[i] -= factor * d1[i - 1] * d0[i - 2]
            d0[i] -= factor * d2[i]
            d2[i] = factor
            x[i] -= factor * x[i - 2]
        factor = d1[i] / d0[i - 1]
        d0[i] -= factor * d1[i]
        d1[i] = factor
        x[i] -= factor * x[i - 1]
    for i in range(count):
        x[i] /= d0[i]
    for i in range(count - 2, -1, -1):
        x[i] -= d1[i + 1] * x[i + 1]
        if i + 2 < count:
            x[i] -= d2[i + 2] * x[i + 2]


@bare_part
def _write_state(rows: Array, b: Array, X: Array, U: Array) -> None:
    """Write X and U at the grid."""
    last = len(X) - 1
    for i in range(last + 1):
        interval, place = min(i, last - 1), 2 * (i // last)
        row, lane = rows[interval // LANES, place], interval % LANES
        X[i] = U[i] = 0.0
        for c in range(3):
            X[i] += row[c * LANES + lane] * b[interval + c]
            U[i] += row[(3 + c) * LANES + lane] * b[interval + c]


@kernel
def parameter_derivatives(
    breaks: Array,
    coefficients: Array,
    piece: IndexArray,
    grid: Array,
    start: float,
    length: float,
    D: Array,
) -> None:
    """Write the derivatives of a path with respect to a parameter z instead of the arc length.

    The distance is ``start + length z^3 (10 - 15 z + 6 z^2)``.

    Args:
        breaks: of the path, shape (m + 1,).
        coefficients: of the path, shape (m, d + 1, n).
        piece: piece of the path of each interval, shape (N,).
        grid: increasing values of z, shape (N + 1,).
        start: distance at z = 0.
        length: distance from z = 0 to z = 1.
        D: result, see :func:`jerk_limited_speeds`.
    """
    n = D.shape[3]
    q, q1, q2, q3 = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for i in range(len(piece)):
        for place in range(PLACES):
            z = grid[i] + (grid[i + 1] - grid[i]) * place / (PLACES - 1)
            rest = 1.0 - z
            s = start + length * z**3 * (10.0 - 15.0 * z + 6.0 * z * z)
            s1, s2 = length * 30.0 * (z * rest) ** 2, length * 60.0 * z * rest * (1.0 - 2.0 * z)
            s3 = length * 60.0 * (1.0 - 6.0 * z * rest)
            slopes(coefficients, piece[i], s - breaks[piece[i]], q, q1, q2, q3)
            for j in range(n):
                D[i, place, 0, j] = q1[j] * s1
                D[i, place, 1, j] = q2[j] * s1**2 + q1[j] * s2
                D[i, place, 2, j] = q3[j] * s1**3 + 3.0 * q2[j] * s1 * s2 + q1[j] * s3


@kernel
def jerk_limited_speeds(
    D: Array,
    spans: Array,
    velocity: Array,
    limits: Array,
    first_gap: float,
    b: Array,
    X: Array,
    U: Array,
) -> int:
    """Write the time-optimal motion; the path's derivatives define how it begins and ends.

    Args:
        D: first three derivatives of n joints at begin, middle and end of each interval, shape (N,
            3, 3, n).
        spans: lengths of the intervals, shape (N,).
        velocity: limits in each interval, shape (N, n).
        limits: of acceleration and jerk in each interval, finite, shape (N, 2, n).
        first_gap: target of the first step, as a fraction of the duration; small if ``b`` is close
            to the solution.
        b: coefficients of X, shape (N + 2,): of a previous solution, or negative for none; result.
        X: result at the grid, shape (N + 1,).
        U: result at the grid, shape (N + 1,).

    Returns:
        Number of steps.
    """
    count, n = velocity.shape
    blocks = (count + LANES - 1) // LANES
    rows = np.zeros((blocks, PLACES, SPLINE_ROWS * LANES))
    E = np.zeros((blocks, ROWS * n, JERK_ROWS * LANES))
    caps, shares = np.zeros((blocks, PLACES, LANES)), np.zeros((blocks, PLACES, LANES))
    steady = np.empty(count)
    fill_rows(spans, rows)
    fill_limits(D, velocity, limits, E, caps, steady)
    for i in range(count):  # Simpson's rule
        for place in range(PLACES):
            shares[i // LANES, place, i % LANES] = spans[i] * (4.0 if place == 1 else 1.0) / 6.0
    size, length = blocks * LANES + 2, count + 2
    W, C = np.zeros(WORK_ROWS * LANES), np.zeros(WORK_ROWS * LANES)
    c, move = np.ones(size), np.zeros(size)
    used = np.ones((blocks, ROWS * n), np.int8)
    limited, chosen = used.size, b[0] > 0.0
    if chosen:
        c[:length] = b
        c[:length] *= min(1.0, _WARM / _use(rows, E, caps, c, W))
        limited = _choose(rows, E, c, W, _CLOSE, False, used)
    else:
        guess(D, spans, limits, steady, c)
        c[:length] *= _COLD / _use(rows, E, caps, c, W)
    slope, pull, band = np.empty(size), np.empty(size), np.empty((3, size))
    m = np.zeros((blocks, PLACES + ROWS * n, ROOMS * LANES))
    dm = np.zeros((blocks, PLACES + ROWS * n, ROOMS * LANES))
    mb, dmb = np.empty(length), np.empty(length)
    rooms = count * PLACES + ROOMS * LANES * limited + length
    _start(rows, E, shares, caps, c, used, first_gap / rooms, m, mb, W)
    steps, short = 0, 1.0
    while steps < _STEPS:
        gap, time = _system(rows, E, shares, caps, c, used, m, mb, W, slope, pull, band)
        if not gap > _ENOUGH * time:
            # A limit that was omitted and is exceeded now is added.
            more = _choose(rows, E, c, W, 1.0, True, used)
            if more == limited:
                break
            limited = more
            c[:length] *= _WARM / _use(rows, E, caps, c, W)
            rooms = count * PLACES + ROOMS * LANES * limited + length
            _start(rows, E, shares, caps, c, used, first_gap / rooms, m, mb, W)
            short = 1.0
            steps += 1
            continue
        steps += 1
        target = max(short, _LEAST_TARGET) * gap / rooms
        for i in range(length):
            move[i] = target * pull[i] - slope[i]
        _solve(band, move, length)
        far, long = _step_lengths(rows, E, caps, c, move, used, target, m, dm, mb, dmb, W, C)
        for i in range(length):
            c[i] += far * move[i]
            mb[i] += long * dmb[i]
        _advance(used, m, dm, long)
        # After short steps the next one is recentred, where all slacks are large.
        short = 1.0 - min(far, long)
        if not chosen and gap < _CHOICE * time:
            chosen = True
            limited = _choose(rows, E, c, W, _CLOSE, False, used)
            rooms = count * PLACES + ROOMS * LANES * limited + length
    b[:] = c[:length]
    _write_state(rows, c, X, U)
    return steps
