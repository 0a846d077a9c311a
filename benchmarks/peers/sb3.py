# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: D102, since the interface is SB3's
"""Stable-Baselines3's PPO on a shipped task, with the sizes and settings of our PPO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from motion_nodes.extras.learning.tasks.registry import EnvFactory, task_config


class Environments(VecEnv):
    """Our environments with SB3's interface."""

    def __init__(self, task: str, num_envs: int, seed: int) -> None:
        self.env = EnvFactory(task)(num_envs, seed)
        box = [Box(-np.inf, np.inf, (self.env.observation_size,), np.float32)]
        # Actions are unlimited, as in our PPO.
        box.append(Box(-1e3, 1e3, (self.env.action_size,), np.float32))
        self.returns, self.ended = np.zeros(num_envs), []
        super().__init__(num_envs, *box)

    def reset(self) -> Any:
        return self.env.reset().astype(np.float32)

    def step_async(self, actions: Any) -> None:
        self.actions = actions

    def step_wait(self) -> Any:
        step = self.env.step(self.actions)
        done, self.returns = step.terminated | step.truncated, self.returns + step.rewards
        infos: list[dict[str, Any]] = [{} for _ in done]
        for i in np.flatnonzero(done):
            final = step.final_observations[i].astype(np.float32)
            cut = bool(step.truncated[i])
            infos[i] = {"terminal_observation": final, "TimeLimit.truncated": cut}
            self.ended.append((self.returns[i], step.success[i]))
            self.returns[i] = 0.0
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

    def __init__(self, task: str, seed: int) -> None:
        torch.set_num_threads(1)
        c = task_config(task, seed=seed)
        self.env = Environments(task, c.num_envs, seed)
        self.norm = VecNormalize(self.env, norm_reward=False, gamma=c.ppo.gamma)
        size = c.num_envs * c.rollout_steps
        net = {"net_arch": list(c.hidden), "activation_fn": torch.nn.Tanh,
               "log_std_init": c.log_std}  # fmt: skip
        self.ppo = PPO(
            "MlpPolicy", self.norm, n_steps=c.rollout_steps, batch_size=size // c.ppo.minibatches,
            n_epochs=c.ppo.epochs, gamma=c.ppo.gamma, gae_lambda=c.ppo.lam, clip_range=c.ppo.clip,
            max_grad_norm=c.ppo.max_grad_norm, policy_kwargs=net, seed=seed, device="cpu",
        )  # fmt: skip

    def updates(self) -> Iterator[tuple[int, float, float]]:
        """Yield after each update: steps, mean return and success rate of ended episodes."""
        ppo, steps = self.ppo, self.ppo.n_steps * self.env.num_envs
        while True:
            self.env.ended.clear()
            ppo.learn(steps, reset_num_timesteps=False)
            ended = np.array(self.env.ended or [(np.nan, np.nan)])
            yield ppo.num_timesteps, *ended.mean(axis=0).tolist()

    def play(self, observations: np.ndarray) -> np.ndarray:
        """Return deterministic actions."""
        scaled = self.norm.normalize_obs(observations.astype(np.float32))
        return self.ppo.predict(scaled, deterministic=True)[0].astype(np.float64)
