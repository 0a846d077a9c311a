# SPDX-License-Identifier: Apache-2.0
"""Teleoperation of a base as a motion: a person's twists, until they end it."""

from __future__ import annotations

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.base_motion import BaseKind, MotionOutcome, straight_route
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.typing import Array


class Teleoperation:
    """Passes on the newest twist of a person; a :class:`BaseMotion`.

    Limits and obstacles are those of every motion: the navigator's ramp and its avoidance.
    """

    def __init__(self, kind: BaseKind, timeout: float) -> None:
        """Start without a twist.

        Args:
            kind: kind of the base; only a holonomic one moves sideways.
            timeout: time after which a twist that is not renewed is zero [s]; 0: none.
        """
        self.text = ""
        self.outcome = MotionOutcome.MOVING
        self.remaining = 0.0
        self._kind, self._timeout = kind, timeout
        self._twist, self._age = Twist2(), 0.0

    def steer(self, twist: Twist2) -> None:
        """Take a twist; of one that is not finite nothing changes."""
        if twist.finite:
            sideways = twist.vy if self._kind == "holonomic" else 0.0
            self._twist, self._age = Twist2(twist.vx, sideways, twist.wz), 0.0

    def finish(self) -> None:
        """End it as succeeded."""
        self.outcome = MotionOutcome.ARRIVED

    def still_there(self, pose: Pose2) -> bool:
        """Return True: it has no goal to overshoot."""
        return True

    def step(self, pose: Pose2, twist: Twist2, dt: float) -> Twist2:
        """Return the newest twist; see BaseMotion."""
        self._age += dt
        expired = 0.0 < self._timeout < self._age
        return Twist2() if expired or self.outcome is not MotionOutcome.MOVING else self._twist

    def route(self, pose: Pose2) -> Array:
        """Return the pose itself, twice; see BaseMotion."""
        return straight_route(pose, pose, pose.yaw)

    def resumed(self, row: int) -> Teleoperation:
        """Return the same motion; see BaseMotion."""
        return self
