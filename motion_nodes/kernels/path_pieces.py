# SPDX-License-Identifier: Apache-2.0
"""Paths of joints made of polynomials, and how much of the limits a timed one uses.

A path is ``breaks`` (m + 1,) and ``coefficients`` (m, d + 1, n), lowest power first, each piece in
the distance from its own break. A clock says how far along the path one is: intervals of time with
a polynomial each, of which every one lies within one piece of the path.
"""

from __future__ import annotations

import numpy as np

from motion_nodes.kernels.jit import kernel, part
from motion_nodes.kernels.packed import Array, IndexArray

SAMPLES = 4
"""Parts into which an interval is divided when its peaks are looked for."""


@part
def slopes(coefficients: Array, piece: int, at: float, j: int) -> tuple[float, float, float]:
    """Return the first three derivatives of joint j at a distance into a piece (Horner)."""
    p = first = second = third = 0.0
    for k in range(coefficients.shape[1] - 1, -1, -1):
        third = third * at + 3.0 * second
        second = second * at + 2.0 * first
        first = first * at + p
        p = p * at + coefficients[piece, k, j]
    return first, second, third


@part
def ticks(clock: Array, i: int, at: float) -> tuple[float, float, float, float]:
    """Return distance along the path and its three derivatives at a time into an interval."""
    s = first = second = third = 0.0
    for k in range(clock.shape[1] - 1, -1, -1):
        third = third * at + 3.0 * second
        second = second * at + 2.0 * first
        first = first * at + s
        s = s * at + clock[i, k]
    return s, first, second, third


@kernel
def limit_use(
    breaks: Array,
    coefficients: Array,
    piece: IndexArray,
    times: Array,
    clock: Array,
    limits: Array,
    use: Array,
) -> None:
    """Write which share of each limit each interval uses at most: 1 is all of it.

    Between samples a smooth function is above them by at most an eighth of its second difference,
    which is added.

    Args:
        breaks: of the path, shape (m + 1,).
        coefficients: of the path, shape (m, d + 1, n).
        piece: of the path in which each interval lies, shape (N,).
        times: bounds of the intervals [s], shape (N + 1,).
        clock: distance along the path in the time from each interval's begin, shape (N, 6).
        limits: of velocity, acceleration and jerk, may be infinite, shape (3, n).
        use: result, for velocity, acceleration and jerk, shape (N, 3).
    """
    n = coefficients.shape[2]
    state = np.empty((SAMPLES + 1, 4))
    values = np.empty((3, SAMPLES + 1))
    for i in range(len(piece)):
        span = times[i + 1] - times[i]
        for m in range(SAMPLES + 1):
            s, first, second, third = ticks(clock, i, span * m / SAMPLES)
            state[m, 0] = s - breaks[piece[i]]
            state[m, 1] = first
            state[m, 2] = second
            state[m, 3] = third
        use[i] = 0.0
        for j in range(n):
            for m in range(SAMPLES + 1):
                d1, d2, d3 = slopes(coefficients, piece[i], state[m, 0], j)
                speed, rise, jolt = state[m, 1], state[m, 2], state[m, 3]
                values[0, m] = d1 * speed
                values[1, m] = d2 * speed * speed + d1 * rise
                values[2, m] = d3 * speed**3 + 3.0 * d2 * speed * rise + d1 * jolt
            for order in range(3):
                peak = bend = 0.0
                for m in range(SAMPLES + 1):
                    peak = max(peak, abs(values[order, m]))
                    if 0 < m < SAMPLES:
                        middle = 2.0 * values[order, m]
                        bend = max(bend, abs(values[order, m - 1] - middle + values[order, m + 1]))
                use[i, order] = max(use[i, order], (peak + 0.125 * bend) / limits[order, j])
