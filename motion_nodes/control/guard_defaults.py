# SPDX-License-Identifier: Apache-2.0
"""When a joint counts as blocked by default: from effort limits and stiffness of drives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import JointKind

Array = NDArray[np.float64]

GRIPPER_GROUP = "gripper"
"""Group of a robot's description whose joints the gripper actions move, and which may push."""
MARGIN = 0.6
"""Share of a joint's effort limit: beyond it are payloads and what the model does not know."""
_TURNING = (0.045, 0.05, 0.25)
"""[rad] What is added, the least and the greatest tolerance."""
_SLIDING = (0.009, 0.01, 0.05)
"""[m] Likewise."""


def gripper_joints(robot: Robot, joints: Sequence[str]) -> NDArray[np.bool_]:
    """Return which of some joints are the gripper's, shape (n,)."""
    group = robot.groups.get(GRIPPER_GROUP)
    names = () if group is None else group.joints
    return np.array([joint in names for joint in joints], dtype=np.bool_)


def revolute(robot: Robot, joints: Sequence[str]) -> NDArray[np.bool_]:
    """Return which of some joints turn, shape (n,)."""
    kinds = [robot.tree.joint(joint).kind for joint in joints]
    return np.array([kind is not JointKind.PRISMATIC for kind in kinds], dtype=np.bool_)


def position_tolerances(robot: Robot, joints: Sequence[str], stiffness: Array) -> Array:
    """Return how far joints may be from their references [rad or m], shape (n,).

    A drive that pushes with all it has lags by its effort limit over its stiffness; what is further
    off does not follow.

    Args:
        robot: whose joints they are.
        joints: under control.
        stiffness: of what drives them [N m/rad or N/m], shape (n,); 0: not known.

    Returns:
        Tolerances, infinite for the joints of a gripper.
    """
    effort = robot.limits.select(tuple(joints)).effort
    added, least, most = np.where(revolute(robot, joints)[:, None], _TURNING, _SLIDING).T
    known = (stiffness > 0.0) & np.isfinite(effort)
    lag = np.divide(effort, stiffness, out=np.full_like(effort, np.inf), where=known)
    return np.where(gripper_joints(robot, joints), np.inf, (lag + added).clip(least, most))


def effort_margins(robot: Robot, joints: Sequence[str]) -> Array:
    """Return what joints may push with beyond the model [N m or N], 0 for no bound, shape (n,)."""
    effort = robot.limits.select(tuple(joints)).effort
    bounded = np.isfinite(effort) & ~gripper_joints(robot, joints)
    return np.where(bounded, MARGIN * effort, 0.0)
