# SPDX-License-Identifier: Apache-2.0
"""The shipped tasks by name, with settings that learn them."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import cast

from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.extras.learning.learners import PpoConfig, SacConfig
from motion_nodes.extras.learning.mujoco_env import MujocoEnv, Randomization
from motion_nodes.extras.learning.tasks.robot_cell import RobotCell
from motion_nodes.extras.learning.trainer import TrainingConfig

_REACH = PpoConfig(
    learning_rate=1e-3, target_kl=0.02, value_clip=math.inf, gamma=0.95, epochs=8, minibatches=8
)
_SHAPED = replace(_REACH, gamma=0.98, epochs=5)
_WALK = replace(_REACH, gamma=0.98, epochs=5, minibatches=4, entropy_weight=0.005)


@dataclass(frozen=True)
class TaskEntry:
    """A shipped task."""

    kind: str
    """Module and class, below this package."""
    summary: str
    config: TrainingConfig
    minutes: float
    """Default duration of training [min]."""
    robot: str = "franka"
    """The robot; of ``reach``, if no other one is given."""
    sac: SacConfig = field(default_factory=SacConfig)
    """Settings of soft actor-critic."""


TASKS = {
    "reach": TaskEntry(
        "arm_tasks:Reach",
        "move the tool to a random point",
        TrainingConfig(num_envs=64, log_std=-1.5, ppo=_REACH),
        4.0,
        sac=SacConfig(action_limit=2.0, updates_per_step=1.0),
    ),
    "grasp": TaskEntry(
        "arm_tasks:Grasp",
        "pick a cube and carry it to a target",
        TrainingConfig(
            num_envs=64,
            anneal_steps=600_000,
            log_std=-0.7,
            ppo=replace(_SHAPED, minibatches=4, target_kl=0.03),
        ),
        10.0,
        sac=SacConfig(gamma=0.97, updates_per_step=0.5),
    ),
    "drawer": TaskEntry(
        "arm_tasks:Drawer",
        "pull a drawer open by its handle",
        TrainingConfig(num_envs=128, log_std=-0.7, ppo=_SHAPED),
        6.0,
    ),
    "walk": TaskEntry(
        "walk:Walk",
        "walk at a commanded velocity",
        TrainingConfig(num_envs=256, rollout_steps=24, log_std=-0.2, ppo=_WALK),
        60.0,
        robot="go2",
    ),
}


def task_entry(name: str) -> TaskEntry:
    """Return a shipped task.

    Args:
        name: of the task; ``reach/ROBOT`` is that of another robot.

    Raises:
        InvalidConfig: no such task; lists them.
    """
    task, _, robot = name.partition("/")
    if task not in TASKS:
        raise InvalidConfig(f"task '{task}' is not known.{did_you_mean(task, TASKS)}", field=task)
    if robot and task != "reach":
        raise InvalidConfig(
            f"task '{task}' is one of the {TASKS[task].robot}; of other robots there is reach.",
            field=task,
        )
    return TASKS[task]


@lru_cache(maxsize=8)
def make_task(name: str) -> RobotCell:
    """Return a shipped task; its world is built once per process.

    Args:
        name: see :func:`task_entry`.
    """
    module, _, kind = task_entry(name).kind.partition(":")
    made = getattr(importlib.import_module(f"motion_nodes.extras.learning.tasks.{module}"), kind)
    robot = name.partition("/")[2]
    return cast(RobotCell, made(robot) if robot else made())


@dataclass(frozen=True)
class EnvFactory:
    """Creates environments of a shipped task for training: (number, seed) -> environments."""

    task: str
    randomization: Randomization | None = None

    def __call__(self, num_envs: int, seed: int) -> MujocoEnv:
        """Return environments in which half of the episodes begin close to success."""
        return MujocoEnv(
            make_task(self.task), num_envs, seed, assisted=0.5, randomization=self.randomization
        )


_SAC_ENVS, _SAC_ROLLOUT = 32, 8
"""Environments of soft actor-critic, and steps of each between its updates."""


def task_config(
    name: str, *, seed: int, num_envs: int | None = None, algorithm: str = "ppo"
) -> TrainingConfig:
    """Return the settings of a shipped task.

    Args:
        name: the task.
        seed: of all random numbers.
        num_envs: number of environments; None: that of the task.
        algorithm: ``ppo`` or ``sac``.

    Raises:
        InvalidConfig: no such task or algorithm, or a value out of range.
    """
    entry = task_entry(name)
    config = entry.config
    if algorithm != config.algorithm:
        config = TrainingConfig(
            algorithm=algorithm, num_envs=_SAC_ENVS, rollout_steps=_SAC_ROLLOUT,
            activation="relu", sac=entry.sac,
        )  # fmt: skip
    return replace(config, seed=seed, num_envs=config.num_envs if num_envs is None else num_envs)
