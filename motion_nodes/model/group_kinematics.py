# SPDX-License-Identifier: Apache-2.0
"""Kinematics of some joints of a robot, of which the others stay where they are.

:class:`.kinematics.Kinematics` compiles the positions of fixed joints into its code, which would be
compiled anew whenever a gripper has moved. Here they are arguments of the robot's common code.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.limits import joint_indices
from motion_nodes.model.robot import Robot
from motion_nodes.typing import Array


@functools.lru_cache(maxsize=16)
def _whole(robot: Robot) -> Kinematics:
    return Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)


class GroupKinematics:
    """Poses and Jacobians of a robot's frames in its base; see :class:`Kinematics`."""

    def __init__(self, robot: Robot, joints: Sequence[str], positions: ArrayLike) -> None:
        """Create; code is compiled at the first use of a frame of this robot.

        Args:
            robot: the robot.
            joints: joints of a configuration, in this order.
            positions: of all actuated joints of the robot [rad or m], shape (r,); those of
                ``joints`` have no effect.

        Raises:
            UnknownJoint: a name that is not an actuated joint.
            InvalidCommand: positions of another shape.
        """
        self._kinematics = _whole(robot)
        self._columns = joint_indices(joints, robot.joint_names, robot.name)
        self._positions = np.array(positions, np.float64)
        if self._positions.shape != (len(robot.joint_names),):
            raise InvalidCommand(
                f"{robot.name}: positions of shape {self._positions.shape}; it has "
                f"{len(robot.joint_names)} actuated joints"
            )

    def pose(self, q: ArrayLike, frame: str) -> Array:
        """Return the pose of a frame, shape (4, 4), for ``q`` [rad or m], shape (n,).

        Errors are those of :meth:`Kinematics.pose`.
        """
        return self._kinematics.pose(self._all(np.asarray(q, np.float64)[None])[0], frame)

    def jacobian_batch(self, Q: ArrayLike, frame: str) -> Array:
        """Return the Jacobians of a frame, shape (m, 6, n), for ``Q`` [rad or m], shape (m, n).

        Errors are those of :meth:`Kinematics.jacobian_batch`.
        """
        return self._kinematics.jacobian_batch(self._all(Q), frame)[:, :, self._columns]

    def _all(self, Q: ArrayLike) -> Array:
        """Return the positions of all joints of the robot, shape (m, r)."""
        given = np.asarray(Q, np.float64)
        if given.ndim != 2 or given.shape[1] != len(self._columns):
            raise InvalidCommand(
                f"configurations of shape {given.shape}; each has {len(self._columns)} numbers"
            )
        every = np.tile(self._positions, (len(given), 1))
        every[:, self._columns] = given
        return every
