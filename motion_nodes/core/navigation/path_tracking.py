# SPDX-License-Identifier: Apache-2.0
"""Path tracking control laws: Stanley (front axle) and rear-axle feedback.

Position of a base along a path: the closest point, with continuous progress.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from motion_nodes.core.bases.odometry import wrap_angle
from motion_nodes.core.navigation.planar_geometry import PlanarPath, Pose2
from motion_nodes.settings import check_settings, setting

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
        """Validate the numbers."""
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
