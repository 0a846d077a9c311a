# SPDX-License-Identifier: Apache-2.0
"""Piecewise polynomial joint paths: states and utilization of the limits of a timed path.

A path consists of ``breaks`` (m + 1,) and ``coefficients`` (m, d + 1, n), lowest power first; each
piece is a polynomial of the distance [rad or m] from its break. A clock maps time to distance along
the path: one polynomial per time interval, each within one piece of the path.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.jit import bare_part, fused_part, kernel
from motion_nodes.kernels.kinematic_arrays import Array, IndexArray

SAMPLES = 4
"""Subdivisions of an interval in which peaks are searched."""
_LANES = 16
"""Number of intervals per vector instruction."""


@bare_part
def slopes(
    coefficients: Array, piece: int, at: float, d0: Array, d1: Array, d2: Array, d3: Array
) -> None:
    """Write the path and its first three derivatives, shape (n,) each, at a distance into a piece.

    The loop over joints is the innermost one, so that it is vectorized. Source: Horner's scheme.
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
    """Return the distance along the path and its three time derivatives.

    Args:
        clock: see :func:`limit_use`, shape (N, 6).
        i: interval.
        at: time since the begin of the interval [s].
    """
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
    """Write the max utilization of each limit in each interval, as a fraction of the limit.

    A parabola exceeds its samples by at most an eighth of its second difference; twice that is
    added, because the functions are not exactly parabolic.

    Args:
        breaks: of the path, shape (m + 1,).
        coefficients: of the path, shape (m, d + 1, n).
        piece: piece of the path of each interval, shape (N,).
        times: bounds of the intervals [s], shape (N + 1,).
        clock: distance along the path as a polynomial in the time since each interval's begin,
            shape (N, 6).
        limits: of velocity, acceleration and jerk, possibly infinite, shape (3, n).
        use: result, for velocity, acceleration and jerk, shape (N, 3).
    """
    count, orders, n = len(piece), limits.shape[0], coefficients.shape[2]
    share = 1.0 / limits
    degree = coefficients.shape[1]
    curves, ages = np.zeros((n, max(degree, 6), _LANES)), np.empty((clock.shape[1], _LANES))
    begins, spans = np.empty(_LANES), np.empty(_LANES)
    clocks, at = np.empty((SAMPLES + 1, 4 * _LANES)), np.empty(4 * _LANES)
    values, peaks = np.empty(3 * (SAMPLES + 1) * _LANES), np.empty((3, _LANES))
    time, size = np.empty(_LANES), (SAMPLES + 1) * _LANES
    for first in range(0, count, _LANES):
        for lane in range(_LANES):
            i = min(first + lane, count - 1)
            k = piece[i]
            begins[lane], spans[lane] = breaks[k], times[i + 1] - times[i]
            for power in range(clock.shape[1]):
                ages[power, lane] = clock[i, power]
            for j in range(n):
                for power in range(degree):
                    curves[j, power, lane] = coefficients[k, power, j]
        for m in range(SAMPLES + 1):
            for lane in range(_LANES):
                time[lane] = spans[lane] * m / SAMPLES
            _derivatives(ages, time, clocks[m])
            for lane in range(_LANES):
                clocks[m, lane] -= begins[lane]
        for order in range(orders):
            for lane in range(_LANES):
                peaks[order, lane] = 0.0
        for j in range(n):
            for m in range(SAMPLES + 1):
                if degree > 6:
                    _rates(curves[j], clocks[m], at, values, m)
                else:
                    _quintic_rates(curves[j], clocks[m], values, m)
            for order in range(orders):
                _peaks(values[order * size : (order + 1) * size], share[order, j], peaks[order])
        for lane in range(min(_LANES, count - first)):
            for order in range(orders):
                use[first + lane, order] = peaks[order, lane]


@fused_part
def _derivatives(curves: Array, at: Array, d: Array) -> None:
    """Write polynomials, one per lane and lowest power first, and their three derivatives."""
    for lane in range(_LANES):
        d[lane] = d[_LANES + lane] = d[2 * _LANES + lane] = d[3 * _LANES + lane] = 0.0
    for k in range(len(curves) - 1, -1, -1):
        for lane in range(_LANES):
            s = at[lane]
            d[3 * _LANES + lane] = d[3 * _LANES + lane] * s + 3.0 * d[2 * _LANES + lane]
            d[2 * _LANES + lane] = d[2 * _LANES + lane] * s + 2.0 * d[_LANES + lane]
            d[_LANES + lane] = d[_LANES + lane] * s + d[lane]
            d[lane] = d[lane] * s + curves[k, lane]


@fused_part
def _rates(curves: Array, clock: Array, d: Array, values: Array, sample: int) -> None:
    """Write a joint's velocities, accelerations and jerks at a sample of all lanes' intervals.

    Args:
        curves: coefficients of its position, shape (6 or more, _LANES).
        clock: distance into the piece and its three time derivatives.
        d: scratch.
        values: result.
        sample: index of the sample.
    """
    _derivatives(curves, clock, d)
    for lane in range(_LANES):
        d1, d2, d3 = d[_LANES + lane], d[2 * _LANES + lane], d[3 * _LANES + lane]
        _chain(d1, d2, d3, clock, lane, values, sample * _LANES + lane)


@fused_part
def _quintic_rates(curves: Array, clock: Array, values: Array, sample: int) -> None:
    """The same for positions of degree 5 or less: unrolled, which avoids memory accesses."""
    for lane in range(_LANES):
        s = clock[lane]
        c2, c3, c4, c5 = curves[2, lane], curves[3, lane], curves[4, lane], curves[5, lane]
        d1 = curves[1, lane] + s * (2.0 * c2 + s * (3.0 * c3 + s * (4.0 * c4 + s * (5.0 * c5))))
        d2 = 2.0 * c2 + s * (6.0 * c3 + s * (12.0 * c4 + s * (20.0 * c5)))
        d3 = 6.0 * c3 + s * (24.0 * c4 + s * (60.0 * c5))
        _chain(d1, d2, d3, clock, lane, values, sample * _LANES + lane)


@fused_part
def _chain(d1: float, d2: float, d3: float, clock: Array, lane: int, values: Array, k: int) -> None:
    """Write the time derivatives of a position from those over the distance (chain rule)."""
    speed, rise, jolt = clock[_LANES + lane], clock[2 * _LANES + lane], clock[3 * _LANES + lane]
    size = (SAMPLES + 1) * _LANES
    values[k] = d1 * speed
    values[size + k] = d2 * (speed * speed) + d1 * rise
    values[2 * size + k] = d3 * (speed * speed * speed) + d2 * (3.0 * speed * rise) + d1 * jolt


@fused_part
def _peaks(values: Array, share: float, peaks: Array) -> None:
    """Raise the peaks to upper bounds of sampled functions, as fractions of their limits."""
    for lane in range(_LANES):
        v0, v1, v2 = values[lane], values[_LANES + lane], values[2 * _LANES + lane]
        v3, v4 = values[3 * _LANES + lane], values[4 * _LANES + lane]
        most = max(max(abs(v0), abs(v1)), max(max(abs(v2), abs(v3)), abs(v4)))
        bent = max(max(abs(v0 + v2 - 2.0 * v1), abs(v1 + v3 - 2.0 * v2)), abs(v2 + v4 - 2.0 * v3))
        peaks[lane] = max(peaks[lane], (most + 0.25 * bent) * share)


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
        wanted: times to evaluate, in any order [s], shape (k,); at rest outside the motion.
        out: result [rad or m, and their time derivatives], shape (4, k, n).
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


@kernel
def spanned(
    times: Array,
    before: Array,
    after: Array,
    longest: Array,
    bounds: tuple[float, float],
    kept: NDArray[np.bool_],
) -> None:
    """Mark the points between which one polynomial replaces a motion with constant jerks.

    Args:
        times: increasing [s], shape (k,).
        before: jerks just before them, shape (k, n).
        after: jerks at them, shape (k, n).
        longest: max duration of a polynomial by interval [s], shape (k - 1,).
        bounds: max change of the jerk in a polynomial, relative to the max jerk of the joint; and
            max product of this change and the cubed duration [s^3].
        kept: result, shape (k,); the first and the last are kept.
    """
    count, n = after.shape
    peaks = np.zeros(n)
    for i in range(count):
        for j in range(n):
            peaks[j] = max(peaks[j], abs(after[i, j]))
    kept[:] = False
    kept[0] = kept[count - 1] = True
    begin, changed, most = times[0], 0.0, longest[0]
    for i in range(1, count - 1):
        step = 0.0
        for j in range(n):
            step = max(
                step, abs(after[i, j] - before[i, j]) / (peaks[j] if peaks[j] > 0.0 else 1.0)
            )
        changed, most = changed + step, min(most, longest[i])
        span = times[i + 1] - begin
        if changed > bounds[0] or changed * span**3 > bounds[1] or span > most:
            kept[i] = True
            begin, changed, most = times[i], 0.0, longest[i]
