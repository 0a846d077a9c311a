# SPDX-License-Identifier: Apache-2.0
"""Training loop: collect, update, report; and deterministic evaluation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np

from motion_nodes.learning.actor_critic import ActorCritic
from motion_nodes.learning.environment import VectorEnvironment, check_step
from motion_nodes.learning.mlp import Floats
from motion_nodes.learning.policy import Policy
from motion_nodes.learning.ppo import PpoConfig, PpoLearner
from motion_nodes.learning.rollouts import Shard, collect, joined, new_shard
from motion_nodes.learning.running_norm import RunningNorm
from motion_nodes.model.setting import check_settings, setting

MakeEnv = Callable[[int, int], VectorEnvironment]
"""Creates environments: (number, seed) -> environments."""


_FINAL_SHARE = 0.1
"""Share of ``target_kl`` at the end of annealing."""


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Settings of a training run.

    Raises:
        InvalidConfig: a value out of range.
    """

    num_envs: int = setting(64, doc="Environments in all shards.", ge=1)
    shards: int = setting(2, doc="Number of independent parts, each run by one worker.", ge=1)
    rollout_steps: int = setting(32, doc="Steps per environment and update.", ge=1)
    seed: int = setting(0, doc="Seed of all random numbers.", ge=0)
    anneal_steps: float = setting(
        math.inf,
        doc="Steps of all environments over which the divergence per update, `target_kl`, "
        "decreases linearly to a tenth, where it stays.",
        gt=0.0,
        inf=True,
    )
    log_std: float = setting(-0.7, doc="Initial logarithm of the standard deviations.")
    hidden: tuple[int, ...] = (128, 128)
    activation: str = "tanh"
    ppo: PpoConfig = field(default_factory=PpoConfig)

    def __post_init__(self) -> None:
        """Validate the values."""
        check_settings(self)

    def kl_share(self, steps: int) -> float:
        """Return the share of ``target_kl`` that an update after some steps is to have."""
        return max(_FINAL_SHARE, 1.0 - (1.0 - _FINAL_SHARE) * steps / self.anneal_steps)


@dataclass(frozen=True)
class TrainingProgress:
    """Figures after an update."""

    iteration: int
    steps: int
    """Steps of all environments so far."""
    seconds: float
    """Duration of training so far [s]."""
    mean_return: float
    """Undiscounted, of the episodes that ended during the last rollout; NaN: none."""
    success: float
    """Fraction of them that ended in success; NaN: none ended."""
    policy_loss: float
    value_loss: float
    entropy: float
    kl: float
    clipped: float
    learning_rate: float


@dataclass(frozen=True)
class Evaluation:
    """Result of a deterministic evaluation."""

    episodes: int
    mean_return: float
    success: float
    """Fraction of episodes that ended in success."""
    mean_steps: float
    """Mean length of an episode."""


class Trainer:
    """State of a training run: environments, policy, normalization, optimizer, random numbers.

    Two runs with the same settings and seed give the same numbers, on any executor.
    """

    def __init__(self, make_env: MakeEnv, config: TrainingConfig) -> None:
        """Create environments and an untrained policy.

        Args:
            make_env: creates environments.
            config: settings.
        """
        self.config = config
        seeds = np.random.SeedSequence(config.seed).spawn(2 + 2 * config.shards)
        self.rng = np.random.default_rng(seeds[0])
        self.shards: list[Shard] = []
        for k in range(config.shards):
            count = (config.num_envs + k) // config.shards
            if count:
                seed = int(seeds[2 + 2 * k].generate_state(1)[0])
                rng = np.random.default_rng(seeds[3 + 2 * k])
                self.shards.append(new_shard(make_env(count, seed), rng))
        env = self.shards[0].env
        self.task = env.name
        net = ActorCritic(env.observation_size, env.action_size, config.hidden, config.activation)
        flat = net.initial(np.random.default_rng(seeds[1]), config.log_std)
        self.learner = PpoLearner(net, flat, config.ppo)
        self.norm = RunningNorm(env.observation_size)
        self.iteration, self.steps, self.seconds = 0, 0, 0.0

    @property
    def policy(self) -> Policy:
        """The deterministic policy of the current parameters."""
        return Policy(self.learner.net, self.learner.flat.copy(), self.norm)

    def iterate(self, executor: Executor) -> TrainingProgress:
        """Collect one rollout and update the policy.

        Args:
            executor: runs the shards.

        Raises:
            TrainingDiverged: observations, rewards or the loss are not finite.
        """
        begin, c = time.perf_counter(), self.config
        self.shards, rollouts = collect(
            executor,
            self.shards,
            self.learner.net,
            self.learner.flat,
            self.norm,
            steps=c.rollout_steps,
            gamma=c.ppo.gamma,
            lam=c.ppo.lam,
        )
        batch = joined(rollouts)
        loss = self.learner.update(batch, self.rng, c.kl_share(self.steps))
        for rollout in rollouts:
            self.norm.update(rollout.raw.reshape(-1, rollout.raw.shape[-1]))
        self.iteration += 1
        self.steps += len(batch.observations)
        self.seconds += time.perf_counter() - begin
        returns = np.concatenate([rollout.episode_returns for rollout in rollouts])
        success = np.concatenate([rollout.episode_success for rollout in rollouts])
        return TrainingProgress(
            iteration=self.iteration,
            steps=self.steps,
            seconds=self.seconds,
            mean_return=float(returns.mean()) if len(returns) else float("nan"),
            success=float(success.mean()) if len(success) else float("nan"),
            policy_loss=loss.policy,
            value_loss=loss.value,
            entropy=loss.entropy,
            kl=loss.kl,
            clipped=loss.clipped,
            learning_rate=self.learner.learning_rate,
        )


def evaluate(policy: Callable[[Floats], Floats], env: VectorEnvironment) -> Evaluation:
    """Run one episode in each environment with deterministic actions.

    Args:
        policy: observations (n, observation_size) to actions (n, action_size).
        env: environments, reset first.

    Raises:
        TrainingDiverged: the environments return values that are not finite.
    """
    observations, n = env.reset(), env.num_envs
    running, returns, success, steps = np.ones(n, bool), np.zeros(n), np.zeros(n, bool), 0
    while running.any():
        step = env.step(policy(observations))
        check_step(env, step)
        returns += np.where(running, step.rewards, 0.0)
        success = np.where(running, step.success, success)
        steps += int(running.sum())
        running &= ~(np.asarray(step.terminated) | np.asarray(step.truncated))
        observations = step.observations
    return Evaluation(n, float(returns.mean()), float(success.mean()), steps / n)
