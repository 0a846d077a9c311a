# SPDX-License-Identifier: Apache-2.0
"""Barrier terms of velocity, acceleration and jerk limits, for many path intervals at once.

Part of :mod:`motion_nodes.kernels.timing.jerk_limited`, which explains the symbols. Intervals of
the path are processed in blocks of :data:`LANES`; every loop over them becomes vector instructions,
for which each array consists of rows of lanes at offsets known to the compiler.

A limit is a slack that must stay above 0: ``1 - X / cap`` for the velocity, ``1 - a`` and ``1 + a``
for an acceleration, ``y - j`` and ``y + j`` for a jerk, with a linear in X and U, j linear in X, U
and K, and ``y = 1 / sqrt(X)``. Each has a multiplier. Accelerations are continuous, so the end of
an interval is checked by the next one.
"""

from __future__ import annotations

import math

from motion_nodes.kernels.jit import bare_part
from motion_nodes.kernels.kinematic_arrays import Array

LANES = 16
"""Intervals per block."""
PLACES = 3
"""Places at which each interval is evaluated: begin, middle and end."""
BEGIN, END = 0, PLACES - 1
SPLINE_ROWS = 9
"""Weights of three coefficients in X, then in U, then in K."""
JERK_ROWS = 3
"""Factors of X, U and K in a jerk relative to its limit; an acceleration has two, of X and U."""
ROWS = 2 + PLACES
"""Factor groups per joint: accelerations at begin and middle, jerks at all places."""
ROOMS = 2
"""Slacks per limit, one on each side."""

# Rows of a workspace.
_X, _U, _K, _Y = (row * LANES for row in range(4))
_SLOPE, _PULL0, _PULL1, _PULL2 = (row * LANES for row in range(4, 8))
_H00, _H10, _H11, _H20, _H21, _H22 = (row * LANES for row in range(8, 14))
_BENT = 14 * LANES
"""Multipliers of jerks, which contribute negative curvature."""
_S0, _S1, _M0, _M1, _M2 = (row * LANES for row in range(15, 20))
GAP, TIME, LESS_ROOM, LESS_MULTIPLIER = (row * LANES for row in range(20, 24))
"""Sums of slacks times multipliers and of the time; max relative decrease of slacks and multipliers
in a step."""
WORK_ROWS = 24


@bare_part
def state(rows: Array, b: Array, first: int, W: Array) -> None:
    """Write X, U and K of the spline with coefficients b, for the block at interval ``first``."""
    for i in range(LANES):
        b0, b1, b2 = b[first + i], b[first + i + 1], b[first + i + 2]
        W[_X + i] = rows[i] * b0 + rows[LANES + i] * b1 + rows[2 * LANES + i] * b2
        W[_U + i] = rows[3 * LANES + i] * b0 + rows[4 * LANES + i] * b1 + rows[5 * LANES + i] * b2
        W[_K + i] = rows[6 * LANES + i] * b0 + rows[7 * LANES + i] * b1 + rows[8 * LANES + i] * b2


@bare_part
def velocity_terms(shares: Array, caps: Array, m: Array, W: Array) -> None:
    """Begin a place: write the contributions of the duration and the velocity limit."""
    for i in range(LANES):
        X, cap = W[_X + i], caps[i]
        y = 1.0 / math.sqrt(X)
        inverse = 1.0 / (1.0 - X * cap)
        W[_Y + i] = y
        W[_SLOPE + i] = -0.5 * shares[i] * y * y * y
        W[_PULL0 + i] = -cap * inverse
        W[_PULL1 + i] = W[_PULL2 + i] = 0.0
        W[_H00 + i] = m[i] * inverse * cap * cap
        W[_H10 + i] = W[_H11 + i] = W[_H20 + i] = W[_H21 + i] = W[_H22 + i] = 0.0
        W[_BENT + i] = 0.0
        W[GAP + i] += m[i] * (1.0 - X * cap)
        W[TIME + i] += shares[i] * y


@bare_part
def acceleration_terms(e: Array, m: Array, W: Array) -> None:
    """Add the contributions of a joint's acceleration limit."""
    for i in range(LANES):
        e0, e1, m0, m1 = e[i], e[LANES + i], m[i], m[LANES + i]
        a = e0 * W[_X + i] + e1 * W[_U + i]
        inverse = 1.0 / (1.0 - a * a)  # one division for the inverses of both slacks
        p0, p1 = inverse * (1.0 + a), inverse * (1.0 - a)
        h = m0 * p0 + m1 * p1
        W[_PULL0 + i] += (p1 - p0) * e0
        W[_PULL1 + i] += (p1 - p0) * e1
        W[_H00 + i] += h * e0 * e0
        W[_H10 + i] += h * e0 * e1
        W[_H11 + i] += h * e1 * e1
        W[GAP + i] += m0 * (1.0 - a) + m1 * (1.0 + a)


@bare_part
def jerk_terms(f: Array, m: Array, W: Array) -> None:
    """Add the contributions of a joint's jerk limit."""
    for i in range(LANES):
        y = W[_Y + i]
        f0, f1, f2 = f[i], f[LANES + i], f[2 * LANES + i]
        m2, m3 = m[i], m[LANES + i]
        j = f0 * W[_X + i] + f1 * W[_U + i] + f2 * W[_K + i]
        inverse = 1.0 / (y * y - j * j)
        p2, p3 = inverse * (y + j), inverse * (y - j)
        d = 0.5 * y * y * y
        both, one = m2 * p2 + m3 * p3, (m2 * p2 - m3 * p3) * d
        W[_PULL0 + i] += (p3 - p2) * f0 - (p2 + p3) * d
        W[_PULL1 + i] += (p3 - p2) * f1
        W[_PULL2 + i] += (p3 - p2) * f2
        W[_H00 + i] += both * (d * d + f0 * f0) + 2.0 * one * f0
        W[_H10 + i] += one * f1 + both * f0 * f1
        W[_H11 + i] += both * f1 * f1
        W[_H20 + i] += one * f2 + both * f0 * f2
        W[_H21 + i] += both * f1 * f2
        W[_H22 + i] += both * f2 * f2
        W[_BENT + i] += m2 + m3
        W[GAP + i] += m2 * (y - j) + m3 * (y + j)


@bare_part
def end_place(
    rows: Array, shares: Array, first: int, W: Array, slope: Array, pull: Array, band: Array
) -> None:
    """Add the contributions of a place to gradients and Hessian of the coefficients."""
    for i in range(LANES):
        # The duration is convex, the jerk limits are concave; the sum must not be negative.
        W[_H00 + i] += 0.75 * max(shares[i] - W[_BENT + i], 0.0) * W[_Y + i] ** 5
    for c in range(3):
        _row(rows, c, W)
        _add(slope, first + c, W, _S0)
        _add(pull, first + c, W, _S1)
        for d in range(c + 1):
            _entry(rows, d, W)
            _add(band[c - d], first + c, W, _S0)


@bare_part
def _row(rows: Array, c: int, W: Array) -> None:
    """Write gradients, and a row of the Hessian times the spline's weights."""
    x, u, k = c * LANES, (3 + c) * LANES, (6 + c) * LANES
    for i in range(LANES):
        r0, r1, r2 = rows[x + i], rows[u + i], rows[k + i]
        W[_S0 + i] = W[_SLOPE + i] * r0
        W[_S1 + i] = W[_PULL0 + i] * r0 + W[_PULL1 + i] * r1 + W[_PULL2 + i] * r2
        W[_M0 + i] = W[_H00 + i] * r0 + W[_H10 + i] * r1 + W[_H20 + i] * r2
        W[_M1 + i] = W[_H10 + i] * r0 + W[_H11 + i] * r1 + W[_H21 + i] * r2
        W[_M2 + i] = W[_H20 + i] * r0 + W[_H21 + i] * r1 + W[_H22 + i] * r2


@bare_part
def _entry(rows: Array, d: int, W: Array) -> None:
    """Write one entry of that row for all lanes."""
    x, u, k = d * LANES, (3 + d) * LANES, (6 + d) * LANES
    for i in range(LANES):
        W[_S0 + i] = W[_M0 + i] * rows[x + i] + W[_M1 + i] * rows[u + i] + W[_M2 + i] * rows[k + i]


@bare_part
def _add(line: Array, first: int, W: Array, row: int) -> None:
    for i in range(LANES):
        line[first + i] += W[row + i]


@bare_part
def velocity_step(caps: Array, m: Array, dm: Array, target: float, W: Array, D: Array) -> None:
    """Begin a place of a step: write the multiplier's change, record the relative decreases.

    Args:
        caps: inverses of the max X.
        m: multipliers.
        dm: result.
        target: desired product of slack and multiplier.
        W: workspace with X, U and K.
        D: workspace with their changes.
    """
    for i in range(LANES):
        inverse = 1.0 / (1.0 - W[_X + i] * caps[i])
        W[_Y + i] = 1.0 / math.sqrt(W[_X + i])
        less = D[_X + i] * caps[i]
        change = (target + m[i] * less) * inverse - m[i]
        dm[i] = change
        W[LESS_ROOM + i] = max(W[LESS_ROOM + i], less * inverse)
        W[LESS_MULTIPLIER + i] = max(W[LESS_MULTIPLIER + i], -change / m[i])


@bare_part
def acceleration_step(e: Array, m: Array, dm: Array, target: float, W: Array, D: Array) -> None:
    """The same for the slacks of a joint's acceleration."""
    for i in range(LANES):
        m0, m1, e0, e1 = m[i], m[LANES + i], e[i], e[LANES + i]
        a, da = e0 * W[_X + i] + e1 * W[_U + i], e0 * D[_X + i] + e1 * D[_U + i]
        inverse = 1.0 / (1.0 - a * a)
        p0, p1 = inverse * (1.0 + a), inverse * (1.0 - a)
        c0, c1 = (target + m0 * da) * p0 - m0, (target - m1 * da) * p1 - m1
        dm[i], dm[LANES + i] = c0, c1
        W[LESS_ROOM + i] = max(W[LESS_ROOM + i], max(da * p0, -da * p1))
        W[LESS_MULTIPLIER + i] = max(W[LESS_MULTIPLIER + i], max(-c0 / m0, -c1 / m1))


@bare_part
def jerk_step(f: Array, m: Array, dm: Array, target: float, W: Array, D: Array) -> None:
    """The same for the slacks of a joint's jerk, with their tangents."""
    for i in range(LANES):
        y = W[_Y + i]
        f0, f1, f2 = f[i], f[LANES + i], f[2 * LANES + i]
        m2, m3 = m[i], m[LANES + i]
        j = f0 * W[_X + i] + f1 * W[_U + i] + f2 * W[_K + i]
        dj = f0 * D[_X + i] + f1 * D[_U + i] + f2 * D[_K + i]
        dy = -0.5 * y * y * y * D[_X + i]
        inverse = 1.0 / (y * y - j * j)
        p2, p3 = inverse * (y + j), inverse * (y - j)
        c2, c3 = (target - m2 * (dy - dj)) * p2 - m2, (target - m3 * (dy + dj)) * p3 - m3
        dm[i], dm[LANES + i] = c2, c3
        W[LESS_ROOM + i] = max(W[LESS_ROOM + i], max((dj - dy) * p2, -(dj + dy) * p3))
        W[LESS_MULTIPLIER + i] = max(W[LESS_MULTIPLIER + i], max(-c2 / m2, -c3 / m3))


@bare_part
def velocity_start(shares: Array, caps: Array, m: Array, W: Array) -> None:
    """Write multipliers such that products with the slacks are 1."""
    for i in range(LANES):
        m[i] = 1.0 / (1.0 - W[_X + i] * caps[i])
        W[TIME + i] += shares[i] / math.sqrt(W[_X + i])


@bare_part
def acceleration_start(e: Array, m: Array, W: Array) -> None:
    """The same for the slacks of a joint's acceleration."""
    for i in range(LANES):
        a = e[i] * W[_X + i] + e[LANES + i] * W[_U + i]
        m[i], m[LANES + i] = 1.0 / (1.0 - a), 1.0 / (1.0 + a)


@bare_part
def jerk_start(f: Array, m: Array, W: Array) -> None:
    """The same for the slacks of a joint's jerk."""
    for i in range(LANES):
        X = W[_X + i]
        y = 1.0 / math.sqrt(X)
        j = f[i] * X + f[LANES + i] * W[_U + i] + f[2 * LANES + i] * W[_K + i]
        m[i], m[LANES + i] = 1.0 / (y - j), 1.0 / (y + j)


@bare_part
def velocity_use(caps: Array, W: Array) -> float:
    """Return the max ratio of X to its cap."""
    most = 0.0
    for i in range(LANES):
        most = max(most, W[_X + i] * caps[i])
    return most


@bare_part
def acceleration_use(e: Array, W: Array) -> float:
    """Return the max ratio of a joint's acceleration to its limit."""
    most = 0.0
    for i in range(LANES):
        most = max(most, abs(e[i] * W[_X + i] + e[LANES + i] * W[_U + i]))
    return most


@bare_part
def jerk_use(f: Array, W: Array) -> float:
    """Return the factor by which X must be divided to satisfy a joint's jerk limit."""
    cube = 0.0
    for i in range(LANES):
        X = W[_X + i]
        j = f[i] * X + f[LANES + i] * W[_U + i] + f[2 * LANES + i] * W[_K + i]
        cube = max(cube, j * j * X)
    return math.pow(cube, 1.0 / 3.0)
