# SPDX-License-Identifier: Apache-2.0
"""Piecewise polynomial joint paths: states and utilization of the limits of a timed path.

A path consists of ``breaks`` (m + 1,) and ``coefficients`` (m, d + 1, n), lowest power first, each
piece in the distance from its own break. A clock maps time to distance along the path: time
intervals with a polynomial each, each within one piece of the path.
"""

from __future__ import annotations

import numpy as np

from motion_nodes.kernels.jit import bare_part, kernel
from motion_nodes.kernels.kinematic_arrays import Array, IndexArray

SAMPLES = 4
"""Subdivisions of an interval in the search for its peaks."""


@bare_part
def slopes(
    coefficients: Array, piece: int, at: float, d0: Array, d1: Array, d2: Array, d3: Array
) -> None:
    """Write the path and its first three derivatives at a distance into a piece (Horner).

    The joints are the innermost loop, so that several are computed per instruction.
    """
    n = coefficients.shape[2]
    for j in range(n):
        d0[j] = d1[j] = d2[j] = d3[j] = 0.0
    for k in range(coefficients.shape[1] - 1, -1, -1):
        for j in range(n):
            d3[j] = d3[j] * at + 3.0 * d2[j]
            d2[j] = d2[j] * at + 2.0 * d1[j]
            d1[j] = d1[j] * at + d0[j]
            d0[j] = d0[j] * at + coefficients[piece, k, j]


@bare_part
def ticks(clock: Array, i: int, at: float) -> tuple[float, float, float, float]:
    """Return distance along the path and its three time derivatives at a time into an interval."""
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
    """Write the max utilization of each limit in each interval: 1 is the limit.

    A parabola exceeds its samples by at most an eighth of its second difference; twice that is
    added, because the functions are not exactly parabolic.

    Args:
        breaks: of the path, shape (m + 1,).
        coefficients: of the path, shape (m, d + 1, n).
        piece: piece of the path of each interval, shape (N,).
        times: bounds of the intervals [s], shape (N + 1,).
        clock: distance along the path as a polynomial in the time since each interval's begin,
            shape (N, 6).
        limits: of velocity, acceleration and jerk, may be infinite, shape (3, n).
        use: result, for velocity, acceleration and jerk, shape (N, 3).
    """
    n = coefficients.shape[2]
    share = 1.0 / limits
    orders = 3 if np.isfinite(limits[2]).any() else 2
    d0, d1, d2, d3 = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    values = np.empty((3, SAMPLES + 1, n))
    peaks, bends = np.empty(n), np.empty(n)
    for i in range(len(piece)):
        span = times[i + 1] - times[i]
        for m in range(SAMPLES + 1):
            s, speed, rise, jolt = ticks(clock, i, span * m / SAMPLES)
            slopes(coefficients, piece[i], s - breaks[piece[i]], d0, d1, d2, d3)
            square, cube, mixed = speed * speed, speed**3, 3.0 * speed * rise
            for j in range(n):
                values[0, m, j] = d1[j] * speed
                values[1, m, j] = d2[j] * square + d1[j] * rise
                values[2, m, j] = d3[j] * cube + d2[j] * mixed + d1[j] * jolt
        for order in range(3):
            use[i, order] = 0.0
        for order in range(orders):
            for j in range(n):
                peaks[j] = max(abs(values[order, 0, j]), abs(values[order, SAMPLES, j]))
                bends[j] = 0.0
            for m in range(1, SAMPLES):
                for j in range(n):
                    here = values[order, m, j]
                    bend = values[order, m - 1, j] + values[order, m + 1, j] - 2.0 * here
                    peaks[j] = max(peaks[j], abs(here))
                    bends[j] = max(bends[j], abs(bend))
            for j in range(n):
                most = (peaks[j] + 0.25 * bends[j]) * share[order, j]
                use[i, order] = max(use[i, order], most)


@kernel
def path_states(
    breaks: Array,
    coefficients: Array,
    piece: IndexArray,
    times: Array,
    clock: Array,
    wanted: Array,
    out: Array,
) -> None:
    """Write positions, velocities, accelerations and jerks of a timed path.

    Args:
        breaks: of the path, shape (m + 1,).
        coefficients: of the path, shape (m, d + 1, n).
        piece: piece of the path of each interval, shape (N,).
        times: bounds of the intervals [s], shape (N + 1,).
        clock: as for :func:`limit_use`, shape (N, 6).
        wanted: times to evaluate, in any order [s], shape (k,); outside the motion it is at rest.
        out: result, shape (4, k, n).
    """
    n, last = coefficients.shape[2], len(piece) - 1
    d0, d1, d2, d3 = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    i = 0
    for k in range(len(wanted)):
        t = min(max(wanted[k], times[0]), times[last + 1])
        if not (times[i] <= t and (i == last or t < times[i + 1])):
            i = min(max(np.searchsorted(times, t, side="right") - 1, 0), last)
        s, speed, rise, jolt = ticks(clock, i, t - times[i])
        slopes(coefficients, piece[i], s - breaks[piece[i]], d0, d1, d2, d3)
        moving = 1.0 if times[0] <= wanted[k] <= times[last + 1] else 0.0
        square, cube, mixed = speed * speed, speed**3, 3.0 * speed * rise
        for j in range(n):
            out[0, k, j] = d0[j]
            out[1, k, j] = moving * (d1[j] * speed)
            out[2, k, j] = moving * (d2[j] * square + d1[j] * rise)
            out[3, k, j] = moving * (d3[j] * cube + d2[j] * mixed + d1[j] * jolt)
