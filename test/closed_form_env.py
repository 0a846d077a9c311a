# SPDX-License-Identifier: Apache-2.0
"""Closed-form environments for tests of the learner."""

import json

import numpy as np

from motion_nodes.extras.learning.trainer import EnvStep


class PointEnv:
    """A point on a line, to be moved to zero: x' = x + 0.2 a, reward -x'^2 - 0.01 a^2."""

    name, observation_size, action_size, limit = "point", 2, 1, 15

    def __init__(self, num_envs, seed):
        self.num_envs = num_envs
        self.rng = np.random.default_rng(seed)
        self.x, self.steps = np.zeros(num_envs), np.zeros(num_envs, int)

    def observe(self):
        return np.stack((self.x, np.full(self.num_envs, 3.0)), axis=1)

    def reset(self):
        self.x, self.steps = self.rng.uniform(-1, 1, self.num_envs), np.zeros(self.num_envs, int)
        return self.observe()

    def step(self, actions):
        a = np.clip(actions[:, 0], -2.0, 2.0)
        self.x, self.steps = self.x + 0.2 * a, self.steps + 1
        reward, final = -(self.x**2) - 0.01 * a**2, self.observe()
        terminated = np.abs(self.x) > 3.0
        truncated = (self.steps >= self.limit) & ~terminated
        success = np.abs(self.x) < 0.1
        ended = terminated | truncated
        self.x = np.where(ended, self.rng.uniform(-1, 1, self.num_envs), self.x)
        self.steps[ended] = 0
        return EnvStep(self.observe(), final, reward, terminated, truncated, success)

    def state(self):
        random = np.array(json.dumps(self.rng.bit_generator.state))
        return {"x": self.x, "steps": self.steps, "random": random}

    def restore(self, state):
        self.x, self.steps = state["x"].copy(), state["steps"].copy()
        self.rng.bit_generator.state = json.loads(str(state["random"]))


class BrokenEnv(PointEnv):
    """Returns a value that is not finite, or a wrong shape, in one place."""

    def __init__(self, num_envs, seed, spoil):
        super().__init__(num_envs, seed)
        self.spoil = spoil

    def step(self, actions):
        parts = dict(vars(super().step(actions)))
        self.spoil(parts)
        return EnvStep(**parts)
