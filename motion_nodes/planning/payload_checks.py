# SPDX-License-Identifier: Apache-2.0
"""Payload checks: drive efforts at the start, at the goals and along a motion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from motion_nodes.model.payload import too_heavy
from motion_nodes.planning.goal_sampling import is_exact
from motion_nodes.planning.plan_run import PlanOptions, PlanRun
from motion_nodes.planning.planning_problem import (
    JointGoal,
    MotionPlan,
    PlanRequest,
    PlanResult,
    PlanStatus,
)
from motion_nodes.planning.start_state import configuration
from motion_nodes.trajectory.path_efforts import PathEfforts


def payload_at_ends(run: PlanRun) -> PlanResult | None:
    """Return the rejection of a request if the payload overloads its start or only joint goal.

    Raises:
        UnknownFrame: the payload is at a link that the robot does not have.
    """
    request, options = run.request, run.options
    efforts = _efforts(request, options)
    if efforts is None or options.payload is None:
        return None
    ends = [("the start", request.start)]
    if len(request.goals) == 1 and isinstance(request.goals[0], JointGoal):
        goal = request.goals[0]
        if is_exact(goal):
            ends.append(("the goal", goal.q))
    for what, given in ends:
        q = configuration(request.checker, given, what)
        words = efforts.overload(q)[1] if np.isfinite(q).all() else ""
        if words:
            start = what == "the start"
            status = PlanStatus.INVALID_PATH if start else PlanStatus.GOAL_OUTSIDE_LIMITS
            return PlanResult(status, None, f"{too_heavy(options.payload)} at {what}: {words}")
    return None


def payload_along(run: PlanRun, plan: MotionPlan) -> MotionPlan:
    """Return a plan, or its rejection if the payload overloads a drive along it."""
    options, points = run.options, plan.trajectory
    efforts = _efforts(run.request, options)
    if efforts is None or options.payload is None or points is None:
        return plan
    k, words = efforts.overload(points.positions)
    if not words:
        return plan
    share = 100.0 * k / max(1, len(points.times) - 1)
    reason = f"{too_heavy(options.payload)} after {share:.0f} % of the motion: {words}"
    result = replace(plan.result, status=PlanStatus.INVALID_PATH, path=None, reason=reason)
    return replace(plan, result=result, trajectory=None, motion=None)


def _efforts(request: PlanRequest, options: PlanOptions) -> PathEfforts | None:
    checker, share = request.checker, options.effort_share
    if options.payload is None or share == 0.0:
        return None
    robot, joints = checker.robot, checker.joint_names
    return PathEfforts(robot, joints, checker.positions, share, options.payload)
