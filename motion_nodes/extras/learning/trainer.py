# SPDX-License-Identifier: Apache-2.0
"""Training loop: collect, update, report; and deterministic evaluation.

A policy is rolled out in shards of environments, by any ``concurrent.futures`` executor. Shards are
independent and can be pickled, for threads, processes, or the executors of Dask and Ray. Results do
not depend on the worker or the order of execution.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.extras.learning.learners import (
    PpoConfig,
    PpoLearner,
    Replay,
    ReplayBatch,
    SacConfig,
    SacLearner,
    SquashedActor,
    TrainingBatch,
    TrainingDiverged,
    gae,
)
from motion_nodes.extras.learning.networks import ActorCritic, Floats, Policy, RunningNorm
from motion_nodes.settings import check_settings, setting

R = TypeVar("R")
ALGORITHMS = ("ppo", "sac")
_FINAL_SHARE = 0.1
"""Share of ``target_kl`` at the end of annealing."""


@dataclass(frozen=True)
class EnvStep:
    """Result of one step of n environments; ended episodes are reset at once."""

    observations: Floats
    """Observations for the next action, shape (n, observation_size)."""
    final_observations: Floats
    """Observations after the step, before resets, same shape."""
    rewards: Floats
    """Shape (n,)."""
    terminated: Floats
    """Whether a terminal state was reached, shape (n,)."""
    truncated: Floats
    """Whether the time limit was reached, shape (n,)."""
    success: Floats
    """Whether the state after the step is a success, shape (n,)."""


class VectorEnvironment(Protocol):
    """n independent environments that are stepped together."""

    name: str
    """Name of the task, stored in checkpoints."""
    num_envs: int
    observation_size: int
    action_size: int

    def reset(self) -> Floats:
        """Start new episodes everywhere; return observations, shape (n, observation_size)."""

    def step(self, actions: Floats) -> EnvStep:
        """Apply actions, shape (n, action_size)."""

    def state(self) -> dict[str, Floats]:
        """Return the complete state, including that of the random generator, as arrays."""

    def restore(self, state: dict[str, Floats]) -> None:
        """Continue from a state of :meth:`state`."""


def checked_actions(actions: Floats, n: int, size: int) -> Floats:
    """Return finite actions as an array.

    Raises:
        InvalidConfig: not finite, or not of shape (n, size).
    """
    actions = np.asarray(actions, dtype=np.float64)
    if actions.shape != (n, size):
        raise InvalidConfig(f"actions have shape {actions.shape}; expected ({n}, {size}).")
    if not np.isfinite(actions).all():
        row = int(np.argmin(np.isfinite(actions).all(axis=1)))
        raise InvalidConfig(f"actions of environment {row} are not finite: {actions[row]}.")
    return actions


def check_step(env: VectorEnvironment, step: EnvStep) -> None:
    """Validate shapes and values for the learner.

    Raises:
        TrainingDiverged: a wrong shape, or a value that is not finite; names the environment.
    """
    n = env.num_envs
    for what, shape in (
        ("observations", (n, env.observation_size)),
        ("final_observations", (n, env.observation_size)),
        ("rewards", (n,)),
    ):
        values = np.asarray(getattr(step, what))
        if values.shape != shape:
            raise TrainingDiverged(
                f"task '{env.name}': {what} have shape {values.shape}; expected {shape}."
            )
        finite = np.isfinite(values.reshape(n, -1)).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            raise TrainingDiverged(
                f"task '{env.name}': {what} of environment {row} are not finite: {values[row]}."
            )


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
    shard: Shard, net: ActorCritic, flat: Floats, norm: RunningNorm, steps: int, config: PpoConfig
) -> tuple[Shard, ShardRollout]:
    """Run a policy for some steps in all environments of a shard.

    Args:
        shard: the environments; changed.
        net: structure of policy and value function.
        flat: their parameters.
        norm: normalization of observations, constant during the rollout.
        steps: steps per environment.
        config: settings of the advantage estimation.

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
    advantages, targets = gae(rewards, values, next_values, terminated, ended, config)
    m = steps * n
    batch = TrainingBatch(
        *(x.reshape(m, -1) for x in (normal, actions)),
        *(x.reshape(m) for x in (log_p, values, advantages, targets)),
    )
    return shard, ShardRollout(raw, batch, np.concatenate(returns), np.concatenate(success))


def _run_all(
    executor: Executor, jobs: Iterable[Callable[[], tuple[Shard, R]]]
) -> tuple[list[Shard], list[R]]:
    """Return shards and results of jobs on an executor."""
    futures = [executor.submit(job) for job in jobs]
    try:
        results = [future.result() for future in futures]
    except BaseException:
        # Threads change shards in place: they are read only after all threads have finished.
        wait(futures)
        raise
    return [shard for shard, _ in results], [result for _, result in results]


@dataclass(frozen=True)
class ShardExploration:
    """Steps of a shard for a replay; arrays of shape (steps * n, ...)."""

    rows: dict[str, Floats]
    """As :class:`~.learners.Replay`; observations are not normalized."""
    episode_returns: Floats
    episode_success: Floats


def explore(
    shard: Shard, net: SquashedActor, actor: Floats | None, norm: RunningNorm, steps: int
) -> tuple[Shard, ShardExploration]:
    """Run a random policy for some steps in all environments of a shard.

    Args:
        shard: the environments; changed.
        net: structure of the policy.
        actor: its parameters; None: actions are uniform.
        norm: normalization of observations.
        steps: steps per environment.

    Returns:
        the shard, to continue with, and its steps.

    Raises:
        TrainingDiverged: the environments return wrong shapes or values that are not finite.
    """
    env, n = shard.env, shard.env.num_envs
    found: dict[str, list[Floats]] = {
        name: [] for name in ("observations", "actions", "rewards", "following", "terminated")
    }
    returns: list[Floats] = []
    success: list[Floats] = []
    for _ in range(steps):
        if actor is None:
            squashed = shard.rng.uniform(-1.0, 1.0, (n, env.action_size))
        else:
            noise = shard.rng.standard_normal((n, env.action_size), dtype=np.float32)
            squashed = net.squashed(actor, norm(shard.observations), noise).actions
        step = env.step(net.limit * squashed)
        check_step(env, step)
        rows = (shard.observations, squashed, step.rewards, step.final_observations,
                step.terminated)  # fmt: skip
        for values, row in zip(found.values(), rows, strict=True):
            values.append(np.asarray(row, np.float32))
        done = np.asarray(step.terminated) | np.asarray(step.truncated)
        shard.running_returns += step.rewards
        returns.append(shard.running_returns[done])
        success.append(np.asarray(step.success)[done])
        shard.running_returns[done] = 0.0
        shard.observations = step.observations
    arrays = {name: np.concatenate(values) for name, values in found.items()}
    return shard, ShardExploration(arrays, np.concatenate(returns), np.concatenate(success))


def joined(rollouts: Sequence[ShardRollout]) -> TrainingBatch:
    """Return the steps of all shards as one batch."""
    batches = [rollout.batch for rollout in rollouts]
    return TrainingBatch(
        *(
            np.concatenate([getattr(batch, name) for batch in batches])
            for name in TrainingBatch.__dataclass_fields__
        )
    )


MakeEnv = Callable[[int, int], VectorEnvironment]
"""Creates environments: (number, seed) -> environments."""


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
        "decreases linearly to a tenth, where it stays.", gt=0.0, inf=True,
    )  # fmt: skip
    log_std: float = setting(-0.7, doc="Initial logarithm of the standard deviations.")
    hidden: tuple[int, ...] = (128, 128)
    activation: str = "tanh"
    algorithm: str = "ppo"
    """One of :data:`ALGORITHMS`."""
    ppo: PpoConfig = field(default_factory=PpoConfig)
    sac: SacConfig = field(default_factory=SacConfig)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.algorithm not in ALGORITHMS:
            raise InvalidConfig(
                f"algorithm is '{self.algorithm}'.{did_you_mean(self.algorithm, ALGORITHMS)}",
                field="algorithm",
            )

    def net(self, observation_size: int, action_size: int) -> ActorCritic | SquashedActor:
        """Return the structure of the policy and its values."""
        sizes = (observation_size, action_size, self.hidden, self.activation)
        if self.algorithm == "sac":
            return SquashedActor(*sizes, limit=self.sac.action_limit)
        return ActorCritic(*sizes)

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


class TrainingLoop:
    """State of a training run: environments, policy, normalization, optimizer, random numbers.

    Two runs with the same settings and seed give the same numbers, on any executor.
    """

    learner: PpoLearner | SacLearner

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
        self.norm = RunningNorm(env.observation_size)
        self.iteration, self.steps, self.seconds = 0, 0, 0.0
        self._begin(env, np.random.default_rng(seeds[1]))

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
        begin = time.perf_counter()
        raw, returns, success, figures = self._improve(executor)
        for rows in raw:
            self.norm.update(rows)
        self.iteration += 1
        self.steps += sum(len(rows) for rows in raw)
        self.seconds += time.perf_counter() - begin
        return TrainingProgress(
            iteration=self.iteration,
            steps=self.steps,
            seconds=self.seconds,
            mean_return=float(returns.mean()) if len(returns) else float("nan"),
            success=float(success.mean()) if len(success) else float("nan"),
            **figures,
        )

    def learner_state(self, *, resumable: bool = True) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Return numbers and arrays of the learner.

        Args:
            resumable: include what only the continuation of the run needs.
        """
        raise NotImplementedError

    def restore_learner(self, about: dict[str, Any], arrays: dict[str, Floats]) -> None:
        """Continue from a state of :meth:`learner_state`; missing parts raise ``KeyError``."""
        raise NotImplementedError

    def _begin(self, env: VectorEnvironment, rng: np.random.Generator) -> None:
        """Create the learner."""
        raise NotImplementedError

    def _improve(self, executor: Executor) -> tuple[list[Floats], Floats, Floats, dict[str, float]]:
        """Collect and update; return observations, returns, success and figures."""
        raise NotImplementedError


class Trainer(TrainingLoop):
    """Proximal policy optimization."""

    learner: PpoLearner

    def learner_state(self, *, resumable: bool = True) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Return numbers and arrays of the learner."""
        learner = self.learner
        about = {"learning_rate": learner.learning_rate, "updates": learner.adam.updates}
        return about, {"flat": learner.flat, "moments": learner.adam.moments}

    def restore_learner(self, about: dict[str, Any], arrays: dict[str, Floats]) -> None:
        """Continue from a state of :meth:`learner_state`."""
        learner = self.learner
        learner.flat, learner.adam.moments = arrays["flat"], arrays["moments"]
        learner.adam.updates, learner.learning_rate = about["updates"], about["learning_rate"]

    def _begin(self, env: VectorEnvironment, rng: np.random.Generator) -> None:
        net = self.config.net(env.observation_size, env.action_size)
        assert isinstance(net, ActorCritic)
        self.learner = PpoLearner(net, net.initial(rng, self.config.log_std), self.config.ppo)

    def _improve(self, executor: Executor) -> tuple[list[Floats], Floats, Floats, dict[str, float]]:
        c, learner = self.config, self.learner
        jobs = (
            partial(roll_out, shard, learner.net, learner.flat, self.norm, c.rollout_steps, c.ppo)
            for shard in self.shards
        )
        self.shards, rollouts = _run_all(executor, jobs)
        loss = learner.update(joined(rollouts), self.rng, c.kl_share(self.steps))
        figures = {
            "policy_loss": loss.policy,
            "value_loss": loss.value,
            "entropy": loss.entropy,
            "kl": loss.kl,
            "clipped": loss.clipped,
            "learning_rate": learner.learning_rate,
        }
        return (
            [rollout.raw.reshape(-1, rollout.raw.shape[-1]) for rollout in rollouts],
            np.concatenate([rollout.episode_returns for rollout in rollouts]),
            np.concatenate([rollout.episode_success for rollout in rollouts]),
            figures,
        )


class SacTrainer(TrainingLoop):
    """Soft actor-critic; ``kl`` and ``clipped`` of its figures are NaN."""

    learner: SacLearner

    def learner_state(self, *, resumable: bool = True) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Return numbers and arrays of the learner, with the replay if it is to be resumed."""
        learner, replay = self.learner, self.replay
        about = {
            "updates": learner.adam.updates,
            "temperature_updates": learner.temperature_adam.updates,
            "replayed": replay.added,
        }
        arrays = {
            "flat": learner.flat,
            "moments": learner.adam.moments,
            "slow": learner.slow,
            "log_temperature": learner.log_temperature,
            "temperature_moments": learner.temperature_adam.moments,
        }
        if resumable:
            kept = len(replay)
            arrays |= {f"replay.{name}": a[:kept] for name, a in replay.arrays.items()}
        return about, arrays

    def restore_learner(self, about: dict[str, Any], arrays: dict[str, Floats]) -> None:
        """Continue from a state of :meth:`learner_state`."""
        learner = self.learner
        learner.flat, learner.slow = arrays["flat"], arrays["slow"]
        learner.adam.moments, learner.adam.updates = arrays["moments"], about["updates"]
        learner.log_temperature = arrays["log_temperature"]
        learner.temperature_adam.moments = arrays["temperature_moments"]
        learner.temperature_adam.updates = about["temperature_updates"]
        self.replay.added = about["replayed"]
        for name, values in self.replay.arrays.items():
            values[: len(self.replay)] = arrays[f"replay.{name}"]

    def _begin(self, env: VectorEnvironment, rng: np.random.Generator) -> None:
        net = self.config.net(env.observation_size, env.action_size)
        assert isinstance(net, SquashedActor)
        self.learner = SacLearner(net, net.initial(rng), self.config.sac)
        rollout = self.config.num_envs * self.config.rollout_steps
        size = max(self.config.sac.replay, rollout)
        self.replay = Replay(size, env.observation_size, env.action_size)

    def _improve(self, executor: Executor) -> tuple[list[Floats], Floats, Floats, dict[str, float]]:
        c, learner = self.config.sac, self.learner
        warm = len(self.replay) >= c.warm_up
        actor = learner.net.parts(learner.flat)[0].copy() if warm else None
        jobs = (
            partial(explore, shard, learner.net, actor, self.norm, self.config.rollout_steps)
            for shard in self.shards
        )
        self.shards, found = _run_all(executor, jobs)
        for exploration in found:
            self.replay.add(**exploration.rows)
        count = sum(len(exploration.rows["rewards"]) for exploration in found)
        losses = [
            learner.update(self._batch(c.batch), self.rng)
            for _ in range(max(1, round(count * c.updates_per_step)) if warm else 0)
        ]
        nan = float("nan")
        figures = {
            "policy_loss": float(np.mean([x.policy for x in losses])) if losses else nan,
            "value_loss": float(np.mean([x.value for x in losses])) if losses else nan,
            "entropy": float(np.mean([x.entropy for x in losses])) if losses else nan,
            "kl": nan,
            "clipped": nan,
            "learning_rate": c.learning_rate,
        }
        return (
            [exploration.rows["observations"] for exploration in found],
            np.concatenate([exploration.episode_returns for exploration in found]),
            np.concatenate([exploration.episode_success for exploration in found]),
            figures,
        )

    def _batch(self, count: int) -> ReplayBatch:
        """Return random steps of the replay, normalized as they are now."""
        rows = self.replay.sample(count, self.rng)
        for name in ("observations", "following"):
            rows[name] = self.norm(rows[name])
        return ReplayBatch(**rows)


def new_trainer(make_env: MakeEnv, config: TrainingConfig) -> TrainingLoop:
    """Return a new training run by the algorithm of its settings.

    Args:
        make_env: creates environments.
        config: settings.
    """
    return (SacTrainer if config.algorithm == "sac" else Trainer)(make_env, config)


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
