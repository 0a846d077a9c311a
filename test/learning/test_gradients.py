# SPDX-License-Identifier: Apache-2.0
"""Gradients of networks and of the PPO loss against finite differences, in double precision."""

import numpy as np
import pytest

from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.learning.learners import PpoConfig, TrainingBatch, ppo_loss
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
