# SPDX-License-Identifier: Apache-2.0
"""The clock of a jerk-limited motion: distance along the path over time.

Part of :mod:`motion_nodes.kernels.timing.jerk_limited`.
"""

from __future__ import annotations

import math

from motion_nodes.kernels.jit import bare_part
from motion_nodes.typing import Array

_NODE1, _NODE2 = 0.5384693101056831, 0.9061798459386640
_WEIGHT0, _WEIGHT1, _WEIGHT2 = 0.5688888888888889, 0.4786286704993665, 0.2369268850561891
"""Nodes and weights of Gauss-Legendre quadrature with five nodes."""


@bare_part
def write_clock(
    grid: Array, start: float, reach: float, X: Array, U: Array, times: Array, clock: Array
) -> None:
    """Write the bounds of the intervals, and the distance in each as a quintic Hermite polynomial.

    Args:
        grid: values of the parameter z, shape (N + 1,); the distance is
            ``start + reach z^3 (10 - 15 z + 6 z^2)``.
        start: distance at z = 0 [rad or m].
        reach: distance from z = 0 to z = 1 [rad or m].
        X: squared rate of the parameter at the grid [1/s^2], shape (N + 1,).
        U: half its slope [1/s^2], shape (N + 1,).
        times: result [s], shape (N + 1,).
        clock: result, lowest power of time first, shape (N, 6).
    """
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
