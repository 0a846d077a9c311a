# SPDX-License-Identifier: Apache-2.0
"""Pose errors; in plain floats, which for one pose is faster than NumPy."""

from __future__ import annotations

import numpy as np

from motion_nodes.model.rotation_vectors import rotation_vector
from motion_nodes.typing import Array


def pose_error(X_BE: Array, X_BT: Array) -> Array:
    """Return position [m] and rotation vector [rad] of E in T, shape (6,).

    The rotation vector is axis times angle, at most pi.
    """
    X_TE = X_BT[:3, :3].T @ X_BE[:3]
    X_TE[:, 3] -= X_BT[:3, :3].T @ X_BT[:3, 3]
    return np.array([*X_TE[:, 3].tolist(), *rotation_vector(X_TE)])
