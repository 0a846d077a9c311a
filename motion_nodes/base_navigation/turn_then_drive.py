# SPDX-License-Identifier: Apache-2.0
"""The rule of the source system: turn on the spot or drive straight, each at a constant rate."""

from __future__ import annotations

import math
from dataclasses import dataclass

from motion_nodes.base_navigation.base_motion import MotionOutcome, straight_route
from motion_nodes.base_navigation.go_to_pose import refuse_cars
from motion_nodes.base_navigation.motion_limits import BaseKind
from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.bases.base import Twist2
from motion_nodes.bases.odometry import wrap_angle
from motion_nodes.errors import InvalidCommand
from motion_nodes.model.setting import check_settings, setting
from motion_nodes.typing import Array


@dataclass(frozen=True, kw_only=True)
class TurnThenDriveConfig:
    """Parameters of the rule, with the source's defaults.

    Source: WheelBasePoseController of Isaac Sim's wheeled-robots extension.

    Raises:
        InvalidConfig: values that are not finite and above 0.
    """

    lateral_velocity: float = setting(0.2, doc="Translational speed.", unit="m/s", gt=0.0, le=100.0)
    yaw_velocity: float = setting(0.5, doc="Yaw rate.", unit="rad/s", gt=0.0, le=100.0)
    heading_tolerance: float = setting(
        0.05,
        doc="Max error of the heading (towards the goal; at the goal, of the goal) beyond "
        "which the base turns in place.",
        unit="rad",
        gt=0.0,
        le=3.0,
    )
    position_tolerance: float = setting(
        0.04,
        doc="Position tolerance within which the base stops driving.",
        unit="m",
        gt=0.0,
        le=100.0,
    )

    def __post_init__(self) -> None:
        """Validate the numbers."""
        check_settings(self)


def turn_then_drive(pose: Pose2, goal: Pose2, config: TurnThenDriveConfig) -> Twist2:
    """Return the rule's twist: stop at the goal, turn if the heading error is large, else drive."""
    if pose.distance(goal) <= config.position_tolerance:
        return Twist2()
    error = wrap_angle(pose.bearing(goal) - pose.yaw)
    if abs(error) > config.heading_tolerance:
        return Twist2(0.0, 0.0, math.copysign(config.yaw_velocity, error))
    return Twist2(config.lateral_velocity, 0.0, 0.0)


class TurnThenDrive:
    """Moves to a pose by the rule, and then turns to its heading by the same rule."""

    def __init__(
        self, kind: BaseKind, goal: Pose2, config: TurnThenDriveConfig | None = None
    ) -> None:
        """Create the motion; a holonomic base drives like a differential one.

        Raises:
            InvalidCommand: a car-like base or a goal that is not finite.
        """
        refuse_cars(kind, "turning and driving straight")
        if not goal.finite:
            raise InvalidCommand(f"goal (x, y, yaw) = {tuple(goal)} is not finite")
        self.goal = goal
        self.text = ""
        self.remaining = math.inf
        self.outcome = MotionOutcome.MOVING
        self._kind = kind
        self._config = config or TurnThenDriveConfig()
        self._at_place = False

    def still_there(self, pose: Pose2) -> bool:
        """Return whether the base is at the goal; otherwise restart; see BaseMotion."""
        error = abs(wrap_angle(self.goal.yaw - pose.yaw))
        away = pose.distance(self.goal)
        if away <= self._config.position_tolerance and error <= self._config.heading_tolerance:
            return True
        self._at_place, self.outcome = False, MotionOutcome.MOVING
        return False

    def step(self, pose: Pose2, twist: Twist2, dt: float) -> Twist2:
        """Return the commanded twist; see BaseMotion."""
        self.remaining = pose.distance(self.goal)
        if self.outcome is MotionOutcome.ARRIVED:
            return Twist2()
        self._at_place |= self.remaining <= self._config.position_tolerance
        if not self._at_place:
            return turn_then_drive(pose, self.goal, self._config)
        error = wrap_angle(self.goal.yaw - pose.yaw)
        if abs(error) > self._config.heading_tolerance:
            return Twist2(0.0, 0.0, math.copysign(self._config.yaw_velocity, error))
        self.outcome = MotionOutcome.ARRIVED
        return Twist2()

    def route(self, pose: Pose2) -> Array:
        """Return the line to the goal; see BaseMotion."""
        at_place = pose.distance(self.goal) <= self._config.position_tolerance
        return straight_route(pose, self.goal, pose.yaw if at_place else pose.bearing(self.goal))

    def resumed(self, row: int) -> TurnThenDrive:
        """Return a motion to the same goal; see BaseMotion."""
        return TurnThenDrive(self._kind, self.goal, self._config)
