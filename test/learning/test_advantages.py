# SPDX-License-Identifier: Apache-2.0
"""Advantage estimation: closed forms, terminal states and truncation."""

import numpy as np
import pytest

from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.learning.learners import PpoConfig, gae

GOLDEN = [2.81091504875, 1.9307975, 0.995]
"""Rewards 1, values 0.5, gamma 0.99, lambda 0.95, bootstrap value 0.5."""


def estimate(rewards, values, last_value, terminated=None, ended=None, gamma=0.99, lam=0.95):
    values, zero = np.asarray(values, float), np.zeros(len(rewards))
    following = np.append(values[1:], last_value)
    terminated = zero if terminated is None else np.asarray(terminated, float)
    ended = terminated if ended is None else np.asarray(ended, float)
    config = PpoConfig(gamma=gamma, lam=lam)
    return gae(np.asarray(rewards, float), values, following, terminated, ended, config)


def test_with_bootstrap():
    advantages, returns = estimate([1, 1, 1], [0.5] * 3, 0.5)
    np.testing.assert_allclose(advantages, GOLDEN, rtol=1e-12)
    np.testing.assert_allclose(returns, np.add(GOLDEN, 0.5), rtol=1e-12)


def test_without_bootstrap_as_in_the_textbook_variant():
    advantages, _ = estimate([1, 1, 1], [0.5] * 3, 0.0)
    np.testing.assert_allclose(advantages, [2.373067625, 1.46525, 0.5], rtol=1e-12)


def test_lambda_one_gives_discounted_returns():
    rewards = np.random.default_rng(0).normal(size=20)
    _, returns = estimate(rewards, np.linspace(-1, 1, 20), 2.0, lam=1.0)
    expected = sum(0.99**k * r for k, r in enumerate(rewards)) + 0.99**20 * 2.0
    assert returns[0] == pytest.approx(expected, rel=1e-12)


def test_termination_and_truncation_differ_by_the_bootstrap():
    rewards, values = [1.0, 1.0, 1.0, 1.0], [0.5] * 4
    end = [0, 1, 0, 0]
    terminated, _ = estimate(rewards, values, 0.5, terminated=end)
    truncated, _ = estimate(rewards, values, 0.5, ended=end)
    # Neither looks beyond its episode, but the truncated one expects V' after it.
    assert terminated[1] == pytest.approx(0.5)
    assert truncated[1] == pytest.approx(0.5 + 0.99 * 0.5)
    np.testing.assert_allclose(terminated[2:], truncated[2:])


def test_rows_of_environments_are_independent():
    both, _ = gae(
        *(np.array([[1.0, 2.0]] * 3), np.full((3, 2), 0.5), np.full((3, 2), 0.5)),
        *(np.zeros((3, 2)), np.zeros((3, 2))),
        PpoConfig(),
    )
    np.testing.assert_allclose(both[:, 0], GOLDEN, rtol=1e-12)
    assert (both[:, 1] > both[:, 0]).all()


def test_invalid_input():
    good = np.zeros(3)
    with pytest.raises(InvalidConfig):
        gae(good, np.zeros(2), good, good, good, PpoConfig())
    for gamma in (1.1, float("nan")):
        with pytest.raises(InvalidConfig):
            PpoConfig(gamma=gamma)
