# SPDX-License-Identifier: Apache-2.0
"""What a car was asked for last, by yaw rate or by steering angle, told as a twist."""

from __future__ import annotations

import math

from motion_nodes.bases.ackermann import AckermannBase
from motion_nodes.bases.ackermann_drive import AckermannDrive, AckermannDriveConfig, DriveCommand
from motion_nodes.bases.base import Array, BaseCommand, Twist2
from motion_nodes.bases.base_limits import BaseLimits
from motion_nodes.bases.controller import ABSURD_SPEED
from motion_nodes.errors import InvalidCommand


class CarCommand:
    """The newest command; ramps that came with it run on while it holds.

    A steering angle is more than a yaw rate tells while the car stands, so it goes to the base as
    the ``aim`` of its steering.
    """

    def __init__(
        self, base: AckermannBase, limits: BaseLimits, *, slow_until_steered: bool = False
    ) -> None:
        """Begin without a command.

        Args:
            base: the car.
            limits: its limits, which ramps do not run on beyond.
            slow_until_steered: drive slower the farther the steering is from where it must be.
        """
        self.base, self._limits, self._slow = base, limits, slow_until_steered
        self._ramps = _ramps(base, limits)
        self._twist: Twist2 | None = None
        self._drive: DriveCommand | None = None
        self.note = ""
        """What of the newest command is not done, in words."""

    def reconfigure(
        self, base: AckermannBase, limits: BaseLimits, *, slow_until_steered: bool
    ) -> None:
        """Take over another geometry or other limits; the command goes on."""
        before = self._ramps
        self.base, self._limits, self._slow = base, limits, slow_until_steered
        self._ramps = _ramps(base, limits)
        self._ramps.start(before.speed, before.steering_angle)

    def forget(self) -> None:
        """Have no command; the steering stays."""
        self._twist = self._drive = self.base.aim = None
        self.note = ""

    def take_twist(self, twist: Twist2) -> None:
        """Take a command of speed and yaw rate.

        Raises:
            InvalidCommand: for a number that is not finite or absurd; the last command stays.
        """
        _check(twist._asdict())
        self.forget()
        self._twist = twist

    def take_drive(self, command: DriveCommand, driven: BaseCommand) -> None:
        """Take a command of speed and steering angle.

        Args:
            command: what to drive.
            driven: what is driven now, from where ramps begin.

        Raises:
            InvalidCommand: for a number that is not finite or absurd; the last command stays.
        """
        _check(command._asdict())
        if self._drive is None:
            self.forget()
            self._ramps.start(driven.twist.vx, self.base.steering_angle(driven.steering))
        self._drive = command

    def twist(self, dt: float, steering: Array) -> Twist2 | None:
        """Return what to drive now, or None without a command.

        Args:
            dt: time since the last call [s].
            steering: measured steering angles [rad], shape (2,).
        """
        base, twist = self.base, self._twist
        if self._drive is not None:
            state = self._ramps.step(self._drive, dt)
            self.note = "; ".join(state.notes if dt > 0.0 else ())
            wished = base.twist_at(state.speed, state.steering_angle)
            twist = self._limits.within_velocity(wished)
            if twist.vx != wished.vx:
                # Were the ramp to run on beyond the limits, the car would be late to brake.
                self._ramps.start(twist.vx, self._ramps.steering_angle)
            base.aim = base.geometry.curvature(state.steering_angle)
        if twist is None or not self._slow or twist.vx == 0.0:
            return twist
        # A car that is slowed down to rest must still steer.
        base.aim = twist.wz / twist.vx
        return base.slowed(twist, steering)


def _check(numbers: dict[str, float]) -> None:
    for name, value in numbers.items():
        if not math.isfinite(value):
            raise InvalidCommand(f"{name} is {value}; it must be finite")
        if abs(value) > ABSURD_SPEED:
            raise InvalidCommand(
                f"{name} is {value:g}, beyond {ABSURD_SPEED:g}; a fault, not a wish"
            )


def _ramps(base: AckermannBase, limits: BaseLimits) -> AckermannDrive:
    """Return ramps that stop where the car's limits are."""
    top = limits.wheel_velocity
    return AckermannDrive(
        AckermannDriveConfig(
            geometry=base.geometry,
            max_wheel_velocity=top if math.isfinite(top) else 0.0,
            max_steering_angle=base.max_steering_angle,
        )
    )
