# SPDX-License-Identifier: Apache-2.0
"""Gradients against finite differences; advantages; soft actor-critic."""

import numpy as np
import pytest
from scipy.integrate import quad

from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.learning.learners import (
    PpoConfig,
    Replay,
    ReplayBatch,
    SacConfig,
    SacLearner,
    SquashedActor,
    TrainingBatch,
    TrainingDiverged,
    actor_loss,
    critic_loss,
    gae,
    ppo_loss,
)
from motion_nodes.extras.learning.networks import ActorCritic, Mlp


def finite_differences(function, x, h=1e-6):
    result = np.empty_like(x)
    for i in range(len(x)):
        up, down = x.copy(), x.copy()
        up[i] += h
        down[i] -= h
        result[i] = (function(up) - function(down)) / (2 * h)
    return result


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_mlp_gradient(activation):
    rng = np.random.default_rng(1)
    net = Mlp((4, 7, 5, 3), activation)
    flat, x = rng.normal(size=net.parameter_count), rng.normal(size=(6, 4))
    weights = rng.normal(size=(6, 3))
    grad = np.empty_like(flat)
    net.backward(flat, net.forward(flat, x), weights, grad)
    numeric = finite_differences(lambda p: float((weights * net.forward(p, x)[-1]).sum()), flat)
    np.testing.assert_allclose(grad, numeric, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("value_clip", [0.2, np.inf])
def test_ppo_gradient(value_clip):
    rng = np.random.default_rng(2)
    net, m = ActorCritic(5, 3, (6, 6)), 40
    flat = net.initial(rng, -0.3).astype(float) + 0.1 * rng.normal(size=net.parameter_count)
    # Ratios on both sides of both clips, and values near and far from the old estimates.
    batch = TrainingBatch(
        observations=rng.normal(size=(m, 5)),
        actions=rng.normal(size=(m, 3)),
        log_probabilities=rng.normal(-4.0, 1.0, size=m),
        values=rng.normal(size=m),
        advantages=rng.normal(size=m),
        returns=rng.normal(size=m),
    )
    config = PpoConfig(value_clip=value_clip, entropy_weight=0.01)
    loss, grad = ppo_loss(net, flat, batch, config)
    assert 0.0 < loss.clipped < 1.0
    numeric = finite_differences(lambda p: ppo_loss(net, p, batch, config)[0].total, flat)
    np.testing.assert_allclose(grad, numeric, rtol=1e-5, atol=1e-7)


def test_ratio_clip_stops_the_gradient():
    net = ActorCritic(2, 1, (4,))
    flat = net.initial(np.random.default_rng(0), 0.0).astype(float)
    observations, actions = np.ones((1, 2)), np.full((1, 1), 0.5)
    policy = slice(0, net.actor.parameter_count + 1)
    for shift, advantage, moved in ((-1.0, 1.0, False), (-1.0, -1.0, True), (1.0, 1.0, True)):
        now = -0.5 * float(((actions - net.mean(flat, observations)) ** 2).sum()) - 0.918938533
        batch = TrainingBatch(
            observations,
            actions,
            np.array([now + shift]),
            np.zeros(1),
            np.array([advantage]),
            np.zeros(1),
        )
        _, grad = ppo_loss(net, flat, batch, PpoConfig())
        assert bool(np.abs(grad[policy]).max() > 1e-6) is moved


@pytest.mark.parametrize(("sizes", "activation"), [((3,), "tanh"), ((3, 0), "tanh"), ((3, 2), "x")])
def test_invalid_structure(sizes, activation):
    with pytest.raises(InvalidConfig):
        Mlp(sizes, activation)


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


NET = SquashedActor(4, 2, (7, 6), "tanh", limit=2.0)


def case(seed: int, m: int = 9) -> tuple[np.ndarray, ReplayBatch, np.random.Generator]:
    rng = np.random.default_rng(seed)
    flat = NET.initial(rng).astype(float) + 0.3 * rng.normal(size=NET.parameter_count)
    batch = ReplayBatch(
        rng.normal(size=(m, 4)), np.tanh(rng.normal(size=(m, 2))), rng.normal(size=m),
        rng.normal(size=(m, 4)), (rng.random(m) < 0.3).astype(float),
    )  # fmt: skip
    return flat, batch, rng


@pytest.mark.parametrize("seed", range(3))
def test_critic_gradient(seed):
    flat, batch, rng = case(seed)
    critics, targets = flat[NET.actor.parameter_count :], rng.normal(size=9)
    _, grad = critic_loss(NET, critics, batch, targets)
    numeric = finite_differences(lambda p: critic_loss(NET, p, batch, targets)[0], critics)
    np.testing.assert_allclose(grad, numeric, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_actor_gradient(seed):
    flat, batch, rng = case(seed)
    noise, a = rng.normal(size=(9, 2)), NET.actor.parameter_count
    _, grad, _ = actor_loss(NET, flat, batch.observations, noise, 0.3)

    def loss(actor: np.ndarray) -> float:
        whole = np.concatenate((actor, flat[a:]))
        return actor_loss(NET, whole, batch.observations, noise, 0.3)[0]

    np.testing.assert_allclose(grad, finite_differences(loss, flat[:a]), rtol=1e-4, atol=1e-7)


def test_densities_of_squashed_actions_integrate_to_one():
    net = SquashedActor(1, 1, (3,), "tanh")
    flat = net.initial(np.random.default_rng(0)).astype(float)
    actor, x = net.parts(flat)[0], np.zeros((1, 1))
    std = net.squashed(actor, x, np.zeros((1, 1))).std[0, 0]

    def density(noise: float) -> float:
        found = net.squashed(actor, x, np.array([[noise]]))
        # Of a step of the noise, which is a step of the action.
        return float(np.exp(found.log_probability[0]) * std * (1.0 - found.actions[0, 0] ** 2))

    assert quad(density, -8.0, 8.0)[0] == pytest.approx(1.0, abs=1e-4)


def test_the_replay_keeps_the_newest_steps():
    replay = Replay(5, 1, 1)
    for first in (0.0, 3.0, 6.0):
        rows = np.arange(first, first + 3.0)
        replay.add(observations=rows[:, None], actions=rows[:, None], rewards=rows,
                   following=rows[:, None] + 1.0, terminated=0.0 * rows)  # fmt: skip
    assert len(replay) == 5
    found = replay.sample(200, np.random.default_rng(0))
    assert set(found["rewards"].tolist()) == {4.0, 5.0, 6.0, 7.0, 8.0}
    np.testing.assert_array_equal(found["following"][:, 0], found["rewards"] + 1.0)


def test_a_bandit_is_solved_at_the_required_entropy():
    """Reward is highest at 2 * 0.4; the policy ends there, and as random as it should be."""
    rng = np.random.default_rng(1)
    net = SquashedActor(1, 1, (16,), "relu", limit=2.0)
    config = SacConfig(gamma=0.0, learning_rate=3e-3, target_entropy=-0.5)
    learner = SacLearner(net, net.initial(rng), config)
    x = np.zeros((64, 1), np.float32)
    for _ in range(1200):
        a = rng.uniform(-1.0, 1.0, (64, 1)).astype(np.float32)
        rewards = (-4.0 * (a[:, 0] - 0.4) ** 2).astype(np.float32)
        found = learner.update(ReplayBatch(x, a, rewards, x, np.ones(64, np.float32)), rng)
    assert net.mean(learner.flat, x[:1])[0, 0] == pytest.approx(0.8, abs=0.1)
    assert found.entropy == pytest.approx(-0.5, abs=0.3)
    value = net.values(learner.flat[net.actor.parameter_count :], x[:1], np.full((1, 1), 0.4))
    assert value[0][-1][0, 0] == pytest.approx(0.0, abs=0.15)


def test_losses_that_are_not_finite_change_nothing():
    flat, batch, rng = case(0)
    learner = SacLearner(NET, flat, SacConfig())
    bad = ReplayBatch(**{**vars(batch), "rewards": np.full(9, np.inf)})
    with pytest.raises(TrainingDiverged):
        learner.update(bad, rng)
    np.testing.assert_array_equal(learner.flat, flat)
