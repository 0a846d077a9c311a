# SPDX-License-Identifier: Apache-2.0
"""Soft actor-critic: gradients against finite differences, densities, replay, a solved problem."""

import numpy as np
import pytest
from learning.test_gradients import finite_differences
from scipy.integrate import quad

from motion_nodes.extras.learning.learners import (
    Replay,
    ReplayBatch,
    SacConfig,
    SacLearner,
    SquashedActor,
    TrainingDiverged,
    actor_loss,
    critic_loss,
)

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
