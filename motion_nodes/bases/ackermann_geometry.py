# SPDX-License-Identifier: Apache-2.0
"""Geometry of a car: steering angles and wheel velocities of a turn.

Turns are described by their curvature at the middle of the unsteered axle, so that driving straight
is not a special case. Positive turns left, for either steered axle. With two steered axles, which
steer against each other, the middle between them takes the place of the unsteered axle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from motion_nodes.model.base_settings import TRACK_WIDTH, WHEEL_RADIUS, WHEELBASE
from motion_nodes.model.setting import check_settings, setting

TIGHTEST = 0.999
"""Max curvature, as a fraction of the curvature with a wheel at the turning centre.

There the angle of the wheel jumps by 180 degrees and its velocity changes sign.
"""


@dataclass(frozen=True, kw_only=True)
class AckermannGeometry:
    """Two axles, one of them steered, or both against each other.

    Source: rolling without slip of every wheel about one turning centre on the line of the
    unsteered axle (Siegwart, Nourbakhsh, Scaramuzza, Autonomous Mobile Robots, 2nd ed., section
    3.2).

    Raises:
        InvalidConfig: a length that is not positive, or an unknown axle.
    """

    wheelbase: float = WHEELBASE.field()
    front_track_width: float = TRACK_WIDTH.field()
    rear_track_width: float = TRACK_WIDTH.field()
    front_wheel_radius: float = WHEEL_RADIUS.field()
    rear_wheel_radius: float = WHEEL_RADIUS.field()
    steered_axle: Literal["front", "rear", "both"] = setting(
        "front", doc="Steered axle: front, rear or both.", one_of=("front", "rear", "both")
    )
    rear_steering_angles: Literal["rolling", "isaac"] = setting(
        "rolling",
        doc="Angles of a steered rear axle: 'rolling' without wheel slip, or 'isaac' for the left "
        "and right angles of Isaac Sim's inverted steering, which are exchanged. No effect with "
        "front steering.",
        one_of=("rolling", "isaac"),
    )

    def __post_init__(self) -> None:
        """Validate the settings."""
        check_settings(self)

    @property
    def axles_x(self) -> tuple[float, float]:
        """Positions of front and rear axle ahead of the line of all turning centres [m].

        That is the unsteered axle, or the middle of two steered ones.
        """
        ahead = {"front": 1.0, "rear": 0.0, "both": 0.5}[self.steered_axle] * self.wheelbase
        return ahead, ahead - self.wheelbase

    @property
    def steered_x(self) -> float:
        """Mean position of the steered axles ahead of this line; negative for rear steering [m]."""
        if self.steered_axle == "both":
            return 0.0
        return self.axles_x[0 if self.steered_axle == "front" else 1]

    @property
    def reach(self) -> float:
        """Distance of a steered axle from this line [m]."""
        return 0.5 * self.wheelbase if self.steered_axle == "both" else self.wheelbase

    @property
    def steered_wheels(self) -> tuple[tuple[float, float], ...]:
        """Positions (x, y) of the steered wheels, left one first, front axle first [m]."""
        axles = (("front", self.front_track_width), ("rear", self.rear_track_width))
        return tuple(
            (x, half)
            for x, (axle, track) in zip(self.axles_x, axles, strict=True)
            if self.steered_axle in (axle, "both")
            for half in (0.5 * track, -0.5 * track)
        )

    @property
    def exchanged(self) -> bool:
        """Whether the angles of left and right wheel are swapped relative to rolling."""
        return self.steered_axle == "rear" and self.rear_steering_angles == "isaac"

    def curvature(self, steering_angle: float) -> float:
        """Return the curvature [1/m] of a steering angle [rad].

        Args:
            steering_angle: of one wheel in the middle of the steered axle that would drive the same
                turn, of the front one if both are; positive turns left, so with rear steering the
                wheels point right.
        """
        return math.tan(steering_angle) / self.reach

    def steering_angle(self, curvature: float) -> float:
        """Return the steering angle [rad] of a curvature [1/m]; inverse of :meth:`curvature`."""
        return math.atan(curvature * self.reach)

    def wheel_angles(self, curvature: float) -> tuple[float, ...]:
        """Return the angles of the steered wheels [rad], as ``steered_wheels``.

        Positive points left.
        """
        angles = [math.atan(curvature * x / (1.0 - curvature * y)) for x, y in self.steered_wheels]
        return self.rolling_angles(*angles)

    def rolling_angles(self, *angles: float) -> tuple[float, ...]:
        """Convert joint angles [rad] to those of wheels that roll without slip, or back.

        The identity unless ``rear_steering_angles`` swaps the two.
        """
        return angles[::-1] if self.exchanged else angles

    def curvature_of(self, *angles: float) -> float:
        """Return the curvature [1/m] of the angles of all steered wheels [rad].

        If they have no common turning centre, it is the one with the least slip of the steered
        wheels (least squares of their lateral velocities).
        """
        upper = lower = 0.0
        rolling = self.rolling_angles(*angles)
        for angle, (x, y) in zip(rolling, self.steered_wheels, strict=True):
            across, along = math.sin(angle), x * math.cos(angle) + y * math.sin(angle)
            upper, lower = upper + across * along, lower + along * along
        return upper / lower if lower > 0.0 else math.copysign(math.inf, upper)

    def wheel_speeds(self, speed: float, yaw_rate: float) -> tuple[float, float, float, float]:
        """Return wheel velocities [rad/s]: front left, front right, rear left, rear right.

        Args:
            speed: velocity of the middle of the unsteered axle [m/s].
            yaw_rate: yaw rate [rad/s].
        """
        speeds = []
        for x, track, radius in (
            (self.axles_x[0], self.front_track_width, self.front_wheel_radius),
            (self.axles_x[1], self.rear_track_width, self.rear_wheel_radius),
        ):
            for half in (0.5 * track, -0.5 * track):
                along = speed - yaw_rate * half
                if x != 0.0:
                    along = math.copysign(math.hypot(along, yaw_rate * x), along)
                speeds.append(along / radius)
        return speeds[0], speeds[1], speeds[2], speeds[3]

    def max_curvature(
        self, max_steering_angle: float = math.inf, max_wheel_angle: float = math.inf
    ) -> float:
        """Return the max curvature [1/m].

        Args:
            max_steering_angle: max angle of the middle wheel [rad]; unlimited from pi/2.
            max_wheel_angle: max angle of any steered wheel [rad], which an inner one reaches
                first; unlimited from pi/2.
        """
        widest = max(self.front_track_width, self.rear_track_width)
        tightest = TIGHTEST * 2.0 / widest
        if max_steering_angle < 0.5 * math.pi:
            tightest = min(tightest, self.curvature(max_steering_angle))
        if max_wheel_angle < 0.5 * math.pi:
            tan = math.tan(max_wheel_angle)
            widest = max(y for _, y in self.steered_wheels)
            tightest = min(tightest, tan / (self.reach + widest * tan))
        return tightest
