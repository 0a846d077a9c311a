# SPDX-License-Identifier: Apache-2.0
"""Time-optimal motion along a path under limits of velocity, acceleration and jerk.

The squared speed X along the path is a quadratic spline over the path parameter; with U half its
slope and K half its curvature, a joint p moves with

    velocity  p' sqrt(X),   acceleration  p'' X + p' U,   jerk  (p''' X + 3 p'' U + p' K) sqrt(X),

(chain rule; e.g. D. Verscheure et al., "Time-optimal path tracking for robots: a convex
optimization approach", IEEE Transactions on Automatic Control 54(10), 2009, for the first two). The
duration, the integral of 1 / sqrt(X), is convex, and so are the first two limits. A jerk limit,
written as ``|p''' X + 3 p'' U + p' K| <= J / sqrt(X)``, is not, but its tangents are conservative:
a step on the safe side of a tangent satisfies the limit. A primal-dual interior-point method (J.
Nocedal, S. Wright, "Numerical Optimization", 2006, chapter 19) is therefore feasible after each of
its steps. Each step solves a system of bandwidth five, because a limit involves three neighbouring
coefficients of the spline. The terms of the limits, and the selection of those that can be reached,
are in :mod:`motion_nodes.kernels.timing.jerk_barriers`, the steps and loops over all intervals in
:mod:`motion_nodes.kernels.timing.jerk_passes`. Between the grid points the motion may exceed
limits; there they are tightened, and the method continues.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from motion_nodes.kernels.jit import bare_part, kernel
from motion_nodes.kernels.timing.jerk_barriers import (
    GROUPS,
    JERK_ROWS,
    LANES,
    PLACES,
    ROOMS,
    SPLINE_ROWS,
    WORK_ROWS,
    PathLimits,
    fill_limits,
    lay_out,
    mark_limits,
    sort_intervals,
    tighten,
)
from motion_nodes.kernels.timing.jerk_passes import (
    Iterate,
    NewtonSystem,
    StepWork,
    advance,
    factorize,
    limits_use,
    predict,
    solve,
    start,
    step_lengths,
    system,
)
from motion_nodes.kernels.timing.path_pieces import TimedPieces, limit_use, slopes
from motion_nodes.typing import Array, IndexArray

_NODE1, _NODE2 = 0.5384693101056831, 0.9061798459386640
_WEIGHT0, _WEIGHT1, _WEIGHT2 = 0.5688888888888889, 0.4786286704993665, 0.2369268850561891
"""Nodes and weights of Gauss-Legendre quadrature with five nodes."""
_NEWTON_STEPS = 4
_GROWTH = 1.1
"""Max ratio of neighbouring coefficients of the initial guess of X."""
_GENTLE = 0.5
"""Max fraction of the acceleration limit for changes of the initial guess of X."""
_ENOUGH = 5e-4
"""Convergence tolerance: max relative excess of the duration over its minimum."""
_EARLY = 0.01
"""The same in the first round, before limits are tightened at their excesses."""
_STEPS = 100
"""Max number of steps per round; the motion is feasible after each of them."""
_FIRST_GAP = 20.0
"""Initial duality gap as a fraction of the duration; large, to start far from the limits."""
_TRUST = 2.0
"""Fraction of the predictor's errors that is corrected, per feasible length of its step; max 1."""
_COLD, _WARM = 0.95, 0.99
"""Max utilization of the limits by the initial guess, and after they are tightened."""
_ROUNDS = 6
"""Max number of rounds; after each, limits exceeded between grid points are tightened."""
_SLIGHT = 7e-4
"""Max excess that is removed by stretching the motion instead of a further round."""
_TIGHTER = 1.4
"""Exponent of the excess in the divisor of a limit; above 1, because neighbours change, too."""
_END_TIGHT = (1.06, 1.25)
"""Initial divisors of acceleration and jerk limits in the first and last interval, at rest, where
they would be exceeded otherwise."""


class ParameterPath(NamedTuple):
    """A path over a parameter z, whose distance is ``start + length z^3 (10 - 15 z + 6 z^2)``."""

    breaks: Array
    """Of the path, shape (m + 1,)."""
    coefficients: Array
    """Of the path, shape (m, d + 1, n)."""
    piece: IndexArray
    """Piece of the path of each interval, shape (N,)."""
    grid: Array
    """Increasing values of z, shape (N + 1,)."""
    start: float
    """Distance at z = 0 [rad or m]."""
    length: float
    """Distance from z = 0 to z = 1 [rad or m]."""


@bare_part
def write_clock(path: ParameterPath, X: Array, U: Array, times: Array, clock: Array) -> None:
    """Write the bounds of the intervals, and the distance in each as a quintic Hermite polynomial.

    Args:
        path: the path and its parameter.
        X: squared rate of the parameter at the grid [1/s^2], shape (N + 1,).
        U: half its slope [1/s^2], shape (N + 1,).
        times: result [s], shape (N + 1,).
        clock: result, lowest power of time first, shape (N, 6).
    """
    grid, start, reach = path.grid, path.start, path.length
    times[0] = 0.0
    s0, v0, a0 = start, 0.0, 0.0
    for i in range(len(grid)):
        z, rest = grid[i], 1.0 - grid[i]
        s1 = start + reach * z**3 * (10.0 - 15.0 * z + 6.0 * z * z)
        rate, bend = reach * 30.0 * (z * rest) ** 2, reach * 60.0 * z * rest * (1.0 - 2.0 * z)
        v1, a1 = rate * math.sqrt(X[i]), bend * X[i] + rate * U[i]
        if i > 0:
            T = _duration(grid[i] - grid[i - 1], X[i - 1], U[i - 1], U[i])
            times[i] = times[i - 1] + T
            d, r0, r1 = s1 - s0, v0 * T, v1 * T
            b0, b1 = a0 * T * T, a1 * T * T
            row = clock[i - 1]
            row[0], row[1], row[2] = s0, v0, 0.5 * a0
            row[3] = (10.0 * d - 6.0 * r0 - 4.0 * r1 - 1.5 * b0 + 0.5 * b1) / T**3
            row[4] = (-15.0 * d + 8.0 * r0 + 7.0 * r1 + 1.5 * b0 - b1) / T**4
            row[5] = (6.0 * d - 3.0 * r0 - 3.0 * r1 - 0.5 * b0 + 0.5 * b1) / T**5
        s0, v0, a0 = s1, v1, a1


@bare_part
def _duration(span: float, X: float, U0: float, U1: float) -> float:
    """Return the integral of 1 / sqrt(X) over an interval, with X quadratic."""
    half, curve = 0.5 * span, (U1 - U0) / span
    total = 0.0
    for k in range(5):
        node = 0.0 if k == 0 else (_NODE1 if k < 3 else _NODE2)
        weight = _WEIGHT0 if k == 0 else (_WEIGHT1 if k < 3 else _WEIGHT2)
        z = half * (1.0 + (node if k % 2 else -node))
        total += weight / math.sqrt(X + 2.0 * U0 * z + curve * z * z)
    return half * total


@bare_part
def fill_rows(spans: Array, order: IndexArray, rows: Array) -> None:
    """Write the weights of the three coefficients in X, U and K at each place of each interval."""
    count = len(spans)
    for k in range(len(order)):
        block, lane, i = k // LANES, k % LANES, order[k]
        if i >= count:  # X is a constant coefficient of 1
            rows[block, :, lane] = 1.0
            continue
        h, before, after = spans[i], spans[max(i - 1, 0)], spans[min(i + 1, count - 1)]
        begin = (h / (before + h), before / (before + h), 0.0)
        end = (0.0, after / (h + after), h / (h + after))
        slope_begin = (-2.0 / (before + h), 2.0 / (before + h), 0.0)
        slope_end = (0.0, -2.0 / (h + after), 2.0 / (h + after))
        for c in range(3):
            bend = 0.5 * (slope_end[c] - slope_begin[c]) / h
            for place in range(PLACES):
                row = rows[block, place]
                w = 0.5 * place
                row[c * LANES + lane] = begin[c] + w * h * (slope_begin[c] + w * h * bend)
                row[(3 + c) * LANES + lane] = 0.5 * slope_begin[c] + w * h * bend
                row[(6 + c) * LANES + lane] = bend
            rows[block, 2, c * LANES + lane] = end[c]


@bare_part
def write_state(spans: Array, b: Array, X: Array, U: Array) -> None:
    """Write X and U at the grid, shape (N + 1,) each."""
    last = len(spans) - 1
    for i in range(last + 2):
        before, after = spans[max(i - 1, 0)], spans[min(i, last)]
        X[i] = (after * b[i] + before * b[i + 1]) / (before + after)
        U[i] = (b[i + 1] - b[i]) / (before + after)


@bare_part
def guess(spans: Array, steady: Array, steep: Array, b: Array) -> None:
    """Write the initial coefficients: the X of feasible constant speed, without jumps.

    Their relative changes, and their changes relative to the acceleration limits, are bounded.
    """
    last = len(steady) - 1
    for i in range(last + 3):
        b[i] = min(steady[min(i, last)], steady[max(0, min(i - 1, last))], steady[max(i - 2, 0)])
    for i in range(1, last + 3):
        k, m = min(i - 1, last), max(i - 2, 0)
        rise = 2.0 * _GENTLE * min(spans[k] / steep[k], spans[m] / steep[m])
        b[i] = min(b[i], b[i - 1] * _GROWTH, b[i - 1] + rise)
    for i in range(last + 1, -1, -1):
        k, m = min(i, last), max(i - 1, 0)
        rise = 2.0 * _GENTLE * min(spans[k] / steep[k], spans[m] / steep[m])
        b[i] = min(b[i], b[i + 1] * _GROWTH, b[i + 1] + rise)


@kernel
def parameters(shares: Array, z: Array) -> None:
    """Write the parameters at which shares of the distance are covered, see below.

    The distance is symmetric about its middle. Newton's method starts from the first terms of the
    inverse's series, within 13 %.

    Args:
        shares: increasing, from 0 to 1, shape (k,).
        z: result, shape (k,).
    """
    for i in range(len(shares)):
        less = min(shares[i], 1.0 - shares[i])
        x = (0.1 * max(0.0, less)) ** (1.0 / 3.0)
        x += 0.5 * x * x
        for _ in range(_NEWTON_STEPS):
            rate = 30.0 * (x * (1.0 - x)) ** 2
            if rate > 0.0:
                x -= (x**3 * (10.0 - 15.0 * x + 6.0 * x * x) - less) / rate
        z[i] = 1.0 - x if shares[i] > 0.5 else x
    z[0], z[-1] = 0.0, 1.0


@kernel
def parameter_derivatives(path: ParameterPath, D: Array) -> None:
    """Write the derivatives of a path with respect to the parameter z instead of the arc length.

    Args:
        path: the path and its parameter.
        D: result, see :func:`jerk_limited_motion`.

    Source: chain rule (Faa di Bruno's formula).
    """
    breaks, coefficients, piece, grid, start, length = path
    n = D.shape[3]
    q, q1, q2, q3 = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for i in range(len(piece)):
        within = i > 0 and piece[i] == piece[i - 1]
        for order in range(3 if within else 0):
            for j in range(n):
                D[i, 0, order, j] = D[i - 1, PLACES - 1, order, j]
        for place in range(1 if within else 0, PLACES):
            z = grid[i] + (grid[i + 1] - grid[i]) * place / (PLACES - 1)
            rest = 1.0 - z
            s = start + length * z**3 * (10.0 - 15.0 * z + 6.0 * z * z)
            s1, s2 = length * 30.0 * (z * rest) ** 2, length * 60.0 * z * rest * (1.0 - 2.0 * z)
            s3 = length * 60.0 * (1.0 - 6.0 * z * rest)
            slopes(coefficients[piece[i]], s - breaks[piece[i]], q, q1, q2, q3)
            for j in range(n):
                D[i, place, 0, j] = q1[j] * s1
                D[i, place, 1, j] = q2[j] * s1**2 + q1[j] * s2
                D[i, place, 2, j] = q3[j] * s1**3 + 3.0 * q2[j] * s1 * s2 + q1[j] * s3


@kernel
def jerk_limited_motion(
    path: ParameterPath, D: Array, joints: Array, limits: Array, times: Array, clock: Array
) -> tuple[int, float]:
    """Write the time-optimal motion, at rest at both ends, where the derivatives of the path are 0.

    Args:
        path: the path and its parameter.
        D: first three derivatives at begin, middle and end of each interval, of the joints and of
            further rows such as those of effort limits, shape (N, 3, 3, n).
        joints: limits of velocity, acceleration and jerk of the joints [rad or m, s], possibly
            infinite, to which excesses and the returned factor refer, shape (3, joints).
        limits: of velocity, acceleration and jerk of all rows, finite, shape (3, n).
        times: result, bounds of the intervals [s], shape (N + 1,).
        clock: result, of :class:`motion_nodes.kernels.timing.path_pieces.TimedPieces`.

    Returns:
        Number of steps, and the factor of the duration with which all ``joints`` limits are held.
    """
    count, n = D.shape[0], D.shape[3]
    blocks = (count + LANES - 1) // LANES
    spans = path.grid[1:] - path.grid[:-1]
    marks, inverse = np.empty((count, GROUPS, n), np.int8), 1.0 / limits
    steady, steep = np.empty(count), np.empty(count)
    mark_limits(D, inverse, marks, steady, steep)
    order, slots = np.empty(blocks * LANES, np.int32), np.empty((blocks, GROUPS + 1), np.int32)
    sort_intervals(marks, np.empty((n + 1) * (GROUPS * n + 1) + 1, np.int32), order)
    limited = lay_out(marks, order, slots)
    E = np.zeros((limited, JERK_ROWS * LANES))
    m, dm = np.zeros((limited, ROOMS * LANES)), np.zeros((limited, ROOMS * LANES))
    mv, dmv = np.zeros((blocks, PLACES, LANES)), np.zeros((blocks, PLACES, LANES))
    rows = np.zeros((blocks, PLACES, SPLINE_ROWS * LANES))
    caps, shares = np.zeros((blocks, PLACES, LANES)), np.zeros((blocks, PLACES, LANES))
    fill_rows(spans, order, rows)
    for k in range(len(order)):  # Simpson's rule
        for place in range(PLACES):
            if order[k] < count:
                weight = (4.0 if place == 1 else 1.0) / 6.0
                shares[k // LANES, place, k % LANES] = weight * spans[order[k]]
    length = count + 2
    size = length + 3
    W = np.zeros(WORK_ROWS * LANES)
    work = StepWork(W, np.zeros(WORK_ROWS * LANES))
    b, move, errors = np.ones(size), np.zeros(size), np.empty(size)
    slope, pull, band = np.empty(size), np.empty(size), np.empty((3, size))
    mb, dmb = np.empty(length), np.empty(length)
    held = PathLimits(order, rows, slots, E, caps, shares)
    now, change = Iterate(b, m, mv, mb), Iterate(move, dm, dmv, dmb)
    newton = NewtonSystem(slope, pull, band)
    motion = TimedPieces(path.breaks, path.coefficients, path.piece, times, clock)
    rooms = count * PLACES + ROOMS * LANES * limited + length
    X, U, use = np.empty(count + 1), np.empty(count + 1), np.empty((count, 3))
    guess(spans, steady, steep, b)
    fill_limits(D, inverse, marks, held)
    tight, factors = np.ones((count, 3)), np.empty((GROUPS, LANES))
    for i in (0, count - 1):
        tight[i, 1], tight[i, 2] = _END_TIGHT
    steps, stretch = 0, 1.0
    for k in range(_ROUNDS):
        tighten(tight, held, factors)
        most = limits_use(held, b, W)
        b[:length] *= _COLD / most if k == 0 else min(1.0, _WARM / most)
        if k == 0:
            start(held, now, _FIRST_GAP / rooms, W)
        enough, end = _EARLY if k == 0 else _ENOUGH, steps + _STEPS
        while steps < end:
            gap, time = system(held, now, W, newton)
            if not gap > enough * time:
                break
            steps += 1
            factorize(band, length)
            for i in range(length):
                move[i] = -slope[i]
            solve(band, move, length)
            left, share = predict(held, now, change, gap, work, errors)
            share = min(1.0, _TRUST * share)
            target = left * left * gap / rooms
            for i in range(length):
                move[i] = target * pull[i] - slope[i] - share * errors[i]
            solve(band, move, length)
            far, long = step_lengths(held, now, change, target, share, work)
            for i in range(length):
                b[i] += far * move[i]
                mb[i] += long * dmb[i]
            advance(m, dm, long)
            for block in range(blocks):
                advance(mv[block], dmv[block], long)
        write_state(spans, b, X, U)
        write_clock(path, X, U, times, clock)
        limit_use(motion, joints, use)
        stretch = 1.0
        for i in range(count):
            stretch = max(stretch, use[i, 0], math.sqrt(use[i, 1]), use[i, 2] ** (1.0 / 3.0))
        if k > 0 and stretch < 1.0 + _SLIGHT:
            break
        for i in range(count):
            tight[i, 0] = max(1.0, use[i, 0]) ** (2.0 * _TIGHTER)
            tight[i, 1] = max(1.0, use[i, 1]) ** _TIGHTER
            tight[i, 2] = max(1.0, use[i, 2]) ** _TIGHTER
    return steps, stretch
