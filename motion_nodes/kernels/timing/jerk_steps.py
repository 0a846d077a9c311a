# SPDX-License-Identifier: Apache-2.0
"""Steps of the interior-point method of :mod:`motion_nodes.kernels.timing.jerk_limited`.

Predictor and corrector (S. Mehrotra, "On the implementation of a primal-dual interior point
method", SIAM Journal on Optimization 2(4), 1992): the predictor, towards zero products of slacks
and multipliers, shows how much these can be reduced, and how much they differ from their
linearization; the corrector aims at equal products, with this error removed.
"""

from __future__ import annotations

import math

from motion_nodes.kernels.jit import fused_part
from motion_nodes.kernels.timing.jerk_lanes import (
    AT_X,
    AT_Y,
    DECREASE,
    ERROR,
    LANES,
    LESS_MULTIPLIER,
    LESS_ROOM,
    PULL,
    SLOPES,
    acceleration_at,
    jerk_at,
)
from motion_nodes.typing import Array, IndexArray


@fused_part
def velocity_predict(caps: Array, m: Array, q: Array, W: Array, D: Array) -> None:
    """Begin a place of the predictor: write the error of the product, and its effect.

    Args:
        caps: inverses of the max X.
        m: multipliers.
        q: result, changes of the slacks times changes of the multipliers.
        W: workspace with X, U and K.
        D: workspace with their changes.
    """
    for i in range(LANES):
        cap, old = caps[i], m[i]
        W[AT_Y + i] = 1.0 / math.sqrt(W[AT_X + i])
        inverse = 1.0 / (1.0 - W[AT_X + i] * cap)
        less = D[AT_X + i] * cap
        rate = less * inverse
        error = old * less * (1.0 - rate)
        q[i] = error
        W[PULL + i] = -cap * inverse * error
        W[PULL + LANES + i] = W[PULL + 2 * LANES + i] = 0.0
        W[DECREASE + i] += old * less
        W[ERROR + i] += error
        W[LESS_ROOM + i] = max(W[LESS_ROOM + i], rate)
        W[LESS_MULTIPLIER + i] = max(W[LESS_MULTIPLIER + i], 1.0 - rate)


@fused_part
def acceleration_predict(
    E: Array, m: Array, q: Array, first: int, last: int, W: Array, D: Array
) -> None:
    """The same for the slacks of acceleration limits."""
    for k in range(first, last):
        for i in range(LANES):
            m0, m1, e0, e1 = m[k, i], m[k, LANES + i], E[k, i], E[k, LANES + i]
            a, da = acceleration_at(e0, e1, i, W), acceleration_at(e0, e1, i, D)
            inverse = 1.0 / (1.0 - a * a)
            p0, p1 = inverse * (1.0 + a), inverse * (1.0 - a)
            r0, r1 = da * p0, -da * p1
            q0, q1 = m0 * da * (1.0 - r0), -m1 * da * (1.0 - r1)
            q[k, i], q[k, LANES + i] = q0, q1
            pull = p1 * q1 - p0 * q0
            W[PULL + i] += pull * e0
            W[PULL + LANES + i] += pull * e1
            W[DECREASE + i] += (m0 - m1) * da
            W[ERROR + i] += q0 + q1
            W[LESS_ROOM + i] = max(W[LESS_ROOM + i], max(r0, r1))
            W[LESS_MULTIPLIER + i] = max(W[LESS_MULTIPLIER + i], 1.0 - min(r0, r1))


@fused_part
def jerk_predict(E: Array, m: Array, q: Array, first: int, last: int, W: Array, D: Array) -> None:
    """The same for the slacks of jerk limits, with their tangents."""
    for k in range(first, last):
        for i in range(LANES):
            y = W[AT_Y + i]
            f0, f1, f2 = E[k, i], E[k, LANES + i], E[k, 2 * LANES + i]
            m2, m3 = m[k, i], m[k, LANES + i]
            j, dj = jerk_at(f0, f1, f2, i, W), jerk_at(f0, f1, f2, i, D)
            d = 0.5 * y * y * y
            dy = -d * D[AT_X + i]
            inverse = 1.0 / (y * y - j * j)
            p2, p3 = inverse * (y + j), inverse * (y - j)
            l2, l3 = dj - dy, -dj - dy
            r2, r3 = l2 * p2, l3 * p3
            q2, q3 = m2 * l2 * (1.0 - r2), m3 * l3 * (1.0 - r3)
            q[k, i], q[k, LANES + i] = q2, q3
            e2, e3 = p2 * q2, p3 * q3
            W[PULL + i] += (e3 - e2) * f0 - (e2 + e3) * d
            W[PULL + LANES + i] += (e3 - e2) * f1
            W[PULL + 2 * LANES + i] += (e3 - e2) * f2
            W[DECREASE + i] += m2 * l2 + m3 * l3
            W[ERROR + i] += q2 + q3
            W[LESS_ROOM + i] = max(W[LESS_ROOM + i], max(r2, r3))
            W[LESS_MULTIPLIER + i] = max(W[LESS_MULTIPLIER + i], 1.0 - min(r2, r3))


@fused_part
def end_predict(rows: Array, W: Array) -> None:
    """Add the effect of a place's errors on the lanes' coefficients."""
    for c in range(3):
        x, u, k = c * LANES, (3 + c) * LANES, (6 + c) * LANES
        for i in range(LANES):
            W[SLOPES + x + i] += (
                W[PULL + i] * rows[x + i]
                + W[PULL + LANES + i] * rows[u + i]
                + W[PULL + 2 * LANES + i] * rows[k + i]
            )


@fused_part
def scatter_errors(at: IndexArray, W: Array, line: Array) -> None:
    """Add the lanes' effects to those of all coefficients."""
    for i in range(LANES):
        for c in range(3):
            line[at[i] + c] += W[SLOPES + c * LANES + i]


@fused_part
def velocity_step(
    caps: Array, m: Array, dm: Array, target: float, share: float, W: Array, D: Array
) -> None:
    """Begin a place of the corrector: write the multiplier's change and the relative decreases.

    Args:
        caps: inverses of the max X.
        m: multipliers.
        dm: errors of the predictor on input, changes of the multipliers as result.
        target: desired product of slack and multiplier.
        share: fraction of the errors that is removed.
        W: workspace with X, U and K.
        D: workspace with their changes.
    """
    for i in range(LANES):
        W[AT_Y + i] = 1.0 / math.sqrt(W[AT_X + i])
        room, less = 1.0 - W[AT_X + i] * caps[i], D[AT_X + i] * caps[i]
        both = 1.0 / (room * m[i])  # one division for both inverses
        inverse = both * m[i]
        change = (target - share * dm[i] + m[i] * less) * inverse - m[i]
        dm[i] = change
        W[LESS_ROOM + i] = max(W[LESS_ROOM + i], less * inverse)
        W[LESS_MULTIPLIER + i] = max(W[LESS_MULTIPLIER + i], -change * room * both)


@fused_part
def acceleration_step(
    E: Array,
    m: Array,
    dm: Array,
    first: int,
    last: int,
    target: float,
    share: float,
    W: Array,
    D: Array,
) -> None:
    """The same for the slacks of acceleration limits."""
    for k in range(first, last):
        for i in range(LANES):
            m0, m1, e0, e1 = m[k, i], m[k, LANES + i], E[k, i], E[k, LANES + i]
            t0, t1 = target - share * dm[k, i], target - share * dm[k, LANES + i]
            a, da = acceleration_at(e0, e1, i, W), acceleration_at(e0, e1, i, D)
            room, product = 1.0 - a * a, m0 * m1
            every = 1.0 / (room * product)
            inverse, part = every * product, every * room
            p0, p1 = inverse * (1.0 + a), inverse * (1.0 - a)
            c0, c1 = (t0 + m0 * da) * p0 - m0, (t1 - m1 * da) * p1 - m1
            dm[k, i], dm[k, LANES + i] = c0, c1
            W[LESS_ROOM + i] = max(W[LESS_ROOM + i], max(da * p0, -da * p1))
            W[LESS_MULTIPLIER + i] = max(W[LESS_MULTIPLIER + i], max(-c0 * m1, -c1 * m0) * part)


@fused_part
def jerk_step(
    E: Array,
    m: Array,
    dm: Array,
    first: int,
    last: int,
    target: float,
    share: float,
    W: Array,
    D: Array,
) -> None:
    """The same for the slacks of jerk limits, with their tangents."""
    for k in range(first, last):
        for i in range(LANES):
            y, m2, m3 = W[AT_Y + i], m[k, i], m[k, LANES + i]
            f0, f1, f2 = E[k, i], E[k, LANES + i], E[k, 2 * LANES + i]
            t2, t3 = target - share * dm[k, i], target - share * dm[k, LANES + i]
            j, dj = jerk_at(f0, f1, f2, i, W), jerk_at(f0, f1, f2, i, D)
            dy = -0.5 * y * y * y * D[AT_X + i]
            room, product = y * y - j * j, m2 * m3
            every = 1.0 / (room * product)
            inverse, part = every * product, every * room
            p2, p3 = inverse * (y + j), inverse * (y - j)
            c2, c3 = (t2 - m2 * (dy - dj)) * p2 - m2, (t3 - m3 * (dy + dj)) * p3 - m3
            dm[k, i], dm[k, LANES + i] = c2, c3
            W[LESS_ROOM + i] = max(W[LESS_ROOM + i], max((dj - dy) * p2, -(dj + dy) * p3))
            W[LESS_MULTIPLIER + i] = max(W[LESS_MULTIPLIER + i], max(-c2 * m3, -c3 * m2) * part)
