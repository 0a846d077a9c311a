# SPDX-License-Identifier: Apache-2.0
"""Planner of detours of a base at rest; optionally searches in another thread.

Motion along a detour, and then along the rest of the route.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.base_motion import BaseMotion, GoalTolerance, MotionOutcome
from motion_nodes.core.navigation.detour_search import (
    Detour,
    DetourConfig,
    DetourSearch,
    Manoeuvres,
    NoDetour,
)
from motion_nodes.core.navigation.follow_path import FollowPath
from motion_nodes.core.navigation.footprint import Footprint, into_base, keeps_clear
from motion_nodes.core.navigation.motion_limits import BaseKind, MotionLimits
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.navigation.pose_motions import GoToPose
from motion_nodes.typing import Array

TOLERANCE = GoalTolerance(xy=0.02, yaw=0.04, settle_time=0.5)
"""Tolerance of the ends of the lines of a detour."""
DEPTHS = (0.07, 0.14, 0.2)
"""Assumed depths of obstacles behind their visible points, if a detour exists [m]."""
CAR_ROOM = 1.2
"""Ratio of the radius of a car's detours to its min turning radius, a margin for path tracking."""
STILL = 0.01
"""Max displacement of the base during a search; the result is discarded beyond it [m]."""
Submit = Callable[[Callable[[], Detour]], "Future[Detour]"]
"""Starts a search."""


class DetourMotion:
    """Executes the lines of a detour, with turns on the spot between them, then another motion."""

    def __init__(
        self,
        kind: BaseKind,
        start: Pose2,
        detour: Detour,
        then: BaseMotion,
        limits: MotionLimits,
        *,
        back: float = math.pi,
    ) -> None:
        """Create the motion.

        Args:
            kind: kind of the base, not a car.
            start: pose of the base, the frame of the detour.
            detour: the detour.
            then: motion from its end.
            limits: limits of the motion.
            back: direction in which the base first backs off, in its frame [rad].
        """
        self._kind = kind
        self.then = then
        """The motion after the detour."""
        targets = [(start.compose(pose), False) for pose in detour.poses]
        if detour.backing > 0.0:
            b = detour.backing
            behind = start.compose(Pose2(b * math.cos(back), b * math.sin(back), 0.0))
            targets.insert(0, (behind, True))
        self.poses = tuple(pose for pose, _ in targets)
        """End poses of its lines."""
        self._lines = [
            GoToPose(kind, pose, limits, TOLERANCE, reversing=reverse) for pose, reverse in targets
        ]
        self._lengths = [a.distance(b) for a, b in zip(self.poses, self.poses[1:], strict=False)]
        self._line = 0

    @property
    def done(self) -> bool:
        """True once the base is back on its route."""
        return self._line >= len(self._lines)

    @property
    def outcome(self) -> MotionOutcome:
        """Status of the motion after the detour; see BaseMotion."""
        return self.then.outcome if self.done else MotionOutcome.MOVING

    @property
    def text(self) -> str:
        """Reason of a failure; see BaseMotion."""
        return self.then.text

    @property
    def remaining(self) -> float:
        """Remaining distance [m]; see BaseMotion."""
        if self.done:
            return self.then.remaining
        after = self.then.remaining if math.isfinite(self.then.remaining) else 0.0
        line = self._lines[self._line].remaining
        own = line if math.isfinite(line) else 0.0
        return own + sum(self._lengths[self._line :]) + after

    def is_clear(self, pose: Pose2, footprint: Footprint, points: Array, clearance: float) -> bool:
        """Return whether the remaining lines satisfy a clearance.

        Args:
            pose: pose of the base.
            footprint: footprint of the base.
            points: obstacles in the frame of the pose [m], shape (n, 2).
            clearance: min distance [m].
        """
        for target, line in zip(self.poses[self._line :], self._lines[self._line :], strict=True):
            length, bearing = pose.distance(target), pose.bearing(target)
            if length > TOLERANCE.xy:
                heading = pose.yaw if self._kind == "holonomic" else bearing
                if line.reversing:
                    heading += math.pi
                along = bearing - heading
                twist = Twist2(math.cos(along), math.sin(along), 0.0)
                start = Pose2(pose.x, pose.y, heading)
                local = into_base(points, start)
                if not keeps_clear(footprint, local, twist, length, clearance, lenient=True):
                    return False
            pose = target
        return True

    def still_there(self, pose: Pose2) -> bool:
        """Return whether the base is at the goal; see BaseMotion."""
        return self.then.still_there(pose)

    def route(self, pose: Pose2) -> Array:
        """Return the route after the detour; see BaseMotion."""
        return self.then.route(pose)

    def resumed(self, row: int) -> BaseMotion:
        """Return a motion from a row of that route; see BaseMotion."""
        return self.then.resumed(row)

    def step(self, pose: Pose2, twist: Twist2, dt: float) -> Twist2:
        """Return the commanded twist; see BaseMotion."""
        if not self.done:
            line = self._lines[self._line]
            desired = line.step(pose, twist, dt)
            if line.outcome is MotionOutcome.MOVING:
                return desired
            self._line += 1
            return Twist2()
        return self.then.step(pose, twist, dt)


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
        if isinstance(motion, DetourMotion):
            motion = motion.then
        if self._kind == "ackermann" and not isinstance(motion, FollowPath):
            raise NoDetour("a car leaves paths only")
        if motion.outcome is not MotionOutcome.MOVING:
            raise NoDetour("the base is at its goal")
        rows = motion.route(pose)
        route = np.column_stack((into_base(rows[:, :2], pose), rows[:, 2] - pose.yaw))
        back = math.pi
        if self._kind == "holonomic" and math.hypot(desired.vx, desired.vy) > 0.0:
            back = math.atan2(-desired.vy, -desired.vx)
        elif desired.vx < 0.0:
            back = 0.0
        radius = None
        if self._kind == "ackermann" and isinstance(motion, FollowPath):
            radius = CAR_ROOM * motion.min_radius
        moves = Manoeuvres(
            holonomic=self._kind == "holonomic",
            turn_cost=self._limits.max_velocity / self._limits.max_yaw_velocity,
            back=back,
            radius=radius,
        )
        future = self._submit(lambda: self._search(points, route, moves))
        self._pending = _Pending(future, motion, pose, back)

    def take(self, pose: Pose2) -> BaseMotion | None:
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
        if self._kind == "ackermann" and isinstance(pending.motion, FollowPath):
            there = [pending.pose.compose(pose) for pose in (Pose2(), *found.poses)]
            return pending.motion.redirected(np.array(there), found.row)
        then = pending.motion.resumed(found.row)
        return DetourMotion(self._kind, pending.pose, found, then, self._limits, back=pending.back)

    def _search(self, points: Array, route: Array, moves: Manoeuvres) -> Detour:
        away = points / np.maximum(np.hypot(points[:, 0], points[:, 1]), 1e-6)[:, None]
        behind = np.concatenate([points, *(points + depth * away for depth in DEPTHS)])
        try:
            return self._among(behind, route, moves)
        except NoDetour:
            return self._among(points, route, moves)

    def _among(self, points: Array, route: Array, moves: Manoeuvres) -> Detour:
        search = DetourSearch(
            self._footprint,
            points,
            route,
            clearance=self._clearance,
            config=self._config,
            moves=moves,
        )
        return search.run()
