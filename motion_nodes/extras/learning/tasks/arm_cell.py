# SPDX-License-Identifier: Apache-2.0
"""Common parts of the tasks of an arm: the simulated cell, joint actions, sensors.

Actions are those of Isaac Lab's manipulation environments: joint targets ``q_default + scale * a``,
or relative to the measured positions, ``q + scale * a``, held for one control period; a last action
at or above 0 opens the gripper, else it closes. Drives, limits and shapes are those of the shipped
robot in the suite's simulation.

Interface of a task that is learned in MuJoCo.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import mujoco
import numpy as np
from numpy.typing import NDArray

from motion_nodes.api.robot_model import load_robot as load_front_door
from motion_nodes.core.ik.problem import IkSettings
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.learning.networks import Floats
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.free_bodies import FreeBody
from motion_nodes.extras.sim.mjcf import WorldConfig, build_model

ROBOT = "franka"
FINGERS = (f"{ROBOT}/panda_leftfinger", f"{ROBOT}/panda_rightfinger")
TIME_STEP, PERIOD = 0.005, 0.04
"""Time step of physics, and control period [s]."""
ACTION_CLIP = 10.0
"""Max magnitude of previous actions in observations."""
OPEN = 0.04
"""Position of each finger of the open gripper [m]."""
_AHEAD = 0.004
"""Max distance of finger targets from the fingers [m]: limits their force to 40 N and their speed
to 0.2 m/s, because these light links would pass through gripped objects."""
HARD = (2.0 * TIME_STEP, 1.0)
"""MuJoCo's ``solref`` of the stiffest contacts and limits that the time step allows."""
_IK = IkSettings(attempts=1, timeout=10.0)
_JITTER = 0.1
"""Max deviation of initial joint positions from the default [rad]."""


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


class ArmCell(MujocoTask):
    """World, actions and sensors of a task; base class of the tasks.

    The joints are those of the group ``arm``, then the others of the robot.
    """

    name = ""
    observation_terms: tuple[ObservedQuantity, ...] = ()
    episode_steps = 75
    arguments: tuple[str, ...] = ()
    """Arguments that make the task again."""
    jitter = _JITTER
    """Max deviation of initial joint positions from the default [rad]."""

    def __init__(
        self,
        default: Sequence[float],
        scale: Sequence[float],
        *,
        relative: bool = False,
        gripper: bool = False,
        objects: tuple[FreeBody, ...] = (),
        robot_name: str = ROBOT,
    ) -> None:
        """Build the world.

        Args:
            default: default positions of the arm [rad], shape (n,).
            scale: radians per unit of action, shape (n,).
            relative: whether targets are relative to the measured positions, else to the default.
            gripper: whether there is one more action, of the Franka's gripper.
            objects: movable objects.
            robot_name: the robot.
        """
        robot = load_robot(robot_name)
        self._arm, self._lock = load_front_door(robot_name)["arm"], threading.Lock()
        self.default_pose = self._arm.fk(np.array(default))
        """Pose of the tool in the base at the default position, shape (4, 4)."""
        arm = robot.group("arm").joints
        self.arm_size = len(arm)
        """Number of joints of the arm."""
        self.joint_names = (*arm, *(name for name in robot.joint_names if name not in arm))
        order = robot.indices(self.joint_names)
        rest = [OPEN, OPEN] if gripper else robot.home[order][self.arm_size :]
        self.default, self.scale = np.array([*default, *rest]), np.array(scale)
        self.relative, self.action_size = relative, self.arm_size + gripper
        self.substeps = round(PERIOD / TIME_STEP)
        self.lower, self.upper = robot.limits.lower[order], robot.limits.upper[order]
        drives = [robot.drive(name) for name in self.joint_names]
        self.stiffness = np.array([drive.stiffness for drive in drives])
        self.damping = np.array([drive.damping for drive in drives])
        self.max_effort = np.array([drive.max_effort for drive in drives[: self.arm_size]])
        """Of the arm [N m], shape (n,)."""
        spec, _ = build_model(
            [RobotPlacement(robot, robot_name)], WorldConfig(time_step=TIME_STEP, objects=objects)
        )
        self.add_scenery(spec)
        for kind in ("FRAMEPOS", "FRAMELINVEL"):
            tool = f"{robot_name}/{robot.tool_frame}"
            self.add_sensor(spec, f"tool.{kind}", kind, mujoco.mjtObj.mjOBJ_XBODY, tool)
        for name in arm:
            actuator, full = mujoco.mjtObj.mjOBJ_ACTUATOR, f"{robot_name}/{name}"
            self.add_sensor(spec, f"effort.{name}", "ACTUATORFRC", actuator, full)
        self.model = spec.compile()
        joints = [self.model.joint(f"{robot_name}/{name}") for name in self.joint_names]
        self.joint_q = np.array([joint.qposadr[0] for joint in joints])
        self.joint_v = np.array([joint.dofadr[0] for joint in joints])
        actuators = [self.model.actuator(f"{robot_name}/{name}").id for name in self.joint_names]
        self.actuators = np.array(actuators)
        for joint in joints[self.arm_size :]:
            self.model.jnt_solref[joint.id] = HARD
        self.model.actuator_biasprm[self.actuators, 1] = -self.stiffness
        self.model.actuator_biasprm[self.actuators, 2] = -self.damping
        self._effort = [self.sensor(f"effort.{n}").start for n in arm]

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Pickle the task by its class: another process builds the world again, once."""
        return _rebuilt, (type(self), *self.arguments)

    @property
    def observation_size(self) -> int:
        """Length of an observation."""
        return sum(term.size for term in self.observation_terms)

    @staticmethod
    def add_sensor(
        spec: mujoco.MjSpec, name: str, kind: str, object_type: mujoco.mjtObj, of: str
    ) -> None:
        """Add a sensor of an element of the world."""
        spec.add_sensor(
            name=name,
            type=getattr(mujoco.mjtSensor, f"mjSENS_{kind}"),
            objtype=object_type,
            objname=of,
        )

    def add_scenery(self, spec: mujoco.MjSpec) -> None:
        """Add the objects and sensors of the task to the world."""

    def sensor(self, name: str) -> slice:
        """Return the slice of a sensor's readings."""
        index = self.model.sensor(name).id
        start = int(self.model.sensor_adr[index])
        return slice(start, start + int(self.model.sensor_dim[index]))

    def control(self, state: TaskState, actions: Floats) -> Floats:
        """Return MuJoCo's control vectors ``(n, nu)`` of raw actions ``(n, action_size)``."""
        targets = np.tile(self.default, (len(actions), 1))
        n = self.arm_size
        if self.relative:
            targets[:, :n] = self.positions(state)[:, :n]
        targets[:, :n] += self.scale * actions[:, :n]
        if self.action_size > n:
            fingers = self.positions(state)[:, n:]
            desired = np.where(actions[:, n:] >= 0.0, OPEN, 0.0)
            targets[:, n:] = fingers + np.clip(desired - fingers, -_AHEAD, _AHEAD)
        targets = np.clip(targets, self.lower, self.upper)
        control = np.zeros((len(actions), self.model.nu))
        # The suite's drive law: force = ctrl - stiffness q - damping v.
        control[:, self.actuators] = self.stiffness * targets
        return control

    def start_positions(self, rng: np.random.Generator, n: int) -> Floats:
        """Return n initial positions, shape (n, nq), with the arm near its default."""
        q = np.tile(self.model.qpos0, (n, 1))
        q[:, self.joint_q] = self.default
        q[:, self.joint_q[: self.arm_size]] += rng.uniform(
            -self.jitter, self.jitter, (n, self.arm_size)
        )
        q[:, self.joint_q] = np.clip(q[:, self.joint_q], self.lower, self.upper)
        return q

    def put_tool(self, q: Floats, rows: Floats, poses: Floats) -> None:
        """Change initial positions so that the tool is at some poses, if IK finds a solution.

        Args:
            q: initial positions, shape (n, nq), changed.
            rows: which of them, shape (m,).
            poses: of the tool in the base, shape (m, 4, 4).
        """
        if len(rows):
            # Shards in several threads share the task; results must not depend on the timeout.
            with self._lock:
                found = self._arm.ik_batch(poses, self.default[: self.arm_size], settings=_IK)
            good = found.solved
            q[np.ix_(rows[good], self.joint_q[: self.arm_size])] = found.q[good]

    def positions(self, state: TaskState) -> Floats:
        """Return positions of the robot's joints, shape (n, joints)."""
        return state.q[:, self.joint_q]

    def velocities(self, state: TaskState) -> Floats:
        """Return velocities of the robot's joints, shape (n, joints)."""
        return state.v[:, self.joint_v]

    def tool(self, state: TaskState) -> Floats:
        """Return positions of the tool in the base [m], shape (n, 3)."""
        return state.sensors[:, self.sensor("tool.FRAMEPOS")]

    def last_action(self, state: TaskState) -> Floats:
        """Return the previous raw action, clipped, shape (n, action_size)."""
        return np.clip(state.actions, -ACTION_CLIP, ACTION_CLIP)

    def efforts(self, state: TaskState) -> Floats:
        """Return efforts of the arm [N m], shape (n, joints of the arm)."""
        return state.sensors[:, self._effort]


@lru_cache(maxsize=8)
def _rebuilt(kind: type, *arguments: str) -> Any:
    """Return the task of a class, one per process."""
    return kind(*arguments)
