# SPDX-License-Identifier: Apache-2.0
"""Pose goals of arms with fewer than six joints: relaxed as far as such an arm reaches them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from motion_nodes.ik.problem import IkRequest, IkSettings, IkTolerance, as_pose
from motion_nodes.ik.task_mask import relaxed_tolerances, what_is_free
from motion_nodes.model.tree import Array
from motion_nodes.planning.planning_problem import PlanRequest, PoseGoal
from motion_nodes.planning.pose_samples import pose_chain, pose_solver
from motion_nodes.planning.start_state import check_start
from motion_nodes.scene.checker import CollisionChecker

_ATTEMPTS = 30
"""Seeds per search."""
_TIMEOUT = 0.2
"""Timeout of the check whether a pose is reached [s]."""


def reachable_form(request: PlanRequest) -> tuple[PlanRequest, str]:
    """Return a request whose poses an arm with fewer than six joints reaches, and a note.

    Orientations that it does not reach are relaxed, see :mod:`motion_nodes.ik.task_mask`;
    collisions are not considered.

    Args:
        request: the request.

    Returns:
        The request itself and no note if a goal is reached, or none with any tolerance.

    Raises:
        UnknownFrame, InvalidConfig: as :func:`pose_solver`.
    """
    poses = [goal for goal in request.goals if isinstance(goal, PoseGoal) and goal.X_LT is None]
    start = check_start(request.checker, request.start).q
    if not np.isfinite(start).all():
        return request, ""
    levels: list[tuple[IkTolerance, ...]] = []
    for goal in poses:
        relaxed = relaxed_tolerances(pose_chain(request.checker, goal.link), goal.tolerance)
        levels.append((goal.tolerance, *relaxed) if relaxed else ())
    for k in range(max(map(len, levels), default=0)):
        for goal, level in zip(poses, levels, strict=True):
            if k >= len(level) or not _is_solved(request.checker, goal, level[k], start):
                continue
            if k == 0:
                return request, ""
            weaker = replace(goal, tolerance=level[k])
            goals = tuple(weaker if other is goal else other for other in request.goals)
            note = what_is_free(pose_chain(request.checker, goal.link), level[k])
            return replace(request, goals=goals), note
    return request, ""


def _is_solved(
    checker: CollisionChecker, goal: PoseGoal, tolerance: IkTolerance, start: Array
) -> bool:
    """Return whether inverse kinematics reach a goal with a tolerance."""
    solver, columns = pose_solver(checker, goal.link)
    settings = IkSettings(tolerance=tolerance, attempts=_ATTEMPTS, timeout=_TIMEOUT)
    X_BT = as_pose(goal.X_BT, f"the goal of {goal.link}")
    return solver.solve(IkRequest(X_BT, seed=start[columns], settings=settings)).success
