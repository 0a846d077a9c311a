# SPDX-License-Identifier: Apache-2.0
"""What every way of moving a base has in common."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.bases.base import Twist2

GAIN = 2.5
"""[1/s] Of the approach to points and headings: smooth with delays of up to 0.2 s in the loop."""

TURN_ABOVE = 0.5
"""[rad] A base that can turn on the spot does so when it looks farther than this from its way."""

TURNED = 0.1
"""[rad] and sets off when it looks less than this from it."""


class MotionOutcome(Enum):
    """How a motion stands."""

    MOVING = "moving"
    ARRIVED = "arrived"
    FAILED = "failed"


class BaseMotion(Protocol):
    """One way of getting somewhere: poses in, wished twists out, in the frame of the goal."""

    @property
    def outcome(self) -> MotionOutcome:
        """Whether it has arrived or given up."""
        ...

    @property
    def text(self) -> str:
        """Why it has given up."""
        ...

    @property
    def remaining(self) -> float:
        """Way that is left [m]."""
        ...

    def still_there(self, pose: Pose2) -> bool:
        """Return whether a base that arrived and now stands is at the goal.

        If it rolled on too far the motion goes on, or fails where it cannot.
        """
        ...

    def step(self, pose: Pose2, twist: Twist2, dt: float) -> Twist2:
        """Return the twist to drive, zero once the motion has ended.

        Args:
            pose: of the base.
            twist: measured velocity of the base in its own frame.
            dt: time since the last step [s].
        """
        ...
