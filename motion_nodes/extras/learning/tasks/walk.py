# SPDX-License-Identifier: Apache-2.0
"""Walking of a quadruped on flat ground at a commanded velocity.

Observations and the terms of the reward are those of Isaac Lab's velocity task of the Go2 on flat
ground, without the linear velocity of the base, which a real robot does not measure.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.learning.networks import Floats
from motion_nodes.extras.learning.tasks.robot_cell import ObservedQuantity, RobotCell, TaskState

ROBOT, GROUP = "go2", "legs"
_LEG, _SCALE = (0.0, 0.8, -1.5), (0.125, 0.25, 0.25)
"""Default positions of a leg's joints, and their change per unit of action [rad]."""
_STIFFNESS, _DAMPING = 25.0, 0.5
"""Gains of the drives in training and after it [N m/rad, N m s/rad]."""
COMMANDS = np.array([[-0.5, -0.3, -1.0], [1.0, 0.3, 1.0]])
"""Min and max commanded vx, vy [m/s] and wz [rad/s]."""
_STANDING = 0.1
"""Share of commands that are to stand."""
_SWITCH = (50, 125)
"""Step of an episode from which another command holds: min, and max plus one."""
_JITTER, _TILT = 0.1, 0.05
"""Max deviation of initial joint positions [rad], and standard deviation of initial tilts [rad]."""
_SMOOTHING = 0.5
"""Time constant of the mean velocity [s]."""
_NEAR = np.array([0.15, 0.15, 0.25])
"""Deviation of the mean velocity from its command that counts as success [m/s, m/s, rad/s]."""
_FALLEN, _LOW = 0.5, 0.15
"""Cosine of the tilt, and height of the base [m], below which the robot has fallen."""
_CONTACT = 0.004
"""Height of a foot above the ground at which it counts as in contact [m]."""
_SWING = (0.06, 0.3)
"""Duration of a swing that earns nothing, and the longest that earns more [s]."""


class Walk(RobotCell):
    """Walk at a commanded twist."""

    name = "walk"
    period = 0.02
    episode_steps = 250
    observation_terms = (
        ObservedQuantity("base_ang_vel", 3, "angular velocity of the base, in the base [rad/s]"),
        ObservedQuantity("projected_gravity", 3, "direction of gravity in the base"),
        ObservedQuantity("generated_commands", 3, "vx, vy [m/s] and wz [rad/s] in the base"),
        ObservedQuantity("joint_pos_rel", 12, "positions of the joints minus default [rad]"),
        ObservedQuantity("joint_vel_rel", 12, "velocities of the joints [rad/s]"),
        ObservedQuantity("last_action", 12, "previous raw action"),
    )

    def __init__(self) -> None:
        robot = load_robot(ROBOT)
        legs = [group for group in robot.groups.values() if len(group.joints) == len(_LEG)]
        self._feet = [f"{ROBOT}/{leg.tip}" for leg in legs]
        super().__init__(ROBOT, GROUP, _LEG * len(legs), _SCALE * len(legs))
        gains = np.ones(len(self.joint_names))
        self.set_gains(_STIFFNESS * gains, _DAMPING * gains)
        floating = self.model.joint(f"{ROBOT}/floating")
        self._base_q, self._base_v = int(floating.qposadr[0]), int(floating.dofadr[0])
        self._foot_z = [self.sensor(f"foot.{foot}").start + 2 for foot in self._feet]
        speeds = [self.sensor(f"speed.{foot}").start for foot in self._feet]
        self._foot_speed = np.add.outer(speeds, (0, 1))
        shape = int(self.model.body(self._feet[0]).geomadr[0])
        self._radius = float(self.model.geom_size[shape, 0])
        data = mujoco.MjData(self.model)
        data.qpos[self.joint_q] = self.default
        mujoco.mj_forward(self.model, data)
        lowest = data.sensordata[self._foot_z].min() - self._radius
        self._height = float(data.qpos[self._base_q + 2] - lowest)

    @property
    def about_policy(self) -> dict[str, Any]:
        """The range of commands that the policy was trained with."""
        return {"motion_nodes": {"max_command": np.abs(COMMANDS).max(axis=0).tolist()}}

    def add_scenery(self, spec: mujoco.MjSpec) -> None:
        """Add sensors of the positions and velocities of the feet."""
        for foot in self._feet:
            for name, kind in (("foot", "FRAMEPOS"), ("speed", "FRAMELINVEL")):
                self.add_sensor(spec, f"{name}.{foot}", kind, mujoco.mjtObj.mjOBJ_XBODY, foot)

    def new_memory(self, n: int) -> dict[str, Floats]:
        """Return the memory of n environments: commands, mean velocity, time of feet in the air."""
        return {
            "command": np.zeros((n, 3)),
            "next": np.zeros((n, 3)),
            "remaining": np.zeros(n),
            "velocity": np.zeros((n, 3)),
            "swing": np.zeros((n, len(self._feet))),
        }

    def start(
        self, rng: np.random.Generator, n: int, assisted: float
    ) -> tuple[Floats, dict[str, Floats]]:
        """Return n initial positions, standing and tilted, and commands; no assistance.

        Each episode has two commands, one after the other.
        """
        q, at = self.start_positions(rng, n, _JITTER), self._base_q
        q[:, at + 2] = self._height + rng.uniform(0.0, 0.03, n)
        tilt = 0.5 * _TILT * rng.standard_normal((n, 2))
        q[:, at + 4 : at + 6] = tilt
        q[:, at + 3] = np.sqrt(1.0 - np.square(tilt).sum(axis=1))
        memory = self.new_memory(n)
        for name in ("command", "next"):
            moving = rng.random((n, 1)) >= _STANDING
            memory[name] = moving * rng.uniform(COMMANDS[0], COMMANDS[1], (n, 3))
        memory["remaining"] = rng.integers(*_SWITCH, n).astype(np.float64)
        return q, memory

    def observe(self, state: TaskState) -> Floats:
        """Return observations, shape (n, 45)."""
        return np.hstack(
            (
                state.v[:, self._base_v + 3 : self._base_v + 6],
                -self._world_to_base(state, np.array([0.0, 0.0, 1.0])),
                state.memory["command"],
                self.positions(state) - self.default,
                self.velocities(state),
                self.last_action(state),
            )
        )

    def assess(self, before: TaskState, after: TaskState) -> tuple[Floats, Floats, Floats]:
        """Return reward, whether a terminal state is reached, and success, each of shape (n,)."""
        v = self._world_to_base(after, after.v[:, self._base_v : self._base_v + 3])
        w = after.v[:, self._base_v + 3 : self._base_v + 6]
        up = self._world_to_base(after, np.array([0.0, 0.0, 1.0]))
        twist = np.column_stack((v[:, :2], w[:, 2]))
        memory = after.memory
        command = memory["command"]
        error = np.square(twist - command)
        change = np.square(after.actions - before.actions).sum(axis=1)
        acceleration = (self.velocities(after) - self.velocities(before)) / self.period
        rate = (
            1.5 * np.exp(-10.0 * error[:, :2].sum(axis=1))
            + 0.75 * np.exp(-5.0 * error[:, 2])
            + 2.0 * _progress(twist[:, :2], command[:, :2])
            + 0.5 * _progress(twist[:, 2:], command[:, 2:])
            + self._swings(after)
            - 0.5 * self._sliding(after)
            - 2.0 * np.square(v[:, 2])
            - 0.05 * np.square(w[:, :2]).sum(axis=1)
            - 2.5 * np.square(up[:, :2]).sum(axis=1)
            - 0.1 * np.square(self.positions(after) - self.default).sum(axis=1)
            - 2e-4 * np.square(self.efforts(after)).sum(axis=1)
            - 2.5e-7 * np.square(acceleration).sum(axis=1)
            - 0.01 * change
        )
        height = after.q[:, self._base_q + 2]
        fallen = (up[:, 2] < _FALLEN) | (height < _LOW)
        share = self.period / _SMOOTHING
        memory["velocity"] = memory["velocity"] + share * (twist - memory["velocity"])
        near = (np.abs(memory["velocity"] - command) < _NEAR).all(axis=1)
        memory["remaining"] = memory["remaining"] - 1.0
        now = memory["remaining"] == 0.0
        memory["command"] = np.where(now[:, None], memory["next"], command)
        return self.period * rate - fallen, fallen, near & ~fallen

    def _down(self, state: TaskState) -> Floats:
        """Return which feet are in contact, shape (n, feet)."""
        down: Floats = state.sensors[:, self._foot_z] < self._radius + _CONTACT
        return down

    def _sliding(self, state: TaskState) -> Floats:
        """Return the sum of squared horizontal speeds of feet in contact [m^2/s^2], shape (n,)."""
        squared = np.square(state.sensors[:, self._foot_speed]).sum(axis=2)
        sliding: Floats = (squared * self._down(state)).sum(axis=1)
        return sliding

    def _swings(self, state: TaskState) -> Floats:
        """Return what the swings that end now earn, and extend the others, shape (n,).

        Standing robots earn nothing by lifting their feet.
        """
        memory = state.memory
        down, swing = self._down(state), memory["swing"]
        least, most = _SWING
        earned = ((np.minimum(swing, most) - least) * (down & (swing > 0.0))).sum(axis=1)
        memory["swing"] = np.where(down, 0.0, swing + self.period)
        moving = np.abs(memory["command"]).sum(axis=1) > 0.1
        reward: Floats = 6.0 * earned * moving
        return reward

    def _world_to_base(self, state: TaskState, vectors: Floats) -> Floats:
        """Return vectors of the world in the base, shape (n, 3)."""
        w, x, y, z = state.q[:, self._base_q + 3 : self._base_q + 7].T
        a = np.broadcast_to(vectors, (len(w), 3))
        # R^T a with the quaternion's conjugate: a + 2 u x (u x a - w a).
        u = np.column_stack((x, y, z))
        rotated: Floats = a + 2.0 * np.cross(u, np.cross(u, a) - w[:, None] * a)
        return rotated


def _progress(velocity: Floats, command: Floats) -> Floats:
    """Return velocities along their commands, up to these, shape (n,).

    Its gradient does not vanish far from the command, as that of an exponential does: otherwise
    standing still is learned first, and kept.
    """
    magnitude = np.linalg.norm(command, axis=1)
    along = (velocity * command).sum(axis=1) / np.maximum(magnitude, 1e-9)
    progress: Floats = np.minimum(along, magnitude)
    return progress
