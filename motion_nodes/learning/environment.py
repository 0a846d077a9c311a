# SPDX-License-Identifier: Apache-2.0
"""Interface of vectorized environments, and checks of their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from motion_nodes.errors import InvalidConfig
from motion_nodes.learning.mlp import Floats
from motion_nodes.learning.ppo import TrainingDiverged


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
