# SPDX-License-Identifier: Apache-2.0
"""Configurations that a new robot starts from: free, away from limits, able to move."""

from __future__ import annotations

import numpy as np

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array
from motion_nodes.scene.checker import CollisionChecker

_FROM_THE_ENDS = 0.05  # share of a joint's range that home keeps off its limits


def first_home(robot: Robot) -> Array:
    """Return all joints at zero, or a little inside their limits where zero is not allowed."""
    lower, upper = robot.limits.lower, robot.limits.upper
    ranges = np.where(np.isfinite(upper - lower), upper - lower, 0.0)
    room = np.where(np.isfinite(upper - lower), _FROM_THE_ENDS * ranges, 0.0)
    inside = np.clip(0.0, lower + room, upper - room)
    zero_is_near = (lower <= 0.0) & (upper >= 0.0)
    return np.where(zero_is_near, 0.0, inside)


def nearer_home(checker: CollisionChecker, free: Array, wanted: Array) -> Array:
    """Return a free configuration near the wanted one: joint by joint as near as it stays free.

    Args:
        checker: of all joints.
        free: a free configuration, shape (n,).
        wanted: what would be best, shape (n,).
    """
    found = free.round(4)
    if not checker.is_free(found):
        return free
    for k in range(len(found)):
        for share in (1.0, 0.75, 0.5, 0.25):
            tried = found.copy()
            tried[k] = round(found[k] + share * (wanted[k] - found[k]), 4)
            if checker.is_free(tried):
                found = tried
                break
    return found


def ready_state(
    robot: Robot, joints: tuple[str, ...], tip: str, checker: CollisionChecker, Q: Array
) -> dict[str, float]:
    """Return the configuration of a chain in which it can move best in all directions.

    Of random ones that are free, that with the greatest product of manipulability (Yoshikawa,
    Manipulability of robotic mechanisms, IJRR 4, 1985) and distance from the joints' limits; the
    other joints stand at home.

    Args:
        robot: the robot.
        joints: of the chain.
        tip: its end.
        checker: of all joints.
        Q: configurations to choose from, shape (m, n).

    Returns:
        Value by joint; empty if none is free.
    """
    columns = robot.indices(joints)
    tried = np.tile(robot.home, (len(Q), 1))
    tried[:, columns] = Q[:, columns]
    # More than half a turn from home there may be no way to: a joint that goes round and round
    # does not get its link past the one before.
    near = (np.abs(tried - robot.home) <= np.pi).all(axis=1)
    tried = tried[near] if near.any() else tried
    tried = tried[checker.are_free(tried)]
    if not len(tried):
        return {}
    kinematics = Kinematics(robot.tree, base=robot.base_frame, generic=True)
    jacobians = kinematics.jacobian_batch(tried, tip)[:, :, columns]
    size = np.linalg.norm(jacobians[:, :3], axis=(1, 2)).max()
    jacobians[:, :3] /= max(float(size), 1e-9)  # lengths as parts of the reach
    singular = np.linalg.svd(jacobians, compute_uv=False)
    rank = min(6, len(joints))
    measure = np.prod(singular[:, :rank], axis=1)
    lower, upper = robot.limits.lower[columns], robot.limits.upper[columns]
    bounded = np.isfinite(upper - lower)
    share = (tried[:, columns] - lower)[:, bounded] / (upper - lower)[bounded]
    middle = np.prod(4.0 * share * (1.0 - share), axis=1) if bounded.any() else 1.0
    best = int(np.argmax(measure * np.power(middle, 0.25)))
    return dict(zip(joints, tried[best, columns].tolist(), strict=True))
