# SPDX-License-Identifier: Apache-2.0
"""Spline weights and initial coefficients of :mod:`motion_nodes.kernels.timing.jerk_limited`."""

from __future__ import annotations

from motion_nodes.kernels.jit import bare_part
from motion_nodes.kernels.timing.jerk_lanes import LANES, PLACES
from motion_nodes.typing import Array, IndexArray

_GROWTH = 1.1
"""Max ratio of neighbouring coefficients of the initial guess of X."""
_GENTLE = 0.5
"""Max fraction of the acceleration limit for changes of the initial guess of X."""


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
