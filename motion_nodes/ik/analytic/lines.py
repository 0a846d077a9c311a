# SPDX-License-Identifier: Apache-2.0
"""Joint axes of an arm at the zero configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import InvalidConfig
from motion_nodes.ik.chain import IkChain
from motion_nodes.kernels.kinematic_arrays import FIXED, REVOLUTE, PackedArrays, joint_motion
from motion_nodes.model.poses import rotation_about
from motion_nodes.typing import Array


@dataclass(frozen=True, eq=False)
class Lines:
    """Joint axes from base to tip: the arm as a product of exponentials.

    Source: K. Lynch, F. Park, "Modern Robotics", 2017, section 4.1.
    """

    h: Array
    """Unit directions, shape (n, 3)."""
    p: Array
    """A point on each axis [m], shape (n, 3)."""

    def __len__(self) -> int:
        """Return the number of axes."""
        return len(self.h)

    def turned_behind(self, joint: int, angle: float) -> Lines:
        """Return the axes after a rotation of one joint [rad], which moves the distal ones."""
        R = rotation_about(self.h[joint], np.array(angle))
        h, p = self.h.copy(), self.p.copy()
        h[joint + 1 :] = h[joint + 1 :] @ R.T
        p[joint + 1 :] = (p[joint + 1 :] - p[joint]) @ R.T + p[joint]
        return Lines(h, p)

    def without(self, joint: int, angle: float) -> Lines:
        """Return the other axes, with one joint fixed at an angle [rad]."""
        others = self.turned_behind(joint, angle)
        return Lines(np.delete(others.h, joint, axis=0), np.delete(others.p, joint, axis=0))

    def backwards(self) -> Lines:
        """Return the same axes from tip to base."""
        return Lines(-self.h[::-1], self.p[::-1])

    def jacobian(self, q: Array) -> Array:
        """Return the Jacobian of the point currently at the origin, shape (6, n)."""
        J, X = np.empty((6, len(self))), np.eye(4)
        for i in range(len(self)):
            h, p = X[:3, :3] @ self.h[i], X[:3, :3] @ self.p[i] + X[:3, 3]
            J[:3, i], J[3:, i] = np.cross(p, h), h
            R = rotation_about(self.h[i], q[i])
            step = np.eye(4)
            step[:3, :3], step[:3, 3] = R, self.p[i] - R @ self.p[i]
            X = X @ step
        return J


def lines_of(chain: IkChain) -> tuple[Lines, Array]:
    """Return the axes of a chain in its base, and the pose of its tip at zero, shape (4, 4).

    Raises:
        InvalidConfig: a joint is prismatic, or moves in more than one place.
    """
    arrays, X = chain.arrays, np.eye(4)
    h, p = np.zeros((arrays.joint_count, 3)), np.zeros((arrays.joint_count, 3))
    for r in _rows_to(arrays, chain.row):
        X = X @ arrays.X_PJ[r]
        if arrays.kind[r] == FIXED:
            continue
        k = int(arrays.q_index[r])
        _check_joint(chain, r, h[k])
        h[k], p[k] = X[:3, :3] @ arrays.axis[r], X[:3, 3]
        X = X @ joint_motion(int(arrays.kind[r]), arrays.axis[r], float(arrays.offset[r]))
    order = _order(arrays, chain.row)
    if order != sorted(order):
        raise InvalidConfig(
            f"{chain.robot_name}: closed forms need the joints in their order from base to tip: "
            f"{', '.join(chain.joint_names[k] for k in order)}."
        )
    return Lines(h, p), X


def _check_joint(chain: IkChain, r: int, known: Array) -> None:
    """Raise an error unless a row has an independent revolute joint."""
    arrays = chain.arrays
    name = chain.joint_names[int(arrays.q_index[r])]
    if arrays.kind[r] != REVOLUTE:
        raise InvalidConfig(
            f"{chain.robot_name}: joint '{name}' is prismatic; closed forms need revolute joints.",
            field=name,
        )
    if known.any() or arrays.multiplier[r] != 1.0:
        raise InvalidConfig(
            f"{chain.robot_name}: joint '{name}' moves a joint that mimics it; closed forms need "
            "independent joints."
        )


def _rows_to(arrays: PackedArrays, row: int) -> Sequence[int]:
    rows = []
    while row > 0:
        rows.append(row)
        row = int(arrays.parent[row])
    return rows[::-1]


def _order(arrays: PackedArrays, row: int) -> list[int]:
    return [int(arrays.q_index[r]) for r in _rows_to(arrays, row) if arrays.kind[r] != FIXED]
