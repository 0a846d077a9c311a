# SPDX-License-Identifier: Apache-2.0
"""Base controller: commanded twist in, wheel velocities out, odometry from measured wheels.

Odometry integrates the wheels' displacements between measurements; with redundant wheels, slip is
detected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from motion_nodes.core.bases.base import NO_STEERING, BaseCommand, BaseLimits, Twist2, WheeledBase
from motion_nodes.core.bases.odometry import Odometry, OdometryConfig
from motion_nodes.core.bases.twist_limiter import CommandShape, SteeredLimiter, TwistLimiter
from motion_nodes.core.robot.bounds import max_plausible_step
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.settings import check_settings, setting
from motion_nodes.tolerances import RATIO_ROUNDING
from motion_nodes.typing import Array

ABSURD_SPEED = 1e3
"""[m/s and rad/s] Commands beyond this are rejected as implausible."""


class WheelMotion:
    """Differences of measured wheel angles, or integrals of measured wheel velocities."""

    def __init__(self, max_velocity: Array) -> None:
        """Create without a measurement.

        Args:
            max_velocity: max velocity of the wheels [rad/s], shape (wheels,); may be infinite.
        """
        self.max_velocity = max_velocity
        self.jumps = 0
        """Number of implausible displacements that were rejected."""
        self.forget()

    def forget(self) -> None:
        """Reset: the next measurement is the new reference, without motion."""
        self._wheels: Array | None = None
        self._steering: Array = NO_STEERING
        self._passed_over = 0.0

    @property
    def begun(self) -> bool:
        """True if there is a reference measurement."""
        return self._wheels is not None

    def since_last(
        self, wheels: Array, steering: Array, dt: float, by_angle: bool
    ) -> tuple[Array, Array, float] | None:
        """Return wheel displacements, mean steering angles, and the elapsed time.

        Args:
            wheels: angles [rad], or velocities [rad/s], shape (wheels,).
            steering: angles [rad], shape (steering joints,).
            dt: time since the last measurement [s].
            by_angle: whether ``wheels`` are angles.

        Returns:
            Shapes (wheels,) [rad], (steering joints,) [rad], and [s]. None for the first
            measurement, for one that is not finite (its time is added to the next), and for one
            that is unreachable, as after a reset of encoders: it becomes the new reference.
        """
        if not (np.isfinite(wheels).all() and np.isfinite(steering).all()):
            self._passed_over += dt
            return None
        last, self._wheels = self._wheels, np.array(wheels, dtype=np.float64)
        between, self._steering = self._steering, np.array(steering, dtype=np.float64)
        if last is None:
            self._passed_over = 0.0
            return None
        dt, self._passed_over = dt + self._passed_over, 0.0
        turned = self._wheels - last if by_angle else 0.5 * (self._wheels + last) * dt
        if (np.abs(turned) > max_plausible_step(self.max_velocity, dt)).any():
            self.jumps += 1
            return None
        return turned, 0.5 * (between + self._steering), dt


def max_wheel_velocity(base: WheeledBase, limits: BaseLimits) -> Array:
    """Return the max velocity of each wheel [rad/s], shape (wheels,), by the limits of a base.

    The limit of the wheels if there is one, else the velocity at the limits of the body; infinite
    where neither is set.
    """
    wheels = len(base.wheel_names)
    if np.isfinite(limits.wheel_velocity):
        return np.full(wheels, limits.wheel_velocity)
    total: Array = np.zeros(wheels)
    for axis, unit in zip(limits.axes, np.eye(3), strict=True):
        # Zero along an axis that the base cannot drive by itself, such as the yaw of a car.
        share = np.abs(base.wheels_from_twist(base.nearest_twist(Twist2(*unit))))
        used = share > 0.0
        total[used] += share[used] * max(axis.forward, axis.backward)
    return total


class SlipWatch:
    """Lower bound of the slip velocity, from the consistency of the wheels.

    The least squares twist of all wheels predicts each wheel; the residual, times its radius, is a
    slip velocity. Without redundant wheels there is no residual, and slip is not observable.
    """

    def __init__(self, base: WheeledBase) -> None:
        self._base = base
        self._radii = base.wheel_radii
        self._rest: Array | None = None
        self._blind = False
        if not base.steering_names:
            forward = np.array([base.twist_from_wheels(e) for e in np.eye(len(base.wheel_names))]).T
            # Uses forward kinematics only, because not every solver is its inverse.
            self._rest = np.eye(len(base.wheel_names)) - np.linalg.pinv(forward) @ forward
            self._blind = bool(np.allclose(self._rest, 0.0, atol=1e-9))
        self.forget()

    def forget(self) -> None:
        """Reset."""
        self.speed = 0.0
        """Newest slip velocity of the wheel with the max slip [m/s]."""
        self.wheel = ""
        """Name of that wheel."""
        self.worst = 0.0
        """Max since :meth:`take_worst` [m/s]."""

    def update(self, turned: Array, steering: Array, dt: float) -> None:
        """Update with wheel rotations [rad], shape (wheels,), in ``dt`` [s]."""
        if self._blind or not dt > 0.0:
            return
        if self._rest is None:
            twist = self._base.twist_from_wheels(turned, steering)
            left = turned - self._base.wheels_from_twist(twist)
        else:
            left = self._rest @ turned
        slid = abs(left * self._radii) / dt
        most = int(slid.argmax())
        self.speed, self.wheel = float(slid[most]), self._base.wheel_names[most]
        self.worst = max(self.worst, self.speed)

    def take_worst(self) -> float:
        """Return the max slip velocity [m/s] since the last call."""
        worst, self.worst = self.worst, 0.0
        return worst


@dataclass(frozen=True, kw_only=True)
class BaseControllerConfig:
    """Settings of a base controller.

    Raises:
        InvalidConfig: a timeout that is not finite, or negative.
    """

    limits: BaseLimits
    shape: CommandShape = field(default_factory=CommandShape)
    """Gains and velocity limits applied to each command first."""
    cmd_vel_timeout: float = setting(
        0.5,
        doc="Commands older than this are treated as a stop command. 0: a command is valid until "
        "the next one, so a base whose client is lost drives on.",
        unit="s",
        ge=0.0,
        le=60.0,
    )
    open_loop: bool = setting(
        False,
        doc="Compute odometry by integrating the limited commands instead of joint_states, which "
        "are then not required.",
    )
    position_feedback: bool = setting(
        True,
        doc="Compute odometry from measured wheel positions (true) or wheel velocities (false).",
    )
    deadband_velocity: tuple[float, ...] = setting(
        (0.0, 0.0, 0.0),
        doc="Speeds of the base along x, along y and about z below which it is commanded to stand "
        "still, as Nav2's velocity smoother does.",
        unit="m/s, m/s, rad/s",
        ge=0.0,
        le=100.0,
    )
    odometry: OdometryConfig = field(default_factory=OdometryConfig)

    def __post_init__(self) -> None:
        check_settings(self)
        if len(self.deadband_velocity) != len(Twist2()):
            raise InvalidConfig(
                f"deadband_velocity has {len(self.deadband_velocity)} entries; it needs 3: x, y "
                "and yaw",
                field="deadband_velocity",
            )

    @property
    def command_timeout(self) -> float:
        """Time for which a command is valid [s]; infinite without a timeout."""
        return self.cmd_vel_timeout or math.inf


class BaseController:
    """Control of a wheeled base: twist commands to limited wheel velocities, and odometry."""

    def __init__(self, base: WheeledBase, config: BaseControllerConfig) -> None:
        """Start at rest at the odometry's origin.

        Args:
            base: kinematics.
            config: limits, timeouts and odometry.
        """
        self.base, self.config = base, config
        self.odometry = Odometry(config.odometry)
        """Pose and velocity from wheel measurements; from commands with ``open_loop``."""
        self.slip = SlipWatch(base)
        """Detection of wheel slip from redundant measurements."""
        self.desired = Twist2()
        """The feasible part of the newest command."""
        self.not_driven = ""
        """The infeasible part of the newest command, as text."""
        self.expired = False
        """Whether the newest command has exceeded its timeout."""
        self._desired_at = -float("inf")
        self.driven = BaseCommand(
            Twist2(), np.zeros(len(base.wheel_names)), np.zeros(len(base.steering_names))
        )
        """The last output."""
        self._motion = WheelMotion(max_wheel_velocity(base, config.limits))
        self._stepped_at: float | None = None
        self._ramps = self._new_ramps()

    def reconfigure(self, base: WheeledBase, config: BaseControllerConfig) -> None:
        """Replace geometry or limits; motion and odometry continue.

        Args:
            base: kinematics.
            config: limits and timeouts.
        """
        before, self.base, self.config = self.config, base, config
        self.odometry.config = config.odometry
        self.slip = SlipWatch(base)
        self._motion.max_velocity = max_wheel_velocity(base, config.limits)
        if config.position_feedback != before.position_feedback:
            self._motion.forget()
        if config.limits != before.limits or base.steering_names:
            self._ramps = self._new_ramps()
            self._ramps.start(base.nearest_twist(self.driven.twist))

    def command(self, twist: Twist2, given: float) -> None:
        """Accept a new command; its infeasible part is dropped.

        Args:
            twist: the command.
            given: time of the command [s]; one older than the last command is ignored.

        Raises:
            InvalidCommand: not finite, or beyond :data:`ABSURD_SPEED`; the previous command stays.
        """
        if not twist.finite:
            raise InvalidCommand(
                f"twist (vx, vy, wz) = {tuple(twist)} is not finite", field="twist"
            )
        if max(map(abs, twist)) > ABSURD_SPEED:
            raise InvalidCommand(
                f"twist (vx, vy, wz) = {tuple(twist)} is beyond {ABSURD_SPEED:g} m/s or rad/s",
                field="twist",
            )
        if given < self._desired_at:
            return
        twist = self.config.shape.shaped(twist)
        self.desired, self._desired_at = self.base.nearest_twist(twist), given
        self.expired = False
        self.not_driven = _difference(twist, self.desired)

    def command_age(self, now: float) -> float:
        """Return the age of the last command [s]; infinite without a command.

        Args:
            now: current time on the clock of :meth:`command` [s].
        """
        return now - self._desired_at

    def brake(self) -> None:
        """Clear the command: the next steps brake the base within its limits."""
        self.desired, self._desired_at, self.not_driven = Twist2(), -float("inf"), ""

    def halt(self) -> BaseCommand:
        """Return the command that stops the base immediately; steering angles are kept."""
        self.brake()
        self._ramps.start(Twist2())
        self.driven = BaseCommand(
            Twist2(), np.zeros(len(self.base.wheel_names)), self.driven.steering
        )
        return self.driven

    def step(self, now: float, dt: float) -> BaseCommand:
        """Compute the next output.

        The wheel limit is applied before and after the ramps: ramps beyond the limits of the wheels
        would delay braking.

        Args:
            now: current time on the clock of :meth:`command` [s].
            dt: time since the last step [s]; if not above 0, nothing changes.

        Returns:
            Twist in the base frame [m/s, rad/s], wheel velocities [rad/s], shape (wheels,), and
            steering angles [rad], shape (steering joints,).
        """
        self._add_commanded(now)
        if not dt > 0.0:
            return self.driven
        age = self.command_age(now)
        if age > self.config.command_timeout:
            # Expired for good: a longer timeout does not revive it.
            self.desired, self.not_driven, self.expired = Twist2(), "", True
        desired = self.config.limits.within_velocity(self.desired if age >= 0.0 else Twist2())
        # The limits of an axis, or a new geometry, may leave an infeasible lateral velocity.
        desired = self._within_wheels(self.base.nearest_twist(desired))[0]
        if isinstance(self._ramps, SteeredLimiter):
            self.driven = self._ramps.step(desired, self.driven.steering, dt)
            if self._stands(self.driven.twist)[0]:
                wheels = np.zeros_like(self.driven.wheels)
                self.driven = BaseCommand(Twist2(), wheels, self.driven.steering)
            return self.driven
        twist, wheels = self._within_wheels(self._ramps.step(desired, dt), dt)
        if twist != self._ramps.before:
            self._ramps.start(twist)
        stands = self._stands(twist)
        if any(stands):
            twist = Twist2(*(0.0 if still else v for v, still in zip(twist, stands, strict=True)))
            wheels = self._within_wheels(twist)[1]
        self.driven = BaseCommand(twist, wheels, NO_STEERING)
        return self.driven

    def _stands(self, twist: Twist2) -> list[bool]:
        """Return along and about which axes a twist is within the dead band."""
        bands = self.config.deadband_velocity
        return [abs(v) < band for v, band in zip(twist, bands, strict=True)]

    def measure(self, wheels: Array, dt: float, steering: Array = NO_STEERING) -> None:
        """Process a wheel measurement, and add the motion since the last one to the odometry.

        Args:
            wheels: angles [rad], or velocities [rad/s] without ``position_feedback``, in the order
                of ``base.wheel_names``, shape (wheels,); a measurement that is not finite is
                ignored, and its time is added to the next. A measurement that is unreachable within
                the limits of the wheels becomes the new reference, without motion.
            dt: time between the two measurements [s].
            steering: measured steering angles [rad], shape (steering joints,).

        Raises:
            InvalidCommand: wrong length; nothing changes.
        """
        for array, names, what in (
            (wheels, self.base.wheel_names, "wheel values"),
            (steering, self.base.steering_names, "steering angles"),
        ):
            if array.shape != (len(names),):
                raise InvalidCommand(
                    f"{array.size} {what} given; the base has {len(names)}", field=what
                )
        if not self._motion.begun and np.isfinite(steering).all():
            # Only commands move the steering.
            self.driven = self.driven._replace(steering=np.array(steering))
        step = self._motion.since_last(wheels, steering, dt, self.config.position_feedback)
        if step is None:
            return
        turned, steering, dt = step
        self.slip.update(turned, steering, dt)
        if not self.config.open_loop:
            self.odometry.advance(self.base.twist_from_wheels(turned, steering), dt)

    @property
    def wheel_jumps(self) -> int:
        """Number of measurements that were unreachable within the limits of the wheels."""
        return self._motion.jumps

    def forget_wheels(self) -> None:
        """Reset the measurement: the next angles are the new reference, without motion."""
        self._motion.forget()
        self.slip.forget()
        self.odometry.rest()
        self._stepped_at = None

    def _new_ramps(self) -> TwistLimiter | SteeredLimiter:
        limits = self.config.limits
        if self.base.steering_names:
            return SteeredLimiter(limits, self.base)
        clip = limits.clip_wheels
        return TwistLimiter(
            limits, None if clip else lambda rate: self.base.wheels_from_twist(rate)
        )

    def _add_commanded(self, now: float) -> None:
        last, self._stepped_at = self._stepped_at, now
        if self.config.open_loop and last is not None and now > last:
            self.odometry.advance(self.driven.twist.scaled(now - last), now - last)

    def _within_wheels(self, twist: Twist2, dt: float | None = None) -> tuple[Twist2, Array]:
        """Return the twist within the wheel limits, and the wheel velocities.

        Args:
            twist: the commanded twist.
            dt: duration in which it must be reached, for acceleration limits [s]; None: unlimited.
        """
        limits, wheels = self.config.limits, self.base.wheels_from_twist(twist)
        top = limits.wheel_velocity
        if not limits.clip_wheels or self.base.steering_names:
            if math.isinf(top):
                return twist, wheels
            fastest = float(abs(wheels).max(initial=0.0))
            if fastest <= top * (1.0 + RATIO_ROUNDING):
                return twist, wheels.clip(-top, top)
            return twist.scaled(top / fastest), (wheels * (top / fastest)).clip(-top, top)
        clipped = wheels.clip(-top, top)
        if dt is not None:
            change = limits.wheel_acceleration * dt
            clipped = clipped.clip(self.driven.wheels - change, self.driven.wheels + change)
        if np.array_equal(clipped, wheels):
            return twist, wheels
        return self.base.twist_from_wheels(clipped), clipped


def _difference(requested: Twist2, driven: Twist2) -> str:
    """Return which part of a twist is infeasible, as text; empty if none.

    A lateral velocity that was not commanded results from a base frame off the unsteered axle.
    """
    parts = [
        f"{name} {a:.3g} as {d:.3g} {unit}"
        for name, a, d, unit in zip(
            Twist2._fields, requested, driven, ("m/s", "m/s", "rad/s"), strict=True
        )
        if abs(a - d) > RATIO_ROUNDING * max(1.0, abs(a)) and not (name == "vy" and a == 0.0)
    ]
    return ", ".join(parts)
