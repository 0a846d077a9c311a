# SPDX-License-Identifier: Apache-2.0
"""Planner of detours of a base at rest; optionally searches in another thread."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np

from motion_nodes.base_navigation.base_motion import BaseMotion, MotionOutcome
from motion_nodes.base_navigation.detour import DetourMotion
from motion_nodes.base_navigation.detour_search import (
    Detour,
    DetourConfig,
    DetourSearch,
    NoDetour,
)
from motion_nodes.base_navigation.footprint import Footprint
from motion_nodes.base_navigation.free_motion import into_base
from motion_nodes.base_navigation.motion_limits import BaseKind, MotionLimits
from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.bases.base import Twist2
from motion_nodes.typing import Array

DEPTHS = (0.07, 0.14, 0.2)
"""Assumed depths of obstacles behind their visible points, if a detour exists [m]."""
STILL = 0.01
"""Max displacement of the base during a search; the result is discarded beyond it [m]."""

Submit = Callable[[Callable[[], Detour]], "Future[Detour]"]
"""Starts a search."""


def at_once(job: Callable[[], Detour]) -> Future[Detour]:
    """Run a search synchronously."""
    future: Future[Detour] = Future()
    try:
        future.set_result(job())
    except Exception as error:
        future.set_exception(error)
    return future


class _Pending(NamedTuple):
    future: Future[Detour]
    motion: BaseMotion
    pose: Pose2
    back: float


class DetourPlanner:
    """Runs one search at a time."""

    def __init__(
        self,
        kind: BaseKind,
        footprint: Footprint,
        limits: MotionLimits,
        clearance: float,
        config: DetourConfig,
        submit: Submit = at_once,
    ) -> None:
        """Create the planner.

        Args:
            kind: kind of the base.
            footprint: footprint of the base.
            limits: limits of its motions.
            clearance: min distance from obstacles [m].
            config: settings of detours.
            submit: starts a search, for example in a thread.
        """
        self._kind, self._footprint, self._limits = kind, footprint, limits
        self._clearance, self._config, self._submit = clearance, config, submit
        self._pending: _Pending | None = None

    @property
    def searching(self) -> bool:
        """Whether a search is active, or its result has not been read."""
        return self._pending is not None

    def forget(self) -> None:
        """Discard the result of the active search."""
        self._pending = None

    def begin(self, motion: BaseMotion, pose: Pose2, desired: Twist2, points: Array) -> None:
        """Start a search.

        Args:
            motion: the blocked motion.
            pose: pose of the base, at rest.
            desired: twist of the motion; the base backs off in the opposite direction.
            points: obstacles in the base frame [m], shape (n, 2).

        Raises:
            NoDetour: the kind of base has no detours, or it is at its goal.
        """
        if self._kind == "ackermann":
            raise NoDetour("detours are not supported for car-like bases")
        if isinstance(motion, DetourMotion):
            motion = motion.then
        if motion.outcome is not MotionOutcome.MOVING:
            raise NoDetour("the base is at its goal")
        rows = motion.route(pose)
        route = np.column_stack((into_base(rows[:, :2], pose), rows[:, 2] - pose.yaw))
        back = math.pi
        if self._kind == "holonomic" and math.hypot(desired.vx, desired.vy) > 0.0:
            back = math.atan2(-desired.vy, -desired.vx)
        elif desired.vx < 0.0:
            back = 0.0
        future = self._submit(lambda: self._search(points, route, back))
        self._pending = _Pending(future, motion, pose, back)

    def take(self, pose: Pose2) -> DetourMotion | None:
        """Return the motion along the detour; None while the search is active.

        Args:
            pose: pose of the base; if it has moved during the search, the result is discarded.

        Raises:
            NoDetour: no detour was found.
        """
        pending = self._pending
        if pending is None or not pending.future.done():
            return None
        self._pending = None
        found = pending.future.result()
        if pending.pose.distance(pose) > STILL:
            return None
        then = pending.motion.resumed(found.row)
        return DetourMotion(self._kind, pending.pose, found, then, self._limits, back=pending.back)

    def _search(self, points: Array, route: Array, back: float) -> Detour:
        away = points / np.maximum(np.hypot(points[:, 0], points[:, 1]), 1e-6)[:, None]
        behind = np.concatenate([points, *(points + depth * away for depth in DEPTHS)])
        try:
            return self._among(behind, route, back)
        except NoDetour:
            return self._among(points, route, back)

    def _among(self, points: Array, route: Array, back: float) -> Detour:
        lim = self._limits
        search = DetourSearch(
            self._footprint,
            points,
            route,
            clearance=self._clearance,
            config=self._config,
            holonomic=self._kind == "holonomic",
            turn_cost=lim.max_velocity / lim.max_yaw_velocity,
            back=back,
        )
        return search.run()
