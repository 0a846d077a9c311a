# SPDX-License-Identifier: Apache-2.0
"""Joint controller of one robot: targets in, limited references out, by control mode."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.control.joint_command import (
    CheckedCommand,
    ControlMode,
    JointCommand,
    JointReference,
    check_command,
    no_values,
)
from motion_nodes.core.robot.bounds import JOINT_POSITION
from motion_nodes.core.robot.limits import JointLimits, nearest_turn
from motion_nodes.core.trajectory.joint_trajectory import TrajectorySample
from motion_nodes.core.trajectory.online_trajectory import OnlineLimiter
from motion_nodes.errors import InvalidCommand, MotionError, UnknownJoint
from motion_nodes.kernels.cycle_code import cycle_function, zeros
from motion_nodes.tolerances import LIMIT_ROUNDING
from motion_nodes.typing import Array, Mask

STREAM_GAP = 0.1
"""[s] Timeout of the velocity of a position target. A stream with a shorter period is followed
smoothly; when it ends, the joint stops at its last position target."""
_FARTHEST = JOINT_POSITION.max
_UNKNOWN_STATE = "the robot's state is not known yet; command it after it is"


class JointModes:
    """Control mode of each joint, and the channels that it uses."""

    def __init__(self, names: Sequence[str], modes: Mapping[str, ControlMode]) -> None:
        """Create the modes of joints.

        Args:
            names: names of the joints.
            modes: control mode by joint; default: position.

        Raises:
            UnknownJoint: ``modes`` names an unknown joint.
        """
        self._names = tuple(names)
        self._modes = [ControlMode.POSITION] * len(names)
        self.position: Mask
        """Joints under position control, shape (n,)."""
        self.effort: Mask
        """Joints under effort control, shape (n,)."""
        self.not_position: Mask
        """Joints that are not under position control, shape (n,)."""
        self.all_position = True
        """Whether all joints are under position control."""
        self._set_masks()
        for name, mode in modes.items():
            self.switch(mode, self.indices([name]))

    def indices(self, names: Sequence[str]) -> list[int]:
        """Return the indices of joints.

        Raises:
            UnknownJoint: a name that is not among the joints.
        """
        for name in names:
            if name not in self._names:
                raise UnknownJoint(name, self._names, "this controller")
        return [self._names.index(name) for name in names]

    def switch(self, mode: ControlMode, joints: Sequence[int]) -> None:
        """Set the mode of joints by index."""
        for i in joints:
            self._modes[i] = mode
        self._set_masks()

    def by_name(self) -> dict[str, ControlMode]:
        """Return the control mode by joint."""
        return dict(zip(self._names, self._modes, strict=True))

    def reference(
        self, positions: Array, velocities: Array, efforts: Array, accelerations: Array
    ) -> JointReference:
        """Return values as a reference, NaN in channels that a mode does not use; may keep arrays.

        Args:
            positions: of all joints [rad or m], shape (n,).
            velocities: [rad/s or m/s], shape (n,).
            efforts: [N m or N], shape (n,).
            accelerations: [rad/s^2 or m/s^2], shape (n,).
        """
        if self.all_position:
            none = no_values(len(self._names)).copy()
            return JointReference(positions, velocities, none, accelerations)
        return JointReference(
            np.where(self.position, positions, np.nan),
            np.where(self.effort, np.nan, velocities),
            np.where(self.effort, efforts, np.nan),
            np.where(self.effort, np.nan, accelerations),
        )

    def check(self, checked: CheckedCommand) -> None:
        """Reject a command to a channel that a joint's control mode does not use.

        Raises:
            InvalidCommand: names the first such joint.
        """
        if self.all_position and checked.efforts is no_values(len(self._names)):
            return
        channels = (
            (checked.positions, self.not_position, "a position"),
            (checked.velocities, self.effort, "a velocity"),
            (checked.efforts, ~self.effort, "an effort"),
        )
        for values, unused, what in channels:
            if values is no_values(len(values)):
                continue
            wrong = unused & ~np.isnan(values)
            if np.count_nonzero(wrong):
                i = int(np.argmax(wrong))
                raise InvalidCommand(
                    f"joint {self._names[i]} is given {what}, but is under "
                    f"{self._modes[i].value} control; switch its mode first",
                    field=self._names[i],
                )

    def require_position(self, names: Sequence[str], rule: str) -> None:
        """Check that joints are under position control.

        Args:
            names: their names.
            rule: what requires it, for the error.

        Raises:
            InvalidCommand: names the first joint that is not.
            UnknownJoint: a name that is not among the joints.
        """
        for i in self.indices(names):
            if self._modes[i] is not ControlMode.POSITION:
                raise InvalidCommand(
                    f"joint {self._names[i]} is under {self._modes[i].value} control; {rule}",
                    field=self._names[i],
                )

    def _set_masks(self) -> None:
        self.position = np.array([mode is ControlMode.POSITION for mode in self._modes])
        self.effort = np.array([mode is ControlMode.EFFORT for mode in self._modes])
        self.not_position = ~self.position
        self.all_position = bool(self.position.all())


class TargetState(NamedTuple):
    """Targets of n joints, arrays of shape (n,), and positions to be taken."""

    positions: Array
    """Targets [rad or m]."""
    velocities: Array
    """Target velocities [rad/s or m/s]."""
    age: Array
    """Time since the last target of a joint's position or velocity [s]."""
    stopping: Mask
    """Joints that brake."""
    by_position: Mask
    """Joints under position control."""
    continuous: Mask
    """Continuous joints."""
    lower: Array
    upper: Array
    """Limits [rad or m]."""
    reference: Array
    """Reference positions [rad or m]."""
    given: Array
    """Positions to be taken [rad or m]; NaN for joints that keep their targets."""

    @classmethod
    def of(cls, n: int) -> TargetState:
        """Return the memory of n joints without targets."""
        return zeros(cls, n, ("stopping", "by_position", "continuous"))


@cycle_function(TargetState.of(1))
def _take_positions(s: TargetState) -> int:
    """Take position targets at rest that are within all limits: the usual message of a stream.

    Returns:
        1 if they were taken; 0 if :func:`check_command` has to say why not, and nothing changed.
    """
    for j in range(len(s.given)):
        q = s.given[j]
        # Comparisons with NaN are false, so joints without a value pass.
        if abs(q - min(max(q, s.lower[j]), s.upper[j])) > LIMIT_ROUNDING:
            return 0
        if abs(q) > _FARTHEST or (q == q and not s.by_position[j]):
            return 0
    for j in range(len(s.given)):
        q = min(max(s.given[j], s.lower[j]), s.upper[j])
        if s.given[j] != s.given[j]:
            continue
        if s.continuous[j]:
            # The short way from the last target, so that a stream may lead its joints.
            q = nearest_turn(q, s.reference[j] if s.stopping[j] else s.positions[j])
        s.positions[j], s.velocities[j], s.age[j], s.stopping[j] = q, 0.0, 0.0, False
    return 1


class ArticulationController:
    """Accepts joint commands, and moves the reference to their targets within limits.

    Before the first :meth:`reset` (the measured state) every command is rejected; after it the
    joints hold their positions. A position target is approached within the joint's velocity,
    acceleration and jerk limits; a velocity target, clamped to the velocity limit, within its
    acceleration and jerk limits, up to a position limit; an effort is clamped to the effort limit.
    A position with a velocity is a moving target, see :data:`STREAM_GAP`.
    """

    def __init__(self, limits: JointLimits, modes: Mapping[str, ControlMode] | None = None) -> None:
        """Create a controller of the joints in ``limits``, in that order.

        Args:
            limits: limits of the joints.
            modes: control mode by joint; default: position.

        Raises:
            UnknownJoint: ``modes`` names an unknown joint.
        """
        self.limits = limits
        self.joint_names = limits.names
        self.joint_modes = JointModes(limits.names, modes or {})
        """Control modes of the joints; :meth:`switch_mode` changes them."""
        n = len(limits.names)
        self.limiter = OnlineLimiter(limits)
        """Moves the references of joints under position or velocity control."""
        self._target = TargetState.of(n)
        self._positions, self._velocities = self._target.positions, self._target.velocities
        self._age, self._stopping = self._target.age, self._target.stopping
        self._positions[:] = np.nan
        self._bind()
        self._efforts: Array = np.zeros(n)
        self._ready = False
        self._tracking = np.zeros(n, dtype=np.bool_)
        self._tracks = False
        """Whether a joint follows a sample in the next step."""
        self._tracked = TrajectorySample(*(np.full(n, np.nan) for _ in range(3)))
        self._forward: Array | None = None
        """Feed-forward efforts of joints that follow a sample in the next step."""
        self._compliant = np.zeros(n, dtype=np.bool_)
        """Joints under position control that receive efforts until :meth:`end_compliance`."""
        self._moved = np.zeros(n)
        """Measured velocities of these joints."""
        self.still: JointReference | None = None
        """The reference while all joints rest under position control; None after any change."""

    @property
    def ready(self) -> bool:
        """True once the measured state is known."""
        return self._ready

    @property
    def modes(self) -> dict[str, ControlMode]:
        """Control mode by joint."""
        return self.joint_modes.by_name()

    @property
    def targets(self) -> JointReference:
        """Copies of the active targets; NaN in channels that the mode of a joint does not use."""
        position, velocity = self._positions.copy(), self._velocities.copy()
        none = no_values(len(position)).copy()
        return self.joint_modes.reference(position, velocity, self._efforts, none)

    def reset(self, measured: Array) -> None:
        """Clear all commands and hold the measured positions [rad or m], shape (n,).

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
        self.still = None
        self.limiter.reset(position)
        # Also outside of the limits: nothing moves by itself.
        self._positions[:] = position
        self._velocities[:] = 0.0
        self._efforts[:] = 0.0
        self._stopping[:] = self._compliant[:] = False
        self._ready = True

    def apply(self, command: JointCommand) -> NDArray[np.intp]:
        """Apply a command; an invalid command is rejected as a whole.

        A position without a velocity is a target at rest. Joints stopped by :meth:`stop` continue
        to brake unless the command contains a target for them.

        Returns:
            Indices of the joints with a new target.

        Raises:
            MotionError: before the first :meth:`reset`.
            InvalidCommand: see :func:`~motion_nodes.core.control.joint_command.check_command`; also
                a command to a channel that the joint's mode does not use.
            UnknownJoint: a name that is not among the joints.
        """
        return self.take(self.check(command))

    def check(self, command: JointCommand) -> CheckedCommand:
        """Validate a command as :meth:`apply` does, without changes.

        Raises:
            MotionError: see :meth:`apply`.
        """
        if not self._ready:
            raise MotionError(_UNKNOWN_STATE)
        checked = check_command(command, self.limits)
        self.joint_modes.check(checked)
        return checked

    def take(self, checked: CheckedCommand) -> NDArray[np.intp]:
        """Apply a command that :meth:`check` returned; see :meth:`apply`."""
        self.still, none, given = None, no_values(len(self.joint_names)), checked.given
        positions, velocities, efforts = checked.channels
        if positions is not none:
            # The short way from the last target, so that a stream may lead its joints.
            last = np.where(self._stopping, self.limiter.position, self._positions)
            positions = self.limits.turns.nearest(positions, last)
            positioned = ~np.isnan(positions)
            np.copyto(self._positions, positions, where=positioned)
            self._velocities[positioned] = 0.0
        if velocities is not none:
            np.copyto(self._velocities, velocities, where=~np.isnan(velocities))
        if efforts is not none:
            np.copyto(self._efforts, efforts, where=~np.isnan(efforts))
        self._age[given] = 0.0
        self._stopping[given] = False
        return given.nonzero()[0]

    def take_positions(self, positions: Array, joints: NDArray[np.intp]) -> bool:
        """Take position targets of joints as :meth:`apply` does, if nothing speaks against them.

        Args:
            positions: [rad or m], shape (k,).
            joints: indices, shape (k,).

        Returns:
            Whether they were taken; False: nothing changed, :meth:`apply` says why.
        """
        given = self._target.given
        given.fill(np.nan)
        given[joints] = positions
        if not self._ready or not self._take_positions():
            return False
        self.still = None
        return True

    def set_limits(self, limits: JointLimits) -> None:
        """Replace the limits; active motions continue under the new ones.

        A joint that is outside of them stays there until it is commanded: limits are no command.

        Raises:
            InvalidCommand: limits of other joints; nothing changes.
        """
        if limits.names != self.joint_names:
            raise InvalidCommand(
                f"limits of {', '.join(limits.names)} given to a controller of "
                f"{', '.join(self.joint_names)}"
            )
        self.still = None
        present = self.reference(np.arange(len(self.joint_names)))
        self.limits, self.limiter = limits, OnlineLimiter(limits)
        self.limiter.reset(present.position)
        self.limiter.set_state(np.ones(len(limits.names), dtype=np.bool_), present)
        self._bind()
        lower, upper = limits.lower, limits.upper
        here = present.position
        np.clip(self._positions, np.fmin(lower, here), np.fmax(upper, here), out=self._positions)

    def track(
        self, joints: NDArray[np.intp], sample: TrajectorySample, efforts: Array | None = None
    ) -> None:
        """Set joints under position control to a trajectory sample after the next step.

        If the limits prevent this, the joints follow with a lag. Valid for one step.

        Args:
            joints: indices of the joints, shape (k,).
            sample: their references, shape (k,).
            efforts: their feed-forward efforts [N m or N], shape (k,); None: none.
        """
        self.still = None
        if efforts is not None:
            limit = self.limits.effort[joints]
            if self._forward is None:
                self._forward = np.full(len(self.joint_names), np.nan)
            self._forward[joints] = efforts.clip(-limit, limit)
        for kept, new in zip(self._tracked, sample, strict=True):
            kept[joints] = new
        self._tracking[joints] = self.joint_modes.position[joints]
        self._tracks = True
        self._positions[joints] = sample.position.clip(
            self.limits.lower[joints], self.limits.upper[joints]
        )
        self._velocities[joints] = sample.velocity
        self._age[joints] = 0.0
        self._stopping[joints] = False

    def reference(self, joints: NDArray[np.intp]) -> TrajectorySample:
        """Return the reference of some joints, copies of shape (k,)."""
        limiter = self.limiter
        return TrajectorySample(
            limiter.position[joints], limiter.velocity[joints], limiter.acceleration[joints]
        )

    def switch_mode(self, mode: ControlMode, joints: Sequence[str] | None = None) -> None:
        """Change the control mode of some joints (default: all).

        Their targets are cleared: a joint at rest holds its position, a moving joint stops. In
        effort mode the effort is zero until one is commanded.

        Args:
            mode: the new mode.
            joints: names of joints.

        Raises:
            UnknownJoint: a name that is not among the joints; nothing changes.
        """
        chosen = self.joint_modes.indices(self.joint_names if joints is None else joints)
        self.joint_modes.switch(mode, chosen)
        self._target.by_position[:] = self.joint_modes.position
        self.still = None
        self._positions[chosen] = self.limiter.position[chosen]
        self._velocities[chosen] = 0.0
        self._efforts[chosen] = 0.0
        self._stopping[chosen] = mode is ControlMode.POSITION

    def stop(self, joints: NDArray[np.intp] | None = None) -> None:
        """Stop joints (default: all) within their limits, and hold their positions."""
        self.still = None
        chosen = slice(None) if joints is None else joints
        self._velocities[chosen] = 0.0
        self._efforts[chosen] = 0.0
        self._stopping[chosen] = True

    def has_position_targets(self) -> bool:
        """Return whether all joints are under position control, none by a trajectory's sample."""
        plain = not self._tracks and self._forward is None
        return plain and self._ready and self.joint_modes.all_position

    def moved(self) -> JointReference:
        """Return the reference after a step of the limiter alone."""
        self.still = None
        return self._reference()

    def comply(
        self, joints: NDArray[np.intp], efforts: Array, position: Array, velocity: Array
    ) -> None:
        """Set efforts of joints under position control, whose references follow their state.

        Args:
            joints: indices, shape (k,).
            efforts: efforts of these joints [N m or N], shape (k,); clipped to their limits.
            position: measured positions of all joints [rad or m], shape (n,).
            velocity: measured velocities of all joints [rad/s or m/s], shape (n,).
        """
        self.still = None
        if not self._compliant[joints].all():
            self._compliant[joints] = True
            still = np.zeros(len(position))
            self.limiter.set_state(self._compliant, TrajectorySample(position, still, still))
        else:
            self.limiter.follow(self._compliant, position)
        self._positions[joints] = position[joints]
        self._velocities[joints] = 0.0
        self._stopping[joints] = False
        self._efforts[joints] = efforts
        self._moved[joints] = velocity[joints]

    def end_compliance(self, joints: NDArray[np.intp]) -> None:
        """Return joints to position control; their references move at the measured velocities."""
        self.still = None
        limits, chosen = self.limits, np.zeros(len(self.joint_names), dtype=np.bool_)
        chosen[joints] = self._compliant[joints]
        speed = self._moved.clip(-limits.velocity, limits.velocity)
        here = self.limiter.position.copy()
        self.limiter.set_state(chosen, TrajectorySample(here, speed, np.zeros(len(here))))
        self._compliant[joints] = False
        self._efforts[joints] = 0.0

    def move_reference_to(self, joints: NDArray[np.intp], positions: Array) -> None:
        """Move the reference of joints under position control to positions, within the limits.

        A reference that is outside of them moves no further out, and not in by itself.

        Args:
            joints: indices; those in another mode stop.
            positions: positions of all joints [rad or m], shape (n,).
        """
        self.still = None
        chosen = joints[self.joint_modes.position[joints]]
        limits, present = self.limits, self.limiter.position
        lower, upper = np.minimum(limits.lower, present), np.maximum(limits.upper, present)
        clipped = positions.clip(lower, upper)
        self._positions[chosen] = clipped[chosen]
        self._velocities[chosen] = 0.0
        self._stopping[chosen] = False

    @property
    def reference_position(self) -> Array:
        """Reference positions of all joints [rad or m], shape (n,); not a copy."""
        return self.limiter.position

    @property
    def reference_velocity(self) -> Array:
        """Reference velocities of all joints [rad/s or m/s], shape (n,); not a copy."""
        return self.limiter.velocity

    @property
    def moving(self) -> bool:
        """True while the reference moves."""
        return bool(np.any(self.limiter.velocity != 0.0))

    def step(self, dt: float, measured: Array | None = None) -> JointReference:
        """Advance by ``dt`` [s] and return the reference of the drives.

        Args:
            dt: time since the last step [s]; nothing moves unless it is finite and above 0.
            measured: measured positions [rad or m], shape (n,), NaN where unknown; the reference of
                joints that are not under position control follows them.

        Raises:
            MotionError: before the first :meth:`reset`.
        """
        desired = self.advance(dt, measured)
        if desired is not self.still:
            return desired
        return JointReference(*(channel.copy() for channel in desired.channels))

    def advance(self, dt: float, measured: Array | None = None) -> JointReference:
        """Step as :meth:`step`, but return the same read-only reference while all joints rest.

        Raises:
            MotionError: see :meth:`step`.
        """
        if not self._ready:
            raise MotionError(_UNKNOWN_STATE)
        if self.still is not None:
            return self.still
        limiter = self.limiter
        if measured is not None and not self.joint_modes.all_position:
            limiter.follow(self.joint_modes.not_position, measured)
        by_velocity, goals = self.joint_modes.not_position | self._stopping, self._moved_targets(dt)
        if self._tracks:
            rests = self._follow_samples(by_velocity, goals, dt)
        else:
            rests = limiter.rests(by_velocity, goals, self._velocities)
            if not rests:
                limiter.step(by_velocity, goals, self._velocities, dt)
        if np.count_nonzero(self._stopping):
            self._end_stops()
        desired = self._reference()
        if np.count_nonzero(self._compliant):
            return self._with_efforts(desired)
        if self._forward is not None:
            np.copyto(desired.efforts, self._forward, where=~np.isnan(self._forward))
            self._forward = None
            return desired
        if rests and not np.count_nonzero(by_velocity):
            for channel in desired.channels:
                channel.setflags(write=False)
            self.still = desired
        return desired

    def _follow_samples(self, by_velocity: Mask, goals: Array, dt: float) -> bool:
        """Advance joints to their samples where they can; others approach their targets.

        Returns:
            Whether all joints rest at their targets.
        """
        limiter, self._tracks = self.limiter, False
        on_way = limiter.reachable(self._tracking, self._tracked, dt)
        resting = limiter.resting(by_velocity, goals, self._velocities)
        if not (on_way | resting).all():
            # All joints approach their targets; those on a trajectory are overwritten below.
            limiter.step(by_velocity, goals, self._velocities, dt)
        if on_way.any():
            limiter.set_state(on_way, self._tracked)
        self._tracking[:] = False
        return bool(resting.all()) and not on_way.any()

    def _bind(self) -> None:
        """Let the functions of the cycle use the present limits, modes and limiter."""
        target, limits = self._target, self.limits
        target.lower[:], target.upper[:] = limits.lower, limits.upper
        target.continuous[:] = limits.turns.continuous
        target.by_position[:] = self.joint_modes.position
        self.target = state = target._replace(reference=self.limiter.position)
        self._take_positions = _take_positions.bind(state)

    def _moved_targets(self, dt: float) -> Array:
        """Return the position targets at the end of this step; end targets that timed out."""
        if not np.count_nonzero(self._velocities) or not 0.0 < dt < math.inf:
            return self._positions
        self._age += dt
        by_position = self.joint_modes.position
        self._velocities[by_position & (self._age > STREAM_GAP)] = 0.0
        return np.asarray(self._positions + by_position * self._velocities * self._age)

    def _end_stops(self) -> None:
        """Hold the positions of joints that have stopped."""
        still = self._stopping & (self.limiter.velocity == 0.0)
        np.copyto(self._positions, self.limiter.position, where=still)
        self._stopping[still] = False

    def _reference(self) -> JointReference:
        """Return the reference of the drives by their modes, without regard to compliance."""
        now, modes, efforts = self.limiter, self.joint_modes, self._efforts
        if not modes.all_position:
            efforts = efforts.clip(-self.limits.effort, self.limits.effort)
        position, velocity = now.position.copy(), now.velocity.copy()
        return modes.reference(position, velocity, efforts, now.acceleration.copy())

    def _with_efforts(self, desired: JointReference) -> JointReference:
        """Return a reference with nothing but the efforts of compliant joints."""
        joints, limit = self._compliant, self.limits.effort
        for channel in (desired.positions, desired.velocities, desired.accelerations):
            channel[joints] = np.nan
        np.copyto(desired.efforts, self._efforts.clip(-limit, limit), where=joints)
        return desired
