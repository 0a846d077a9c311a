# SPDX-License-Identifier: Apache-2.0
"""Numeric Jacobians by central differences, for checks and for arbitrary functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.compat import dual_quaternion
from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array

STEP = 1e-5
"""Step [rad or m] that balances truncation (quadratic) and rounding error (inverse)."""


def numeric_jacobian(pose: Callable[[Array], Array], q: ArrayLike, step: float = STEP) -> Array:
    """Return the geometric Jacobian of a pose by central differences.

    :meth:`motion_nodes.model.kinematics.Kinematics.jacobian` is exact and a thousand times faster;
    this function needs only a function such as ``lambda q: kinematics.pose(q, "tool")``.

    Angular velocities are logarithms of the rotation between neighbours: differences of matrices,
    quaternions or angles are not angular velocities.

    Args:
        pose: returns homogeneous matrices ``X_BF``, shape (4, 4).
        q: joint positions [rad or m], shape (n,).
        step: step of the differences [rad or m].

    Returns:
        Jacobian expressed in B, shape (6, n): linear velocity of the frame's origin, then angular
        velocity.

    Raises:
        InvalidCommand: ``q`` is not a vector of finite numbers, or ``step`` is not above 0.
    """
    at = np.asarray(q, dtype=np.float64)
    if at.ndim != 1 or not np.isfinite(at).all():
        raise InvalidCommand(f"joint values must be a vector of finite numbers, got {q!r}.")
    if not 0.0 < step < np.inf:
        raise InvalidCommand(f"step is {step}; it must be above 0.", field="step")
    J = np.empty((6, at.size))
    for k in range(at.size):
        shift = np.zeros(at.size)
        shift[k] = step
        X_ahead, X_behind = pose(at + shift), pose(at - shift)
        turned = np.eye(4)
        turned[:3, :3] = X_ahead[:3, :3] @ X_behind[:3, :3].T
        J[:3, k] = X_ahead[:3, 3] - X_behind[:3, 3]
        J[3:, k] = dual_quaternion.log(dual_quaternion.from_pose(turned))[3:]
    return J / (2.0 * step)
