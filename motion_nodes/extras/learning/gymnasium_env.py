# SPDX-License-Identifier: Apache-2.0
"""Adapter to Gymnasium's vector interface, for other learners; requires gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from motion_nodes.extras.learning.mujoco_env import MujocoEnv
from motion_nodes.extras.learning.networks import Floats


class GymnasiumVectorEnv(VectorEnv[Any, Any, Any]):  # type: ignore[misc]
    """A :class:`MujocoEnv` as ``gymnasium.vector.VectorEnv``.

    Episodes that end are reset in the same step; ``infos`` then contain ``final_obs`` with
    ``_final_obs``, and ``success`` of all environments.
    """

    def __init__(self, env: MujocoEnv) -> None:
        """Wrap environments.

        Args:
            env: the environments; owned by this object.
        """
        self.env, self.num_envs = env, env.num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        box = gymnasium.spaces.Box
        self.single_observation_space = box(-np.inf, np.inf, (env.observation_size,), np.float32)
        self.single_action_space = box(-np.inf, np.inf, (env.action_size,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Start new episodes everywhere.

        Args:
            seed: restarts the random numbers; a list of seeds is not supported.
            options: not used.
        """
        if isinstance(seed, list):
            raise NotImplementedError("one seed determines all environments; pass a number.")
        if seed is not None:
            self.env.seed(seed)
        return self.env.reset().astype(np.float32), {}

    def step(self, actions: Floats) -> tuple[Floats, Floats, Floats, Floats, dict[str, Any]]:
        """Apply actions, shape (n, action_size)."""
        step = self.env.step(actions)
        infos: dict[str, Any] = {"success": step.success}
        ended = step.terminated | step.truncated
        if ended.any():
            infos["final_obs"] = step.final_observations.astype(np.float32)
            infos["_final_obs"] = ended
        observations = step.observations.astype(np.float32)
        return observations, step.rewards, step.terminated, step.truncated, infos
