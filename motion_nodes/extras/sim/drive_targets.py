# SPDX-License-Identifier: Apache-2.0
"""Targets and modes of a robot's joint drives, common to all backends.

A command is validated as a whole before anything changes.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.robot.bounds import EFFORT, JOINT_POSITION, VELOCITY
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import frozen
from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.typing import Array

_FREE_POSITION = JOINT_POSITION.max
"""Max position target of a joint without limits [rad or m]."""
_FREE_VELOCITY = VELOCITY.max
"""Max velocity target of a joint without a velocity limit [rad/s or m/s]."""
_FREE_EFFORT = EFFORT.max
"""Max effort target of a joint without an effort limit [N m or N]."""
MAX_GAIN = 1e6
"""Max gain of a drive [N m/rad or N/m, N m s/rad or N s/m]."""
_LIMIT_FACTOR = 10.0
"""Max velocity and effort targets relative to the limits, at which the drive saturates."""


class DriveMode(enum.IntEnum):
    """Mode of a joint's drive."""

    POSITION = 0
    VELOCITY = 1
    EFFORT = 2


# Plain integers: NumPy is ten times slower with enum members.
_POSITION, _VELOCITY, _EFFORT = (int(mode) for mode in DriveMode)


class JointTargets(NamedTuple):
    """A command to all joints of a robot; None is equivalent to an array of NaN."""

    position: ArrayLike | None = None
    """Positions [rad or m], shape (n,); NaN: no command."""
    velocity: ArrayLike | None = None
    """Velocities [rad/s or m/s], shape (n,); NaN: no command."""
    effort: ArrayLike | None = None
    """Efforts [N m or N], shape (n,); NaN: no command."""


@dataclass(frozen=True)
class DriveTable:
    """Properties of a robot's drives as read-only arrays of shape (n,), in joint order."""

    joint_names: tuple[str, ...]
    """Names of the joints."""
    home: Array
    """Home positions [rad or m]."""
    default_mode: NDArray[np.int64]
    """Initial :class:`DriveMode` of each joint."""
    passive: NDArray[np.bool_]
    """Joints without a drive, which cannot be commanded."""
    stiffness: Array
    """kp [N m/rad or N/m]."""
    damping: Array
    """kd [N m s/rad or N s/m]."""
    effort_limit: Array
    """Effort limits [N m or N], may be inf."""
    velocity_limit: Array
    """Velocity limits [rad/s or m/s], may be inf."""
    lower: Array
    """Lower position limits [rad or m], may be -inf."""
    upper: Array
    """Upper position limits [rad or m], may be inf."""

    @classmethod
    def of(cls, robot: Robot) -> DriveTable:
        """Return the drives of a robot."""
        drives, limits = robot.drives, robot.limits
        modes = np.array([DriveMode[drive.mode.upper()] for drive in drives], dtype=np.int64)
        passive = np.array([drive.passive for drive in drives], dtype=bool)
        for array in (modes, passive):
            array.setflags(write=False)
        return cls(
            joint_names=robot.joint_names,
            home=robot.home,
            default_mode=modes,
            passive=passive,
            stiffness=frozen([drive.stiffness for drive in drives]),
            damping=frozen([drive.damping for drive in drives]),
            effort_limit=frozen([drive.max_effort for drive in drives]),
            velocity_limit=limits.velocity,
            lower=limits.lower,
            upper=limits.upper,
        )


class DriveTargets:
    """Targets and modes of all joints of one robot, and the time of their last commands."""

    def __init__(self, name: str, robot: Robot) -> None:
        """Start with the initial targets.

        Args:
            name: name of the robot, for errors.
            robot: the robot.
        """
        self.name = name
        self.table = DriveTable.of(robot)
        self.joint_names = self.table.joint_names
        self._columns = {joint: i for i, joint in enumerate(self.joint_names)}
        self._bounds = _bounds(self.table)
        self._has_zero_gain = min(self.table.stiffness.min(), self.table.damping.min()) <= 0.0
        self._no_command = frozen(np.full(len(self.joint_names), np.nan))
        self.reset()

    def reset(self) -> None:
        """Restore the initial targets: home position, zero velocity or zero effort."""
        table = self.table
        self._position = np.where(table.default_mode == _POSITION, table.home, 0.0)
        self._velocity = np.zeros(len(self.joint_names))
        self._effort = np.zeros(len(self.joint_names))
        self._stamp = np.full(len(self.joint_names), -np.inf)
        self._stiffness, self._damping = table.stiffness, table.damping
        self._fresh_until, self._timeout = -np.inf, 0.0
        self.gains_are_set = False
        """Whether gains were set at run time by a controller that closes a loop over the drives."""
        self._set_modes(table.default_mode.copy())

    @property
    def mode(self) -> NDArray[np.int64]:
        """Current :class:`DriveMode` of each joint, shape (n,), a copy."""
        return self._mode.copy()

    @property
    def position(self) -> Array:
        """Position targets [rad or m], NaN for joints in other modes, shape (n,), a copy."""
        return np.where(self._mode == _POSITION, self._position, np.nan)

    @property
    def velocity(self) -> Array:
        """Velocity targets [rad/s or m/s], NaN for joints in effort mode, shape (n,), a copy."""
        return np.where(self._mode == _EFFORT, np.nan, self._velocity)

    @property
    def effort(self) -> Array:
        """Effort targets or feedforward [N m or N], shape (n,), a copy."""
        return self._effort.copy()

    def gains(self) -> tuple[Array, Array]:
        """Return kp and kd of the current modes, shape (n,) each, read-only."""
        return self._kp, self._kd

    def set_gains(self, stiffness: ArrayLike, damping: ArrayLike) -> None:
        """Replace the drives' gains until the next reset.

        Args:
            stiffness: kp [N m/rad or N/m], shape (n,); NaN: as described.
            damping: kd [N m s/rad or N s/m], shape (n,); NaN: as described.

        Raises:
            InvalidCommand: wrong shapes, or gains that are negative or too large; nothing changes.
        """
        table, gains = self.table, []
        for name, values, own in (
            ("stiffness", stiffness, table.stiffness),
            ("damping", damping, table.damping),
        ):
            array = np.asarray(values, dtype=np.float64)
            if array.shape != own.shape:
                raise InvalidCommand(
                    f"{self.name}: {name} must have shape {own.shape}, got {array.shape}."
                )
            if (array < 0.0).any() or (array > MAX_GAIN).any():
                raise InvalidCommand(
                    f"{self.name}: {name} must be from 0 to {MAX_GAIN:g}, got {array.tolist()}."
                )
            gains.append(np.where(np.isnan(array), own, array))
        self._stiffness, self._damping = gains
        self.gains_are_set = bool(
            (self._stiffness != table.stiffness).any() or (self._damping != table.damping).any()
        )
        self._set_modes(self._mode)

    def feed(self) -> Array:
        """Return ``kp q* + kd v* + effort``, the drive law without the state [N m or N], (n,)."""
        return self._kp * self._position + self._kd * self._velocity + self._effort

    def check(self, command: JointTargets) -> Array:
        """Validate a command.

        Args:
            command: the three channels in joint order.

        Returns:
            Its channels, shape (3, n); NaN: no command.

        Raises:
            InvalidCommand: names joint, value and allowed range.
        """
        channels = np.array(
            [
                self._channel(field, values)
                for field, values in zip(JointTargets._fields, command, strict=True)
            ]
        )
        if self._has_zero_gain:
            has_position, has_velocity, has_effort = ~np.isnan(channels)
            mode = np.where(has_position, _POSITION, np.where(has_velocity, _VELOCITY, _EFFORT))
            self._check_drivable(mode, has_position | has_velocity | has_effort)
        return channels

    def merge(self, position: Array, velocity: Array, effort: Array) -> None:
        """Merge validated values into the targets.

        Args:
            position: positions [rad or m], shape (n,); NaN: unchanged.
            velocity: velocities [rad/s or m/s], shape (n,); NaN: unchanged.
            effort: efforts [N m or N], shape (n,); NaN: unchanged.
        """
        has_position, has_velocity = ~np.isnan(position), ~np.isnan(velocity)
        has_effort = ~np.isnan(effort)
        given = has_position | has_velocity | has_effort
        mode = np.where(has_position, _POSITION, np.where(has_velocity, _VELOCITY, _EFFORT))
        changed = given & (mode != self._mode)
        if changed.any():
            self._change_modes(mode, changed)
        np.copyto(self._position, position, where=has_position)
        np.copyto(self._velocity, velocity, where=has_velocity)
        np.copyto(self._effort, effort, where=has_effort)

    def renew(self, joints: NDArray[np.bool_], time: float) -> None:
        """Set the time of the last command.

        Args:
            joints: the commanded joints, shape (n,).
            time: time of the command [s].
        """
        np.copyto(self._stamp, time, where=joints)

    def release(self, joints: Collection[str] | None = None) -> bool:
        """Zero the velocity and effort targets of some joints.

        Args:
            joints: names of the joints; None: all.

        Returns:
            Whether any target changed.

        Raises:
            UnknownJoint: lists the joints of the robot; nothing is released.
        """
        chosen = np.ones(len(self.joint_names), dtype=bool)
        if joints is not None:
            chosen[:] = False
            for joint in joints:
                if joint not in self._columns:
                    raise UnknownJoint(joint, self.joint_names, self.name)
                chosen[self._columns[joint]] = True
        return bool(self._release(chosen).any())

    def release_stale(self, time: float, timeout: float) -> tuple[str, ...]:
        """Release the joints whose last command is older than a timeout.

        Args:
            time: current time [s].
            timeout: max age of a command [s].

        Returns:
            Joints whose targets changed.
        """
        stale = self.stale(time, timeout)
        # Joints that are stale now are released by this call; they are stale again at the earliest
        # one timeout after their next command.
        self._fresh_until = float(self._stamp[~stale].min(initial=time)) + timeout
        self._timeout = timeout
        released = self._release(stale)
        return tuple(self.joint_names[i] for i in np.flatnonzero(released))

    def may_be_stale(self, time: float, timeout: float) -> bool:
        """Return False if :meth:`release_stale` has nothing to release; a cheap check."""
        return time > self._fresh_until or timeout != self._timeout

    def stale(self, time: float, timeout: float) -> NDArray[np.bool_]:
        """Return which joints' last command is older than ``timeout`` [s] at ``time`` [s], (n,)."""
        return np.asarray(time - self._stamp > timeout)

    def _release(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Zero velocity and effort targets of joints; return which of them changed, shape (n,)."""
        changed: NDArray[np.bool_] = chosen & ((self._velocity != 0.0) | (self._effort != 0.0))
        self._velocity[changed] = 0.0
        self._effort[changed] = 0.0
        return changed

    def _change_modes(self, mode: NDArray[np.int64], changed: NDArray[np.bool_]) -> None:
        """Change the modes of some joints and clear their previous targets."""
        self._position[changed] = 0.0
        self._velocity[changed] = 0.0
        self._effort[changed] = 0.0
        self._set_modes(np.where(changed, mode, self._mode))

    def _set_modes(self, mode: NDArray[np.int64]) -> None:
        """Set modes and their gains."""
        self._mode = mode
        self._kp = frozen(np.where(mode == _POSITION, self._stiffness, 0.0))
        self._kd = frozen(np.where(mode == _EFFORT, 0.0, self._damping))

    def _channel(self, field: str, values: ArrayLike | None) -> Array:
        """Return one channel as a validated array; NaN: no command."""
        count = len(self.joint_names)
        if values is None:
            return self._no_command
        try:
            array = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidCommand(
                f"{self.name}: {field} must be an array of numbers, got {values!r:.80}."
            ) from None
        if array.shape != (count,):
            raise InvalidCommand(
                f"{self.name}: {field} must have shape ({count},), got {array.shape}: one value "
                f"for each of {', '.join(self.joint_names)}; NaN: no command."
            )
        lower, upper = self._bounds[field]
        bad = (array < lower) | (array > upper)
        if bad.any():
            i = int(np.argmax(bad))
            raise InvalidCommand(
                f"{self.name}: {field} of joint '{self.joint_names[i]}' is {array[i]:g}, allowed "
                f"are {lower[i]:g} to {upper[i]:g}; the whole command is rejected.",
                field=self.joint_names[i],
            )
        return array

    def _check_drivable(self, mode: NDArray[np.int64], given: NDArray[np.bool_]) -> None:
        """Reject commands in a mode whose gain is zero, which would have no effect."""
        passive = np.flatnonzero(given & self.table.passive)
        if passive.size:
            raise InvalidCommand(
                f"{self.name}: joint '{self.joint_names[passive[0]]}' is passive and cannot be "
                "commanded; the whole command is rejected."
            )
        for commanded, gain, gain_name in (
            (DriveMode.POSITION, self.table.stiffness, "stiffness"),
            (DriveMode.VELOCITY, self.table.damping, "damping"),
        ):
            bad = np.flatnonzero(given & (mode == commanded) & (gain <= 0.0))
            if bad.size:
                raise InvalidCommand(
                    f"{self.name}: joint '{self.joint_names[bad[0]]}' does not accept "
                    f"{commanded.name.lower()} commands, because the {gain_name} of its drive is "
                    "0; the whole command is rejected."
                )


def _bounds(table: DriveTable) -> dict[str, tuple[Array, Array]]:
    """Return the plausible range of each channel, shape (n,) per bound.

    Position targets may exceed the limits by half the joint's range, because controllers overshoot
    and the mechanical stop holds the joint; velocities and efforts may be ten times the limit.
    """
    finite = np.isfinite(table.lower) & np.isfinite(table.upper)
    margin = np.where(finite, 0.5 * (table.upper - table.lower), 0.0)
    velocity = np.where(
        np.isfinite(table.velocity_limit), _LIMIT_FACTOR * table.velocity_limit, _FREE_VELOCITY
    )
    effort = np.where(
        np.isfinite(table.effort_limit) & ~table.passive,
        _LIMIT_FACTOR * table.effort_limit,
        _FREE_EFFORT,
    )
    return {
        "position": (
            np.maximum(table.lower - margin, -_FREE_POSITION),
            np.minimum(table.upper + margin, _FREE_POSITION),
        ),
        "velocity": (-velocity, velocity),
        "effort": (-effort, effort),
    }
