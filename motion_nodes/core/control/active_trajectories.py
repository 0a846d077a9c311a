# SPDX-License-Identifier: Apache-2.0
"""Active trajectories: checks before the start, playback with tolerances, stops along their paths.

Tracking tolerances have the special values of control_msgs. Source: control_msgs/JointTolerance: 0
means "not given, use the default", -1 means "none". Its accelerations are not checked: joint_states
contain none, and numerical differences are too noisy.

At a stop the playback rate r is reduced from its current value to 0, within acceleration and jerk
limits. With velocity v and acceleration a of the trajectory, the joints have the velocity ``v r``
and the acceleration ``a r^2 + v dr/dt``, so the limits A and J of each joint bound the slope of the
rate:

    dr/dt >= -(A + sign(v) a r^2) / |v|,    |d^2 r/dt^2| <= J / |v|

Source: the path-velocity decomposition of time-optimal control along a path, Bobrow, Dubowsky and
Gibson 1985.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.control.joint_guard import NO_JOINTS, REST_SPEED
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.tree import frozen
from motion_nodes.core.trajectory.joint_trajectory import (
    JointTrajectory,
    TrajectorySample,
    rest_to_rest_duration,
)
from motion_nodes.core.trajectory.trajectory_checks import (
    validate,
    validate_joined_speeds,
    validate_return,
    validate_start,
)
from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.tolerances import STANDING_SPEED, ZERO_SPEED
from motion_nodes.typing import Array

NO_TOLERANCE = -1.0
"""Value of a request for no tolerance."""

SHARE = 0.2
"""Fraction of the velocity and acceleration limits used for the correction."""
SHORTEST = 0.1
"""Min duration of a correction [s]."""
_SHARE = 0.95
"""Fraction of the limits that a stop uses, a margin for changes within a step."""
Joints = NDArray[np.intp]


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


class TrajectoryProgress(NamedTuple):
    """Snapshot of a trajectory's progress; replaced as a whole, so any thread may read it."""

    time: float
    """Time within the trajectory [s]."""
    desired: TrajectorySample
    """Current reference."""
    position: Array
    """Measured positions at that time [rad or m]."""
    velocity: Array
    """Measured velocities at that time [rad/s or m/s]."""
    elapsed: float = 0.0
    """Time since its start [s], without speed scaling."""


class TrajectoryFollower:
    """An active trajectory: the progress of one goal.

    Time advances by ``dt`` times the speed scaling, so slowing down preserves the path.
    """

    def __init__(
        self, goal: FollowGoal, delay: float = 0.0, label: str = "", joints: Joints = NO_JOINTS
    ) -> None:
        """Start a goal.

        Args:
            goal: the trajectory and its tolerances.
            delay: time until the start [s]; negative: it starts within the trajectory.
            label: name of its sender, for messages to other clients.
            joints: indices of its joints in the controller, shape (k,).
        """
        self.goal, self.label, self.joints = goal, label, joints
        self.sample: TrajectorySample | None = None
        """Current reference, None before the start."""
        self.progress: TrajectoryProgress | None = None
        """Progress at the last check, None before the start."""
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
            self.label,
            self.joints[columns],
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


def allowed_start(start: Array, reference: Array, measured: Array, speed: Array) -> Array:
    """Return valid start positions of a trajectory: the reference, or measured joints at rest.

    After a blocked motion these differ for a short time, and planners use measured positions.

    Args:
        start: first point of the trajectory [rad or m], shape (k,).
        reference: reference of the controller [rad or m], shape (k,).
        measured: measured positions [rad or m], shape (k,).
        speed: measured velocities [rad/s or m/s], shape (k,).

    Returns:
        For each joint the closer of the two, shape (k,).
    """
    nearer = np.abs(start - measured) < np.abs(start - reference)
    return np.where(nearer & (np.abs(speed) < REST_SPEED), measured, reference)


def return_goal(
    names: tuple[str, ...], start: Array, end: Array, limits: JointLimits
) -> FollowGoal:
    """Return a slow, smooth motion of a reference from rest to rest, without tolerances.

    Args:
        names: names of the joints.
        start: start positions [rad or m], shape (k,).
        end: end positions [rad or m], shape (k,); no further outside of the limits than the start.
        limits: limits of these joints, of which a fraction is used.
    """
    end = end.clip(np.minimum(limits.lower, start), np.maximum(limits.upper, start))
    usable = (SHARE * limits.velocity, SHARE * limits.acceleration, SHARE * limits.jerk)
    duration = max(SHORTEST, rest_to_rest_duration(np.abs(end - start), *usable))
    still = np.zeros((2, len(names)))
    none = Tolerances.uniform(len(names), 0.0)
    trajectory = JointTrajectory(
        names, np.array([0.0, duration]), np.array([start, end]), still, still
    )
    return FollowGoal(trajectory=trajectory, path=none, goal=none)


class PathBrake:
    """Stop of one trajectory."""

    def __init__(
        self, trajectory: JointTrajectory, limits: JointLimits, time: float, rate: float
    ) -> None:
        """Start the stop.

        Args:
            trajectory: trajectory within the limits.
            limits: limits of its joints, in its order.
            time: current time within the trajectory [s].
            rate: current playback rate.
        """
        self._trajectory, self._time, self._rate = trajectory, time, rate
        self._acceleration, self._jerk = _SHARE * limits.acceleration, _SHARE * limits.jerk
        self._slope = 0.0

    @property
    def ended(self) -> bool:
        """Whether the trajectory is at rest."""
        return self._rate == 0.0 or self._time >= self._trajectory.end_time

    def step(self, dt: float) -> TrajectorySample:
        """Advance by ``dt`` [s] and return the reference."""
        # The accelerations of the trajectory may change within the step.
        ahead = self._time + self._rate * dt * np.array([0.0, 0.5, 1.0])
        bounds = np.array([self._bounds(self._trajectory.sample(t)) for t in ahead.tolist()])
        slope, curvature = float(bounds[:, 0].max()), float(bounds[:, 1].min())
        slower = max(slope, self._slope - curvature * dt)
        # Slope and rate reach 0 at the same time.
        self._slope = min(max(slower, -math.sqrt(2.0 * curvature * self._rate)), 0.0)
        rate = max(self._rate + self._slope * dt, 0.0)
        self._time += 0.5 * (self._rate + rate) * dt
        self._rate = rate
        slope = self._slope if rate > 0.0 else 0.0
        return self._trajectory.sample(self._time).at_rate(rate, slope)

    def _bounds(self, sample: TrajectorySample) -> tuple[float, float]:
        """Return the min slope of the rate [1/s], and the max change of the slope [1/s^2]."""
        moving = np.abs(sample.velocity) > ZERO_SPEED
        if not moving.any():
            return -math.inf, math.inf
        v = sample.velocity[moving]
        a = np.sign(v) * sample.acceleration[moving] * self._rate**2
        slope = -(self._acceleration[moving] + a) / np.abs(v)
        curvature = self._jerk[moving] / np.abs(v)
        return min(float(slope.max()), 0.0), float(curvature.min())


@dataclass(frozen=True, eq=False)
class Stop:
    """Joints that stop along the path of a trajectory."""

    brake: PathBrake
    joints: NDArray[np.intp]
    """Indices of the joints in the controller."""


@dataclass(frozen=True, eq=False)
class TrajectorySettings:
    """Settings of a controller's trajectories, see joint_trajectory_controller."""

    from_reference: bool = True
    """Whether they start at the references of the joints; else at the measured state."""
    continue_others: bool = False
    """Whether joints of a trajectory continue when another one takes some of its joints."""
    decelerations: Array | None = None
    """Max decelerations of trajectories that end early, shape (n,); None: those of the limits."""


class ActiveTrajectories:
    """Active and stopping trajectories of a controller."""

    def __init__(
        self, controller: ArticulationController, stop_joints: Callable[[Joints], None]
    ) -> None:
        """Create without trajectories.

        Args:
            controller: controller of all joints.
            stop_joints: stops joints by index, independently of each other.
        """
        self._controller, self._stop_joints = controller, stop_joints
        self.runs: list[TrajectoryFollower] = []
        """Active trajectories."""
        self.stops: list[Stop] = []
        """Trajectories that stop along their paths."""
        self.newest: TrajectoryFollower | None = None
        """The trajectory that was started last, also after its end; None after other commands."""
        self.settings = TrajectorySettings()

    @property
    def braking(self) -> Joints:
        """Indices of the joints that stop along paths."""
        return np.concatenate([stop.joints for stop in self.stops] or [np.zeros(0, np.intp)])

    def follower_of(
        self,
        goal: FollowGoal,
        joints: Joints,
        label: str,
        delay: float,
        measured: tuple[Array, Array] | None,
        start_tolerance: float,
    ) -> TrajectoryFollower:
        """Return the follower of a trajectory from the current references.

        Args:
            goal: the trajectory.
            joints: indices of its joints.
            label: name of its sender.
            delay: time until its start [s]; negative: it starts within the trajectory.
            measured: positions and velocities of all joints, shape (n,) each, if known.
            start_tolerance: max distance between its start and the joints; 0 for any distance.

        Raises:
            InvalidCommand: limits are exceeded, or the start is too far away.
        """
        present = self._controller.reference(joints)
        if self.settings.continue_others and delay > 0.0:
            ahead = self._controller.reference(np.arange(len(self._controller.joint_names)))
            self.predict(ahead, delay)
            present = TrajectorySample(*(values[joints] for values in ahead))
        if measured is not None and not self.settings.from_reference:
            q, v = (values[joints] for values in measured)
            present = TrajectorySample(q, v, np.zeros_like(q))
        start, own = present.position, self._controller.limits
        limits = own.select(goal.trajectory.joint_names)
        # Continuous joints: the whole trajectory begins in the turn of the references.
        entry = goal.trajectory.sample(max(-delay, 0.0)).position
        offset = limits.turns.offset(entry, start)
        trajectory, first = goal.trajectory.shifted(offset).settled(limits), entry + offset
        spliced = trajectory.starting_from(present)
        if measured is not None:
            q, v = (values[joints] for values in measured)
            start = allowed_start(first, start, q, v)
        # The reference itself may slightly exceed a limit; commands may not.
        problem = (
            (validate(trajectory, limits) if goal.within is not own else None)
            or validate_joined_speeds(spliced, limits, start_tolerance)
            or validate_start(trajectory, first, start, start_tolerance)
            or validate_return(trajectory, present.position, limits)
        )
        if problem is not None:
            raise InvalidCommand(problem.text, field=problem.check)
        rate = goal.rate if np.abs(present.velocity).max() <= STANDING_SPEED else 1.0
        started = dataclasses.replace(goal, trajectory=spliced, rate=rate)
        return TrajectoryFollower(started, delay, label, joints)

    def return_to(self, joints: Joints, end: Array) -> None:
        """Move the references of joints slowly to measured positions [rad or m], shape (k,)."""
        names = tuple(self._controller.joint_names[i] for i in joints)
        start = self._controller.reference(joints).position
        goal = return_goal(names, start, end, self._controller.limits.select(names))
        label = "the return to the measured state"
        self.runs.append(TrajectoryFollower(goal, label=label, joints=joints))

    def wait(self, dt: float) -> None:
        """Count the time [s] since the start of the newest trajectory after its end."""
        if self.newest is not None and self.newest.status.ended:
            self.newest.wait(dt)

    def advance(self, dt: float, scaling: float) -> None:
        """Advance trajectories and stops by ``dt`` [s], and set the references of their joints."""
        self.wait(dt)
        for run in [each for each in self.runs if each.starts_in(dt)]:
            self._begin(run)
        for run in self.runs:
            run.sample = run.advance(dt, scaling)
            if run.sample is not None:
                forward = run.goal.trajectory.effort(run.time)
                self._controller.track(run.joints, run.sample, forward)
        for stop in list(self.stops):
            if dt > 0.0 and not stop.brake.ended:
                self._controller.track(stop.joints, stop.brake.step(dt))
            if stop.brake.ended:
                self.stops.remove(stop)

    def _begin(self, run: TrajectoryFollower) -> None:
        """Replace the trajectories that joints have followed until the start of another one."""
        others = [each for each in self.runs if each is not run]
        if not any(np.isin(each.joints, run.joints).any() for each in others):
            return
        self.runs.remove(run)
        self.preempt(run.joints, f"preempted by {run.label}", continuing=True)
        self.runs.append(run)
        run.connect(self._controller.reference(run.joints))

    def check(self, dt: float, position: Array, velocity: Array, *, fresh: bool = True) -> None:
        """Compare references and measured state [rad or m, ...], shape (n,); end trajectories.

        Args:
            dt: time since the last check [s].
            position: of all joints, shape (n,).
            velocity: of all joints, shape (n,).
            fresh: whether they were measured since the last check.
        """
        for run in list(self.runs):
            if run.sample is not None:
                q, v = position[run.joints], velocity[run.joints]
                run.progress = TrajectoryProgress(run.time, run.sample, q, v, run.elapsed)
                run.evaluate(run.sample, q, v, dt, fresh=fresh)
            if run.status is FollowStatus.SUCCEEDED:
                self.runs.remove(run)
            elif run.status.ended:
                self.end(run, run.status, run.text)

    def end(self, run: TrajectoryFollower, status: FollowStatus, text: str) -> None:
        """End a trajectory, and stop its joints."""
        run.end(status, text)
        if run in self.runs:
            self.runs.remove(run)
            self._stop_joints(run.joints)

    def end_along_path(self, run: TrajectoryFollower, status: FollowStatus, text: str) -> None:
        """End a trajectory, and stop it along its path if it moves."""
        moving = run in self.runs and run.sample is not None and bool(run.sample.velocity.any())
        self.end(run, status, text)
        if moving:
            limits = self._controller.limits.select(run.joint_names)
            most = self.settings.decelerations
            if most is not None:
                acceleration = np.minimum(limits.acceleration, most[run.joints])
                limits = dataclasses.replace(limits, acceleration=acceleration)
            brake = PathBrake(run.goal.trajectory, limits, run.time, run.rate)
            self.stops.append(Stop(brake, run.joints))

    def abort(self, text: str) -> None:
        """Abort all trajectories, and stop all their joints."""
        for run in list(self.runs):
            self.end(run, FollowStatus.ABORTED, text)
        for stop in self.stops:
            self._stop_joints(stop.joints)
        self.stops.clear()

    def preempt(
        self, joints: Joints, text: str, *, continuing: bool = False, all_joints: bool = False
    ) -> None:
        """End the trajectories and stops that contain joints.

        Args:
            joints: indices of the joints.
            text: the reason.
            continuing: whether other joints of a trajectory continue along it; else they stop.
            all_joints: whether these joints continue, too, until a trajectory that waits begins.
        """
        for run in list(self.runs):
            if np.isin(run.joints, joints).any():
                run.end(FollowStatus.PREEMPTED, text)
                self.runs.remove(run)
                left = np.flatnonzero(~np.isin(run.joints, joints) | all_joints)
                if len(left) and continuing:
                    self.runs.append(run.of_joints(left))
                else:
                    self._stop_joints(run.joints[left])
        for stop in list(self.stops):
            if np.isin(stop.joints, joints).any():
                self.stops.remove(stop)
                self._stop_joints(np.setdiff1d(stop.joints, joints))

    def path_tolerances(self, usual: Array) -> Array:
        """Return the path tolerances of all joints, of their trajectories if any, shape (n,).

        Args:
            usual: tolerances without a trajectory [rad or m], shape (n,).
        """
        tolerances = usual.copy()
        for run in self.runs:
            own = run.goal.guard
            if own is not None:
                kept = tolerances[run.joints]
                tolerances[run.joints] = np.where(np.isnan(own), kept, own)
        return tolerances

    def predict(self, samples: TrajectorySample, ahead: float) -> None:
        """Write the references of trajectories in a given time [s] to samples, shape (n,)."""
        for run in self.runs:
            sample = run.sample_in(ahead, run.goal.rate)
            for kept, new in zip(samples, sample, strict=True):
                kept[run.joints] = new
