# SPDX-License-Identifier: Apache-2.0
"""Interface of a task that is learned in MuJoCo; common parts of the tasks of robots and of arms.

Actions are those of Isaac Lab's environments: joint targets ``q_default + scale * a``, or relative
to the measured positions, ``q + scale * a``, held for one control period. Drives, limits and shapes
are those of the shipped robot in the suite's simulation. An arm with a gripper has one more action:
at or above 0 it opens the gripper, else it closes.
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
from motion_nodes.extras.sim.cell_words import FreeBody
from motion_nodes.extras.sim.mjcf import WorldConfig, build_model

TIME_STEP = 0.005
"""Time step of physics [s]."""
ACTION_CLIP = 10.0
"""Max magnitude of previous actions in observations."""


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


class RobotCell(MujocoTask):
    """World, actions and sensors of one robot; base class of the tasks.

    The joints are those of a group, which the first actions move, then the others of the robot.
    """

    name = ""
    observation_terms: tuple[ObservedQuantity, ...] = ()
    episode_steps = 75
    arguments: tuple[str, ...] = ()
    """Arguments that make the task again."""
    relative = False
    """Whether targets are relative to the measured positions, else to the default."""
    period = 0.04
    """Of control [s]."""
    objects: tuple[FreeBody, ...] = ()
    """Movable objects of the world."""

    def __init__(
        self, robot_name: str, group: str, default: Sequence[float], scale: Sequence[float]
    ) -> None:
        """Build the world.

        Args:
            robot_name: the robot.
            group: its moved joints.
            default: default positions of these [rad or m], shape (n,); the others' are ``home``.
            scale: their change per unit of action [rad or m], shape (n,).
        """
        robot = load_robot(robot_name)
        moved = robot.group(group).joints
        self.moved = len(moved)
        """Number of joints that the first actions move."""
        self.action_size = self.moved
        self.joint_names = (*moved, *(name for name in robot.joint_names if name not in moved))
        order = robot.indices(self.joint_names)
        self.default = np.array([*default, *robot.home[order][self.moved :]])
        self.scale = np.array(scale)
        self.substeps = round(self.period / TIME_STEP)
        self.lower, self.upper = robot.limits.lower[order], robot.limits.upper[order]
        drives = [robot.drive(name) for name in self.joint_names]
        self.stiffness = np.array([drive.stiffness for drive in drives])
        self.damping = np.array([drive.damping for drive in drives])
        self.max_effort = np.array([drive.max_effort for drive in drives[: self.moved]])
        """Of the moved joints [N m or N], shape (n,)."""
        spec, _ = build_model(
            [RobotPlacement(robot, robot_name)],
            WorldConfig(time_step=TIME_STEP, objects=self.objects),
        )
        self.add_scenery(spec)
        for name in moved:
            actuator, full = mujoco.mjtObj.mjOBJ_ACTUATOR, f"{robot_name}/{name}"
            self.add_sensor(spec, f"effort.{name}", "ACTUATORFRC", actuator, full)
        self.model = spec.compile()
        joints = [self.model.joint(f"{robot_name}/{name}") for name in self.joint_names]
        self.joint_q = np.array([joint.qposadr[0] for joint in joints])
        self.joint_v = np.array([joint.dofadr[0] for joint in joints])
        actuators = [self.model.actuator(f"{robot_name}/{name}").id for name in self.joint_names]
        self.actuators = np.array(actuators)
        self.set_gains(self.stiffness, self.damping)
        self._effort = [self.sensor(f"effort.{name}").start for name in moved]

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Pickle the task by its class: another process builds the world again, once."""
        return _rebuilt, (type(self), *self.arguments)

    @property
    def observation_size(self) -> int:
        """Length of an observation."""
        return sum(term.size for term in self.observation_terms)

    @property
    def about_policy(self) -> dict[str, Any]:
        """What descriptions of policies tell beside inputs and outputs (docs/policies.md)."""
        return {}

    def set_gains(self, stiffness: Floats, damping: Floats) -> None:
        """Set the gains of the drives, which are position drives, shape (joints,) each."""
        self.stiffness, self.damping = stiffness, damping
        self.model.actuator_biasprm[self.actuators, 1] = -stiffness
        self.model.actuator_biasprm[self.actuators, 2] = -damping

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
        targets = np.clip(self.targets(state, actions), self.lower, self.upper)
        control = np.zeros((len(actions), self.model.nu))
        # The suite's drive law: force = ctrl - stiffness q - damping v.
        control[:, self.actuators] = self.stiffness * targets
        return control

    def targets(self, state: TaskState, actions: Floats) -> Floats:
        """Return joint targets before their limits, shape (n, joints)."""
        targets, n = np.tile(self.default, (len(actions), 1)), self.moved
        if self.relative:
            targets[:, :n] = self.positions(state)[:, :n]
        targets[:, :n] += self.scale * actions[:, :n]
        return targets

    def start_positions(self, rng: np.random.Generator, n: int, jitter: float) -> Floats:
        """Return n initial positions, shape (n, nq), with the moved joints near their default.

        Args:
            rng: source of randomness.
            n: number of episodes.
            jitter: max deviation from the default [rad or m].
        """
        q = np.tile(self.model.qpos0, (n, 1))
        q[:, self.joint_q] = self.default
        q[:, self.joint_q[: self.moved]] += rng.uniform(-jitter, jitter, (n, self.moved))
        q[:, self.joint_q] = np.clip(q[:, self.joint_q], self.lower, self.upper)
        return q

    def positions(self, state: TaskState) -> Floats:
        """Return positions of the robot's joints, shape (n, joints)."""
        return state.q[:, self.joint_q]

    def velocities(self, state: TaskState) -> Floats:
        """Return velocities of the robot's joints, shape (n, joints)."""
        return state.v[:, self.joint_v]

    def last_action(self, state: TaskState) -> Floats:
        """Return the previous raw action, clipped, shape (n, action_size)."""
        return np.clip(state.actions, -ACTION_CLIP, ACTION_CLIP)

    def efforts(self, state: TaskState) -> Floats:
        """Return efforts of the moved joints [N m or N], shape (n, moved)."""
        return state.sensors[:, self._effort]


@lru_cache(maxsize=8)
def _rebuilt(kind: type, *arguments: str) -> Any:
    """Return the task of a class, one per process."""
    return kind(*arguments)


ROBOT = "franka"
FINGERS = (f"{ROBOT}/panda_leftfinger", f"{ROBOT}/panda_rightfinger")
OPEN = 0.04
"""Position of each finger of the open gripper [m]."""
_AHEAD = 0.004
"""Max distance of finger targets from the fingers [m]: limits their force to 40 N and their speed
to 0.2 m/s, because these light links would pass through gripped objects."""
HARD = (2.0 * TIME_STEP, 1.0)
"""MuJoCo's ``solref`` of the stiffest contacts and limits that the time step allows."""
_IK = IkSettings(attempts=1, timeout=10.0)
JITTER = 0.1
"""Max deviation of initial joint positions from the default [rad]."""


class ArmCell(RobotCell):
    """World, actions and sensors of a task of an arm."""

    gripper = False
    """Whether there is one more action, of the Franka's gripper."""

    def __init__(
        self, default: Sequence[float], scale: Sequence[float], robot_name: str = ROBOT
    ) -> None:
        """Build the world.

        Args:
            default: default positions of the arm [rad], shape (n,).
            scale: radians per unit of action, shape (n,).
            robot_name: the robot.
        """
        self._arm, self._lock = load_front_door(robot_name)["arm"], threading.Lock()
        self.default_pose = self._arm.fk(np.array(default))
        """Pose of the tool in the base at the default position, shape (4, 4)."""
        self._tool = f"{robot_name}/{load_robot(robot_name).tool_frame}"
        super().__init__(robot_name, "arm", default, scale)
        if self.gripper:
            self.action_size += 1
            self.default[self.moved :] = OPEN
        for name in self.joint_names[self.moved :]:
            self.model.jnt_solref[self.model.joint(f"{robot_name}/{name}").id] = HARD

    def add_scenery(self, spec: mujoco.MjSpec) -> None:
        """Add the sensors of the tool to the world."""
        for kind in ("FRAMEPOS", "FRAMELINVEL"):
            self.add_sensor(spec, f"tool.{kind}", kind, mujoco.mjtObj.mjOBJ_XBODY, self._tool)

    def targets(self, state: TaskState, actions: Floats) -> Floats:
        """Return joint targets before their limits, shape (n, joints)."""
        targets, n = super().targets(state, actions), self.moved
        if self.gripper:
            fingers = self.positions(state)[:, n:]
            desired = np.where(actions[:, n:] >= 0.0, OPEN, 0.0)
            targets[:, n:] = fingers + np.clip(desired - fingers, -_AHEAD, _AHEAD)
        return targets

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
                found = self._arm.ik_batch(poses, self.default[: self.moved], settings=_IK)
            good = found.solved
            q[np.ix_(rows[good], self.joint_q[: self.moved])] = found.q[good]

    def tool(self, state: TaskState) -> Floats:
        """Return positions of the tool in the base [m], shape (n, 3)."""
        return state.sensors[:, self.sensor("tool.FRAMEPOS")]
