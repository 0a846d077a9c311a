# SPDX-License-Identifier: Apache-2.0
"""Where each link stands in its parent link, which is all that a nested scene graph needs.

The browser composes the chain itself. So a joint that moves costs one small message, and links
behind it cost nothing; neither does this need a compiled kernel when the viewer starts.
"""

from __future__ import annotations

import numpy as np

from motion_nodes.model.poses import rotation_about, to_quat_xyzw
from motion_nodes.model.tree import Array, KinematicTree

_PRISMATIC = 2


def wxyz_from_rotation(R: Array) -> Array:
    """Return the unit quaternion (w, x, y, z), w >= 0, of rotation matrices (..., 3, 3)."""
    return np.roll(to_quat_xyzw(R), 1, axis=-1)


class LinkPoses:
    """Poses of links in their parents for joint positions ``q``.

    Args:
        tree: the robot; its ``frame_names`` are the rows of every result.
    """

    def __init__(self, tree: KinematicTree) -> None:
        """Take the packed arrays of the tree."""
        self._tree = tree.packed
        self._moving = np.flatnonzero(self._tree.q_index >= 0)
        self._sliding = self._tree.kind[self._moving] == _PRISMATIC

    @property
    def moving(self) -> tuple[int, ...]:
        """Rows of the links that move in their parent."""
        return tuple(int(row) for row in self._moving)

    @property
    def sliding(self) -> tuple[bool, ...]:
        """Of each of these whether it slides; the others turn."""
        return tuple(bool(slides) for slides in self._sliding)

    def joint_values(self, q: Array) -> Array:
        """Return the value of each moving link's joint, mimics included, shape (m,)."""
        rows, tree = self._moving, self._tree
        return np.asarray(tree.multiplier[rows] * q[tree.q_index[rows]] + tree.offset[rows])

    def in_parent(self, q: Array) -> Array:
        """Return the pose of each link in its parent link.

        Args:
            q: joint positions in the order of the tree's ``joint_names`` [rad or m], shape (n,).

        Returns:
            Poses, shape (f, 4, 4); row 0, the root, is the identity.

        Source: X_PL = X_PJ * exp(axis * value).
        """
        tree = self._tree
        X_JL = np.tile(np.eye(4), (len(self._moving), 1, 1))
        axis, value = tree.axis[self._moving], self.joint_values(q)
        sliding, turning = self._sliding, ~self._sliding
        X_JL[sliding, :3, 3] = axis[sliding] * value[sliding, None]
        X_JL[turning, :3, :3] = rotation_about(axis[turning], value[turning])
        X_PL = tree.X_PJ.copy()
        X_PL[self._moving] = tree.X_PJ[self._moving] @ X_JL
        return X_PL

    def in_root(self, q: Array) -> Array:
        """Return the pose of each link in the root link, shape (f, 4, 4).

        For set-up only (the camera needs to know how big the robot is), so it may be slow.
        """
        X_RL = self.in_parent(q)
        for row in range(1, len(X_RL)):
            X_RL[row] = X_RL[self._tree.parent[row]] @ X_RL[row]
        return X_RL
