# SPDX-License-Identifier: Apache-2.0
"""A car controlled by steering angle and velocity, each with its own ramp (AckermannDrive).

For library users, and for clients that use steering angles. All four wheels get a velocity. The
current command, by yaw rate or by steering angle, is available as a twist.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from motion_nodes.core.bases.ackermann import AckermannBase, AckermannGeometry
from motion_nodes.core.bases.base import BaseCommand, BaseLimits, Twist2
from motion_nodes.core.bases.controller import ABSURD_SPEED
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.typing import Array

ACCELERATING_LEAD = 0.5
"""Time by which the velocity of an accelerating car may lead its measured one [s]: more than the
lag of wheels, so that the acceleration is kept, and a car that is held does not wind up."""
DEAD_ZONE_ISAAC = 0.0157
"""[rad] Isaac Sim's controller treats steering angles below this (0.9 degrees) as straight ahead.
"""


class DriveCommand(NamedTuple):
    """A drive command; the fields are those of ackermann_msgs/AckermannDrive."""

    steering_angle: float = 0.0
    """Steering angle at the middle of the steered axle [rad]; positive turns left."""
    steering_angle_velocity: float = 0.0
    """Max rate of the steering angle, sign ignored [rad/s]; 0: the limit."""
    speed: float = 0.0
    """Velocity of the middle of the unsteered axle [m/s]; negative: backward."""
    acceleration: float = 0.0
    """Max acceleration, sign ignored [m/s^2]; 0: the limit."""


class DriveState(NamedTuple):
    """References of wheels and steering."""

    steering: Array
    """Angles of the steered wheels, left and right [rad], shape (2,)."""
    wheels: Array
    """Wheel velocities front left, front right, rear left, rear right [rad/s], shape (4,)."""
    steering_angle: float
    """Middle steering angle [rad]."""
    speed: float
    """Velocity [m/s]."""
    notes: tuple[str, ...] = ()
    """Infeasible parts of the command, with reasons."""


@dataclass(frozen=True, kw_only=True)
class AckermannDriveConfig:
    """Limits of the drive; signs are ignored, and 0 is no limit.

    Raises:
        InvalidConfig: a limit that is not finite.
    """

    geometry: AckermannGeometry
    max_wheel_velocity: float = 0.0
    """Max velocity of any wheel [rad/s]."""
    max_wheel_rotation_angle: float = 0.0
    """Max angle of either steered wheel [rad]; the inner one reaches it first."""
    max_steering_angle: float = 0.0
    """Max middle steering angle [rad]."""
    max_acceleration: float = 0.0
    """Max acceleration [m/s^2]."""
    max_steering_angle_velocity: float = 0.0
    """Max rate of the middle steering angle [rad/s]."""
    dead_zone: float = 0.0
    """Steering angles below this count as straight ahead [rad]."""

    def __post_init__(self) -> None:
        for name in (
            "max_wheel_velocity",
            "max_wheel_rotation_angle",
            "max_steering_angle",
            "max_acceleration",
            "max_steering_angle_velocity",
            "dead_zone",
        ):
            value = getattr(self, name)
            if not math.isfinite(value):
                raise InvalidConfig(
                    f"{name} is {value}; give a finite number, or 0 for no limit", field=name
                )

    @classmethod
    def from_isaac(
        cls,
        wheel_base: float,
        track_width: float,
        front_wheel_radius: float = 0.0,
        back_wheel_radius: float = 0.0,
        max_wheel_velocity: float = 0.0,
        invert_steering: bool = False,
        max_wheel_rotation_angle: float = 6.28,
        max_acceleration: float = 0.0,
        max_steering_angle_velocity: float = 0.0,
        dead_zone: float = 0.0,
        rear_steering_angles: Literal["rolling", "isaac"] = "rolling",
    ) -> AckermannDriveConfig:
        """Return a configuration from the parameters of Isaac Sim's Ackermann controller.

        Args:
            wheel_base: distance between the axles [m].
            track_width: track width of both axles [m].
            front_wheel_radius: radius [m]; 0: as ``back_wheel_radius``.
            back_wheel_radius: radius [m]; 0: as ``front_wheel_radius``.
            max_wheel_velocity: max velocity of any wheel [rad/s].
            invert_steering: the rear axle is steered.
            max_wheel_rotation_angle: max angle of either steered wheel [rad]; unlimited from pi/2.
            max_acceleration: max acceleration [m/s^2].
            max_steering_angle_velocity: max rate of the middle steering angle [rad/s].
            dead_zone: dead zone [rad]; :data:`DEAD_ZONE_ISAAC` is that of Isaac Sim.
            rear_steering_angles: with inverted steering, ``rolling`` for wheels that roll without
                slip, ``isaac`` for the angles of that controller, with left and right swapped.

        Raises:
            InvalidConfig: both radii are 0, or a number is invalid.
        """
        if front_wheel_radius == 0.0 and back_wheel_radius == 0.0:
            raise InvalidConfig(
                "front_wheel_radius and back_wheel_radius are both 0; give one of them"
            )
        return cls(
            geometry=AckermannGeometry(
                wheelbase=wheel_base,
                front_track_width=track_width,
                rear_track_width=track_width,
                front_wheel_radius=front_wheel_radius or back_wheel_radius,
                rear_wheel_radius=back_wheel_radius or front_wheel_radius,
                steered_axle="rear" if invert_steering else "front",
                rear_steering_angles=rear_steering_angles,
            ),
            max_wheel_velocity=max_wheel_velocity,
            max_wheel_rotation_angle=max_wheel_rotation_angle,
            max_acceleration=max_acceleration,
            max_steering_angle_velocity=max_steering_angle_velocity,
            dead_zone=dead_zone,
        )


class AckermannDrive:
    """Moves velocity and steering angle to their commands, and computes the wheel references.

    Limits preserve the common turning centre: a turn that is too tight is widened, and velocities
    that are too high are scaled down together, instead of clipping single wheels.
    """

    def __init__(self, config: AckermannDriveConfig) -> None:
        """Start at rest, with the wheels straight ahead."""
        self.config = config
        geometry = config.geometry
        self.max_steering_angle = geometry.steering_angle(
            geometry.max_curvature(
                _bound(config.max_steering_angle), _bound(config.max_wheel_rotation_angle)
            )
        )
        """Max middle steering angle [rad]."""
        self.start()

    def start(self, speed: float = 0.0, steering_angle: float = 0.0) -> None:
        """Start at a velocity [m/s] and a steering angle [rad]."""
        self.steering_angle = steering_angle
        """Current value, before the dead zone [rad]."""
        self.speed = speed
        """Current value [m/s]."""

    def step(self, command: DriveCommand, dt: float = 0.0) -> DriveState:
        """Return the current references.

        Args:
            command: the command.
            dt: time since the last step [s]. Ramps advance only if it is above 0; values without a
                ramp change immediately.

        Raises:
            InvalidCommand: a command or time that is not finite; nothing changes.
        """
        self._check(dt=dt, **command._asdict())
        rise = _rate(command.acceleration, self.config.max_acceleration)
        turn = _rate(command.steering_angle_velocity, self.config.max_steering_angle_velocity)
        notes = []
        if not dt > 0.0 and min(rise, turn) < math.inf:
            notes.append(f"dt is {dt} s; it must be above 0 for ramps to move")
        elapsed = max(dt, 0.0)
        self.speed = _toward(self.speed, command.speed, rise, elapsed)
        goal = self._within(command.steering_angle, notes)
        self.steering_angle = _toward(self.steering_angle, goal, turn, elapsed)
        return self._state(notes)

    def step_accelerating(
        self, steering_angle: float, current_speed: float, acceleration: float, dt: float
    ) -> DriveState:
        """Return the current references from a measured velocity and an acceleration.

        Interface of older Ackermann controllers: the velocity is ``current_speed + acceleration
        dt``.

        Args:
            steering_angle: middle steering angle, applied immediately [rad].
            current_speed: measured velocity [m/s].
            acceleration: signed acceleration; negative brakes a car that drives forward [m/s^2].
            dt: duration of the acceleration [s]; unless it is above 0 the velocity is unchanged.

        Raises:
            InvalidCommand: a value that is not finite; nothing changes.
        """
        self._check(
            steering_angle=steering_angle,
            current_speed=current_speed,
            acceleration=acceleration,
            dt=dt,
        )
        notes = [] if dt > 0.0 else [f"dt is {dt} s; it must be above 0 to accelerate"]
        most = _bound(self.config.max_acceleration)
        rise = min(max(acceleration, -most), most)
        self.speed = current_speed + rise * max(dt, 0.0)
        self.steering_angle = self._within(steering_angle, notes)
        return self._state(notes)

    def wheel_speed(self, state: DriveState) -> float:
        """Return the single wheel velocity of older controllers: of a steered wheel going straight.

        Returns:
            Velocity over the radius of the steered wheels [rad/s].
        """
        geometry = self.config.geometry
        front = geometry.steered_axle != "rear"
        return state.speed / (geometry.front_wheel_radius if front else geometry.rear_wheel_radius)

    def _within(self, steering_angle: float, notes: list[str]) -> float:
        most = self.max_steering_angle
        if abs(steering_angle) <= most:
            return steering_angle
        notes.append(
            f"steering angle {steering_angle:g} rad is beyond {most:.4g} rad, the tightest turn of "
            "this car; it turns as tightly as it can"
        )
        return math.copysign(most, steering_angle)

    def _state(self, notes: list[str]) -> DriveState:
        """Return the wheel references of the current velocity and angle, within their limit."""
        geometry = self.config.geometry
        straight = abs(self.steering_angle) < abs(self.config.dead_zone)
        angle = 0.0 if straight else self.steering_angle
        curvature = geometry.curvature(angle)
        wheels = np.array(geometry.wheel_speeds(self.speed, self.speed * curvature))
        fastest, most = float(abs(wheels).max()), _bound(self.config.max_wheel_velocity)
        if fastest > most:
            notes.append(
                f"speed {self.speed:g} m/s needs a wheel at {fastest:.4g} rad/s, above "
                f"max_wheel_velocity {most:g} rad/s; all wheels are slowed"
            )
            self.speed *= most / fastest
            wheels = (wheels * (most / fastest)).clip(-most, most)
        steering = np.array(geometry.wheel_angles(curvature))
        return DriveState(steering, wheels, angle, self.speed, tuple(notes))

    @staticmethod
    def _check(**numbers: float) -> None:
        for name, value in numbers.items():
            if not math.isfinite(value):
                raise InvalidCommand(
                    f"{name} is {value}; it must be finite. Nothing changes", field=name
                )


def _bound(limit: float) -> float:
    return abs(limit) or math.inf


def _rate(requested: float, limit: float) -> float:
    """Return the rate of a ramp: the requested one within the limit; infinite for none."""
    return min(_bound(requested), _bound(limit))


def _toward(start: float, goal: float, rate: float, dt: float) -> float:
    """Return the value moved from start towards goal for a time, never beyond the goal."""
    if rate == math.inf or abs(goal - start) <= rate * dt:
        return goal
    return start + math.copysign(rate * dt, goal - start)


class CarCommand:
    """The newest command; its ramps continue while it is valid.

    While the car is at rest, a steering angle contains more information than a yaw rate, so it is
    passed to the base as the ``aim`` of its steering.
    """

    def __init__(
        self,
        base: AckermannBase,
        limits: BaseLimits,
        *,
        slow_until_steered: bool = False,
        straight_at_rest: bool = False,
        accelerates: bool = False,
    ) -> None:
        """Create without a command.

        Args:
            base: the car.
            limits: its limits, also for ramps.
            slow_until_steered: reduce the velocity according to the steering error.
            straight_at_rest: turn the steering straight at a twist of 0.
            accelerates: drive commands are signed accelerations instead of velocities.
        """
        self.base, self._limits, self._slow = base, limits, slow_until_steered
        self._straight, self._accelerates = straight_at_rest, accelerates
        self._ramps = _ramps(base, limits)
        self._twist: Twist2 | None = None
        self._drive: DriveCommand | None = None
        self.note = ""
        """Infeasible part of the newest command, as text."""

    def reconfigure(
        self,
        base: AckermannBase,
        limits: BaseLimits,
        *,
        slow_until_steered: bool,
        straight_at_rest: bool = False,
        accelerates: bool = False,
    ) -> None:
        """Replace geometry or limits; the command remains active, unless its meaning changes."""
        before = self._ramps
        self.base, self._limits, self._slow = base, limits, slow_until_steered
        if accelerates != self._accelerates:
            self.forget()
        self._straight, self._accelerates = straight_at_rest, accelerates
        self._ramps = _ramps(base, limits)
        self._ramps.start(before.speed, before.steering_angle)

    def forget(self) -> None:
        """Clear the command; the steering is unchanged."""
        self._twist = self._drive = self.base.aim = None
        self.note = ""

    def take_twist(self, twist: Twist2) -> None:
        """Accept a command of velocity [m/s] and yaw rate [rad/s].

        Raises:
            InvalidCommand: a value that is not finite or implausible; the previous command stays.
        """
        _check(twist._asdict())
        self.forget()
        self._twist = twist

    def take_drive(
        self, command: DriveCommand, driven: BaseCommand, measured: float | None = None
    ) -> None:
        """Accept a command of velocity, or of acceleration, and steering angle.

        Args:
            command: the command.
            driven: current output, from which ramps begin.
            measured: measured velocity, from which an acceleration begins; None: that of the
                output [m/s].

        Raises:
            InvalidCommand: a value that is not finite or implausible; the previous command stays.
        """
        _check(command._asdict())
        if self._drive is None:
            self.forget()
            accelerates = self._accelerates and measured is not None
            speed = measured if accelerates else driven.twist.vx
            self._ramps.start(float(speed or 0.0), self.base.steering_angle(driven.steering))
        self._drive = command

    def twist(self, dt: float, steering: Array, measured: float | None = None) -> Twist2 | None:
        """Return the current twist, or None without a command.

        Args:
            dt: time since the last call [s].
            steering: measured steering angles [rad], shape (2,).
            measured: measured velocity, which bounds that of an acceleration; None: unknown [m/s].
        """
        base, twist = self.base, self._twist
        if self._drive is not None:
            command = self._drive
            if self._accelerates:
                command = self._accelerated(command, dt, measured)
            state = self._ramps.step(command, dt)
            self.note = "; ".join(state.notes if dt > 0.0 else ())
            requested = base.twist_at(state.speed, state.steering_angle)
            twist = self._limits.within_velocity(requested)
            if twist.vx != requested.vx:
                # A ramp beyond the limits would delay braking.
                self._ramps.start(twist.vx, self._ramps.steering_angle)
            base.aim = base.geometry.curvature(state.steering_angle)
        elif twist is not None and self._straight and twist.vx == twist.wz == 0.0:
            base.aim = 0.0
        if twist is None or not self._slow or twist.vx == 0.0:
            return twist
        # A car whose velocity is reduced to zero must still steer.
        base.aim = twist.wz / twist.vx
        return base.slowed(twist, steering)

    def _accelerated(
        self, command: DriveCommand, dt: float, measured: float | None
    ) -> DriveCommand:
        """Return a command of the velocity that an acceleration has reached."""
        rise, speed = command.acceleration, self._ramps.speed
        change = abs(rise) * max(dt, 0.0)
        if measured is not None:
            lead = math.copysign(1.0, rise) * (speed - measured)
            change = min(change, max(abs(rise) * ACCELERATING_LEAD - lead, 0.0))
        return command._replace(speed=speed + math.copysign(change, rise), acceleration=0.0)


def _check(numbers: dict[str, float]) -> None:
    for name, value in numbers.items():
        if not math.isfinite(value):
            raise InvalidCommand(f"{name} is {value}; it must be finite", field=name)
        if abs(value) > ABSURD_SPEED:
            raise InvalidCommand(
                f"{name} is {value:g}, beyond {ABSURD_SPEED:g}; larger values are rejected",
                field=name,
            )


def _ramps(base: AckermannBase, limits: BaseLimits) -> AckermannDrive:
    """Return ramps with the car's limits."""
    top = limits.wheel_velocity
    return AckermannDrive(
        AckermannDriveConfig(
            geometry=base.geometry,
            max_wheel_velocity=top if math.isfinite(top) else 0.0,
            max_steering_angle=base.max_steering_angle,
        )
    )
