# SPDX-License-Identifier: Apache-2.0
"""Execution of one trajectory, with monitoring of its tolerances.

Tracking tolerances of joints, with the special values of control_msgs. Source:
control_msgs/JointTolerance: 0 means "not given, use the default", -1 means "none". Its
accelerations are not checked: joint_states contain none, and numerical differences are too noisy.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.tree import frozen
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory, TrajectorySample
from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.typing import Array

NO_TOLERANCE = -1.0
"""Value of a request for no tolerance."""


@dataclass(frozen=True)
class ToleranceRequest:
    """Tolerance requested for one joint; -1: none; 0 and other negative values: the default."""

    joint: str
    position: float = 0.0
    """Position tolerance [rad or m]."""
    velocity: float = 0.0
    """Velocity tolerance [rad/s or m/s]."""


@dataclass(frozen=True, eq=False)
class Tolerances:
    """Tolerances of n joints, infinite where there is none."""

    position: Array
    """Position tolerances [rad or m], shape (n,)."""
    velocity: Array
    """Velocity tolerances [rad/s or m/s], shape (n,)."""

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        object.__setattr__(self, "position", frozen(self.position))
        object.__setattr__(self, "velocity", frozen(self.velocity))

    @classmethod
    def of(cls, position: ArrayLike, velocity: ArrayLike = 0.0) -> Tolerances:
        """Return tolerances, one per joint (velocity also as a scalar); 0 or less: none."""
        q = np.asarray(position, dtype=np.float64)
        v = np.broadcast_to(np.asarray(velocity, dtype=np.float64), q.shape)
        return cls(np.where(q > 0.0, q, np.inf), np.where(v > 0.0, v, np.inf))

    @classmethod
    def uniform(cls, n: int, position: float, velocity: float = 0.0) -> Tolerances:
        """Return the same tolerances [rad or m, per s] for n joints; 0 or less means none."""
        return cls.of(np.full(n, position), velocity)

    def requested(
        self, requests: Iterable[ToleranceRequest], joint_names: Sequence[str]
    ) -> Tolerances:
        """Return these tolerances, overridden by a client's requests.

        Args:
            requests: tolerances of joints by name.
            joint_names: names of the n joints.

        Raises:
            UnknownJoint: a joint that is not among ``joint_names``.
            InvalidCommand: a value that is NaN or infinite.
        """
        position, velocity = self.position.copy(), self.velocity.copy()
        for request in requests:
            if request.joint not in joint_names:
                raise UnknownJoint(request.joint, joint_names, "the goal's tolerances")
            i = list(joint_names).index(request.joint)
            for values, requested_value in (
                (position, request.position),
                (velocity, request.velocity),
            ):
                if not np.isfinite(requested_value):
                    raise InvalidCommand(
                        f"a tolerance of joint {request.joint} is {requested_value}"
                    )
                if requested_value > 0.0 or requested_value == NO_TOLERANCE:
                    values[i] = requested_value if requested_value > 0.0 else np.inf
        return Tolerances(position, velocity)

    def violation(
        self, position_error: Array, velocity_error: Array, joint_names: Sequence[str]
    ) -> str | None:
        """Return which joint exceeds its tolerance, as text, or None.

        Args:
            position_error: reference minus measured [rad or m], shape (n,).
            velocity_error: reference minus measured [rad/s or m/s], shape (n,).
            joint_names: names of the n joints, for the text.
        """
        rows = (
            ("position", position_error, self.position),
            ("velocity", velocity_error, self.velocity),
        )
        for what, error, bound in rows:
            excess = np.abs(error) > bound
            if excess.any():
                i = int(np.argmax(excess))
                return (
                    f"{what} of joint {joint_names[i]} is off by {abs(error[i]):.4g}, "
                    f"tolerance {bound[i]:.4g}"
                )
        return None


class FollowStatus(enum.Enum):
    """Status of a trajectory."""

    WAITING = "waiting"
    """Its start time is in the future."""
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    PATH_TOLERANCE_VIOLATED = "path tolerance violated"
    GOAL_TOLERANCE_VIOLATED = "goal tolerance violated"
    PREEMPTED = "preempted"
    """Preempted by another command to one of its joints."""
    CANCELED = "canceled"
    """Canceled by its sender."""
    ABORTED = "aborted"
    """Aborted by the controller: robot state lost, time jumped, or controller deactivated."""

    @property
    def ended(self) -> bool:
        """Whether the status is final."""
        return self not in (FollowStatus.WAITING, FollowStatus.RUNNING)


@dataclass(frozen=True, kw_only=True, eq=False)
class FollowGoal:
    """A trajectory and its tolerances."""

    trajectory: JointTrajectory
    path: Tolerances
    """Path tolerances."""
    goal: Tolerances
    """Goal tolerances."""
    goal_time: float = 0.0
    """Max time after the end of the trajectory to reach the goal [s]; 0: unlimited."""
    guard: Array | None = None
    """Distance of a joint from its reference beyond which it counts as blocked [rad or m], shape
    (n,): infinite to disable, NaN for the default; None: default for all."""
    within: JointLimits | None = None
    """Limits of all joints that the trajectory was validated against; None: not validated."""
    cmd_timeout: float = 0.0
    """Time after the end at which it fails if the goal is not reached [s]; 0: none."""
    rate: float = 1.0
    """Playback rate, see :mod:`motion_nodes.core.trajectory.trajectory_checks`."""


class TrajectoryFollower:
    """Progress of one goal.

    Time advances by ``dt`` times the speed scaling, so slowing down preserves the path.
    """

    def __init__(self, goal: FollowGoal, delay: float = 0.0) -> None:
        """Start in ``delay`` [s]; a negative delay starts within the trajectory."""
        self.goal = goal
        self.status = FollowStatus.WAITING if delay > 0.0 else FollowStatus.RUNNING
        self.text = ""
        """Error description."""
        self._time = -delay
        self._over = 0.0
        self.rate = goal.rate
        """Current playback rate, with the speed scaling."""
        self.elapsed = -delay
        """Time since the start [s], without scaling; negative before it."""

    def of_joints(self, columns: NDArray[np.intp]) -> TrajectoryFollower:
        """Return a follower of the same trajectory at the same time for some joints, by index."""
        goal = self.goal
        guard = None if goal.guard is None else goal.guard[columns]
        path, end = (
            Tolerances(each.position[columns], each.velocity[columns])
            for each in (goal.path, goal.goal)
        )
        part = TrajectoryFollower(
            dataclasses.replace(
                goal,
                trajectory=goal.trajectory.of_joints(columns),
                path=path,
                goal=end,
                guard=guard,
            ),
            -self._time,
        )
        part.elapsed, part.rate = self.elapsed, self.rate
        return part

    def starts_in(self, dt: float) -> bool:
        """Return whether a trajectory that waits begins within ``dt`` [s]."""
        return self.status is FollowStatus.WAITING and self._time + dt >= 0.0

    def connect(self, start: TrajectorySample) -> None:
        """Connect a trajectory that waits to the state at its start."""
        joined = self.goal.trajectory.starting_from(start)
        self.goal = dataclasses.replace(self.goal, trajectory=joined)

    def wait(self, dt: float) -> None:
        """Count the time [s] after the trajectory has ended."""
        self._time += dt
        self.elapsed += dt

    @property
    def joint_names(self) -> Sequence[str]:
        """Joints of the trajectory, in its order."""
        return self.goal.trajectory.joint_names

    @property
    def time(self) -> float:
        """Time within the trajectory [s]; negative before its start."""
        return self._time

    def advance(self, dt: float, scaling: float = 1.0) -> TrajectorySample | None:
        """Advance by ``dt`` [s] and return the reference; None before the start."""
        self.rate = scaling = scaling * self.goal.rate
        self.elapsed += dt
        self._time += dt if self.status is FollowStatus.WAITING else dt * scaling
        if self._time < 0.0:
            return None
        if self.status is FollowStatus.WAITING:
            self.status = FollowStatus.RUNNING
        return self.sample_in(0.0, scaling)

    def sample_in(self, duration: float, rate: float) -> TrajectorySample:
        """Return the reference after a duration [s] from now, at a playback rate."""
        sample = self.goal.trajectory.sample(self._time + duration * rate)
        return sample if rate == 1.0 else sample.at_rate(rate)

    def evaluate(
        self,
        sample: TrajectorySample,
        position: Array,
        velocity: Array,
        dt: float,
        *,
        fresh: bool = True,
    ) -> None:
        """Compare the reference with a measurement; may end the goal.

        Args:
            sample: the current reference.
            position: measured positions of the trajectory's joints [rad or m], shape (n,).
            velocity: measured velocities [rad/s or m/s], shape (n,).
            dt: time since the last call [s].
            fresh: whether this was measured since the last call. If not, the reference has moved on
                and only time is counted.
        """
        if self.status is not FollowStatus.RUNNING:
            return
        if not fresh:
            self._over += dt if self._time >= self.goal.trajectory.end_time else 0.0
            return
        position_error = sample.position - position
        velocity_error = sample.velocity - velocity
        if self._time < self.goal.trajectory.end_time:
            text = self.goal.path.violation(position_error, velocity_error, self.joint_names)
            if text is not None:
                self.end(FollowStatus.PATH_TOLERANCE_VIOLATED, f"path tolerance violated: {text}")
            return
        text = self.goal.goal.violation(position_error, velocity_error, self.joint_names)
        if text is None:
            self.end(FollowStatus.SUCCEEDED, "")
            return
        self._over += dt
        if 0.0 < self.goal.cmd_timeout < self._over:
            self.end(
                FollowStatus.GOAL_TOLERANCE_VIOLATED,
                f"command timeout {self.goal.cmd_timeout:g} s after the end: {text}",
            )
        elif 0.0 < self.goal.goal_time < self._over:
            self.end(
                FollowStatus.GOAL_TOLERANCE_VIOLATED,
                f"goal tolerance violated {self.goal.goal_time:g} s after the end: {text}",
            )

    def end(self, status: FollowStatus, text: str) -> None:
        """Set the final status and its reason, once."""
        if self.status.ended:
            return
        self.status, self.text = status, text
