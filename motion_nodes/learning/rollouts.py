# SPDX-License-Identifier: Apache-2.0
"""Rollouts of a policy in shards of environments, by any ``concurrent.futures`` executor.

Shards are independent and can be pickled, for threads, processes, or the executors of Dask and Ray.
Results do not depend on the worker or the order of execution.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, wait
from dataclasses import dataclass

import numpy as np

from motion_nodes.learning.actor_critic import ActorCritic
from motion_nodes.learning.advantages import gae
from motion_nodes.learning.environment import VectorEnvironment, check_step
from motion_nodes.learning.mlp import Floats
from motion_nodes.learning.ppo_loss import TrainingBatch
from motion_nodes.learning.running_norm import RunningNorm


@dataclass
class Shard:
    """Some environments with their observations and random numbers."""

    env: VectorEnvironment
    rng: np.random.Generator
    observations: Floats
    """Current observations, shape (n, observation_size)."""
    running_returns: Floats
    """Undiscounted sums of rewards of the current episodes, shape (n,)."""


@dataclass(frozen=True)
class ShardRollout:
    """Steps of a shard; arrays of shape (steps, n, ...)."""

    raw: Floats
    """Observations, not normalized."""
    batch: TrainingBatch
    """Flattened steps, with advantages and returns."""
    episode_returns: Floats
    """Undiscounted returns of the episodes that ended, shape (k,)."""
    episode_success: Floats
    """Whether they ended in success, shape (k,)."""


def new_shard(env: VectorEnvironment, rng: np.random.Generator) -> Shard:
    """Return a shard at the start of its episodes."""
    return Shard(env, rng, env.reset(), np.zeros(env.num_envs))


def roll_out(
    shard: Shard,
    net: ActorCritic,
    flat: Floats,
    norm: RunningNorm,
    steps: int,
    gamma: float,
    lam: float,
) -> tuple[Shard, ShardRollout]:
    """Run a policy for some steps in all environments of a shard.

    Args:
        shard: the environments; changed.
        net: structure of policy and value function.
        flat: their parameters.
        norm: normalization of observations, constant during the rollout.
        steps: steps per environment.
        gamma: discount factor.
        lam: decay of advantage estimation.

    Returns:
        the shard, to continue with (a copy, if another process ran it), and its steps.

    Raises:
        TrainingDiverged: the environments return wrong shapes or values that are not finite.
    """
    env, n = shard.env, shard.env.num_envs
    raw = np.empty((steps, n, env.observation_size), np.float32)
    following = np.empty_like(raw)
    normal = np.empty_like(raw)
    actions = np.empty((steps, n, env.action_size), np.float32)
    log_p, rewards, terminated, ended = np.empty((4, steps, n), np.float32)
    returns: list[Floats] = []
    success: list[Floats] = []
    for t in range(steps):
        raw[t], normal[t] = shard.observations, norm(shard.observations)
        actions[t], log_p[t] = net.sample(flat, normal[t], shard.rng)
        step = env.step(actions[t])
        check_step(env, step)
        rewards[t], terminated[t] = step.rewards, step.terminated
        done = np.asarray(step.terminated) | np.asarray(step.truncated)
        ended[t], following[t] = done, step.final_observations
        shard.running_returns += step.rewards
        returns.append(shard.running_returns[done])
        success.append(np.asarray(step.success)[done])
        shard.running_returns[done] = 0.0
        shard.observations = step.observations
    values = net.value(flat, normal.reshape(steps * n, -1)).reshape(steps, n)
    next_values = np.empty_like(values)
    next_values[:-1] = values[1:]
    # States after the last step and after ended episodes are evaluated separately: no row has them.
    other = ended > 0
    other[-1] = True
    next_values[other] = net.value(flat, norm(following[other]))
    advantages, targets = gae(rewards, values, next_values, terminated, ended, gamma=gamma, lam=lam)
    m = steps * n
    batch = TrainingBatch(
        *(x.reshape(m, -1) for x in (normal, actions)),
        *(x.reshape(m) for x in (log_p, values, advantages, targets)),
    )
    return shard, ShardRollout(raw, batch, np.concatenate(returns), np.concatenate(success))


def collect(
    executor: Executor,
    shards: Sequence[Shard],
    net: ActorCritic,
    flat: Floats,
    norm: RunningNorm,
    *,
    steps: int,
    gamma: float,
    lam: float,
) -> tuple[list[Shard], list[ShardRollout]]:
    """Run :func:`roll_out` for all shards on an executor.

    Args:
        executor: runs the shards; its ``submit`` returns futures.
        shards: the environments.
        net: structure of policy and value function.
        flat: their parameters.
        norm: normalization of observations.
        steps: steps per environment.
        gamma: discount factor.
        lam: decay of advantage estimation.

    Returns:
        shards and rollouts, in the order of ``shards``.
    """
    futures = [
        executor.submit(roll_out, shard, net, flat, norm, steps, gamma, lam) for shard in shards
    ]
    try:
        results = [future.result() for future in futures]
    except BaseException:
        # Threads change shards in place: they are read only after all threads have finished.
        wait(futures)
        raise
    return [shard for shard, _ in results], [rollout for _, rollout in results]


def joined(rollouts: Sequence[ShardRollout]) -> TrainingBatch:
    """Return the steps of all shards as one batch."""
    batches = [rollout.batch for rollout in rollouts]
    return TrainingBatch(
        *(
            np.concatenate([getattr(batch, name) for batch in batches])
            for name in TrainingBatch.__dataclass_fields__
        )
    )
