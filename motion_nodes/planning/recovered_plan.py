# SPDX-License-Identifier: Apache-2.0
"""Planning from a start in shallow collision or slightly outside limits: recovery, then motion.

The recovery is slow and ends at rest; the rest is planned from there like any other motion.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from motion_nodes.model.limits import JointLimits
from motion_nodes.planning.joint_space import JointSpace
from motion_nodes.planning.plan_run import PlanOptions, PlanRun
from motion_nodes.planning.planning_problem import MotionPlan, PlanResult, PlanStage, PlanStatus
from motion_nodes.planning.recovery import Recovery, RecoverySettings, check_recovery, recover
from motion_nodes.planning.start_state import check_start
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.trajectory.blended_path import CornerBlending
from motion_nodes.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.trajectory.time_parameterization import retime
from motion_nodes.typing import Array

RECOVERABLE = (PlanStatus.START_IN_COLLISION, PlanStatus.START_OUTSIDE_LIMITS)
"""Start states that can be recovered."""


MIN_SEARCH = 0.25
"""Time for the recovery search even if planning has used all of the request's time [s]."""


def recovered_start(run: PlanRun) -> PlanResult | None:
    """Let a request begin where the recovery from its invalid start ends.

    Returns:
        The rejection of a request whose start cannot be recovered; None for all others.

    Raises:
        InvalidCommand: wrong number of joint positions.
    """
    request, settings = run.request, run.recovery
    if settings is None:
        return None
    start = check_start(request.checker, request.start)
    if start.status not in RECOVERABLE:
        return None
    limited = replace(settings, timeout=min(settings.timeout, max(run.left, MIN_SEARCH)))
    out = recover(
        request.checker,
        request.start,
        limited,
        random_seed=request.random_seed,
        cancelled=request.cancelled,
    )
    run.stages.append(PlanStage("recover", out.time, out.reason or f"{len(out.path)} waypoints"))
    refused = out.reason
    if out.success:
        slow = recovery_trajectory(request.checker, out, settings, run.options)
        refused = check_recovery(request.checker, slow.positions)
    if not out.success or refused:
        return PlanResult(start.status, None, f"{start.reason}; no recovery: {refused}")
    run.recovered = out, slow
    run.request = replace(request, start=out.path[-1])
    run.notes.append(f"recovery: the start is invalid ({out.note}); slow motion to a valid state")
    return None


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
