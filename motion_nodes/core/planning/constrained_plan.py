# SPDX-License-Identifier: Apache-2.0
"""Planning pipeline with path constraints: search, shortening, spline, timing, verification."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.planning.cartesian import CartesianPath, CartesianStop
from motion_nodes.core.planning.constrained_search import (
    NAME,
    ConstrainedRrt,
    ConstrainedSearch,
    ConstrainedSettings,
)
from motion_nodes.core.planning.constraint_set import ConstraintSet
from motion_nodes.core.planning.path_constraints import PathConstraint
from motion_nodes.core.planning.pipeline import Pipeline, join_ends, path_effort_limits, sample
from motion_nodes.core.planning.plan_run import (
    ExcessEnds,
    PlanAttempt,
    PlanRun,
    beside_spheres,
    searchable,
)
from motion_nodes.core.planning.planners import find_planner
from motion_nodes.core.planning.planning_problem import PlanRequest, PlanResult
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.trajectory.joint_path import CornerBlending
from motion_nodes.core.trajectory.spline import position_excess, segment_shares, spline_path
from motion_nodes.core.trajectory.time_parameterization import (
    distinct_waypoints,
    retime,
    scaled_limits,
    time_optimal,
)
from motion_nodes.core.trajectory.timed_path import TimedPath
from motion_nodes.tolerances import POSITION_ROUNDING
from motion_nodes.typing import Array

_FINEST = 20
"""Ratio of the planners' steps, about 2 cm, to those at which constraints are verified: 1 mm."""
_SAMPLE_TIME = 0.005
"""Time between samples of a motion, between which further ones are interpolated [s]."""


def search(run: PlanRun, request: PlanRequest, first: bool) -> PlanAttempt:
    """Search a path that satisfies the constraints, between ends that the spheres permit."""
    if first:
        name, note = find_planner(run.options.planner)
        run.note(note)
        if run.options.planner and name != NAME:
            run.note(f"path constraints: planned by {NAME}, not {name}")
        run.constraints = ConstraintSet(request.checker, request.constraints, start=request.start)
        for text in run.constraints.notes:
            run.note(text)
    with run.stage("path"):
        ends, result = _between(run, request)
        other = beside_spheres(run, request, result)
        if other is not None:
            nearby = _between(run, other)
            ends, result = nearby if nearby[1].success else (ends, result)
        run.words = result.reason or (
            f"{NAME}: {0 if result.path is None else len(result.path)} waypoints, "
            f"{result.iterations} iterations"
        )
    return PlanAttempt(ends, result)


def _between(run: PlanRun, request: PlanRequest) -> tuple[ExcessEnds, PlanResult]:
    """Return the ends of a search that the spheres permit, and its result."""
    ends = searchable(request, run.constraints.projected)
    timeout = max(1e-3, min(request.timeout, run.left))
    return ends, ConstrainedRrt(_settings(run)).plan(replace(ends.request, timeout=timeout))


def shorten(run: PlanRun, found: PlanAttempt) -> None:
    """Shorten the path, with the preferred clearance where the path has it already."""
    if not run.options.shorten:
        return
    request, path = found.ends.request, found.path
    with run.stage("shorten"):
        clear = request.checker.snapshot()
        clear.set_sphere_margin(max(run.options.preferred_clearance, clear.sphere_margin))
        free = np.flatnonzero(clear.are_free(path))
        first, last = (int(free[0]), int(free[-1]) + 1) if len(free) else (0, 0)
        inner = path[first:last]
        if len(inner) < 2 or not clear.line_free(inner):
            first, last, clear = 0, len(path), request.checker
        lines = ConstrainedSearch(clear, run.constraints, _settings(run))
        short = lines.shortened(path[first:last], request.random_seed)
        found.move_along(np.concatenate([path[:first], short, path[last:]]))
        run.words = f"from {len(path)} to {len(found.path)} waypoints"


def parameterize(run: PlanRun, found: PlanAttempt) -> None:
    """Time-parameterize the spline through the waypoints; if it is invalid, the lines."""
    if not run.options.retime or np.abs(found.path - found.path[0]).max() < POSITION_ROUNDING:
        found.refused = _violated(run, found.path)
        return
    for timed in (_along_spline, _along_lines):
        with run.stage("retime"):
            motion = timed(run, found)
            run.words = f"{motion.duration:.4g} s" if motion else "the spline violates limits"
        if motion is None:
            continue
        found.motion = motion
        found.refused = _violated(run, motion.states(motion.sample_times(_SAMPLE_TIME))[0])
        if not found.refused:
            return


CONSTRAINED = Pipeline(search, (shorten, join_ends, parameterize, sample))


def _settings(run: PlanRun) -> ConstrainedSettings:
    given = run.options.settings
    return given if isinstance(given, ConstrainedSettings) else ConstrainedSettings()


def _along_spline(run: PlanRun, found: PlanAttempt) -> TimedPath | None:
    """Return the motion along the spline through the waypoints, or None."""
    checker, options = found.ends.request.checker, run.options
    points = distinct_waypoints(found.path)
    limits = scaled_limits(checker.limits, options.velocity_scaling, options.acceleration_scaling)
    spans = segment_shares(points, "chord_length")
    spline = spline_path(checker.joint_names, points, spans)
    if position_excess(spline, limits):
        return None
    return time_optimal(spline, limits, efforts=path_effort_limits(checker, options))


def _along_lines(run: PlanRun, found: PlanAttempt) -> TimedPath:
    """Return the motion along the lines between waypoints, with blended corners."""
    checker, options = found.ends.request.checker, run.options

    def is_free(Q: Array) -> NDArray[np.bool_]:
        within: NDArray[np.bool_] = run.constraints.excess(Q) <= 1.0
        return checker.are_free(Q) & within

    return retime(
        found.path,
        checker.limits,
        velocity_scaling=options.velocity_scaling,
        acceleration_scaling=options.acceleration_scaling,
        blending=CornerBlending(options.blend, is_free, found.corner_step),
        efforts=path_effort_limits(checker, options),
    )


def _violated(run: PlanRun, driven: Array) -> str:
    """Return why a motion is rejected: constraints, or exact geometry; empty if valid."""
    if not run.options.verify:
        return ""
    with run.stage("verify"):
        reason = constraint_fault(run.constraints, run.request.checker, driven)
        reason = reason or run.verified(driven).reason
        run.words = reason or "collision-free, constraints hold at steps of 1 mm"
    return reason


def constraint_fault(constraints: ConstraintSet, checker: CollisionChecker, driven: Array) -> str:
    """Return where a motion violates constraints and by how much; empty if nowhere.

    Until a motion that begins outside the constraints has entered them, it may violate them by as
    much as its start.

    Args:
        constraints: of the path.
        checker: robot, joints and resolution.
        driven: configurations joined by straight lines, shape (k, n).
    """
    dense, share = _dense(driven, checker.resolution / _FINEST)
    excess = constraints.excess(dense)
    inside = np.flatnonzero(excess <= 1.0)
    entered = int(inside[0]) if len(inside) else len(excess)
    allowed = np.ones(len(excess))
    allowed[:entered] = max(1.0, float(excess[0]))
    wrong = np.flatnonzero(excess > allowed + POSITION_ROUNDING)
    if not len(wrong):
        return ""
    first = int(wrong[0])
    return f"at {100.0 * share[first]:.0f} % of the path: {constraints.in_words(dense[first])}"


def within_constraints(
    checker: CollisionChecker, found: CartesianPath, constraints: Iterable[PathConstraint]
) -> CartesianPath:
    """Return a Cartesian path up to the waypoint after which a constraint is violated.

    Args:
        checker: robot and scene.
        found: with at least its start.
        constraints: constraints along the path.

    Raises:
        InvalidCommand, InvalidConfig, UnknownFrame, UnknownJoint: invalid constraints.
    """
    every = ConstraintSet(checker, constraints)
    last = 0
    for last in range(1, len(found.path) + 1):
        fault = constraint_fault(every, checker, found.path[max(0, last - 2) : last])
        if fault:
            break
    else:
        return found
    kept = found.path[: max(1, last - 1)]
    share = found.fraction * (len(kept) - 1) / max(1, len(found.path) - 1)
    words = every.in_words(found.path[last - 1]) or fault
    reason = f"at {100.0 * share:.3g} % of the path: {words}"
    return CartesianPath(kept, share, CartesianStop.CONSTRAINTS, reason)


def _dense(points: Array, step: Array) -> tuple[Array, Array]:
    """Return configurations at most a step apart, and the fraction of the path at each."""
    if len(points) < 2:
        return points, np.zeros(len(points))
    lengths = np.linalg.norm(np.diff(points, axis=0) / step, axis=1)
    counts = np.maximum(1, np.ceil(lengths).astype(int))
    row = np.repeat(np.arange(len(counts)), counts)
    within = (np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)) / counts[row]
    dense = points[row] + within[:, None] * (points[row + 1] - points[row])
    places = np.append(0.0, np.cumsum(lengths))
    share = np.append(places[row] + within * lengths[row], places[-1])
    return np.vstack([dense, points[-1]]), share / max(places[-1], 1e-12)
