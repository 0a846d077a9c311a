# SPDX-License-Identifier: Apache-2.0
"""Poses of links in their parents and in the root, with NumPy only.

Slower than :class:`.kinematics.Kinematics`, but without compiled kernels: for startup and for scene
graphs, which compose the chain themselves.
"""

from __future__ import annotations

import numpy as np

from motion_nodes.core.robot.poses import rotation_about
from motion_nodes.core.robot.tree import KinematicTree
from motion_nodes.typing import Array

_PRISMATIC = 2


class LinkPoses:
    """Poses of links in their parents for joint positions ``q``.

    Args:
        tree: kinematic tree; results have a row per frame, in the order of ``frame_names``.
    """

    def __init__(self, tree: KinematicTree) -> None:
        self._tree = tree.packed
        self._moving = np.flatnonzero(self._tree.q_index >= 0)
        self._prismatic = self._tree.kind[self._moving] == _PRISMATIC

    @property
    def moving(self) -> tuple[int, ...]:
        """Rows of the links with movable parent joints."""
        return tuple(int(row) for row in self._moving)

    @property
    def prismatic(self) -> tuple[bool, ...]:
        """Whether the parent joint of each of ``moving`` is prismatic, else revolute."""
        return tuple(bool(prismatic) for prismatic in self._prismatic)

    def joint_values(self, q: Array) -> Array:
        """Return the positions of the parent joints of ``moving``, including mimic joints.

        Args:
            q: joint positions in the order of the tree's ``joint_names`` [rad or m], shape (n,).

        Returns:
            Positions [rad or m], shape (len(moving),).
        """
        rows, tree = self._moving, self._tree
        return np.asarray(tree.multiplier[rows] * q[tree.q_index[rows]] + tree.offset[rows])

    def in_parent(self, q: Array) -> Array:
        """Return the pose of each link in its parent link, X_PL.

        Args:
            q: joint positions in the order of the tree's ``joint_names`` [rad or m], shape (n,).

        Returns:
            Poses, shape (f, 4, 4); row 0, the root, is the identity.

        Source: X_PL = X_PJ * exp(axis * value).
        """
        tree = self._tree
        X_JL = np.tile(np.eye(4), (len(self._moving), 1, 1))
        axis, value = tree.axis[self._moving], self.joint_values(q)
        prismatic, revolute = self._prismatic, ~self._prismatic
        X_JL[prismatic, :3, 3] = axis[prismatic] * value[prismatic, None]
        X_JL[revolute, :3, :3] = rotation_about(axis[revolute], value[revolute])
        X_PL = tree.X_PJ.copy()
        X_PL[self._moving] = tree.X_PJ[self._moving] @ X_JL
        return X_PL

    def in_root(self, q: Array) -> Array:
        """Return the pose of each link in the root link; slow.

        Args:
            q: joint positions in the order of the tree's ``joint_names`` [rad or m], shape (n,).

        Returns:
            Poses X_RL, shape (f, 4, 4).
        """
        X_RL = self.in_parent(q)
        for row in range(1, len(X_RL)):
            X_RL[row] = X_RL[self._tree.parent[row]] @ X_RL[row]
        return X_RL
