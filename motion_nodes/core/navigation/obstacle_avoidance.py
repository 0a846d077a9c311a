# SPDX-License-Identifier: Apache-2.0
"""Reaction to obstacles: stop before them, wait, drive around them, or abort.

Speed limits from obstacle distances, so that a base can always stop before obstacles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.odometry import wrap_angle
from motion_nodes.core.navigation.base_motion import BaseKind, BaseMotion, MotionLimits
from motion_nodes.core.navigation.detours import (
    DetourConfig,
    DetourMotion,
    DetourPlanner,
    NoDetour,
    Submit,
    at_once,
)
from motion_nodes.core.navigation.footprint import Footprint, contact_times, out_of_base
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.errors import InvalidConfig
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

ROOM = 1e-3
"""Resolution of distances [m]."""
SLACK = 0.01
"""Max decrease of the distance of a point within the clearance while the base passes it [m]."""
PASSING = 0.2
"""Sine of the max angle of motion towards such a point at which the base may pass it."""
STANDING = (0.004, 0.01)
"""Min limited speed and yaw rate, below which the base stops [m/s, rad/s]."""
MOVED = (0.05, 0.2)
"""Displacement after which a base is no longer blocked [m, rad]."""
LOOK_AHEAD = 0.25
"""Period at which the rest of a detour is checked [s]."""
MOST_DETOURS = 10
"""Max number of detours of a task."""


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


class SeenObstacles(NamedTuple):
    """Obstacles measured by the sensors of a base."""

    points: Array
    """Obstacles in the base frame [m], shape (n, 2)."""
    hold: str = ""
    """Reason why the base must not move, such as a sensor timeout; empty if it may."""
    frame: str = ""
    """Name of the goal's frame, for texts."""


@dataclass(frozen=True, kw_only=True)
class AvoidanceConfig:
    """Settings of the reaction to obstacles."""

    guard: GuardConfig = field(default_factory=GuardConfig)
    detour: DetourConfig = field(default_factory=DetourConfig)
    blocked_timeout: float = setting(
        5.0, doc="Waiting time of a blocked base before a detour, and between two attempts.",
        unit="s", ge=0.0, le=3600.0,
    )  # fmt: skip
    obstacle_timeout: float = setting(
        30.0, doc="Time after which the goal of a blocked base is aborted.", unit="s", gt=0.0,
        le=3600.0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_settings(self)
        if self.obstacle_timeout < self.blocked_timeout:
            raise InvalidConfig(
                f"obstacle_timeout is {self.obstacle_timeout:g} s; it must not be below "
                f"blocked_timeout, {self.blocked_timeout:g} s",
                field="obstacle_timeout",
            )


class ObstacleAvoidance:
    """Stops a base before obstacles, and plans detours."""

    def __init__(
        self,
        kind: BaseKind,
        footprint: Footprint,
        limits: MotionLimits,
        config: AvoidanceConfig | None = None,
        submit: Submit = at_once,
    ) -> None:
        """Start without a blockage.

        Args:
            kind: kind of the base.
            footprint: footprint of the base.
            limits: limits of its motions.
            config: settings.
            submit: starts the search for a detour, for example in a thread.
        """
        self._kind, self._submit = kind, submit
        self.reconfigure(limits, footprint, config or AvoidanceConfig())
        self.reset()

    def reset(self) -> None:
        """Reset for a new task."""
        self.waited = 0.0
        """Time since the base was blocked [s]; 0 if it is not."""
        self.text = ""
        """Description of the obstacle that blocks the base; empty if it is not blocked."""
        self.outdated = False
        """Whether the base has to stop, because new obstacles block its detour."""
        self._anchor: Pose2 | None = None
        self._tried = 0.0
        self._next_look = LOOK_AHEAD
        self._failure = ""
        self._planner.forget()

    @property
    def footprint(self) -> Footprint:
        """Footprint of the base."""
        return self._guard.footprint

    @property
    def blockage(self) -> Blockage | None:
        """The current cause of a reduced speed; None: none."""
        return self._guard.blockage

    @property
    def out_of_patience(self) -> bool:
        """Whether ``obstacle_timeout`` has expired, and no search is active."""
        return self.waited >= self.config.obstacle_timeout and not self._planner.searching

    @property
    def reason(self) -> str:
        """The obstacle that blocks the base, and the reason for no detour, as text."""
        return f"{self.text}{'; ' if self._failure else ''}{self._failure}"

    def reconfigure(
        self, limits: MotionLimits, footprint: Footprint, config: AvoidanceConfig
    ) -> None:
        """Replace the settings; a blockage remains."""
        self.config, self._limits = config, limits
        self._guard = ClearanceGuard(self._kind, footprint, limits, config.guard)
        self._planner = DetourPlanner(
            self._kind, footprint, limits, config.guard.clearance, config.detour, self._submit
        )

    def limit(
        self, driven: Twist2, before: Twist2, measured: Twist2, seen: SeenObstacles, dt: float
    ) -> Twist2:
        """Return the twist that is commanded instead of ``driven``; see ClearanceGuard.limit."""
        if seen.hold:
            # Ramp down along the arc of the last twist.
            lim = self._limits
            speed, turn = math.hypot(before.vx, before.vy), abs(before.wz)
            share = max(
                1.0 - lim.max_deceleration * dt / speed if speed else 0.0,
                1.0 - lim.max_yaw_deceleration * dt / turn if turn else 0.0,
                0.0,
            )
            return before.scaled(share) if share > 0.02 else Twist2()
        return self._guard.limit(driven, before, seen.points, measured, dt)

    def update(
        self, desired: Twist2, commanded: Twist2, pose: Pose2, seen: SeenObstacles, dt: float
    ) -> None:
        """Update the time for which the base is blocked.

        Args:
            desired: twist of the motion.
            commanded: twist that was commanded instead.
            pose: pose of the base.
            seen: obstacles.
            dt: time since the last update [s].
        """
        anchor = self._anchor
        if desired != Twist2() and commanded == Twist2():
            if anchor is None:
                self._anchor = pose
            self.waited += dt
            # Without a new blockage the reason remains the last one.
            self.text = seen.hold or self._described(pose, seen.frame) or self.text or "blocked"
        elif anchor is not None:
            turned = abs(wrap_angle(pose.yaw - anchor.yaw))
            if anchor.distance(pose) > MOVED[0] or turned > MOVED[1]:
                self.reset()

    def look_ahead(self, motion: BaseMotion, pose: Pose2, seen: SeenObstacles, dt: float) -> None:
        """Check the rest of a detour, because obstacles may become visible during the motion.

        Args:
            motion: the motion.
            pose: pose of the base.
            seen: obstacles.
            dt: time since the last check [s].
        """
        if not isinstance(motion, DetourMotion) or motion.done or seen.hold or self.outdated:
            return
        self._next_look -= dt
        if self._next_look <= 0.0:
            self._next_look = LOOK_AHEAD
            clearance = self.config.guard.clearance
            points = out_of_base(seen.points, pose)
            self.outdated = not motion.is_clear(pose, self.footprint, points, clearance)

    def detour(
        self, motion: BaseMotion, pose: Pose2, desired: Twist2, seen: SeenObstacles
    ) -> BaseMotion | None:
        """Return a motion around the obstacles if a detour is due and found.

        Args:
            motion: the blocked motion.
            pose: pose of the base, at rest.
            desired: twist of the motion; the base backs off in the opposite direction.
            seen: obstacles.
        """
        timeout = self.config.blocked_timeout
        if seen.hold:
            # Its result would be outdated, and an active search postpones the timeout.
            self._planner.forget()
            return None
        try:
            if not self._planner.searching:
                if not (self.outdated or self.waited - self._tried >= timeout):
                    return None
                self._tried = self.waited
                self._planner.begin(motion, pose, desired, seen.points)
            return self._planner.take(pose)
        except NoDetour as error:
            self._failure = str(error)
            self.outdated, self._next_look = False, timeout
            return None

    def _described(self, pose: Pose2, frame: str) -> str:
        found = self._guard.blockage
        if found is None:
            return ""
        at = pose.compose(Pose2(found.x, found.y, 0.0))
        place = f"({at.x:.2f}, {at.y:.2f})" + (f" in {frame}" if frame else "")
        return (
            f"an obstacle at {place} is {found.distance:.2f} m from the base; "
            f"clearance is {self.config.guard.clearance:g} m"
        )
