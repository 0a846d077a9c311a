# SPDX-License-Identifier: Apache-2.0
"""Planar odometry: exact integration of constant twists, with covariance."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from motion_nodes.core.bases.base import Twist2
from motion_nodes.errors import InvalidCommand
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array


def wrap_angle(angle: float) -> float:
    """Return the angle [rad] wrapped to (-pi, pi]."""
    wrapped = math.remainder(angle, math.tau)
    return math.pi if wrapped == -math.pi else wrapped


def arc_displacement(path: Twist2) -> tuple[float, float]:
    """Return the displacement of a constant twist, in the initial frame [m].

    Args:
        path: twist times duration: (x, y, yaw) along the body's own axes [m, m, rad].

    Source: exponential of a planar twist (Lynch and Park, Modern Robotics, eq. 3.84 in the plane),
    written as the arc's chord: its length is ``sin(a/2)/(a/2)`` of the path's and its direction is
    at half the angle. So there is no cancellation at any angle.
    """
    half = 0.5 * path.wz
    chord = math.sin(half) / half if abs(half) > 1e-9 else 1.0
    c, s = chord * math.cos(half), chord * math.sin(half)
    return c * path.vx - s * path.vy, s * path.vx + c * path.vy


def _error(quantity: str, motion: str, measure: str, unit: str) -> Any:
    """Return the field of an error rate."""
    return setting(
        0.0,
        doc=f"Standard deviation of the {quantity} after {motion}; grows with the square root of "
        f"the {measure}. 0 adds no error.",
        unit=unit,
        ge=0.0,
        le=100.0,
    )


@dataclass(frozen=True, kw_only=True)
class OdometryConfig:
    """Smoothing of odometry, and growth of its errors.

    Errors accumulate like a random walk: variances are proportional to the distance and the angle,
    independent of the steps. Measure them by driving the same path several times.

    Raises:
        InvalidConfig: a negative or infinite number, or a window without a step.
    """

    velocity_rolling_window_size: int = setting(
        1, doc="Number of measurements in the rolling mean of the odometry velocity.", ge=1, le=1000
    )
    position_error_per_metre: float = _error("position", "travelling 1 m", "distance", "m")
    position_error_per_radian: float = _error("position", "turning by 1 rad", "angle", "m")
    yaw_error_per_metre: float = _error("heading", "travelling 1 m", "distance", "rad")
    yaw_error_per_radian: float = _error("heading", "turning by 1 rad", "angle", "rad")

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def errors_grow(self) -> bool:
        """True when any error is given."""
        return any(getattr(self, entry.name) > 0.0 for entry in fields(self)[1:])


class Odometry:
    """Pose of a base by integration of its own motion."""

    def __init__(self, config: OdometryConfig | None = None) -> None:
        """Start at the origin, at rest.

        Args:
            config: smoothing and error growth; None: defaults.
        """
        self.config = config or OdometryConfig()
        self.x = 0.0
        """Position in the odometry frame [m]."""
        self.y = 0.0
        """Position in the odometry frame [m]."""
        self.yaw = 0.0
        """Heading in the odometry frame, in (-pi, pi] [rad]."""
        self.covariance: Array = np.zeros((3, 3))
        """Covariance of x, y and yaw since :meth:`set_pose` [m^2, m rad, rad^2], shape (3, 3)."""
        self.rest()

    def __repr__(self) -> str:
        """Return the pose."""
        return f"Odometry(x={self.x:.3f} m, y={self.y:.3f} m, yaw={self.yaw:.3f} rad)"

    def rest(self) -> None:
        """Reset the velocity."""
        self.twist = Twist2()
        """Velocity in the body frame, mean of the newest steps."""
        self._steps: deque[tuple[Twist2, float]] = deque()

    def set_pose(self, x: float, y: float, yaw: float) -> None:
        """Set the pose; its covariance becomes zero.

        Args:
            x: position in the odometry frame [m].
            y: position in the odometry frame [m].
            yaw: heading in the odometry frame [rad].

        Raises:
            InvalidCommand: numbers that are not finite; the pose is kept.
        """
        if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(yaw)):
            raise InvalidCommand(f"pose ({x}, {y}, {yaw}) is not finite; odometry is unchanged")
        self.x, self.y, self.yaw = x, y, wrap_angle(yaw)
        self.covariance = np.zeros((3, 3))

    def advance(self, path: Twist2, dt: float) -> None:
        """Add the motion of one step.

        Args:
            path: (x, y, yaw) in the body frame [m, m, rad], at a constant twist; ignored if not
                finite.
            dt: duration of the step [s]; 0 or less leaves the velocity unchanged.
        """
        if not path.finite:
            return
        forward, left = arc_displacement(path)
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        dx, dy = c * forward - s * left, s * forward + c * left
        if self.config.errors_grow:
            self._grow(path, dx, dy)
        self.x, self.y, self.yaw = self.x + dx, self.y + dy, wrap_angle(self.yaw + path.wz)
        if dt > 0.0:
            self._average(path, dt)

    def _average(self, path: Twist2, dt: float) -> None:
        if self.config.velocity_rolling_window_size == 1:
            self.twist = path.scaled(1.0 / dt)
            return
        self._steps.append((path, dt))
        while len(self._steps) > self.config.velocity_rolling_window_size:
            self._steps.popleft()
        # Summed each time: a running sum would not return exactly to zero.
        x, y, yaw = (sum(each) for each in zip(*(step for step, _ in self._steps), strict=True))
        self.twist = Twist2(x, y, yaw).scaled(1.0 / sum(time for _, time in self._steps))

    def _grow(self, path: Twist2, dx: float, dy: float) -> None:
        """Propagate the covariance over a step [m], and add the step's own.

        Source: Thrun, Burgard and Fox, Probabilistic Robotics, section 5.4: the four parameters of
        the odometry motion model, here as variances proportional to the distance; the heading error
        rotates the following step.
        """
        config, way, turn = self.config, math.hypot(path.vx, path.vy), abs(path.wz)
        carry = np.array([(1.0, 0.0, -dy), (0.0, 1.0, dx), (0.0, 0.0, 1.0)])
        position = (
            config.position_error_per_metre**2 * way + config.position_error_per_radian**2 * turn
        )
        yaw = config.yaw_error_per_metre**2 * way + config.yaw_error_per_radian**2 * turn
        self.covariance = carry @ self.covariance @ carry.T + np.diag((position, position, yaw))
