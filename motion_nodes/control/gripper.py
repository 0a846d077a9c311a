# SPDX-License-Identifier: Apache-2.0
"""Gripper motion with detection of arrival and stall."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.model.setting import check_settings, setting

CONTACT_TIME = 0.1
"""Time at rest after which pushing fingers are in contact [s]."""


class GripStatus(enum.Enum):
    """Status of a gripper motion."""

    MOVING = "moving"
    REACHED = "reached"
    STALLED = "stalled"
    """At rest short of its goal: it holds an object, or is blocked."""
    TIMED_OUT = "timed out"


@dataclass(frozen=True, kw_only=True)
class GripperConfig:
    """Criteria for arrival and stall; names as in ros2_controllers' gripper controllers."""

    lower: float
    """Lower position limit [m or rad]."""
    upper: float
    """Upper position limit [m or rad]."""
    goal_tolerance: float = setting(
        0.002, doc="Position tolerance of gripper goals.", unit="m or rad", gt=0.0, le=1.0
    )
    stall_velocity_threshold: float = setting(
        0.001, doc="Velocity below which a gripper is at rest.", unit="m/s or rad/s", gt=0.0, le=1.0
    )
    stall_timeout: float = setting(
        0.3,
        doc="Time at rest away from the goal after which the gripper is stalled.",
        unit="s",
        gt=0.0,
        le=60.0,
    )
    timeout: float = setting(10.0, doc="Timeout of a motion.", unit="s", gt=0.0)

    def __post_init__(self) -> None:
        """Validate the numbers."""
        if not (math.isfinite(self.lower) and math.isfinite(self.upper)) or self.lower > self.upper:
            raise InvalidConfig(f"gripper limits {self.lower} to {self.upper} are not a range")
        check_settings(self)


class GripperMove:
    """One motion of a gripper to a position."""

    def __init__(self, goal: float, config: GripperConfig) -> None:
        """Begin a motion to ``goal`` [m or rad].

        Args:
            goal: target position [m or rad].
            config: limits and criteria.

        Raises:
            InvalidCommand: not finite, or outside the limits by more than the goal tolerance.
        """
        if not math.isfinite(goal):
            raise InvalidCommand(
                f"gripper position is {goal}; give a finite number", field="position"
            )
        slack = config.goal_tolerance
        if not config.lower - slack <= goal <= config.upper + slack:
            raise InvalidCommand(
                f"gripper position {goal:g} is outside its limits {config.lower:g} to "
                f"{config.upper:g}",
                field="position",
            )
        self.goal = min(max(goal, config.lower), config.upper)
        self.status = GripStatus.MOVING
        self._config = config
        self._standing = 0.0
        """Time at rest [s]."""
        self._rest = math.nan
        """Position at its beginning [m or rad]."""
        self._elapsed = 0.0

    def wait(self, dt: float) -> None:
        """Count a time without measurements [s] towards the timeout."""
        self._elapsed += dt

    def evaluate(
        self,
        position: float,
        velocity: float,
        dt: float,
        *,
        pushing: bool = False,
        reference: float = math.nan,
    ) -> GripStatus:
        """Process a measurement and return the status.

        Args:
            position: position of the fingers [m or rad].
            velocity: velocity of the fingers [m/s or rad/s].
            dt: time since the last measurement [s].
            pushing: whether all fingers push towards the goal, which shortens the stall timeout.
            reference: commanded position of the fingers [rad or m]. Until it has passed them they
                cannot stall: after a grasp it returns from behind the surface of the object.
        """
        if self.status is not GripStatus.MOVING:
            return self.status
        config = self._config
        self._elapsed += dt
        behind = math.copysign(1.0, self.goal - position) * (position - reference)
        waiting = behind > config.goal_tolerance
        # Fingers whose references are late pause again and again: their velocity is often zero.
        moved = abs(position - self._rest) > config.goal_tolerance
        standing = not (waiting or moved) and abs(velocity) < config.stall_velocity_threshold
        if not standing or math.isnan(self._rest):
            self._rest = position
        self._standing = self._standing + dt if standing else 0.0
        if abs(position - self.goal) <= config.goal_tolerance:
            self.status = GripStatus.REACHED
        elif self._standing >= (CONTACT_TIME if pushing else config.stall_timeout):
            self.status = GripStatus.STALLED
        elif self._elapsed > config.timeout:
            self.status = GripStatus.TIMED_OUT
        return self.status
