# SPDX-License-Identifier: Apache-2.0
"""Base motions: interface, limits, velocity profiles, ramps, and checks of arrival and progress."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Literal, Protocol

import numpy as np

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.odometry import wrap_angle
from motion_nodes.core.navigation.planar_geometry import MOST_POINTS, Pose2
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

BaseKind = Literal["differential", "holonomic", "ackermann"]


@dataclass(frozen=True, kw_only=True)
class MotionLimits:
    """Limits of planned motion, all finite and above 0.

    Raises:
        InvalidConfig: any other value.
    """

    max_velocity: float = setting(doc="Max speed of travel.", unit="m/s", gt=0.0, le=100.0)
    max_acceleration: float = setting(doc="Max acceleration.", unit="m/s^2", gt=0.0, le=1000.0)
    max_deceleration: float = setting(
        doc="Max deceleration for goals, curves and stops; should be below the base "
        "controller's limit.",
        unit="m/s^2",
        gt=0.0,
        le=1000.0,
    )
    max_yaw_velocity: float = setting(doc="Max yaw rate.", unit="rad/s", gt=0.0, le=1000.0)
    max_yaw_acceleration: float = setting(
        doc="Max yaw acceleration.", unit="rad/s^2", gt=0.0, le=10000.0
    )
    max_yaw_deceleration: float = setting(
        doc="Max yaw deceleration.", unit="rad/s^2", gt=0.0, le=10000.0
    )
    max_lateral_acceleration: float = setting(
        0.5,
        doc="Max lateral (centripetal) acceleration; reduces the speed in curves.",
        unit="m/s^2",
        gt=0.0,
        le=1000.0,
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def velocity_in_curve(self, curvature: float) -> float:
        """Return the max velocity [m/s] at a curvature [1/m] of either sign.

        Source: ``v^2 |k| <= a_lateral`` and ``v |k| <= yaw rate``.
        """
        k = abs(curvature)
        if k == 0.0:
            return self.max_velocity
        turning = min(math.sqrt(self.max_lateral_acceleration / k), self.max_yaw_velocity / k)
        return min(self.max_velocity, turning)

    def share_of(self, speed_limit: float, *, percentage: bool) -> float:
        """Return the share of the max velocities that a speed limit leaves, above 0 to 1.

        Args:
            speed_limit: speed [m/s], or percentage of the max velocity; 0: no limit, as in Nav2.
            percentage: which of them it is.

        Raises:
            InvalidCommand: a limit that is negative or not finite.
        """
        if not (math.isfinite(speed_limit) and speed_limit >= 0.0):
            raise InvalidCommand(
                f"the speed limit is {speed_limit:g} {'%' if percentage else 'm/s'}; it must be "
                "finite and from 0 on, 0 for no limit"
            )
        return min(speed_limit / (100.0 if percentage else self.max_velocity) or 1.0, 1.0)

    def slowed(self, twist: Twist2, share: float) -> Twist2:
        """Return a twist within a share of the max velocities; its curve stays the same."""
        linear = math.hypot(twist.vx, twist.vy) / self.max_velocity
        excess = max(linear, abs(twist.wz) / self.max_yaw_velocity) / share
        return twist if excess <= 1.0 else Twist2(*(v / excess for v in twist))


def approach_speed(distance: float, top: float, deceleration: float, gain: float) -> float:
    """Return the velocity of an approach to a point without overshoot.

    Far away this is constant deceleration; near the point, where a delay of the loop would cause
    overshoot, the velocity is ``gain * distance``. Both parts meet with the same value and slope,
    and the deceleration never exceeds ``deceleration``.

    Args:
        distance: distance to the point, not negative [m or rad].
        top: max velocity.
        deceleration: max deceleration.
        gain: gain [1/s]; its product with the loop's delay should be below 0.5.

    Source: ``v dv/ds = -deceleration`` from ``s = deceleration/gain^2`` on, where its slope is
    ``gain``; the continuation shifts the root of ``v^2 = 2 a s`` by half of that distance.
    """
    join = deceleration / (gain * gain)
    if distance <= join:
        return min(gain * distance, top)
    return min(math.sqrt(2.0 * deceleration * (distance - 0.5 * join)), top)


def approach(error: float, top: float, deceleration: float, gain: float) -> float:
    """Return the signed velocity that reduces an error [m or rad] to zero; see approach_speed."""
    return math.copysign(approach_speed(abs(error), top, deceleration, gain), error)


class TwistRamp:
    """Ramps the twist within the limits; (vx, vy) change as one vector.

    While a holonomic base turns, its velocity over ground is constant and rotates in the base
    frame, which is not an acceleration. A car's yaw rate is proportional to its velocity: a new
    curvature applies from the first step on, and the last one until the car is at rest.
    """

    def __init__(self, limits: MotionLimits, kind: BaseKind = "differential") -> None:
        self.limits = limits
        self._kind = kind
        self._curvature = 0.0
        self.twist = Twist2()
        """Result of the last step."""

    @property
    def resting(self) -> bool:
        """True when the twist is zero."""
        return self.twist == Twist2()

    def step(self, desired: Twist2, dt: float) -> Twist2:
        """Return the twist closest to ``desired`` that is reachable in ``dt`` [s]."""
        if dt > 0.0:
            lim, now = self.limits, self.twist
            if self._kind == "holonomic":
                c, s = math.cos(now.wz * dt), math.sin(now.wz * dt)
                now = Twist2(c * now.vx + s * now.vy, c * now.vy - s * now.vx, now.wz)
            vx, vy = _within(desired.vx, desired.vy, lim.max_velocity)
            vx, vy = _toward(
                (now.vx, now.vy), (vx, vy), lim.max_acceleration * dt, lim.max_deceleration * dt
            )
            self.twist = Twist2(vx, vy, self._yaw_rate(desired, now.wz, vx, dt))
        return self.twist

    def _yaw_rate(self, desired: Twist2, before: float, vx: float, dt: float) -> float:
        lim = self.limits
        if self._kind == "ackermann":
            if desired.vx != 0.0:
                self._curvature = desired.wz / desired.vx
            return self._curvature * vx
        wz, _ = _within(desired.wz, 0.0, lim.max_yaw_velocity)
        rise, fall = lim.max_yaw_acceleration * dt, lim.max_yaw_deceleration * dt
        return _toward((before, 0.0), (wz, 0.0), rise, fall)[0]


def _within(x: float, y: float, bound: float) -> tuple[float, float]:
    length = math.hypot(x, y)
    return (x, y) if length <= bound else (x * bound / length, y * bound / length)


def _toward(
    now: tuple[float, float], desired: tuple[float, float], rise: float, fall: float
) -> tuple[float, float]:
    """Return the vector closest to ``desired`` that one step can reach."""
    dx, dy = desired[0] - now[0], desired[1] - now[1]
    change, before = math.hypot(dx, dy), math.hypot(*now)
    against = now[0] * desired[0] + now[1] * desired[1] <= 0.0 < before
    if against and before > fall:
        return _within(now[0], now[1], before - fall)
    if against:
        # Reversal: after the stop, the rest of the step accelerates.
        return _within(desired[0], desired[1], rise * (1.0 - before / fall))
    step = fall if math.hypot(*desired) < before else rise
    if change <= step:
        return desired
    return now[0] + dx * step / change, now[1] + dy * step / change


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
