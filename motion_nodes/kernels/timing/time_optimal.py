# SPDX-License-Identifier: Apache-2.0
"""Time-optimal motion along a path under limits of velocity and acceleration.

Source: H. Pham, Q.-C. Pham, "A new approach to time-optimal path parameterization based on
reachability analysis", IEEE Transactions on Robotics 34(3), 2018 (TOPP-RA). With x the squared
speed along the path and u the acceleration along it, each joint's limit is a strip ``|A u + B x| <=
1`` at both ends of an interval. The backward pass computes the max controllable x, the forward pass
applies the max u. Further strips may be given, e.g. those of effort limits.

At the end of an interval of length h, x is ``x + 2 h u``. A strip bounds it by ``e x - f`` and ``e
x + f``, so that both passes take minima of linear functions of one number instead of solving linear
programs: backward, x is at most ``(x_next + f) / e``; forward, x_next is at most ``e x + f``. The
limits are symmetric, so x = 0, u = 0 is always feasible and the controllable sets begin at 0. They
end at the x at which the bounds of two strips meet, which is found by Newton's method.

If acceleration limits are multiplied by a factor, so are f and that max x; nothing else changes.
Between the grid points the motion may exceed limits. There they are tightened by factors, and the
passes are repeated with the same strips.
"""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.kernels.jit import bare_part, fused_part, kernel, part
from motion_nodes.kernels.timing.path_pieces import LANES, TimedPieces, limit_use
from motion_nodes.typing import Array, IndexArray

_E, _F, _C = (row * LANES for row in range(3))
"""Rows of a strip in a block of intervals: e, f and 1 / e."""
_SPAN, _X, _HIGH, _RISE, _LOW, _FALL = (row * LANES for row in range(6))
"""Rows of a workspace: lengths of the intervals; max x; max and negative min of the next x, and
their slopes over x."""
_FLAT = 1e-12
"""Slopes below this do not constrain the factor they are multiplied with."""
_FASTEST = 1e12
"""Max squared speed along the path."""
_NONE = 1e300
"""Bound that does not constrain."""
_STEPS = 50
"""Max number of Newton steps; each makes at least one strip inactive."""
_CLOSE = 1e-12
"""Relative change of x at which they have converged."""
_SPARE = 2.0
"""Strips are intersected up to this multiple of the x of the velocity limits, because acceleration
limits may be tightened more than those."""
_ROUNDS = 6
"""Max number of rounds; after each, limits exceeded between grid points are tightened."""
_SLIGHT = 2e-4
"""Max excess that is removed by stretching the motion instead of a further round."""
_TIGHTER = 1.2
"""Exponent of an excess by which a limit is tightened."""

Path = tuple[Array, Array, IndexArray, Array]


@kernel
def fastest_motion(
    path: Path, limits: Array, strips: Array, free: Array, times: Array, clock: Array
) -> float:
    """Write the time-optimal motion, whose acceleration along the path is constant per interval.

    Args:
        path: ``breaks`` (m + 1,) and ``coefficients`` (m, d + 1, n), piece of each interval (N,),
            and increasing distances along the path that include all breaks [rad or m], (N + 1,).
        limits: of velocity and acceleration of the joints [rad or m, s], shape (2, n).
        strips: A and B of k further strips at begin and end of each interval, shape (N, 2, 2, k).
        free: upper bounds of x at the grid, shape (N + 1,); 0 where the motion stops, as at the
            ends.
        times: result, bounds of the intervals [s], shape (N + 1,).
        clock: result, of :class:`motion_nodes.kernels.timing.path_pieces.TimedPieces`.

    Returns:
        Factor of the duration with which all limits of the joints are held.
    """
    breaks, coefficients, piece, grid = path
    count = len(piece)
    table, caps = strip_table(path, limits, strips)
    tight, use = np.ones((count, 2)), np.empty((count, 2))
    most, x = np.empty(count + 1), np.empty(count + 1)
    stretch, motion = 1.0, TimedPieces(breaks, coefficients, piece, times, clock)
    for _ in range(_ROUNDS):
        fastest_speeds(table, caps, tight, free, most, x)
        _write_clock(grid, x, times, clock)
        limit_use(motion, limits, use)
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
def strip_table(path: Path, limits: Array, strips: Array) -> tuple[Array, Array]:
    """Return the strips of all intervals, and their max x; arguments as above.

    Returns:
        e, f and 1 / e of the strips at the begins, then at the ends, of blocks of intervals, shape
        (blocks, 2 (n + k), 3 LANES); and max x at begin and end by velocity limits, and at the
        begin by the strips, shape (N, 3).
    """
    count, n, more = len(path[2]), limits.shape[1], strips.shape[3]
    table = np.empty(((count + LANES - 1) // LANES, 2 * (n + more), 3 * LANES))
    caps, inverse = np.empty((count, 3)), np.empty((2, n + more))
    for j in range(n + more):
        inverse[0, j] = 1.0 / limits[0, j] if j < n else 0.0
        inverse[1, j] = 1.0 / limits[1, j] if j < n else 1.0
    D, W = np.zeros((n + more, 2, 2 * LANES)), np.zeros(6 * LANES)
    rates = np.empty((2, LANES))
    for block in range(len(table)):
        _load(path, strips, block * LANES, D, W)
        _block_strips(D, inverse, rates, W, table[block])
        for lane in range(min(LANES, count - block * LANES)):
            row = caps[block * LANES + lane]
            row[0], row[1] = _squared(rates[0, lane]), _squared(rates[1, lane])
            row[2] = W[_X + lane]
    return table, caps


@fused_part
def _load(path: Path, strips: Array, first: int, D: Array, W: Array) -> None:
    """Write A and B of a block of intervals, not divided by limits, and the intervals' lengths.

    Args:
        path: as of :func:`fastest_motion`.
        strips: as of :func:`fastest_motion`.
        first: interval of the block.
        D: result, shape (n + k, 2, 2 LANES).
        W: workspace.
    """
    breaks, coefficients, piece, grid = path
    n = coefficients.shape[2]
    for lane in range(min(LANES, len(piece) - first)):
        i = first + lane
        k = piece[i]
        W[_SPAN + lane] = grid[i + 1] - grid[i]
        for end in range(2):
            known = end == 0 and lane > 0 and k == piece[i - 1]
            for j in range(n):
                A, B = D[j, 1, lane - 1], D[j, 1, LANES + lane - 1]
                if not known:
                    A, B = _slopes(coefficients, k, j, grid[i + end] - breaks[k])
                D[j, end, lane], D[j, end, LANES + lane] = A, B
            for j in range(strips.shape[3]):
                D[n + j, end, lane] = strips[i, end, 0, j]
                D[n + j, end, LANES + lane] = strips[i, end, 1, j]


@fused_part
def _slopes(coefficients: Array, piece: int, j: int, at: float) -> tuple[float, float]:
    """Return a joint's first two derivatives at a distance into a piece (Horner's scheme)."""
    first = second = 0.0
    for k in range(coefficients.shape[1] - 1, 0, -1):
        second = second * at + first
        first = first * at + k * coefficients[piece, k, j]
    return first, second


@fused_part
def _block_strips(D: Array, inverse: Array, rates: Array, W: Array, T: Array) -> None:
    """Write the strips of a block, the max x of its intervals, and rates of the velocity limits.

    Args:
        D: A and B, not divided by limits, shape (n + k, 2, 2 LANES).
        inverse: inverses of limits of velocity and acceleration, shape (2, n + k).
        rates: result, max velocity per speed along the path, relative to the limit, at begin and
            end, shape (2, LANES).
        W: workspace.
        T: result, shape (2 (n + k), 3 LANES).
    """
    for i in range(LANES):
        rates[0, i] = rates[1, i] = 0.0
        W[_X + i] = _FASTEST
    for j in range(len(D)):
        for end in range(2):
            strip = T[j + end * len(D)]
            _write_strip(D[j, end], (inverse[0, j], inverse[1, j]), end, rates[end], W, strip)
    for i in range(LANES):
        W[_X + i] = min(W[_X + i], _SPARE * _squared(rates[0, i]))
    for _ in range(_STEPS):
        if not _approach(T, W):
            break


@fused_part
def _squared(rate: float) -> float:
    """Return the max x of velocities, relative to their limits, per speed along the path."""
    return 1.0 / max(rate * rate, 1.0 / _FASTEST)


@fused_part
def _write_strip(
    D: Array, inverse: tuple[float, float], end: int, rates: Array, W: Array, T: Array
) -> None:
    """Write a strip at an end (0 or 1) of the intervals, raise the rates, lower the max x."""
    velocity, acceleration = inverse
    for i in range(LANES):
        rate, x = abs(D[i]) * velocity, W[_X + i]
        A, B, twice = D[i] * acceleration, D[LANES + i] * acceleration, 2.0 * W[_SPAN + i]
        here, there = A + end * twice * B, A + (end - 1.0) * twice * B
        flat, near, far = abs(here) <= _FLAT, 1.0 / here, 1.0 / there
        T[_E + i] = 1.0 if flat else there * near
        T[_F + i] = _NONE if flat else twice * abs(near)
        T[_C + i] = 1.0 if flat else (here * far if here * far > 0.0 else _NONE)
        # A flat strip bounds x itself; another one may require that x_next be at least 0.
        bound = abs(1.0 / B) if abs(B) > _FLAT else _NONE
        steep = twice * abs(far) if here * far < 0.0 else _NONE
        bound = bound if flat else steep
        W[_X + i] = bound if bound < x else x
        rates[i] = rate if rate > rates[i] else rates[i]


@fused_part
def _approach(T: Array, W: Array) -> bool:
    """Lower the max x, by a Newton step, where strips exclude each other; return if it moved."""
    half = len(T) // 2
    for i in range(LANES):
        W[_HIGH + i] = W[_LOW + i] = _NONE
    for k in range(half):
        begin, end = T[k], T[half + k]
        for i in range(LANES):
            x, e, f = W[_X + i], begin[_E + i], begin[_F + i]
            high, low, rise, fall = W[_HIGH + i], W[_LOW + i], W[_RISE + i], W[_FALL + i]
            over, under = f + e * x, f - e * x
            rise, fall = e if over < high else rise, e if under < low else fall
            high, low = over if over < high else high, under if under < low else low
            e, f = end[_E + i], end[_F + i]
            over, under = f + e * x, f - e * x
            W[_RISE + i] = e if over < high else rise
            W[_FALL + i] = e if under < low else fall
            W[_HIGH + i] = over if over < high else high
            W[_LOW + i] = under if under < low else low
    moved = False
    for i in range(LANES):
        gap, slope, x = W[_HIGH + i] + W[_LOW + i], W[_RISE + i] - W[_FALL + i], W[_X + i]
        step = gap / slope if (gap < 0.0) & (slope < 0.0) else 0.0
        W[_X + i] = max(x - step, 0.0)
        moved |= step > _CLOSE * x
    return moved


@bare_part
def fastest_speeds(
    table: Array, caps: Array, tight: Array, free: Array, most: Array, x: Array
) -> None:
    """Write the time-optimal squared speeds along the path.

    Args:
        table: of :func:`strip_table`.
        caps: of :func:`strip_table`, shape (N, 3).
        tight: factors of the max x of velocity limits and of acceleration limits, shape (N, 2).
        free: upper bounds of x at the grid, shape (N + 1,).
        most: result, max controllable x at the grid, shape (N + 1,).
        x: result, shape (N + 1,).
    """
    count = len(caps)
    following = free[count]
    for i in range(count - 1, -1, -1):
        following = min(following, _FASTEST, caps[i, 1] * tight[i, 0])
        most[i + 1] = following
        x_max = _previous(table[i // LANES], i % LANES, tight[i, 1], following)
        following = min(free[i], caps[i, 0] * tight[i, 0], caps[i, 2] * tight[i, 1], x_max)
    x[0] = most[0] = following
    for i in range(count):
        reached = _following(table[i // LANES], i % LANES, tight[i, 1], x[i])
        x[i + 1] = min(max(0.0, reached), most[i + 1])


@fused_part
def _previous(T: Array, lane: int, factor: float, x: float) -> float:
    """Return the max x from which the given one can be reached, by the strips alone."""
    begin = end = _NONE
    half = len(T) // 2
    for k in range(half):
        begin = min(begin, T[k, _C + lane] * (x + factor * T[k, _F + lane]))
        end = min(end, T[half + k, _C + lane] * (x + factor * T[half + k, _F + lane]))
    return min(begin, end)


@fused_part
def _following(T: Array, lane: int, factor: float, x: float) -> float:
    """Return the max x that can be reached from the given one, by the strips alone."""
    begin = end = _NONE
    half = len(T) // 2
    for k in range(half):
        begin = min(begin, T[k, _E + lane] * x + factor * T[k, _F + lane])
        end = min(end, T[half + k, _E + lane] * x + factor * T[half + k, _F + lane])
    return min(begin, end)


@bare_part
def _write_clock(grid: Array, x: Array, times: Array, clock: Array) -> None:
    """Write the motion with constant accelerations along the path in each interval."""
    times[0] = 0.0
    speed = math.sqrt(x[0])
    for i in range(len(clock)):
        span, following = grid[i + 1] - grid[i], math.sqrt(x[i + 1])
        clock[i, 0], clock[i, 1], clock[i, 2] = grid[i], speed, 0.25 * (x[i + 1] - x[i]) / span
        clock[i, 3] = clock[i, 4] = clock[i, 5] = 0.0
        times[i + 1] = times[i] + 2.0 * span / (speed + following)
        speed = following
