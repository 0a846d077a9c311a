# SPDX-License-Identifier: Apache-2.0
"""Piecewise polynomial joint paths: states and utilization of the limits of a timed path.

A path consists of ``breaks`` (m + 1,) and ``coefficients`` (m, d + 1, n), lowest power first; each
piece is a polynomial of the distance [rad or m] from its break. A clock maps time to distance along
the path: one polynomial per time interval, each within one piece of the path.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.jit import bare_part, fused_part, kernel
from motion_nodes.typing import Array, IndexArray

SAMPLES = 4
"""Subdivisions of an interval in which peaks are searched."""
LANES = 16
"""Intervals per block, which are processed by vector instructions."""


class TimedPieces(NamedTuple):
    """A timed path."""

    breaks: Array
    """Of the path, shape (m + 1,)."""
    coefficients: Array
    """Of the path, shape (m, d + 1, n)."""
    piece: IndexArray
    """Piece of the path of each interval, shape (N,)."""
    times: Array
    """Bounds of the intervals [s], shape (N + 1,)."""
    clock: Array
    """Distance along the path as a polynomial in the time since each interval's begin, (N, 6)."""


@bare_part
def slopes(coefficients: Array, at: float, d0: Array, d1: Array, d2: Array, d3: Array) -> None:
    """Write the path and its first three derivatives, shape (n,) each, at a distance into a piece.

    ``coefficients`` are those of the piece, shape (d + 1, n). The loop over joints is the innermost
    one, so that it is vectorized. Source: Horner's scheme.
    """
    n = coefficients.shape[1]
    for j in range(n):
        d0[j] = d1[j] = d2[j] = d3[j] = 0.0
    for k in range(coefficients.shape[0] - 1, -1, -1):
        for j in range(n):
            d3[j] = d3[j] * at + 3.0 * d2[j]
            d2[j] = d2[j] * at + 2.0 * d1[j]
            d1[j] = d1[j] * at + d0[j]
            d0[j] = d0[j] * at + coefficients[k, j]


@bare_part
def ticks(clock: Array, i: int, at: float) -> tuple[float, float, float, float]:
    """Return the distance along the path and its three time derivatives.

    Args:
        clock: of :class:`TimedPieces`.
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
def limit_use(motion: TimedPieces, limits: Array, use: Array) -> None:
    """Write the max utilization of each limit in each interval, as a fraction of the limit.

    A parabola exceeds its samples by at most an eighth of its second difference; twice that is
    added, because the functions are not exactly parabolic.

    Args:
        motion: the timed path.
        limits: of velocity and acceleration, and maybe of jerk, possibly infinite, shape (2, n) or
            (3, n).
        use: result, for each of them, shape (N, 2) or (N, 3).
    """
    coefficients, piece = motion.coefficients, motion.piece
    n, orders = coefficients.shape[2], len(limits)
    curves = np.zeros((n, max(coefficients.shape[1], 6), LANES))
    ages, d = np.empty((7, LANES)), np.empty((4, LANES))
    clocks, values = np.empty((SAMPLES + 1, 4, LANES)), np.empty((3, SAMPLES + 1, LANES))
    peaks, share = np.empty((orders, LANES)), 1.0 / limits
    for first in range(0, len(piece), LANES):
        _load(motion, first, ages, curves)
        for m in range(SAMPLES + 1):
            _clock_rates(ages, m / SAMPLES, clocks[m])
        _block_use(curves, clocks, share, d, values, peaks)
        for lane in range(min(LANES, len(piece) - first)):
            for order in range(orders):
                use[first + lane, order] = peaks[order, lane]


@bare_part
def _load(motion: TimedPieces, first: int, ages: Array, curves: Array) -> None:
    """Write clocks and coefficients of a block of intervals; the last interval is repeated.

    Args:
        motion: the timed path.
        first: interval of the block.
        ages: result: coefficients of the distance into the piece, lengths of the intervals.
        curves: result, of the positions, shape (n, 6 or more, LANES).
    """
    breaks, coefficients, piece, times, clock = motion
    last = min(first + LANES, len(piece)) - 1
    for lane in range(LANES):
        i = min(first + lane, last)
        for power in range(6):
            ages[power, lane] = clock[i, power]
        ages[0, lane] -= breaks[piece[i]]
        ages[6, lane] = times[i + 1] - times[i]
    for j in range(len(curves)):
        for power in range(coefficients.shape[1]):
            for lane in range(LANES):
                curves[j, power, lane] = coefficients[piece[min(first + lane, last)], power, j]


@fused_part
def _clock_rates(ages: Array, share: float, clock: Array) -> None:
    """Write distances and their time derivatives at a share of the intervals, (4, LANES)."""
    for lane in range(LANES):
        t, c0, c1, c2 = share * ages[6, lane], ages[0, lane], ages[1, lane], ages[2, lane]
        c3, c4, c5 = ages[3, lane], ages[4, lane], ages[5, lane]
        clock[0, lane] = c0 + t * (c1 + t * (c2 + t * (c3 + t * (c4 + t * c5))))
        clock[1, lane] = c1 + t * (2.0 * c2 + t * (3.0 * c3 + t * (4.0 * c4 + t * (5.0 * c5))))
        clock[2, lane] = 2.0 * c2 + t * (6.0 * c3 + t * (12.0 * c4 + t * (20.0 * c5)))
        clock[3, lane] = 6.0 * c3 + t * (24.0 * c4 + t * (60.0 * c5))


@fused_part
def _block_use(
    curves: Array, clocks: Array, share: Array, d: Array, values: Array, peaks: Array
) -> None:
    """Write the max utilization of each limit in a block of intervals, shape (orders, LANES)."""
    for order in range(len(peaks)):
        for lane in range(LANES):
            peaks[order, lane] = 0.0
    for j in range(len(curves)):
        for m in range(SAMPLES + 1):
            if curves.shape[1] > 6:
                _rates(curves[j], clocks[m], d, values, m)
            else:
                _quintic_rates(curves[j], clocks[m], values, m)
        for order in range(len(peaks)):
            _peaks(values[order], share[order, j], peaks[order])


@fused_part
def _rates(curves: Array, clock: Array, d: Array, values: Array, m: int) -> None:
    """Write a joint's velocities, accelerations and jerks at a sample of the intervals.

    Args:
        curves: coefficients of its position, shape (6 or more, LANES).
        clock: distance into the piece and its time derivatives, shape (4, LANES).
        d: scratch, shape (4, LANES).
        values: result, shape (3, SAMPLES + 1, LANES).
        m: sample.
    """
    for lane in range(LANES):
        d[0, lane] = d[1, lane] = d[2, lane] = d[3, lane] = 0.0
    for k in range(len(curves) - 1, -1, -1):
        for lane in range(LANES):
            s = clock[0, lane]
            d[3, lane] = d[3, lane] * s + 3.0 * d[2, lane]
            d[2, lane] = d[2, lane] * s + 2.0 * d[1, lane]
            d[1, lane] = d[1, lane] * s + d[0, lane]
            d[0, lane] = d[0, lane] * s + curves[k, lane]
    for lane in range(LANES):
        _chain((d[1, lane], d[2, lane], d[3, lane]), clock, values, m, lane)


@fused_part
def _quintic_rates(curves: Array, clock: Array, values: Array, m: int) -> None:
    """The same for positions of degree 5 or less: unrolled, which avoids memory accesses."""
    for lane in range(LANES):
        s = clock[0, lane]
        c2, c3, c4, c5 = curves[2, lane], curves[3, lane], curves[4, lane], curves[5, lane]
        d1 = curves[1, lane] + s * (2.0 * c2 + s * (3.0 * c3 + s * (4.0 * c4 + s * (5.0 * c5))))
        d2 = 2.0 * c2 + s * (6.0 * c3 + s * (12.0 * c4 + s * (20.0 * c5)))
        d3 = 6.0 * c3 + s * (24.0 * c4 + s * (60.0 * c5))
        _chain((d1, d2, d3), clock, values, m, lane)


@fused_part
def _chain(
    slopes: tuple[float, float, float], clock: Array, values: Array, m: int, lane: int
) -> None:
    """Write the time derivatives of a position from those over the distance (chain rule)."""
    d1, d2, d3 = slopes
    speed, rise, jolt = clock[1, lane], clock[2, lane], clock[3, lane]
    values[0, m, lane] = d1 * speed
    values[1, m, lane] = d2 * (speed * speed) + d1 * rise
    values[2, m, lane] = d3 * (speed * speed * speed) + d2 * (3.0 * speed * rise) + d1 * jolt


@fused_part
def _peaks(values: Array, share: float, peaks: Array) -> None:
    """Raise the peaks to upper bounds of sampled functions, as fractions of their limits."""
    for lane in range(LANES):
        v0, v1, v2 = values[0, lane], values[1, lane], values[2, lane]
        v3, v4 = values[3, lane], values[4, lane]
        most = max(max(abs(v0), abs(v1)), max(max(abs(v2), abs(v3)), abs(v4)))
        bent = max(max(abs(v0 + v2 - 2.0 * v1), abs(v1 + v3 - 2.0 * v2)), abs(v2 + v4 - 2.0 * v3))
        peaks[lane] = max(peaks[lane], (most + 0.25 * bent) * share)


@kernel
def path_states(motion: TimedPieces, desired: Array, out: Array) -> None:
    """Write positions, velocities, accelerations and jerks of a timed path.

    Args:
        motion: the timed path.
        desired: times to evaluate, in any order [s], shape (k,); at rest outside the motion.
        out: result [rad or m, and their time derivatives], shape (4, k, n).
    """
    breaks, coefficients, piece, times, clock = motion
    n, last = coefficients.shape[2], len(piece) - 1
    d0, d1, d2, d3 = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    i = 0
    for k in range(len(desired)):
        t = min(max(desired[k], times[0]), times[last + 1])
        if not (times[i] <= t and (i == last or t < times[i + 1])):
            i = min(max(np.searchsorted(times, t, side="right") - 1, 0), last)
        s, speed, rise, jolt = ticks(clock, i, t - times[i])
        slopes(coefficients[piece[i]], s - breaks[piece[i]], d0, d1, d2, d3)
        moving = 1.0 if times[0] <= desired[k] <= times[last + 1] else 0.0
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
