# SPDX-License-Identifier: Apache-2.0
"""Reach: the tool moves to a random point and stays there."""

from __future__ import annotations

import numpy as np

from motion_nodes.learning.mlp import Floats
from motion_nodes.learning.tasks.franka_cell import FrankaCell
from motion_nodes.learning.tasks.task import ObservedQuantity, TaskState

_DEFAULT = (0.0, -0.3, 0.0, -2.2, 0.0, 1.9, 0.785)
"""Tool pointing down in front of the robot [rad]."""
_LOWER, _UPPER = np.array([0.35, -0.3, 0.2]), np.array([0.65, 0.3, 0.6])
"""Region of targets in the base [m]."""
_NEAR = 0.02
"""Distance that counts as success [m]."""


class Reach(FrankaCell):
    """Reach a random point; the observation has the 23 numbers of the classic exercise."""

    name = "reach"
    episode_steps = 50
    observation_terms = (
        ObservedQuantity("joint_pos", 7, "positions of the arm's joints [rad]"),
        ObservedQuantity("joint_vel", 7, "velocities of the arm's joints [rad/s]"),
        ObservedQuantity("target_position", 3, "target in the base [m]"),
        ObservedQuantity("tool_position", 3, "tool in the base [m]"),
        ObservedQuantity("tool_velocity", 3, "velocity of the tool in the base [m/s]"),
    )

    def __init__(self) -> None:
        super().__init__(_DEFAULT, (0.5,) * 7)

    def new_memory(self, n: int) -> dict[str, Floats]:
        """Return the memory of n environments: their targets."""
        return {"target": np.zeros((n, 3))}

    def start(
        self, rng: np.random.Generator, n: int, assisted: float
    ) -> tuple[Floats, dict[str, Floats]]:
        """Return n initial positions and random targets; this task needs no assistance."""
        return self.start_positions(rng, n), {"target": rng.uniform(_LOWER, _UPPER, (n, 3))}

    def observe(self, state: TaskState) -> Floats:
        """Return observations, shape (n, 23)."""
        return np.hstack(
            (
                self.positions(state)[:, :7],
                self.velocities(state)[:, :7],
                state.memory["target"],
                self.tool(state),
                state.sensors[:, self.sensor("tool.FRAMELINVEL")],
            )
        )

    def assess(self, before: TaskState, after: TaskState) -> tuple[Floats, Floats, Floats]:
        """Return reward, whether a terminal state is reached, and success, each of shape (n,)."""
        distance = np.linalg.norm(self.tool(after) - after.memory["target"], axis=1)
        change = np.square(after.actions - before.actions).sum(axis=1)
        effort = np.square(self.efforts(after) / self.max_effort).sum(axis=1)
        near = np.exp(-np.square(distance / (2.0 * _NEAR)))
        reward = -distance + 0.2 * near - 1e-3 * change - 2e-3 * effort
        return reward, np.zeros(len(distance), bool), distance < _NEAR
