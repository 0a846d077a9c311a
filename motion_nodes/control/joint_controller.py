# SPDX-License-Identifier: Apache-2.0
"""The joints of one robot under command: targets in, limited references out."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.control.joint_command import CheckedCommand, JointCommand, check_command
from motion_nodes.errors import InvalidCommand, MotionError, UnknownJoint
from motion_nodes.model.limits import JointLimits
from motion_nodes.trajectory.joint_trajectory import TrajectorySample
from motion_nodes.trajectory.online_trajectory import OnlineLimiter

Array = NDArray[np.float64]

STREAM_GAP = 0.1
"""[s] For so long a position target that came with a velocity moves on at that velocity. A stream
of targets is followed smoothly when its period is shorter; when it ends, the joint comes to rest
at its last position target."""

_UNKNOWN_STATE = "the robot's state is not known yet; command it after it is"


class ControlMode(enum.Enum):
    """What the drive of a joint follows."""

    POSITION = "position"
    VELOCITY = "velocity"
    EFFORT = "effort"

    @classmethod
    def named(cls, name: str) -> ControlMode:
        """Return the mode of a name.

        Raises:
            InvalidCommand: lists the names there are.
        """
        try:
            return cls(name)
        except ValueError:
            allowed = ", ".join(mode.value for mode in cls)
            raise InvalidCommand(
                f"control mode '{name}' is not known. Available: {allowed}."
            ) from None


@dataclass(frozen=True, eq=False)
class JointReference:
    """What leaves for the drives: one value per joint and channel, NaN where there is none.

    A position joint has position and velocity, a velocity joint has a velocity, both with an
    acceleration for drives that compute what it takes; an effort joint has an effort.
    """

    positions: Array
    velocities: Array
    efforts: Array
    accelerations: Array


class ArticulationController:
    """Takes commands to joints, keeps their targets, and leads the reference there within limits.

    Before the first :meth:`reset` (the measured state) every command is refused. After it the
    joints hold where they are. A position target is approached under the joint's velocity,
    acceleration and jerk limits; a velocity target, cut to the velocity limit, under its
    acceleration and jerk limits, until a position limit; an effort is cut to the effort limit.
    A velocity beside a position makes it a moving target, see :data:`STREAM_GAP`.
    """

    def __init__(self, limits: JointLimits, modes: Mapping[str, ControlMode] | None = None) -> None:
        """Build over the joints that ``limits`` names, in that order.

        Args:
            limits: of every joint.
            modes: control mode by joint; position where none is given.

        Raises:
            UnknownJoint: ``modes`` names a joint that is not there.
        """
        self.limits = limits
        self.joint_names = limits.names
        for name in modes or {}:
            if name not in limits.names:
                raise UnknownJoint(name, limits.names, "this controller")
        self._modes = [(modes or {}).get(name, ControlMode.POSITION) for name in limits.names]
        n = len(limits.names)
        self._positions: Array = np.full(n, np.nan)
        self._velocities: Array = np.zeros(n)
        self._efforts: Array = np.zeros(n)
        self._limiter = OnlineLimiter(limits)
        self._age: Array = np.zeros(n)
        """Time since the last target of a joint's position or velocity [s]."""
        self._stopping = np.zeros(n, dtype=np.bool_)
        self._ready = False
        self._tracking = np.zeros(n, dtype=np.bool_)
        self._tracked = TrajectorySample(*(np.full(n, np.nan) for _ in range(3)))
        self._mask_modes()

    @property
    def ready(self) -> bool:
        """True once the measured state is known."""
        return self._ready

    @property
    def modes(self) -> dict[str, ControlMode]:
        """Control mode by joint."""
        return dict(zip(self.joint_names, self._modes, strict=True))

    @property
    def targets(self) -> JointReference:
        """Copies of the targets in force; a channel that its joint's mode does not use is NaN."""
        none = np.full(len(self.joint_names), np.nan)
        return self._by_mode(self._positions, self._velocities, self._efforts, none)

    def reset(self, measured: Array) -> None:
        """Forget all commands and hold the measured positions [rad or m], shape (n,).

        Raises:
            InvalidCommand: wrong length, or a position that is not finite; nothing changes.
        """
        try:
            position = np.asarray(measured, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidCommand(f"a measured state needs numbers: {error}") from error
        if position.shape != (len(self.joint_names),) or not np.isfinite(position).all():
            raise InvalidCommand(
                f"a measured state needs {len(self.joint_names)} finite positions, got {position}"
            )
        self._limiter.reset(position)
        self._positions[:] = np.clip(position, self.limits.lower, self.limits.upper)
        self._velocities[:] = 0.0
        self._efforts[:] = 0.0
        self._stopping[:] = False
        self._ready = True

    def apply(self, command: JointCommand) -> NDArray[np.intp]:
        """Take a command, whole or not at all.

        A position without a velocity means: arrive and stand there. Joints that :meth:`stop`
        brakes go on braking unless the command gives them a target.

        Returns:
            Indices of the joints that it gave a target.

        Raises:
            MotionError: before the first :meth:`reset`.
            InvalidCommand: see :func:`~motion_nodes.control.joint_command.check_command`; also a
                command to a channel that the joint's mode does not use.
            UnknownJoint: for a name that is not among the joints.
        """
        return self.take(self.check(command))

    def check(self, command: JointCommand) -> CheckedCommand:
        """Check a command as :meth:`apply` does, and change nothing.

        Raises:
            MotionError: see :meth:`apply`.
        """
        if not self._ready:
            raise MotionError(_UNKNOWN_STATE)
        checked = check_command(command, self.limits)
        self._check_modes(checked)
        return checked

    def take(self, checked: CheckedCommand) -> NDArray[np.intp]:
        """Apply a command that :meth:`check` returned; see :meth:`apply`."""
        for kept, new in (
            (self._positions, checked.positions),
            (self._velocities, checked.velocities),
            (self._efforts, checked.efforts),
        ):
            np.copyto(kept, new, where=~np.isnan(new))
        positioned, driven = ~np.isnan(checked.positions), ~np.isnan(checked.velocities)
        self._velocities[positioned & ~driven] = 0.0
        self._age[positioned | driven] = 0.0
        given = positioned | driven | ~np.isnan(checked.efforts)
        self._stopping[given] = False
        return np.flatnonzero(given)

    def set_limits(self, limits: JointLimits) -> None:
        """Take over other limits; what moves goes on from where it is, under the new ones.

        Raises:
            InvalidCommand: for limits of other joints; nothing changes.
        """
        if limits.names != self.joint_names:
            raise InvalidCommand(
                f"limits of {', '.join(limits.names)} given to a controller of "
                f"{', '.join(self.joint_names)}"
            )
        everything = np.arange(len(self.joint_names))
        present = self.reference(everything)
        self.limits = limits
        self._limiter = OnlineLimiter(limits)
        self._limiter.reset(present.position)
        self._limiter.put(np.ones(len(everything), dtype=np.bool_), present)
        np.copyto(self._positions, self._positions.clip(limits.lower, limits.upper))

    def track(self, joints: NDArray[np.intp], sample: TrajectorySample) -> None:
        """Have joints under position control be on a trajectory's sample after the next step.

        Where their limits do not let them, they are led after it. Counts for one step.

        Args:
            joints: indices of the joints, shape (k,).
            sample: where they shall be, of shape (k,).
        """
        for kept, new in zip(self._tracked, sample, strict=True):
            kept[joints] = new
        self._tracking[joints] = self._position[joints]
        self._positions[joints] = sample.position.clip(
            self.limits.lower[joints], self.limits.upper[joints]
        )
        self._velocities[joints] = sample.velocity
        self._age[joints] = 0.0
        self._stopping[joints] = False

    def reference(self, joints: NDArray[np.intp]) -> TrajectorySample:
        """Return where the reference of some joints is, copies of shape (k,)."""
        limiter = self._limiter
        return TrajectorySample(
            limiter.position[joints], limiter.velocity[joints], limiter.acceleration[joints]
        )

    def switch_mode(self, mode: ControlMode, joints: Sequence[str] | None = None) -> None:
        """Change the control mode of some joints (all where none are named).

        Their targets are forgotten: a joint at rest stays where it is, a moving one is braked.
        Under effort control it gets no effort until one is commanded.

        Raises:
            UnknownJoint: for a name that is not among the joints; nothing changes.
        """
        names = self.joint_names if joints is None else joints
        for name in names:
            if name not in self.joint_names:
                raise UnknownJoint(name, self.joint_names, "this controller")
        for name in names:
            i = self.joint_names.index(name)
            self._modes[i] = mode
            self._positions[i] = self._limiter.position[i]
            self._velocities[i] = 0.0
            self._efforts[i] = 0.0
            self._stopping[i] = mode is ControlMode.POSITION
        self._mask_modes()

    def stop(self, joints: NDArray[np.intp] | None = None) -> None:
        """Bring joints (all where none are given) to rest as fast as they may, and hold there."""
        chosen = slice(None) if joints is None else joints
        self._velocities[chosen] = 0.0
        self._efforts[chosen] = 0.0
        self._stopping[chosen] = True

    def lead_back(self, joints: NDArray[np.intp], positions: Array) -> None:
        """Bring the reference of joints under position control to positions, within the limits.

        Args:
            joints: indices; those under another control come to rest.
            positions: of all joints [rad or m], shape (n,).
        """
        chosen = joints[self._position[joints]]
        limits = self.limits
        clipped = positions.clip(limits.lower, limits.upper)
        self._positions[chosen] = clipped[chosen]
        self._velocities[chosen] = 0.0
        self._stopping[chosen] = False

    @property
    def positioned(self) -> NDArray[np.bool_]:
        """Which joints are under position control, shape (n,)."""
        return self._position

    @property
    def moving(self) -> bool:
        """True while the reference moves."""
        return bool(np.any(self._limiter.velocity != 0.0))

    def step(self, dt: float, measured: Array | None = None) -> JointReference:
        """Advance by ``dt`` [s] and return what the drives shall follow.

        Args:
            dt: time since the last step [s]; nothing moves unless it is finite and above 0.
            measured: positions [rad or m], shape (n,): the reference of joints that are not under
                position control follows them, NaN where unknown.

        Raises:
            MotionError: before the first :meth:`reset`.
        """
        if not self._ready:
            raise MotionError(_UNKNOWN_STATE)
        if measured is not None and self._velocity_led.any():
            self._limiter.follow(self._velocity_led, measured)
        by_velocity = self._velocity_led | self._stopping
        on_way = self._limiter.reachable(self._tracking, self._tracked, dt)
        goals = self._moved_targets(dt)
        resting = self._limiter.resting(by_velocity, goals, self._velocities)
        if not (on_way | resting).all():
            # What is on its way is overwritten below; the others are led there.
            self._limiter.step(by_velocity, goals, self._velocities, dt)
        if on_way.any():
            self._limiter.put(on_way, self._tracked)
        self._tracking[:] = False
        self._end_stops()
        efforts = self._efforts.clip(-self.limits.effort, self.limits.effort)
        limiter = self._limiter
        return self._by_mode(limiter.position, limiter.velocity, efforts, limiter.acceleration)

    def _moved_targets(self, dt: float) -> Array:
        """Return where position targets are at the end of this step; ends those that lapsed."""
        if not self._velocities.any() or not 0.0 < dt < math.inf:
            return self._positions
        self._age += dt
        self._velocities[self._position & (self._age > STREAM_GAP)] = 0.0
        ahead = np.where(self._position, self._velocities * self._age, 0.0)
        return np.asarray(self._positions + ahead)

    def _end_stops(self) -> None:
        """Let joints that have been braked to rest hold there."""
        still = self._stopping & (self._limiter.velocity == 0.0)
        if still.any():
            held = self._limiter.position.clip(self.limits.lower, self.limits.upper)
            np.copyto(self._positions, held, where=still)
            self._stopping[still] = False

    def _mask_modes(self) -> None:
        self._position = np.array([m is ControlMode.POSITION for m in self._modes])
        self._effort = np.array([m is ControlMode.EFFORT for m in self._modes])
        self._velocity_led = ~self._position

    def _by_mode(
        self, positions: Array, velocities: Array, efforts: Array, accelerations: Array
    ) -> JointReference:
        return JointReference(
            np.where(self._position, positions, np.nan),
            np.where(self._effort, np.nan, velocities),
            np.where(self._effort, efforts, np.nan),
            np.where(self._effort, np.nan, accelerations),
        )

    def _check_modes(self, checked: CheckedCommand) -> None:
        rules = (
            (checked.positions, ~self._position, "a position"),
            (checked.velocities, self._effort, "a velocity"),
            (checked.efforts, ~self._effort, "an effort"),
        )
        for values, unfit, what in rules:
            wrong = ~np.isnan(values) & unfit
            if wrong.any():
                i = int(np.argmax(wrong))
                raise InvalidCommand(
                    f"joint {self.joint_names[i]} is given {what}, but is under "
                    f"{self._modes[i].value} control; switch its mode first"
                )
