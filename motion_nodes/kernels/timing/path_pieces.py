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
    n, degree = coefficients.shape[2], max(coefficients.shape[1], 6)
    curves, clocks = np.zeros((n, degree, _LANES)), np.empty((SAMPLES + 1, 4, _LANES))
    values, peaks = np.empty((3, SAMPLES + 1, _LANES)), np.empty((len(limits), _LANES))
    lanes, share = np.empty((8, _LANES)), 1.0 / limits
    for first in range(0, len(piece), _LANES):
        _load(breaks, coefficients, piece, times, clock, first, curves, lanes)
        for m in range(SAMPLES + 1):
            _clock_rates(lanes, m / SAMPLES, clocks[m])
        _block_use(curves, clocks, share, values, peaks)
        for lane in range(min(_LANES, len(piece) - first)):
            for order in range(len(limits)):
                use[first + lane, order] = peaks[order, lane]


@bare_part
def _load(
    breaks: Array,
    coefficients: Array,
    piece: IndexArray,
    times: Array,
    clock: Array,
    first: int,
    curves: Array,
    lanes: Array,
) -> None:
    """Write the coefficients of a block of intervals; rows 6 and 7 of ``lanes``: begin and span."""
    count, n = len(piece), coefficients.shape[2]
    for lane in range(_LANES):
        i = min(first + lane, count - 1)
        k = piece[i]
        for power in range(6):
            lanes[power, lane] = clock[i, power]
        lanes[6, lane], lanes[7, lane] = breaks[k], times[i + 1] - times[i]
    last = min(first + _LANES, count) - 1
    for j in range(n):
        for power in range(coefficients.shape[1]):
            for lane in range(_LANES):
                curves[j, power, lane] = coefficients[piece[min(first + lane, last)], power, j]


@fused_part
def _clock_rates(lanes: Array, share: float, d: Array) -> None:
    """Write distances into the pieces and their time derivatives at a share of the intervals."""
    for lane in range(_LANES):
        t = lanes[7, lane] * share
        c1, c2, c3, c4, c5 = (
            lanes[1, lane], lanes[2, lane], lanes[3, lane], lanes[4, lane], lanes[5, lane],
        )
        d[0, lane] = lanes[0, lane] - lanes[6, lane] + t * (c1 + t * (c2 + t * (c3 + t * (c4 + t * c5))))
        d[1, lane] = c1 + t * (2.0 * c2 + t * (3.0 * c3 + t * (4.0 * c4 + t * (5.0 * c5))))
        d[2, lane] = 2.0 * c2 + t * (6.0 * c3 + t * (12.0 * c4 + t * (20.0 * c5)))
        d[3, lane] = 6.0 * c3 + t * (24.0 * c4 + t * (60.0 * c5))


@fused_part
def _block_use(curves: Array, clocks: Array, share: Array, values: Array, peaks: Array) -> None:
    """Write the max utilization of each limit in a block of intervals, shape (orders, _LANES)."""
    for order in range(len(peaks)):
        for lane in range(_LANES):
            peaks[order, lane] = 0.0
    for j in range(len(curves)):
        for m in range(SAMPLES + 1):
            _rates(curves[j], clocks[m], values[0, m], values[1, m])
            if len(peaks) > 2:
                _jerks(curves[j], clocks[m], values[2, m])
        for order in range(len(peaks)):
            _peaks(values[order], share[order, j], peaks[order])


@fused_part
def _rates(curves: Array, clock: Array, velocity: Array, acceleration: Array) -> None:
    """Write a joint's velocities and accelerations at a sample of all lanes' intervals.

    Args:
        curves: coefficients of its position, shape (6 or more, _LANES).
        clock: distance into the piece and its three time derivatives, shape (4, _LANES).
        velocity: result.
        acceleration: result.

    Source: chain rule.
    """
    for lane in range(_LANES):
        s, speed, rise = clock[0, lane], clock[1, lane], clock[2, lane]
        c2, c3, c4, c5 = curves[2, lane], curves[3, lane], curves[4, lane], curves[5, lane]
        d1 = curves[1, lane] + s * (2.0 * c2 + s * (3.0 * c3 + s * (4.0 * c4 + s * (5.0 * c5))))
        d2 = 2.0 * c2 + s * (6.0 * c3 + s * (12.0 * c4 + s * (20.0 * c5)))
        velocity[lane] = d1 * speed
        acceleration[lane] = d2 * (speed * speed) + d1 * rise


@fused_part
def _jerks(curves: Array, clock: Array, jerk: Array) -> None:
    """The same for jerks."""
    for lane in range(_LANES):
        s, speed, rise, jolt = clock[0, lane], clock[1, lane], clock[2, lane], clock[3, lane]
        c2, c3, c4, c5 = curves[2, lane], curves[3, lane], curves[4, lane], curves[5, lane]
        d1 = curves[1, lane] + s * (2.0 * c2 + s * (3.0 * c3 + s * (4.0 * c4 + s * (5.0 * c5))))
        d2 = 2.0 * c2 + s * (6.0 * c3 + s * (12.0 * c4 + s * (20.0 * c5)))
        d3 = 6.0 * c3 + s * (24.0 * c4 + s * (60.0 * c5))
        jerk[lane] = d3 * (speed * speed * speed) + d2 * (3.0 * speed * rise) + d1 * jolt


@fused_part
def _peaks(values: Array, share: float, peaks: Array) -> None:
    """Raise the peaks to upper bounds of sampled functions, as fractions of their limits."""
    for lane in range(_LANES):
        v0, v1, v2 = values[0, lane], values[1, lane], values[2, lane]
        v3, v4 = values[3, lane], values[4, lane]
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
