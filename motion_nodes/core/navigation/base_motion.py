# SPDX-License-Identifier: Apache-2.0
"""Interface of base motions.

Checks of arrival, standstill and progress.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.odometry import wrap_angle
from motion_nodes.core.navigation.planar_geometry import MOST_POINTS, Pose2
from motion_nodes.errors import InvalidConfig
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

GAIN = 2.5
"""Gain of the approach to points and headings [1/s]: stable with loop delays of up to 0.2 s."""
TURN_ABOVE = 0.5
"""Heading error above which a base that can turn on the spot does so [rad]."""
TURNED = 0.1
"""Heading error below which it continues to drive [rad]."""
ROUTE_STEP = 0.05
"""Max spacing of the poses of a route [m]; wider on routes of more than MOST_POINTS poses."""


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


@dataclass(frozen=True, kw_only=True)
class GoalTolerance:
    """Goal tolerances.

    Raises:
        InvalidConfig: values that are not finite and above 0.
    """

    xy: float = setting(0.04, doc="Position tolerance of the goal.", unit="m", gt=0.0, le=100.0)
    yaw: float = setting(
        0.05,
        doc="Heading tolerance of the goal; pi or more accepts any heading.",
        unit="rad",
        gt=0.0,
        le=10.0,
    )
    settle_time: float = setting(
        1.0,
        doc="Max time to converge further towards the goal once within the tolerances.",
        unit="s",
        gt=0.0,
        le=60.0,
    )

    def __post_init__(self) -> None:
        """Validate the numbers."""
        check_settings(self, "goal tolerance: ")

    def position_reached(self, pose: Pose2, goal: Pose2) -> bool:
        """Return whether the position is within tolerance."""
        return pose.distance(goal) <= self.xy

    def yaw_reached(self, pose: Pose2, goal: Pose2) -> bool:
        """Return whether the heading is within tolerance."""
        return abs(wrap_angle(goal.yaw - pose.yaw)) <= self.yaw

    def reached(self, pose: Pose2, goal: Pose2) -> bool:
        """Return whether position and heading are within tolerance."""
        return self.position_reached(pose, goal) and self.yaw_reached(pose, goal)

    def miss(self, pose: Pose2, goal: Pose2) -> str:
        """Return the distance from the goal and the tolerances, as text."""
        yaw = abs(wrap_angle(goal.yaw - pose.yaw))
        return (
            f"{pose.distance(goal):.3f} m (allowed {self.xy:g}) and {yaw:.3f} rad (allowed "
            f"{self.yaw:g}) from the goal"
        )


@dataclass(frozen=True, kw_only=True)
class StoppedCheck:
    """Whether a base is at rest, by its measured velocity."""

    linear: float = setting(
        0.02,
        doc="Translational speed below which the base counts as stopped.",
        unit="m/s",
        gt=0.0,
        le=10.0,
    )
    angular: float = setting(
        0.05, doc="Yaw rate below which the base counts as stopped.", unit="rad/s", gt=0.0, le=10.0
    )

    def __post_init__(self) -> None:
        """Validate the numbers."""
        check_settings(self, "standstill: ")

    def at_rest(self, twist: Twist2) -> bool:
        """Return whether all velocities are below their thresholds."""
        return math.hypot(twist.vx, twist.vy) <= self.linear and abs(twist.wz) <= self.angular


class ProgressCheck:
    """Detects a base without sufficient translation or rotation within a timeout."""

    def __init__(self, radius: float = 0.1, angle: float = 0.3, allowance: float = 10.0) -> None:
        """Require a displacement of ``radius`` [m] or ``angle`` [rad] in ``allowance`` [s].

        Raises:
            InvalidConfig: values that are not finite and above 0.
        """
        for name, value in (("radius", radius), ("angle", angle), ("allowance", allowance)):
            if not (math.isfinite(value) and value > 0.0):
                raise InvalidConfig(f"progress: {name} is {value}; it must be finite and above 0")
        self._radius, self._angle, self._allowance = radius, angle, allowance
        self._from: Pose2 | None = None
        self._since = 0.0

    def reset(self) -> None:
        """Restart with the next pose."""
        self._from = None

    def stuck(self, pose: Pose2, dt: float) -> bool:
        """Update with the pose after ``dt`` [s]; return whether progress is insufficient."""
        start = self._from
        if (
            start is None
            or start.distance(pose) > self._radius
            or abs(wrap_angle(pose.yaw - start.yaw)) > self._angle
        ):
            self._from, self._since = pose, 0.0
            return False
        self._since += dt
        return self._since > self._allowance

    def __str__(self) -> str:
        """Return the required progress as text."""
        return (
            f"no progress: less than {self._radius:g} m and {self._angle:g} rad in "
            f"{self._allowance:g} s"
        )
