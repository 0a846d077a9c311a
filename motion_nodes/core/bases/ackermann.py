# SPDX-License-Identifier: Apache-2.0
"""Car-like base: one axle with two steered wheels or one, driven wheels on either axle or both.

A single wheel of an axle is in its middle: a tricycle has one steered wheel, a bicycle one wheel on
each axle. A base with two steered axles steers them against each other.

Steering angles and wheel velocities follow from the turn. Turns are described by their curvature at
the middle of the unsteered axle, so that driving straight is not a special case. Positive turns
left, for either steered axle. With two steered axles, which steer against each other, the middle
between them takes the place of the unsteered axle.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from motion_nodes.core.bases.base import NO_STEERING, Twist2, check_finite, check_wheel_count
from motion_nodes.core.robot.bounds import repeated
from motion_nodes.core.robot.robot_yaml import TRACK_WIDTH, WHEEL_RADIUS, WHEELBASE
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

TIGHTEST = 0.999
"""Max curvature, as a fraction of the curvature with a wheel at the turning centre.

There the angle of the wheel jumps by 180 degrees and its velocity changes sign.
"""
SIDEWAYS = 1e-9
"""Lateral velocities below this are rounding errors [m/s]."""
NO_TRACK = 1e-9
"""Track width of an axle with a single wheel [m]."""
FREE_ERROR, FULL_ERROR = 0.05, 0.5
"""Steering errors between which the velocity is reduced to zero [rad]."""


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


@dataclass(frozen=True, kw_only=True)
class AckermannConfig:
    """Joints and limits of a car-like base; a limit of 0 or NaN is not set.

    Raises:
        InvalidConfig: more than two joints of an axle, a duplicate joint, no driven wheel, a
            steered axle with one joint and two driven wheels or vice versa, or a limit that is
            negative or infinite.
    """

    geometry: AckermannGeometry
    steering_joint_names: tuple[str, ...]
    """Steering joints, left one first, or one in the middle; positive angles steer left. Of two
    steered axles: front left, front right, rear left, rear right."""
    front_wheel_names: tuple[str, ...] = ()
    """Joints of driven front wheels, left one first, or one in the middle; empty: passive."""
    rear_wheel_names: tuple[str, ...] = ()
    """Joints of driven rear wheels, left one first, or one in the middle; empty: passive."""
    fixed_axle_x: float = setting(
        0.0,
        doc="Position of the fixed axle, or of the middle of two steered ones, along the x axis of "
        "base_frame_id; 0: the base frame is there.",
        unit="m",
    )
    max_steering_angle: float = setting(
        math.nan,
        doc="Max steering angle of the virtual centre wheel, in addition to the position limits "
        "of the steering joints; 0 or NaN: no additional limit.",
        unit="rad",
        nan=True,
        ge=0.0,
        le=1.57,
    )
    max_wheel_angle: float = setting(
        math.nan,
        doc="Max angle of either steered wheel; the inner one reaches it first. 0 or NaN: "
        "unlimited.",
        unit="rad",
        nan=True,
        ge=0.0,
    )
    max_steering_velocity: float = setting(
        math.nan,
        doc="Max rate of the steering angle of the virtual centre wheel; 0 or NaN: unlimited.",
        unit="rad/s",
        nan=True,
        ge=0.0,
    )

    def __post_init__(self) -> None:
        """Validate names and numbers."""
        steered, joints = self.geometry.steered_axle, self.steering_joint_names
        both = steered == "both"
        allowed = {"steering_joint_names": (4,) if both else (1, 2)}
        for name in ("steering_joint_names", "front_wheel_names", "rear_wheel_names"):
            count = len(getattr(self, name))
            if count not in allowed.get(name, (0, 1, 2)):
                two = "2, the left one and the right one, or 1 in the middle"
                if both and name == "steering_joint_names":
                    two = "4, left and right of the front axle, then of the rear axle"
                raise InvalidConfig(f"{name} has {count} entries; it needs {two}", field=name)
        for axle in ("front", "rear") if both else (steered,):
            name, each = f"{axle}_wheel_names", min(2, len(joints))
            if getattr(self, name) and len(getattr(self, name)) != each:
                raise InvalidConfig(
                    f"{name} has {len(getattr(self, name))} entries for {each} of the "
                    "steering_joint_names; each steered wheel has one steering joint",
                    field=name,
                )
        if not self.front_wheel_names + self.rear_wheel_names:
            raise InvalidConfig(
                "a car-like base needs driven wheels, on the front axle or the rear", field="wheels"
            )
        names = self.steering_joint_names + self.front_wheel_names + self.rear_wheel_names
        twice = repeated(names)
        if twice:
            raise InvalidConfig(
                f"joints {', '.join(twice)} are named more than once", field=twice[0]
            )
        check_settings(self)


class AckermannBase:
    """Forward and inverse kinematics of a car, and the motion of its steering.

    The twist of a car consists of velocity and yaw rate; the yaw rate is the product of velocity
    and steering curvature. It cannot turn on the spot, and the steering does not move at rest.
    """

    def __init__(self, config: AckermannConfig) -> None:
        self.config = config
        self.geometry = geometry = _without_track(config)
        self.max_curvature = geometry.max_curvature(
            _bound(config.max_steering_angle), _bound(config.max_wheel_angle)
        )
        """Max curvature [1/m]."""
        self.aim: float | None = None
        """Target curvature of the steering while the car is at rest [1/m]; None: unchanged."""
        self._steering_velocity = _bound(config.max_steering_velocity)
        ends = (config.front_wheel_names, config.rear_wheel_names)
        self._driven = tuple(2 * end + i for end in (0, 1) for i in range(len(ends[end])))
        self._n_steered = len(config.steering_joint_names)
        front, rear = geometry.front_wheel_radius, geometry.rear_wheel_radius
        self._radii = np.array([(front, front, rear, rear)[i] for i in self._driven])
        front, rear = 0.5 * geometry.front_track_width, 0.5 * geometry.rear_track_width
        ys = (front, -front, rear, -rear)
        steered = {"front": (0, 1), "rear": (2, 3), "both": (0, 1, 2, 3)}[geometry.steered_axle]
        self._steered = geometry.steered_wheels
        xs = tuple(x for x in geometry.axles_x for _ in range(2))
        # For each driven wheel: its position, and its steering joint.
        self._wheels = tuple(
            (xs[i], ys[i], steered.index(i) if i in steered else None) for i in self._driven
        )

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """Driven wheels: front left, front right, rear left, rear right."""
        return self.config.front_wheel_names + self.config.rear_wheel_names

    @property
    def wheel_radii(self) -> Array:
        """Rolling radius of each driven wheel [m], shape (wheels,)."""
        return self._radii.copy()

    @property
    def steering_names(self) -> tuple[str, ...]:
        """Steering joints, left and right of each steered axle, or one in the middle."""
        return self.config.steering_joint_names

    def nearest_twist(self, twist: Twist2) -> Twist2:
        """Return the twist with the same velocity and the closest feasible curvature.

        A turn on the spot becomes a zero twist.

        Raises:
            InvalidCommand: a twist that is not finite.
        """
        check_finite(twist)
        fastest = self.max_curvature * abs(twist.vx)
        return self._twist(twist.vx, min(max(twist.wz, -fastest), fastest))

    def steer(self, twist: Twist2, steering: Array, dt: float, share: float = 1.0) -> Array:
        """Return the steering angles [rad] one step towards those of ``twist``.

        The middle wheel turns at ``max_steering_velocity``; all wheels always share one turning
        centre. For a twist without velocity the steering moves to ``aim``, or is unchanged.

        Args:
            twist: the commanded twist.
            steering: current angles [rad], shape (steering joints,).
            dt: duration of the step [s]; unless it is above 0 nothing moves.
            share: fraction of the step's motion of the middle wheel, 0 to 1.
        """
        if twist.vx != 0.0:
            return self.steer_to(twist.wz / twist.vx, steering, dt, share)
        return steering if self.aim is None else self.steer_to(self.aim, steering, dt, share)

    def steer_to(self, curvature: float, steering: Array, dt: float, share: float = 1.0) -> Array:
        """Return the steering angles [rad] one step towards those of a curvature [1/m].

        Args:
            curvature: the goal, clamped to its limit [1/m].
            steering: current angles [rad], shape (steering joints,).
            dt: duration of the step [s]; unless it is above 0 nothing moves.
            share: fraction of the step's motion of the middle wheel, 0 to 1.
        """
        if not dt > 0.0:
            return steering
        goal = self.geometry.steering_angle(self._limited(curvature))
        now = self.steering_angle(steering)
        most = self._steering_velocity * dt
        if abs(goal - now) > most:
            goal = now + math.copysign(most, goal - now)
        if share != 1.0:
            goal = now + share * (goal - now)
        angles = self.geometry.wheel_angles(self.geometry.curvature(goal))
        return np.array(angles[: self._n_steered])

    def steering_angle(self, steering: Array) -> float:
        """Return the middle steering angle [rad] of all steered wheels, positive to the left."""
        return self.geometry.steering_angle(self.geometry.curvature_of(*self._each(steering)))

    def twist_at(self, speed: float, steering_angle: float) -> Twist2:
        """Return the twist at a velocity [m/s] and a steering angle [rad].

        Args:
            speed: velocity of the unsteered axle [m/s].
            steering_angle: angle of the middle wheel, positive to the left; clamped to its limit
                [rad].

        Raises:
            InvalidCommand: a value that is not finite.
        """
        if not (math.isfinite(speed) and math.isfinite(steering_angle)):
            raise InvalidCommand(
                f"speed {speed} m/s or steering angle {steering_angle} rad not finite"
            )
        return self._twist(speed, speed * self.curvature_at(steering_angle))

    def curvature_at(self, steering_angle: float) -> float:
        """Return the curvature [1/m] of a steering angle [rad], clamped to its limit."""
        most = self.max_steering_angle
        return self.geometry.curvature(min(max(steering_angle, -most), most))

    @property
    def max_steering_angle(self) -> float:
        """Max middle steering angle permitted by all limits [rad]."""
        return self.geometry.steering_angle(self.max_curvature)

    def slowed(self, twist: Twist2, steering: Array) -> Twist2:
        """Return the twist, slowed down according to the steering error.

        Args:
            twist: the commanded twist.
            steering: measured angles [rad], shape (steering joints,).
        """
        if twist.vx == 0.0:
            return twist
        needed = self.geometry.steering_angle(self._limited(twist.wz / twist.vx))
        error = abs(needed - self.steering_angle(steering))
        share = (FULL_ERROR - error) / (FULL_ERROR - FREE_ERROR)
        return twist.scaled(min(max(share, 0.0), 1.0))

    def twist_along(self, twist: Twist2, steering: Array) -> Twist2:
        """Return the twist of the same velocity with the curvature of steering angles [rad]."""
        curvature = self._limited(self.geometry.curvature_of(*self._each(steering)))
        return self._twist(twist.vx, twist.vx * curvature)

    def wheels_from_twist(self, twist: Twist2) -> Array:
        """Return wheel velocities [rad/s], shape (wheels,), with the steered wheels aligned.

        Raises:
            InvalidCommand: a twist that is not finite, or with a lateral velocity other than that
                of a base frame off the unsteered axle during a turn.
        """
        check_finite(twist)
        slip = twist.vy + twist.wz * self.config.fixed_axle_x
        if abs(slip) > SIDEWAYS * (1.0 + abs(twist.vy)):
            raise InvalidCommand(
                f"vy is {twist.vy} m/s; a car cannot move sideways (where its base frame is, a yaw "
                f"rate of {twist.wz} rad/s gives {-twist.wz * self.config.fixed_axle_x} m/s)"
            )
        speeds = self.geometry.wheel_speeds(twist.vx, twist.wz)
        return np.array([speeds[i] for i in self._driven])

    def twist_from_wheels(
        self, wheels: Array | Sequence[float], steering: Array | Sequence[float] = NO_STEERING
    ) -> Twist2:
        """Return the twist from wheel velocities [rad/s] and steering angles [rad].

        Least squares solution of rolling without slip: of each driven wheel along its heading, and
        of each steered wheel, driven or not, across it.

        Raises:
            InvalidCommand: wrong lengths.
        """
        check_wheel_count(wheels, len(self._wheels))
        angles = self.geometry.rolling_angles(*self._each(steering))
        headings = [(math.cos(a), math.sin(a)) for a in angles]
        # Normal equations of the rows (velocity, yaw rate, right side) [m/s].
        vv = vw = ww = v = w = 0.0
        for (x, y, joint), radius, wheel in zip(
            self._wheels, self._radii.tolist(), wheels, strict=True
        ):
            c, s = (1.0, 0.0) if joint is None else headings[joint]
            turning, rolled = x * s - y * c, radius * float(wheel)
            vv, vw, ww = vv + c * c, vw + c * turning, ww + turning * turning
            v, w = v + c * rolled, w + turning * rolled
        for (c, s), (x, y) in zip(headings, self._steered, strict=True):
            turning = x * c + y * s
            vv, vw, ww = vv + s * s, vw - s * turning, ww + turning * turning
        determinant = vv * ww - vw * vw
        return self._twist((ww * v - vw * w) / determinant, (vv * w - vw * v) / determinant)

    def _each(self, steering: Array | Sequence[float]) -> tuple[float, ...]:
        """Return the angles of the left and the right wheel of each steered axle [rad]."""
        if len(steering) != self._n_steered:
            raise InvalidCommand(
                f"{len(steering)} steering angles given; the base has {self._n_steered}"
            )
        angles = tuple(float(angle) for angle in steering)
        return angles if len(angles) > 1 else 2 * angles

    def _limited(self, curvature: float) -> float:
        return min(max(curvature, -self.max_curvature), self.max_curvature)

    def _twist(self, speed: float, yaw_rate: float) -> Twist2:
        """Return the twist of the base frame for a motion of the unsteered axle's middle."""
        # The sum normalizes negative zeros.
        return Twist2(speed, 0.0 - yaw_rate * self.config.fixed_axle_x, yaw_rate)


def _bound(limit: float) -> float:
    return math.inf if math.isnan(limit) or limit == 0.0 else limit


def _without_track(config: AckermannConfig) -> AckermannGeometry:
    """Return the geometry, with axles of a single wheel, which is two at the same place."""
    geometry, steered = config.geometry, config.geometry.steered_axle
    counts = {
        end: min(2, len(config.steering_joint_names)) if steered in (end, "both") else len(names)
        for end, names in (
            ("front", config.front_wheel_names), ("rear", config.rear_wheel_names),
        )
    }  # fmt: skip
    single = {f"{end}_track_width": NO_TRACK for end, count in counts.items() if count == 1}
    return dataclasses.replace(geometry, **single)  # type: ignore[arg-type]
