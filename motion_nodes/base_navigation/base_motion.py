# SPDX-License-Identifier: Apache-2.0
"""Interface of base motions."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.bases.base import Twist2

GAIN = 2.5
"""Gain of the approach to points and headings [1/s]: stable with loop delays of up to 0.2 s."""

TURN_ABOVE = 0.5
"""Heading error above which a base that can turn on the spot does so [rad]."""

TURNED = 0.1
"""Heading error below which it drives on [rad]."""


class MotionOutcome(Enum):
    """Status of a motion."""

    MOVING = "moving"
    ARRIVED = "arrived"
    FAILED = "failed"


class BaseMotion(Protocol):
    """A motion to a goal: poses in, commanded twists out, in the frame of the goal."""

    @property
    def outcome(self) -> MotionOutcome:
        """Whether it has succeeded or failed."""
        ...

    @property
    def text(self) -> str:
        """Reason of a failure."""
        ...

    @property
    def remaining(self) -> float:
        """Remaining distance [m]."""
        ...

    def still_there(self, pose: Pose2) -> bool:
        """Return whether a base that arrived and is at rest is still at the goal.

        If it rolled on too far the motion continues, or fails if it cannot.
        """
        ...

    def step(self, pose: Pose2, twist: Twist2, dt: float) -> Twist2:
        """Return the commanded twist, zero once the motion has ended.

        Args:
            pose: of the base.
            twist: measured velocity of the base in its own frame.
            dt: time since the last step [s].
        """
        ...
