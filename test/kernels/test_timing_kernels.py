# SPDX-License-Identifier: Apache-2.0
"""Kernels of timing: splines and quadrature by SciPy, Ruckig, linear programs."""

import itertools

import numpy as np
import pytest
from kernels.plain_kernels import plain
from numpy.polynomial import Polynomial
from scipy.integrate import quad
from scipy.interpolate import BSpline
from scipy.optimize import linprog

from motion_nodes.kernels.timing import jerk_barriers, jerk_limited, path_pieces, time_optimal

LANES, PLACES = jerk_barriers.LANES, jerk_barriers.PLACES
CLOCK, TABLES = plain(jerk_limited), plain(jerk_limited)
MOTION, PIECES, TOPP = plain(jerk_limited), plain(path_pieces), plain(time_optimal)


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
    rows = np.zeros((2, PLACES, jerk_barriers.SPLINE_ROWS * LANES))
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


def test_clock_is_the_integral_and_matches_the_motion_at_the_grid():
    spans, b = random_spline(3, 12)
    spans /= spans.sum()
    spline_X, grid = spline(spans, b)
    X, U = np.empty(13), np.empty(13)
    TABLES.write_state(spans, b, X, U)
    times, clock = np.empty(13), np.empty((12, 6))
    path = CLOCK.ParameterPath(None, None, None, grid, 0.3, 2.0)
    CLOCK.write_clock(path, X, U, times, clock)
    way = Polynomial([0.3]) + 2.0 * Polynomial([0.0, 0.0, 0.0, 10.0, -15.0, 6.0])
    for i in range(12):
        exact, _ = quad(lambda z: spline_X(z) ** -0.5, grid[i], grid[i + 1])
        assert times[i + 1] - times[i] == pytest.approx(exact, rel=1e-5)
        curve = Polynomial(clock[i])
        for k, t in ((i, 0.0), (i + 1, times[i + 1] - times[i])):
            rate, bend = way.deriv()(grid[k]), way.deriv(2)(grid[k])
            state = (way(grid[k]), rate * X[k] ** 0.5, bend * X[k] + rate * U[k])
            assert (curve(t), curve.deriv()(t), curve.deriv(2)(t)) == pytest.approx(state, abs=1e-9)


def random_path(seed, joints=3, degree=5):
    """Return breaks and coefficients of a path of two pieces."""
    rng = np.random.default_rng(seed)
    return np.array([0.0, 0.4, 1.0]), rng.normal(size=(2, degree + 1, joints))


def test_path_derivatives_by_the_parameter():
    breaks, coefficients = random_path(8)
    grid = np.linspace(0.2, 0.45, 6)
    way = 0.02 + 0.9 * Polynomial([0.0, 0.0, 0.0, 10.0, -15.0, 6.0])
    piece = np.zeros(5, np.int32)
    D = np.empty((5, PLACES, 3, 3))
    path = MOTION.ParameterPath(breaks, coefficients, piece, grid, 0.02, 0.9)
    MOTION.parameter_derivatives(path, D)
    for j in range(3):
        composed = Polynomial(coefficients[0, :, j])(way)
        for i in range(5):
            for place, z in enumerate((grid[i], 0.5 * (grid[i] + grid[i + 1]), grid[i + 1])):
                exact = [composed.deriv(k)(z) for k in (1, 2, 3)]
                assert D[i, place, :, j] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("degree", [3, 5, 7])
@pytest.mark.parametrize("orders", [2, 3])
def test_states_and_use_of_a_timed_path(degree, orders):
    breaks, coefficients = random_path(9, degree=degree)
    piece, times = np.array([0, 1], np.int32), np.array([0.0, 0.5, 1.5])
    clock = np.array([[0.0, 0.6, 0.2, 0.1, 0.2, 0.1], [0.4, 0.7, -0.2, 0.1, 0.0, 0.0]])
    inside = np.array([1.2, 0.1, 0.49, 0.7])
    out = np.empty((4, 6, 3))
    motion = PIECES.TimedPieces(breaks, coefficients, piece, times, clock)
    PIECES.path_states(motion, np.array([*inside, -1.0, 2.0]), out)
    limits = (np.array([[3.0], [9.0], [40.0]]) * [1.0, 2.0, np.inf])[:orders]
    use, dense = np.empty((2, orders)), np.zeros((2, orders))
    PIECES.limit_use(motion, limits, use)
    for j in range(3):
        for i in range(2):
            q = Polynomial(coefficients[i, :, j])(Polynomial(clock[i]) - breaks[i])
            for k, t in enumerate(inside):
                if times[i] <= t < times[i + 1]:
                    exact = [q.deriv(order)(t - times[i]) for order in range(4)]
                    assert out[:, k, j] == pytest.approx(exact, rel=1e-9)
            t = np.linspace(0.0, times[i + 1] - times[i], 200)
            for order in range(orders):
                most = np.abs(q.deriv(order + 1)(t)).max() / limits[order, j]
                dense[i, order] = max(dense[i, order], most)
        assert out[1:, 4:, j] == pytest.approx(0.0)
    assert (use >= dense).all()
    assert (use <= 1.35 * dense).all()


def topp_problem(seed, more=0):
    """Return a path with its grid, limits, strips and bounds of x, and the LP's rows and bounds."""
    breaks, coefficients = random_path(seed)
    coefficients[:, 0] = 0.0
    grid = np.unique(np.concatenate([np.linspace(0.0, 1.0, 41), breaks]))
    count = len(grid) - 1
    piece = (grid[:-1] >= breaks[1] - 1e-9).astype(np.int32)
    limits = np.array([[2.0, 1.5, 2.5], [8.0, 10.0, 6.0]])
    strips = np.random.default_rng(seed).normal(size=(count, 2, 2, more)) / 8.0
    top = np.full(count + 1, 1e9)
    top[0] = top[-1] = 0.0
    free, rows, bounds = top.copy(), [], []
    for i in range(count):
        h = grid[i + 1] - grid[i]
        for end in range(2):
            for j in range(3 + more):
                k, bound = i + end, 1.0
                if j < 3:
                    q = Polynomial(coefficients[piece[i], :, j])
                    A, B = (q.deriv(order)(grid[k] - breaks[piece[i]]) for order in (1, 2))
                    bound = limits[1, j]
                    top[k] = min(top[k], (limits[0, j] / A) ** 2)
                else:
                    A, B = strips[i, end, :, j - 3]
                row = np.zeros(count + 1)
                row[i], row[i + 1] = -A / (2.0 * h), A / (2.0 * h)
                row[k] += B
                rows += [row, -row]
                bounds += [bound] * 2
    path = (breaks, coefficients, piece, grid)
    return path, limits, strips, free, top, np.array(rows), np.array(bounds)


def fastest(path, limits, strips, free, tight=(1.0, 1.0)):
    """Return the squared speeds at the grid by the kernels' parts."""
    table, caps = TOPP.strip_table(path, limits, strips)
    x, most = np.empty((2, len(free)))
    TOPP.fastest_speeds(table, caps, np.tile(tight, (len(caps), 1)), free, most, x)
    assert (x <= most).all()
    return x


@pytest.mark.parametrize(("seed", "more"), [(10, 0), (11, 2), (12, 0)])
def test_fastest_speeds_are_those_of_a_linear_program(seed, more):
    path, limits, strips, free, top, rows, bounds = topp_problem(seed, more)
    x = fastest(path, limits, strips, free)
    assert (rows @ x <= bounds + 1e-6).all()
    assert (x <= top + 1e-9).all()
    count = len(x) - 1
    for k in range(0, count, 4):
        # The next speed is the max one from which the rest of the path can be completed.
        known = [(v, v) for v in x[: k + 1]] + [(0.0, t) for t in top[k + 1 :]]
        best = linprog(-np.eye(count + 1)[k + 1], A_ub=rows, b_ub=bounds, bounds=known)
        assert x[k + 1] == pytest.approx(best.x[k + 1], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("seed", range(13, 17))
def test_factors_of_limits_are_lower_limits(seed):
    path, limits, strips, free, *_ = topp_problem(seed)
    tight = np.array([0.9, 0.7])  # of x, hence of the squared velocity
    lower = limits * np.array([[0.9**0.5], [0.7]])
    expected = fastest(path, lower, strips, free)
    assert fastest(path, limits, strips, free, tight) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_polynomials_span_bounded_changes_of_the_jerk(seed):
    rng = np.random.default_rng(seed)
    count, bounds = 200, (0.02, 3e-7)
    times = np.cumsum(rng.uniform(1e-3, 0.01, count))
    after = np.cumsum(rng.normal(size=(count, 3)) * (rng.random((count, 1)) < 0.2), axis=0)
    before = np.vstack([after[:1], after[:-1]]) + 0.001 * rng.normal(size=(count, 3))
    longest = rng.uniform(0.02, 0.06, count - 1)
    kept = np.zeros(count, np.bool_)
    PIECES.spanned(times, before, after, longest, bounds, kept)
    places = np.flatnonzero(kept)
    assert (places[0], places[-1]) == (0, count - 1)
    assert len(places) < count
    steps = (np.abs(after - before) / np.abs(after).max(axis=0)).max(axis=1)
    for a, b in itertools.pairwise(places):
        inside, span = steps[a + 1 : b].sum(), times[b] - times[a]
        if b > a + 1:
            assert inside <= bounds[0]
            assert inside * span**3 <= bounds[1]
            assert span <= longest[a:b].min() + 1e-12
