# SPDX-License-Identifier: Apache-2.0
"""What every simulated robot cell offers, whether it computes physics or not.

A cell holds one or more robots; each has a name (its prefix in the world) and stands somewhere.
All joint arrays are in the order of ``joint_names(name)``. Time is simulated time: whoever paces
the cell against a clock (a node) does so outside.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.control.stream_resampler import ResamplerSettings, StreamSample
from motion_nodes.errors import InvalidConfig, InvalidDescription, MotionError, did_you_mean
from motion_nodes.model.bounds import repeated
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array, frozen
from motion_nodes.sim.drive_targets import DriveTargets, JointTargets
from motion_nodes.sim.reference_tracks import ReferenceTracks

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class UnknownRobot(MotionError, LookupError):
    """A robot name that the simulated cell does not hold."""

    def __init__(self, given: str, allowed: Iterable[str]) -> None:
        """Say which robots there are."""
        super().__init__(
            f"the simulated cell holds no robot '{given}'.{did_you_mean(given, allowed)}"
        )


class SimulationDiverged(MotionError, RuntimeError):
    """The physics ran away (NaN or absurd speeds); ``reset()`` brings the cell back."""


@dataclass(frozen=True)
class RobotPlacement:
    """A robot, its name in the cell, and where it stands.

    Raises:
        InvalidConfig: for a name that is no identifier or a pose that is no rigid transform.
    """

    robot: Robot
    name: str
    """Letters, digits and underscores; prefixes everything that belongs to the robot."""
    X_WR: Array = field(default_factory=lambda: frozen(np.eye(4)))
    """Pose of the robot in the world, shape (4, 4): of the root link of an arm; of the spot on
    the ground below the root link of a wheeled base, which is put on its wheels there."""

    def __post_init__(self) -> None:
        """Check name and pose; keep a read-only copy of the pose."""
        if not _NAME.fullmatch(self.name):
            raise InvalidConfig(
                f"robot name '{self.name}' in the simulated cell must start with a letter and hold "
                "only letters, digits and underscores."
            )
        object.__setattr__(self, "X_WR", rigid_pose(self.X_WR, f"placement of '{self.name}'"))


class MeasuredJoints(NamedTuple):
    """State of all joints of a robot at one instant; the arrays are read-only copies."""

    position: Array
    """[rad or m], shape (n,)."""
    velocity: Array
    """[rad/s or m/s], shape (n,)."""
    effort: Array
    """What the drive puts on the joint, saturated [N m or N], shape (n,)."""


class RobotBackend(ABC):
    """A cell of simulated robots.

    Modes. Which channels of a message are finite for a joint decides how its drive works:

    - position (with or without velocity and effort): PD drive with the gains of the robot's
      description; effort is added as feed-forward;
    - velocity without position: ``kp = 0``, ``kd`` kept, the commanded speed is held;
    - effort alone: ``kp = kd = 0``.

    The law is ``tau = kp (q* - q) + kd (v* - v) + effort`` with ``|tau| <= effort limit``. A NaN
    keeps the previous target of that channel, and a joint whose three channels are NaN keeps
    everything. When a joint changes mode, the targets of its old mode are dropped. Before any
    command, position drives hold the home state, velocity drives hold zero speed.
    """

    def __init__(self, placements: Sequence[RobotPlacement]) -> None:
        """Make the targets of every robot.

        Args:
            placements: the robots of the cell; their names must differ.

        Raises:
            InvalidConfig: for no robot, or two of one name.
        """
        if not placements:
            raise InvalidConfig("a simulated cell needs at least one robot.")
        names = [placement.name for placement in placements]
        twice = repeated(names)
        if twice:
            raise InvalidConfig(f"two robots of the simulated cell have the name '{twice[0]}'.")
        self.placements = tuple(placements)
        self._targets = {p.name: DriveTargets(p.name, p.robot) for p in placements}
        self.set_resampling(ResamplerSettings())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the robots in the cell."""
        return tuple(self._targets)

    def joint_names(self, name: str) -> tuple[str, ...]:
        """Return the commanded joints of a robot, in the order of all its arrays.

        Raises:
            UnknownRobot: lists the robots there are.
        """
        return self.targets(name).joint_names

    def targets(self, name: str) -> DriveTargets:
        """Return the standing targets and modes of a robot.

        Raises:
            UnknownRobot: lists the robots there are.
        """
        try:
            return self._targets[name]
        except KeyError:
            raise UnknownRobot(name, self._targets) from None

    def command(self, name: str, targets: JointTargets) -> None:
        """Take a command; it is in force from the next step on.

        Args:
            name: the robot.
            targets: arrays in joint order; NaN or None means no command.

        Raises:
            UnknownRobot: lists the robots there are.
            InvalidCommand: names joint and value; the message is rejected whole.
        """
        standing = self.targets(name)
        channels = standing.check(targets)
        given = _commanded(channels)
        if given.any():
            self._tracks[name].drop(given)
            standing.merge(*channels)
            standing.renew(given, self.time)
            self._targets_changed(name)

    def stream(self, name: str, targets: JointTargets, stamp_ns: int) -> None:
        """Take a message of a stamped stream, in force from its stamp on, later by the latency.

        :meth:`advance` plays the streams back. Joints that are given an effort alone take it at
        once, for whoever computes it has closed a loop over the robot.

        Args:
            name: the robot.
            targets: as for :meth:`command`.
            stamp_ns: of the message [ns], on the clock of :meth:`advance`.

        Raises:
            UnknownRobot: lists the robots there are.
            InvalidCommand: names joint and value; the message is rejected whole.
        """
        standing = self.targets(name)
        channels = standing.check(targets)
        led = _commanded(channels[:2])
        given = _commanded(channels)
        pushed = given & ~led
        if pushed.any():
            self._tracks[name].drop(pushed)
            standing.merge(*np.where(pushed, channels, np.nan))
            self._targets_changed(name)
        if led.any():
            sample = StreamSample(*np.where(led, channels, np.nan))
            self._tracks[name].push(stamp_ns, sample, led)
        standing.renew(given, self.time)

    def advance(self, count: int, begin_ns: int, pace: float = 1.0) -> None:
        """Advance by ``count`` steps, each led by the streams as they are at its end.

        Args:
            count: of steps; none when it is less than one.
            begin_ns: time on the clock of the streams' stamps at the beginning [ns].
            pace: seconds of simulated time per second of that clock.

        Raises:
            SimulationDiverged: see :meth:`step`.
        """
        for k in range(1, count + 1):
            moment = begin_ns + round(1e9 * k * self.time_step / pace)
            led = False
            for name, tracks in self._tracks.items():
                sample = tracks.sample(moment)
                if sample is not None:
                    self._targets[name].merge(*sample)
                    self._targets_changed(name)
                    led = True
            if not led and not any(tracks.streaming for tracks in self._tracks.values()):
                self.step(count - k + 1)
                return
            self.step()

    def set_resampling(self, settings: ResamplerSettings) -> None:
        """Take other settings for the streams; those under way are forgotten."""
        self._tracks = {
            name: ReferenceTracks(targets.table.velocity_limit, settings)
            for name, targets in self._targets.items()
        }

    def release(self, name: str, joints: Collection[str] | None = None) -> None:
        """Zero the velocity and effort targets of joints now; position targets stay.

        Args:
            name: the robot.
            joints: which; all of them when None.

        Raises:
            UnknownRobot: lists the robots there are.
            UnknownJoint: lists the joints there are; nothing is released.
        """
        chosen = self.joint_names(name) if joints is None else joints
        released = self.targets(name).release(joints)
        self._tracks[name].drop(np.isin(self.joint_names(name), list(chosen)))
        if released:
            self._targets_changed(name)

    def release_stale(self, name: str, timeout: float) -> tuple[str, ...]:
        """Release the joints whose last command is older than ``timeout`` (the watchdog).

        Args:
            name: the robot.
            timeout: age allowed [s of simulated time].

        Returns:
            Joints that moved or pushed by a target that is now zero.

        Raises:
            UnknownRobot: lists the robots there are.
        """
        targets, tracks = self.targets(name), self._tracks[name]
        if tracks.streaming:
            tracks.drop(targets.stale(self.time, timeout))
        released = targets.release_stale(self.time, timeout)
        if released:
            self._targets_changed(name)
        return released

    def reset(self) -> None:
        """Put everything back to the state of a new cell, time included."""
        for targets in self._targets.values():
            targets.reset()
        for tracks in self._tracks.values():
            tracks.clear()
        self._reset_state()
        for name in self._targets:
            self._targets_changed(name)

    @property
    @abstractmethod
    def time(self) -> float:
        """Simulated time since the last reset [s]."""

    @property
    @abstractmethod
    def time_step(self) -> float:
        """Length of one step [s]."""

    @abstractmethod
    def step(self, count: int = 1) -> None:
        """Advance by ``count`` steps; by none when it is less than one.

        Raises:
            SimulationDiverged: when the state is not finite any more; reset() is needed.
        """

    @abstractmethod
    def state(self, name: str) -> MeasuredJoints:
        """Return position, velocity and effort of all joints of a robot.

        Raises:
            UnknownRobot: lists the robots there are.
        """

    @abstractmethod
    def base_pose(self, name: str) -> Array:
        """Return the true ``X_WB`` of a robot's base frame, shape (4, 4), read-only.

        Raises:
            UnknownRobot: lists the robots there are.
        """

    @abstractmethod
    def base_twist(self, name: str) -> Array:
        """Return the true (linear, angular) velocity of the base frame, in itself, read-only.

        Shape (6,) [m/s, rad/s].

        Raises:
            UnknownRobot: lists the robots there are.
        """

    @abstractmethod
    def _reset_state(self) -> None:
        """Put the joints to home, the bases to their places, and time to zero."""

    @abstractmethod
    def _targets_changed(self, name: str) -> None:
        """Bring new targets of a robot into force."""


def _commanded(channels: Array) -> NDArray[np.bool_]:
    """Return which joints have a value in one of the channels, shape (k, n)."""
    return np.asarray(~np.isnan(channels).all(axis=0))


def root_to_base(robot: Robot) -> Array:
    """Return ``X_RB``: the base frame in the root link, shape (4, 4), read-only.

    Raises:
        InvalidDescription: when joints that move lie between the two.
    """
    X_RB = np.eye(4)
    for joint in robot.chain(robot.tree.root, robot.base_frame):
        if joint.movable:
            raise InvalidDescription(
                f"{robot.name}: the base frame '{robot.base_frame}' must be joined rigidly to the "
                f"root link '{robot.tree.root}'; joint '{joint.name}' moves between them."
            )
        X_RB = X_RB @ joint.X_PJ
    return frozen(X_RB)


def rigid_pose(X: object, what: str) -> Array:
    """Return a read-only copy of a pose after checking that it is one.

    Raises:
        InvalidConfig: when it is not a finite (4, 4) rigid transform.
    """
    pose = np.array(X, dtype=np.float64)
    if pose.shape != (4, 4):
        raise InvalidConfig(f"{what} must be a (4, 4) matrix, has shape {pose.shape}.")
    R = pose[:3, :3]
    rigid = (
        bool(np.isfinite(pose).all())
        and np.allclose(R @ R.T, np.eye(3), atol=1e-6)
        and float(np.linalg.det(R)) > 0.0
        and np.allclose(pose[3], (0.0, 0.0, 0.0, 1.0), atol=1e-9)
    )
    if not rigid:
        raise InvalidConfig(
            f"{what} must be a rigid transform (rotation, translation, last row 0 0 0 1):\n{pose}"
        )
    return frozen(pose)
