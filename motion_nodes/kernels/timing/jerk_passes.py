# SPDX-License-Identifier: Apache-2.0
"""Steps of :mod:`motion_nodes.kernels.timing.jerk_limited`, as loops over all intervals of a path.

Each has a predictor and a corrector (S. Mehrotra, "On the implementation of a primal-dual interior
point method", SIAM Journal on Optimization 2(4), 1992): the predictor, towards zero products of
slacks and multipliers, shows how much these can be reduced, and how much they differ from their
linearization; the corrector aims at equal products, with this error removed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from motion_nodes.kernels.jit import fused_part
from motion_nodes.kernels.timing.jerk_barriers import (
    AT_X,
    AT_Y,
    CUBE,
    DECREASE,
    END,
    ERROR,
    GAP,
    LANES,
    LESS_MULTIPLIER,
    LESS_ROOM,
    PLACES,
    PULL,
    SLOPES,
    TIME,
    USE,
    PathLimits,
    acceleration_at,
    acceleration_start,
    acceleration_terms,
    acceleration_use,
    end_place,
    gather,
    jerk_at,
    jerk_start,
    jerk_terms,
    jerk_use,
    scatter,
    state,
    velocity_start,
    velocity_terms,
    velocity_use,
)
from motion_nodes.typing import Array, IndexArray

_MARGIN = 0.95
"""Max fraction of the distance to the closest limit per step."""


class Iterate(NamedTuple):
    """Coefficients of X and multipliers, or their changes in a step."""

    b: Array
    """Coefficients."""
    m: Array
    """Multipliers of the slots."""
    mv: Array
    """Multipliers of the velocity limits."""
    mb: Array
    """Multipliers of the coefficients."""


class StepWork(NamedTuple):
    """Workspaces."""

    W: Array
    """X, U and K of a block, and sums."""
    D: Array
    """Changes of X, U and K."""


class NewtonSystem(NamedTuple):
    """Linear system of a step; each array has one column per coefficient."""

    slope: Array
    """Gradient of the duration."""
    pull: Array
    """Gradient of the limits."""
    band: Array
    """Hessian: diagonal and two subdiagonals."""


@fused_part
def velocity_predict(caps: Array, m: Array, q: Array, work: StepWork) -> None:
    """Begin a place of the predictor: write the error of the product, and its effect.

    Args:
        caps: inverses of the max X.
        m: multipliers.
        q: result, changes of the slacks times changes of the multipliers.
        work: workspaces.
    """
    W, D = work
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
    E: Array, m: Array, q: Array, first: int, last: int, work: StepWork
) -> None:
    """The same for the slacks of acceleration limits."""
    W, D = work
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
def jerk_predict(E: Array, m: Array, q: Array, first: int, last: int, work: StepWork) -> None:
    """The same for the slacks of jerk limits, with their tangents."""
    W, D = work
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
    caps: Array, m: Array, dm: Array, target: float, share: float, work: StepWork
) -> None:
    """Begin a place of the corrector: write the multiplier's change and the relative decreases.

    Args:
        caps: inverses of the max X.
        m: multipliers.
        dm: errors of the predictor on input, changes of the multipliers as result.
        target: desired product of slack and multiplier.
        share: fraction of the errors that is removed.
        work: workspaces.
    """
    W, D = work
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
    E: Array, m: Array, dm: Array, target: float, share: float, work: StepWork
) -> None:
    """The same for the slacks of acceleration limits; E, m and dm are those of the slots."""
    W, D = work
    for k in range(len(E)):
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
def jerk_step(E: Array, m: Array, dm: Array, target: float, share: float, work: StepWork) -> None:
    """The same for the slacks of jerk limits, with their tangents."""
    W, D = work
    for k in range(len(E)):
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


@fused_part
def _fill(W: Array, row: int, value: float, rows: int = 1) -> None:
    for i in range(rows * LANES):
        W[row + i] = value


@fused_part
def _sum(W: Array, row: int) -> float:
    total = 0.0
    for i in range(LANES):
        total += W[row + i]
    return total


@fused_part
def _max(W: Array, row: int) -> float:
    most = 0.0
    for i in range(LANES):
        most = max(most, W[row + i])
    return most


@fused_part
def limits_use(limits: PathLimits, b: Array, W: Array) -> float:
    """Return the divisor of the coefficients with which all limits are satisfied."""
    order, rows, slots, E, caps, _ = limits
    _fill(W, USE, 0.0, 2)
    for block in range(len(rows)):
        at, slot = order[block * LANES : (block + 1) * LANES], slots[block]
        gather(b, at, W)
        for place in range(PLACES):
            state(rows[block, place], W)
            velocity_use(caps[block, place], W)
            if place != END:
                acceleration_use(E, slot[place], slot[place + 1], W)
            k = END + place
            jerk_use(E, slot[k], slot[k + 1], W)
    return max(_max(W, USE), math.pow(_max(W, CUBE), 1.0 / 3.0))


@fused_part
def start(limits: PathLimits, now: Iterate, gap: float, W: Array) -> None:
    """Write multipliers such that all products with their slacks are equal.

    Each product is ``gap``, as a fraction of the duration.
    """
    order, rows, slots, E, caps, shares = limits
    b, m, mv, mb = now
    _fill(W, TIME, 0.0)
    for block in range(len(rows)):
        at, slot = order[block * LANES : (block + 1) * LANES], slots[block]
        gather(b, at, W)
        for place in range(PLACES):
            state(rows[block, place], W)
            velocity_start(shares[block, place], caps[block, place], mv[block, place], W)
            if place != END:
                acceleration_start(E, m, slot[place], slot[place + 1], W)
            k = END + place
            jerk_start(E, m, slot[k], slot[k + 1], W)
    weight = gap * _sum(W, TIME)
    m *= weight
    mv *= weight
    for i in range(len(mb)):
        mb[i] = weight / b[i]


@fused_part
def system(limits: PathLimits, now: Iterate, W: Array, newton: NewtonSystem) -> tuple[float, float]:
    """Write gradients of duration and limits, and the Hessian.

    Returns:
        The duality gap (upper bound of the excess duration), and the duration.
    """
    order, rows, slots, E, caps, shares = limits
    b, m, mv, mb = now
    slope, pull, band = newton
    for i in range(len(slope)):
        slope[i] = pull[i] = band[0, i] = band[1, i] = band[2, i] = 0.0
    _fill(W, GAP, 0.0)
    _fill(W, TIME, 0.0)
    for block in range(len(rows)):
        at, slot = order[block * LANES : (block + 1) * LANES], slots[block]
        gather(b, at, W)
        _fill(W, SLOPES, 0.0, 12)
        for place in range(PLACES):
            row, share = rows[block, place], shares[block, place]
            state(row, W)
            velocity_terms(share, caps[block, place], mv[block, place], W)
            if place != END:
                acceleration_terms(E, m, slot[place], slot[place + 1], W)
            k = END + place
            jerk_terms(E, m, slot[k], slot[k + 1], W)
            end_place(row, share, W)
        scatter(at, W, slope, pull, band)
    gap = _sum(W, GAP)
    # Coefficients above 0 keep X positive everywhere, not only at the places.
    for i in range(len(mb)):
        pull[i] += 1.0 / b[i]
        band[0, i] += mb[i] / b[i]
        gap += mb[i] * b[i]
    return gap, _sum(W, TIME)


@fused_part
def predict(
    limits: PathLimits, now: Iterate, change: Iterate, gap: float, work: StepWork, errors: Array
) -> tuple[float, float]:
    """Write the errors of the products after a predicted step, and their effect on the gradient.

    Returns:
        The fraction of the gap that would remain after the step, and the feasible step length.
    """
    order, rows, slots, E, caps, _ = limits
    b, m, mv, mb = now
    move, dm, dmv, dmb = change
    W, D = work
    for i in range(len(errors)):
        errors[i] = 0.0
    for row in (LESS_ROOM, LESS_MULTIPLIER, DECREASE, ERROR):
        _fill(W, row, 0.0)
    for block in range(len(rows)):
        at, slot = order[block * LANES : (block + 1) * LANES], slots[block]
        gather(b, at, W)
        gather(move, at, D)
        _fill(W, SLOPES, 0.0, 3)
        for place in range(PLACES):
            row = rows[block, place]
            state(row, W)
            state(row, D)
            velocity_predict(caps[block, place], mv[block, place], dmv[block, place], work)
            if place != END:
                acceleration_predict(E, m, dm, slot[place], slot[place + 1], work)
            k = END + place
            jerk_predict(E, m, dm, slot[k], slot[k + 1], work)
            end_predict(row, W)
        scatter_errors(at, W, errors)
    decrease, error = _sum(W, DECREASE), _sum(W, ERROR)
    less, fewer = _max(W, LESS_ROOM), _max(W, LESS_MULTIPLIER)
    for i in range(len(mb)):
        share = -move[i] / b[i]
        less, fewer = max(less, share), max(fewer, 1.0 - share)
        dmb[i] = mb[i] * b[i] * share * (1.0 - share)
        errors[i] += dmb[i] / b[i]
        decrease += mb[i] * b[i] * share
        error += dmb[i]
    far, long = 1.0 / max(1.0, less), 1.0 / max(1.0, fewer)
    left = gap * (1.0 - long) + (long - far) * decrease + far * long * error
    return max(left, 0.0) / gap, min(far, long)


@fused_part
def step_lengths(
    limits: PathLimits, now: Iterate, change: Iterate, target: float, share: float, work: StepWork
) -> tuple[float, float]:
    """Write the changes of the multipliers; return max lengths of the primal and dual step."""
    order, rows, slots, E, caps, _ = limits
    b, m, mv, mb = now
    move, dm, dmv, dmb = change
    W, D = work
    _fill(W, LESS_ROOM, 1e-9)
    _fill(W, LESS_MULTIPLIER, 1e-9)
    for block in range(len(rows)):
        at, slot = order[block * LANES : (block + 1) * LANES], slots[block]
        gather(b, at, W)
        gather(move, at, D)
        for place in range(PLACES):
            state(rows[block, place], W)
            state(rows[block, place], D)
            here, there = mv[block, place], dmv[block, place]
            velocity_step(caps[block, place], here, there, target, share, work)
            if place != END:
                first, last = slot[place], slot[place + 1]
                acceleration_step(E[first:last], m[first:last], dm[first:last], target, share, work)
            first, last = slot[END + place], slot[END + place + 1]
            jerk_step(E[first:last], m[first:last], dm[first:last], target, share, work)
    less, fewer = _max(W, LESS_ROOM), _max(W, LESS_MULTIPLIER)
    for i in range(len(mb)):
        dmb[i] = (target - share * dmb[i] - mb[i] * move[i]) / b[i] - mb[i]
        less, fewer = max(less, -move[i] / b[i]), max(fewer, -dmb[i] / mb[i])
    return min(1.0, _MARGIN / less), min(1.0, _MARGIN / fewer)


@fused_part
def advance(m: Array, dm: Array, share: float) -> None:
    """Add a share of their changes to the multipliers."""
    for k in range(len(m)):
        for i in range(m.shape[1]):
            m[k, i] += share * dm[k, i]


@fused_part
def factorize(band: Array, count: int) -> None:
    """Factorize a symmetric band matrix in place: L D L^T (Cholesky), with inverses of D.

    Args:
        band: diagonal and the two subdiagonals, shape (3, count or more).
        count: number of unknowns.

    Source: Golub and Van Loan, Matrix Computations, section 4.3.
    """
    d0, d1, d2 = band[0], band[1], band[2]
    d0[0] = before = 1.0 / d0[0]
    factor = d1[1] * before
    d0[1] = here = 1.0 / (d0[1] - factor * d1[1])
    d1[1] = last = factor
    for i in range(2, count):
        outer = d2[i] * before
        inner = d1[i] - d2[i] * last
        last = inner * here
        before, here = here, 1.0 / (d0[i] - outer * d2[i] - last * inner)
        d0[i], d1[i], d2[i] = here, last, outer


@fused_part
def solve(band: Array, x: Array, count: int) -> None:
    """Solve a band system in place; x is the right-hand side, then the solution.

    Args:
        band: from :func:`factorize`.
        x: shape (count or more,).
        count: number of unknowns.
    """
    d0, d1, d2 = band[0], band[1], band[2]
    before, here = x[0], x[1] - d1[1] * x[0]
    x[1] = here
    for i in range(2, count):
        before, here = here, (x[i] - d2[i] * before) - d1[i] * here
        x[i] = here
    for i in range(count):
        x[i] *= d0[i]
    after = x[count - 1]
    here = x[count - 2] - d1[count - 1] * after
    x[count - 2] = here
    for i in range(count - 3, -1, -1):
        after, here = here, (x[i] - d2[i + 2] * after) - d1[i + 1] * here
        x[i] = here
