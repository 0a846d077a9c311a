# SPDX-License-Identifier: Apache-2.0
"""Standing targets and modes of a robot's joint drives; every backend shares them.

Commands are checked here, whole, before anything changes.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.model.bounds import EFFORT, JOINT_POSITION, VELOCITY
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array, frozen

_FREE_POSITION = JOINT_POSITION.max
"""Largest position target of a joint without limits [rad or m]: no wheel turns that far."""
_FREE_VELOCITY = VELOCITY.max
"""Largest speed target of a joint without a speed limit [rad/s or m/s]."""
_FREE_EFFORT = EFFORT.max
"""Largest effort target of a joint without an effort limit [N m or N]."""
_LIMIT_FACTOR = 10.0
"""Speed and effort targets may exceed a limit (the drive saturates), but not absurdly."""


class DriveMode(enum.IntEnum):
    """How the drive of a joint works at present."""

    POSITION = 0
    VELOCITY = 1
    EFFORT = 2


# As plain numbers: NumPy is ten times slower with members of an enumeration.
_POSITION, _VELOCITY, _EFFORT = (int(mode) for mode in DriveMode)


class JointTargets(NamedTuple):
    """A command to all joints of a robot; None is the same as an array of NaN."""

    position: ArrayLike | None = None
    """[rad or m], shape (n,); NaN = no command."""
    velocity: ArrayLike | None = None
    """[rad/s or m/s], shape (n,); NaN = no command."""
    effort: ArrayLike | None = None
    """[N m or N], shape (n,); NaN = no command."""


@dataclass(frozen=True)
class DriveTable:
    """Facts of all drives of a robot as read-only arrays of shape (n,), in joint order."""

    joint_names: tuple[str, ...]
    home: Array
    """[rad or m]."""
    default_mode: NDArray[np.int64]
    """A :class:`DriveMode` per joint."""
    passive: NDArray[np.bool_]
    """Joints without a drive, which take no command."""
    stiffness: Array
    """kp [N m/rad or N/m]."""
    damping: Array
    """kd [N m s/rad or N s/m]."""
    effort_limit: Array
    """[N m or N], may be inf."""
    velocity_limit: Array
    """[rad/s or m/s], may be inf."""
    lower: Array
    """[rad or m], may be -inf."""
    upper: Array
    """[rad or m], may be inf."""

    @classmethod
    def of(cls, robot: Robot) -> DriveTable:
        """Read the drives of a robot from its description and tree."""
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
    """Targets of all joints of one robot, their modes, and when each was last commanded."""

    def __init__(self, name: str, robot: Robot) -> None:
        """Start with the targets before any command.

        Args:
            name: of the robot, for messages.
            robot: whose drives these are.
        """
        self.name = name
        self.table = DriveTable.of(robot)
        self.joint_names = self.table.joint_names
        self._columns = {joint: i for i, joint in enumerate(self.joint_names)}
        self._bounds = _bounds(self.table)
        self._some_gain_is_zero = min(self.table.stiffness.min(), self.table.damping.min()) <= 0.0
        self._silent = frozen(np.full(len(self.joint_names), np.nan))
        self.reset()

    def reset(self) -> None:
        """Position drives hold home, velocity drives zero speed, effort drives nothing."""
        table = self.table
        self._position = np.where(table.default_mode == _POSITION, table.home, 0.0)
        self._velocity = np.zeros(len(self.joint_names))
        self._effort = np.zeros(len(self.joint_names))
        self._stamp = np.full(len(self.joint_names), -np.inf)
        self._set_modes(table.default_mode.copy())

    @property
    def mode(self) -> NDArray[np.int64]:
        """Present :class:`DriveMode` of each joint, shape (n,), a copy."""
        return self._mode.copy()

    @property
    def position(self) -> Array:
        """Position targets, NaN where the mode has none [rad or m], shape (n,), a copy."""
        return np.where(self._mode == _POSITION, self._position, np.nan)

    @property
    def velocity(self) -> Array:
        """Velocity targets, NaN where the mode has none [rad/s or m/s], shape (n,), a copy."""
        return np.where(self._mode == _EFFORT, np.nan, self._velocity)

    @property
    def effort(self) -> Array:
        """Effort targets or feed-forward [N m or N], shape (n,), a copy."""
        return self._effort.copy()

    def gains(self) -> tuple[Array, Array]:
        """Return kp and kd in force, each of shape (n,), read-only."""
        return self._kp, self._kd

    def feed(self) -> Array:
        """Return ``kp q* + kd v* + effort``, the state-free part of the law, shape (n,)."""
        return self._kp * self._position + self._kd * self._velocity + self._effort

    def accept(self, command: JointTargets, time: float) -> bool:
        """Check a command and merge it into the targets.

        Args:
            command: the three channels in joint order.
            time: now [s].

        Returns:
            False when it held no value at all.

        Raises:
            InvalidCommand: names joint, value and what is allowed; nothing has changed then.
        """
        checked = self.check(command)
        given = ~np.isnan(checked).all(axis=0)
        if not given.any():
            return False
        self.merge(*checked)
        self._stamp[given] = time
        return True

    def check(self, command: JointTargets) -> Array:
        """Return a command's channels, shape (3, n), NaN where nothing is commanded.

        Raises:
            InvalidCommand: see :meth:`accept`.
        """
        channels = np.array(
            [
                self._channel(field, values)
                for field, values in zip(JointTargets._fields, command, strict=True)
            ]
        )
        if self._some_gain_is_zero:
            has_position, has_velocity, has_effort = ~np.isnan(channels)
            mode = np.where(has_position, _POSITION, np.where(has_velocity, _VELOCITY, _EFFORT))
            self._check_drivable(mode, has_position | has_velocity | has_effort)
        return channels

    def merge(self, position: Array, velocity: Array, effort: Array) -> None:
        """Put checked values into the targets, NaN where a channel stays; shape (n,) each."""
        has_position, has_velocity = ~np.isnan(position), ~np.isnan(velocity)
        has_effort = ~np.isnan(effort)
        given = has_position | has_velocity | has_effort
        mode = np.where(has_position, _POSITION, np.where(has_velocity, _VELOCITY, _EFFORT))
        changed = given & (mode != self._mode)
        if changed.any():
            self._drop_stale(mode, changed)
        np.copyto(self._position, position, where=has_position)
        np.copyto(self._velocity, velocity, where=has_velocity)
        np.copyto(self._effort, effort, where=has_effort)

    def renew(self, joints: NDArray[np.bool_], time: float) -> None:
        """Note that some joints were commanded at a time [s]."""
        self._stamp[joints] = time

    def release(self, joints: Collection[str] | None = None) -> bool:
        """Zero the velocity and effort targets of some joints (all when None).

        Returns:
            True when a target changed.

        Raises:
            UnknownJoint: lists the joints there are; nothing is released.
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
        """Release the joints whose last command is older than ``timeout`` [s].

        Returns:
            Joints whose targets changed.
        """
        released = self._release(self.stale(time, timeout))
        return tuple(self.joint_names[i] for i in np.flatnonzero(released))

    def stale(self, time: float, timeout: float) -> NDArray[np.bool_]:
        """Return which joints' last command is older than ``timeout`` [s], shape (n,)."""
        return np.asarray(time - self._stamp > timeout)

    def _release(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Zero velocity and effort of the chosen joints; return which of them changed."""
        changed: NDArray[np.bool_] = chosen & ((self._velocity != 0.0) | (self._effort != 0.0))
        self._velocity[changed] = 0.0
        self._effort[changed] = 0.0
        return changed

    def _drop_stale(self, mode: NDArray[np.int64], changed: NDArray[np.bool_]) -> None:
        """Give some joints their new modes; they lose all targets of the old ones."""
        self._position[changed] = 0.0
        self._velocity[changed] = 0.0
        self._effort[changed] = 0.0
        self._set_modes(np.where(changed, mode, self._mode))

    def _set_modes(self, mode: NDArray[np.int64]) -> None:
        """Take modes and the gains that belong to them."""
        self._mode = mode
        self._kp = frozen(np.where(mode == _POSITION, self.table.stiffness, 0.0))
        self._kd = frozen(np.where(mode == _EFFORT, 0.0, self.table.damping))

    def _channel(self, field: str, values: ArrayLike | None) -> Array:
        """Return one channel as a checked array with NaN for no command."""
        count = len(self.joint_names)
        if values is None:
            return self._silent
        try:
            array = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidCommand(f"{self.name}: {field} is not an array of numbers.") from None
        if array.shape != (count,):
            raise InvalidCommand(
                f"{self.name}: {field} has shape {array.shape}, needs ({count},): one value for "
                f"each of {', '.join(self.joint_names)}; NaN where there is no command."
            )
        lower, upper = self._bounds[field]
        bad = (array < lower) | (array > upper)
        if bad.any():
            i = int(np.argmax(bad))
            raise InvalidCommand(
                f"{self.name}: {field} {array[i]:g} of joint '{self.joint_names[i]}' is not within "
                f"{lower[i]:g} to {upper[i]:g}; the whole command was rejected."
            )
        return array

    def _check_drivable(self, mode: NDArray[np.int64], given: NDArray[np.bool_]) -> None:
        """Refuse a mode whose gain is zero: the command would silently do nothing."""
        passive = np.flatnonzero(given & self.table.passive)
        if passive.size:
            raise InvalidCommand(
                f"{self.name}: joint '{self.joint_names[passive[0]]}' is passive, nothing moves "
                "it; the whole command was rejected."
            )
        for wanted, gain, word in (
            (DriveMode.POSITION, self.table.stiffness, "stiffness"),
            (DriveMode.VELOCITY, self.table.damping, "damping"),
        ):
            bad = np.flatnonzero(given & (mode == wanted) & (gain <= 0.0))
            if bad.size:
                raise InvalidCommand(
                    f"{self.name}: joint '{self.joint_names[bad[0]]}' takes no "
                    f"{wanted.name.lower()} command, the {word} of its drive is 0; the whole "
                    "command was rejected."
                )


def _bounds(table: DriveTable) -> dict[str, tuple[Array, Array]]:
    """Return the sane range of each channel: beyond it a command is an accident.

    Position targets may lie up to half the joint's range outside its limits, where the stop holds
    the joint, since controllers overshoot; speeds and efforts up to ten times the limit.
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
