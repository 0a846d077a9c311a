# SPDX-License-Identifier: Apache-2.0
"""Drawer: open a drawer by its handle.

Observation and action are those of Isaac Sim's example policy of the Franka that opens a drawer:
31 and 8 numbers. The cabinet is a model of boxes.
"""

from __future__ import annotations

import mujoco
import numpy as np

from motion_nodes.learning.mlp import Floats
from motion_nodes.learning.tasks.franka_cell import HARD, FrankaCell
from motion_nodes.learning.tasks.task import ObservedQuantity, TaskState
from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.sim.drawers import RANGE, add_drawer, handle_in_drawer

_DEFAULT = (0.0, -0.3, 0.0, -2.3, 0.0, 3.571, 2.356)
"""Tool pointing forward at (0.58, 0, 0.66) m, fingers above each other [rad]."""
_HANDLE = (0.72, 0.0, 0.62)
"""Centre of the handle of the closed drawer [m]."""
_SIZE, _MASS = (0.4, 0.4, 0.2), 1.5
"""Depth, width and height of the drawer [m], and its mass [kg]."""
_BEFORE = 0.1
"""Max distance of the tool from the handle in assisted episodes [m]."""
_OPEN = 0.2
"""Opening that counts as success [m]."""


class Drawer(FrankaCell):
    """Open a drawer."""

    name = "drawer"
    episode_steps = 100
    observation_terms = (
        ObservedQuantity("joint_pos_rel", 9, "positions of the joints minus default [rad, m]"),
        ObservedQuantity("joint_vel", 9, "velocities of the joints [rad/s, m/s]"),
        ObservedQuantity("drawer_position", 1, "opening of the drawer [m]"),
        ObservedQuantity("drawer_velocity", 1, "velocity of the drawer [m/s]"),
        ObservedQuantity("handle_from_tool", 3, "centre of the handle minus tool, in the base [m]"),
        ObservedQuantity("last_action", 8, "previous raw action"),
    )

    def __init__(self) -> None:
        super().__init__(_DEFAULT, (0.1,) * 7, relative=True, gripper=True)
        joint = self.model.joint("drawer")
        self._drawer_q, self._drawer_v = int(joint.qposadr[0]), int(joint.dofadr[0])

    def add_scenery(self, spec: mujoco.MjSpec) -> None:
        """Add a cabinet with a drawer that slides towards the robot."""
        body = add_drawer(spec, "drawer", from_xyz_rpy(_HANDLE), _SIZE, _MASS, HARD)
        at = handle_in_drawer(_SIZE[0])[:3, 3]
        body.add_site(name="handle", pos=at)
        self.add_sensor(spec, "handle", "FRAMEPOS", mujoco.mjtObj.mjOBJ_SITE, "handle")

    def new_memory(self, n: int) -> dict[str, Floats]:
        """Return the memory of n environments: none."""
        return {}

    def start(
        self, rng: np.random.Generator, n: int, assisted: float
    ) -> tuple[Floats, dict[str, Floats]]:
        """Return n initial positions, with a closed drawer.

        Assisted episodes begin with the open gripper around the handle or before it.
        """
        q = self.start_positions(rng, n)
        rows = np.flatnonzero(rng.random(n) < assisted)
        places = np.tile(self.default_pose, (len(rows), 1, 1))
        places[:, :3, 3] = _HANDLE
        places[:, 0, 3] -= rng.uniform(0.0, _BEFORE, len(rows))
        self.put_tool(q, rows, places)
        return q, {}

    def opening(self, state: TaskState) -> Floats:
        """Return the opening of the drawer [m], shape (n,)."""
        return state.q[:, self._drawer_q]

    def handle_from_tool(self, state: TaskState) -> Floats:
        """Return the handle minus the tool in the base [m], shape (n, 3)."""
        offset: Floats = state.sensors[:, self.sensor("handle")] - self.tool(state)
        return offset

    def observe(self, state: TaskState) -> Floats:
        """Return observations, shape (n, 31)."""
        return np.hstack(
            (
                self.positions(state) - self.default,
                self.velocities(state),
                self.opening(state)[:, None],
                state.v[:, self._drawer_v, None],
                self.handle_from_tool(state),
                self.last_action(state),
            )
        )

    def assess(self, before: TaskState, after: TaskState) -> tuple[Floats, Floats, Floats]:
        """Return reward, whether a terminal state is reached, and success, each of shape (n,)."""
        progress = self._potential(after) - self._potential(before)
        change = np.square(after.actions[:, :7] - before.actions[:, :7]).sum(axis=1)
        opening = self.opening(after)
        near = np.exp(-np.square(np.linalg.norm(self.handle_from_tool(after), axis=1) / 0.05))
        reward = progress + 0.05 * near + 0.2 * opening / RANGE - 5e-4 * change
        return reward, np.zeros(len(reward), bool), opening > _OPEN

    def _potential(self, state: TaskState) -> Floats:
        """Return a potential: near the handle, and the drawer open."""
        distance = np.linalg.norm(self.handle_from_tool(state), axis=1)
        potential: Floats = 40.0 * self.opening(state) - 12.0 * distance
        return potential
