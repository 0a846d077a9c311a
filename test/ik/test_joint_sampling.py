# SPDX-License-Identifier: Apache-2.0
"""Differences, distances and samples of joint space."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about
from scipy.stats import qmc

from motion_nodes.core.ik.joint_sampling import (
    difference,
    distance,
    free_joint_samples,
    halton,
    interval_samples,
)
from motion_nodes.errors import InvalidConfig

ANGLE = st.floats(-50.0, 50.0)


@settings(derandomize=True)
@given(ANGLE, ANGLE)
def test_continuous_joints_differ_by_half_a_turn_at_most(a, b):
    d = difference([a, a], [b, b], continuous=[True, False])
    assert abs(d[0]) <= math.pi + 1e-12
    assert math.remainder(d[0] - (a - b), 2.0 * math.pi) == pytest.approx(0.0, abs=1e-9)
    assert d[1] == a - b


def test_distances():
    q1, q2 = np.zeros(3), np.array([3.0, 4.0, 0.0])
    assert distance(q2, q1) == 5.0
    assert distance(q2, q1, norm=math.inf) == 4.0
    assert distance(q2, q1, norm=1.0) == 7.0
    assert distance(q2, q1, weights=[1.0, 0.5, 9.0]) == pytest.approx(math.sqrt(13.0))
    assert distance([6.2], [0.0], continuous=[True]) == pytest.approx(2 * math.pi - 6.2)
    np.testing.assert_allclose(distance(np.array([q1, q2]), q2), [5.0, 0.0])
    with pytest.raises(InvalidConfig):
        distance(q2, q1, norm=0.5)
    with pytest.raises(InvalidConfig, check=about("weights")):
        distance(q2, q1, weights=-1.0)


def test_halton_is_the_known_sequence():
    np.testing.assert_allclose(
        halton(6, 2)[:, 0], [1 / 2, 1 / 4, 3 / 4, 1 / 8, 5 / 8, 3 / 8], atol=1e-15
    )
    np.testing.assert_allclose(halton(5, 2)[:, 1], [1 / 3, 2 / 3, 1 / 9, 4 / 9, 7 / 9], atol=1e-15)
    oracle = qmc.Halton(7, scramble=False).random(300)
    np.testing.assert_allclose(halton(300, 7, first=0), oracle, atol=1e-12)
    np.testing.assert_allclose(halton(100, 3, first=50), halton(149, 3)[49:], atol=1e-15)
    with pytest.raises(InvalidConfig):
        halton(3, 17)


@pytest.mark.parametrize("use_halton", [False, True])
def test_samples_fill_the_interval(use_halton):
    low, high = np.array([-1.0, 2.0, 5.0]), np.array([1.0, 2.5, 5.0])
    stream = interval_samples(low, high, use_halton=use_halton, seed=3)
    Q = np.array(list(itertools.islice(stream, 500)))
    assert (Q >= low).all()
    assert (Q <= high).all()
    assert (Q[:, 2] == 5.0).all()
    for k in (0, 1):
        counts, _ = np.histogram(Q[:, k], 10, (low[k], high[k]))
        assert counts.min() >= (45 if use_halton else 25)
    again = interval_samples(low, high, use_halton=use_halton, seed=3)
    np.testing.assert_array_equal(Q, list(itertools.islice(again, 500)))


def test_equal_bounds_give_one_value():
    assert [q.tolist() for q in interval_samples([1.0, 2.0], [1.0, 2.0])] == [[1.0, 2.0]]
    for low, high in (
        ([1.0], [0.0]),
        ([0.0], [math.inf]),
        ([0.0, 1.0], [1.0]),
        ([math.nan], [1.0]),
    ):
        with pytest.raises(InvalidConfig, check=about("bounds")):
            interval_samples(low, high)


def test_free_joints_begin_with_their_current_values():
    now = [0.5, -0.2]
    stream = free_joint_samples(now, [-1.0, -1.0], [1.0, 1.0], max_distance=0.1, max_attempts=50)
    values = np.array(list(stream))
    assert len(values) == 50
    np.testing.assert_array_equal(values[0], now)
    assert (np.abs(values - now) <= 0.1 + 1e-15).all()
    assert len(np.unique(values[:, 0])) == 50
    edge = list(free_joint_samples([0.95], [-1.0], [1.0], max_distance=0.2, max_attempts=40))
    assert np.max(edge) <= 1.0


def test_joints_without_a_range_never_move():
    stream = free_joint_samples([0.5, 0.1], [-1.0, 0.1], [1.0, 0.1], max_attempts=30)
    values = np.array(list(stream))
    assert (values[:, 1] == 0.1).all()
    assert np.ptp(values[:, 0]) > 0.5
    assert len(list(free_joint_samples([0.5], [0.5], [0.5]))) == 1
