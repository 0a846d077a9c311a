# SPDX-License-Identifier: Apache-2.0
"""Drives a base: newest twist in, wheel speeds out, odometry from what the wheels did."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.bases.base import NO_STEERING, Array, BaseCommand, Twist2, WheeledBase
from motion_nodes.bases.limits import BaseLimits, TwistLimiter
from motion_nodes.bases.odometry import Odometry
from motion_nodes.errors import BadCommand, BadConfig

ABSURD_SPEED = 1e3
"""[m/s and rad/s] Beyond this a command is taken for a fault, not for a wish."""


@dataclass(frozen=True, kw_only=True)
class BaseControllerConfig:
    """How a base is driven."""

    limits: BaseLimits
    cmd_vel_timeout: float = 0.5
    """A command older than this [s] counts as a stop."""

    def __post_init__(self) -> None:
        """Check the timeout."""
        if not 0.0 < self.cmd_vel_timeout < float("inf"):
            raise BadConfig(
                f"cmd_vel_timeout is {self.cmd_vel_timeout} s; it must be finite and above 0"
            )


class BaseController:
    """The whole of a base's control but the messages."""

    def __init__(self, base: WheeledBase, config: BaseControllerConfig) -> None:
        """Begin standing at the odometry's origin."""
        self.base = base
        self.config = config
        self.limiter = TwistLimiter(config.limits)
        self.odometry = Odometry()
        self.wanted = Twist2()
        self._wanted_at = -float("inf")
        self.steering: Array = np.zeros(len(base.steering_names))
        """Steering angles commanded last [rad]."""
        self._wheels: Array | None = None
        self._unmeasured = 0.0

    def reconfigure(self, base: WheeledBase, config: BaseControllerConfig) -> None:
        """Take over another geometry or other limits; motion and odometry go on."""
        before = self.limiter.before
        self.base, self.config = base, config
        self.limiter = TwistLimiter(config.limits)
        self.limiter.before = before

    def command(self, twist: Twist2, now: float) -> None:
        """Take a new command.

        Args:
            twist: what to drive.
            now: time it was given [s].

        Raises:
            BadCommand: not finite, beyond :data:`ABSURD_SPEED`, or nothing that this base can
                drive; the last command stays.
        """
        if not twist.finite:
            raise BadCommand(f"twist (vx, vy, wz) = {tuple(twist)} is not finite; ignored")
        if max(map(abs, twist)) > ABSURD_SPEED:
            raise BadCommand(
                f"twist (vx, vy, wz) = {tuple(twist)} is beyond {ABSURD_SPEED:g} m/s or rad/s; "
                "ignored"
            )
        self.base.wheels_from_twist(twist)
        self.wanted, self._wanted_at = twist, now

    def command_age(self, now: float) -> float:
        """Seconds since the last command; infinite when there was none."""
        return now - self._wanted_at

    def halt(self) -> BaseCommand:
        """Stop at once, without ramps; the steering stays where it is."""
        self.wanted, self._wanted_at = Twist2(), -float("inf")
        self.limiter.reset()
        return BaseCommand(Twist2(), np.zeros(len(self.base.wheel_names)), self.steering)

    def step(self, now: float, dt: float) -> BaseCommand:
        """Return the twist to drive now, with its wheel speeds and steering angles.

        The limit of the wheels holds before the ramps as well as after them: were the ramps to
        run on beyond what the wheels can do, the base would be late to brake.

        Args:
            now: time, on the clock of :meth:`command` [s].
            dt: time since the last step [s]; unless it is above 0 nothing changes.
        """
        fresh = 0.0 <= self.command_age(now) <= self.config.cmd_vel_timeout
        wanted = self.limiter.within_velocity(self.wanted if fresh else Twist2())
        twist = self.limiter.step(self._within_wheels(wanted)[0], dt)
        if dt > 0.0:
            self.steering = self.base.steer(twist, self.steering, dt)
        twist = self.base.twist_along(twist, self.steering)
        self.limiter.before, wheels = self._within_wheels(twist)
        return BaseCommand(self.limiter.before, wheels, self.steering)

    def measure(self, wheels: Array, dt: float, steering: Array = NO_STEERING) -> None:
        """Take measured wheel angles [rad] and add the motion since the last ones to the odometry.

        Args:
            wheels: angles in the order of ``base.wheel_names``, shape (wheels,); when one is not
                finite the measurement is passed over, and its time counts for the next.
            dt: time between the two measurements [s].
            steering: measured steering angles [rad], shape (steering joints,).

        Raises:
            BadCommand: for an array of another length; nothing changes.
        """
        angles = np.array(wheels, dtype=np.float64)
        if angles.shape != (len(self.base.wheel_names),):
            raise BadCommand(
                f"{angles.size} wheel angles given; the base has {len(self.base.wheel_names)}"
            )
        if not (np.isfinite(angles).all() and np.isfinite(steering).all()):
            self._unmeasured += dt
            return
        if self._wheels is not None:
            path = self.base.twist_from_wheels(angles - self._wheels, steering)
            self.odometry.advance(path, self._unmeasured + dt)
        self._wheels, self._unmeasured = angles, 0.0

    def _within_wheels(self, twist: Twist2) -> tuple[Twist2, Array]:
        """Return the twist that the wheels can drive, and their speeds."""
        asked = self.base.wheels_from_twist(twist)
        wheels = self.limiter.wheels(asked)
        if np.array_equal(wheels, asked):
            return twist, asked
        return self.base.twist_from_wheels(wheels, self.steering), wheels

    def forget_wheels(self) -> None:
        """Begin measuring anew: the next angles are where the wheels are, not how far they went."""
        self._wheels, self._unmeasured = None, 0.0
        self.odometry.twist = Twist2()
