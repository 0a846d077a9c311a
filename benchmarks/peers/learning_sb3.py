# SPDX-License-Identifier: Apache-2.0
"""PPO of stable-baselines3 on a task of ours, through Gymnasium's vector interface.

Run by ``bench_learning.py --sb3-python PYTHON``: needs Torch, stable-baselines3 and this package.
Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from motion_nodes.learning.gymnasium_env import GymnasiumVectorEnv
from motion_nodes.learning.mujoco_env import MujocoEnv
from motion_nodes.learning.tasks.registry import EnvFactory, make_task, task_config
from motion_nodes.learning.trainer import evaluate


class Adapter(VecEnv):
    """Gymnasium's vector interface as that of stable-baselines3."""

    def __init__(self, env: GymnasiumVectorEnv) -> None:
        # stable-baselines3 needs finite bounds; actions of these tasks stay within a few units.
        actions = gymnasium.spaces.Box(-10.0, 10.0, env.single_action_space.shape, np.float32)
        super().__init__(env.num_envs, env.single_observation_space, actions)
        self.env = env

    def reset(self) -> np.ndarray:
        """Return first observations."""
        return self.env.reset()[0]

    def step_async(self, actions: np.ndarray) -> None:
        """Keep actions."""
        self.actions = actions

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        """Take a step; ends of episodes are described as stable-baselines3 expects."""
        observations, rewards, terminated, truncated, infos = self.env.step(self.actions)
        ended = terminated | truncated
        details: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(ended):
            details[i] = {
                "terminal_observation": infos["final_obs"][i],
                "TimeLimit.truncated": bool(truncated[i]),
            }
        return observations, rewards.astype(np.float32), ended, details

    def close(self) -> None:
        """Nothing to close."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Attributes of single environments do not exist."""
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Not used."""

    def env_method(self, method_name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Not used."""
        return []

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return that nothing is wrapped."""
        return [False] * self.num_envs


def main(task: str, steps: int, seed: int, episodes: int) -> None:
    """Train with the settings of the task, where stable-baselines3 has them, and evaluate."""
    torch.set_num_threads(1)
    config = task_config(task, seed=seed)
    env = VecNormalize(
        Adapter(GymnasiumVectorEnv(EnvFactory(task)(config.num_envs, seed))), norm_reward=False
    )
    ppo = config.ppo
    model = PPO(
        "MlpPolicy",
        env,
        learning_rate=ppo.learning_rate,
        n_steps=config.rollout_steps,
        batch_size=config.num_envs * config.rollout_steps // ppo.minibatches,
        n_epochs=ppo.epochs,
        gamma=ppo.gamma,
        gae_lambda=ppo.lam,
        clip_range=ppo.clip,
        ent_coef=ppo.entropy_weight,
        vf_coef=ppo.value_weight,
        max_grad_norm=ppo.max_grad_norm,
        target_kl=ppo.target_kl,
        seed=seed,
        policy_kwargs={"net_arch": list(config.hidden), "log_std_init": config.log_std},
        device="cpu",
    )
    wall, cpu = time.perf_counter(), time.process_time()
    model.learn(steps)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu

    def policy(observations: np.ndarray) -> np.ndarray:
        return model.predict(
            env.normalize_obs(observations.astype(np.float32)), deterministic=True
        )[0]

    result = evaluate(policy, MujocoEnv(make_task(task), episodes, 1_000_003))
    print(
        json.dumps(
            {
                "steps": model.num_timesteps,
                "wall": wall,
                "cpu": cpu,
                "return": result.mean_return,
                "success": result.success,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
