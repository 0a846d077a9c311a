# SPDX-License-Identifier: Apache-2.0
"""Path following by sections, at the max speed for the curvature, to the final pose.

A section has no stop: no sharp corner, no change of direction. Control laws of tracking: Stanley
(front axle) and rear-axle feedback, from the closest point of the path, with continuous progress.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.odometry import wrap_angle
from motion_nodes.core.navigation.base_motion import (
    GAIN,
    ROUTE_STEP,
    TURN_ABOVE,
    TURNED,
    BaseKind,
    BaseMotion,
    GoalTolerance,
    MotionLimits,
    MotionOutcome,
    approach,
    approach_speed,
)
from motion_nodes.core.navigation.planar_geometry import SPACING, PlanarPath, Pose2
from motion_nodes.core.navigation.pose_motions import AIM, GoToPose
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

AHEAD = 0.5
"""Search distance for the closest point along the path, from the previous one [m]."""


class PathPoint(NamedTuple):
    """The closest point of a path."""

    s: float
    """Arc length; below 0 before the start, above the length past the end [m]."""
    x: float
    """[m]"""
    y: float
    """[m]"""
    direction: float
    """Direction of travel [rad]."""
    yaw: float
    """Heading of the base given by the path [rad]."""
    yaw_slope: float
    """Derivative of that heading along the path [rad/m]."""
    curvature: float
    """[1/m]"""
    cross_track: float
    """Distance of the position from the path, positive to the left of it [m]."""
    away: float
    """Distance of the position from the path itself, without its straight extensions [m]."""


class PathPosition:
    """Tracks a base along a path.

    The search for the closest point starts at the previous one and covers a short distance, so that
    a path may cross itself or end at its start: a branch far away along the path is not considered.
    At both ends the path is extended by straight lines.
    """

    def __init__(self, path: PlanarPath) -> None:
        """Begin at the start of a densely sampled path."""
        self._path = path
        self._s: list[float] = path.s.tolist()
        self._x: list[float] = path.xy[:, 0].tolist()
        self._y: list[float] = path.xy[:, 1].tolist()
        self._direction: list[float] = path.direction.tolist()
        self._yaw: list[float] = path.yaw.tolist()
        self._curvature: list[float] = path.curvature.tolist()
        self._segment: int | None = None

    def update(self, x: float, y: float) -> PathPoint:
        """Return the closest point to a place [m, m], not behind the previous one's segment."""
        if self._segment is None:
            # The closest point is not much farther along than the distance of the base from the
            # start.
            first, reach = 0, AHEAD + 2.0 * math.hypot(x - self._x[0], y - self._y[0])
        else:
            first, reach = self._segment, self._s[self._segment] + AHEAD
        best, best_t, best_square = first, 0.0, math.inf
        for i in range(first, len(self._s) - 1):
            if self._s[i] > reach:
                break
            t = self._along(i, x, y)
            dx = self._x[i] + t * (self._x[i + 1] - self._x[i]) - x
            dy = self._y[i] + t * (self._y[i + 1] - self._y[i]) - y
            square = dx * dx + dy * dy
            if square < best_square:
                best, best_t, best_square = i, t, square
        self._segment = best
        return self._point(best, best_t, x, y)

    def _along(self, i: int, x: float, y: float) -> float:
        """Return the parameter of a place on a segment: 0 at its start, 1 at its end."""
        sx, sy = self._x[i + 1] - self._x[i], self._y[i + 1] - self._y[i]
        t = ((x - self._x[i]) * sx + (y - self._y[i]) * sy) / (sx * sx + sy * sy)
        least = -math.inf if i == 0 else 0.0
        most = math.inf if i == len(self._s) - 2 else 1.0
        return min(max(t, least), most)

    def _point(self, i: int, t: float, x: float, y: float) -> PathPoint:
        # The path is straight beyond its ends, with constant directions.
        inside = min(max(t, 0.0), 1.0)
        direction = _between(self._direction, i, inside)
        px, py = _between(self._x, i, t), _between(self._y, i, t)
        cross = math.cos(direction) * (y - py) - math.sin(direction) * (x - px)
        s, length = _between(self._s, i, t), self._s[-1]
        beyond = max(-s, s - length, 0.0)
        return PathPoint(
            s,
            px,
            py,
            wrap_angle(direction),
            wrap_angle(_between(self._yaw, i, inside)),
            (self._yaw[i + 1] - self._yaw[i]) / (self._s[i + 1] - self._s[i]),
            _between(self._curvature, i, inside),
            cross,
            math.hypot(x - px, y - py, beyond),
        )


def _between(values: list[float], i: int, t: float) -> float:
    return values[i] + t * (values[i + 1] - values[i])


@dataclass(frozen=True, kw_only=True)
class SteeringConfig:
    """Gains and geometry of the control laws; the source system's ``gain`` is 0.5.

    Raises:
        InvalidConfig: values out of range.
    """

    wheelbase: float = setting(
        doc="Distance from the base frame (at the rear axle) to the front axle; for other "
        "bases, distance of the point ahead of the base frame with which stanley tracks"
        " the path.",
        unit="m",
        gt=0.0,
        le=100.0,
    )
    max_steering_angle: float = setting(
        1.2,
        doc="Max steering angle of a car; for other bases it limits the path curvature "
        "while driving.",
        unit="rad",
        gt=0.0,
        le=1.5,
    )
    gain: float = setting(
        2.0, doc="Cross-track error gain of stanley.", unit="1/s", gt=0.0, le=100.0
    )
    softening: float = setting(
        0.1,
        doc="Softening constant of stanley, which limits the correction at low speed.",
        unit="m/s",
        gt=0.0,
        le=10.0,
    )
    rear_gain: float = setting(
        4.0, doc="Cross-track error gain of rear_axle.", unit="1/m", gt=0.0, le=100.0
    )

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def max_curvature(self) -> float:
        """Max curvature [1/m]. Source: bicycle model, ``tan(d)/L``."""
        return math.tan(self.max_steering_angle) / self.wheelbase


def front_axle(pose: Pose2, wheelbase: float) -> Pose2:
    """Return the pose of the front axle."""
    return pose.compose(Pose2(wheelbase, 0.0, 0.0))


def front_axle_path(path: PlanarPath, wheelbase: float) -> PlanarPath:
    """Return the path of the front axle when the base frame, at the rear axle, follows a path.

    Paths are given for the base frame. If the front axle followed the path itself, the base would
    cut curves by ``wheelbase^2 / (2 radius)``.

    Source: bicycle model without slip: the base frame's heading is the path's direction.
    """
    ahead = np.column_stack((np.cos(path.direction), np.sin(path.direction)))
    return PlanarPath(np.column_stack((path.xy + wheelbase * ahead, path.direction)))


def stanley_angle(
    heading_error: float, cross_track: float, speed: float, gain: float, softening: float = 0.0
) -> float:
    """Return the steering angle [rad] of Stanley's law, without limits.

    Args:
        heading_error: direction of the path minus heading of the vehicle, wrapped [rad].
        cross_track: cross-track error of the front axle, positive to the left of the path [m].
        speed: speed, not negative [m/s].
        gain: cross-track gain [1/s].
        softening: constant added to the velocity [m/s].

    Source: Hoffmann, Tomlin, Montemerlo, Thrun, "Autonomous Automobile Trajectory Tracking for
    Off-Road Driving" (ACC 2007): heading error plus ``atan(k e / v)``, and a constant added to the
    velocity for stability at low velocities.
    """
    return heading_error - math.atan2(gain * cross_track, speed + softening)


def stanley_curvature(pose: Pose2, front: PathPoint, speed: float, config: SteeringConfig) -> float:
    """Return the commanded curvature [1/m] for driving forward.

    Args:
        pose: pose of the base, whose frame is at the rear axle.
        front: closest point of the front axle's path, see front_axle_path.
        speed: speed [m/s].
        config: gains and geometry.

    Source: bicycle model, ``curvature = tan(angle)/L``.
    """
    heading_error = wrap_angle(front.direction - pose.yaw)
    angle = stanley_angle(
        heading_error, front.cross_track, abs(speed), config.gain, config.softening
    )
    bound = config.max_steering_angle
    return math.tan(min(max(angle, -bound), bound)) / config.wheelbase


def rear_axle_curvature(travel: float, point: PathPoint, config: SteeringConfig) -> float:
    """Return the commanded curvature [1/m] of the base frame's direction of travel.

    Stable in both directions of travel, because the controlled point is at the base frame.

    Args:
        travel: direction in which the base travels (its heading, or the opposite in reverse) [rad].
        point: point of the path closest to the base frame.
        config: gains and geometry.

    Source: Samson's path-following law in Paden, Cap, Yong, Yershov, Frazzoli, "A Survey of Motion
    Planning and Control Techniques for Self-Driving Urban Vehicles" (2016), "Rear wheel position
    based feedback", with gains for two equal poles: ``e'' + 2 g e' + g^2 e = 0`` along the path.
    """
    g, k, e = config.rear_gain, point.curvature, point.cross_track
    angle = wrap_angle(travel - point.direction)
    ratio = math.sin(angle) / angle if abs(angle) > 1e-6 else 1.0
    # Beyond the centre of a curve the closest point is not defined.
    room = max(1.0 - k * e, 0.2)
    curvature = k * math.cos(angle) / room - 2.0 * g * angle - g * g * ratio * e
    return min(max(curvature, -config.max_curvature), config.max_curvature)


CORNER = 1.0
"""Min change of direction of a corner, where a base stops and turns on the spot [rad]."""
LAWS = ("stanley", "rear_axle")
PULL = 2.0
"""Rate at which a holonomic base returns to its path [1/s]."""


@dataclass(frozen=True, eq=False)
class Section:
    """One section of a path, densely sampled."""

    path: PlanarPath
    backward: bool
    """Whether the base drives in reverse."""


def facing(direction: float, backward: bool) -> float:
    """Return the heading [rad] of a base that travels in a direction, forward or in reverse."""
    return wrap_angle(direction + math.pi) if backward else wrap_angle(direction)


def sections_of(
    path: PlanarPath, *, corner: float = CORNER, reversing: bool = False
) -> tuple[Section, ...]:
    """Split a path where a base must stop.

    Args:
        path: any path.
        corner: min change of direction that ends a section [rad]; infinity: never.
        reversing: drive sections in reverse if their poses face against the direction of travel;
            otherwise headings are ignored.
    """
    n = len(path)
    backward = np.zeros(n - 1, dtype=bool)
    if reversing:
        segment = np.diff(path.xy, axis=0)
        heading = 0.5 * (path.yaw[:-1] + path.yaw[1:])
        backward = np.cos(heading) * segment[:, 0] + np.sin(heading) * segment[:, 1] < 0.0
    sharp = np.abs(path.turns) > corner
    ends = [*(np.flatnonzero(sharp | (backward[1:] != backward[:-1])) + 1).tolist(), n - 1]
    starts = [0, *ends[:-1]]
    return tuple(
        Section(path.slice(a, b).resampled(SPACING), bool(backward[a]))
        for a, b in zip(starts, ends, strict=True)
    )


def curve_speeds(path: PlanarPath, limits: MotionLimits, *, holonomic: bool = False) -> Array:
    """Return the max velocity at each point, independent of the others [m/s], shape (n,).

    A non-holonomic base turns with the path; a holonomic base follows the path's headings.

    Source: ``v^2 |k| <= a_lateral``, ``v |d yaw/ds| <= yaw rate``.
    """
    if not holonomic:
        return np.array([limits.velocity_in_curve(k) for k in path.curvature.tolist()])
    slope = np.abs(np.diff(path.yaw) / np.diff(path.s))
    turning = np.maximum(np.append(slope, 0.0), np.append(0.0, slope))
    with np.errstate(divide="ignore"):
        sideways = np.sqrt(limits.max_lateral_acceleration / np.abs(path.curvature))
        slower: Array = np.minimum(sideways, limits.max_yaw_velocity / turning)
    return slower.clip(max=limits.max_velocity)


def braking_speeds(path: PlanarPath, limits: MotionLimits, *, holonomic: bool = False) -> Array:
    """Return the max velocity at each point that satisfies all later limits [m/s], shape (n,).

    The base comes to rest at the end.

    Args:
        path: densely sampled path; between two points the max curvature of both applies.
        limits: limits of the base.
        holonomic: see curve_speeds.

    Source: ``v_i^2 = min(v_limit^2, v_(i+1)^2 + 2 d ds)``, backward from the end.
    """
    squares = curve_speeds(path, limits, holonomic=holonomic) ** 2
    squares[-1] = 0.0
    gains = 2.0 * limits.max_deceleration * np.diff(path.s)
    for i in range(len(squares) - 2, -1, -1):
        squares[i] = min(squares[i], squares[i + 1] + gains[i])
    return np.sqrt(squares)


class SpeedLimit:
    """Max velocity at any point of a path that satisfies all later limits."""

    def __init__(self, path: PlanarPath, limits: MotionLimits, *, holonomic: bool = False) -> None:
        """Precompute the profile of a path; see braking_speeds."""
        self._s: list[float] = path.s.tolist()
        self._curve: list[float] = curve_speeds(path, limits, holonomic=holonomic).tolist()
        braking = braking_speeds(path, limits, holonomic=holonomic)
        self._braking: list[float] = braking.tolist()
        self._deceleration = limits.max_deceleration

    def at(self, s: float) -> float:
        """Return the velocity [m/s] at an arc length [m], also beyond both ends."""
        i = bisect.bisect_left(self._s, s)
        if i == len(self._s):
            return self._braking[-1]
        ahead = self._braking[i]
        braking = math.sqrt(ahead * ahead + 2.0 * self._deceleration * (self._s[i] - s))
        return min(braking, self._curve[max(i - 1, 0)])


@dataclass(frozen=True, kw_only=True)
class FollowConfig:
    """Settings of path following."""

    limits: MotionLimits
    steering: SteeringConfig
    law: str = "stanley"
    """Forward control law of a base that steers; in reverse it is always that of the rear axle."""
    tolerance: GoalTolerance = field(default_factory=GoalTolerance)
    reversing: bool = setting(
        False,
        doc="Drive in reverse to goals behind the base, and along path poses that point "
        "against the direction of travel.",
    )
    max_deviation: float = setting(
        1.0,
        doc="Max distance from the path; beyond it the goal is aborted.",
        unit="m",
        gt=0.0,
        le=1000.0,
    )

    def __post_init__(self) -> None:
        """Validate names and numbers."""
        if self.law not in LAWS:
            raise InvalidConfig(f"tracking law '{self.law}' is not known. Available: {LAWS}")
        check_settings(self)


class _Leg:
    """One section with its precomputed data."""

    def __init__(self, section: Section, config: FollowConfig, kind: BaseKind) -> None:
        self.backward = section.backward
        self.path = section.path
        self.length = section.path.length
        self.speed = SpeedLimit(section.path, config.limits, holonomic=kind == "holonomic")
        self.base = PathPosition(section.path)
        self.front = PathPosition(front_axle_path(section.path, config.steering.wheelbase))


class FollowPath:
    """Follows a path.

    A differential base turns on the spot at corners, and to the final heading at the end. A
    holonomic base follows the headings of the poses along the path. A car follows the path within
    its steering limits, and fails if it ends outside the goal tolerance.
    """

    def __init__(self, kind: BaseKind, path: PlanarPath, config: FollowConfig) -> None:
        self.path = path
        self.goal = path.end
        self.text = ""
        self.outcome = MotionOutcome.MOVING
        self.remaining = path.length
        self._kind = kind
        self._config = config
        corner = math.inf if kind == "ackermann" else CORNER
        reversing = config.reversing and kind != "holonomic"
        parts = sections_of(path, corner=corner, reversing=reversing)
        self._legs = [_Leg(part, config, kind) for part in parts]
        self._lengths_after = [
            sum(leg.length for leg in self._legs[i + 1 :]) for i in range(len(self._legs))
        ]
        self._leg = 0
        # None: undecided. A moving base may start to follow the path without a stop.
        self._turning: bool | None = None
        self._settling = 0.0
        self._last_bit: GoToPose | None = None
        self._rows = path.poses()

    def too_tight(self) -> str:
        """Return the place where the path exceeds the max curvature, as text.

        Empty if there is none.
        """
        tightest = int(np.argmax(np.abs(self.path.curvature)))
        there, most = abs(self.path.curvature[tightest]), self._config.steering.max_curvature
        if self._kind != "ackermann" or there <= 1.05 * most:
            return ""
        return (
            f"the path has a curve of {there:.2f} 1/m {self.path.s[tightest]:.1f} m along; "
            f"this base can steer {most:.2f} 1/m and will leave the path there"
        )

    def check_start(self, pose: Pose2) -> None:
        """Raise an error for a pose too far from the path.

        Raises:
            InvalidCommand: with the distance.
        """
        point = PathPosition(self.path.resampled()).update(pose.x, pose.y)
        if point.away > self._config.max_deviation:
            raise InvalidCommand(
                f"the base is {point.away:.2f} m from the start of the path; allowed is "
                f"{self._config.max_deviation:g} m (max_deviation)"
            )

    def still_there(self, pose: Pose2) -> bool:
        """Return whether the base is at the end; a car fails if it is not; see BaseMotion."""
        if self._last_bit is not None:
            there = self._last_bit.still_there(pose)
            self.outcome = self._last_bit.outcome
            return there
        if self._config.tolerance.reached(pose, self.goal):
            return True
        self._fail(f"the base came to rest {self._config.tolerance.miss(pose, self.goal)}")
        return False

    def route(self, pose: Pose2) -> Array:
        """Return the rest of the path; see BaseMotion."""
        if self._last_bit is not None:
            self._rows = self._last_bit.route(pose)
            return self._rows
        parts = []
        for i, leg in enumerate(self._legs[self._leg :]):
            path = leg.path
            yaw = path.yaw
            if self._kind != "holonomic":
                yaw = path.direction + (math.pi if leg.backward else 0.0)
            rows = np.column_stack((path.xy, yaw))
            if i == 0:
                s = leg.base.update(pose.x, pose.y).s
                rows = rows[min(int(np.searchsorted(path.s, s)), len(rows) - 1) :]
            parts.append(rows)
        parts.append(np.array(self.goal)[None])
        self._rows = np.concatenate(parts)
        if len(self._rows) < 2:
            self._rows = np.concatenate((np.array(pose)[None], self._rows))
        return self._rows

    def resumed(self, row: int) -> BaseMotion:
        """Return a motion along the rest of the path; see BaseMotion."""
        rows = self._rows[row:]
        away = np.hypot(*(rows[:, :2] - rows[-1, :2]).T).max()
        if self._kind != "ackermann" and away < ROUTE_STEP:
            config = self._config
            return GoToPose(self._kind, self.goal, config.limits, config.tolerance)
        return FollowPath(self._kind, PlanarPath(rows), self._config)

    @property
    def min_radius(self) -> float:
        """Min turning radius of a base that steers [m]."""
        return 1.0 / self._config.steering.max_curvature

    def redirected(self, rows: Array, row: int) -> FollowPath:
        """Return a motion along other poses, and then along the rest of the path.

        Args:
            rows: x, y, yaw [m, m, rad], shape (n, 3); in reverse where they face so.
            row: first row of :meth:`route` behind them.
        """
        path = PlanarPath(np.concatenate((rows, self._rows[row + 1 :])))
        return FollowPath(self._kind, path, replace(self._config, reversing=True))

    def step(self, pose: Pose2, twist: Twist2, dt: float) -> Twist2:
        """Return the commanded twist; see BaseMotion."""
        if self.outcome is not MotionOutcome.MOVING:
            return Twist2()
        if self._last_bit is not None:
            return self._finish(self._last_bit, pose, twist, dt)
        leg = self._legs[self._leg]
        point = leg.base.update(pose.x, pose.y)
        left = leg.length - point.s
        self.remaining = max(left, 0.0) + self._lengths_after[self._leg]
        if point.away > self._config.max_deviation:
            bound = self._config.max_deviation
            return self._fail(
                f"{point.away:.2f} m from the path; allowed is max_deviation, {bound:g} m"
            )
        if self._leg_done(left, pose, dt):
            return self._next(pose, twist, dt)
        if self._kind == "holonomic":
            return self._translate(leg, point, left, pose)
        return self._steer(leg, point, left, pose, twist)

    # ---- sections

    def _leg_done(self, left: float, pose: Pose2, dt: float) -> bool:
        tolerance = self._config.tolerance
        if left <= AIM * tolerance.xy:
            return True
        last = self._leg == len(self._legs) - 1
        within = left <= tolerance.xy and (not last or tolerance.position_reached(pose, self.goal))
        self._settling = self._settling + dt if within else 0.0
        return self._settling > tolerance.settle_time

    def _next(self, pose: Pose2, twist: Twist2, dt: float) -> Twist2:
        """Begin the next section, or the final approach to the goal."""
        self._settling, self._turning = 0.0, True
        if self._leg + 1 < len(self._legs):
            self._leg += 1
            # Stop first: the next section has another direction.
            return Twist2()
        config = self._config
        if self._kind != "ackermann":
            self._last_bit = GoToPose(
                self._kind, self.goal, config.limits, config.tolerance, reversing=True
            )
            return self._finish(self._last_bit, pose, twist, dt)
        if config.tolerance.reached(pose, self.goal):
            self.outcome, self.remaining = MotionOutcome.ARRIVED, 0.0
            return Twist2()
        return self._fail(f"the path has ended {config.tolerance.miss(pose, self.goal)}")

    def _finish(self, last_bit: GoToPose, pose: Pose2, twist: Twist2, dt: float) -> Twist2:
        desired = last_bit.step(pose, twist, dt)
        self.outcome, self.remaining = last_bit.outcome, last_bit.remaining
        return desired

    def _fail(self, text: str) -> Twist2:
        self.outcome, self.text = MotionOutcome.FAILED, text
        return Twist2()

    # ---- laws

    def _speed(self, leg: _Leg, point: PathPoint, left: float) -> float:
        lim = self._config.limits
        near_end = approach_speed(max(left, 0.0), lim.max_velocity, lim.max_deceleration, GAIN)
        return min(leg.speed.at(point.s), near_end)

    def _translate(self, leg: _Leg, point: PathPoint, left: float, pose: Pose2) -> Twist2:
        """Move along the path and back onto it, with the headings of the path."""
        v, lim = self._speed(leg, point, left), self._config.limits
        c, s = math.cos(point.direction), math.sin(point.direction)
        back = PULL * point.cross_track
        wx, wy = v * c + back * s, v * s - back * c
        error = wrap_angle(point.yaw - pose.yaw)
        wz = approach(error, lim.max_yaw_velocity, lim.max_yaw_deceleration, GAIN)
        wz += point.yaw_slope * v
        c, s = math.cos(pose.yaw), math.sin(pose.yaw)
        return Twist2(c * wx + s * wy, c * wy - s * wx, wz)

    def _steer(
        self, leg: _Leg, point: PathPoint, left: float, pose: Pose2, twist: Twist2
    ) -> Twist2:
        """Steer along the path; turn on the spot if the base can and the heading error is large."""
        lim, config = self._config.limits, self._config.steering
        travel = facing(pose.yaw, leg.backward)
        error = wrap_angle(point.direction - travel)
        if self._kind == "differential":
            far = {True: TURNED, None: TURN_ABOVE, False: 2.0 * TURN_ABOVE}[self._turning]
            self._turning = abs(error) > far
            if self._turning:
                wz = approach(error, lim.max_yaw_velocity, lim.max_yaw_deceleration, GAIN)
                return Twist2(0.0, 0.0, wz)
        v = self._speed(leg, point, left)
        if leg.backward or self._config.law == "rear_axle":
            curvature = rear_axle_curvature(travel, point, config)
        else:
            axle = front_axle(pose, config.wheelbase)
            front = leg.front.update(axle.x, axle.y)
            curvature = stanley_curvature(pose, front, twist.vx, config)
        # In a tight curve the speed is reduced, not the curvature.
        v = min(v, lim.velocity_in_curve(curvature))
        return Twist2(-v if leg.backward else v, 0.0, curvature * v)
