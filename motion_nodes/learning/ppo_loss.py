# SPDX-License-Identifier: Apache-2.0
"""Loss of proximal policy optimization and its gradient.

Source: Schulman et al. 2017, arXiv:1707.06347, with the clipped value loss of its first
implementation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.learning.actor_critic import ActorCritic, entropy, log_probability
from motion_nodes.learning.mlp import Floats


@dataclass(frozen=True)
class TrainingBatch:
    """Steps of rollouts; observations are normalized."""

    observations: Floats
    """Shape (m, observation_size)."""
    actions: Floats
    """Shape (m, action_size)."""
    log_probabilities: Floats
    """Of the actions under the policy that took them, shape (m,)."""
    values: Floats
    """Estimates of the value function at that time, shape (m,)."""
    advantages: Floats
    """Shape (m,)."""
    returns: Floats
    """Shape (m,)."""

    def rows(self, index: Floats) -> TrainingBatch:
        """Return a selection of steps."""
        return TrainingBatch(*(getattr(self, name)[index] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class PpoLoss:
    """Loss and its parts."""

    total: float
    policy: float
    value: float
    entropy: float
    kl: float
    """Estimated Kullback-Leibler divergence from the old to the new policy [nat]:
    mean of ``ratio - 1 - log ratio`` (Schulman, http://joschu.net/blog/kl-approx.html)."""
    clipped: float
    """Fraction of steps with a clipped ratio."""


def ppo_loss(
    net: ActorCritic,
    flat: Floats,
    batch: TrainingBatch,
    *,
    clip: float,
    value_clip: float,
    value_weight: float,
    entropy_weight: float,
) -> tuple[PpoLoss, Floats]:
    """Return the loss of a batch and its gradient.

    ``L = -mean min(r A, clip(r) A) + value_weight/2 mean max((V-R)^2, (V_clip-R)^2) -
    entropy_weight H``, where ``V_clip`` is within ``value_clip`` of the old estimate.

    Args:
        net: structure of policy and value function.
        flat: parameters.
        batch: m steps.
        clip: allowed deviation of the probability ratio from 1.
        value_clip: allowed change of a value estimate; infinity: not clipped.
        value_weight: weight of the value loss.
        entropy_weight: weight of the entropy.

    Returns:
        the loss, and the gradient in the layout of ``flat``.
    """
    m = len(batch.observations)
    grad = np.zeros_like(flat)
    actor, log_std, critic = net.parts(flat)
    d_actor, d_log_std, d_critic = net.parts(grad)

    passes = net.actor.forward(actor, batch.observations)
    std = np.exp(log_std)
    noise = (batch.actions - passes[-1]) / std
    log_ratio = np.clip(log_probability(noise, log_std) - batch.log_probabilities, -20.0, 20.0)
    ratio, A = np.exp(log_ratio), batch.advantages
    free, limited = ratio * A, np.clip(ratio, 1.0 - clip, 1.0 + clip) * A
    # The clipped branch is constant: only steps on the other one have a gradient.
    d_log_probability = np.where(free <= limited, -free / m, 0.0)[:, None]
    net.actor.backward(actor, passes, d_log_probability * noise / std, d_actor)
    d_log_std[:] = (d_log_probability * (noise * noise - 1.0)).sum(axis=0) - entropy_weight

    passes = net.critic.forward(critic, batch.observations)
    V = passes[-1][:, 0]
    error = V - batch.returns
    near = batch.values + np.clip(V - batch.values, -value_clip, value_clip) - batch.returns
    followed = (np.abs(V - batch.values) <= value_clip) | (error**2 >= near**2)
    d_value = np.where(followed, value_weight / m * error, 0.0)
    net.critic.backward(critic, passes, d_value[:, None].astype(flat.dtype), d_critic)

    policy_loss = -float(np.minimum(free, limited).mean())
    value_loss = 0.5 * float(np.maximum(error**2, near**2).mean())
    H = entropy(log_std)
    return (
        PpoLoss(
            total=policy_loss + value_weight * value_loss - entropy_weight * H,
            policy=policy_loss,
            value=value_loss,
            entropy=H,
            kl=float((ratio - 1.0 - log_ratio).mean()),
            clipped=float((np.abs(ratio - 1.0) > clip).mean()),
        ),
        grad,
    )
