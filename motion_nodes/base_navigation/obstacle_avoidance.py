# SPDX-License-Identifier: Apache-2.0
"""Reaction to obstacles: stop before them, wait, drive around them, or abort."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from motion_nodes.base_navigation.base_motion import BaseMotion
from motion_nodes.base_navigation.clearance_guard import Blockage, ClearanceGuard, GuardConfig
from motion_nodes.base_navigation.detour import DetourMotion
from motion_nodes.base_navigation.detour_planner import DetourPlanner, Submit, at_once
from motion_nodes.base_navigation.detour_search import DetourConfig, NoDetour
from motion_nodes.base_navigation.footprint import Footprint
from motion_nodes.base_navigation.free_motion import out_of_base
from motion_nodes.base_navigation.motion_limits import BaseKind, MotionLimits
from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.bases.base import Twist2
from motion_nodes.bases.odometry import wrap_angle
from motion_nodes.errors import InvalidConfig
from motion_nodes.model.setting import check_settings, setting
from motion_nodes.typing import Array

MOVED = (0.05, 0.2)
"""Displacement after which a base is no longer blocked [m, rad]."""
LOOK_AHEAD = 0.25
"""Period at which the rest of a detour is checked [s]."""
MOST_DETOURS = 10
"""Max number of detours of a task."""


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
        """Validate the numbers."""
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
