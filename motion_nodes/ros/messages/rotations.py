# SPDX-License-Identifier: Apache-2.0
"""Rotations of messages: quaternions (x, y, z, w) to matrices and back, at the edge to ROS.

By tf_transformations where it is installed, else by transforms3d, on which it rests. What a cycle
publishes is converted by ``core/robot/poses.py``: ``mat2quat`` solves an eigenvalue
problem for each link, 190 us for the /tf of a Franka, ours 34 us for all its links at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from motion_nodes.core.robot.poses import MIN_QUATERNION
from motion_nodes.typing import Array

try:
    from tf_transformations import quaternion_from_matrix, quaternion_matrix
except ImportError:
    from transforms3d.quaternions import mat2quat, quat2mat

    def quaternion_matrix(quaternion: Sequence[float]) -> Array:
        """Return the (4, 4) matrix of a quaternion (x, y, z, w)."""
        x, y, z, w = quaternion
        X = np.eye(4)
        X[:3, :3] = quat2mat((w, x, y, z))
        return X

    def quaternion_from_matrix(matrix: Array) -> Array:
        """Return the unit quaternion (x, y, z, w) of a (4, 4) matrix."""
        return np.roll(mat2quat(matrix[:3, :3]), -1)


def matrix_of(position: Sequence[float], quaternion: Sequence[float]) -> Array:
    """Return the matrix of a message's pose, shape (4, 4).

    Args:
        position: x, y, z [m].
        quaternion: x, y, z, w, normalized or not.

    Raises:
        ValueError: a quaternion that is zero or not finite.
    """
    scale = max(map(abs, quaternion))
    if not (all(map(math.isfinite, quaternion)) and scale >= MIN_QUATERNION):
        raise ValueError(
            f"quaternion {list(quaternion)} is not a rotation: give four finite numbers x y z w "
            "that are not all zero."
        )
    # By the largest component first: squares may overflow or underflow.
    X: Array = quaternion_matrix([each / scale for each in quaternion])
    X[:3, 3] = position
    return X


def quaternion_of(X: Array) -> tuple[float, float, float, float]:
    """Return the unit quaternion (x, y, z, w), w >= 0, of a pose, shape (4, 4); NaN stays NaN."""
    if not np.isfinite(X).all():
        return (math.nan,) * 4
    x, y, z, w = map(float, quaternion_from_matrix(X))
    return (x, y, z, w) if w >= 0.0 else (-x, -y, -z, -w)
