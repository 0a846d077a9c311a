# SPDX-License-Identifier: Apache-2.0
"""Planning pipeline: path, shortening, time parameterization, and verification.

The stages are tried with one strategy after the other (:data:`_STRATEGIES`) until the verification
accepts a motion; one clock, :meth:`PlanRun._left`, bounds all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.model.payload import Payload
from motion_nodes.model.setting import check_settings, setting
from motion_nodes.model.tree import Array
from motion_nodes.planning.joint_space import JointSpace
from motion_nodes.planning.path_verification import FINER, PathVerifier
from motion_nodes.planning.payload_checks import bearable, overloaded
from motion_nodes.planning.planners import find_planner, make_planner
from motion_nodes.planning.planning_problem import (
    JointGoal,
    MotionPlan,
    PlanRequest,
    PlanResult,
    PlanStage,
    PlanStatus,
)
from motion_nodes.planning.reachable_goals import reachable_form
from motion_nodes.planning.search_settings import ShorteningSettings
from motion_nodes.planning.shortcut import shorten_path, shorten_with_clearance
from motion_nodes.planning.sphere_excess import ExcessEnds, searchable, with_joint_goals
from motion_nodes.planning.tree_search import SearchTree
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.trajectory.blended_path import CornerBlending, FreeCheck
from motion_nodes.trajectory.joint_path import JointPath
from motion_nodes.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.trajectory.path_efforts import EFFORT_SHARE, effort_limits
from motion_nodes.trajectory.time_parameterization import retime, scaled_limits, time_optimal
from motion_nodes.trajectory.timed_path import TimedPath

__all__ = ["FoundMotion", "MotionPlan", "PlanOptions", "PlanRun", "PlanStage", "plan"]

_SAME = 1e-9
"""Tolerance for equal configurations [rad or m]."""


@dataclass(frozen=True)
class PlanOptions:
    """Options of the planning pipeline."""

    planner: str = ""
    """Name of the planner; empty: the default one."""
    settings: Any = None
    """Settings of the planner; None: defaults."""
    attempts: int = 1
    """Number of searches with different seeds, of which the shortest path is used."""
    shorten: bool = True
    """Whether the path is shortened."""
    shortening: ShorteningSettings | None = None
    """Settings of shortening; None: fast ones, well under a millisecond."""
    shorten_time: float = 0.5
    """Timeout of shortening [s]."""
    retime: bool = True
    """Whether the path is time-parameterized."""
    velocity_scaling: float = 1.0
    """Velocity scaling factor; 0 means 1."""
    acceleration_scaling: float = 1.0
    """Acceleration scaling factor; 0 means 1."""
    effort_share: float = setting(
        EFFORT_SHARE,
        doc="Fraction of the effort limits that planned motions may use, by the inertial "
        "parameters of the robot; 0: effort limits are not considered.",
        ge=0.0,
        le=1.0,
    )
    payload: Payload | None = None
    """Payload for the effort limits; motions with overloaded drives are rejected."""
    blend: float = 0.01
    """Max deviation of the motion at the corners of the path [rad or m]."""
    time_step: float = 0.01
    """Time between two points of the trajectory [s]."""
    verify: bool = True
    """Whether the result is verified with exact geometry."""
    preferred_clearance: float = setting(
        0.005,
        doc="Clearance of planned paths from obstacles and between links, by collision spheres. "
        "Start and goal may be closer; what of a path cannot be moved to it is closer, too.",
        unit="m",
        ge=0.0,
        le=0.1,
    )

    def __post_init__(self) -> None:
        """Validate the numbers."""
        if not isinstance(self.attempts, int) or self.attempts < 1:
            raise InvalidConfig(
                f"attempts is {self.attempts!r}; it must be a whole number from 1 on.",
                field="attempts",
            )
        for name in ("velocity_scaling", "acceleration_scaling"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InvalidConfig(
                    f"{name} is {getattr(self, name)}; it must be from 0 to 1.", field=name
                )
        if not (math.isfinite(self.time_step) and self.time_step > 0.0):
            raise InvalidConfig(
                f"time_step is {self.time_step} s; it must be above 0.", field="time_step"
            )
        check_settings(self)


def plan(request: PlanRequest, options: PlanOptions | None = None) -> MotionPlan:
    """Plan a motion.

    Planners search with spheres. A motion rejected by the verification, because the exact geometry
    collides, is planned again at a finer resolution, then with larger spheres. Start and goals only
    have to be collision-free for the exact geometry.

    Raises:
        InvalidCommand, InvalidConfig, UnknownFrame: the request is not well formed: wrong lengths,
            values that are not finite, an unknown link; limits that permit no motion.
    """
    options = options or PlanOptions()
    rejected = overloaded(request, options)
    if rejected is not None:
        return MotionPlan(rejected, None, None, (), (), 0.0)
    if request.constraints:
        # Imported on use: most processes never plan with constraints.
        from motion_nodes.planning.constrained.constrained_plan import ConstrainedRun

        return bearable(ConstrainedRun(request, options).run(), request, options)
    return bearable(PlanRun(request, options).run(), request, options)


class _Strategy(NamedTuple):
    """Form of start, goals and scene for the stages, and the note of a repetition."""

    words: str
    finer: int = 1
    """Ratio of the checker's resolution to that of the search."""
    margin: float = 0.0
    """Additional clearance of the spheres [m]."""

    def checker(self, request: PlanRequest) -> CollisionChecker:
        """Return the checker of a request for this strategy."""
        checker = request.checker.snapshot()
        checker.set_resolution(checker.resolution / self.finer)
        checker.set_sphere_margin(self.margin)
        return checker


_STRATEGIES = (
    _Strategy("the usual resolution"),
    _Strategy("a finer resolution", FINER),
    _Strategy("a finer resolution and spheres 3 mm larger", FINER, 0.003),
    _Strategy("a finer resolution and spheres 10 mm larger", FINER, 0.01),
)
"""In this order, each after the motion of the one before is rejected: the first one costs what the
search costs, the others up to ten times as much, and succeed where exact shapes extend beyond
spheres or between two configurations of an edge."""


class FoundMotion(NamedTuple):
    """Result of one search with the stages after it."""

    result: PlanResult
    motion: TimedPath | None = None
    points: JointTrajectory | None = None
    """The motion, sampled."""
    refused: str = ""
    """Why the verification rejects it."""


class PlanRun:
    """State of one request; planning with constraints replaces :meth:`_once`."""

    def __init__(self, request: PlanRequest, options: PlanOptions) -> None:
        self._began = compute_time()
        self._request, self._options = request, options
        self._stages: list[PlanStage] = []
        name, note = find_planner(options.planner)
        self._planner_name, self._notes = name, [note] if note else []
        self._words = ""
        self._tree: SearchTree | None = None
        self._corner_step = CornerBlending.resolution

    def run(self) -> MotionPlan:
        """Plan by one strategy after the other, until the verification accepts the motion."""
        self._request, note = reachable_form(self._request)
        self._notes += [note] if note else []
        found = self._once(self._request, self._options)
        for strategy in _STRATEGIES[1:]:
            if not found.refused or self._left() <= 0.0 or self._request.cancelled():
                break
            self._notes.append(f"searched again with {strategy.words}: {found.refused}")
            self._corner_step = CornerBlending.resolution / strategy.finer
            again = replace(
                self._request, checker=strategy.checker(self._request), timeout=self._left()
            )
            other = self._once(again, replace(self._options, attempts=1))
            if other.result.path is None and strategy.margin:
                break  # no path exists with larger spheres
            found = other
        if found.refused:
            words = f"verification rejected the path: {found.refused}"
            status = PlanStatus.INVALID_PATH
            found = FoundMotion(replace(found.result, status=status, path=None, reason=words))
        spent = compute_time() - self._began
        result = replace(found.result, time=spent)
        stages, notes = tuple(self._stages), tuple(self._notes)
        return MotionPlan(result, found.points, found.motion, stages, notes, spent, self._tree)

    def _points(self, path: Array, motion: TimedPath | None) -> JointTrajectory:
        """Return the trajectory: a single point if there is no motion."""
        if motion is None:
            still = np.zeros_like(path[:1])
            names = self._request.checker.joint_names
            return JointTrajectory(names, np.zeros(1), path[:1], still, still)
        with self._stage("sample"):
            points = motion.points(self._options.time_step)
            self._words = f"{len(points.times)} points"
        return points

    def _once(self, request: PlanRequest, options: PlanOptions) -> FoundMotion:
        """Search, shorten, time-parameterize, sample and verify."""
        ends, result = self._found(request, options)
        if result.path is None:
            return FoundMotion(result)
        curve = result.curve if options.retime and not ends.note else None
        path = result.path
        is_free: FreeCheck = ends.request.checker.are_free
        if options.shorten and result.curve is None:
            path, is_free = self._shortened(ends.request, path)
        path = ends.joined(path, result.goal_index)
        if ends.note and request is self._request:
            self._notes.append(ends.note)
        request = replace(request, checker=ends.request.checker)
        space = JointSpace.of_robot(request.checker.robot, request.checker.joint_names)
        result = replace(result, path=path, cost=space.length(path))
        motion = self._timed(request, path, curve, is_free) if options.retime else None
        points = self._points(path, motion) if options.retime else None
        # The motion leaves the path only at its corners, within verified bounds.
        driven = path if motion is None or points is None else points.positions
        return FoundMotion(result, motion, points, self._refused(driven) if options.verify else "")

    def _found(self, request: PlanRequest, options: PlanOptions) -> tuple[ExcessEnds, PlanResult]:
        """Return a path between ends that the spheres permit, and its connections."""
        ends = searchable(request)
        result = self._searched(ends.request, options)
        poses = any(not isinstance(goal, JointGoal) for goal in request.goals)
        if result.status is PlanStatus.GOAL_IN_COLLISION and poses and self._left() > 0.0:
            other = with_joint_goals(request, self._left())
            if other is not None:
                ends = searchable(other)
                result = self._searched(ends.request, options)
        return ends, result

    def _searched(self, request: PlanRequest, options: PlanOptions) -> PlanResult:
        best: PlanResult | None = None
        for number in range(options.attempts):
            seed = request.random_seed + number
            timeout = max(1e-3, min(request.timeout, self._left()))
            asked = replace(request, random_seed=seed, timeout=timeout)
            with self._stage("path"):
                planner = make_planner(self._planner_name, options.settings)
                result = planner.plan(asked)
                self._words = result.reason or (
                    f"{result.planner}: {len(result.path) if result.path is not None else 0} "
                    f"waypoints, {result.iterations} iterations, cost {result.cost:.4g}"
                )
            if best is None or (result.success and result.cost < best.cost):
                best = result
                # A planner may have no tree.
                self._tree = getattr(planner, "tree", lambda: None)()
            if not result.success or self._left() <= 0.0:
                break
        assert best is not None
        return best

    def _shortened(self, request: PlanRequest, path: Array) -> tuple[Array, FreeCheck]:
        """Return a shorter path, with the preferred clearance where possible.

        Returns:
            The path, and the check that its blended corners have to pass.
        """
        options, checker = self._options, request.checker
        margin, limit = options.preferred_clearance, options.shorten_time
        with self._stage("shorten"):
            if margin <= checker.sphere_margin or np.abs(path - path[0]).max() < _SAME:
                short = shorten_path(
                    checker,
                    path,
                    options.shortening,
                    random_seed=request.random_seed,
                    timeout=limit,
                )
                self._words = f"from {len(path)} to {len(short)} waypoints"
                return short, checker.are_free
            clear = checker.snapshot()
            clear.set_sphere_margin(margin)
            found = shorten_with_clearance(
                checker,
                clear,
                path,
                options.shortening,
                random_seed=request.random_seed,
                timeout=limit,
            )
            self._words = f"from {len(path)} to {len(found.path)} waypoints"
        if not found.ends_only:
            self._notes.append(
                f"parts of the path are closer than the preferred clearance of {1e3 * margin:g} mm"
            )

        def is_free(Q: Array) -> NDArray[np.bool_]:
            free = clear.are_free(Q)
            if not free.all() and not found.clear.all():
                rest = np.flatnonzero(~free)
                rest = rest[found.near_a_tight_line(Q[rest], options.blend)]
                free[rest] = checker.are_free(Q[rest])
            return free

        return found.path, is_free

    def _timed(
        self, request: PlanRequest, path: Array, curve: JointPath | None, is_free: FreeCheck
    ) -> TimedPath | None:
        options, checker = self._options, request.checker
        if np.abs(path - path[0]).max() < _SAME:
            self._notes.append("the robot is at the goal already: there is nothing to move")
            return None
        with self._stage("retime"):
            scaling = options.velocity_scaling, options.acceleration_scaling
            robot, joints, share = checker.robot, checker.joint_names, options.effort_share
            efforts = effort_limits(robot, joints, checker.positions, share, options.payload)
            if curve is None:
                blending = CornerBlending(options.blend, is_free, self._corner_step)
                motion = retime(
                    path,
                    checker.limits,
                    velocity_scaling=scaling[0],
                    acceleration_scaling=scaling[1],
                    blending=blending,
                    efforts=efforts,
                )
            else:
                limits = scaled_limits(checker.limits, *scaling)
                motion = time_optimal(curve, limits, efforts=efforts)
            self._words = f"{motion.duration:.4g} s"
        return motion

    def _refused(self, driven: Array) -> str:
        with self._stage("verify"):
            looked = PathVerifier(self._request.checker).verify(driven)
            seen, reason = looked.configurations, looked.reason
            share = f"{100.0 * looked.certain:.3g} % proven between them"
            self._words = reason or f"collision-free, {seen} configurations, {share}"
        return reason

    def _left(self) -> float:
        return self._request.timeout - (compute_time() - self._began)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        began = compute_time()
        self._words = ""
        try:
            yield
        except MotionError as error:
            self._words = str(error)
            raise
        finally:
            self._stages.append(PlanStage(name, compute_time() - began, self._words))
