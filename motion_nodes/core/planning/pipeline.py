# SPDX-License-Identifier: Apache-2.0
"""Planning pipeline: adapters of the request, strategies of the search, adapters of the motion.

Requests pass :data:`REQUEST_ADAPTERS`; then one loop tries the strategies of a :class:`Pipeline`
until verification accepts a motion; the plan passes :data:`PLAN_ADAPTERS`. All share a
:class:`~motion_nodes.core.planning.plan_run.PlanRun` and its clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.planning.path_verification import FINER
from motion_nodes.core.planning.plan_adapters import (
    after_recovery,
    payload_along,
    payload_at_ends,
    reachable_goals,
    recoverable,
    recovered_start,
)
from motion_nodes.core.planning.plan_run import PlanAttempt, PlanOptions, PlanRun
from motion_nodes.core.planning.planners import find_planner, make_planner
from motion_nodes.core.planning.planning_problem import (
    JointGoal,
    MotionPlan,
    PlanRequest,
    PlanResult,
    PlanStage,
    PlanStatus,
)
from motion_nodes.core.planning.recovery import RecoverySettings
from motion_nodes.core.planning.shortcut import shorten_path, shorten_with_clearance
from motion_nodes.core.planning.sphere_excess import searchable, with_joint_goals
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.trajectory.joint_path import CornerBlending
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.core.trajectory.path_efforts import PathEfforts, effort_limits
from motion_nodes.core.trajectory.time_parameterization import retime, scaled_limits, time_optimal
from motion_nodes.typing import Array

__all__ = ["MotionPlan", "PlanOptions", "PlanStage", "plan"]


def plan(
    request: PlanRequest,
    options: PlanOptions | None = None,
    recovery: RecoverySettings | None = None,
) -> MotionPlan:
    """Plan a motion.

    Planners search with spheres. A motion rejected by the verification, because the exact geometry
    collides, is planned again at a finer resolution, then with larger spheres. Start and goals only
    have to be collision-free for the exact geometry.

    Args:
        request: what to plan.
        options: how; None: the defaults.
        recovery: settings of the slow motion out of an invalid start, which then precedes the plan;
            None: an invalid start is rejected.

    Raises:
        InvalidCommand, InvalidConfig, UnknownFrame: the request is not well formed: wrong lengths,
            values that are not finite, an unknown link; limits that permit no motion.
    """
    run = PlanRun(request, options or _DEFAULTS, recovery)
    for adapt in REQUEST_ADAPTERS:
        rejected = adapt(run)
        if rejected is not None:
            return run.answer(None, rejected)
    pipeline = DEFAULT
    if request.constraints:
        # Imported on use: most processes never plan with constraints.
        from motion_nodes.core.planning.constrained.constrained_plan import CONSTRAINED

        pipeline = CONSTRAINED
    found = searched(run, pipeline)
    if found.refused:
        reason = f"verification rejected the path: {found.refused}"
        invalid = replace(found.result, status=PlanStatus.INVALID_PATH, path=None, reason=reason)
        answer = run.answer(None, invalid)
    else:
        answer = run.answer(found, found.result)
    for finish in PLAN_ADAPTERS:
        answer = finish(run, answer)
    return answer


_DEFAULTS = PlanOptions()
REQUEST_ADAPTERS: tuple[Callable[[PlanRun], PlanResult | None], ...] = (
    payload_at_ends,
    reachable_goals,
)
"""In this order; each may change the request of the run, or return its rejection."""

PLAN_ADAPTERS: tuple[Callable[[PlanRun, MotionPlan], MotionPlan], ...] = (
    payload_along,
    after_recovery,
)
"""In this order; each returns the plan, changed or rejected."""


class Strategy(NamedTuple):
    """Another form of a request, searched if the attempt before it gives reason to."""

    worth: Callable[[PlanRun, PlanAttempt], bool]
    """Whether it may help after that attempt."""
    words: str = ""
    """For the note that a refused motion is searched again."""
    change: Callable[[PlanRun, PlanAttempt], bool] | None = None
    """Changes the run's request; returns False if it cannot help, with the reason in the result."""
    finer: int = 1
    """Ratio of the checker's resolution to that of the search: the cost of checks."""
    margin: float = 0.0
    """Additional clearance of the spheres [m]."""
    seed: int = 0
    """Added to the random seed: the same samples may lead along the same refused way."""

    def request(self, run: PlanRun) -> PlanRequest:
        """Return a run's request in this form."""
        checker = run.request.checker
        if self.finer > 1 or self.margin:
            checker = checker.snapshot()
            checker.set_resolution(checker.resolution / self.finer)
            checker.set_sphere_margin(self.margin)
        return replace(
            run.request,
            checker=checker,
            timeout=max(1e-3, run.left),
            random_seed=run.request.random_seed + self.seed,
        )


def _refused(run: PlanRun, last: PlanAttempt) -> bool:
    return bool(last.refused) and run.left > 0.0


RECOVERED_START = Strategy(recoverable, change=recovered_start)
"""Costs the search for a way out, up to its own timeout; for starts that no planner accepts."""
FINER_STEPS = (
    Strategy(_refused, "a finer resolution", finer=FINER, seed=1),
    Strategy(_refused, "a finer resolution and spheres 3 mm larger", None, FINER, 0.003, 2),
    Strategy(_refused, "a finer resolution and spheres 10 mm larger", None, FINER, 0.01, 3),
)
"""Cost up to ten times the first search; succeed where exact shapes extend beyond spheres, or
between two configurations of an edge."""
STRATEGIES = (RECOVERED_START, *FINER_STEPS)
"""Of pipelines that search, in this order."""


class Pipeline(NamedTuple):
    """A search, and what is done with its path."""

    search: Callable[[PlanRun, PlanRequest, bool], PlanAttempt]
    """From run, request, and whether it is the first search, to its result."""
    adapters: tuple[Callable[[PlanRun, PlanAttempt], None], ...]
    """Called in this order on each path that is found."""
    strategies: tuple[Strategy, ...] = STRATEGIES
    """Tried in this order; none if the path is given."""


def searched(run: PlanRun, pipeline: Pipeline) -> PlanAttempt:
    """Return the result of one strategy after the other, until a motion is valid."""
    found = _attempt(run, pipeline, run.request, 1)
    for strategy in pipeline.strategies:
        if run.request.cancelled():
            break
        if not strategy.worth(run, found):
            continue
        if strategy.change is not None and not strategy.change(run, found):
            continue
        if found.refused:
            run.notes.append(f"searched again with {strategy.words}: {found.refused}")
        other = _attempt(run, pipeline, strategy.request(run), strategy.finer)
        if other.result.path is None and strategy.margin:
            break  # no path exists with larger spheres
        found = other
    return found


def _attempt(run: PlanRun, pipeline: Pipeline, request: PlanRequest, finer: int) -> PlanAttempt:
    """Return the result of one search and of the adapters of its path."""
    first = finer == 1
    found = pipeline.search(run, request, first)
    found.corner_step /= finer
    if found.result.path is None:
        return found
    if first:
        run.note(found.ends.note)
    for adapt in pipeline.adapters:
        adapt(run, found)
    return found


# ---- the default pipeline


def search(run: PlanRun, request: PlanRequest, first: bool) -> PlanAttempt:
    """Search a path by the planner of the options, between ends that the spheres permit.

    Poses at which the spheres always collide become joint goals that are free by exact geometry.
    """
    ends = searchable(request)
    result = _planned(run, ends.request, run.options.attempts if first else 1)
    poses = any(not isinstance(goal, JointGoal) for goal in request.goals)
    if result.status is PlanStatus.GOAL_IN_COLLISION and poses and run.left > 0.0:
        other = with_joint_goals(request, run.left)
        if other is not None:
            ends = searchable(other)
            result = _planned(run, ends.request, run.options.attempts if first else 1)
    return PlanAttempt(ends, result, is_free=ends.request.checker.are_free)


def _planned(run: PlanRun, request: PlanRequest, attempts: int) -> PlanResult:
    """Return the shortest path of some searches with different seeds."""
    options = run.options
    name, note = find_planner(options.planner)
    run.note(note)
    best: PlanResult | None = None
    for number in range(attempts):
        timeout = max(1e-3, min(request.timeout, run.left))
        asked = replace(request, random_seed=request.random_seed + number, timeout=timeout)
        with run.stage("path"):
            planner = make_planner(name, options.settings)
            result = planner.plan(asked)
            run.words = result.reason or (
                f"{result.planner}: {len(result.path) if result.path is not None else 0} "
                f"waypoints, {result.iterations} iterations, cost {result.cost:.4g}"
            )
        if best is None or (result.success and result.cost < best.cost):
            best = result
            # A planner may have no tree.
            run.tree = getattr(planner, "tree", lambda: None)()
        if not result.success or run.left <= 0.0:
            break
    assert best is not None
    return best


def shorten(run: PlanRun, found: PlanAttempt) -> None:
    """Shorten the path, with the preferred clearance where possible; curves stay."""
    if not run.options.shorten or found.result.curve is not None:
        return
    request, path, options = found.ends.request, found.path, run.options
    checker, margin = request.checker, options.preferred_clearance
    seed, limit = request.random_seed, options.shorten_time
    with run.stage("shorten"):
        if margin <= checker.sphere_margin or found.still:
            short = shorten_path(
                checker, path, options.shortening, random_seed=seed, timeout=limit
            )  # fmt: skip
            run.words = f"from {len(path)} to {len(short)} waypoints"
            found.move_along(short)
            return
        clear = checker.snapshot()
        clear.set_sphere_margin(margin)
        shorter = shorten_with_clearance(
            checker, clear, path, options.shortening, random_seed=seed, timeout=limit
        )
        run.words = f"from {len(path)} to {len(shorter.path)} waypoints"
    if not shorter.ends_only:
        run.notes.append(
            f"parts of the path are closer than the preferred clearance of {1e3 * margin:g} mm"
        )

    def is_free(Q: Array) -> NDArray[np.bool_]:
        free = clear.are_free(Q)
        if not free.all() and not shorter.clear.all():
            rest = np.flatnonzero(~free)
            rest = rest[shorter.near_a_tight_line(Q[rest], options.blend)]
            free[rest] = checker.are_free(Q[rest])
        return free

    found.move_along(shorter.path)
    found.is_free = is_free


def join_ends(_: PlanRun, found: PlanAttempt) -> None:
    """Connect the path to the original start and goal."""
    joined = found.ends.joined(found.path, found.result.goal_index)
    if joined is not found.path:
        found.move_along(joined)


def parameterize(run: PlanRun, found: PlanAttempt) -> None:
    """Time-parameterize the path, or the curve of the planner."""
    options, checker, path = run.options, found.ends.request.checker, found.path
    if not options.retime:
        return
    if found.still:
        run.notes.append("the robot is at the goal already: there is nothing to move")
        return
    curve = None if found.ends.note else found.result.curve
    scaling = options.velocity_scaling, options.acceleration_scaling
    with run.stage("retime"):
        efforts = path_effort_limits(checker, options)
        if curve is None:
            assert found.is_free is not None
            motion = retime(
                path,
                checker.limits,
                velocity_scaling=scaling[0],
                acceleration_scaling=scaling[1],
                blending=CornerBlending(options.blend, found.is_free, found.corner_step),
                efforts=efforts,
            )
        else:
            motion = time_optimal(curve, scaled_limits(checker.limits, *scaling), efforts=efforts)
        run.words = f"{motion.duration:.4g} s"
    found.motion = motion


def sample(run: PlanRun, found: PlanAttempt) -> None:
    """Sample the motion; a single point if nothing moves."""
    if not run.options.retime:
        return
    if found.motion is None:
        q, still = found.path[:1], np.zeros_like(found.path[:1])
        names = run.request.checker.joint_names
        found.points = JointTrajectory(names, np.zeros(1), q, still, still)
        return
    with run.stage("sample"):
        found.points = found.motion.points(run.options.time_step)
        run.words = f"{len(found.points.times)} points"


def verify(run: PlanRun, found: PlanAttempt) -> None:
    """Verify the motion by exact geometry; it leaves the path only at its corners."""
    if not run.options.verify:
        return
    with run.stage("verify"):
        points = None if found.motion is None else found.points
        found.refused = run.refusal(found.path if points is None else points.positions)


def path_effort_limits(checker: CollisionChecker, options: PlanOptions) -> PathEfforts | None:
    """Return the effort limits of planned motions; None: they are not considered."""
    robot, joints = checker.robot, checker.joint_names
    share, payload = options.effort_share, options.payload
    return effort_limits(robot, joints, checker.positions, share, payload)


DEFAULT = Pipeline(search, (shorten, join_ends, parameterize, sample, verify))
