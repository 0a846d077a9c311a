# SPDX-License-Identifier: Apache-2.0
"""What solvers read from a request: the target in the base, and the limits with locked joints."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.problem import as_pose, bad_pose
from motion_nodes.model.poses import inverse
from motion_nodes.model.tree import Array

_IDENTITY = np.eye(3)


def target_in_base(target: ArrayLike, base_pose: ArrayLike | None = None) -> Array:
    """Return the target in the chain's base, ``X_BT``, with a rotation true to the last digit.

    Args:
        target: in the world, ``X_WT``, shape (4, 4).
        base_pose: of the base in the world, ``X_WB``; None: they are the same.

    Raises:
        InvalidCommand: one of them has a wrong shape, is not finite or is no pose.
    """
    X = _tidy(as_pose(target, "target"), "target")
    if base_pose is None:
        return X
    return np.asarray(inverse(_tidy(as_pose(base_pose, "base_pose"), "base_pose")) @ X)


def limits_with(chain: IkChain, locked: Mapping[str, float]) -> Array:
    """Return lower and upper limits, shape (2, n), some joints held at a value.

    Raises:
        UnknownJoint: a locked joint is not one of the chain's.
        InvalidCommand: a value is outside the joint's limits.
    """
    limits = np.array([chain.lower, chain.upper])
    for name, value in locked.items():
        k = joint_index(chain, name)
        low, high = limits[:, k].tolist()
        if not low <= value <= high:
            raise InvalidCommand(
                f"joint '{name}' cannot be locked at {value}: its limits are {low:.6g} to "
                f"{high:.6g}."
            )
        limits[:, k] = value
    return limits


def joint_index(chain: IkChain, name: str) -> int:
    """Return where a joint stands in the chain.

    Raises:
        UnknownJoint: lists the joints there are.
    """
    if name not in chain.joint_names:
        raise UnknownJoint(name, chain.joint_names, f"the chain to '{chain.tip}'")
    return chain.joint_names.index(name)


def _tidy(X: Array, what: str) -> Array:
    """Return a pose whose rotation is orthonormal to the last digit.

    Source: N. Higham, "Computing the polar decomposition", 1986: Newton and Schulz's iteration.
    """
    R = X[:3, :3]
    away = float(np.abs(R.T @ R - _IDENTITY).max())
    (a, b, c, _), (d, e, f, _), (g, h, i, _), last = X.tolist()
    turned = a * (e * i - f * h) + b * (f * g - d * i) + c * (d * h - e * g)
    if not away < 1e-3 or turned < 0.0 or last != [0.0, 0.0, 0.0, 1.0]:
        raise bad_pose(X, what)
    if away < 1e-15:
        return X
    result = X.copy()
    for _ in range(2 if away > 1e-9 else 1):
        result[:3, :3] = R = 0.5 * R @ (3.0 * _IDENTITY - R.T @ R)
    return result
