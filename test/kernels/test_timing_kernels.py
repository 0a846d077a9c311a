# SPDX-License-Identifier: Apache-2.0
"""Kernels of timing: splines and quadrature by SciPy, steps by differences, linear programs."""

from __future__ import annotations

import numpy as np
import pytest
import ruckig
from kernels.plain_kernels import plain
from numpy.polynomial import Polynomial
from scipy.integrate import quad
from scipy.interpolate import BSpline
from scipy.optimize import linprog

from motion_nodes.kernels.timing import (
    jerk_clock,
    jerk_lanes,
    jerk_limited,
    jerk_passes,
    jerk_steps,
    jerk_tables,
    path_pieces,
    time_optimal,
)

LANES, PLACES = jerk_lanes.LANES, jerk_lanes.PLACES
CLOCK, PASSES, TABLES = plain(jerk_clock), plain(jerk_passes), plain(jerk_tables)
STEPS = plain(jerk_steps)
MOTION, PIECES, TOPP = plain(jerk_limited), plain(path_pieces), plain(time_optimal)
N = 2 * LANES
"""Intervals of the problems of the interior-point method."""


def spline(spans, b):
    """Return X as SciPy's quadratic spline with the kernels' coefficients, and its grid."""
    grid = np.concatenate([[0.0], np.cumsum(spans)])
    first, last = spans[0] * np.array([2.0, 1.0]), spans[-1] * np.array([1.0, 2.0])
    knots = np.concatenate([grid[0] - first, grid, grid[-1] + last])
    return BSpline(knots, b, 2), grid


def random_spline(seed, count):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.5, 2.0, count) / count, rng.uniform(0.5, 2.0, count + 2)


def test_tables_are_quadratic_splines():
    spans, b = random_spline(1, 20)
    X, grid = spline(spans, b)
    order = np.array([*range(20), *[22] * 12], np.int32)
    rows = np.zeros((2, PLACES, jerk_lanes.SPLINE_ROWS * LANES))
    TABLES.fill_rows(spans, order, rows)
    weights = rows.reshape(2, PLACES, 3, 3, LANES)
    for i in range(20):
        for place in range(PLACES):
            at = grid[i] + (0.5 * place if place < 2 else 1.0 - 1e-9) * spans[i]
            found = weights[i // LANES, place, ..., i % LANES] @ b[i : i + 3]
            expected = [float(X(at)), 0.5 * float(X(at, 1)), 0.5 * float(X(at, 2))]
            assert found == pytest.approx(expected, rel=1e-6)
    values, slopes = np.empty(21), np.empty(21)
    TABLES.write_state(spans, b, values, slopes)
    np.testing.assert_allclose(values, X(grid), rtol=1e-12)
    np.testing.assert_allclose(slopes[:-1], 0.5 * X(grid[:-1], 1), rtol=1e-9)


def test_initial_guess_stays_below_constant_speed_and_changes_slowly():
    rng = np.random.default_rng(2)
    spans, steady, steep = (rng.uniform(0.5, 2.0, 30) * x for x in (0.03, 1.0, 2.0))
    b = np.empty(32)
    TABLES.guess(spans, steady, steep, b)
    assert (b > 0.0).all()
    for i in range(30):
        assert max(b[i : i + 3]) <= steady[i]
        for change in np.abs(np.diff(b[i : i + 3])):
            assert change <= spans[i] / steep[i] * (1.0 + 1e-12)
    assert np.maximum(b[1:] / b[:-1], b[:-1] / b[1:]).max() <= 1.1 + 1e-12
    steady[12] = 1e-3  # where accelerations hardly matter, the ratio of neighbours does
    TABLES.guess(spans, steady, np.full(30, 1e-9), b)
    assert np.maximum(b[1:] / b[:-1], b[:-1] / b[1:]).max() == pytest.approx(1.1)
    TABLES.guess(spans, np.full(30, 0.7), np.full(30, 1e-9), b)
    assert b == pytest.approx(0.7)


def test_clock_is_the_integral_and_matches_the_motion_at_the_grid():
    spans, b = random_spline(3, 12)
    spans /= spans.sum()
    spline_X, grid = spline(spans, b)
    X, U = np.empty(13), np.empty(13)
    TABLES.write_state(spans, b, X, U)
    times, clock = np.empty(13), np.empty((12, 6))
    CLOCK.write_clock(grid, 0.3, 2.0, X, U, times, clock)
    way = Polynomial([0.3]) + 2.0 * Polynomial([0.0, 0.0, 0.0, 10.0, -15.0, 6.0])
    for i in range(12):
        exact, _ = quad(lambda z: spline_X(z) ** -0.5, grid[i], grid[i + 1])
        assert times[i + 1] - times[i] == pytest.approx(exact, rel=1e-5)
        curve = Polynomial(clock[i])
        for k, t in ((i, 0.0), (i + 1, times[i + 1] - times[i])):
            rate, bend = way.deriv()(grid[k]), way.deriv(2)(grid[k])
            state = (way(grid[k]), rate * X[k] ** 0.5, bend * X[k] + rate * U[k])
            assert (curve(t), curve.deriv()(t), curve.deriv(2)(t)) == pytest.approx(state, abs=1e-9)


class Problem:
    """Random limits of N intervals, one of each kind at each place."""

    def __init__(self, jerks=True):
        rng = np.random.default_rng(4)
        self.spans, b = random_spline(5, N)
        self.order = rng.permutation(N).astype(np.int32)
        self.rows = np.zeros((2, PLACES, jerk_lanes.SPLINE_ROWS * LANES))
        TABLES.fill_rows(self.spans, self.order, self.rows)
        groups = np.ones(jerk_lanes.GROUPS, np.int32)
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
        self.W, self.D = (np.zeros(jerk_lanes.WORK_ROWS * LANES) for _ in range(2))
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
        return PASSES.system(
            self.order, self.rows, self.slots, self.E, self.shares, self.caps, self.b,
            self.m, self.mv, self.mb, self.W, self.slope, self.pull, self.band,
        )  # fmt: skip


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
    most = PASSES.limits_use(case.order, case.rows, case.slots, case.E, case.caps, case.b, case.W)
    assert case.terms(case.b / most)[-1] == pytest.approx(1.0)
    time, velocities, slots, coefficients, _ = case.terms(case.b)
    PASSES.start(
        case.order, case.rows, case.slots, case.E, case.shares, case.caps, case.b, 0.25,
        case.m, case.mv, case.mb, case.W,
    )  # fmt: skip
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
    lines = (case.order, case.rows, case.slots, case.E, case.caps, case.b, move)
    left, share = PASSES.predict(
        *lines, gap, case.m, case.mv, case.mb, case.dm, case.dmv, case.dmb,
        case.W, case.D, case.errors,
    )  # fmt: skip
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
    far, long = PASSES.step_lengths(
        *lines, target, part, case.m, case.mv, case.mb, case.dm, case.dmv, case.dmb,
        case.W, case.D,
    )  # fmt: skip
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
    W, D = (np.zeros(jerk_lanes.WORK_ROWS * LANES) for _ in range(2))
    W[jerk_lanes.AT_X :][:LANES], D[jerk_lanes.AT_X :][:LANES] = 0.5, 0.2
    caps, m, dm = np.ones(LANES), np.full(LANES, 3.0), np.empty(LANES)
    STEPS.velocity_predict(caps, m, dm, W, D)
    # To a product of 0 without the second order: 0.5 * 3 + 0.5 dm - 0.2 * 3 = 0, dm = -1.8.
    assert dm == pytest.approx(-0.2 * -1.8)
    assert W[jerk_lanes.LESS_ROOM :][:LANES] == pytest.approx(0.2 / 0.5)
    assert W[jerk_lanes.LESS_MULTIPLIER :][:LANES] == pytest.approx(1.8 / 3.0)
    STEPS.velocity_step(caps, m, dm, 0.1, 1.0, W, D)
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


def random_path(seed, joints=3):
    """Return breaks and coefficients of a path of two quintic pieces."""
    rng = np.random.default_rng(seed)
    return np.array([0.0, 0.4, 1.0]), rng.normal(size=(2, 6, joints))


def test_path_derivatives_by_the_parameter():
    breaks, coefficients = random_path(8)
    grid = np.linspace(0.2, 0.45, 6)
    way = 0.02 + 0.9 * Polynomial([0.0, 0.0, 0.0, 10.0, -15.0, 6.0])
    piece = np.zeros(5, np.int32)
    D = np.empty((5, PLACES, 3, 3))
    MOTION.parameter_derivatives(breaks, coefficients, piece, grid, 0.02, 0.9, D)
    for j in range(3):
        composed = Polynomial(coefficients[0, :, j])(way)
        for i in range(5):
            for place, z in enumerate((grid[i], 0.5 * (grid[i] + grid[i + 1]), grid[i + 1])):
                exact = [composed.deriv(k)(z) for k in (1, 2, 3)]
                assert D[i, place, :, j] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("limits", [(1.0, 2.0, 4.0), (0.5, 4.0, 40.0)])
def test_a_line_takes_hardly_longer_than_ruckig(monkeypatch, limits):
    task = ruckig.InputParameter(1)
    task.current_position, task.target_position = [0.0], [1.5]
    task.max_velocity, task.max_acceleration, task.max_jerk = ([x] for x in limits)
    best = ruckig.Trajectory(1)
    ruckig.Ruckig(1).calculate(task, best)
    count, n = 32, 1
    grid = np.linspace(0.0, 1.0, count + 1)
    coefficients = np.zeros((1, 6, n))
    coefficients[0, 1] = 1.0
    path = (np.array([0.0, 1.5]), coefficients, np.zeros(count, np.int32), grid, 0.0, 1.5)
    lay_out = MOTION.lay_out  # sums of int8, which overflow without Numba
    monkeypatch.setattr(MOTION, "lay_out", lambda marks, *a: lay_out(marks.astype(int), *a))
    D, times, clock = np.empty((count, PLACES, 3, n)), np.empty(count + 1), np.empty((count, 6))
    MOTION.parameter_derivatives(*path, D)
    rows = np.array(limits)[:, None]
    steps, stretch = MOTION.jerk_limited_motion(path, D, rows, rows, times, clock)
    assert 0 < steps < 100
    duration = times[-1] * stretch
    assert best.duration < duration < 1.04 * best.duration
    use = np.empty((count, 3))
    PIECES.limit_use(path[0], coefficients, path[2], stretch * times,
                          clock / stretch ** np.arange(6), rows, use)  # fmt: skip
    assert 0.9 < use.max() <= 1.0 + 1e-3


def test_states_and_use_of_a_timed_path():
    breaks, coefficients = random_path(9)
    piece, times = np.array([0, 1], np.int32), np.array([0.0, 0.5, 1.5])
    clock = np.array([[0.0, 0.6, 0.2, 0.1, 0.2, 0.1], [0.4, 0.7, -0.2, 0.1, 0.0, 0.0]])
    inside = np.array([1.2, 0.1, 0.49, 0.7])
    out = np.empty((4, 6, 3))
    PIECES.path_states(
        breaks, coefficients, piece, times, clock, np.array([*inside, -1.0, 2.0]), out
    )
    limits = np.array([[3.0], [9.0], [40.0]]) * [1.0, 2.0, np.inf]
    use, dense = np.empty((2, 3)), np.zeros((2, 3))
    PIECES.limit_use(breaks, coefficients, piece, times, clock, limits, use)
    for j in range(3):
        for i in range(2):
            q = Polynomial(coefficients[i, :, j])(Polynomial(clock[i]) - breaks[i])
            for k, t in enumerate(inside):
                if times[i] <= t < times[i + 1]:
                    exact = [q.deriv(order)(t - times[i]) for order in range(4)]
                    assert out[:, k, j] == pytest.approx(exact, rel=1e-9)
            t = np.linspace(0.0, times[i + 1] - times[i], 200)
            for order in range(3):
                most = np.abs(q.deriv(order + 1)(t)).max() / limits[order, j]
                dense[i, order] = max(dense[i, order], most)
        assert out[1:, 4:, j] == pytest.approx(0.0)
    assert (use >= dense).all()
    assert (use <= 1.35 * dense).all()


def test_fastest_speeds_are_those_of_a_linear_program():
    breaks, coefficients = random_path(10)
    coefficients[:, 0] = 0.0
    grid = np.unique(np.concatenate([np.linspace(0.0, 1.0, 41), breaks]))
    count = len(grid) - 1
    piece = (grid[:-1] >= breaks[1] - 1e-9).astype(np.int32)
    velocity, acceleration = np.full((count, 3), 2.0), np.full((count, 3), 8.0)
    strips, x, u = np.zeros((count, 2, 2, 0)), np.full(count + 1, 1e9), np.empty(count)
    x[0] = x[-1] = 0.0
    top = x.copy()
    TOPP.fastest_speeds(breaks, coefficients, grid, piece, velocity, acceleration, strips, x, u)
    rows, bounds = [], []
    for i in range(count):
        h = grid[i + 1] - grid[i]
        for k in (i, i + 1):
            for j in range(3):
                q = Polynomial(coefficients[piece[i], :, j])
                A, B = (q.deriv(order)(grid[k] - breaks[piece[i]]) for order in (1, 2))
                row = np.zeros(count + 1)
                row[i], row[i + 1] = -A / (2.0 * h), A / (2.0 * h)
                row[k] += B
                rows += [row, -row]
                bounds += [acceleration[i, j]] * 2
                top[k] = min(top[k], (velocity[i, j] / A) ** 2)
    assert (np.array(rows) @ x <= np.array(bounds) + 1e-6).all()
    assert (x <= top + 1e-9).all()
    for k in range(0, count, 4):
        # The next speed is the max one from which the rest of the path can be completed.
        known = [(v, v) for v in x[: k + 1]] + [(0.0, t) for t in top[k + 1 :]]
        best = linprog(-np.eye(count + 1)[k + 1], A_ub=rows, b_ub=bounds, bounds=known)
        assert x[k + 1] == pytest.approx(best.x[k + 1], rel=1e-5, abs=1e-5)
    np.testing.assert_allclose(u, np.diff(x) / (2.0 * np.diff(grid)), rtol=1e-9)
