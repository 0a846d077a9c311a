# SPDX-License-Identifier: Apache-2.0
"""Interface of simulated robot cells, with and without physics, and the cell without: the mock.

A cell contains one or more robots, each with a name and a pose in the world. All joint arrays are
in the order of ``joint_names(name)``. Times are simulated time, paced by the caller.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.bases.from_robot import base_of, root_height
from motion_nodes.core.bases.odometry import Odometry
from motion_nodes.core.control.reference_tracks import ReferenceTracks
from motion_nodes.core.control.stream_resampler import ResamplerSettings, StreamSample
from motion_nodes.core.robot.bounds import repeated
from motion_nodes.core.robot.configurations import Followers
from motion_nodes.core.robot.inverse_dynamics import STANDARD_GRAVITY
from motion_nodes.core.robot.poses import rigid_pose
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import frozen
from motion_nodes.errors import InvalidConfig, InvalidDescription, MotionError, did_you_mean
from motion_nodes.extras.sim.drive_targets import DriveMode, DriveTargets, JointTargets
from motion_nodes.typing import Array

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
MAX_UNFOLLOWED_NS = 40_000_000
"""Max time for which the streams of resting references are not followed [ns]."""


@dataclass(frozen=True)
class RobotPlacement:
    """A robot with its name and pose in the cell.

    Raises:
        InvalidConfig: the name is not an identifier, or the pose not a rigid transform.
    """

    robot: Robot
    """The robot."""
    name: str
    """Letters, digits and underscores; prefix of the robot's names in the world."""
    X_WR: Array = field(default_factory=lambda: frozen(np.eye(4)))
    """Pose in the world, shape (4, 4): of the root link for an arm; of the point on the ground
    below the root link for a wheeled base, which is placed on its wheels there."""

    def __post_init__(self) -> None:
        """Validate name and pose, and store a read-only copy of the pose."""
        if not _NAME.fullmatch(self.name):
            raise InvalidConfig(
                f"robot name '{self.name}' in the simulated cell must start with a letter and "
                "contain only letters, digits and underscores.",
                field=self.name,
            )
        X_WR = rigid_pose(self.X_WR, f"placement of '{self.name}'", error=InvalidConfig)
        object.__setattr__(self, "X_WR", frozen(X_WR))


def root_to_base(robot: Robot) -> Array:
    """Return ``X_RB``, the pose of the base frame in the root link, shape (4, 4), read-only.

    Args:
        robot: the robot.

    Raises:
        InvalidDescription: there is a movable joint between the two.
    """
    X_RB = np.eye(4)
    for joint in robot.chain(robot.tree.root, robot.base_frame):
        if joint.movable:
            raise InvalidDescription(
                f"{robot.name}: the base frame '{robot.base_frame}' must be rigidly connected to "
                f"the root link '{robot.tree.root}', but joint '{joint.name}' is movable."
            )
        X_RB = X_RB @ joint.X_PJ
    return frozen(X_RB)


class UnknownRobot(MotionError, LookupError):
    """A robot name that the simulated cell does not have."""

    def __init__(self, given: str, allowed: Iterable[str]) -> None:
        """Create the error of a name ``given``; ``allowed`` are those of the cell's robots."""
        self.given, self.allowed = given, tuple(allowed)
        hint = did_you_mean(given, allowed)
        super().__init__(f"the simulated cell has no robot '{given}'.{hint}")


class SimulationDiverged(MotionError, RuntimeError):
    """The state became non-finite or exceeded the velocity bound; ``reset()`` is required."""


class MeasuredJoints(NamedTuple):
    """State of all joints of a robot at one time; the arrays are read-only copies."""

    position: Array
    """Positions [rad or m], shape (n,)."""
    velocity: Array
    """Velocities [rad/s or m/s], shape (n,)."""
    effort: Array
    """Saturated efforts of the drives [N m or N], shape (n,)."""
    followers: Array
    """Positions and velocities of the mimic joints, by :func:`.follower_names`, shape (2, m)."""


class _CheckedSample(NamedTuple):
    """A validated sample of a stream, from its targets."""

    targets: JointTargets
    sample: StreamSample
    joints: NDArray[np.bool_]
    """The joints that it commands, shape (n,)."""


class RobotBackend(ABC):
    """A cell of simulated robots.

    The finite channels of a joint's command select its drive mode:

    - position (with or without velocity and effort): PD control with the gains of the robot's
      description; effort is added as feedforward;
    - velocity without position: ``kp = 0`` and ``kd`` as described, velocity control;
    - effort alone: ``kp = kd = 0``.

    The drive law is ``tau = kp (q* - q) + kd (v* - v) + effort``, ``|tau| <= effort limit``. NaN
    keeps the previous target of a channel; a joint with NaN in all channels is unchanged. A change
    of mode clears the targets of the previous mode. Before the first command, position drives hold
    the home state and velocity drives hold zero velocity.
    """

    def __init__(self, placements: Sequence[RobotPlacement]) -> None:
        """Create the drive targets of all robots.

        Args:
            placements: the robots of the cell, with unique names.

        Raises:
            InvalidConfig: no robot, or two robots with the same name.
        """
        if not placements:
            raise InvalidConfig("a simulated cell needs at least one robot.")
        names = [placement.name for placement in placements]
        duplicates = repeated(names)
        if duplicates:
            raise InvalidConfig(
                f"two robots of the simulated cell have the name '{duplicates[0]}'.",
                field=duplicates[0],
            )
        self.placements = tuple(placements)
        self._targets = {p.name: DriveTargets(p.name, p.robot) for p in placements}
        self._checked: dict[str, _CheckedSample] = {}
        """The last sample of a stamped stream, by robot."""
        self._merged: dict[str, StreamSample | None] = {}
        """The references that were merged last, by robot."""
        self._settled = False
        """Whether all references stay as they are until a stream has another sample."""
        self._skipped, self._reached, self._followed = False, 0, 0
        """Whether the last step followed no stream; its time; when they were followed [ns]."""
        self.set_resampling(ResamplerSettings())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the robots in the cell."""
        return tuple(self._targets)

    def joint_names(self, name: str) -> tuple[str, ...]:
        """Return the actuated joints of a robot, in the order of all its arrays.

        Raises:
            UnknownRobot: lists the robots of the cell.
        """
        return self.targets(name).joint_names

    def targets(self, name: str) -> DriveTargets:
        """Return the current targets and modes of a robot.

        Raises:
            UnknownRobot: lists the robots of the cell.
        """
        try:
            return self._targets[name]
        except KeyError:
            raise UnknownRobot(name, self._targets) from None

    def command(self, name: str, targets: JointTargets) -> None:
        """Set targets of a robot, effective from the next step.

        Args:
            name: the robot.
            targets: arrays in joint order; NaN or None: no command.

        Raises:
            UnknownRobot: lists the robots of the cell.
            InvalidCommand: names joint and value; the whole command is rejected.
        """
        current = self.targets(name)
        channels = current.check(targets)
        given = _commanded(channels)
        if given.any():
            self._settled = False
            self._tracks[name].drop(given)
            current.merge(*channels)
            current.renew(given, self.time)
            self._targets_changed(name)

    def set_gains(self, name: str, stiffness: ArrayLike, damping: ArrayLike) -> None:
        """Replace the gains of a robot's drives; see :meth:`.DriveTargets.set_gains`.

        Raises:
            UnknownRobot: lists the robots of the cell.
            InvalidCommand: wrong shapes, or gains out of range; nothing changes.
        """
        self.targets(name).set_gains(stiffness, damping)
        self._targets_changed(name)

    def stream(self, name: str, targets: JointTargets, stamp_ns: int) -> None:
        """Add a sample of a stamped reference stream, effective at its stamp plus the latency.

        :meth:`advance` plays the streams back. Joints with an effort alone, and all joints of a
        robot whose gains are set, are commanded immediately, because the sender closes a control
        loop over the robot.

        Args:
            name: the robot.
            targets: as for :meth:`command`; an object that is passed again must be unchanged.
            stamp_ns: time stamp of the sample [ns], on the clock of :meth:`advance`.

        Raises:
            UnknownRobot: lists the robots of the cell.
            InvalidCommand: names joint and value; the whole sample is rejected.
        """
        current = self.targets(name)
        last = self._checked.get(name)
        if last is not None and last.targets is targets and not current.gains_are_set:
            # Most samples of a robot at rest equal the previous one.
            self._tracks[name].push(stamp_ns, last.sample, last.joints)
            current.renew(last.joints, self.time)
            return
        if self._skipped:  # otherwise the sample would not be late
            self._follow(self._reached)
        self._settled, self._skipped = False, False
        channels = current.check(targets)
        given = _commanded(channels)
        streamed = _commanded(channels[:2]) & (not current.gains_are_set)
        immediate = given & ~streamed
        if immediate.any():
            self._tracks[name].push_immediate(stamp_ns, immediate)
            current.merge(*np.where(immediate, channels, np.nan))
            self._targets_changed(name)
        if streamed.any():
            sample = StreamSample(*np.where(streamed, channels, np.nan))
            self._tracks[name].push(stamp_ns, sample, streamed)
            if not immediate.any():
                self._checked[name] = _CheckedSample(targets, sample, streamed)
        current.renew(given, self.time)

    def advance(self, count: int, begin_ns: int, pace: float = 1.0) -> None:
        """Advance by ``count`` steps, each with the streams' references at its end.

        Args:
            count: number of steps; no step if below 1.
            begin_ns: start time on the clock of the streams' stamps [ns].
            pace: simulated time per time of that clock [s/s] (real-time factor).

        Raises:
            SimulationDiverged: see :meth:`step`.
        """
        done = 0
        while done < count:
            # At rest, all steps have the same references.
            end = count if self._settled else done + 1
            time_ns = begin_ns + round(1e9 * end * self.time_step / pace)
            self._settled = self._stays(time_ns) or self._follow(time_ns)
            if self._settled and end < count:
                continue
            self.step(end - done)
            done = end

    def _stays(self, time_ns: int) -> bool:
        """Return whether the streams need not be followed; they drop old samples at times."""
        skips = self._settled and 0 <= time_ns - self._followed < MAX_UNFOLLOWED_NS
        self._skipped, self._reached = skips, time_ns
        return skips

    def _follow(self, time_ns: int) -> bool:
        """Merge the streams' references at a time [ns]; return whether they are all at rest."""
        known, self._followed = True, time_ns
        for name, tracks in self._tracks.items():
            sample = tracks.sample(time_ns)
            if sample is None:
                known &= not tracks.streaming
            elif sample is not self._merged.get(name):
                self._merged[name] = sample
                self._targets[name].merge(*sample)
                self._targets_changed(name)
        return known and all(tracks.resting for tracks in self._tracks.values())

    def covered_ns(self) -> int | None:
        """Return the time up to which all streams have references [ns]; None: no bound."""
        times = (tracks.covered_ns for tracks in self._tracks.values())
        return min((time for time in times if time is not None), default=None)

    def end_late_streams(self, time_ns: int, *, resting: bool) -> None:
        """End the streams that do not cover a time [ns]; see :class:`ReferenceTracks`."""
        for tracks in self._tracks.values():
            tracks.end_late(time_ns, resting=resting)

    @property
    def extrapolated(self) -> int:
        """Number of samples of moving references that had to be extrapolated, by active streams."""
        return sum(tracks.extrapolated for tracks in self._tracks.values())

    def set_resampling(self, settings: ResamplerSettings) -> None:
        """Replace the settings of the resampler; active streams are discarded."""
        self._settled = False
        self._tracks = {
            name: ReferenceTracks(
                targets.table.velocity_limit, settings, (targets.table.lower, targets.table.upper)
            )
            for name, targets in self._targets.items()
        }

    def release(self, name: str, joints: Collection[str] | None = None) -> None:
        """Zero the velocity and effort targets of joints; position targets are kept.

        Args:
            name: the robot.
            joints: names of the joints; None: all.

        Raises:
            UnknownRobot: lists the robots of the cell.
            UnknownJoint: lists the joints of the robot; nothing is released.
        """
        chosen = self.joint_names(name) if joints is None else joints
        released = self.targets(name).release(joints)
        self._settled = False
        self._tracks[name].drop(np.isin(self.joint_names(name), list(chosen)))
        if released:
            self._targets_changed(name)

    def release_stale(self, name: str, timeout: float) -> tuple[str, ...]:
        """Release the joints whose last command is older than a timeout (watchdog).

        Args:
            name: the robot.
            timeout: max age of a command in simulated time [s].

        Returns:
            Joints whose velocity or effort target was not zero.

        Raises:
            UnknownRobot: lists the robots of the cell.
        """
        targets, tracks = self.targets(name), self._tracks[name]
        if not targets.may_be_stale(self.time, timeout):
            return ()
        if tracks.driven:
            self._settled = False
            tracks.drop(targets.stale(self.time, timeout))
        released = targets.release_stale(self.time, timeout)
        if released:
            self._targets_changed(name)
        return released

    def reset(self) -> None:
        """Reset the cell to its initial state, including the time."""
        for targets in self._targets.values():
            targets.reset()
        for tracks in self._tracks.values():
            tracks.clear()
        self._merged.clear()
        self._settled = False
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

    @property
    @abstractmethod
    def sleeps(self) -> bool:
        """Whether steps change nothing but the time, as long as the references stay the same."""

    @abstractmethod
    def pass_time(self, count: int) -> None:
        """Advance the time alone by ``count`` steps, while :attr:`sleeps`."""

    def references_rest(self) -> bool:
        """Return whether all references stay as they are until a stream has another sample."""
        return self._settled

    def slack_ns(self, name: str, stamp_ns: int) -> int:
        """Return how far simulated time may advance after a stream's newest sample [ns].

        Args:
            name: the robot.
            stamp_ns: stamp of the sample [ns].

        Returns:
            The time after the stamp; -1: no bound.
        """
        covered = self._tracks[name].covered_ns
        return -1 if covered is None else max(covered - stamp_ns, 0)

    @abstractmethod
    def step(self, count: int = 1) -> None:
        """Advance by ``count`` steps; no step if below 1.

        Raises:
            SimulationDiverged: the state is not finite; reset() is required.
        """

    @abstractmethod
    def state(self, name: str) -> MeasuredJoints:
        """Return positions, velocities and efforts of all joints of a robot.

        Raises:
            UnknownRobot: lists the robots of the cell.
        """

    @abstractmethod
    def base_pose(self, name: str) -> Array:
        """Return the ground-truth pose ``X_WB`` of a robot's base frame, shape (4, 4), read-only.

        Raises:
            UnknownRobot: lists the robots of the cell.
        """

    @abstractmethod
    def base_twist(self, name: str) -> Array:
        """Return the ground-truth twist of the base frame, expressed in the base frame.

        Returns:
            Linear velocity [m/s], then angular velocity [rad/s], shape (6,), read-only.

        Raises:
            UnknownRobot: lists the robots of the cell.
        """

    def base_acceleration(self, name: str) -> Array:
        """Return the acceleration that an accelerometer in the base frame measures.

        Without physics it is the reaction to gravity of a body at rest.

        Returns:
            Linear acceleration minus gravity, in the base frame [m/s^2], shape (3,), read-only.

        Raises:
            UnknownRobot: lists the robots of the cell.
        """
        return frozen(-self.base_pose(name)[:3, :3].T @ np.asarray(STANDARD_GRAVITY))

    @abstractmethod
    def _reset_state(self) -> None:
        """Reset joints to home, bases to their placements, and the time to zero."""

    @abstractmethod
    def _targets_changed(self, name: str) -> None:
        """Apply new targets of a robot."""


def _commanded(channels: Array) -> NDArray[np.bool_]:
    """Return which joints have a finite value in any of the channels, shape (n,)."""
    return np.asarray(~np.isnan(channels).all(axis=0))


class MockWorld(RobotBackend):
    """Massless robots that follow their targets exactly."""

    def __init__(self, placements: Sequence[RobotPlacement], time_step: float = 0.002) -> None:
        """Create the cell with all robots in their home states.

        Args:
            placements: robots with their names and poses.
            time_step: length of a step [s], above 0.

        Raises:
            InvalidConfig: no robot, two robots with the same name, or an invalid time step.
        """
        if not (np.isfinite(time_step) and time_step > 0.0):
            raise InvalidConfig(
                f"time_step is {time_step} s; it must be finite and above 0.", field="time_step"
            )
        super().__init__(placements)
        self._time_step = float(time_step)
        self._steps = 0
        self._robots = {
            p.name: _MockRobot(p, targets)
            for p, targets in zip(self.placements, self._targets.values(), strict=True)
        }

    @property
    def time(self) -> float:
        """Simulated time since the last reset [s]."""
        return self._steps * self._time_step

    @property
    def time_step(self) -> float:
        """Length of one step [s]."""
        return self._time_step

    @property
    def sleeps(self) -> bool:
        """Whether all joints rest at their targets."""
        return not any(robot.moved for robot in self._robots.values())

    def pass_time(self, count: int) -> None:
        """Advance the time alone."""
        self._steps += count

    def step(self, count: int = 1) -> None:
        """Advance by ``count`` steps, at the cost of one."""
        if count < 1:
            return
        for robot in self._robots.values():
            robot.advance(count, self._time_step)
        self._steps += count

    def state(self, name: str) -> MeasuredJoints:
        """Return positions, velocities and efforts of all joints of a robot."""
        robot = self._robot(name)
        channels = (robot.q, robot.v, robot.effort, robot.followers())
        return MeasuredJoints(*map(frozen, channels))

    def base_pose(self, name: str) -> Array:
        """Return the ground-truth ``X_WB`` of a robot's base frame, shape (4, 4), read-only."""
        return self._robot(name).pose()

    def base_twist(self, name: str) -> Array:
        """Return the ground-truth twist of the base frame in itself, shape (6,), read-only."""
        twist = self._robot(name).odometry.twist
        return frozen((twist.vx, twist.vy, 0.0, 0.0, 0.0, twist.wz))

    def _robot(self, name: str) -> _MockRobot:
        """Return the state of a robot; raises UnknownRobot."""
        self.targets(name)
        return self._robots[name]

    def _reset_state(self) -> None:
        """Reset joints to home, bases to their placements, and the time to zero."""
        self._steps = 0
        for robot in self._robots.values():
            robot.reset()

    def _targets_changed(self, name: str) -> None:
        """Do nothing: targets are read at each step."""


class _MockRobot:
    """Joint state and base pose of one robot."""

    def __init__(self, placement: RobotPlacement, targets: DriveTargets) -> None:
        self._targets = targets
        self._table = targets.table
        self._followers = Followers(placement.robot.tree)
        spec = placement.robot.base
        self._base = base_of(placement.robot) if spec is not None else None
        self._wheels = [
            self._table.joint_names.index(wheel)
            for wheel in (self._base.wheel_names if self._base is not None else ())
        ]
        self._steering = [
            self._table.joint_names.index(joint)
            for joint in (self._base.steering_names if self._base is not None else ())
        ]
        X_WR = np.array(placement.X_WR)
        if self._base is not None:
            X_WR[:3, 3] += X_WR[:3, 2] * root_height(placement.robot)
        self._X_WB0 = X_WR @ root_to_base(placement.robot)
        self.reset()

    def reset(self) -> None:
        """Return to the home state."""
        self.q: Array = np.array(self._table.home)
        self.v: Array = np.zeros_like(self.q)
        self.effort: Array = np.zeros_like(self.q)
        self.odometry = Odometry()
        self.moved = True
        """Whether the last advance changed the state."""

    def followers(self) -> tuple[Array, Array]:
        """Return positions and velocities of the mimic joints."""
        return self._followers.positions(self.q), self._followers.rates(self.v)

    def pose(self) -> Array:
        """Return ``X_WB`` of the base frame."""
        X_B0B = np.eye(4)
        c, s = np.cos(self.odometry.yaw), np.sin(self.odometry.yaw)
        X_B0B[:2, :2] = ((c, -s), (s, c))
        X_B0B[:2, 3] = (self.odometry.x, self.odometry.y)
        return frozen(self._X_WB0 @ X_B0B)

    def advance(self, count: int, time_step: float) -> None:
        """Advance all joints by ``count`` steps at once, then the base by its wheel motion."""
        table, mode = self._table, self._targets.mode
        before, duration = self.q, count * time_step
        stride = table.velocity_limit * time_step
        error = self._targets.position - before
        # The reported velocity is that of the last step.
        ahead = np.clip(error, -stride * (count - 1), stride * (count - 1)) if count > 1 else 0.0
        last = np.clip(error - ahead, -stride, stride)
        tracking = before + ahead + last
        speed = np.clip(self._targets.velocity, -table.velocity_limit, table.velocity_limit)
        rolling = before + speed * duration
        positioned, driven = mode == DriveMode.POSITION, mode == DriveMode.VELOCITY
        q = np.where(positioned, tracking, np.where(driven, rolling, before))
        # A joint at a moving target has the target's velocity.
        along = (np.abs(error) <= stride * count) & (np.nan_to_num(speed) != 0.0)
        arriving = np.where(along, speed, last / time_step)
        v = np.where(positioned, arriving, np.where(driven, speed, 0.0))
        self.q = np.clip(q, table.lower, table.upper)
        self.v = np.where(self.q == q, v, 0.0)
        effort = np.clip(self._targets.effort, -table.effort_limit, table.effort_limit)
        self.moved = bool(
            (self.v != 0.0).any() or (self.q != before).any() or (effort != self.effort).any()
        )
        self.effort = effort
        if self._base is not None:
            steering = 0.5 * (self.q + before)[self._steering]
            path = self._base.twist_from_wheels((self.q - before)[self._wheels], steering)
            self.odometry.advance(path, duration)
            self.odometry.twist = self._base.twist_from_wheels(
                self.v[self._wheels], self.q[self._steering]
            )
