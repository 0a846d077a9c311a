# SPDX-License-Identifier: Apache-2.0
"""Motion along a detour, and then along the rest of the route."""

from __future__ import annotations

import math

from motion_nodes.base_navigation.base_motion import BaseMotion, MotionOutcome
from motion_nodes.base_navigation.detour_search import Detour
from motion_nodes.base_navigation.footprint import Footprint
from motion_nodes.base_navigation.free_motion import keeps_clear
from motion_nodes.base_navigation.go_to_pose import GoToPose
from motion_nodes.base_navigation.goal_check import GoalTolerance
from motion_nodes.base_navigation.motion_limits import BaseKind, MotionLimits
from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.bases.base import Twist2
from motion_nodes.typing import Array

TOLERANCE = GoalTolerance(xy=0.02, yaw=0.04, settle_time=0.5)
"""Tolerance of the ends of the lines of a detour."""


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
                if not keeps_clear(
                    footprint, points, start, twist, length, clearance, lenient=True
                ):
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
