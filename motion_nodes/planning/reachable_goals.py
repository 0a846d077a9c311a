# SPDX-License-Identifier: Apache-2.0
"""Pose goals of arms with fewer than six joints: relaxed as far as such an arm reaches them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from motion_nodes.ik.problem import IkRequest, IkSettings, IkTolerance, as_pose
from motion_nodes.ik.task_mask import FULL, relaxed_tolerances, what_is_free
from motion_nodes.planning.plan_run import PlanRun
from motion_nodes.planning.planning_problem import PlanRequest, PoseGoal
from motion_nodes.planning.pose_solvers import ATTEMPTS, moving_joints, pose_chain, pose_solver
from motion_nodes.planning.start_state import configuration
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.typing import Array

_TIMEOUT = 0.2
"""Timeout of the check whether a pose is reached [s]."""


def reachable_goals(run: PlanRun) -> None:
    """Relax the goals of a request as far as an arm with fewer than six joints reaches them."""
    run.request, note = reachable_form(run.request)
    run.notes += [note] if note else []


def reachable_form(request: PlanRequest) -> tuple[PlanRequest, str]:
    """Return a request with poses reachable by fewer than six joints, and a note.

    Orientations that it does not reach are relaxed, see :mod:`motion_nodes.ik.task_mask`;
    collisions are not considered.

    Args:
        request: the request.

    Returns:
        The request itself and no note if a goal is reached, or none with any tolerance.

    Raises:
        UnknownFrame, InvalidConfig: as :func:`pose_solver`.
    """
    checker = request.checker
    levels = [
        (goal, chain, (goal.tolerance, *relaxed_tolerances(chain, goal.tolerance)))
        for goal in request.goals
        if isinstance(goal, PoseGoal) and goal.X_LT is None
        if len(moving_joints(checker, goal.link)) < FULL
        for chain in (pose_chain(checker, goal.link),)
    ]
    start = configuration(checker, request.start, "the start")
    if not np.isfinite(start).all():
        return request, ""
    for k in range(max((len(tolerances) for *_, tolerances in levels), default=0)):
        for goal, chain, tolerances in levels:
            if k >= len(tolerances) or not _is_solved(checker, goal, tolerances[k], start):
                continue
            if k == 0:
                return request, ""
            weaker = replace(goal, tolerance=tolerances[k])
            goals = tuple(weaker if other is goal else other for other in request.goals)
            return replace(request, goals=goals), what_is_free(chain, tolerances[k])
    return request, ""


def _is_solved(
    checker: CollisionChecker, goal: PoseGoal, tolerance: IkTolerance, start: Array
) -> bool:
    """Return whether inverse kinematics reach a goal with a tolerance."""
    solver, columns = pose_solver(checker, goal.link)
    settings = IkSettings(tolerance=tolerance, attempts=ATTEMPTS, timeout=_TIMEOUT)
    X_BT = as_pose(goal.X_BT, f"the goal of {goal.link}")
    return solver.solve(IkRequest(X_BT, seed=start[columns], settings=settings)).success
