# SPDX-License-Identifier: Apache-2.0
"""Interface of a task that is learned in MuJoCo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import mujoco
import numpy as np
from numpy.typing import NDArray

from motion_nodes.learning.mlp import Floats


class ObservedQuantity(NamedTuple):
    """A part of the observation."""

    name: str
    size: int
    meaning: str
    """Description with unit and frame."""


@dataclass(frozen=True)
class TaskState:
    """States of n environments."""

    q: Floats
    """MuJoCo's positions, shape (n, nq)."""
    v: Floats
    """MuJoCo's velocities, shape (n, nv)."""
    sensors: Floats
    """Shape (n, nsensordata)."""
    actions: Floats
    """Previous raw actions, shape (n, action_size)."""
    memory: dict[str, Floats]
    """Memory of the task during an episode: arrays of shape (n, ...); the task may change
    them in :meth:`MujocoTask.assess`."""


class MujocoTask(Protocol):
    """A task: world, observations, actions, reward."""

    name: str
    model: mujoco.MjModel
    substeps: int
    """Time steps per action."""
    episode_steps: int
    """Actions per episode."""
    observation_terms: tuple[ObservedQuantity, ...]
    action_size: int
    joint_v: NDArray[np.int64]
    """Indices of the robot's joints in MuJoCo's velocities."""

    @property
    def observation_size(self) -> int:
        """Length of an observation."""

    def new_memory(self, n: int) -> dict[str, Floats]:
        """Return the memory of n environments before the first episode."""

    def start(
        self, rng: np.random.Generator, n: int, assisted: float
    ) -> tuple[Floats, dict[str, Floats]]:
        """Return n initial positions ``(n, nq)`` and memories.

        Args:
            rng: source of randomness.
            n: number of episodes.
            assisted: probability that an episode begins close to success (reverse curriculum,
                Florensa et al. 2017, arXiv:1707.05300).
        """

    def control(self, state: TaskState, actions: Floats) -> Floats:
        """Return MuJoCo's control vectors ``(n, nu)`` of raw actions ``(n, action_size)``."""

    def observe(self, state: TaskState) -> Floats:
        """Return observations, shape (n, observation_size)."""

    def assess(self, before: TaskState, after: TaskState) -> tuple[Floats, Floats, Floats]:
        """Return reward, whether a terminal state is reached, and success, each of shape (n,)."""
