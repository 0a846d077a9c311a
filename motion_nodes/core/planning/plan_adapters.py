# SPDX-License-Identifier: Apache-2.0
"""Adapters of the planning pipeline: recovery of invalid starts, goals out of reach, payloads.

Pose goals of arms with fewer than six joints: relaxed as far as such an arm reaches them; payload
checks: drive efforts at the start, at the goals and along a motion.

Planning from a start in shallow collision or slightly outside limits: recovery, then motion. The
recovery is slow and ends at rest; the rest is planned from there like any other motion.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from motion_nodes.core.ik.problem import IkRequest, IkSettings, IkTolerance, as_pose
from motion_nodes.core.ik.task_mask import FULL, relaxed_tolerances, what_is_free
from motion_nodes.core.planning.goal_sampling import is_exact
from motion_nodes.core.planning.joint_space import JointSpace
from motion_nodes.core.planning.plan_run import PlanAttempt, PlanOptions, PlanRun
from motion_nodes.core.planning.planning_problem import (
    JointGoal,
    MotionPlan,
    PlanRequest,
    PlanResult,
    PlanStage,
    PlanStatus,
    PoseGoal,
)
from motion_nodes.core.planning.pose_solvers import ATTEMPTS, moving_joints, pose_chain, pose_solver
from motion_nodes.core.planning.recovery import Recovery, RecoverySettings, check_recovery, recover
from motion_nodes.core.planning.start_state import configuration
from motion_nodes.core.robot.inverse_dynamics import too_heavy
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.trajectory.joint_path import CornerBlending
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.core.trajectory.path_efforts import PathEfforts
from motion_nodes.core.trajectory.time_parameterization import retime
from motion_nodes.typing import Array

RECOVERABLE = (PlanStatus.START_IN_COLLISION, PlanStatus.START_OUTSIDE_LIMITS)
"""Start states that can be recovered."""
MIN_SEARCH = 0.25
"""Time for the recovery search even if planning has used all of the request's time [s]."""
_TIMEOUT = 0.2
"""Timeout of the check whether a pose is reached [s]."""


def recoverable(run: PlanRun, last: PlanAttempt) -> bool:
    """Return whether the start of a request is invalid, and a recovery from it is wanted."""
    settings, status = run.recovery, last.result.status
    return settings is not None and run.recovered is None and status in RECOVERABLE


def recovered_start(run: PlanRun, last: PlanAttempt) -> bool:
    """Let a request begin where the recovery from its invalid start ends.

    Returns:
        Whether it can be recovered; else the result of the attempt has the reason.
    """
    request, settings = run.request, run.recovery
    assert settings is not None
    limited = replace(settings, timeout=min(settings.timeout, max(run.left, MIN_SEARCH)))
    out = recover(
        request.checker,
        request.start,
        limited,
        random_seed=request.random_seed,
        cancelled=request.cancelled,
    )
    run.stages[:] = [PlanStage("recover", out.time, out.reason or f"{len(out.path)} waypoints")]
    refused = out.reason
    if out.success:
        slow = recovery_trajectory(request.checker, out, settings, run.options)
        refused = check_recovery(request.checker, slow.positions)
    if not out.success or refused:
        reason = f"{last.result.reason}; no recovery: {refused}"
        last.result = replace(last.result, reason=reason)
        return False
    run.recovered = out, slow
    run.request = replace(request, start=out.path[-1])
    run.note(f"recovery: the start is invalid ({out.note}); slow motion to a valid state")
    return True


def after_recovery(run: PlanRun, plan: MotionPlan) -> MotionPlan:
    """Return a plan that begins with the recovery of its start, if that was necessary."""
    if run.recovered is None:
        return plan
    out, slow = run.recovered
    result, trajectory = plan.result, plan.trajectory
    if result.path is None:
        reason = f"the start can be recovered ({out.note}), but from there: {result.reason}"
        result = replace(result, reason=reason)
    else:
        checker = run.request.checker
        path = np.concatenate([out.path[:-1], result.path])
        space = JointSpace.of_robot(checker.robot, checker.joint_names)
        result = replace(result, path=path, cost=space.length(path))
    if trajectory is not None:
        trajectory = joined(slow, trajectory, run.options.time_step)
    return replace(plan, result=result, trajectory=trajectory, recovery=slow)


def recovery_trajectory(
    checker: CollisionChecker,
    out: Recovery,
    settings: RecoverySettings,
    options: PlanOptions | None = None,
) -> JointTrajectory:
    """Return the slow motion along a recovery, from rest to rest; it stops at corners.

    Args:
        checker: robot and joints.
        out: a successful recovery.
        settings: velocity and acceleration scaling.
        options: lower scaling factors here take precedence.

    Raises:
        InvalidConfig: limits that permit no motion.
    """
    options = options or PlanOptions()
    motion = retime(
        out.path,
        _widened(checker.limits, out.path),
        velocity_scaling=min(settings.velocity_scaling, options.velocity_scaling or 1.0),
        acceleration_scaling=min(
            settings.acceleration_scaling, options.acceleration_scaling or 1.0
        ),
        blending=CornerBlending(0.0),
    )
    return motion.points(options.time_step)


def joined(first: JointTrajectory, then: JointTrajectory, pause: float) -> JointTrajectory:
    """Return two trajectories, from rest to rest each, as one.

    Args:
        first: with velocities and accelerations.
        then: begins where the first ends. A single point of either adds nothing.
        pause: between them [s]; above 0, because each has its own acceleration there.
    """
    if min(len(first.times), len(then.times)) < 2:
        return first if len(then.times) < 2 else then
    assert first.velocities is not None
    assert first.accelerations is not None
    assert then.velocities is not None
    assert then.accelerations is not None
    return JointTrajectory(
        first.joint_names,
        np.concatenate([first.times, then.times + first.times[-1] + pause]),
        np.concatenate([first.positions, then.positions]),
        np.concatenate([first.velocities, then.velocities]),
        np.concatenate([first.accelerations, then.accelerations]),
    )


def _widened(limits: JointLimits, path: Array) -> JointLimits:
    """Return limits that contain a path which begins outside them."""
    return replace(
        limits,
        lower=np.minimum(limits.lower, path.min(axis=0)),
        upper=np.maximum(limits.upper, path.max(axis=0)),
    )


def reachable_goals(run: PlanRun) -> None:
    """Relax the goals of a request as far as an arm with fewer than six joints reaches them."""
    run.request, note = reachable_form(run.request)
    run.note(note)


def reachable_form(request: PlanRequest) -> tuple[PlanRequest, str]:
    """Return a request with poses reachable by fewer than six joints, and a note.

    Orientations that it does not reach are relaxed, see :mod:`motion_nodes.core.ik.task_mask`;
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
