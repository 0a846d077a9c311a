# SPDX-License-Identifier: Apache-2.0
"""Planning pipeline with path constraints: search, shortening, spline, timing, verification."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from motion_nodes.model.tree import Array
from motion_nodes.planning.cartesian import CartesianPath, CartesianStop
from motion_nodes.planning.constrained.constrained_search import (
    NAME,
    ConstrainedRrt,
    ConstrainedSearch,
    ConstrainedSettings,
)
from motion_nodes.planning.constrained.constraint_set import ConstraintSet
from motion_nodes.planning.constrained.path_constraints import PathConstraint
from motion_nodes.planning.joint_space import JointSpace
from motion_nodes.planning.path_verification import PathVerifier
from motion_nodes.planning.pipeline import FoundMotion, PlanOptions, PlanRun
from motion_nodes.planning.planning_problem import PlanRequest
from motion_nodes.planning.shortcut import lines_free
from motion_nodes.planning.sphere_excess import searchable
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.trajectory.blended_path import CornerBlending
from motion_nodes.trajectory.path_efforts import PathEfforts, effort_limits
from motion_nodes.trajectory.spline import position_excess, segment_shares, spline_path
from motion_nodes.trajectory.time_parameterization import (
    distinct_waypoints,
    retime,
    scaled_limits,
    time_optimal,
)
from motion_nodes.trajectory.timed_path import TimedPath

_FINEST = 20
"""Ratio of the planners' steps, about 2 cm, to those at which constraints are verified: 1 mm."""
_SAMPLE_TIME = 0.005
"""Time between samples of a motion, between which further ones are interpolated [s]."""
_ROUNDING = 1e-6


class ConstrainedRun(PlanRun):
    """State of one request with constraints."""

    def __init__(self, request: PlanRequest, options: PlanOptions) -> None:
        super().__init__(request, options)
        if options.planner and self._planner_name != NAME:
            self._notes.append(f"path constraints: planned by {NAME}, not {self._planner_name}")
        self._constraints = ConstraintSet(request.checker, request.constraints, start=request.start)
        self._notes += self._constraints.notes
        given = options.settings
        self._settings = given if isinstance(given, ConstrainedSettings) else ConstrainedSettings()

    def _once(self, request: PlanRequest, options: PlanOptions) -> FoundMotion:
        """Search, shorten, time-parameterize and verify."""
        timeout = max(1e-3, min(request.timeout, self._left()))
        with self._stage("path"):
            ends = searchable(request, self._constraints.projected)
            result = ConstrainedRrt(self._settings).plan(replace(ends.request, timeout=timeout))
            self._words = result.reason or (
                f"{NAME}: {0 if result.path is None else len(result.path)} waypoints, "
                f"{result.iterations} iterations"
            )
        if result.path is None:
            return FoundMotion(result)
        path = result.path
        if options.shorten:
            with self._stage("shorten"):
                path = self._shorter(ends.request, path)
                self._words = f"from {len(result.path)} to {len(path)} waypoints"
        path = ends.joined(path, result.goal_index)
        if ends.note and request is self._request:
            self._notes.append(ends.note)
        request = replace(request, checker=ends.request.checker)
        space = JointSpace.of_robot(request.checker.robot, request.checker.joint_names)
        result = replace(result, path=path, cost=space.length(path))
        if not options.retime or np.abs(path - path[0]).max() < _ROUNDING:
            points = self._points(path, None) if options.retime else None
            return FoundMotion(result, None, points, self._violated(path))
        refused = ""
        for timed in (self._along_spline, self._along_lines):
            with self._stage("retime"):
                motion = timed(request, path)
                self._words = f"{motion.duration:.4g} s" if motion else "the spline violates limits"
            if motion is None:
                continue
            driven = motion.states(motion.sample_times(_SAMPLE_TIME))[0]
            refused = self._violated(driven)
            if not refused:
                return FoundMotion(result, motion, self._points(path, motion))
        return FoundMotion(result, motion, self._points(path, motion), refused)

    def _shorter(self, request: PlanRequest, path: Array) -> Array:
        """Return a shorter path, with the preferred clearance where the path has it already."""
        clear = request.checker.snapshot()
        clear.set_sphere_margin(max(self._options.preferred_clearance, clear.sphere_margin))
        free = np.flatnonzero(clear.are_free(path))
        first, last = (int(free[0]), int(free[-1]) + 1) if len(free) else (0, 0)
        inner = path[first:last]
        found = len(inner) > 1 and lines_free(clear, inner)
        if not found:
            first, last, clear = 0, len(path), request.checker
        search = ConstrainedSearch(clear, self._constraints, self._settings)
        short = search.shortened(path[first:last], request.random_seed)
        return np.concatenate([path[:first], short, path[last:]])

    def _along_spline(self, request: PlanRequest, path: Array) -> TimedPath | None:
        """Return the motion along the spline through the waypoints, or None."""
        checker, options = request.checker, self._options
        points = distinct_waypoints(path)
        limits = scaled_limits(
            checker.limits, options.velocity_scaling, options.acceleration_scaling
        )
        spans = segment_shares(points, "chord_length")
        spline = spline_path(checker.joint_names, points, spans)
        if position_excess(spline, limits):
            return None
        return time_optimal(spline, limits, efforts=self._efforts(checker))

    def _along_lines(self, request: PlanRequest, path: Array) -> TimedPath:
        """Return the motion along the lines between waypoints, with blended corners."""
        checker, options = request.checker, self._options

        def is_free(Q: Array) -> NDArray[np.bool_]:
            return checker.are_free(Q) & (self._constraints.excess(Q) <= 1.0)

        return retime(
            path,
            checker.limits,
            velocity_scaling=options.velocity_scaling,
            acceleration_scaling=options.acceleration_scaling,
            blending=CornerBlending(options.blend, is_free, self._corner_step),
            efforts=self._efforts(checker),
        )

    def _efforts(self, checker: CollisionChecker) -> PathEfforts | None:
        robot, joints, options = checker.robot, checker.joint_names, self._options
        share, payload = options.effort_share, options.payload
        return effort_limits(robot, joints, checker.positions, share, payload)

    def _violated(self, driven: Array) -> str:
        """Return why a motion is rejected: constraints, or exact geometry; empty if valid."""
        if not self._options.verify:
            return ""
        checker = self._request.checker
        with self._stage("verify"):
            reason = constraint_fault(self._constraints, checker, driven)
            reason = reason or PathVerifier(checker).verify(driven).reason
            self._words = reason or "collision-free, constraints hold at steps of 1 mm"
        return reason


def constraint_fault(
    constraints: ConstraintSet, checker: CollisionChecker, driven: Array, finer: int = _FINEST
) -> str:
    """Return where a motion violates constraints and by how much; empty if nowhere.

    Until a motion that begins outside the constraints has entered them, it may violate them by as
    much as its start.

    Args:
        constraints: of the path.
        checker: robot, joints and resolution.
        driven: configurations joined by straight lines, shape (k, n).
        finer: ratio of the resolution to the steps.
    """
    dense, share = _dense(driven, checker.resolution / finer)
    excess = constraints.excess(dense)
    inside = np.flatnonzero(excess <= 1.0)
    entered = int(inside[0]) if len(inside) else len(excess)
    allowed = np.ones(len(excess))
    allowed[:entered] = max(1.0, float(excess[0]))
    wrong = np.flatnonzero(excess > allowed + _ROUNDING)
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
