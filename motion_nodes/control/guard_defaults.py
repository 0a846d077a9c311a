# SPDX-License-Identifier: Apache-2.0
"""Default thresholds of blocked joints, from effort limits and drive stiffness."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import JointKind
from motion_nodes.typing import Array

GRIPPER_GROUP = "gripper"
"""Name of the group that gripper actions move; its joints may push against objects."""
MARGIN = 0.6
"""Effort threshold as a fraction of the effort limit; covers payloads and model errors."""
_REVOLUTE = (0.045, 0.05, 0.25)
"""Offset, min and max of the tolerance of revolute joints [rad]."""
_PRISMATIC = (0.009, 0.01, 0.05)
"""Offset, min and max of the tolerance of prismatic joints [m]."""


def gripper_joints(robot: Robot, joints: Sequence[str]) -> NDArray[np.bool_]:
    """Return which of the joints belong to the gripper, shape (n,)."""
    group = robot.groups.get(GRIPPER_GROUP)
    names = () if group is None else group.joints
    return np.array([joint in names for joint in joints], dtype=np.bool_)


def revolute(robot: Robot, joints: Sequence[str]) -> NDArray[np.bool_]:
    """Return which of the joints are not prismatic, shape (n,)."""
    kinds = [robot.tree.joint(joint).kind for joint in joints]
    return np.array([kind is not JointKind.PRISMATIC for kind in kinds], dtype=np.bool_)


def position_tolerances(robot: Robot, joints: Sequence[str], stiffness: Array) -> Array:
    """Return the max position errors of joints that are not blocked.

    A drive at its effort limit lags by ``effort limit / stiffness``; larger errors mean that the
    joint is blocked.

    Args:
        robot: the robot.
        joints: the controlled joints.
        stiffness: stiffness of their drives [N m/rad or N/m], shape (n,); 0: unknown.

    Returns:
        Tolerances [rad or m], shape (n,); infinite for gripper joints.
    """
    effort = robot.limits.select(tuple(joints)).effort
    offset, low, high = np.where(revolute(robot, joints)[:, None], _REVOLUTE, _PRISMATIC).T
    known = (stiffness > 0.0) & np.isfinite(effort)
    lag = np.divide(effort, stiffness, out=np.full_like(effort, np.inf), where=known)
    return np.where(gripper_joints(robot, joints), np.inf, (lag + offset).clip(low, high))


def effort_margins(robot: Robot, joints: Sequence[str]) -> Array:
    """Return the max differences from modelled efforts [N m or N], shape (n,); 0: unlimited."""
    effort = robot.limits.select(tuple(joints)).effort
    bounded = np.isfinite(effort) & ~gripper_joints(robot, joints)
    return np.where(bounded, MARGIN * effort, 0.0)
