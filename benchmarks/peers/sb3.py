# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: D102, since the interface is SB3's
"""Stable-Baselines3's PPO and SAC on a shipped task, with the sizes and settings of ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from motion_nodes.extras.learning.tasks.registry import EnvFactory, task_config


class Environments(VecEnv):
    """Our environments with SB3's interface."""

    def __init__(self, task: str, num_envs: int, seed: int, limit: float) -> None:
        self.env = EnvFactory(task)(num_envs, seed)
        box = [Box(-np.inf, np.inf, (self.env.observation_size,), np.float32)]
        box.append(Box(-limit, limit, (self.env.action_size,), np.float32))
        super().__init__(num_envs, *box)

    def reset(self) -> Any:
        return self.env.reset().astype(np.float32)

    def step_async(self, actions: Any) -> None:
        self.actions = actions

    def step_wait(self) -> Any:
        step = self.env.step(self.actions)
        done = step.terminated | step.truncated
        infos: list[dict[str, Any]] = [{} for _ in done]
        for i in np.flatnonzero(done):
            final = step.final_observations[i].astype(np.float32)
            cut = bool(step.truncated[i])
            infos[i] = {"terminal_observation": final, "TimeLimit.truncated": cut}
        return step.observations.astype(np.float32), step.rewards, done, infos

    def close(self) -> None: ...

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None: ...

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kw: Any) -> Any: ...

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


class Sb3Run:
    """A training run, advanced update by update."""

    def __init__(self, task: str, seed: int, algorithm: str) -> None:
        torch.set_num_threads(1)
        c = task_config(task, seed=seed, algorithm=algorithm)
        sac = algorithm == "sac"
        # Actions are unlimited, as in our PPO.
        limit = c.sac.action_limit if sac else 1e3
        self.env = Environments(task, c.num_envs, seed, limit)
        gamma = c.sac.gamma if sac else c.ppo.gamma
        self.norm = VecNormalize(self.env, norm_reward=False, gamma=gamma)
        self.steps = size = c.num_envs * c.rollout_steps
        kind = torch.nn.ReLU if c.activation == "relu" else torch.nn.Tanh
        net: dict[str, Any] = {"net_arch": list(c.hidden), "activation_fn": kind}
        common = {"gamma": gamma, "seed": seed, "device": "cpu"}
        self.learner: PPO | SAC
        if sac:
            self.learner = SAC(
                "MlpPolicy", self.norm, train_freq=c.rollout_steps, batch_size=c.sac.batch,
                gradient_steps=round(size * c.sac.updates_per_step), tau=c.sac.tau,
                buffer_size=c.sac.replay, learning_starts=c.sac.warm_up,
                target_entropy=c.sac.target_entropy * self.env.env.action_size,
                ent_coef=f"auto_{c.sac.temperature}", policy_kwargs=net, **common,
            )  # fmt: skip
        else:
            self.learner = PPO(
                "MlpPolicy", self.norm, n_steps=c.rollout_steps, n_epochs=c.ppo.epochs,
                batch_size=size // c.ppo.minibatches, gae_lambda=c.ppo.lam, clip_range=c.ppo.clip,
                max_grad_norm=c.ppo.max_grad_norm,
                policy_kwargs={**net, "log_std_init": c.log_std}, **common,
            )  # fmt: skip

    def updates(self) -> Iterator[int]:
        """Yield the number of steps after each update."""
        while True:
            self.learner.learn(self.steps, reset_num_timesteps=False)
            yield self.learner.num_timesteps

    def play(self, observations: np.ndarray) -> np.ndarray:
        """Return deterministic actions."""
        scaled = self.norm.normalize_obs(observations.astype(np.float32))
        return self.learner.predict(scaled, deterministic=True)[0].astype(np.float64)
