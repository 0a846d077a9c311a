# SPDX-License-Identifier: Apache-2.0
"""Precomputed tables of :mod:`motion_nodes.kernels.timing.jerk_limited`.

Spline weights, limits of all joints at each place, and initial coefficients.
"""

from __future__ import annotations

from motion_nodes.kernels.jit import bare_part
from motion_nodes.kernels.kinematic_arrays import Array
from motion_nodes.kernels.timing.jerk_lanes import BEGIN, END, LANES, PLACES

_GROWTH = 1.1
"""Max ratio of the initial guess of X between neighbouring intervals."""
_GENTLE = 0.5
"""Max fraction of the acceleration limit for changes of the initial guess of X."""
_UNBOUNDED = 1e12
"""Max X where it is unbounded."""


@bare_part
def fill_rows(spans: Array, rows: Array) -> None:
    """Write the weights of the three coefficients in X, U and K at each place of each interval."""
    count = len(spans)
    for i in range(count, rows.shape[0] * LANES):
        # Lanes beyond the last interval: X is a constant coefficient of 1.
        rows[i // LANES, :, 2 * LANES + i % LANES] = 1.0
    for i in range(count):
        block, lane = i // LANES, i % LANES
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
def fill_limits(
    D: Array, velocity: Array, limits: Array, E: Array, caps: Array, steady: Array
) -> None:
    """Write the joints' factors, inverses of the max X, and the X of feasible constant speed.

    The factors of a block are rows, one for each joint: accelerations at begin and middle of its
    intervals, then jerks at all places. ``steady`` is per interval, shape (N,).
    """
    n = D.shape[3]
    for i in range(len(D)):
        block, lane = i // LANES, i % LANES
        steady[i] = _UNBOUNDED
        for place in range(PLACES):
            cap = _UNBOUNDED
            for j in range(n):
                p1, p2, p3 = D[i, place, 0, j], D[i, place, 1, j], D[i, place, 2, j]
                a, jolt = 1.0 / limits[i, 0, j], 1.0 / limits[i, 1, j]
                cap = min(cap, (velocity[i, j] / max(abs(p1), 1e-9)) ** 2)
                bound = min(
                    1.0 / max(abs(p2 * a), 1e-12), max(abs(p3 * jolt), 1e-18) ** (-2.0 / 3.0)
                )
                steady[i] = min(steady[i], bound)
                if place != END:
                    if place == BEGIN:  # which is also the end of the previous interval
                        a = max(a, 1.0 / limits[max(i - 1, 0), 0, j])
                    e = E[block, place * n + j]
                    e[lane], e[LANES + lane] = p2 * a, p1 * a
                f = E[block, (END + place) * n + j]
                f[lane], f[LANES + lane] = p3 * jolt, 3.0 * p2 * jolt
                f[2 * LANES + lane] = p1 * jolt
            steady[i] = min(steady[i], cap)
            caps[block, place, lane] = 1.0 / cap


@bare_part
def guess(D: Array, spans: Array, limits: Array, steady: Array, b: Array) -> None:
    """Write coefficients that follow the X of feasible constant speed, without jumps.

    Their relative change, and their change relative to the acceleration limits, is bounded.
    """
    last = len(steady) - 1
    for i in range(last + 3):
        b[i] = min(steady[min(i, last)], steady[max(0, min(i - 1, last))], steady[max(i - 2, 0)])
    for i in range(1, last + 3):
        rise = _rise(D, spans, limits, min(i - 1, last), max(i - 2, 0))
        b[i] = min(b[i], b[i - 1] * _GROWTH, b[i - 1] + rise)
    for i in range(last + 1, -1, -1):
        rise = _rise(D, spans, limits, min(i, last), max(i - 1, 0))
        b[i] = min(b[i], b[i + 1] * _GROWTH, b[i + 1] + rise)


@bare_part
def _rise(D: Array, spans: Array, limits: Array, k: int, m: int) -> float:
    """Return the max change of X over two intervals in the initial guess."""
    rise = _UNBOUNDED
    for i in (k, m):
        for place in range(PLACES):
            for j in range(D.shape[3]):
                slope = limits[i, 0, j] / max(abs(D[i, place, 0, j]), 1e-9)
                rise = min(rise, 2.0 * _GENTLE * slope * spans[i])
    return rise
