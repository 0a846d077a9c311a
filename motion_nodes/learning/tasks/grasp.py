# SPDX-License-Identifier: Apache-2.0
"""Grasp: the gripper picks a cube from the floor and carries it to a target above."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np

from motion_nodes.learning.mlp import Floats
from motion_nodes.learning.rewards import PickReward, PickState
from motion_nodes.learning.tasks.franka_cell import FINGERS, HARD, FrankaCell
from motion_nodes.learning.tasks.task import ObservedQuantity, TaskState
from motion_nodes.model.tree import Box
from motion_nodes.sim.free_bodies import PREFIX, FreeBody

_DEFAULT = (0.0, 0.046, 0.0, -2.376, 0.0, 2.422, 0.785)
"""Tool pointing down at (0.5, 0, 0.2) m [rad]."""
_SIZE = 0.05
"""Edge of the cube [m]."""
_CENTRE, _SPREAD, _YAW = np.array([0.5, 0.0]), np.array([0.08, 0.12]), 0.25
"""Position of the cube on the floor [m], deviations from it [m], and max rotation [rad]."""
_TARGET = np.array([0.5, 0.0, 0.25])
"""Target position of the cube [m]."""
_ABOVE = 0.12
"""Max height of the tool above the cube in assisted episodes [m]."""
_HELD, _PLACED, _LOST = 0.04, 0.05, 0.4
"""Distance of a held cube from the tool, of a placed one from its target, and horizontal distance
of a lost one [m]."""
_REWARDED = 0.025
"""Distance from the target that earns the bonus of placing [m]. The bonus is paid once, so policies
end at this distance; at that of a success, every other episode would end just outside."""


class Grasp(FrankaCell):
    """Pick a cube and carry it."""

    name = "grasp"
    episode_steps = 75
    observation_terms = (
        ObservedQuantity("joint_pos_rel", 9, "positions of the joints minus default [rad, m]"),
        ObservedQuantity("joint_vel", 9, "velocities of the joints [rad/s, m/s]"),
        ObservedQuantity("object_from_tool", 3, "centre of the cube minus tool, in the base [m]"),
        ObservedQuantity("object_position", 3, "centre of the cube in the base [m]"),
        ObservedQuantity("object_yaw", 2, "cosine and sine of four times the cube's yaw"),
        ObservedQuantity("last_action", 8, "previous raw action"),
    )

    def __init__(self) -> None:
        cube = FreeBody("cube", Box((_SIZE,) * 3), 0.1, friction=1.0)
        super().__init__(_DEFAULT, (0.1,) * 7, relative=True, gripper=True, objects=(cube,))
        self._cube_q = int(self.model.joint(f"{PREFIX}cube").qposadr[0])
        self._contacts = [self.sensor(f"contact{i}").start for i in range(2)]
        self._reward = PickReward(
            gamma=1.0, distance=12.0, grasp=3.0, place=6.0, torque=0.001, reach=0.32
        )

    def add_scenery(self, spec: mujoco.MjSpec) -> None:
        """Add contact sensors between the fingers and the cube, and harden its contacts."""
        for geom in spec.body(f"{PREFIX}cube").geoms:
            # Above the priority of the fingers, whose own parameters would soften the pair.
            geom.solref, geom.priority = HARD, 2
        for i, finger in enumerate(FINGERS):
            spec.add_sensor(
                name=f"contact{i}",
                type=mujoco.mjtSensor.mjSENS_CONTACT,
                objtype=mujoco.mjtObj.mjOBJ_BODY,
                objname=finger,
                reftype=mujoco.mjtObj.mjOBJ_BODY,
                refname=f"{PREFIX}cube",
                # Data: number of contacts; no reduction; one slot.
                intprm=[1 << int(mujoco.mjtConDataField.mjCONDATA_FOUND), 0, 1],
            )

    def new_memory(self, n: int) -> dict[str, Floats]:
        """Return the memory of n environments: whether the cube is held, which bonuses are due."""
        return {
            "held": np.zeros(n, bool),
            "grasp_due": np.ones(n, bool),
            "place_due": np.ones(n, bool),
        }

    def start(
        self, rng: np.random.Generator, n: int, assisted: float
    ) -> tuple[Floats, dict[str, Floats]]:
        """Return n initial positions and memories, with the cube at a random place.

        Half of the assisted episodes begin with the cube between the fingers, on the way to the
        target, the others with the open gripper around the cube or above it.
        """
        q, at = self.start_positions(rng, n), self._cube_q
        q[:, at : at + 2] = _CENTRE + rng.uniform(-_SPREAD, _SPREAD, (n, 2))
        q[:, at + 2] = 0.5 * _SIZE
        half = 0.5 * rng.uniform(-_YAW, _YAW, n)
        q[:, at + 3], q[:, at + 6] = np.cos(half), np.sin(half)
        self._assist(q, np.flatnonzero(rng.random(n) < assisted), rng)
        return q, self.new_memory(n)

    def _assist(self, q: Floats, rows: Floats, rng: np.random.Generator) -> None:
        """Change initial positions to those of assisted episodes."""
        cube = slice(self._cube_q, self._cube_q + 3)
        between = rng.random(len(rows)) < 0.5
        held = rows[between]
        way = rng.random((len(held), 1))
        q[held, cube] += way * (_TARGET - q[held, cube])
        q[held, cube.stop : cube.stop + 4] = (1.0, 0.0, 0.0, 0.0)
        q[np.ix_(held, self.joint_q[7:])] = 0.5 * _SIZE + 5e-4
        places = np.tile(self.default_pose, (len(rows), 1, 1))
        places[:, :3, 3] = q[rows, cube]
        places[~between, 2, 3] += rng.uniform(0.0, _ABOVE, len(rows) - len(held))
        self.put_tool(q, rows, places)

    def cube(self, state: TaskState) -> Floats:
        """Return the centre of the cube in the base [m], shape (n, 3)."""
        return state.q[:, self._cube_q : self._cube_q + 3]

    def observe(self, state: TaskState) -> Floats:
        """Return observations, shape (n, 34)."""
        cube = self.cube(state)
        w, x, y, z = state.q[:, self._cube_q + 3 : self._cube_q + 7].T
        # A square is symmetric under quarter turns.
        yaw = 4.0 * np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
        return np.hstack(
            (
                self.positions(state) - self.default,
                self.velocities(state),
                cube - self.tool(state),
                cube,
                np.stack((np.cos(yaw), np.sin(yaw)), axis=1),
                self.last_action(state),
            )
        )

    def pick_state(self, state: TaskState) -> PickState:
        """Return the state of picking; a grasp is contact of both fingers at this instant."""
        cube, tool = self.cube(state), self.tool(state)
        target = np.broadcast_to(_TARGET, cube.shape)
        grasped = (state.sensors[:, self._contacts] > 0).all(axis=1) & _between(cube, tool)
        placed = grasped & (np.linalg.norm(cube - target, axis=1) < _PLACED)
        return PickState(tool, cube, target, grasped, placed)

    def _still_held(self, state: TaskState, pick: PickState, held: Floats) -> Floats:
        """Return whether the cube is held: from a grasp until no finger touches it, shape (n,).

        While the cube is carried, one finger loses contact in some percent of the instants. A
        reward of the instant would take back and return all that lifting earns each time, which
        no observation predicts: several times the reward of moving.
        """
        touched = (state.sensors[:, self._contacts] > 0).any(axis=1)
        still: Floats = pick.grasped | (held & touched & _between(pick.item, pick.gripper))
        return still

    def assess(self, before: TaskState, after: TaskState) -> tuple[Floats, Floats, Floats]:
        """Return reward, whether a terminal state is reached, and success, each of shape (n,)."""
        now, memory = self.pick_state(after), after.memory
        held = self._still_held(after, now, memory["held"])
        close = held & (np.linalg.norm(now.item - now.target, axis=1) < _REWARDED)
        reward = self._reward(
            replace(self.pick_state(before), grasped=memory["held"]),
            replace(now, grasped=held, placed=close),
            self.efforts(after),
            self.max_effort,
            memory["grasp_due"],
            memory["place_due"],
        )
        memory["held"] = held
        memory["grasp_due"] &= ~held
        memory["place_due"] &= ~close
        change = np.square(after.actions[:, :7] - before.actions[:, :7]).sum(axis=1)
        # Penalize alternating gripper commands, which wear the gripper.
        turned = (after.actions[:, 7] >= 0.0) != (before.actions[:, 7] >= 0.0)
        lost = np.linalg.norm(now.item[:, :2] - _CENTRE, axis=1) > _LOST
        return reward - 5e-4 * change - 0.03 * turned, lost, now.placed


def _between(cube: Floats, tool: Floats) -> Floats:
    """Return whether cubes are between the fingers, shape (n,)."""
    near: Floats = np.linalg.norm(cube - tool, axis=1) < _HELD
    return near
