# SPDX-License-Identifier: Apache-2.0
"""Fastest motion along a given path under limits of velocity, acceleration and jerk.

The square X of the speed along the path is a quadratic spline over the path's parameter; with U
half its slope and K half its curvature, a joint p moves with

    velocity  p' sqrt(X),   acceleration  p'' X + p' U,   jerk  (p''' X + 3 p'' U + p' K) sqrt(X),

(chain rule; e.g. D. Verscheure et al., "Time-optimal path tracking for robots: a convex
optimization approach", IEEE Transactions on Automatic Control 54(10), 2009, for the first two).
The duration, the integral of 1 / sqrt(X), is convex, the first two limits are too. A jerk's limit,
written as ``|p''' X + 3 p'' U + p' K| <= J / sqrt(X)``, is not, but its tangents lie on the safe
side; so Newton's method on the logarithmic barrier (Boyd, Vandenberghe, "Convex Optimization",
chapter 11), with that part of the second derivative left out, stays inside and descends. Each step
solves a band of width five, for a limit concerns three neighbouring coefficients of the spline.
"""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.kernels.jit import kernel, part
from motion_nodes.kernels.packed import Array

PLACES = 3
"""Where each interval is looked at: its begin, middle and end."""
_STEPS = 30
"""Newton steps at most for each weight of the barrier."""
_SHRINK = 0.15
"""Each weight of the barrier as a share of the one before."""
_SMALLEST = 1e-6
"""Share of a Newton step below which no smaller one is tried."""
_LAST = 1e-7
"""Last weight of the barrier as a share of the duration."""
_CENTRED = 0.3
"""A Newton decrement, as a share of the barrier's weight, below which the next weight is due."""


@part
def _spline_rows(spans: Array, i: int) -> tuple[float, float, float, float]:
    """Return weights of coefficients i and i + 1 for value and slope at the begin of interval i."""
    here = spans[min(i, len(spans) - 1)]
    before = spans[max(i - 1, 0)]
    both = before + here
    return here / both, before / both, -2.0 / both, 2.0 / both


@part
def _fill_rows(spans: Array, rows: Array) -> None:
    """Write how X, U and K at each place of each interval depend on its three coefficients."""
    for i in range(len(spans)):
        h = spans[i]
        x0, x1, g0, g1 = _spline_rows(spans, i)
        y0, y1, d0, d1 = _spline_rows(spans, i + 1)
        slope_begin, slope_end = (g0, g1, 0.0), (0.0, d0, d1)
        begin, end = (x0, x1, 0.0), (0.0, y0, y1)
        for c in range(3):
            bend = 0.5 * (slope_end[c] - slope_begin[c]) / h
            for place in range(PLACES):
                w = 0.5 * place
                rows[i, place, 1, c] = 0.5 * (slope_begin[c] + w * (slope_end[c] - slope_begin[c]))
                rows[i, place, 2, c] = bend
            rows[i, 0, 0, c], rows[i, 2, 0, c] = begin[c], end[c]
            rows[i, 1, 0, c] = begin[c] + 0.5 * h * (slope_begin[c] + 0.25 * h * 2.0 * bend)


@part
def _state(rows: Array, b: Array, i: int, place: int) -> tuple[float, float, float]:
    """Return X, U and K at a place of an interval."""
    X = U = K = 0.0
    for c in range(3):
        X += rows[i, place, 0, c] * b[i + c]
        U += rows[i, place, 1, c] * b[i + c]
        K += rows[i, place, 2, c] * b[i + c]
    return X, U, K


@part
def _merit(
    b: Array,
    move: Array,
    size: float,
    trial: Array,
    rows: Array,
    D: Array,
    spans: Array,
    cap: Array,
    limits: Array,
    weight: float,
) -> float:
    """Return duration plus barrier at ``b + size move``, infinity outside the limits."""
    duration, barrier = 0.0, 0.0
    for i in range(len(b)):
        trial[i] = b[i] + size * move[i]
        if not trial[i] > 0.0:  # then X is above 0 everywhere, not only at the places
            return math.inf
        barrier -= math.log(trial[i])
    for i in range(len(spans)):
        for place in range(PLACES):
            X, U, K = _state(rows, trial, i, place)
            if not 0.0 < X < cap[i, place]:
                return math.inf
            share = 4.0 if place == 1 else 1.0
            duration += share * spans[i] / (6.0 * math.sqrt(X))
            # One logarithm of a product is quicker than several.
            product = 1.0 - X / cap[i, place]
            for j in range(D.shape[3]):
                p1, p2, p3 = D[i, place, 0, j], D[i, place, 1, j], D[i, place, 2, j]
                a = (p2 * X + p1 * U) / limits[i, 0, j]
                jolt = (p3 * X + 3.0 * p2 * U + p1 * K) / limits[i, 1, j]
                room_a, room_j = 1.0 - a * a, 1.0 / X - jolt * jolt
                if not (room_a > 0.0 and room_j > 0.0):
                    return math.inf
                product *= room_a * room_j
            barrier -= math.log(product)
    return duration + weight * barrier


@part
def _system(
    b: Array,
    rows: Array,
    D: Array,
    spans: Array,
    cap: Array,
    limits: Array,
    weight: float,
    gradient: Array,
    band: Array,
) -> None:
    """Write gradient and band of the (simplified) second derivative of :func:`_merit`."""
    band.fill(0.0)
    for i in range(len(b)):
        gradient[i] = -weight / b[i]
        band[i, 0] = weight / (b[i] * b[i])
    g, H = np.empty(3), np.empty((3, 3))
    e, r = np.empty(3), np.empty(3)
    for i in range(len(spans)):
        for place in range(PLACES):
            X, U, K = _state(rows, b, i, place)
            share = (4.0 if place == 1 else 1.0) * spans[i] / 6.0
            room = cap[i, place] - X
            g.fill(0.0)
            H.fill(0.0)
            g[0] = weight / room - 0.5 * share / (X * math.sqrt(X))
            H[0, 0] = weight / (room * room) + 0.75 * share / (X * X * math.sqrt(X))
            for j in range(D.shape[3]):
                p1, p2, p3 = D[i, place, 0, j], D[i, place, 1, j], D[i, place, 2, j]
                inverse = 1.0 / limits[i, 0, j]
                e0, e1 = p2 * inverse, p1 * inverse
                a = e0 * X + e1 * U
                room = 1.0 / (1.0 - a * a)
                slope = weight * 2.0 * a * room
                curve = weight * (4.0 * a * a * room * room + 2.0 * room)
                g[0] += slope * e0
                g[1] += slope * e1
                H[0, 0] += curve * e0 * e0
                H[1, 0] += curve * e0 * e1
                H[1, 1] += curve * e1 * e1
                inverse = 1.0 / limits[i, 1, j]
                e[0], e[1], e[2] = p3 * inverse, 3.0 * p2 * inverse, p1 * inverse
                jolt = e[0] * X + e[1] * U + e[2] * K
                room = 1.0 / (1.0 / X - jolt * jolt)
                r[0] = (1.0 / (X * X) + 2.0 * jolt * e[0]) * room
                r[1], r[2] = 2.0 * jolt * e[1] * room, 2.0 * jolt * e[2] * room
                for c in range(3):
                    g[c] += weight * r[c]
                    for d in range(c + 1):
                        H[c, d] += weight * (r[c] * r[d] + 2.0 * room * e[c] * e[d])
            H[0, 1], H[0, 2], H[1, 2] = H[1, 0], H[2, 0], H[2, 1]
            for c in range(3):
                for k in range(3):
                    gradient[i + c] += g[k] * rows[i, place, k, c]
                    for m in range(3):
                        for d in range(c + 1):
                            part = H[k, m] * rows[i, place, k, c] * rows[i, place, m, d]
                            band[i + c, c - d] += part


@part
def _newton_move(band: Array, gradient: Array, right: Array) -> float:
    """Solve with the band in place (Cholesky, L D L'); return how steeply the move descends."""
    count = len(right)
    for i in range(count):
        right[i] = -gradient[i]
    for i in range(count):
        if i >= 2:
            band[i, 2] /= band[i - 2, 0]
        if i >= 1:
            if i >= 2:
                band[i, 1] -= band[i, 2] * band[i - 2, 0] * band[i - 1, 1]
            band[i, 1] /= band[i - 1, 0]
            band[i, 0] -= band[i, 1] ** 2 * band[i - 1, 0]
        if i >= 2:
            band[i, 0] -= band[i, 2] ** 2 * band[i - 2, 0]
    for i in range(count):
        if i >= 1:
            right[i] -= band[i, 1] * right[i - 1]
        if i >= 2:
            right[i] -= band[i, 2] * right[i - 2]
    for i in range(count - 1, -1, -1):
        right[i] /= band[i, 0]
        if i + 1 < count:
            right[i] -= band[i + 1, 1] * right[i + 1]
        if i + 2 < count:
            right[i] -= band[i + 2, 2] * right[i + 2]
    descent = 0.0
    for i in range(count):
        descent -= gradient[i] * right[i]
    return descent


@kernel
def jerk_limited_speeds(
    D: Array,
    spans: Array,
    velocity: Array,
    limits: Array,
    first_weight: float,
    b: Array,
    X: Array,
    U: Array,
) -> int:
    """Write the fastest motion; the path's derivatives say how it begins and ends.

    Args:
        D: first three derivatives of n joints at begin, middle and end of each interval, shape
            (N, 3, 3, n).
        spans: lengths of the intervals, shape (N,).
        velocity: limits in each interval, shape (N, n).
        limits: of acceleration and jerk in each interval, finite, shape (N, 2, n).
        first_weight: of the barrier, as a share of the duration per place; smaller when ``b`` is
            near the answer.
        b: coefficients of X, shape (N + 2,); kept from an earlier call if within the limits, else
            begun anew; result.
        X: result at the grid, shape (N + 1,).
        U: result at the grid, shape (N + 1,).

    Returns:
        How many Newton steps it took.
    """
    count, n = velocity.shape
    rows = np.empty((count, PLACES, 3, 3))
    _fill_rows(spans, rows)
    cap = np.full((count, PLACES), 1e12)
    steady = 1e12
    for i in range(count):
        for place in range(PLACES):
            for j in range(n):
                p1, p2, p3 = D[i, place, 0, j], D[i, place, 1, j], D[i, place, 2, j]
                bound = (velocity[i, j] / max(abs(p1), 1e-9)) ** 2
                cap[i, place] = min(cap[i, place], bound)
                bound = min(bound, limits[i, 0, j] / max(abs(p2), 1e-9))
                bound = min(bound, (limits[i, 1, j] / max(abs(p3), 1e-9)) ** (2.0 / 3.0))
                steady = min(steady, bound)
    gradient, move, trial = np.empty(count + 2), np.empty(count + 2), np.empty(count + 2)
    band = np.empty((count + 2, 3))
    if not math.isfinite(_merit(b, b, 0.0, trial, rows, D, spans, cap, limits, 0.0)):
        b.fill(0.25 * steady)
    duration = _merit(b, b, 0.0, trial, rows, D, spans, cap, limits, 0.0)
    weight = first_weight * duration / (count * PLACES)
    steps = 0
    while weight > _LAST * duration:
        for _ in range(_STEPS):
            steps += 1
            _system(b, rows, D, spans, cap, limits, weight, gradient, band)
            before = _merit(b, b, 0.0, trial, rows, D, spans, cap, limits, weight)
            descent = _newton_move(band, gradient, move)
            if not descent > 0.0:
                break
            size = 1.0
            while size > _SMALLEST:
                after = _merit(b, move, size, trial, rows, D, spans, cap, limits, weight)
                if after <= before - 0.1 * size * descent:
                    break
                size *= 0.6
            if size <= _SMALLEST:
                break
            for i in range(count + 2):
                b[i] += size * move[i]
            if descent < _CENTRED * weight:
                break
        duration = _merit(b, b, 0.0, trial, rows, D, spans, cap, limits, 0.0)
        weight *= _SHRINK
    for i in range(count):
        X[i], U[i], _ = _state(rows, b, i, 0)
    X[count], U[count], _ = _state(rows, b, count - 1, 2)
    return steps
