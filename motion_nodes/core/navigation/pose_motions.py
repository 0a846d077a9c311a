# SPDX-License-Identifier: Apache-2.0
"""Motions of a base to a pose: straight lines, turns on the spot, drives close to objects.

Close to objects a base backs off, turns on the spot and drives straight: a turn next to an object,
such as a table, can collide with a corner of the base. Obstacles are points of outlines, in the
base frame at the start of the drive.

The rule of the source system, turn on the spot or drive straight at a constant rate, is one of the
motions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.odometry import wrap_angle
from motion_nodes.core.navigation.base_motion import (
    GAIN,
    TURN_ABOVE,
    TURNED,
    BaseKind,
    GoalTolerance,
    MotionLimits,
    MotionOutcome,
    approach,
    approach_speed,
    straight_route,
)
from motion_nodes.core.navigation.footprint import Footprint, convex_hull, into_base
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.errors import InvalidCommand
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

AIM = 0.25
"""Target error as a fraction of the tolerances."""
Phase = Literal["turn", "drive", "settle", "final turn", "arrived"]
MAX_TOLERANCE = 0.1
"""Max tolerance of the angle, also where a goal accepts any heading [rad]."""
CLEARANCE = 0.03
"""Min distance from obstacles [m]."""
MAX_BACK_OFF = 1.5
"""Max distance that a base backs off before it turns [m]."""
STEP = 0.05
"""Spacing of checked poses [m]."""
SPACING = 0.02
"""Spacing of the points of an outline [m]."""
AHEAD = 0.05
"""Min change of direction that requires a turn on the spot [rad]."""


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


@dataclass(frozen=True, kw_only=True)
class TurnThenDriveConfig:
    """Parameters of the rule, with the source's defaults.

    Source: WheelBasePoseController of Isaac Sim's wheeled-robots extension.

    Raises:
        InvalidConfig: values that are not finite and above 0.
    """

    lateral_velocity: float = setting(0.2, doc="Translational speed.", unit="m/s", gt=0.0, le=100.0)
    yaw_velocity: float = setting(0.5, doc="Yaw rate.", unit="rad/s", gt=0.0, le=100.0)
    heading_tolerance: float = setting(
        0.05,
        doc="Max error of the heading (towards the goal; at the goal, of the goal) beyond "
        "which the base turns in place.",
        unit="rad",
        gt=0.0,
        le=3.0,
    )
    position_tolerance: float = setting(
        0.04,
        doc="Position tolerance within which the base stops driving.",
        unit="m",
        gt=0.0,
        le=100.0,
    )

    def __post_init__(self) -> None:
        check_settings(self)


def turn_then_drive(pose: Pose2, goal: Pose2, config: TurnThenDriveConfig) -> Twist2:
    """Return the rule's twist: stop at the goal, turn if the heading error is large, else drive."""
    if pose.distance(goal) <= config.position_tolerance:
        return Twist2()
    error = wrap_angle(pose.bearing(goal) - pose.yaw)
    if abs(error) > config.heading_tolerance:
        return Twist2(0.0, 0.0, math.copysign(config.yaw_velocity, error))
    return Twist2(config.lateral_velocity, 0.0, 0.0)


class TurnThenDrive:
    """Moves to a pose by the rule, and then turns to its heading by the same rule."""

    def __init__(
        self, kind: BaseKind, goal: Pose2, config: TurnThenDriveConfig | None = None
    ) -> None:
        """Create the motion; a holonomic base drives like a differential one.

        Raises:
            InvalidCommand: a car-like base or a goal that is not finite.
        """
        refuse_cars(kind, "turning and driving straight")
        if not goal.finite:
            raise InvalidCommand(f"goal (x, y, yaw) = {tuple(goal)} is not finite")
        self.goal = goal
        self.text = ""
        self.remaining = math.inf
        self.outcome = MotionOutcome.MOVING
        self._kind = kind
        self._config = config or TurnThenDriveConfig()
        self._at_place = False

    def still_there(self, pose: Pose2) -> bool:
        """Return whether the base is at the goal; otherwise restart; see BaseMotion."""
        error = abs(wrap_angle(self.goal.yaw - pose.yaw))
        away = pose.distance(self.goal)
        if away <= self._config.position_tolerance and error <= self._config.heading_tolerance:
            return True
        self._at_place, self.outcome = False, MotionOutcome.MOVING
        return False

    def step(self, pose: Pose2, twist: Twist2, dt: float) -> Twist2:
        """Return the commanded twist; see BaseMotion."""
        self.remaining = pose.distance(self.goal)
        if self.outcome is MotionOutcome.ARRIVED:
            return Twist2()
        self._at_place |= self.remaining <= self._config.position_tolerance
        if not self._at_place:
            return turn_then_drive(pose, self.goal, self._config)
        error = wrap_angle(self.goal.yaw - pose.yaw)
        if abs(error) > self._config.heading_tolerance:
            return Twist2(0.0, 0.0, math.copysign(self._config.yaw_velocity, error))
        self.outcome = MotionOutcome.ARRIVED
        return Twist2()

    def route(self, pose: Pose2) -> Array:
        """Return the line to the goal; see BaseMotion."""
        at_place = pose.distance(self.goal) <= self._config.position_tolerance
        return straight_route(pose, self.goal, pose.yaw if at_place else pose.bearing(self.goal))

    def resumed(self, row: int) -> TurnThenDrive:
        """Return a motion to the same goal; see BaseMotion."""
        return TurnThenDrive(self._kind, self.goal, self._config)


class Spin:
    """Rotates by an angle, which may be several turns; a :class:`BaseMotion`."""

    def __init__(
        self,
        kind: BaseKind,
        angle: float,
        limits: MotionLimits,
        tolerance: GoalTolerance | None = None,
    ) -> None:
        """Create the motion.

        Args:
            kind: kind of the base.
            angle: rotation from the start, positive counter-clockwise [rad].
            limits: limits of the motion.
            tolerance: that of the heading applies, up to :data:`MAX_TOLERANCE`.

        Raises:
            InvalidCommand: a car-like base, or an angle that is not finite.
        """
        refuse_cars(kind, "a spin")
        if not math.isfinite(angle):
            raise InvalidCommand(f"the angle of the spin is {angle} rad; it must be finite")
        self.text = ""
        self.outcome = MotionOutcome.MOVING
        self.remaining = 0.0
        self.turned = 0.0
        """Rotation since the start, positive counter-clockwise [rad]."""
        self._angle, self._limits = angle, limits
        self._tolerance = tolerance or GoalTolerance()
        self._max_error = min(self._tolerance.yaw, MAX_TOLERANCE)
        self._yaw: float | None = None
        self._settling = 0.0

    def still_there(self, pose: Pose2) -> bool:
        """Return whether the angle is reached; otherwise continue; see BaseMotion."""
        if abs(self._error(pose)) <= self._max_error:
            return True
        self.outcome, self._settling = MotionOutcome.MOVING, 0.0
        return False

    def step(self, pose: Pose2, twist: Twist2, dt: float) -> Twist2:
        """Return the commanded twist; see BaseMotion."""
        error = self._error(pose)
        if self.outcome is not MotionOutcome.MOVING:
            return Twist2()
        self._settling = self._settling + dt if abs(error) <= self._max_error else 0.0
        if abs(error) <= AIM * self._max_error or self._settling > self._tolerance.settle_time:
            self.outcome = MotionOutcome.ARRIVED
            return Twist2()
        lim = self._limits
        return Twist2(
            0.0, 0.0, approach(error, lim.max_yaw_velocity, lim.max_yaw_deceleration, GAIN)
        )

    def route(self, pose: Pose2) -> Array:
        """Return the pose itself, twice; see BaseMotion."""
        return straight_route(pose, pose, pose.yaw)

    def resumed(self, row: int) -> Spin:
        """Return the same motion; see BaseMotion."""
        return self

    def _error(self, pose: Pose2) -> float:
        """Update the rotation, and return the remaining one [rad]."""
        if self._yaw is not None:
            self.turned += wrap_angle(pose.yaw - self._yaw)
        self._yaw = pose.yaw
        return self._angle - self.turned


class OutlineLayer(NamedTuple):
    """An outline of a part of the base, and the obstacles at its height."""

    footprint: Footprint
    points: Array
    """Points of obstacles in the base frame [m], shape (n, 2)."""


def outline_points(corners: Array) -> Array:
    """Return points along the outline of the convex hull of points [m], shapes (k, 2), (n, 2)."""
    hull = convex_hull(np.asarray(corners))
    found = []
    for begin, end in zip(hull, np.roll(hull, -1, axis=0), strict=True):
        count = 1 + int(np.hypot(*(end - begin)) / SPACING)
        found.append(begin + (end - begin) * np.arange(count)[:, None] / count)
    return np.concatenate(found) if found else np.empty((0, 2))


def legs_to(
    goals: Callable[[Pose2], Iterable[Pose2]], layers: Sequence[OutlineLayer]
) -> tuple[Pose2, ...]:
    """Return the waypoints of a drive; the last one is a goal.

    If there is no room to turn, the base first drives straight back. It then turns on the spot and
    drives straight ahead. If there is no room to turn at the goal, it turns before it.

    Args:
        goals: returns goal candidates in the base frame, best first, for a start of the drive.
        layers: outlines with their obstacles.

    Returns:
        Waypoints to the first candidate with a collision-free drive; empty if there is none.
    """
    here, roomy = Pose2(), _backed_off(layers, CLEARANCE)
    for start in dict.fromkeys((here, roomy)):
        if start is None:
            continue
        for goal in goals(start):
            legs = _legs_from(start, goal, layers, CLEARANCE, may_turn=start == roomy)
            if legs:
                return legs if start == here else (start, *legs)
    return ()


def _backed_off(layers: Sequence[OutlineLayer], clearance: float) -> Pose2 | None:
    """Return the first pose straight behind with room to turn; None if the way is blocked."""
    for back in np.arange(0.0, MAX_BACK_OFF + STEP, STEP).tolist():
        pose = Pose2(-back) if back else Pose2()
        # The base may start closer than the clearance, if it moves away.
        if back and not _free(layers, pose, 0.0 if back <= clearance + STEP else clearance):
            return None
        if _room_to_turn(layers, pose, clearance):
            return pose
    return None


def _legs_from(
    start: Pose2, goal: Pose2, layers: Sequence[OutlineLayer], clearance: float, *, may_turn: bool
) -> tuple[Pose2, ...]:
    """Return a turn, if required, and the goal; empty if they are not collision-free."""
    if not _free(layers, goal, clearance):
        return ()
    distance = start.distance(goal)
    heading = start.bearing(goal) if distance > STEP else goal.yaw
    turns = abs(wrap_angle(heading - start.yaw)) > AHEAD
    turns_there = distance > STEP and abs(wrap_angle(goal.yaw - heading)) > AHEAD
    if turns_there and not _room_to_turn(layers, goal, clearance):
        return _legs_by_turn_before(start, goal, layers, clearance, may_turn=may_turn)
    if (turns and not may_turn) or not _free_line(layers, start, goal, heading, clearance):
        return ()
    return (Pose2(start.x, start.y, heading), goal) if turns and distance > STEP else (goal,)


def _legs_by_turn_before(
    start: Pose2, goal: Pose2, layers: Sequence[OutlineLayer], clearance: float, *, may_turn: bool
) -> tuple[Pose2, ...]:
    """Return legs with the last possible turn before the goal."""
    for back in np.arange(STEP, MAX_BACK_OFF + STEP, STEP).tolist():
        before = goal.compose(Pose2(-back))
        if not _free(layers, before, clearance):
            return ()
        if _room_to_turn(layers, before, clearance):
            legs = _legs_from(start, before, layers, clearance, may_turn=may_turn)
            return (*legs, goal) if legs else ()
    return ()


def _free_line(
    layers: Sequence[OutlineLayer], start: Pose2, goal: Pose2, heading: float, clearance: float
) -> bool:
    count = math.ceil(start.distance(goal) / STEP)
    return all(
        _free(
            layers,
            Pose2(start.x + s * (goal.x - start.x), start.y + s * (goal.y - start.y), heading),
            clearance,
        )
        for s in np.linspace(0.0, 1.0, 1 + count)[1:].tolist()
    )


def _free(layers: Sequence[OutlineLayer], pose: Pose2, clearance: float) -> bool:
    return all(
        not len(points) or float(footprint.distances(into_base(points, pose)).min()) > clearance
        for footprint, points in layers
    )


def _room_to_turn(layers: Sequence[OutlineLayer], pose: Pose2, clearance: float) -> bool:
    return all(
        not len(points)
        or float(np.hypot(*(points - (pose.x, pose.y)).T).min()) > footprint.radius + clearance
        for footprint, points in layers
    )
