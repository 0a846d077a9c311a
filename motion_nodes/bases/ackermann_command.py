# SPDX-License-Identifier: Apache-2.0
"""The current command of a car, by yaw rate or by steering angle, as a twist."""

from __future__ import annotations

import math

from motion_nodes.bases.ackermann import AckermannBase
from motion_nodes.bases.ackermann_drive import AckermannDrive, AckermannDriveConfig, DriveCommand
from motion_nodes.bases.base import BaseCommand, Twist2
from motion_nodes.bases.base_limits import BaseLimits
from motion_nodes.bases.controller import ABSURD_SPEED
from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array


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
    ) -> None:
        """Create without a command.

        Args:
            base: the car.
            limits: its limits, also for ramps.
            slow_until_steered: reduce the velocity according to the steering error.
            straight_at_rest: turn the steering straight at a twist of 0.
        """
        self.base, self._limits, self._slow = base, limits, slow_until_steered
        self._straight = straight_at_rest
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
    ) -> None:
        """Replace geometry or limits; the command remains active."""
        before = self._ramps
        self.base, self._limits, self._slow = base, limits, slow_until_steered
        self._straight = straight_at_rest
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

    def take_drive(self, command: DriveCommand, driven: BaseCommand) -> None:
        """Accept a command of velocity and steering angle.

        Args:
            command: the command.
            driven: current output, from which ramps begin.

        Raises:
            InvalidCommand: a value that is not finite or implausible; the previous command stays.
        """
        _check(command._asdict())
        if self._drive is None:
            self.forget()
            self._ramps.start(driven.twist.vx, self.base.steering_angle(driven.steering))
        self._drive = command

    def twist(self, dt: float, steering: Array) -> Twist2 | None:
        """Return the current twist, or None without a command.

        Args:
            dt: time since the last call [s].
            steering: measured steering angles [rad], shape (2,).
        """
        base, twist = self.base, self._twist
        if self._drive is not None:
            state = self._ramps.step(self._drive, dt)
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
