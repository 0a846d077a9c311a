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

from motion_nodes.kernels.jit import bare_part, fused_part, kernel
from motion_nodes.kernels.kinematic_arrays import Array, IndexArray
from motion_nodes.kernels.timing.path_pieces import limit_use

LANES = 8
"""Strips per vector; their number at an end of an interval is a multiple of it."""
E, F, C = 0, 1, 2
"""Rows of a table of strips: e, f and 1 / e."""
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
    bounds, least = np.empty(count + 1), np.empty(LANES)
    clock[:] = 0.0
    stretch = 1.0
    for _ in range(_ROUNDS):
        for i in range(count + 1):
            bounds[i] = most[i]
        fastest_speeds(table, caps, tight, bounds, x, least)
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


@kernel
def strip_table(
    path: tuple[Array, Array, IndexArray, Array], limits: Array, strips: Array
) -> tuple[Array, Array]:
    """Return the strips of each interval, and the max x at its ends; arguments as above.

    Returns:
        e, f and 1 / e of the strips, shape (N, 3, K), K a multiple of :data:`LANES`; and max x at
        begin and end by velocity limits and at the begin by the strips, shape (N, 3).
    """
    breaks, coefficients, piece, grid = path
    count, degree, n = len(piece), coefficients.shape[1] - 1, coefficients.shape[2]
    width = (n + strips.shape[3] + LANES - 1) // LANES * LANES
    table, caps = np.empty((count, 3, 2 * width)), np.empty((count, 3))
    inverse, curve = np.zeros((2, width)), np.zeros((degree, width))
    A, B, least = np.empty(width), np.empty(width), np.empty((4, LANES))
    for j in range(n):
        inverse[0, j], inverse[1, j] = 1.0 / limits[0, j], 1.0 / limits[1, j]
    for i in range(count):
        if i == 0 or piece[i] != piece[i - 1]:
            for k in range(degree):
                for j in range(n):
                    curve[k, j] = (k + 1.0) * coefficients[piece[i], k + 1, j]
        span, begin = grid[i + 1] - grid[i], grid[i] - breaks[piece[i]]
        _fill(least[0], _NONE)
        for end in range(2):
            caps[i, end] = _joint_strips(curve, begin + end * span, inverse, A, B, least[1])
            for j in range(strips.shape[3]):
                A[n + j], B[n + j] = strips[i, end, 0, j], strips[i, end, 1, j]
            _write_strips(A, B, span, end, table[i, E], table[i, F], table[i, C], least[0])
        limit = min(min(_SPARE * caps[i, 0], _FASTEST), _least(least[0]))
        caps[i, 2] = _meeting(table[i, E], table[i, F], limit, least)
    return table, caps


@fused_part
def _fill(lanes: Array, value: float) -> None:
    for lane in range(LANES):
        lanes[lane] = value


@fused_part
def _least(lanes: Array) -> float:
    least = _NONE
    for lane in range(LANES):
        least = min(least, lanes[lane])
    return least


@fused_part
def _joint_strips(
    curve: Array, at: float, inverse: Array, A: Array, B: Array, most: Array
) -> float:
    """Write the joints' strips at a distance into a piece; return the max x of the velocities.

    Args:
        curve: coefficients of the path's derivative, shape (d, width).
        at: distance from the begin of the piece [rad or m].
        inverse: inverses of the limits, shape (2, width).
        A: result, shape (width,).
        B: result, shape (width,).
        most: scratch, shape (LANES,).
    """
    _fill(most, 0.0)
    for first in range(0, len(A), LANES):
        for lane in range(LANES):
            A[first + lane] = B[first + lane] = 0.0
        for k in range(len(curve) - 1, -1, -1):
            for lane in range(LANES):
                B[first + lane] = B[first + lane] * at + A[first + lane]
                A[first + lane] = A[first + lane] * at + curve[k, first + lane]
        for lane in range(LANES):
            j = first + lane
            most[lane] = max(most[lane], abs(A[j]) * inverse[0, j])
            A[j] *= inverse[1, j]
            B[j] *= inverse[1, j]
    rate = 0.0
    for lane in range(LANES):
        rate = max(rate, most[lane])
    return 1.0 / max(rate * rate, 1.0 / _FASTEST)


@fused_part
def _write_strips(
    A: Array, B: Array, span: float, end: int, e: Array, f: Array, c: Array, least: Array
) -> None:
    """Write a table's rows at an end (0 or 1) of an interval, and lower the lanes' max x."""
    twice, near = 2.0 * span, end * len(A)
    for first in range(0, len(A), LANES):
        for lane in range(LANES):
            j = first + lane
            here, there = A[j] + end * twice * B[j], A[j] + (end - 1.0) * twice * B[j]
            flat = abs(here) <= _FLAT
            ratio = there / here
            e[near + j] = 1.0 if flat else ratio
            f[near + j] = _NONE if flat else twice / abs(here)
            c[near + j] = 1.0 if flat else (here / there if ratio > 0.0 else _NONE)
            # A flat strip bounds x itself; another one may require that x_next be at least 0.
            bound = 1.0 / abs(B[j]) if abs(B[j]) > _FLAT else _NONE
            steep = twice / abs(there) if ratio < 0.0 else _NONE
            least[lane] = min(least[lane], bound if flat else steep)


@fused_part
def _meeting(e: Array, f: Array, x: float, lanes: Array) -> float:
    """Return the max x, at most the given one, at which no strips exclude each other.

    Args:
        e: of the strips, shape (K,).
        f: of the strips, shape (K,).
        x: upper bound.
        lanes: scratch, shape (4, LANES).
    """
    high, rise, low, fall = lanes[0], lanes[1], lanes[2], lanes[3]
    for _ in range(_STEPS):
        _fill(high, _NONE)
        _fill(low, _NONE)
        for first in range(0, len(e), LANES):
            for lane in range(LANES):
                ek, fk = e[first + lane], f[first + lane]
                over, under = fk + ek * x, fk - ek * x
                rise[lane] = ek if over < high[lane] else rise[lane]
                fall[lane] = ek if under < low[lane] else fall[lane]
                high[lane] = min(high[lane], over)
                low[lane] = min(low[lane], under)
        for lane in range(1, LANES):
            if high[lane] < high[0]:
                high[0], rise[0] = high[lane], rise[lane]
            if low[lane] < low[0]:
                low[0], fall[0] = low[lane], fall[lane]
        gap, slope = high[0] + low[0], rise[0] - fall[0]
        if gap >= 0.0 or slope >= 0.0:
            break
        x = max(0.0, x - gap / slope)
    return x


@bare_part
def fastest_speeds(
    table: Array, caps: Array, tight: Array, bounds: Array, x: Array, least: Array
) -> None:
    """Write the time-optimal squared speeds along the path.

    Args:
        table: of :func:`strip_table`, shape (N, 3, K).
        caps: of :func:`strip_table`, shape (N, 3).
        tight: factors of the max x of velocity limits and of acceleration limits, shape (N, 2).
        bounds: max x at the grid, shape (N + 1,); lowered to the controllable ones.
        x: result, shape (N + 1,).
        least: scratch, shape (LANES,).
    """
    count = len(table)
    for i in range(count):
        begin = min(caps[i, 0] * tight[i, 0], caps[i, 2] * tight[i, 1])
        bounds[i] = min(bounds[i], begin)
        bounds[i + 1] = min(bounds[i + 1], caps[i, 1] * tight[i, 0])
    for i in range(count - 1, -1, -1):
        last = _previous(table[i, C], table[i, F], tight[i, 1], bounds[i + 1], least)
        bounds[i] = min(bounds[i], last)
    x[0] = bounds[0]
    for i in range(count):
        following = _following(table[i, E], table[i, F], tight[i, 1], x[i], least)
        x[i + 1] = min(max(0.0, following), bounds[i + 1])


@fused_part
def _previous(c: Array, f: Array, factor: float, x: float, least: Array) -> float:
    """Return the max x from which the next one can be reached, with the strips alone."""
    _fill(least, _NONE)
    for first in range(0, len(c), LANES):
        for lane in range(LANES):
            bound = c[first + lane] * (x + factor * f[first + lane])
            least[lane] = min(least[lane], bound)
    return _least(least)


@fused_part
def _following(e: Array, f: Array, factor: float, x: float, least: Array) -> float:
    """Return the max next x, with the strips alone."""
    _fill(least, _NONE)
    for first in range(0, len(e), LANES):
        for lane in range(LANES):
            least[lane] = min(least[lane], e[first + lane] * x + factor * f[first + lane])
    return _least(least)


@bare_part
def _write_clock(grid: Array, x: Array, times: Array, clock: Array) -> None:
    times[0] = 0.0
    speed = math.sqrt(x[0])
    for i in range(len(clock)):
        span, following = grid[i + 1] - grid[i], math.sqrt(x[i + 1])
        clock[i, 0], clock[i, 1], clock[i, 2] = grid[i], speed, 0.25 * (x[i + 1] - x[i]) / span
        times[i + 1] = times[i] + 2.0 * span / (speed + following)
        speed = following
