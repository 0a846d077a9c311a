# SPDX-License-Identifier: Apache-2.0
"""Updates of proximal policy optimization: minibatches, Adam, and early stopping on divergence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import MotionError
from motion_nodes.learning.actor_critic import LOG_STD_RANGE, ActorCritic
from motion_nodes.learning.mlp import Floats
from motion_nodes.learning.ppo_loss import PpoLoss, TrainingBatch, ppo_loss
from motion_nodes.model.setting import check_settings, setting

_RATE_RANGE, _RATE_STEP = (1e-5, 1e-2), 1.5
_BETAS, _EPS = (0.9, 0.999), 1e-8


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
        "the update ends early.",
        unit="nat",
        gt=0.0,
        inf=True,
    )

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
        self.moments = np.zeros((2, len(flat)), flat.dtype)
        self.updates = 0
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
        """Take one step of Adam (Kingma and Ba 2015) with a gradient of limited norm."""
        c = self.config
        A = batch.advantages
        normal = TrainingBatch(**{**vars(batch), "advantages": (A - A.mean()) / (A.std() + 1e-8)})
        loss, grad = ppo_loss(
            self.net,
            self.flat,
            normal,
            clip=c.clip,
            value_clip=c.value_clip,
            value_weight=c.value_weight,
            entropy_weight=c.entropy_weight,
        )
        norm = float(np.linalg.norm(grad))
        if not np.isfinite(norm + loss.total):
            raise TrainingDiverged(
                f"loss {loss.total} or gradient norm {norm} is not finite after {self.updates} "
                "steps; reduce learning_rate, and check rewards and observations of the task."
            )
        if norm > c.max_grad_norm:
            grad *= c.max_grad_norm / norm
        self.updates += 1
        first, second = self.moments
        first += (1.0 - _BETAS[0]) * (grad - first)
        second += (1.0 - _BETAS[1]) * (grad * grad - second)
        corrected = first / (1.0 - _BETAS[0] ** self.updates)
        scale = np.sqrt(second / (1.0 - _BETAS[1] ** self.updates)) + _EPS
        self.flat -= (self.learning_rate * corrected / scale).astype(self.flat.dtype)
        log_std = self.net.parts(self.flat)[1]
        np.clip(log_std, *LOG_STD_RANGE, out=log_std)
        return loss

    def _adapt_rate(self, kl: float, target: float) -> None:
        """Adapt the step size so that an update changes the policy by ``target`` [nat]."""
        if not np.isfinite(target):
            return
        factor = 1 / _RATE_STEP if kl > 2.0 * target else _RATE_STEP if kl < 0.5 * target else 1.0
        self.learning_rate = float(np.clip(self.learning_rate * factor, *_RATE_RANGE))
