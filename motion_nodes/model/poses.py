# SPDX-License-Identifier: Apache-2.0
"""Poses as homogeneous (4, 4) matrices: making, composing, inverting and reading them.

``X_AB`` is the pose of frame B in frame A; ``compose(X_AB, X_BC)`` is ``X_AC``.
Quaternions are scalar last (``quat_xyzw``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from motion_nodes.model.tree import Array

Vector = Sequence[float] | Array


def from_xyz_rpy(xyz: Vector = (0.0, 0.0, 0.0), rpy: Vector = (0.0, 0.0, 0.0)) -> Array:
    """Return the pose of a translation and roll, pitch, yaw.

    Args:
        xyz: translation [m], shape (3,).
        rpy: rotation about the fixed x, then y, then z axis [rad], shape (3,).

    Returns:
        Shape (4, 4).

    Source: URDF specification, element ``origin``: R = Rz(yaw) Ry(pitch) Rx(roll).
    """
    (cr, cp, cy), (sr, sp, sy) = _cosines_and_sines(rpy)
    X = np.eye(4)
    X[:3, :3] = (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )
    X[:3, 3] = xyz
    return X


def from_xyz_quat(xyz: Vector, quat_xyzw: Vector) -> Array:
    """Return the pose of a translation and a quaternion.

    Args:
        xyz: translation [m], shape (3,).
        quat_xyzw: rotation, scalar last, shape (4,); it need not have unit length.

    Returns:
        Shape (4, 4).

    Raises:
        ValueError: for a quaternion that is zero or not finite.
    """
    quaternion = np.asarray(quat_xyzw, dtype=np.float64)
    norm = float(np.linalg.norm(quaternion))
    if quaternion.shape != (4,) or not math.isfinite(norm) or norm < 1e-12:
        raise ValueError(
            f"quaternion {list(np.atleast_1d(quaternion))} is no rotation: give four finite "
            "numbers x y z w that are not all zero."
        )
    x, y, z, w = quaternion / norm
    X = np.eye(4)
    X[:3, :3] = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)),
        (2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)),
        (2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)),
    )
    X[:3, 3] = xyz
    return X


def to_quat_xyzw(X_AB: Array) -> Array:
    """Return the unit quaternion (x, y, z, w) of a pose, with w >= 0, shape (4,).

    The largest of the four elements is found first, so no division is by a small number.

    Source: S. W. Shepperd, Quaternion from rotation matrix, J. Guidance and Control 1(3), 1978.
    """
    R = np.asarray(X_AB, dtype=np.float64)[:3, :3]
    trace = R[0, 0] + R[1, 1] + R[2, 2]
    largest = int(np.argmax((R[0, 0], R[1, 1], R[2, 2], trace)))
    quaternion = np.empty(4)
    if largest == 3:
        quaternion[3] = 1.0 + trace
        quaternion[:3] = (R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1])
    else:
        i, j, k = largest, (largest + 1) % 3, (largest + 2) % 3
        quaternion[i] = 1.0 + 2.0 * R[i, i] - trace
        quaternion[j] = R[j, i] + R[i, j]
        quaternion[k] = R[k, i] + R[i, k]
        quaternion[3] = R[k, j] - R[j, k]
    quaternion /= np.linalg.norm(quaternion)
    return -quaternion if quaternion[3] < 0.0 else quaternion


def to_rpy(X_AB: Array) -> Array:
    """Return roll, pitch, yaw [rad] of a pose, shape (3,).

    At pitch = +-90 degrees only one combination of roll and yaw is determined; roll is then 0.
    """
    R = np.asarray(X_AB, dtype=np.float64)[:3, :3]
    cos_pitch = math.hypot(R[0, 0], R[1, 0])
    pitch = math.atan2(-R[2, 0], cos_pitch)
    if cos_pitch < 1e-9:
        return np.array((0.0, pitch, math.atan2(-R[0, 1], R[1, 1])))
    return np.array((math.atan2(R[2, 1], R[2, 2]), pitch, math.atan2(R[1, 0], R[0, 0])))


def compose(X_AB: Array, X_BC: Array) -> Array:
    """Return ``X_AC``."""
    return np.asarray(X_AB @ X_BC, dtype=np.float64)


def multiply(*poses: Array) -> Array:
    """Return the product of poses from left to right; of none, the identity."""
    return functools.reduce(compose, poses, np.eye(4))


def inverse(X_AB: Array) -> Array:
    """Return ``X_BA``."""
    R_BA = X_AB[:3, :3].T
    X_BA = np.eye(4)
    X_BA[:3, :3] = R_BA
    X_BA[:3, 3] = -R_BA @ X_AB[:3, 3]
    return X_BA


def _cosines_and_sines(angles: Vector) -> tuple[list[float], list[float]]:
    """Return the cosines and the sines of three angles [rad]."""
    return [math.cos(a) for a in angles], [math.sin(a) for a in angles]
