# SPDX-License-Identifier: Apache-2.0
"""Planning pipeline: adapters of the request, strategies of the search, adapters of the motion.

Requests pass :data:`REQUEST_ADAPTERS`; then one loop tries the strategies of a :class:`Pipeline`
until verification accepts a motion; the plan passes :data:`PLAN_ADAPTERS`. All share a
:class:`~motion_nodes.core.planning.plan_run.PlanRun` and its clock.

Adapters relax poses as far as an arm with fewer than six joints reaches them, check drive efforts
with a payload, and recover from a start in shallow collision or slightly outside limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.ik.problem import IkRequest, IkSettings, IkTolerance
from motion_nodes.core.ik.relaxed_poses import FULL, relaxed_tolerances, what_is_free
from motion_nodes.core.planning.exact_search import ExactSearch
from motion_nodes.core.planning.path_verification import FINER, is_beyond_spheres
from motion_nodes.core.planning.plan_run import (
    ExcessEnds,
    PlanAttempt,
    PlanOptions,
    PlanRun,
    beside_spheres,
    searchable,
    with_joint_goals,
)
from motion_nodes.core.planning.planners import DEFAULT as USUAL
from motion_nodes.core.planning.planners import find_planner, make_planner
from motion_nodes.core.planning.planning_problem import (
    JointGoal,
    JointSpace,
    MotionPlan,
    PlanRequest,
    PlanResult,
    PlanStage,
    PlanStatus,
    PoseGoal,
    configuration,
)
from motion_nodes.core.planning.pose_solvers import ATTEMPTS, moving_joints, pose_chain, pose_solver
from motion_nodes.core.planning.recovery import Recovery, RecoverySettings, check_recovery, recover
from motion_nodes.core.planning.rrt_connect import RrtConnectSettings
from motion_nodes.core.planning.shortcut import shorten_path, shorten_with_clearance
from motion_nodes.core.robot.inverse_dynamics import too_heavy
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.poses import as_pose
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.trajectory.joint_path import CornerBlending
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.core.trajectory.time_parameterization import retime, scaled_limits, time_optimal
from motion_nodes.core.trajectory.timed_path import PathEfforts, effort_limits
from motion_nodes.typing import Array

__all__ = ["MotionPlan", "PlanOptions", "PlanStage", "plan"]


def plan(request: PlanRequest, options: PlanOptions | None = None) -> MotionPlan:
    """Plan a motion.

    Planners search with spheres. A motion rejected by the verification, because the exact geometry
    collides, is planned again at a finer resolution, then with larger spheres. Start and goals only
    have to be collision-free for the exact geometry. If the spheres leave no way in a fraction of
    the time, the default planner searches with the exact geometry.

    Args:
        request: what to plan.
        options: how; None: the defaults.

    Raises:
        InvalidCommand, InvalidConfig, UnknownFrame: the request is not well formed: wrong lengths,
            values that are not finite, an unknown link; limits that permit no motion.
    """
    run = PlanRun(request, options or PlanOptions())
    for adapt in REQUEST_ADAPTERS:
        rejected = adapt(run)
        if rejected is not None:
            return answer(run, rejected)
    pipeline = DEFAULT
    if request.constraints:
        # Imported on use: most processes never plan with constraints.
        from motion_nodes.core.planning.constrained_plan import CONSTRAINED

        pipeline = CONSTRAINED
    found = searched(run, pipeline)
    if found.refused:
        reason = f"verification rejected the path: {found.refused}"
        invalid = replace(found.result, status=PlanStatus.INVALID_PATH, path=None, reason=reason)
        made = answer(run, invalid)
    else:
        made = answer(run, found.result, found)
    for finish in PLAN_ADAPTERS:
        made = finish(run, made)
    return made


def answer(run: PlanRun, result: PlanResult, found: PlanAttempt | None = None) -> MotionPlan:
    """Return the plan of a run, with the motion of an attempt."""
    motion, points = (None, None) if found is None else (found.motion, found.points)
    spent = run.spent
    return MotionPlan(
        replace(result, time=spent), points, motion, tuple(run.stages), tuple(run.notes),
        spent, run.tree,
    )  # fmt: skip


def searched(run: PlanRun, pipeline: Pipeline) -> PlanAttempt:
    """Return the result of one strategy after the other, until a motion is valid."""
    found, closed = _attempt(run, pipeline, run.request, FIRST), False
    for strategy in pipeline.strategies:
        if run.request.cancelled():
            break
        if (closed and strategy.margin) or not strategy.worth(run, found):
            continue
        if strategy.change is not None and not strategy.change(run, found):
            continue
        if found.refused:
            run.notes.append(f"searched again with {strategy.words}: {found.refused}")
        other = _attempt(run, pipeline, strategy.request(run), strategy)
        if other.result.path is None and (strategy.margin or strategy.search):
            # No path exists with larger spheres, or none was found with the exact shapes.
            closed = closed or strategy.margin > 0.0
            continue
        found = other
    if found.result.path is None and found.result.status in _WITHOUT_WAY:
        found.result = _without_path(run, found.result)
    return found


def _without_path(run: PlanRun, result: PlanResult) -> PlanResult:
    """Return the result of searches without a path, with the reason if it is known.

    The default planner is bounded by time: what its first search is bounded by is not told.
    """
    if run.request.cancelled():
        return replace(result, status=PlanStatus.CANCELLED, reason="cancelled")
    why = _separated(run.request)
    if result.status is PlanStatus.ITERATION_LIMIT and not _is_usual(run):
        reason = f"no path in {result.iterations} iterations; {why}" if why else result.reason
        return replace(result, reason=reason)
    reason = f"no path in {run.request.timeout:.3g} s; {why or 'more time may find one'}"
    return replace(result, status=PlanStatus.TIMED_OUT, reason=reason)


def _separated(request: PlanRequest) -> str:
    """Return what separates the start from each goal; empty if it is not known."""
    goals = [goal.q for goal in request.goals if isinstance(goal, JointGoal)]
    if len(goals) != len(request.goals) or request.cancelled():
        return ""
    # Imported on use: most plans are found.
    from motion_nodes.core.planning.separation import separation

    start = configuration(request.checker, request.start, "the start")
    reasons = [separation(request.checker, start, np.asarray(q, np.float64)) for q in goals]
    return reasons[0] if all(reasons) else ""


def _attempt(
    run: PlanRun, pipeline: Pipeline, request: PlanRequest, strategy: Strategy
) -> PlanAttempt:
    """Return the result of one search and of the adapters of its path."""
    first = strategy.seed == 0
    found = (strategy.search or pipeline.search)(run, request, first)
    found.corner_step /= strategy.finer
    if found.result.path is None:
        return found
    if first:
        run.note(found.ends.note)
    for adapt in pipeline.adapters:
        adapt(run, found)
    return found


# ---- adapters of requests and plans

RECOVERABLE = (PlanStatus.START_IN_COLLISION, PlanStatus.START_OUTSIDE_LIMITS)
"""Start states that can be recovered."""
MIN_SEARCH = 0.25
"""Time for the recovery search even if planning has used all of the request's time [s]."""
_TIMEOUT = 0.2
"""Timeout of the check whether a pose is reached [s]."""


def recoverable(run: PlanRun, last: PlanAttempt) -> bool:
    """Return whether the start of a request is invalid, and a recovery from it is wanted."""
    settings, status = run.options.recovery, last.result.status
    return settings is not None and run.recovered is None and status in RECOVERABLE


def recovered_start(run: PlanRun, last: PlanAttempt) -> bool:
    """Let a request begin where the recovery from its invalid start ends.

    Returns:
        Whether it can be recovered; else the result of the attempt has the reason.
    """
    request, settings = run.request, run.options.recovery
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

    Orientations that it does not reach are relaxed, see
    :mod:`motion_nodes.core.ik.relaxed_poses`;
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
        if goal.exact:
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


# ---- strategies


Search = Callable[[PlanRun, PlanRequest, bool], PlanAttempt]
"""From run, request, and whether it is the first search, to its result."""


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
    search: Search | None = None
    """In place of the pipeline's; None: that."""
    share: float = 1.0
    """Fraction of the time left that it may take."""

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
            timeout=max(1e-3, self.share * run.left),
            random_seed=run.request.random_seed + self.seed,
        )


def _refused(run: PlanRun, last: PlanAttempt) -> bool:
    return bool(last.refused) and run.left > 0.0


def _seen_by_spheres(run: PlanRun, last: PlanAttempt) -> bool:
    # Other spheres do not help where spheres are not considered; exact shapes do.
    return _refused(run, last) and not (last.beyond_spheres and _is_usual(run))


FIRST = Strategy(lambda run, last: True)
"""The request as it is."""
RECOVERED_START = Strategy(recoverable, change=recovered_start)
"""Costs the search for a way out, up to its own timeout; for starts that no planner accepts."""
FINER_STEPS = (
    Strategy(_seen_by_spheres, "a finer resolution", finer=FINER, seed=1),
    Strategy(_seen_by_spheres, "a finer resolution and spheres 3 mm larger", None, FINER, 0.003, 2),
    Strategy(_seen_by_spheres, "a finer resolution and spheres 10 mm larger", None, FINER, 0.01, 3),
)
"""Cost up to ten times the first search; succeed where exact shapes extend beyond spheres, or
between two configurations of an edge."""
STRATEGIES = (RECOVERED_START, *FINER_STEPS)
"""Of pipelines that search, in this order."""


class Pipeline(NamedTuple):
    """A search, and what is done with its path."""

    search: Search
    adapters: tuple[Callable[[PlanRun, PlanAttempt], None], ...]
    """Called in this order on each path that is found."""
    strategies: tuple[Strategy, ...] = STRATEGIES
    """Tried in this order; none if the path is given."""


# ---- the default pipeline


SOON = 100_000
"""Iterations of the first search, less than half a second: nearly all that succeed need fewer."""
_BY_SPHERES = (PlanStatus.GOAL_IN_COLLISION, PlanStatus.START_IN_COLLISION)
_WITHOUT_WAY = (PlanStatus.ITERATION_LIMIT, PlanStatus.TIMED_OUT)


def search(run: PlanRun, request: PlanRequest, first: bool) -> PlanAttempt:
    """Search a path by the planner of the options, between ends that the spheres permit.

    Poses at which the spheres always collide become joint goals that are free by exact geometry.
    """
    ends = searchable(request)
    attempts, settings = (run.options.attempts if first else 1), run.options.settings
    if first and _is_usual(run):
        settings = replace(settings or RrtConnectSettings(), max_iterations=SOON)
    result = _planned(run, ends.request, attempts, settings)
    other = beside_spheres(run, request, result)
    if other is not None:
        ends = searchable(other)
        result = _planned(run, ends.request, attempts, settings)
    return PlanAttempt(ends, result, is_free=ends.request.checker.are_free)


def _is_usual(run: PlanRun) -> bool:
    """Return whether the planner is the default one, without a bound of its own."""
    settings = run.options.settings
    unbound = isinstance(settings, RrtConnectSettings) and not settings.max_iterations
    return find_planner(run.options.planner)[0] == USUAL and (settings is None or unbound)


def exactly(run: PlanRun, request: PlanRequest, _: bool) -> PlanAttempt:
    """Search a path between the original ends by the exact geometry, and shorten it by that."""
    asked = request
    if any(not isinstance(goal, JointGoal) for goal in request.goals):
        asked = with_joint_goals(request, 0.3 * request.timeout) or request
    with run.stage("path"):
        result = ExactSearch(asked).plan()
        run.words = result.reason or f"{result.planner}: {result.iterations} iterations"
    if result.success:
        run.note("the collision spheres leave no way; the exact shapes are nowhere in collision")
    checker = asked.checker

    def is_free(Q: Array) -> NDArray[np.bool_]:
        free = checker.are_free_by_both(Q)
        free[~free] = checker.exact.are_free(Q[~free])
        return free

    # Beside the shapes there is no margin: corners are checked as finely as they are verified.
    corner_step = CornerBlending.resolution / FINER
    return PlanAttempt(ExcessEnds(asked), result, corner_step, is_free, exact=True)


def _beside_spheres(run: PlanRun, last: PlanAttempt) -> bool:
    return last.result.status in _BY_SPHERES and _is_usual(run) and run.left > 0.0


def _without_way(run: PlanRun, last: PlanAttempt) -> bool:
    nothing = last.result.path is None and last.result.status in _WITHOUT_WAY
    return (nothing or bool(last.refused)) and _is_usual(run) and run.left > 0.0


def _grazing(run: PlanRun, last: PlanAttempt) -> bool:
    return last.exact and _refused(run, last)


def _unbound(run: PlanRun, last: PlanAttempt) -> bool:
    limited = last.result.status is PlanStatus.ITERATION_LIMIT
    return limited and _is_usual(run) and run.left > 0.0


def _planned(run: PlanRun, request: PlanRequest, attempts: int, settings: Any) -> PlanResult:
    """Return the shortest path of some searches with different seeds."""
    options = run.options
    name, note = find_planner(options.planner)
    run.note(note)
    best: PlanResult | None = None
    for number in range(attempts):
        timeout = max(1e-3, min(request.timeout, run.left))
        asked = replace(request, random_seed=request.random_seed + number, timeout=timeout)
        with run.stage("path"):
            planner = make_planner(name, settings)
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
    if not run.options.shorten or found.result.curve is not None or found.exact:
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
        looked = run.verified(found.path if points is None else points.positions)
        found.refused = looked.reason
        found.beyond_spheres = is_beyond_spheres(run.request.checker, looked.q)


def path_effort_limits(checker: CollisionChecker, options: PlanOptions) -> PathEfforts | None:
    """Return the effort limits of planned motions; None: they are not considered."""
    robot, joints = checker.robot, checker.joint_names
    share, payload = options.effort_share, options.payload
    return effort_limits(robot, joints, checker.positions, share, payload)


SEARCHES = (
    Strategy(_beside_spheres, "exact shapes", seed=4, search=exactly),
    Strategy(_without_way, "exact shapes", seed=4, search=exactly, share=0.25),
    Strategy(_grazing, "exact shapes and other samples", seed=6, search=exactly, share=0.5),
    Strategy(_unbound, seed=5, share=0.5),
    Strategy(_without_way, "exact shapes", seed=7, search=exactly),
)
"""Of the default planner, whose first search is short."""
DEFAULT = Pipeline(
    search,
    (shorten, join_ends, parameterize, sample, verify),
    (RECOVERED_START, FINER_STEPS[0]._replace(share=0.5), *FINER_STEPS[1:], *SEARCHES),
)
