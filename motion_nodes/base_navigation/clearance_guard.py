# SPDX-License-Identifier: Apache-2.0
"""Speed limits from obstacle distances, so that a base can always stop before obstacles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from motion_nodes.base_navigation.footprint import Footprint
from motion_nodes.base_navigation.free_motion import contact_times
from motion_nodes.base_navigation.motion_limits import BaseKind, MotionLimits
from motion_nodes.bases.base import Twist2
from motion_nodes.model.setting import check_settings, setting
from motion_nodes.typing import Array

ROOM = 1e-3
"""Resolution of distances [m]."""
SLACK = 0.01
"""Max decrease of the distance of a point within the clearance while the base passes it [m]."""
PASSING = 0.2
"""Sine of the max angle of motion towards such a point at which the base may pass it."""
STANDING = (0.004, 0.01)
"""Min limited speed and yaw rate, below which the base stops [m/s, rad/s]."""


@dataclass(frozen=True, kw_only=True)
class GuardConfig:
    """Settings of clearance and braking."""

    clearance: float = setting(
        0.1, doc="Clearance kept from obstacles; half of it while the base passes an obstacle "
        "that appeared closer.", unit="m", ge=0.01, le=10.0,
    )  # fmt: skip
    latency: float = setting(
        0.2, doc="Latency of commands, for which the base is assumed to keep its velocity.",
        unit="s", ge=0.0, le=5.0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Validate the numbers."""
        check_settings(self)


class Blockage(NamedTuple):
    """The obstacle point that limits the speed."""

    x: float
    """In the base frame [m]."""
    y: float
    """In the base frame [m]."""
    distance: float
    """Distance from the footprint [m]."""


class ClearanceGuard:
    """Scales twists so that the base can stop on their arc without violating the clearance.

    A twist ``u`` that is scaled by ``f`` brakes within ``f L + f^2 / (2 b)`` seconds of motion at
    ``u``, with the latency ``L`` and the rate ``b`` at which the deceleration limits can reduce
    ``f``. That must not exceed the time ``T`` until the contact: ``v <= sqrt(2 a d)`` without
    latency.
    """

    def __init__(
        self,
        kind: BaseKind,
        footprint: Footprint,
        limits: MotionLimits,
        config: GuardConfig | None = None,
    ) -> None:
        """Create the guard of a base."""
        self.footprint = footprint
        self.limits = limits
        self.config = config or GuardConfig()
        self.blockage: Blockage | None = None
        """The obstacle that limited the last twist; None: none."""
        self._kind = kind

    def limit(
        self, desired: Twist2, before: Twist2, points: Array, measured: Twist2, dt: float
    ) -> Twist2:
        """Return the twist that is commanded instead of another.

        Args:
            desired: the next twist, within the limits of acceleration.
            before: the previous limited twist.
            points: obstacles in the base frame [m], shape (n, 2).
            measured: velocity of the base.
            dt: time since the last twist [s].
        """
        self.blockage = None
        if desired == Twist2():
            return desired
        scale, blockage = self._scale(desired, points)
        if self._kind == "ackermann" and desired.vx * measured.vx > 0.0:
            # The steering has not changed yet.
            steered = Twist2(desired.vx, 0.0, desired.vx * measured.wz / measured.vx)
            other = self._scale(steered, points)
            scale, blockage = min((scale, blockage), other, key=lambda found: found[0])
        if scale >= 1.0:
            return desired
        self.blockage = blockage
        limited = desired.scaled(scale)
        lim, braking = self.limits, self._rate(before) * dt
        excess = math.hypot(before.vx, before.vy) - math.hypot(limited.vx, limited.vy)
        if excess > lim.max_deceleration * dt and braking < 1.0:
            # Too fast for the new arc; the base can stop on the last one.
            slower = before.scaled(1.0 - braking)
            if self._scale(slower, points)[0] >= 1.0:
                limited = slower
        slow = math.hypot(limited.vx, limited.vy) < STANDING[0] and abs(limited.wz) < STANDING[1]
        return Twist2() if slow else limited

    def _rate(self, twist: Twist2) -> float:
        """Return the rate at which the deceleration limits reduce the scale of a twist [1/s]."""
        lim = self.limits
        speed, turn = math.hypot(twist.vx, twist.vy), abs(twist.wz)
        linear = lim.max_deceleration / speed if speed > 0.0 else math.inf
        return min(linear, lim.max_yaw_deceleration / turn if turn > 0.0 else math.inf)

    def _scale(self, twist: Twist2, points: Array) -> tuple[float, Blockage | None]:
        """Return the max scale of a twist, at most 1, and the obstacle that limits it."""
        if not len(points) or twist == Twist2():
            return 1.0, None
        rate, latency = self._rate(twist), self.config.latency
        horizon = latency + 0.5 / rate
        clearance = self.config.clearance
        footprint = self.footprint
        fastest = math.hypot(twist.vx, twist.vy) + abs(twist.wz) * footprint.radius
        reach = fastest * horizon + clearance + ROOM
        points = points[np.hypot(points[:, 0], points[:, 1]) < footprint.radius + reach]
        if not len(points):
            return 1.0, None
        distances, nearest = footprint.nearest(points)
        # Points inside the footprint belong to the base.
        near = (distances < reach) & (distances > 0.0)
        points, distances, nearest = points[near], distances[near], nearest[near]
        if not len(points):
            return 1.0, None
        times = contact_times(footprint, points, self._radii(distances), twist)
        times[self._approached(points, distances, nearest, twist)] = 0.0
        first = int(times.argmin())
        time = float(times[first])
        if time >= horizon:
            return 1.0, None
        x, y = points[first].tolist()
        blockage = Blockage(x, y, float(distances[first]))
        if fastest * time < 2.0 * ROOM:
            return 0.0, blockage
        return rate * (math.sqrt(latency * latency + 2.0 * time / rate) - latency), blockage

    def _radii(self, distances: Array) -> Array:
        """Return the min distance of each point [m]."""
        clearance = self.config.clearance
        closer = np.maximum(distances - SLACK, np.minimum(0.5 * clearance, distances - ROOM))
        return np.where(distances >= clearance + ROOM, clearance, closer.clip(0.0, clearance))

    def _approached(self, points: Array, distances: Array, nearest: Array, twist: Twist2) -> Array:
        """Return which points are within the clearance and approaching, as booleans."""
        vx, vy = twist.vx - twist.wz * nearest[:, 1], twist.vy + twist.wz * nearest[:, 0]
        towards = points - nearest
        closing = towards[:, 0] * vx + towards[:, 1] * vy
        passing = np.where(distances >= 0.5 * self.config.clearance, PASSING, 0.02)
        return np.asarray(
            (distances < self.config.clearance + ROOM)
            & (closing > passing * np.hypot(vx, vy) * np.maximum(distances, 1e-9))
        )
