# SPDX-License-Identifier: Apache-2.0
"""Gaussian policy with state-independent standard deviations, and a separate value function."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from motion_nodes.learning.mlp import Floats, Mlp

LOG_STD_RANGE = (-4.0, 1.0)
"""Allowed logarithms of standard deviations."""
_LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class ActorCritic:
    """Structure of policy and value function; parameters are one flat vector.

    Layout: actor, logarithms of the standard deviations, critic.
    """

    observation_size: int
    action_size: int
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers, of the policy and of the value function."""
    activation: str = "tanh"

    @property
    def actor(self) -> Mlp:
        """The policy's mean: observations to actions."""
        return Mlp((self.observation_size, *self.hidden, self.action_size), self.activation)

    @property
    def critic(self) -> Mlp:
        """The value function: observations to a number."""
        return Mlp((self.observation_size, *self.hidden, 1), self.activation)

    @property
    def parameter_count(self) -> int:
        """Length of the flat vector of parameters."""
        return self.actor.parameter_count + self.action_size + self.critic.parameter_count

    def parts(self, flat: Floats) -> tuple[Floats, Floats, Floats]:
        """Return views of the actor's parameters, ``log_std`` and the critic's parameters."""
        a = self.actor.parameter_count
        return flat[:a], flat[a : a + self.action_size], flat[a + self.action_size :]

    def initial(self, rng: np.random.Generator, log_std: float) -> Floats:
        """Return initial parameters: means near zero, orthogonal weights, float32.

        Args:
            rng: source of randomness.
            log_std: logarithm of all standard deviations.
        """
        flat = np.zeros(self.parameter_count, np.float32)
        actor, stds, critic = self.parts(flat)
        self.actor.initialize(actor, rng, 0.01)
        self.critic.initialize(critic, rng, 1.0)
        stds[:] = log_std
        return flat

    def mean(self, flat: Floats, observations: Floats) -> Floats:
        """Return the deterministic actions, shape (m, action_size), of normalized observations."""
        return self.actor.forward(self.parts(flat)[0], observations)[-1]

    def value(self, flat: Floats, observations: Floats) -> Floats:
        """Return estimated returns, shape (m,), of normalized observations, shape (m, n)."""
        return self.critic.forward(self.parts(flat)[2], observations)[-1][:, 0]

    def sample(
        self, flat: Floats, observations: Floats, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Return random actions (m, action_size) and their log probabilities (m,)."""
        mean, log_std = self.mean(flat, observations), self.parts(flat)[1]
        noise = rng.standard_normal(mean.shape, dtype=np.float32)
        return mean + np.exp(log_std) * noise, log_probability(noise, log_std)


def log_probability(noise: Floats, log_std: Floats) -> Floats:
    """Return log densities of a diagonal Gaussian.

    Args:
        noise: (action - mean) / std, shape (m, n).
        log_std: shape (n,).
    """
    constant = log_std.sum() + 0.5 * _LOG_2PI * noise.shape[1]
    density: Floats = -0.5 * (noise * noise).sum(axis=1) - constant
    return density


def entropy(log_std: Floats) -> float:
    """Return the differential entropy of a diagonal Gaussian [nat]."""
    return float(log_std.sum()) + 0.5 * len(log_std) * (_LOG_2PI + 1.0)
