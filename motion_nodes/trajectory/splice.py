# SPDX-License-Identifier: Apache-2.0
"""Transition from a running motion to a new one without a stop, within all limits.

The new motion is planned from rest at the predicted position of the robot, which is still moving
there. A bridge, the fastest jerk-limited motion between two states (Ruckig), connects the state
(position, velocity, acceleration) of the running motion with a later state of the new one. Of
several such states the one with a collision-free bridge and the earliest arrival is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.limits import JointLimits
from motion_nodes.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.trajectory.path_efforts import PathEfforts
from motion_nodes.trajectory.point_to_point import PointToPoint, point_to_point
from motion_nodes.trajectory.timed_path import MIN_SPACING, spaced
from motion_nodes.trajectory.trajectory import (
    Infeasible,
    Trajectory,
    TrajectorySample,
    check_time_step,
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
_EXCESS = 1e-3
"""Relative rounding tolerance of limits; states within it are clipped to the limit."""
_NO_ACCELERATION = 1e-9
"""Accelerations below are rounding, with which Ruckig finds no motion [rad/s^2 or m/s^2]."""


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

    def sample(self, time: float) -> TrajectorySample:
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
    joins: int = JOINS,
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
        joins: number of points of the new motion at which the bridge may end.

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
            _bridges(state, following, slower, joins, reasons),
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
    state: TrajectorySample,
    following: Trajectory,
    limits: JointLimits,
    joins: int,
    reasons: list[str],
) -> Iterator[tuple[float, PointToPoint]]:
    """Yield motions from a state to points of the new motion, with their times there."""
    begin = _within(state, limits)
    for join in np.linspace(following.start_time, following.end_time, max(joins, 2)).tolist():
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
    acceleration = np.where(np.abs(state.acceleration) < _NO_ACCELERATION, 0.0, state.acceleration)
    return TrajectorySample(
        state.position,
        _clipped(state.velocity, limits.velocity),
        _clipped(acceleration, limits.acceleration),
    )


def _clipped(values: Array, most: Array) -> Array:
    slight = np.abs(values) <= (1.0 + _EXCESS) * most
    return np.where(slight, np.clip(values, -most, most), values)
