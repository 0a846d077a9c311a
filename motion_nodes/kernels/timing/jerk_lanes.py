# SPDX-License-Identifier: Apache-2.0
"""Barrier terms of velocity, acceleration and jerk limits, for many path intervals at once.

Part of :mod:`motion_nodes.kernels.timing.jerk_limited`, which explains the symbols. Intervals of
the path are processed in blocks of :data:`LANES`; every loop over them is vectorized, because each
array consists of rows of lanes at offsets known to the compiler.

A limit is a slack that must stay above 0: ``1 - X / cap`` for the velocity, ``1 - a`` and ``1 + a``
for an acceleration, ``y - j`` and ``y + j`` for a jerk, with a linear in X and U, j linear in X, U
and K, and ``y = 1 / sqrt(X)``. Each slack has a multiplier. Accelerations are continuous, so the
acceleration at the end of an interval is limited by the next interval.
"""

from __future__ import annotations

import math

from motion_nodes.kernels.jit import fused_part
from motion_nodes.typing import Array, IndexArray

LANES = 16
"""Intervals per block."""
PLACES = 3
"""Places at which each interval is evaluated: begin, middle and end."""
BEGIN, END = 0, PLACES - 1
SPLINE_ROWS = 9
"""Number of weights: of three coefficients in X, then in U, then in K."""
JERK_ROWS = 3
"""Factors of X, U and K in a jerk relative to its limit; an acceleration has two, of X and U."""
GROUPS = 2 + PLACES
"""Groups of limits: accelerations at begin and middle, jerks at all places."""
ROOMS = 2
"""Slacks per limit, one on each side."""

# Rows of a workspace.
AT_X, AT_U, AT_K, AT_Y = (row * LANES for row in range(4))
_SLOPE, PULL, _PULL1, _PULL2 = (row * LANES for row in range(4, 8))
_H00, _H10, _H11, _H20, _H21, _H22 = (row * LANES for row in range(8, 14))
_BENT = 14 * LANES
"""Multipliers of jerks, which contribute negative curvature."""
_B0, _B1, _B2 = (row * LANES for row in range(15, 18))
GAP, TIME, LESS_ROOM, LESS_MULTIPLIER = (row * LANES for row in range(18, 22))
"""Sums of slacks times multipliers, and of the duration; max relative decrease of slacks and of
multipliers in a step."""
DECREASE, ERROR = (row * LANES for row in range(22, 24))
"""Sums of multipliers times decreases of the slacks, and of the products of both changes."""
SLOPES, PULLS, BANDS = 24 * LANES, 27 * LANES, 30 * LANES
"""Gradients and Hessian with respect to the three coefficients of each lane: 3, 3 and 6 rows."""
USE, CUBE = 36 * LANES, 37 * LANES
"""Max ratio of velocities and accelerations to their limits, and of jerks, cubed."""
WORK_ROWS = 38


@fused_part
def gather(b: Array, at: IndexArray, W: Array) -> None:
    """Write the three coefficients of each lane."""
    for i in range(LANES):
        k = at[i]
        W[_B0 + i], W[_B1 + i], W[_B2 + i] = b[k], b[k + 1], b[k + 2]


@fused_part
def state(rows: Array, W: Array) -> None:
    """Write X, U and K at a place of the lanes' intervals."""
    for i in range(LANES):
        b0, b1, b2 = W[_B0 + i], W[_B1 + i], W[_B2 + i]
        W[AT_X + i] = rows[i] * b0 + rows[LANES + i] * b1 + rows[2 * LANES + i] * b2
        W[AT_U + i] = rows[3 * LANES + i] * b0 + rows[4 * LANES + i] * b1 + rows[5 * LANES + i] * b2
        W[AT_K + i] = rows[6 * LANES + i] * b0 + rows[7 * LANES + i] * b1 + rows[8 * LANES + i] * b2


@fused_part
def acceleration_at(e0: float, e1: float, i: int, W: Array) -> float:
    """Return an acceleration relative to its limit, or its change if W holds changes."""
    return e0 * W[AT_X + i] + e1 * W[AT_U + i]  # type: ignore[no-any-return]


@fused_part
def jerk_at(f0: float, f1: float, f2: float, i: int, W: Array) -> float:
    """Return a jerk relative to its limit, divided by sqrt(X); its change if W holds changes."""
    return f0 * W[AT_X + i] + f1 * W[AT_U + i] + f2 * W[AT_K + i]  # type: ignore[no-any-return]


@fused_part
def velocity_terms(shares: Array, caps: Array, m: Array, W: Array) -> None:
    """Begin a place: write the contributions of the duration and the velocity limit."""
    for i in range(LANES):
        X, cap = W[AT_X + i], caps[i]
        y = 1.0 / math.sqrt(X)
        inverse = 1.0 / (1.0 - X * cap)
        W[AT_Y + i] = y
        W[_SLOPE + i] = -0.5 * shares[i] * y * y * y
        W[PULL + i] = -cap * inverse
        W[_PULL1 + i] = W[_PULL2 + i] = 0.0
        W[_H00 + i] = m[i] * inverse * cap * cap
        W[_H10 + i] = W[_H11 + i] = W[_H20 + i] = W[_H21 + i] = W[_H22 + i] = 0.0
        W[_BENT + i] = 0.0
        W[GAP + i] += m[i] * (1.0 - X * cap)
        W[TIME + i] += shares[i] * y


@fused_part
def acceleration_terms(E: Array, m: Array, first: int, last: int, W: Array) -> None:
    """Add the contributions of acceleration limits, in a range of slots."""
    for k in range(first, last):
        for i in range(LANES):
            e0, e1, m0, m1 = E[k, i], E[k, LANES + i], m[k, i], m[k, LANES + i]
            a = acceleration_at(e0, e1, i, W)
            inverse = 1.0 / (1.0 - a * a)  # one division for the inverses of both slacks
            p0, p1 = inverse * (1.0 + a), inverse * (1.0 - a)
            h = m0 * p0 + m1 * p1
            W[PULL + i] += (p1 - p0) * e0
            W[_PULL1 + i] += (p1 - p0) * e1
            W[_H00 + i] += h * e0 * e0
            W[_H10 + i] += h * e0 * e1
            W[_H11 + i] += h * e1 * e1
            W[GAP + i] += m0 * (1.0 - a) + m1 * (1.0 + a)


@fused_part
def jerk_terms(E: Array, m: Array, first: int, last: int, W: Array) -> None:
    """Add the contributions of jerk limits."""
    for k in range(first, last):
        for i in range(LANES):
            y = W[AT_Y + i]
            f0, f1, f2 = E[k, i], E[k, LANES + i], E[k, 2 * LANES + i]
            m2, m3 = m[k, i], m[k, LANES + i]
            j = jerk_at(f0, f1, f2, i, W)
            inverse = 1.0 / (y * y - j * j)
            p2, p3 = inverse * (y + j), inverse * (y - j)
            d = 0.5 * y * y * y
            both, one = m2 * p2 + m3 * p3, (m2 * p2 - m3 * p3) * d
            W[PULL + i] += (p3 - p2) * f0 - (p2 + p3) * d
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


@fused_part
def end_place(rows: Array, shares: Array, W: Array) -> None:
    """Add the contributions of a place to gradients and Hessian of the coefficients."""
    for i in range(LANES):
        # The duration is convex, the jerk limits are concave; their curvature is clamped at 0.
        y = W[AT_Y + i]
        W[_H00 + i] += 0.75 * max(shares[i] - W[_BENT + i], 0.0) * y * y * y * y * y
    for c in range(3):
        for i in range(LANES):
            r0, r1, r2 = (
                rows[c * LANES + i],
                rows[(3 + c) * LANES + i],
                rows[(6 + c) * LANES + i],
            )
            W[SLOPES + c * LANES + i] += W[_SLOPE + i] * r0
            W[PULLS + c * LANES + i] += W[PULL + i] * r0 + W[_PULL1 + i] * r1 + W[_PULL2 + i] * r2
    for i in range(LANES):
        h00, h10, h11 = W[_H00 + i], W[_H10 + i], W[_H11 + i]
        h20, h21, h22 = W[_H20 + i], W[_H21 + i], W[_H22 + i]
        x0, x1, x2 = rows[i], rows[LANES + i], rows[2 * LANES + i]
        u0, u1, u2 = rows[3 * LANES + i], rows[4 * LANES + i], rows[5 * LANES + i]
        k0, k1, k2 = rows[6 * LANES + i], rows[7 * LANES + i], rows[8 * LANES + i]
        p0, p1, p2 = (
            h00 * x0 + h10 * u0 + h20 * k0,
            h10 * x0 + h11 * u0 + h21 * k0,
            h20 * x0 + h21 * u0 + h22 * k0,
        )
        q0, q1, q2 = (
            h00 * x1 + h10 * u1 + h20 * k1,
            h10 * x1 + h11 * u1 + h21 * k1,
            h20 * x1 + h21 * u1 + h22 * k1,
        )
        r0, r1, r2 = (
            h00 * x2 + h10 * u2 + h20 * k2,
            h10 * x2 + h11 * u2 + h21 * k2,
            h20 * x2 + h21 * u2 + h22 * k2,
        )
        W[BANDS + i] += p0 * x0 + p1 * u0 + p2 * k0
        W[BANDS + LANES + i] += q0 * x1 + q1 * u1 + q2 * k1
        W[BANDS + 2 * LANES + i] += r0 * x2 + r1 * u2 + r2 * k2
        W[BANDS + 3 * LANES + i] += p0 * x1 + p1 * u1 + p2 * k1
        W[BANDS + 4 * LANES + i] += q0 * x2 + q1 * u2 + q2 * k2
        W[BANDS + 5 * LANES + i] += p0 * x2 + p1 * u2 + p2 * k2


@fused_part
def scatter(at: IndexArray, W: Array, slope: Array, pull: Array, band: Array) -> None:
    """Add the lanes' gradients and Hessian to those of all coefficients."""
    for i in range(LANES):
        k = at[i]
        for c in range(3):
            slope[k + c] += W[SLOPES + c * LANES + i]
            pull[k + c] += W[PULLS + c * LANES + i]
            band[0, k + c] += W[BANDS + c * LANES + i]
        band[1, k + 1] += W[BANDS + 3 * LANES + i]
        band[1, k + 2] += W[BANDS + 4 * LANES + i]
        band[2, k + 2] += W[BANDS + 5 * LANES + i]


@fused_part
def velocity_start(shares: Array, caps: Array, m: Array, W: Array) -> None:
    """Write multipliers whose products with the slacks are 1."""
    for i in range(LANES):
        m[i] = 1.0 / (1.0 - W[AT_X + i] * caps[i])
        W[TIME + i] += shares[i] / math.sqrt(W[AT_X + i])


@fused_part
def acceleration_start(E: Array, m: Array, first: int, last: int, W: Array) -> None:
    """The same for the slacks of acceleration limits."""
    for k in range(first, last):
        for i in range(LANES):
            a = acceleration_at(E[k, i], E[k, LANES + i], i, W)
            m[k, i], m[k, LANES + i] = 1.0 / (1.0 - a), 1.0 / (1.0 + a)


@fused_part
def jerk_start(E: Array, m: Array, first: int, last: int, W: Array) -> None:
    """The same for the slacks of jerk limits."""
    for k in range(first, last):
        for i in range(LANES):
            y = 1.0 / math.sqrt(W[AT_X + i])
            j = jerk_at(E[k, i], E[k, LANES + i], E[k, 2 * LANES + i], i, W)
            m[k, i], m[k, LANES + i] = 1.0 / (y - j), 1.0 / (y + j)


@fused_part
def velocity_use(caps: Array, W: Array) -> None:
    """Raise the lanes' max ratios of X to its cap."""
    for i in range(LANES):
        W[USE + i] = max(W[USE + i], W[AT_X + i] * caps[i])


@fused_part
def acceleration_use(E: Array, first: int, last: int, W: Array) -> None:
    """Raise the lanes' max ratios of an acceleration to its limit."""
    for k in range(first, last):
        for i in range(LANES):
            W[USE + i] = max(W[USE + i], abs(acceleration_at(E[k, i], E[k, LANES + i], i, W)))


@fused_part
def jerk_use(E: Array, first: int, last: int, W: Array) -> None:
    """Raise the cubes of the lanes' divisors of X with which all jerk limits are satisfied."""
    for k in range(first, last):
        for i in range(LANES):
            j = jerk_at(E[k, i], E[k, LANES + i], E[k, 2 * LANES + i], i, W)
            W[CUBE + i] = max(W[CUBE + i], j * j * W[AT_X + i])
