# SPDX-License-Identifier: Apache-2.0
"""Transition from a running motion to a new one without a stop, within all limits.

The new motion is planned from rest at the predicted position of the robot, which is still moving
there. A bridge, the fastest jerk-limited motion between two states (Ruckig), connects the state
(position, velocity, acceleration) of the running motion with a later state of the new one. Of
several such states the one with a collision-free bridge and the earliest arrival is used.

Bridges are computed by Ruckig (Berscheid and Kröger, "Jerk-limited real-time trajectory generation
with arbitrary target states", RSS 2021) from state to state, without intermediate waypoints.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import ruckig
from numpy.typing import ArrayLike

from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.trajectory.joint_trajectory import (
    Infeasible,
    JointTrajectory,
    Trajectory,
    TrajectorySample,
    check_time_step,
)
from motion_nodes.core.trajectory.time_parameterization import scaled_limits
from motion_nodes.core.trajectory.timed_path import MIN_SPACING, PathEfforts, spaced
from motion_nodes.errors import InvalidCommand
from motion_nodes.tolerances import (
    EQUAL_POSITIONS,
    LIMIT_SHARE,
    POSITION_ROUNDING,
    ZERO_ACCELERATION,
)
from motion_nodes.typing import Array

PathCheck = Callable[[Array], bool]
"""Returns whether a path through configurations, shape (k, n), is collision-free."""
JOINS = 32
"""Number of points of the new motion at which a bridge may end."""
_SCALINGS = (1.0, 0.6, 0.35)
"""Scaling factors of accelerations and jerks that are tried where efforts are limited."""
_EFFORT_USAGE = 1.05
"""Max usage of the efforts that motions may use; the running motion is at their limit."""
_CHECKED_STEP = 0.01
"""Time between two configurations of a bridge that is checked [s]."""


class PointToPoint(Trajectory):
    """A motion from state to state; created by :func:`point_to_point`."""

    def __init__(self, joint_names: tuple[str, ...], motion: ruckig.Trajectory) -> None:
        self.joint_names = joint_names
        self._motion = motion

    @property
    def start_time(self) -> float:
        """Time at which it begins: 0 [s]."""
        return 0.0

    @property
    def end_time(self) -> float:
        """Time at which it ends [s]."""
        return float(self._motion.duration)

    @property
    def switch_times(self) -> Array:
        """Times at which the jerk of a joint changes, increasing, with start and end [s]."""
        phases = [[*p.brake.t, *p.t, *p.accel.t] for p in self._motion.profiles[0]]
        times = np.cumsum(phases, axis=1).ravel()
        inside = times[(times > 0.0) & (times < self.end_time)]
        return np.unique(np.concatenate([[0.0], inside, [self.end_time]]))

    def _sample(self, time: float) -> TrajectorySample:
        """Return position, velocity and acceleration at a time [s], shape (n,) each."""
        q, v, a = (np.asarray(x) for x in self._motion.at_time(min(max(time, 0.0), self.end_time)))
        if not 0.0 <= time <= self.end_time:
            return TrajectorySample(q, np.zeros_like(v), np.zeros_like(a))
        return TrajectorySample(q, v, a)


def point_to_point(
    start: ArrayLike | TrajectorySample,
    goal: ArrayLike | TrajectorySample,
    limits: JointLimits,
    *,
    velocity_scaling: float = 1.0,
    acceleration_scaling: float = 1.0,
) -> PointToPoint:
    """Return the time-optimal motion between two states; all joints arrive together.

    Args:
        start: positions [rad or m] of joints at rest, shape (n,), or a state.
        goal: likewise, the target.
        limits: of the n joints; velocities and accelerations must be finite.
        velocity_scaling: velocity scaling factor, above 0 to 1; 0 means 1.
        acceleration_scaling: scaling factor of acceleration and jerk limits; 0 means 1.

    Raises:
        InvalidCommand: states of wrong shape or not finite.
        Infeasible: states beyond the limits, equal ones, or a motion that exceeds the limits.
        InvalidConfig: missing limits, or scaling factors out of range.
    """
    scaled = scaled_limits(limits, velocity_scaling, acceleration_scaling)
    begin, end = _state("start", start, scaled), _state("goal", goal, scaled)
    changes = [np.abs(b - a).max() for a, b in zip(begin, end, strict=True)]
    if (
        max(changes) <= EQUAL_POSITIONS
        and not begin.velocity.any()
        and not begin.acceleration.any()
    ):
        raise Infeasible(
            "start and goal are the same state: there is nothing to move", field="goal"
        )
    task = ruckig.InputParameter(len(scaled.names))
    task.current_position = begin.position.tolist()
    task.current_velocity = begin.velocity.tolist()
    task.current_acceleration = begin.acceleration.tolist()
    task.target_position = end.position.tolist()
    task.target_velocity = end.velocity.tolist()
    task.target_acceleration = end.acceleration.tolist()
    task.max_velocity = scaled.velocity.tolist()
    task.max_acceleration = scaled.acceleration.tolist()
    task.max_jerk = scaled.jerk.tolist()
    motion = ruckig.Trajectory(len(scaled.names))
    try:
        result = ruckig.Ruckig(len(scaled.names)).calculate(task, motion)
    except (RuntimeError, ruckig.RuckigError) as error:
        raise Infeasible(f"no motion from start to goal exists: {error}") from None
    if result not in (ruckig.Result.Working, ruckig.Result.Finished):
        raise Infeasible(f"no motion from start to goal was found ({result.name})")
    _check_way(motion, scaled)
    return PointToPoint(scaled.names, motion)


def _state(what: str, given: ArrayLike | TrajectorySample, limits: JointLimits) -> TrajectorySample:
    """Return a state, validated for shape and limits."""
    parts = given if isinstance(given, TrajectorySample) else (given,)
    arrays = []
    for name, part in zip(TrajectorySample._fields, parts, strict=False):
        values = np.asarray(part, dtype=np.float64)
        if values.shape != (len(limits.names),):
            raise InvalidCommand(
                f"{name} of the {what} has shape {values.shape}; there are {len(limits.names)} "
                f"joints: {', '.join(limits.names)}",
                field=name,
            )
        for joint, value in zip(limits.names, values, strict=True):
            if not math.isfinite(value):
                raise InvalidCommand(
                    f"{name} of joint {joint} at the {what} is {value}", field=joint
                )
        arrays.append(values)
    while len(arrays) < 3:
        arrays.append(np.zeros(len(limits.names)))
    state = TrajectorySample(limits.settled(arrays[0]), *arrays[1:])
    outside = limits.violations(state.position)
    if outside:
        raise Infeasible(f"at the {what} {'; '.join(outside)}", field=what)
    for name, values, most in (
        ("velocity", state.velocity, limits.velocity),
        ("acceleration", state.acceleration, limits.acceleration),
    ):
        over = np.flatnonzero(np.abs(values) > most)
        if len(over):
            j = int(over[0])
            raise Infeasible(
                f"{name} of joint {limits.names[j]} at the {what} is {values[j]:.6g}; its limit is "
                f"{most[j]:.6g}",
                field=limits.names[j],
            )
    return state


def _check_way(motion: ruckig.Trajectory, limits: JointLimits) -> None:
    """Raise an error for a motion that exceeds the position limits."""
    for j, extremes in enumerate(motion.position_extrema):
        for value in (extremes.min, extremes.max):
            if (
                not limits.lower[j] - POSITION_ROUNDING
                <= value
                <= limits.upper[j] + POSITION_ROUNDING
            ):
                raise Infeasible(
                    f"between start and goal, joint {limits.names[j]} would reach {value:.6g}; its "
                    f"limits are {limits.lower[j]:.6g} to {limits.upper[j]:.6g}: start or end "
                    "slower",
                    field=limits.names[j],
                )


class SplicedMotion(Trajectory):
    """A bridge and the rest of a new motion; created by :func:`splice`.

    Time 0 is the moment at which it replaces the running motion.
    """

    def __init__(self, bridge: PointToPoint, following: Trajectory, join: float) -> None:
        """Join a bridge and a motion.

        Args:
            bridge: from the running motion to the new one.
            following: the new motion.
            join: its time at which the bridge ends [s].
        """
        self.joint_names = following.joint_names
        self.bridge, self.following, self.join = bridge, following, join

    @property
    def start_time(self) -> float:
        """Time at which it begins: 0 [s]."""
        return 0.0

    @property
    def end_time(self) -> float:
        """Time at which it ends [s]."""
        return self.bridge.end_time + self.following.end_time - self.join

    def _sample(self, time: float) -> TrajectorySample:
        """Return position, velocity and acceleration at a time [s], shape (n,) each."""
        if time < self.bridge.end_time:
            return self.bridge.sample(time)
        return self.following.sample(time - self.bridge.end_time + self.join)

    def points(self, time_step: float = 0.01) -> JointTrajectory:
        """Return the motion as points in time, the first one moving, the last one at rest.

        Args:
            time_step: max time between two points [s]. Changes of the bridge's jerk are points.

        Raises:
            InvalidCommand: a step that is not finite and positive.
        """
        check_time_step(time_step)
        later = self.sample_times(time_step)
        times = np.union1d(self.bridge.switch_times, later)
        times = spaced(times)
        if len(times) > 2 and times[1] < MIN_SPACING:
            times = np.delete(times, 1)
        states = [self.sample(time) for time in times.tolist()]
        q, v, a = (np.array(values) for values in zip(*states, strict=True))
        v[-1] = a[-1] = 0.0
        return JointTrajectory(self.joint_names, times, q, v, a)


def splice(
    running: Trajectory,
    time: float,
    following: Trajectory,
    limits: JointLimits,
    *,
    is_free: PathCheck | None = None,
    efforts: PathEfforts | None = None,
) -> SplicedMotion:
    """Return the motion that replaces a running one at a time, without a stop.

    Args:
        running: the motion that is executed, of the same joints.
        time: time of the running motion at which the bridge begins [s]; later than now by the
            latency of planning and sending.
        following: the new motion, ending at rest at the goal; usually planned from rest at the
            position of the running one at ``time``.
        limits: of the joints; velocities and accelerations must be finite.
        is_free: collision check of bridges; None: no check. The rest of ``following`` is not
            checked again.
        efforts: effort limits of bridges; None: not considered. Slower bridges are tried where
            they are exceeded.

    Raises:
        InvalidCommand: motions of different joints, a time that is not finite or outside the
            running motion.
        Infeasible: no bridge is within the limits and collision-free; the running motion continues.
    """
    if running.joint_names != following.joint_names or limits.names != running.joint_names:
        raise InvalidCommand(
            f"motions and limits must be of the same joints in the same order: "
            f"{', '.join(running.joint_names)}; {', '.join(following.joint_names)}; "
            f"{', '.join(limits.names)}"
        )
    if not running.start_time <= time <= running.end_time:
        raise InvalidCommand(
            f"a motion from {running.start_time:g} to {running.end_time:g} s has no transition at "
            f"{time:g} s"
        )
    state = running.sample(time)
    why = cause = ""
    for scaling in _SCALINGS if efforts is not None else (1.0,):
        slower = replace(
            limits, acceleration=scaling * limits.acceleration, jerk=scaling * limits.jerk
        )
        reasons: list[str] = []
        bridges = sorted(
            _bridges(state, following, slower, reasons),
            key=lambda found: found[1].end_time + following.end_time - found[0],
        )
        for join, bridge in bridges:
            states = _checked_states(bridge)
            if efforts is not None and efforts.usage(*states) > _EFFORT_USAGE:
                why, cause = "every bridge exceeds the effort limits", "efforts"
            elif is_free is not None and not is_free(states[0]):
                why, cause = "every bridge is in collision", "collision"
            else:
                return SplicedMotion(bridge, following, join)
        why = why or reasons[-1]
    raise Infeasible(f"no transition from the running motion to the new one: {why}", field=cause)


def replacement(
    running: JointTrajectory, now: float, leave: float, motion: SplicedMotion, time_step: float
) -> JointTrajectory:
    """Return the trajectory that a controller executes in place of the running one.

    It begins with the running motion, so it may arrive at any time before the transition: both have
    the same state there.

    Args:
        running: trajectory that the controller executes, with velocities and accelerations.
        now: its time at which the replacement begins [s], not later than the controller's.
        leave: its time at which the spliced motion begins [s].
        motion: the spliced motion.
        time_step: max time between two points of the spliced motion [s].

    Raises:
        InvalidCommand: the running motion has no accelerations, or times are out of order.
    """
    if running.velocities is None or running.accelerations is None:
        raise InvalidCommand("the running trajectory has no velocities and accelerations")
    if not running.start_time <= now < leave <= running.end_time:
        raise InvalidCommand(
            f"times {now:g} and {leave:g} s are not within the running motion, from "
            f"{running.start_time:g} to {running.end_time:g} s"
        )
    kept = (running.times > now + MIN_SPACING) & (running.times < leave - MIN_SPACING)
    first, later = running.sample(now), motion.points(time_step)
    assert later.velocities is not None
    assert later.accelerations is not None
    return JointTrajectory(
        running.joint_names,
        np.concatenate([[0.0], running.times[kept] - now, later.times + (leave - now)]),
        np.vstack([first.position, running.positions[kept], later.positions]),
        np.vstack([first.velocity, running.velocities[kept], later.velocities]),
        np.vstack([first.acceleration, running.accelerations[kept], later.accelerations]),
    )


def _bridges(
    state: TrajectorySample, following: Trajectory, limits: JointLimits, reasons: list[str]
) -> Iterator[tuple[float, PointToPoint]]:
    """Yield motions from a state to points of the new motion, with their times there."""
    begin = _within(state, limits)
    for join in np.linspace(following.start_time, following.end_time, JOINS).tolist():
        try:
            bridge = point_to_point(begin, _within(following.sample(join), limits), limits)
        except Infeasible as error:
            reasons.append(str(error))
        else:
            yield join, bridge


def _checked_states(bridge: PointToPoint) -> tuple[Array, Array, Array]:
    states = [bridge.sample(t) for t in bridge.sample_times(_CHECKED_STEP)]
    q, v, a = (np.array(values) for values in zip(*states, strict=True))
    return q, v, a


def _within(state: TrajectorySample, limits: JointLimits) -> TrajectorySample:
    """Return a state without rounding errors: small accelerations are 0, limits are respected."""
    acceleration = np.where(np.abs(state.acceleration) < ZERO_ACCELERATION, 0.0, state.acceleration)
    return TrajectorySample(
        state.position,
        _clipped(state.velocity, limits.velocity),
        _clipped(acceleration, limits.acceleration),
    )


def _clipped(values: Array, most: Array) -> Array:
    slight = np.abs(values) <= (1.0 + LIMIT_SHARE) * most
    return np.where(slight, np.clip(values, -most, most), values)
