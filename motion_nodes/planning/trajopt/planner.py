# SPDX-License-Identifier: Apache-2.0
"""``TrajOpt``: first paths by RRT-Connect, optimized to curves of short duration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.planning.planning_problem import JointGoal, PlanRequest, PlanResult
from motion_nodes.planning.rrt_connect import RrtConnect
from motion_nodes.planning.shortcut import shorten_path
from motion_nodes.planning.trajopt.optimizer import CurveOptimizer
from motion_nodes.planning.trajopt.settings import TrajOptSettings
from motion_nodes.planning.tree_search import SearchTree, find_ends
from motion_nodes.trajectory.joint_path import JointPath
from motion_nodes.trajectory.path_efforts import PathEfforts, effort_limits
from motion_nodes.trajectory.time_parameterization import retime, time_optimal
from motion_nodes.typing import Array

_SHARE = 0.5
"""Max fraction of the planning time for first paths."""
_DENSE = 4
"""Checked configurations per sample of the optimization."""
_STRAIGHT = 1e-9


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A first path."""

    path: Array
    goal: int | None
    duration: float
    """Duration of the motion along it; without acceleration limits by velocity limits alone [s]."""
    result: PlanResult
    checked: bool = True
    """Whether the path is collision-free."""


class TrajOpt:
    """Returns the fastest of several optimized curves and of the first paths themselves."""

    name = "TrajOpt"

    def __init__(self, settings: TrajOptSettings | None = None) -> None:
        self.settings = settings or TrajOptSettings()
        self._search = RrtConnect(self.settings.search)

    def tree(self) -> SearchTree | None:
        """Return the trees of the last search as one, for visualization."""
        return self._search.tree()

    def plan(self, request: PlanRequest) -> PlanResult:
        """Search first paths, and optimize the shortest ones.

        The result's ``curve`` is collision-free for the spheres at dense samples, like the first
        paths, and ends at the same configurations; there is none if no curve is faster.
        """
        began = compute_time()
        end = began + request.timeout

        def give_up() -> bool:
            return request.cancelled() or compute_time() > end

        first = self._first_path(request, request)
        if isinstance(first, PlanResult):
            return replace(first, planner=self.name)
        found = [first, *self._more(request, first, began + _SHARE * request.timeout)]
        found.sort(key=lambda candidate: candidate.duration)
        best, curve, duration = found[0], None, np.inf
        if self.settings.warm_start:
            found = [*self._warm(request, first), *found[: self.settings.candidates - 1]]
        for candidate in found[: self.settings.candidates]:
            if give_up() and np.isfinite(duration):
                break
            time, optimized = self._faster(request, candidate, give_up)
            if time < duration:
                best, curve, duration = candidate, optimized, time
        path = best.path if curve is None else _dense(curve, self._count)
        spent = compute_time() - began
        return replace(
            best.result, path=path, planner=self.name, curve=curve, time=spent, goal_index=best.goal
        )

    @property
    def _count(self) -> int:
        return _DENSE * self.settings.samples

    def _first_path(
        self, request: PlanRequest, part: PlanRequest, goal: int | None = None
    ) -> _Candidate | PlanResult:
        """Return a shortened first path for a request, or for one of its goals."""
        result = self._search.plan(part)
        if result.path is None:
            return result
        path = shorten_path(
            request.checker, result.path, self.settings.shortening, random_seed=part.random_seed
        )
        goal = result.goal_index if goal is None else goal
        return _Candidate(path, goal, _duration(request, path), result)

    def _more(self, request: PlanRequest, first: _Candidate, end: float) -> Iterator[_Candidate]:
        """Yield further first paths: to other goals, the closest first, and from other seeds."""
        if len(first.path) <= 2 and all(isinstance(goal, JointGoal) for goal in request.goals):
            return  # a straight line
        ends = find_ends(request)
        if isinstance(ends, PlanResult):
            return
        speed = request.checker.limits.velocity
        ways = request.checker.limits.turns.distance(ends.start, ends.goals.Q)
        away = (ways / speed).max(axis=1)
        order = np.argsort(away)
        for number in range(self.settings.paths - 1):
            left = end - compute_time()
            if left <= 0.0 or request.cancelled():
                return
            k = int(order[number % len(order)])
            part = replace(
                request,
                goals=(JointGoal(ends.goals.Q[k]),),
                random_seed=request.random_seed + 1 + number,
                timeout=left,
            )
            other = self._first_path(request, part, ends.goals.index[k])
            if isinstance(other, _Candidate):
                yield other

    def _warm(self, request: PlanRequest, first: _Candidate) -> list[_Candidate]:
        """Return the given path as a candidate, with the ends of the first path."""
        try:
            points = np.array(self.settings.warm_start, dtype=np.float64)
        except (TypeError, ValueError):  # text, or rows of different lengths
            points = np.empty(0)
        joints = first.path.shape[1]
        sound = points.ndim == 2 and points.shape[1] == joints and len(points) >= 2
        if not sound or not np.isfinite(points).all():
            raise InvalidConfig(
                f"warm_start must be two or more waypoints of {joints} finite joint values.",
                field="warm_start",
            )
        points[0], points[-1] = first.path[0], first.path[-1]
        return [replace(first, path=points, duration=_duration(request, points), checked=False)]

    def _faster(
        self, request: PlanRequest, candidate: _Candidate, give_up: Callable[[], bool]
    ) -> tuple[float, JointPath | None]:
        """Return the duration of a candidate, and the curve that reaches it, if one does."""
        checker, limits = request.checker, request.checker.limits
        duration, own = candidate.duration, candidate.duration if candidate.checked else np.inf
        if len(candidate.path) <= 2 or not np.isfinite(limits.acceleration).all():
            return own, None
        efforts = _efforts(request)
        optimizer = CurveOptimizer(checker, self.settings)
        points = _equally_spaced(candidate.path, limits.velocity, self.settings.samples)
        P = optimizer.optimized(points, duration, give_up)
        for number in range(self.settings.retries + 1):
            if number:
                P = optimizer.repaired(P, duration, number, give_up)
            curve = optimizer.spline.path(limits.names, P)
            if checker.are_free(_dense(curve, self._count)).all():
                time = time_optimal(curve, limits, efforts=efforts).duration
                return (time, curve) if time < own else (own, None)
        return own, None


def _efforts(request: PlanRequest) -> PathEfforts | None:
    checker = request.checker
    return effort_limits(checker.robot, checker.joint_names, checker.positions)


def _duration(request: PlanRequest, path: Array) -> float:
    """Return the duration of the motion along a path [s]."""
    limits = request.checker.limits
    try:
        return retime(path, limits, efforts=_efforts(request)).duration
    except MotionError:  # e.g. no acceleration limits: the pipeline reports it
        return float(np.abs(np.diff(path, axis=0) / limits.velocity).max(axis=1).sum())


def _dense(curve: JointPath, count: int) -> Array:
    """Return configurations on a curve, both ends included, shape (count + 1, n)."""
    return curve.evaluate(np.linspace(0.0, curve.length, count + 1))


def _equally_spaced(path: Array, scale: Array, count: int) -> Array:
    """Return points at equal distances along a path, measured relative to a scale, (count, n)."""
    steps = np.linalg.norm(np.diff(path, axis=0) / scale, axis=1)
    places = np.append(0.0, np.cumsum(steps))
    desired = np.linspace(0.0, places[-1], count)
    return np.stack([np.interp(desired, places, column) for column in path.T], axis=1)
