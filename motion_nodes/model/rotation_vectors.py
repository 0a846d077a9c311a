# SPDX-License-Identifier: Apache-2.0
"""Rotation vectors (axis times angle) in plain floats, faster than NumPy for single vectors."""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.model.poses import rotation_about
from motion_nodes.typing import Array

_TINY = 1e-12
"""[rad]"""


def rotation_vector(R: Array) -> tuple[float, float, float]:
    """Return the rotation vector [rad], shape (3,), of a rotation matrix: its logarithm.

    It is computed from the quaternion by its largest element, so angles near 0 and pi are no
    special cases; the quaternion need not be normalized.

    Args:
        R: rotation matrix, shape (3, 3), or the first three rows of a pose, shape (3, 4).

    Sources: S. W. Shepperd, "Quaternion from rotation matrix", J. Guidance and Control 1(3), 1978;
    J. Sola, "Quaternion kinematics for the error-state Kalman filter", 2017, eq. 105.
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = R[:3, :3].tolist()
    trace = xx + yy + zz
    if trace >= max(xx, yy, zz):
        w, x, y, z = 1.0 + trace, zy - yz, xz - zx, yx - xy
    elif xx >= max(yy, zz):
        w, x, y, z = zy - yz, 1.0 + 2.0 * xx - trace, yx + xy, xz + zx
    elif yy >= zz:
        w, x, y, z = xz - zx, yx + xy, 1.0 + 2.0 * yy - trace, zy + yz
    else:
        w, x, y, z = yx - xy, xz + zx, zy + yz, 1.0 + 2.0 * zz - trace
    s = math.hypot(x, y, z)
    factor = 2.0 * math.atan2(s, abs(w)) / s if s > 0.0 else 0.0
    factor = math.copysign(factor, w)
    return factor * x, factor * y, factor * z


def turned(R: Array, vector: Array) -> Array:
    """Return a rotation matrix, rotated by a rotation vector in the fixed frame.

    Args:
        R: rotation matrix, shape (3, 3).
        vector: rotation vector [rad], shape (3,).

    Returns:
        Rotation matrix, shape (3, 3).
    """
    angle = float(np.linalg.norm(vector))
    if angle < _TINY:
        return R.copy()
    return rotation_about(vector / angle, np.asarray(angle)) @ R


def rate_of_rotation_vector(phi: Array) -> Array:
    """Return the matrix from angular velocity to the rate of a rotation vector, shape (3, 3).

    Args:
        phi: rotation vector [rad] of at most pi, shape (3,).

    Source: T. Barfoot, "State Estimation for Robotics", 2017, eq. 7.76 (inverse left Jacobian).
    """
    x, y, z = phi.tolist()
    angle = math.hypot(x, y, z)
    half = angle / 2.0
    cotangent = half / math.tan(half) if angle > 1e-3 else 1.0 - angle**2 / 12.0
    ratio = (1.0 - cotangent) / angle**2 if angle > 1e-3 else 1.0 / 12.0
    skew = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.asarray(cotangent * np.eye(3) + ratio * np.outer(phi, phi) - 0.5 * skew)
