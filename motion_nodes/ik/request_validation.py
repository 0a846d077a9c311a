# SPDX-License-Identifier: Apache-2.0
"""Validated inputs of solvers: the target in the base, and the limits with locked joints."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.problem import as_pose, bad_pose
from motion_nodes.model.limits import LIMIT_ROUNDING
from motion_nodes.model.poses import inverse
from motion_nodes.typing import Array

_IDENTITY = np.eye(3)


def target_in_base(target: ArrayLike, base_pose: ArrayLike | None = None) -> Array:
    """Return the target in the chain's base, ``X_BT``, with an orthonormalized rotation.

    Args:
        target: in the world, ``X_WT``, shape (4, 4).
        base_pose: of the base in the world, ``X_WB``, shape (4, 4); None: identity.

    Raises:
        InvalidCommand: one of them has a wrong shape, is not finite or is not a valid pose.
    """
    X = _orthonormalized(as_pose(target, "target"), "target")
    if base_pose is None:
        return X
    return np.asarray(inverse(_orthonormalized(as_pose(base_pose, "base_pose"), "base_pose")) @ X)


def limits_with(chain: IkChain, locked: Mapping[str, float]) -> Array:
    """Return lower and upper limits [rad or m], shape (2, n), with locked joints.

    Args:
        chain: the chain.
        locked: positions of locked joints [rad or m].

    Raises:
        UnknownJoint: a locked joint is not in the chain.
        InvalidCommand: a position is outside the joint's limits.
    """
    limits = np.array([chain.lower, chain.upper])
    for name, value in locked.items():
        k = joint_index(chain, name)
        low, high = limits[:, k].tolist()
        limits[:, k] = locked_position(name, value, low, high)
    return limits


def locked_position(name: str, value: float, low: float, high: float) -> float:
    """Return the position of a locked joint [rad or m], at a limit if it is outside by rounding.

    Raises:
        InvalidCommand: it is outside the limits, or not finite.
    """
    inside = min(max(value, low), high)
    if not (np.isfinite(value) and abs(value - inside) <= LIMIT_ROUNDING):
        raise InvalidCommand(
            f"joint '{name}' cannot be locked at {value}: its limits are {low:.6g} to {high:.6g}.",
            field=name,
        )
    return inside


def joint_index(chain: IkChain, name: str) -> int:
    """Return the index of a joint in the chain.

    Raises:
        UnknownJoint: lists the joints.
    """
    if name not in chain.joint_names:
        raise UnknownJoint(name, chain.joint_names, f"the chain to '{chain.tip}'")
    return chain.joint_names.index(name)


def _orthonormalized(X: Array, what: str) -> Array:
    """Return a pose with an orthonormalized rotation.

    Source: N. Higham, "Computing the polar decomposition", 1986: Newton-Schulz iteration.
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
