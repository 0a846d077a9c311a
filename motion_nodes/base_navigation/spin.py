# SPDX-License-Identifier: Apache-2.0
"""Rotation of a base on the spot by an angle."""

from __future__ import annotations

import math

from motion_nodes.base_navigation.base_motion import GAIN, MotionOutcome, straight_route
from motion_nodes.base_navigation.go_to_pose import AIM, refuse_cars
from motion_nodes.base_navigation.goal_check import GoalTolerance
from motion_nodes.base_navigation.motion_limits import BaseKind, MotionLimits, approach
from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.bases.base import Twist2
from motion_nodes.bases.odometry import wrap_angle
from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array

MAX_TOLERANCE = 0.1
"""Max tolerance of the angle, also where a goal accepts any heading [rad]."""


class Spin:
    """Rotates by an angle, which may be several turns; a :class:`BaseMotion`."""

    def __init__(
        self,
        kind: BaseKind,
        angle: float,
        limits: MotionLimits,
        tolerance: GoalTolerance | None = None,
    ) -> None:
        """Create the motion.

        Args:
            kind: kind of the base.
            angle: rotation from the start, positive counter-clockwise [rad].
            limits: limits of the motion.
            tolerance: that of the heading applies, up to :data:`MAX_TOLERANCE`.

        Raises:
            InvalidCommand: a car-like base, or an angle that is not finite.
        """
        refuse_cars(kind, "a spin")
        if not math.isfinite(angle):
            raise InvalidCommand(f"the angle of the spin is {angle} rad; it must be finite")
        self.text = ""
        self.outcome = MotionOutcome.MOVING
        self.remaining = 0.0
        self.turned = 0.0
        """Rotation since the start, positive counter-clockwise [rad]."""
        self._angle, self._limits = angle, limits
        self._tolerance = tolerance or GoalTolerance()
        self._max_error = min(self._tolerance.yaw, MAX_TOLERANCE)
        self._yaw: float | None = None
        self._settling = 0.0

    def still_there(self, pose: Pose2) -> bool:
        """Return whether the angle is reached; otherwise continue; see BaseMotion."""
        if abs(self._error(pose)) <= self._max_error:
            return True
        self.outcome, self._settling = MotionOutcome.MOVING, 0.0
        return False

    def step(self, pose: Pose2, twist: Twist2, dt: float) -> Twist2:
        """Return the commanded twist; see BaseMotion."""
        error = self._error(pose)
        if self.outcome is not MotionOutcome.MOVING:
            return Twist2()
        self._settling = self._settling + dt if abs(error) <= self._max_error else 0.0
        if abs(error) <= AIM * self._max_error or self._settling > self._tolerance.settle_time:
            self.outcome = MotionOutcome.ARRIVED
            return Twist2()
        lim = self._limits
        return Twist2(
            0.0, 0.0, approach(error, lim.max_yaw_velocity, lim.max_yaw_deceleration, GAIN)
        )

    def route(self, pose: Pose2) -> Array:
        """Return the pose itself, twice; see BaseMotion."""
        return straight_route(pose, pose, pose.yaw)

    def resumed(self, row: int) -> Spin:
        """Return the same motion; see BaseMotion."""
        return self

    def _error(self, pose: Pose2) -> float:
        """Update the rotation, and return the remaining one [rad]."""
        if self._yaw is not None:
            self.turned += wrap_angle(pose.yaw - self._yaw)
        self._yaw = pose.yaw
        return self._angle - self.turned
