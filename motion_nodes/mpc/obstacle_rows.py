# SPDX-License-Identifier: Apache-2.0
"""Obstacles at each step of the horizon, predicted with constant twists."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.mpc.mpc_memory import ROW
from motion_nodes.kernels.rmp.rmp_memory import ObstacleArrays, bounding_radii
from motion_nodes.model.poses import rotation_about
from motion_nodes.typing import Array

_AXIS = 1e-12


def rows_at(obstacles: ObstacleArrays, times: Array) -> dict[str, NDArray[np.float32]]:
    """Return the rows of each shape as read by the rollouts, see ``mpc_memory.ROW``.

    Args:
        obstacles: obstacles in the base frame, with twists.
        times: times of the steps from now [s], shape (t,).

    Returns:
        Rows by name of the shape, shape (t, count, ROW).
    """
    return {name: _predicted(name, rows, times) for name, rows in obstacles.rows.items()}


def _predicted(name: str, rows: Array, times: Array) -> NDArray[np.float32]:
    still = _in_kernel(name, rows[:, :9].reshape(-1, 3, 3), rows[:, 9:12], rows)
    out = np.repeat(still[None], len(times), axis=0)
    moving = np.flatnonzero((rows[:, 16:22] != 0.0).any(axis=1))
    if len(moving):
        own = rows[moving]
        p = own[:, 9:12] + times[:, None, None] * own[:, 16:19]
        turned = _rotations(times[:, None, None] * own[:, 19:22])
        out[:, moving] = _in_kernel(name, turned @ own[:, :9].reshape(-1, 3, 3), p, own)
    return out


def _in_kernel(name: str, R: Array, p: Array, rows: Array) -> NDArray[np.float32]:
    """Return the rows of obstacles at poses in the base frame, shape (..., k, ROW)."""
    found = np.empty((*p.shape[:-1], ROW), np.float32)
    back = np.swapaxes(R, -1, -2)
    found[..., :9] = back.reshape(*p.shape[:-1], 9)
    found[..., 9:12] = -(back @ p[..., None])[..., 0]
    found[..., 12:16] = rows[:, 12:16]
    found[..., 16:19] = p
    found[..., 19] = bounding_radii(name, rows)
    return found


def _rotations(vectors: Array) -> Array:
    """Return the rotations of rotation vectors [rad], shape (..., 3, 3)."""
    angle = np.linalg.norm(vectors, axis=-1)
    return rotation_about(vectors / np.maximum(angle, _AXIS)[..., None], angle)
