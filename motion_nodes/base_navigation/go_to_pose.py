# SPDX-License-Identifier: Apache-2.0
"""Motion to a pose in a straight line, for differential and holonomic bases."""

from __future__ import annotations

import math
from typing import Literal

from motion_nodes.base_navigation.base_motion import (
    GAIN,
    TURN_ABOVE,
    TURNED,
    MotionOutcome,
    straight_route,
)
from motion_nodes.base_navigation.goal_check import GoalTolerance
from motion_nodes.base_navigation.motion_limits import (
    BaseKind,
    MotionLimits,
    approach,
    approach_speed,
)
from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.bases.base import Twist2
from motion_nodes.bases.odometry import wrap_angle
from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array

AIM = 0.25
"""Target error as a fraction of the tolerances."""

Phase = Literal["turn", "drive", "settle", "final turn", "arrived"]


def refuse_cars(kind: BaseKind, what: str) -> None:
    """Raise an error for a car-like base, which does not support a motion.

    Raises:
        InvalidCommand: for such a base.
    """
    if kind == "ackermann":
        raise InvalidCommand(
            f"{what} needs a base that turns on the spot; an Ackermann base goes to a pose along a "
            "path (dubins)",
            field=what,
        )


class GoToPose:
    """Turns towards the goal, drives straight to it, turns to its heading.

    A holonomic base moves and turns simultaneously.

    Velocities decrease smoothly towards the goal, without overshoot. Within the tolerance a base
    continues to converge (:data:`AIM`), for at most ``settle_time``.
    """

    def __init__(
        self,
        kind: BaseKind,
        goal: Pose2,
        limits: MotionLimits,
        tolerance: GoalTolerance | None = None,
        *,
        reversing: bool = False,
    ) -> None:
        """Create the motion.

        Args:
            kind: kind of the base.
            goal: target pose, finite.
            limits: limits of the motion.
            tolerance: goal tolerance.
            reversing: whether a goal behind a differential base is approached in reverse.

        Raises:
            InvalidCommand: a car-like base or a goal that is not finite.
        """
        refuse_cars(kind, "going straight to a pose")
        if not goal.finite:
            raise InvalidCommand(f"goal (x, y, yaw) = {tuple(goal)} is not finite")
        self.goal = goal
        self.text = ""
        self.remaining = math.inf
        # A moving base with a small heading error starts to drive without a stop.
        self.phase: Phase = "drive"
        self._kind = kind
        self._holonomic = kind == "holonomic"
        self._limits = limits
        self._tolerance = tolerance or GoalTolerance()
        self.reversing = reversing
        """Whether a goal behind is approached in reverse."""
        self._backward: bool | None = None
        self._settling = 0.0

    @property
    def outcome(self) -> MotionOutcome:
        """Whether it has arrived; this motion never fails."""
        return MotionOutcome.ARRIVED if self.phase == "arrived" else MotionOutcome.MOVING

    def step(self, pose: Pose2, twist: Twist2, dt: float) -> Twist2:
        """Return the commanded twist; see BaseMotion."""
        self.remaining = pose.distance(self.goal)
        if self.phase == "arrived":
            return Twist2()
        return self._translate(pose, dt) if self._holonomic else self._turn_and_drive(pose, dt)

    def still_there(self, pose: Pose2) -> bool:
        """Return whether the base is at the goal; otherwise restart; see BaseMotion."""
        if self._tolerance.reached(pose, self.goal):
            return True
        self._enter("drive")
        return False

    def route(self, pose: Pose2) -> Array:
        """Return the line to the goal; see BaseMotion."""
        bearing = pose.bearing(self.goal)
        back = self._backward and not self._holonomic
        heading = wrap_angle(bearing + math.pi) if back else bearing
        if self._holonomic or pose.distance(self.goal) <= self._tolerance.xy:
            heading = pose.yaw
        return straight_route(pose, self.goal, heading)

    def resumed(self, row: int) -> GoToPose:
        """Return a motion to the same goal; see BaseMotion."""
        return GoToPose(
            self._kind, self.goal, self._limits, self._tolerance, reversing=self.reversing
        )

    # ---- holonomic

    def _translate(self, pose: Pose2, dt: float) -> Twist2:
        """Move straight to the goal while turning to the final heading."""
        tolerance = self._tolerance
        error = wrap_angle(self.goal.yaw - pose.yaw)
        near = self.remaining <= AIM * tolerance.xy and abs(error) <= AIM * tolerance.yaw
        if near or self._settled(tolerance.reached(pose, self.goal), dt):
            self.phase = "arrived"
            return Twist2()
        bearing = pose.bearing(self.goal) - pose.yaw
        v = self._speed(self.remaining)
        return Twist2(v * math.cos(bearing), v * math.sin(bearing), self._turn(error))

    # ---- differential

    def _turn_and_drive(self, pose: Pose2, dt: float) -> Twist2:
        if self.phase in ("turn", "drive") and self.remaining <= self._tolerance.xy:
            self._enter("settle")
        elif self.phase in ("settle", "final turn") and self.remaining > 1.5 * self._tolerance.xy:
            self._enter("turn")
        if self.phase == "settle":
            twist = self._run_out(pose, dt)
            if twist is not None:
                return twist
            self._enter("final turn")
        if self.phase == "final turn":
            return self._final_turn(pose, dt)
        return self._drive(pose)

    def _drive(self, pose: Pose2) -> Twist2:
        """Turn on the spot while the heading error is large, else drive to the goal."""
        error = wrap_angle(pose.bearing(self.goal) - pose.yaw)
        if self._backward is None:
            self._backward = self.reversing and abs(error) > 0.5 * math.pi
        if self._backward:
            error = wrap_angle(error + math.pi)
        if self.phase == "turn" and abs(error) <= TURNED:
            self.phase = "drive"
        elif self.phase == "drive" and abs(error) > TURN_ABOVE:
            self._enter("turn")
        wz = self._turn(error)
        if self.phase == "turn":
            return Twist2(0.0, 0.0, wz)
        v = self._speed(self.remaining) * math.cos(error)
        return Twist2(-v if self._backward else v, 0.0, wz)

    def _run_out(self, pose: Pose2, dt: float) -> Twist2 | None:
        """Drive the remaining distance straight ahead, without steering; None when done."""
        ahead = math.cos(pose.bearing(self.goal) - pose.yaw) * self.remaining
        if self._backward:
            ahead = -ahead
        if ahead <= AIM * self._tolerance.xy or self._settled(True, dt):
            return None
        v = self._speed(ahead)
        return Twist2(-v if self._backward else v, 0.0, 0.0)

    def _final_turn(self, pose: Pose2, dt: float) -> Twist2:
        error = wrap_angle(self.goal.yaw - pose.yaw)
        within = abs(error) <= self._tolerance.yaw
        if self._tolerance.yaw >= math.pi or abs(error) <= AIM * self._tolerance.yaw:
            self.phase = "arrived"
        elif self._settled(within, dt):
            self.phase = "arrived"
        return Twist2() if self.phase == "arrived" else Twist2(0.0, 0.0, self._turn(error))

    # ---- both

    def _enter(self, phase: Phase) -> None:
        self.phase, self._settling = phase, 0.0
        if phase in ("turn", "drive"):
            self._backward = None

    def _settled(self, within: bool, dt: float) -> bool:
        """Accumulate the time within tolerance; return whether it is sufficient."""
        self._settling = self._settling + dt if within else 0.0
        return self._settling > self._tolerance.settle_time

    def _speed(self, distance: float) -> float:
        lim = self._limits
        return approach_speed(distance, lim.max_velocity, lim.max_deceleration, GAIN)

    def _turn(self, error: float) -> float:
        lim = self._limits
        return approach(error, lim.max_yaw_velocity, lim.max_yaw_deceleration, GAIN)
