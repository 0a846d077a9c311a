# SPDX-License-Identifier: Apache-2.0
"""Passes of the interior-point method: differences of its barrier, linear systems by NumPy."""

import numpy as np
import pytest
from kernels.plain_kernels import plain
from kernels.test_timing_kernels import LANES, PLACES, TABLES, random_spline

from motion_nodes.kernels.timing import jerk_barriers, jerk_passes

PASSES, STEPS = plain(jerk_passes), plain(jerk_passes)
N = 2 * LANES
"""Intervals of the problems of the interior-point method."""


def workspaces():
    return PASSES.StepWork(*(np.zeros(jerk_barriers.WORK_ROWS * LANES) for _ in range(2)))


class Problem:
    """Random limits of N intervals, one of each kind at each place."""

    def __init__(self, jerks=True):
        rng = np.random.default_rng(4)
        self.spans, b = random_spline(5, N)
        self.order = rng.permutation(N).astype(np.int32)
        self.rows = np.zeros((2, PLACES, jerk_barriers.SPLINE_ROWS * LANES))
        TABLES.fill_rows(self.spans, self.order, self.rows)
        groups = np.ones(jerk_barriers.GROUPS, np.int32)
        groups[2:] = jerks
        self.slots = np.zeros((2, len(groups) + 1), np.int32)
        self.slots[:, 1:] = np.cumsum(np.tile(groups, 2)).reshape(2, -1)
        self.slots[1, 0] = self.slots[0, -1]
        self.E = rng.uniform(-1e-3, 1e-3, (self.slots[-1, -1], 3 * LANES))
        self.E[:, :LANES] *= 100.0
        self.caps = rng.uniform(0.1, 0.4, (2, PLACES, LANES))
        self.shares = rng.uniform(0.5, 1.0, self.caps.shape) / N
        self.b = np.concatenate([0.5 + 0.5 * b, np.ones(3)])
        self.length = N + 2
        count = len(self.E)
        self.m, self.dm = (np.zeros((count, 2 * LANES)) for _ in range(2))
        self.mv, self.dmv = np.zeros_like(self.caps), np.zeros_like(self.caps)
        self.mb, self.dmb = np.zeros(self.length), np.zeros(self.length)
        self.work = workspaces()
        self.slope, self.pull, self.errors = (np.zeros(len(self.b)) for _ in range(3))
        self.band = np.zeros((3, len(self.b)))

    def terms(self, b):
        """Return duration, and the slacks of velocities, of slots and of coefficients."""
        time, slots = 0.0, np.zeros_like(self.m)
        velocities = np.zeros_like(self.caps)
        use = 0.0
        for block in range(2):
            at = self.order[block * LANES : (block + 1) * LANES]
            lanes = np.stack([b[at + c] for c in range(3)])
            for place in range(PLACES):
                weights = self.rows[block, place].reshape(3, 3, LANES)
                X, U, K = (weights * lanes).sum(axis=1)
                time += (self.shares[block, place] / np.sqrt(X)).sum()
                velocities[block, place] = 1.0 - X * self.caps[block, place]
                use = max(use, (X * self.caps[block, place]).max())
                ends = self.slots[block]
                for k in range(*ends[place : place + 2]) if place < 2 else ():
                    a = self.E[k, :LANES] * X + self.E[k, LANES : 2 * LANES] * U
                    slots[k] = np.concatenate([1.0 - a, 1.0 + a])
                    use = max(use, np.abs(a).max())
                for k in range(*ends[2 + place : 4 + place]):
                    f = self.E[k].reshape(3, LANES)
                    j, y = f[0] * X + f[1] * U + f[2] * K, X**-0.5
                    slots[k] = np.concatenate([y - j, y + j])
                    use = max(use, (np.abs(j) / y).max() ** (2.0 / 3.0))
        return time, velocities, slots, b[: self.length], use

    def barrier(self, b):
        _, velocities, slots, coefficients, _ = self.terms(b)
        return sum(np.log(x).sum() for x in (velocities, slots, coefficients))

    def balance(self):
        """Set all multipliers to 1 / slack."""
        _, velocities, slots, coefficients, _ = self.terms(self.b)
        self.mv[:], self.m[:], self.mb[:] = 1.0 / velocities, 1.0 / slots, 1.0 / coefficients

    def system(self):
        newton = PASSES.NewtonSystem(self.slope, self.pull, self.band)
        return PASSES.system(self.limits, self.iterate, self.work.W, newton)

    @property
    def limits(self):
        return PASSES.PathLimits(self.order, self.rows, self.slots, self.E, self.caps, self.shares)

    @property
    def iterate(self):
        return PASSES.Iterate(self.b, self.m, self.mv, self.mb)


def gradient(function, b, step=1e-6):
    return np.array(
        [(function(b + d) - function(b - d)) / (2.0 * step) for d in step * np.eye(len(b))]
    )


def test_gradients_and_gap_of_the_barrier():
    case = Problem()
    case.balance()
    gap, time = case.system()
    assert gap == pytest.approx(case.caps.size + case.m.size + case.length)
    assert time == pytest.approx(case.terms(case.b)[0])
    n = case.length
    np.testing.assert_allclose(
        case.slope[:n], gradient(lambda b: case.terms(b)[0], case.b)[:n], rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(case.pull[:n], gradient(case.barrier, case.b)[:n], rtol=1e-5)


def test_hessian_of_convex_limits():
    case = Problem(jerks=False)
    case.balance()
    case.system()

    def slope(b):
        case.b = b
        case.balance()
        case.system()
        return (case.slope - case.pull)[: case.length].copy()

    full = np.diag(case.band[0, : case.length])
    for k in (1, 2):
        line = case.band[k, k : case.length]
        full += np.diag(line, k) + np.diag(line, -k)
    b, step = case.b.copy(), 1e-6
    for i in range(0, case.length, 5):
        d = step * np.eye(len(b))[i]
        np.testing.assert_allclose(
            full[i], (slope(b + d) - slope(b - d)) / (2.0 * step), rtol=1e-5, atol=1e-5
        )


def test_use_and_start():
    case = Problem()
    most = PASSES.limits_use(case.limits, case.b, case.work.W)
    assert case.terms(case.b / most)[-1] == pytest.approx(1.0)
    time, velocities, slots, coefficients, _ = case.terms(case.b)
    PASSES.start(case.limits, case.iterate, 0.25, case.work.W)
    for products in (case.mv * velocities, case.m * slots, case.mb * coefficients):
        assert products == pytest.approx(0.25 * time)


def test_steps_satisfy_the_linearized_conditions():
    """Slacks change as differences of the slacks say, multipliers as the linear system asks."""
    case, rng = Problem(), np.random.default_rng(6)
    case.balance()
    for m in (case.m, case.mv, case.mb):
        m *= rng.uniform(0.5, 2.0, m.shape)
    move = np.zeros_like(case.b)
    move[: case.length] = rng.normal(0.0, 0.5, case.length)
    h = 1e-6
    slacks = case.terms(case.b)[1:4]
    ahead, behind = (case.terms(case.b + s * h * move)[1:4] for s in (1.0, -1.0))
    changes = [(a - b) / (2.0 * h) for a, b in zip(ahead, behind, strict=True)]
    gap, _ = case.system()
    lines = (case.limits, case.iterate, PASSES.Iterate(move, case.dm, case.dmv, case.dmb))
    left, share = PASSES.predict(*lines, gap, case.work, case.errors)
    multipliers = (case.mv, case.m, case.mb)
    products, room, less, total = [], [], [], 0.0
    for m, slack, change in zip(multipliers, slacks, changes, strict=True):
        affine = -m - m * change / slack  # (slack + change) (m + affine) without second order
        products.append(change * affine)
        room.append((-change / slack).max())
        less.append((-affine / m).max())
    for found, expected in zip((case.dmv, case.dm, case.dmb), products, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    # Their effect is the gradient of the slacks' logarithms with these weights.
    effect = gradient(
        lambda b: sum(
            (product * np.log(slack)).sum()
            for product, slack in zip(products, case.terms(b)[1:4], strict=True)
        ),
        case.b,
    )
    np.testing.assert_allclose(
        case.errors[: case.length], effect[: case.length], rtol=1e-4, atol=1e-3
    )
    far, long = 1.0 / max(1.0, *room), 1.0 / max(1.0, *less)
    assert share == pytest.approx(min(far, long), rel=1e-5)
    for m, slack, change in zip(multipliers, slacks, changes, strict=True):
        affine = -m - m * change / slack
        total += ((slack + far * change) * (m + long * affine)).sum()
    assert left == pytest.approx(max(0.0, total) / gap, rel=1e-4, abs=1e-6)

    target, part = 0.3, 0.6
    errors = [x.copy() for x in (case.dmv, case.dm, case.dmb)]
    far, long = PASSES.step_lengths(*lines, target, part, case.work)
    found = (case.dmv, case.dm, case.dmb)
    for m, dm, slack, change, error in zip(
        multipliers, found, slacks, changes, errors, strict=True
    ):
        np.testing.assert_allclose(
            slack * m + slack * dm + change * m, target - part * error, rtol=1e-4, atol=1e-5
        )
    assert far == pytest.approx(min(1.0, 0.95 / max(room)), rel=1e-5)
    rates = [(-dm / m).max() for m, dm in zip(multipliers, found, strict=True)]
    assert long == pytest.approx(min(1.0, 0.95 / max(rates)), rel=1e-6)
    before = case.m.copy()
    PASSES.advance(case.m, case.dm, 0.5)
    np.testing.assert_allclose(case.m, before + 0.5 * case.dm)


def test_the_step_of_a_single_limit():
    """X = 0.5 with cap 1: the slack 0.5 decreases by 0.2 while the multiplier 3 changes."""
    work = workspaces()
    W, D = work
    W[jerk_barriers.AT_X :][:LANES], D[jerk_barriers.AT_X :][:LANES] = 0.5, 0.2
    caps, m, dm = np.ones(LANES), np.full(LANES, 3.0), np.empty(LANES)
    STEPS.velocity_predict(caps, m, dm, work)
    # To a product of 0 without the second order: 0.5 * 3 + 0.5 dm - 0.2 * 3 = 0, dm = -1.8.
    assert dm == pytest.approx(-0.2 * -1.8)
    assert W[jerk_barriers.LESS_ROOM :][:LANES] == pytest.approx(0.2 / 0.5)
    assert W[jerk_barriers.LESS_MULTIPLIER :][:LANES] == pytest.approx(1.8 / 3.0)
    STEPS.velocity_step(caps, m, dm, 0.1, 1.0, work)
    assert 1.5 + 0.5 * dm - 0.6 == pytest.approx(0.1 - 0.36)


def test_banded_systems_are_solved_as_by_numpy():
    rng, n = np.random.default_rng(7), 12
    band = rng.normal(size=(3, n))
    band[0] = 6.0 + rng.uniform(size=n)
    A = np.diag(band[0])
    for k in (1, 2):
        A += np.diag(band[k, k:], k) + np.diag(band[k, k:], -k)
    x = rng.normal(size=n)
    expected = np.linalg.solve(A, x)
    PASSES.factorize(band, n)
    PASSES.solve(band, x, n)
    np.testing.assert_allclose(x, expected, rtol=1e-10)
