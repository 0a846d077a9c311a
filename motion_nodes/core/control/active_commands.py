# SPDX-License-Identifier: Apache-2.0
"""Active commands of an arbiter, and the order of the commands that own its joints.

Active trajectories: checks before the start, playback, stops along paths. At a stop the playback
rate r is reduced from its current value to 0, within acceleration and jerk limits. With velocity v
and acceleration a of the trajectory, the joints have the velocity ``v r`` and the acceleration ``a
r^2 + v dr/dt``, so the limits A and J of each joint bound the slope of the rate:

    dr/dt >= -(A + sign(v) a r^2) / |v|,    |d^2 r/dt^2| <= J / |v|

Source: the path-velocity decomposition of time-optimal control along a path, Bobrow, Dubowsky and
Gibson 1985.

Resynchronization after a stop moves the reference to the measured positions of joints at rest.
Planners start at the measured state, controllers at their reference; after a blocked motion they
differ. The steady-state error of drives under an unknown load is excluded: it is stored while the
joints are at rest without contact, so that it never accumulates.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.control.trajectory_follower import (
    FollowGoal,
    FollowStatus,
    Tolerances,
    TrajectoryFollower,
)
from motion_nodes.core.robot.limits import JointLimits
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
from motion_nodes.errors import InvalidCommand
from motion_nodes.kernels.cycle_code import cycle_function, cycle_part, zeros
from motion_nodes.tolerances import STANDING_SPEED, ZERO_SPEED
from motion_nodes.typing import Array, Mask

REST_SPEED = 0.02
"""Velocity below which a joint is at rest [rad/s or m/s]."""
REST_TIME = 0.15
"""Min time at rest [s]."""
RESYNC_TOLERANCE = 0.05
"""Max distance of references from joints without a tolerance after a stop [rad or m]."""
AFTER_CONTACT = 1e-3
"""Max difference that is ignored after a contact, because its force is small [rad or m]."""
CONTACT_PASSES = 6
"""Max number of corrections after a contact: joints spring back, or other joints move them."""
SHARE = 0.2
"""Fraction of the velocity and acceleration limits used for the correction."""
SHORTEST = 0.1
"""Min duration of a correction [s]."""


_NO_JOINTS: NDArray[np.intp] = np.empty(0, np.intp)


class ResyncState(NamedTuple):
    """Memory of n joints, arrays of shape (n,)."""

    error: Array
    """Reference minus measured position [rad or m]."""
    speed: Array
    """Measured velocities [rad/s or m/s]."""
    leading: Mask
    """Joints whose reference moves or may not be moved."""
    normal: Array
    """Tolerances below which errors are ignored [rad or m]."""
    never: Mask
    """Joints that may push permanently."""
    passes: NDArray[np.int64]
    """Corrections left; 0 without a request."""
    contact: Mask
    """Joints that were blocked."""
    sag: Array
    """Steady-state errors [rad or m]."""
    rested: Array
    """Times at rest [s]."""
    away: Mask
    """Joints whose reference must be moved."""
    dt: Array
    """Time since the last call [s], shape (1,)."""

    @classmethod
    def of(cls, n: int) -> ResyncState:
        """Return the memory of n joints without requests."""
        masks = "leading", "never", "contact", "away"
        return zeros(cls, n, masks, passes=np.zeros(n, np.int64), dt=np.zeros(1))


@cycle_part
def count_away(s: ResyncState) -> int:
    """Update times and errors at rest; return the number of references to be moved."""
    count = 0
    for j in range(len(s.error)):
        size, requested = abs(s.error[j]), s.passes[j] > 0
        still = abs(s.speed[j]) < REST_SPEED and size < math.inf and not s.leading[j]
        s.rested[j] = s.rested[j] + s.dt[0] if still else 0.0
        ready = s.rested[j] >= REST_TIME
        s.away[j] = False
        if ready and not requested and size <= s.normal[j]:
            s.sag[j] = s.error[j]
        if not ready or not requested or s.never[j]:
            continue
        bound = min(AFTER_CONTACT, s.normal[j]) if s.contact[j] else s.normal[j]
        s.away[j] = abs(s.error[j] - s.sag[j]) > bound
        s.passes[j] = s.passes[j] - 1 if s.away[j] else 0
        s.contact[j] = s.contact[j] and s.passes[j] > 0
        count += s.away[j]
    return count


_update = cycle_function(ResyncState.of(1))(count_away)


class Resync:
    """Requests to resynchronize joints with their references."""

    def __init__(self, n: int) -> None:
        """Create without requests."""
        self.state = state = ResyncState.of(n)
        self._update = _update.bind(state)
        self._passes, self._contact, self._rested = state.passes, state.contact, state.rested
        self.never: Mask = state.never
        """Joints that may push permanently, such as fingers, shape (n,)."""

    @property
    def sag(self) -> Array:
        """Steady-state errors of the joints at rest without contact [rad or m], shape (n,)."""
        return self.state.sag

    def request(self, joints: NDArray[np.intp], *, contact: bool = False) -> None:
        """Request the correction of joints as soon as they are at rest.

        Args:
            joints: indices, shape (k,).
            contact: whether they were blocked.
        """
        self._passes[joints] = CONTACT_PASSES if contact else 1
        self._contact[joints] = contact
        self._rested[joints] = 0.0

    def drop(self, joints: NDArray[np.intp]) -> None:
        """Cancel the requests of joints with a new command."""
        self._passes[joints] = 0
        self._contact[joints] = False
        self._rested[joints] = 0.0

    def update(
        self, dt: float, error: Array, speed: Array, leading: Mask, normal: Array | float
    ) -> NDArray[np.intp]:
        """Return joints whose reference must be moved to their measured positions, shape (k,).

        Args:
            dt: time since the last call [s].
            error: reference minus measured [rad or m], shape (n,).
            speed: measured velocities [rad/s or m/s], shape (n,).
            leading: joints whose reference moves or may not be moved, shape (n,).
            normal: tolerances below which errors are ignored [rad or m], shape (n,).
        """
        state = self.state
        state.error[:], state.speed[:], state.leading[:] = error, speed, leading
        state.normal[:], state.dt[0] = normal, dt
        return np.flatnonzero(state.away) if self._update() else _NO_JOINTS


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
        end: end positions, clipped to the limits [rad or m], shape (k,).
        limits: limits of these joints, of which a fraction is used.
    """
    end = end.clip(limits.lower, limits.upper)
    usable = (SHARE * limits.velocity, SHARE * limits.acceleration, SHARE * limits.jerk)
    duration = max(SHORTEST, rest_to_rest_duration(np.abs(end - start), *usable))
    still = np.zeros((2, len(names)))
    none = Tolerances.uniform(len(names), 0.0)
    trajectory = JointTrajectory(
        names, np.array([0.0, duration]), np.array([start, end]), still, still
    )
    return FollowGoal(trajectory=trajectory, path=none, goal=none)


_SHARE = 0.95
"""Fraction of the limits that is used, a margin for changes within a step."""
Joints = NDArray[np.intp]


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


@dataclass(eq=False)
class TrajectoryRun:
    """An active trajectory."""

    label: str
    """Name of its sender, for messages to other clients."""
    follower: TrajectoryFollower
    joints: NDArray[np.intp]
    """Indices of its joints in the controller."""
    sample: TrajectorySample | None = None
    """Current reference, None before the start."""
    progress: TrajectoryProgress | None = None
    """Progress at the last step, None before the start."""


@dataclass(frozen=True, eq=False)
class Stop:
    """Joints that stop along the path of a trajectory."""

    brake: PathBrake
    joints: NDArray[np.intp]
    """Indices of the joints in the controller."""


@dataclass(eq=False)
class Claim:
    """Joints that are commanded and monitored without a trajectory."""

    label: str
    joints: NDArray[np.intp]
    lost: str = ""
    """The preempting command, as text; empty while the joints are held."""


class JointOwners:
    """Ownership of n joints: each belongs to the newest command that contains it."""

    def __init__(self, n: int) -> None:
        """Create the ownership, without owners."""
        self._count = 0
        """Number of commands; the count of a command is its position in their order."""
        self._orders: NDArray[np.int64] = np.zeros(n, np.int64)
        self._labels = [""] * n

    @property
    def labels(self) -> tuple[str, ...]:
        """Label of each joint's owner; empty without one."""
        return tuple(self._labels)

    def next_order(self) -> int:
        """Return the order of a new command."""
        self._count += 1
        return self._count

    def newer_than(self, order: int) -> Mask:
        """Return the joints whose owner is newer than a command, shape (n,)."""
        return np.asarray(self._orders > order)

    def all_owned_by(self, joints: NDArray[np.intp], order: int) -> bool:
        """Return whether a command owns all of some joints, by indices, shape (k,)."""
        return bool(np.count_nonzero(self._orders[joints] != order) == 0)

    def assign(self, joints: Sequence[int] | NDArray[np.intp], label: str, order: int) -> None:
        """Make a command the owner of some joints, by indices, shape (k,).

        Args:
            joints: indices.
            label: name of the command's sender, for messages to other clients.
            order: from :meth:`next_order`.
        """
        self._orders[joints] = order
        for i in joints:
            self._labels[i] = label


@dataclasses.dataclass(frozen=True, eq=False)
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
        self.runs: list[TrajectoryRun] = []
        """Active trajectories."""
        self.stops: list[Stop] = []
        """Trajectories that stop along their paths."""
        self.newest: TrajectoryRun | None = None
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
        delay: float,
        measured: tuple[Array, Array] | None,
        start_tolerance: float,
    ) -> TrajectoryFollower:
        """Return the follower of a trajectory from the current references.

        Args:
            goal: the trajectory.
            joints: indices of its joints.
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
        return TrajectoryFollower(dataclasses.replace(goal, trajectory=spliced, rate=rate), delay)

    def return_to(self, joints: Joints, end: Array) -> None:
        """Move the references of joints slowly to measured positions [rad or m], shape (k,)."""
        names = tuple(self._controller.joint_names[i] for i in joints)
        start = self._controller.reference(joints).position
        goal = return_goal(names, start, end, self._controller.limits.select(names))
        run = TrajectoryRun("the return to the measured state", TrajectoryFollower(goal), joints)
        self.runs.append(run)

    def wait(self, dt: float) -> None:
        """Count the time [s] since the start of the newest trajectory after its end."""
        if self.newest is not None and self.newest.follower.status.ended:
            self.newest.follower.wait(dt)

    def advance(self, dt: float, scaling: float) -> None:
        """Advance trajectories and stops by ``dt`` [s], and set the references of their joints."""
        self.wait(dt)
        for run in [each for each in self.runs if each.follower.starts_in(dt)]:
            self._begin(run)
        for run in self.runs:
            run.sample = run.follower.advance(dt, scaling)
            if run.sample is not None:
                forward = run.follower.goal.trajectory.effort(run.follower.time)
                self._controller.track(run.joints, run.sample, forward)
        for stop in list(self.stops):
            if dt > 0.0 and not stop.brake.ended:
                self._controller.track(stop.joints, stop.brake.step(dt))
            if stop.brake.ended:
                self.stops.remove(stop)

    def _begin(self, run: TrajectoryRun) -> None:
        """Replace the trajectories that joints have followed until the start of another one."""
        others = [each for each in self.runs if each is not run]
        if not any(np.isin(each.joints, run.joints).any() for each in others):
            return
        self.runs.remove(run)
        self.preempt(run.joints, f"preempted by {run.label}", continuing=True)
        self.runs.append(run)
        run.follower.connect(self._controller.reference(run.joints))

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
                run.progress = TrajectoryProgress(
                    run.follower.time, run.sample, q, v, run.follower.elapsed
                )
                run.follower.evaluate(run.sample, q, v, dt, fresh=fresh)
            if run.follower.status is FollowStatus.SUCCEEDED:
                self.runs.remove(run)
            elif run.follower.status.ended:
                self.end(run, run.follower.status, run.follower.text)

    def end(self, run: TrajectoryRun, status: FollowStatus, text: str) -> None:
        """End a trajectory, and stop its joints."""
        run.follower.end(status, text)
        if run in self.runs:
            self.runs.remove(run)
            self._stop_joints(run.joints)

    def end_along_path(self, run: TrajectoryRun, status: FollowStatus, text: str) -> None:
        """End a trajectory, and stop it along its path if it moves."""
        moving = run in self.runs and run.sample is not None and bool(run.sample.velocity.any())
        self.end(run, status, text)
        if moving:
            follower = run.follower
            limits = self._controller.limits.select(follower.joint_names)
            most = self.settings.decelerations
            if most is not None:
                acceleration = np.minimum(limits.acceleration, most[run.joints])
                limits = dataclasses.replace(limits, acceleration=acceleration)
            brake = PathBrake(follower.goal.trajectory, limits, follower.time, follower.rate)
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
                run.follower.end(FollowStatus.PREEMPTED, text)
                self.runs.remove(run)
                left = np.flatnonzero(~np.isin(run.joints, joints) | all_joints)
                if len(left) and continuing:
                    part = TrajectoryRun(run.label, run.follower.of_joints(left), run.joints[left])
                    self.runs.append(part)
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
            own = run.follower.goal.guard
            if own is not None:
                kept = tolerances[run.joints]
                tolerances[run.joints] = np.where(np.isnan(own), kept, own)
        return tolerances

    def predict(self, samples: TrajectorySample, ahead: float) -> None:
        """Write the references of trajectories in a given time [s] to samples, shape (n,)."""
        for run in self.runs:
            sample = run.follower.sample_in(ahead, run.follower.goal.rate)
            for kept, new in zip(samples, sample, strict=True):
                kept[run.joints] = new
