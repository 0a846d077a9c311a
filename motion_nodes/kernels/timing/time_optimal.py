# SPDX-License-Identifier: Apache-2.0
"""Time-optimal motion along a path under limits of velocity and acceleration.

Source: H. Pham, Q.-C. Pham, "A new approach to time-optimal path parameterization based on
reachability analysis", IEEE Transactions on Robotics 34(3), 2018 (TOPP-RA). With x the squared
speed along the path and u the acceleration along it, each joint's limit is a strip ``|A u + B x| <=
1`` at both ends of an interval. The backward pass computes the max controllable x, the forward pass
applies the max u. Further strips may be given, e.g. those of effort limits.

In an interval of length h, x at its end is ``x + 2 h u``. A strip bounds it by ``e x - f`` and
``e x + f``, so that the passes are minima of linear functions of one number, without a linear
program: backward, x is at most ``(x_next + f) / e``; forward, x_next at most ``e x + f``. The
limits are symmetric, so x = 0, u = 0 is always feasible and the controllable sets begin at 0. Where
the bounds of two strips meet, no x is feasible beyond; this max x is found by Newton's method.

If the acceleration limits are multiplied by a factor, so are f and that max x, and nothing else
changes. Between the grid points the motion may exceed limits; there they are tightened by factors,
and the passes are repeated with the same strips.
"""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.kernels.jit import bare_part, fused_part, kernel, part
from motion_nodes.kernels.kinematic_arrays import Array, IndexArray
from motion_nodes.kernels.timing.path_pieces import limit_use

LANES = 16
"""Intervals per block, whose strips are computed by vector instructions."""
# Rows of a workspace.
_SPAN, _BEGIN = 0, LANES
"""Lengths of the lanes' intervals, and distances into their pieces."""
_A, _B, _RATE0, _RATE1, _X = (row * LANES for row in range(2, 7))
"""A strip; max velocities per speed along the path, at begin and end; max x."""
_HIGH, _RISE, _LOW, _FALL = (row * LANES for row in range(7, 11))
"""Max and negative min of the next x, and their slopes over x."""
_C1, _C2, _C3, _C4, _C5 = (row * LANES for row in range(11, 16))
"""Coefficients of a joint's position."""
_ROWS = 16
_FLAT = 1e-12
"""Slopes below this do not constrain the factor they are multiplied with."""
_FASTEST = 1e12
"""Max squared speed along the path."""
_NONE = 1e300
"""Bound that does not constrain."""
_STEPS = 50
"""Max number of Newton steps; each makes at least one strip inactive."""
_SPARE = 2.0
"""Factor of the x up to which strips are intersected, over that of the velocity limits: these may
be tightened less than accelerations."""
_ROUNDS = 6
"""Max number of rounds; after each, limits exceeded between grid points are tightened."""
_SLIGHT = 2e-4
"""Max excess that is removed by stretching the motion instead of a further round."""
_TIGHTER = 1.2
"""Exponent of an excess by which a limit is tightened."""


@kernel
def fastest_motion(
    path: tuple[Array, Array, IndexArray, Array],
    limits: Array,
    strips: Array,
    free: Array,
    times: Array,
    clock: Array,
) -> float:
    """Write the time-optimal motion, whose acceleration along the path is constant per interval.

    Args:
        path: ``breaks`` (m + 1,) and ``coefficients`` (m, d + 1, n), piece of each interval (N,),
            and increasing distances along the path that include all breaks [rad or m], (N + 1,).
        limits: of velocity and acceleration of the joints [rad or m, s], shape (2, n).
        strips: A and B of k further strips at begin and end of each interval, shape (N, 2, 2, k).
        free: upper bound of the squared speed along the path at the grid, shape (N + 1,); 0 where
            the motion stops, as at the ends.
        times: result, bounds of the intervals [s], shape (N + 1,).
        clock: result, see :func:`motion_nodes.kernels.timing.path_pieces.limit_use`, shape (N, 6).

    Returns:
        Factor of the duration with which all limits of the joints are held.
    """
    breaks, coefficients, piece, grid = path
    count, most = len(piece), np.minimum(free, _FASTEST)
    table, caps = strip_table(path, limits, strips)
    tight, use, x = np.ones((count, 2)), np.empty((count, 2)), np.empty(count + 1)
    bounds = np.empty(count + 1)
    clock[:] = 0.0
    stretch = 1.0
    for _ in range(_ROUNDS):
        for i in range(count + 1):
            bounds[i] = most[i]
        fastest_speeds(table, caps, tight, bounds, x)
        _write_clock(grid, x, times, clock)
        limit_use(breaks, coefficients, piece, times, clock, limits, use)
        stretch = 1.0
        for i in range(count):
            stretch = max(stretch, use[i, 0], math.sqrt(use[i, 1]))
        if stretch < 1.0 + _SLIGHT:
            break
        for i in range(count):
            if use[i, 0] > 1.0:
                tight[i, 0] *= use[i, 0] ** (-2.0 * _TIGHTER)
            if use[i, 1] > 1.0:
                tight[i, 1] *= use[i, 1] ** -_TIGHTER
    return stretch


@part
def strip_table(
    path: tuple[Array, Array, IndexArray, Array], limits: Array, strips: Array
) -> tuple[Array, Array]:
    """Return the strips of all intervals, and their max x; arguments as above.

    Returns:
        Table of blocks of intervals, shape (blocks, 6 (n + k) LANES): e, f and 1 / e of the strips
        at the begin, then at the end; and max x at begin and end by velocity limits and at the
        begin by the strips, shape (N, 3).
    """
    breaks, coefficients, piece, grid = path
    count, n, more = len(piece), coefficients.shape[2], strips.shape[3]
    table = np.empty(((count + LANES - 1) // LANES, 2 * (n + more), 3 * LANES))
    caps, inverse = np.empty((count, 3)), 1.0 / limits
    degree, W = coefficients.shape[1], np.zeros(_ROWS * LANES)
    for block in range(len(table)):
        T, first = table[block], block * LANES
        for lane in range(LANES):
            i = min(first + lane, count - 1)
            W[_SPAN + lane] = grid[i + 1] - grid[i]
            W[_BEGIN + lane] = grid[i] - breaks[piece[i]]
        _fill(W, _RATE0, 0.0)
        _fill(W, _RATE1, 0.0)
        _fill(W, _X, _FASTEST)
        for j in range(n + more):
            if j < n:
                for lane in range(LANES):
                    k = piece[min(first + lane, count - 1)]
                    for power in range(1, degree):
                        W[_C1 + (power - 1) * LANES + lane] = coefficients[k, power, j]
            for end in range(2):
                if j < n:
                    _slopes(end, W)
                    _velocity(_RATE1 if end else _RATE0, inverse[0, j], inverse[1, j], W)
                else:
                    for lane in range(LANES):
                        i = min(first + lane, count - 1)
                        W[_A + lane] = strips[i, end, 0, j - n]
                        W[_B + lane] = strips[i, end, 1, j - n]
                _write_strip(end, W, T[j + end * (n + more)])
        _meeting(T, W)
        for lane in range(min(LANES, count - first)):
            caps[first + lane, 0] = _squared(W[_RATE0 + lane])
            caps[first + lane, 1] = _squared(W[_RATE1 + lane])
            caps[first + lane, 2] = W[_X + lane]
    return table, caps


@fused_part
def _squared(rate: float) -> float:
    """Return the max x of velocities, relative to their limits, per speed along the path."""
    return 1.0 / max(rate * rate, 1.0 / _FASTEST)


@fused_part
def _fill(W: Array, row: int, value: float) -> None:
    for i in range(LANES):
        W[row + i] = value


@fused_part
def _slopes(end: int, W: Array) -> None:
    """Write a joint's first two derivatives at an end (0 or 1) of the intervals."""
    for i in range(LANES):
        s = W[_BEGIN + i] + end * W[_SPAN + i]
        c2, c3, c4, c5 = W[_C2 + i], W[_C3 + i], W[_C4 + i], W[_C5 + i]
        W[_A + i] = W[_C1 + i] + s * (2.0 * c2 + s * (3.0 * c3 + s * (4.0 * c4 + s * (5.0 * c5))))
        W[_B + i] = 2.0 * c2 + s * (6.0 * c3 + s * (12.0 * c4 + s * (20.0 * c5)))


@fused_part
def _velocity(row: int, velocity: float, acceleration: float, W: Array) -> None:
    """Raise the max velocity, relative to its limit, and scale the strip."""
    for i in range(LANES):
        W[row + i] = max(W[row + i], abs(W[_A + i]) * velocity)
        W[_A + i] *= acceleration
        W[_B + i] *= acceleration


@fused_part
def _write_strip(end: int, W: Array, T: Array) -> None:
    """Write a strip at an end (0 or 1) of the intervals, and lower their max x."""
    for i in range(LANES):
        A, B, twice = W[_A + i], W[_B + i], 2.0 * W[_SPAN + i]
        here, there = A + end * twice * B, A + (end - 1.0) * twice * B
        flat, near, far = abs(here) <= _FLAT, 1.0 / here, 1.0 / there
        T[i] = 1.0 if flat else there * near
        T[LANES + i] = _NONE if flat else twice * abs(near)
        T[2 * LANES + i] = 1.0 if flat else (here * far if here * far > 0.0 else _NONE)
        # A flat strip bounds x itself; another one may require that x_next be at least 0.
        bound, x = abs(1.0 / B) if abs(B) > _FLAT else _NONE, W[_X + i]
        steep = twice * abs(far) if here * far < 0.0 else _NONE
        bound = bound if flat else steep
        W[_X + i] = bound if bound < x else x


@fused_part
def _meeting(T: Array, W: Array) -> None:
    """Lower the max x to where strips exclude each other."""
    half = len(T) // 2
    for i in range(LANES):
        W[_X + i] = min(W[_X + i], _SPARE / max(W[_RATE0 + i] * W[_RATE0 + i], 1.0 / _FASTEST))
    for _ in range(_STEPS):
        _fill(W, _HIGH, _NONE)
        _fill(W, _LOW, _NONE)
        for k in range(half):
            begin, end = T[k], T[half + k]
            for i in range(LANES):
                x, e, f = W[_X + i], begin[i], begin[LANES + i]
                high, low, rise, fall = W[_HIGH + i], W[_LOW + i], W[_RISE + i], W[_FALL + i]
                over, under = f + e * x, f - e * x
                rise, fall = e if over < high else rise, e if under < low else fall
                high, low = over if over < high else high, under if under < low else low
                e, f = end[i], end[LANES + i]
                over, under = f + e * x, f - e * x
                W[_RISE + i] = e if over < high else rise
                W[_FALL + i] = e if under < low else fall
                W[_HIGH + i] = over if over < high else high
                W[_LOW + i] = under if under < low else low
        for i in range(LANES):
            gap, slope = W[_HIGH + i] + W[_LOW + i], W[_RISE + i] - W[_FALL + i]
            step = gap / slope
            step = step if (gap < 0.0) & (slope < 0.0) else 0.0
            x = W[_X + i] - step
            W[_X + i] = x if x > 0.0 else 0.0
            W[_HIGH + i] = step
        moved = 0.0
        for i in range(LANES):
            moved += W[_HIGH + i]
        if moved == 0.0:
            break


@bare_part
def fastest_speeds(
    table: Array, caps: Array, tight: Array, bounds: Array, x: Array
) -> None:
    """Write the time-optimal squared speeds along the path.

    Args:
        table: of :func:`strip_table`.
        caps: of :func:`strip_table`, shape (N, 3).
        tight: factors of the max x of velocity limits and of acceleration limits, shape (N, 2).
        bounds: max x at the grid, shape (N + 1,); lowered to the controllable ones.
        x: result, shape (N + 1,).
    """
    count = len(caps)
    for i in range(count):
        begin = min(caps[i, 0] * tight[i, 0], caps[i, 2] * tight[i, 1])
        bounds[i] = min(bounds[i], begin)
        bounds[i + 1] = min(bounds[i + 1], caps[i, 1] * tight[i, 0])
    for i in range(count - 1, -1, -1):
        last = _previous(table[i // LANES], i % LANES, tight[i, 1], bounds[i + 1])
        bounds[i] = min(bounds[i], last)
    x[0] = bounds[0]
    for i in range(count):
        following = _following(table[i // LANES], i % LANES, tight[i, 1], x[i])
        x[i + 1] = min(max(0.0, following), bounds[i + 1])


@fused_part
def _previous(T: Array, lane: int, factor: float, x: float) -> float:
    """Return the max x from which the next one can be reached, with the strips alone."""
    begin = end = _NONE
    half = len(T) // 2
    for k in range(half):
        begin = min(begin, T[k, 2 * LANES + lane] * (x + factor * T[k, LANES + lane]))
        end = min(end, T[half + k, 2 * LANES + lane] * (x + factor * T[half + k, LANES + lane]))
    return min(begin, end)


@fused_part
def _following(T: Array, lane: int, factor: float, x: float) -> float:
    """Return the max next x, with the strips alone."""
    begin = end = _NONE
    half = len(T) // 2
    for k in range(half):
        begin = min(begin, T[k, lane] * x + factor * T[k, LANES + lane])
        end = min(end, T[half + k, lane] * x + factor * T[half + k, LANES + lane])
    return min(begin, end)


@bare_part
def _write_clock(grid: Array, x: Array, times: Array, clock: Array) -> None:
    times[0] = 0.0
    speed = math.sqrt(x[0])
    for i in range(len(clock)):
        span, following = grid[i + 1] - grid[i], math.sqrt(x[i + 1])
        clock[i, 0], clock[i, 1], clock[i, 2] = grid[i], speed, 0.25 * (x[i + 1] - x[i]) / span
        times[i + 1] = times[i] + 2.0 * span / (speed + following)
        speed = following
