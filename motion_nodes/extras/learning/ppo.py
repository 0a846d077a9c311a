# SPDX-License-Identifier: Apache-2.0
"""Updates of proximal policy optimization: minibatches, Adam, and early stopping on divergence.

Loss of proximal policy optimization and its gradient. Source: Schulman et al. 2017,
arXiv:1707.06347, with the clipped value loss of its first implementation.

Generalized advantage estimation (Schulman et al. 2015, arXiv:1506.02438).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.extras.learning.networks import (
    LOG_STD_RANGE,
    ActorCritic,
    Adam,
    Floats,
    entropy,
    log_probability,
)
from motion_nodes.settings import check_settings, setting

_RATE_RANGE, _RATE_STEP = (1e-5, 1e-2), 1.5


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
    net: ActorCritic, flat: Floats, batch: TrainingBatch, config: PpoConfig
) -> tuple[PpoLoss, Floats]:
    """Return the loss of a batch and its gradient.

    ``L = -mean min(r A, clip(r) A) + value_weight/2 mean max((V-R)^2, (V_clip-R)^2) -
    entropy_weight H``, where ``V_clip`` is within ``value_clip`` of the old estimate.

    Args:
        net: structure of policy and value function.
        flat: parameters.
        batch: m steps.
        config: clips of ratio and value estimates, and weights of value loss and entropy.

    Returns:
        the loss, and the gradient in the layout of ``flat``.
    """
    m = len(batch.observations)
    clip, value_clip = config.clip, config.value_clip
    value_weight, entropy_weight = config.value_weight, config.entropy_weight
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


class TrainingDiverged(MotionError, ArithmeticError):
    """Observations, rewards, losses or gradients are not finite."""


@dataclass(frozen=True, kw_only=True)
class PpoConfig:
    """Settings of proximal policy optimization.

    Raises:
        InvalidConfig: a value out of range.
    """

    learning_rate: float = setting(3e-4, doc="Initial step size of Adam.", gt=0.0, le=1.0)
    gamma: float = setting(0.99, doc="Discount factor.", ge=0.0, le=1.0)
    lam: float = setting(0.95, doc="Decay of advantage estimation.", ge=0.0, le=1.0)
    clip: float = setting(0.2, doc="Allowed deviation of probability ratios from 1.", gt=0.0)
    value_clip: float = setting(
        0.2, doc="Allowed change of value estimates per update.", gt=0.0, inf=True
    )
    value_weight: float = setting(0.5, doc="Weight of the value loss.", ge=0.0)
    entropy_weight: float = setting(0.0, doc="Weight of the policy's entropy.", ge=0.0)
    max_grad_norm: float = setting(0.5, doc="Max norm of the gradient.", gt=0.0, inf=True)
    epochs: int = setting(5, doc="Passes over a rollout.", ge=1)
    minibatches: int = setting(4, doc="Parts of a rollout per pass.", ge=1)
    target_kl: float = setting(
        0.01,
        doc="Divergence per update that the step size is adapted to; at four times this value "
        "the update ends early.", unit="nat", gt=0.0, inf=True,
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Validate the values."""
        check_settings(self)


class PpoLearner:
    """Parameters of a policy with the state of their optimizer."""

    def __init__(self, net: ActorCritic, flat: Floats, config: PpoConfig) -> None:
        """Create the optimizer.

        Args:
            net: structure of policy and value function.
            flat: initial parameters, copied.
            config: settings.
        """
        self.net, self.config = net, config
        self.flat = flat.copy()
        self.adam = Adam(self.flat)
        self.learning_rate = config.learning_rate

    def update(self, batch: TrainingBatch, rng: np.random.Generator, share: float = 1.0) -> PpoLoss:
        """Improve the policy by the steps of one rollout.

        Args:
            batch: the steps.
            rng: shuffles them.
            share: of ``target_kl`` that this update is to have, above 0.

        Returns:
            mean loss of the minibatches.

        Raises:
            TrainingDiverged: the loss or gradient is not finite; parameters are kept.
        """
        losses: list[PpoLoss] = []
        kl, target = 0.0, share * self.config.target_kl
        size = -(-len(batch.observations) // self.config.minibatches)
        for _ in range(self.config.epochs):
            order = rng.permutation(len(batch.observations))
            epoch = [
                self._step(batch.rows(order[start : start + size]))
                for start in range(0, len(order), size)
            ]
            losses += epoch
            kl = float(np.mean([loss.kl for loss in epoch]))
            if kl > 4.0 * target:
                break
        self._adapt_rate(kl, target)
        return PpoLoss(*(float(np.mean([getattr(x, f) for x in losses])) for f in vars(losses[0])))

    def _step(self, batch: TrainingBatch) -> PpoLoss:
        """Take one step of Adam with a gradient of limited norm."""
        A = batch.advantages
        normal = TrainingBatch(**{**vars(batch), "advantages": (A - A.mean()) / (A.std() + 1e-8)})
        loss, grad = ppo_loss(self.net, self.flat, normal, self.config)
        norm = float(np.linalg.norm(grad))
        if not np.isfinite(norm + loss.total):
            raise TrainingDiverged(
                f"loss {loss.total} or gradient norm {norm} is not finite after "
                f"{self.adam.updates} steps; reduce learning_rate, and check rewards and "
                "observations of the task."
            )
        if norm > self.config.max_grad_norm:
            grad *= self.config.max_grad_norm / norm
        self.adam.step(self.flat, grad, self.learning_rate)
        log_std = self.net.parts(self.flat)[1]
        np.clip(log_std, *LOG_STD_RANGE, out=log_std)
        return loss

    def _adapt_rate(self, kl: float, target: float) -> None:
        """Adapt the step size so that an update changes the policy by ``target`` [nat]."""
        if not np.isfinite(target):
            return
        factor = 1 / _RATE_STEP if kl > 2.0 * target else _RATE_STEP if kl < 0.5 * target else 1.0
        self.learning_rate = float(np.clip(self.learning_rate * factor, *_RATE_RANGE))


def gae(
    rewards: Floats,
    values: Floats,
    next_values: Floats,
    terminated: Floats,
    ended: Floats,
    config: PpoConfig,
) -> tuple[Floats, Floats]:
    """Return advantages and returns of consecutive steps.

    ``delta_t = r_t + gamma (1 - terminated_t) V'_t - V_t`` and
    ``A_t = delta_t + gamma lam (1 - ended_t) A_{t+1}``. A terminated episode has no future
    rewards; those of a truncated one (time limit, end of the rollout) are estimated by ``V'``.

    Args:
        rewards: shape (steps, ...).
        values: estimates ``V_t`` of the observations before each step, same shape.
        next_values: estimates ``V'_t`` of the observations after it, before any reset, same shape.
        terminated: 1 where the episode reached a terminal state, same shape.
        ended: 1 where the next row belongs to another episode: terminated or truncated.
        config: discount factor ``gamma`` and decay ``lam``.

    Returns:
        advantages and returns (advantages + values), same shape.

    Raises:
        InvalidConfig: different shapes.
    """
    shapes = {np.shape(x) for x in (rewards, values, next_values, terminated, ended)}
    if len(shapes) != 1 or not np.ndim(rewards):
        raise InvalidConfig(f"arrays of steps must have one shape, got {sorted(shapes)}.")
    gamma, lam = config.gamma, config.lam
    delta = rewards + gamma * (1.0 - terminated) * next_values - values
    advantages, following = np.empty_like(delta), np.zeros_like(delta[0])
    for t in reversed(range(len(delta))):
        following = delta[t] + gamma * lam * (1.0 - ended[t]) * following
        advantages[t] = following
    return advantages, advantages + values
