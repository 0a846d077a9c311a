# SPDX-License-Identifier: Apache-2.0
"""Effort limits of the motions of a planning group."""

from __future__ import annotations

from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.trajectory.path_efforts import PathEfforts

EFFORT_SHARE = 0.9
"""Fraction of the effort limits that planned motions may use; the rest is left to feedback."""


def effort_limits(checker: CollisionChecker, share: float = EFFORT_SHARE) -> PathEfforts | None:
    """Return the effort limits of a checker's joints; None if there are none.

    The inertia of attached bodies is unknown and not considered.

    Args:
        checker: whose joints move; the others stand where it has them.
        share: fraction of the limits; 0: none.
    """
    if share <= 0.0:
        return None
    efforts = PathEfforts(checker.robot, checker.joint_names, checker.positions, share)
    return efforts if efforts.count else None
