# SPDX-License-Identifier: Apache-2.0
"""Interface of base motions."""

from __future__ import annotations

import math
from enum import Enum
from typing import Protocol

import numpy as np

from motion_nodes.base_navigation.planar_path import MOST_POINTS
from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.bases.base import Twist2
from motion_nodes.typing import Array

GAIN = 2.5
"""Gain of the approach to points and headings [1/s]: stable with loop delays of up to 0.2 s."""

TURN_ABOVE = 0.5
"""Heading error above which a base that can turn on the spot does so [rad]."""

TURNED = 0.1
"""Heading error below which it continues to drive [rad]."""


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

        If it overshot the goal, the motion continues or fails.
        """
        ...

    def step(self, pose: Pose2, twist: Twist2, dt: float) -> Twist2:
        """Return the commanded twist, zero once the motion has ended.

        Args:
            pose: pose of the base.
            twist: measured velocity of the base in its own frame.
            dt: time since the last step [s].
        """
        ...

    def route(self, pose: Pose2) -> Array:
        """Return the remaining route as poses of the base (x, y, yaw), shape (m, 3), m > 1.

        Args:
            pose: pose of the base.
        """
        ...

    def resumed(self, row: int) -> BaseMotion:
        """Return a motion that continues from a row of the last :meth:`route`."""
        ...


ROUTE_STEP = 0.05
"""Max spacing of the poses of a route [m]; wider on routes of more than MOST_POINTS poses."""


def straight_route(start: Pose2, goal: Pose2, heading: float) -> Array:
    """Return the route of a motion straight to a pose.

    Args:
        start: pose of the base.
        goal: target pose.
        heading: heading of the base along the route [rad].
    """
    count = min(max(math.ceil(start.distance(goal) / ROUTE_STEP), 1), MOST_POINTS) + 1
    rows = np.linspace(start, goal, count)
    rows[:-1, 2], rows[-1, 2] = heading, goal.yaw
    return rows
