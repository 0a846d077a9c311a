# SPDX-License-Identifier: Apache-2.0
"""Vectorized environments in MuJoCo: states are arrays, steps run in ``mujoco.rollout``."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from mujoco import rollout

from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.learning.networks import Floats
from motion_nodes.extras.learning.tasks.robot_cell import MujocoTask, TaskState
from motion_nodes.extras.learning.trainer import EnvStep, checked_actions
from motion_nodes.settings import check_settings, setting

_PHYSICS = mujoco.mjtState.mjSTATE_FULLPHYSICS
_MAX_SPEED = 100.0
"""A higher joint velocity [rad/s or m/s] means that the simulation diverged: the episode ends."""


@dataclass(frozen=True, kw_only=True)
class Randomization:
    """Random physics of environments, drawn for each when it is created (Peng et al. 2018).

    Raises:
        InvalidConfig: a value out of range.
    """

    mass: float = setting(
        0.2, doc="Max relative change of the mass and inertia of each body.", ge=0.0, le=0.9
    )
    friction: float = setting(
        0.4, doc="Max relative change of friction coefficients.", ge=0.0, le=0.9
    )
    gains: float = setting(
        0.2, doc="Max relative change of stiffness and damping of each drive.", ge=0.0, le=0.9
    )
    delay: float = setting(
        0.5, doc="Share of environments whose actions act one period later.", ge=0.0, le=1.0
    )
    noise: float = setting(
        0.005, doc="Standard deviation of the noise of observations.", ge=0.0, le=1.0
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def model(self, nominal: mujoco.MjModel, rng: np.random.Generator) -> mujoco.MjModel:
        """Return a copy of a model with random masses, friction and gains."""
        model = copy.copy(nominal)
        mass = rng.uniform(1.0 - self.mass, 1.0 + self.mass, model.nbody)
        model.body_mass *= mass
        model.body_inertia *= mass[:, None]
        model.geom_friction *= rng.uniform(1.0 - self.friction, 1.0 + self.friction)
        gains = rng.uniform(1.0 - self.gains, 1.0 + self.gains, (model.nu, 1))
        # The force of a drive is gain * target + bias; targets are given with its stiffness.
        model.actuator_gainprm[:] *= gains
        model.actuator_biasprm[:] *= gains
        return model


class MujocoEnv:
    """n environments of a task.

    A state is a row of arrays; MuJoCo's data are only scratch memory, so the object can be pickled
    between steps. Episodes that end are reset in the same step.
    """

    def __init__(
        self,
        task: MujocoTask,
        num_envs: int,
        seed: int,
        *,
        assisted: float = 0.0,
        randomization: Randomization | None = None,
    ) -> None:
        """Create the environments; call :meth:`reset` before the first step.

        Args:
            task: the task.
            num_envs: number of environments, n.
            seed: of initial states.
            assisted: fraction of episodes that begin close to success, for training; the first
                episodes are then also truncated at random lengths, to desynchronize the
                environments.
            randomization: random physics, by the seed; None: the physics of the task.

        Raises:
            InvalidConfig: ``num_envs`` is less than 1, or ``assisted`` not 0 to 1.
        """
        if num_envs < 1:
            raise InvalidConfig(f"num_envs is {num_envs}; it must be at least 1.", field="num_envs")
        if not 0.0 <= assisted <= 1.0:
            raise InvalidConfig(f"assisted is {assisted}; it must be 0 to 1.", field="assisted")
        self.task, self.num_envs, self.name = task, num_envs, task.name
        self.observation_size, self.action_size = task.observation_size, task.action_size
        self._rng, self._assisted = np.random.default_rng(seed), assisted
        model = task.model
        self._physics = np.zeros((num_envs, mujoco.mj_stateSize(model, _PHYSICS)))
        self._sensors = np.zeros((num_envs, model.nsensordata))
        self._actions = np.zeros((num_envs, task.action_size))
        self._steps = np.zeros(num_envs, np.int64)
        self._memory = task.new_memory(num_envs)
        self._randomization, self._seed = randomization, seed
        self._models: list[mujoco.MjModel] | None = None
        self._delayed = np.zeros(num_envs, np.bool_)
        if randomization is not None:
            chosen = np.random.default_rng([seed, 1])
            self._delayed = chosen.random(num_envs) < randomization.delay
        self._data: mujoco.MjData | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state: everything except scratch memory."""
        return {**self.__dict__, "_data": None, "_models": None}

    def seed(self, seed: int) -> None:
        """Restart the random numbers of initial states."""
        self._rng = np.random.default_rng(seed)

    def reset(self) -> Floats:
        """Start new episodes everywhere; return observations, shape (n, observation_size)."""
        self._start(np.arange(self.num_envs))
        if self._assisted > 0.0:
            self._steps = self._rng.integers(0, self.task.episode_steps, self.num_envs)
        return self._observed(self._view())

    def step(self, actions: Floats) -> EnvStep:
        """Apply actions for one control period.

        Args:
            actions: shape (n, action_size).

        Raises:
            InvalidConfig: not finite, or a wrong shape.
        """
        actions = checked_actions(actions, self.num_envs, self.action_size)
        before = self._view()
        acting = np.where(self._delayed[:, None], self._actions, actions)
        control = np.repeat(self.task.control(before, acting)[:, None], self.task.substeps, axis=1)
        states, sensors = rollout.rollout(
            self._physical, self._scratch, self._physics, control, skip_checks=False
        )
        self._physics, self._sensors = states[:, -1].copy(), sensors[:, -1].copy()
        self._actions, self._steps = actions, self._steps + 1
        diverged = self._revert_diverged(before)
        after = self._view()
        reward, failed, success = self.task.assess(before, after)
        reward = np.where(diverged, 0.0, reward)
        terminated = failed | diverged
        truncated = ~terminated & (self._steps >= self.task.episode_steps)
        final = self._observed(after)
        ended = np.flatnonzero(terminated | truncated)
        if len(ended):
            self._start(ended)
        observations = self._observed(self._view()) if len(ended) else final
        return EnvStep(observations, final, reward, terminated, truncated, success & ~diverged)

    def state(self) -> dict[str, Floats]:
        """Return the complete state, including that of the random generator, as arrays."""
        return {
            "physics": self._physics,
            "sensors": self._sensors,
            "actions": self._actions,
            "steps": self._steps,
            "random": np.array(json.dumps(self._rng.bit_generator.state)),
            **{f"memory.{key}": value for key, value in self._memory.items()},
        }

    def restore(self, state: dict[str, Floats]) -> None:
        """Continue from a state of :meth:`state`.

        Raises:
            InvalidConfig: a part is missing or has another shape.
        """
        for key, mine in self.state().items():
            if key not in state or state[key].shape != mine.shape:
                raise InvalidConfig(f"state of task '{self.name}': '{key}' is missing or differs.")
        self._physics, self._sensors = state["physics"].copy(), state["sensors"].copy()
        self._actions, self._steps = state["actions"].copy(), state["steps"].copy()
        self._rng.bit_generator.state = json.loads(str(state["random"]))
        self._memory = {key: state[f"memory.{key}"].copy() for key in self._memory}

    @property
    def _physical(self) -> mujoco.MjModel | list[mujoco.MjModel]:
        """The model, or that of each environment."""
        if self._randomization is None:
            return self.task.model
        if self._models is None:
            rng = np.random.default_rng([self._seed, 2])
            random = self._randomization.model
            self._models = [random(self.task.model, rng) for _ in range(self.num_envs)]
        return self._models

    def _observed(self, view: TaskState) -> Floats:
        """Return observations, with noise if they are to have it."""
        observations = self.task.observe(view)
        if self._randomization is None or not self._randomization.noise:
            return observations
        noise = self._rng.standard_normal(observations.shape)
        noisy: Floats = observations + self._randomization.noise * noise
        return noisy

    @property
    def _scratch(self) -> mujoco.MjData:
        if self._data is None:
            self._data = mujoco.MjData(self.task.model)
        return self._data

    def _view(self) -> TaskState:
        """Return the current states, unaffected by later steps."""
        nq, nv = self.task.model.nq, self.task.model.nv
        return TaskState(
            q=self._physics[:, 1 : 1 + nq],
            v=self._physics[:, 1 + nq : 1 + nq + nv],
            sensors=self._sensors,
            actions=self._actions,
            memory=self._memory,
        )

    def _start(self, rows: Floats) -> None:
        """Write initial states of some environments."""
        model, data = self.task.model, self._scratch
        q, memory = self.task.start(self._rng, len(rows), self._assisted)
        self._physics, self._sensors = self._physics.copy(), self._sensors.copy()
        self._actions, self._steps = self._actions.copy(), self._steps.copy()
        self._memory = {key: value.copy() for key, value in self._memory.items()}
        for row, position in zip(rows, q, strict=True):
            mujoco.mj_resetData(model, data)
            data.qpos[:] = position
            mujoco.mj_forward(model, data)
            mujoco.mj_getState(model, data, self._physics[row], _PHYSICS)
            self._sensors[row] = data.sensordata
        self._actions[rows], self._steps[rows] = 0.0, 0
        for key, value in memory.items():
            self._memory[key][rows] = value

    def _revert_diverged(self, before: TaskState) -> Floats:
        """Reset environments whose simulation diverged; return which, shape (n,)."""
        with np.errstate(invalid="ignore"):
            speed = np.abs(self._view().v[:, self.task.joint_v]).max(axis=1)
            diverged: Floats = ~(np.isfinite(self._physics).all(axis=1) & (speed < _MAX_SPEED))
            diverged |= ~np.isfinite(self._sensors).all(axis=1)
        nq, nv = self.task.model.nq, self.task.model.nv
        self._physics[diverged, 1 : 1 + nq] = before.q[diverged]
        self._physics[diverged, 1 + nq : 1 + nq + nv] = before.v[diverged]
        self._sensors[diverged] = before.sensors[diverged]
        return diverged
