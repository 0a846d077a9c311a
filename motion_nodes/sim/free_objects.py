# SPDX-License-Identifier: Apache-2.0
"""Free objects of a running MuJoCo model: their poses and shapes, and forces on them."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.sim.drawers import handle_in_drawer
from motion_nodes.sim.free_bodies import PREFIX, FreeBody
from motion_nodes.sim.mjcf_shapes import quat_wxyz
from motion_nodes.sim.placement import rigid_pose
from motion_nodes.sim.surface_gripper import UnknownObject
from motion_nodes.typing import Array

MAX_PUSH = 1e4
"""Max force [N] and torque [N m] on an object."""


class FreeObjects:
    """The free objects of a world; all methods raise UnknownObject for an unknown name."""

    def __init__(self, bodies: Sequence[FreeBody]) -> None:
        """Store the objects.

        Args:
            bodies: the objects of the model.
        """
        self.bodies = {body.name: body for body in bodies}
        """Objects as they were configured, by name."""
        self._handles = {
            body.name: handle_in_drawer(body.drawer[0]) for body in bodies if body.drawer
        }
        self._pushes: dict[str, tuple[Array, float]] = {}
        """Wrenches on objects, each with the time when it ends [s]."""

    def body(self, name: str) -> FreeBody:
        """Return an object as it was configured."""
        if name not in self.bodies:
            raise UnknownObject(name, tuple(self.bodies))
        return self.bodies[name]

    def pose(self, name: str, data: mujoco.MjData) -> Array:
        """Return the pose of an object in the world, shape (4, 4)."""
        self.body(name)
        body, X = data.body(f"{PREFIX}{name}"), np.eye(4)
        X[:3, :3], X[:3, 3] = body.xmat.reshape(3, 3), body.xpos
        return X @ self._handles[name] if name in self._handles else X

    def place(self, name: str, X_WO: Array, data: mujoco.MjData) -> None:
        """Set the pose of an object in the world, shape (4, 4), with zero velocity.

        Raises:
            InvalidConfig: the pose is not rigid, or the object is a drawer.
        """
        self.body(name)
        if name in self._handles:
            raise InvalidConfig(f"'{name}' is a drawer; its pose cannot be set")
        X = rigid_pose(X_WO, f"pose of object '{name}'")
        joint = data.joint(f"{PREFIX}{name}")
        joint.qpos[:3], joint.qpos[3:] = X[:3, 3], quat_wxyz(X[:3, :3])
        joint.qvel[:] = 0.0

    def push(self, name: str, wrench: Array, end: float) -> None:
        """Apply a force and a torque to the centre of mass of an object.

        Args:
            name: name of the object.
            wrench: force [N] and torque [N m], expressed in the world, shape (6,); replaces the
                previous one.
            end: simulated time at which it ends [s].

        Raises:
            InvalidCommand: a component is not finite, or above MAX_PUSH.
        """
        self.body(name)
        values = np.asarray(wrench, np.float64)
        if values.shape != (6,) or not np.abs(values).max() <= MAX_PUSH:
            raise InvalidCommand(
                f"the wrench on object '{name}' is {values.tolist()}; it must be six numbers of at "
                f"most {MAX_PUSH:g} N or N m"
            )
        self._pushes[name] = values, end

    def apply_pushes(self, data: mujoco.MjData) -> None:
        """Write the wrenches to ``data`` before a step; expired ones are removed."""
        for name, (wrench, end) in list(self._pushes.items()):
            ended = not data.time < end
            data.body(f"{PREFIX}{name}").xfrc_applied[:] = 0.0 if ended else wrench
            if ended:
                del self._pushes[name]

    def reset(self) -> None:
        """Remove all wrenches."""
        self._pushes.clear()
