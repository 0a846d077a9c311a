# SPDX-License-Identifier: Apache-2.0
"""Time-optimal, jerk-limited motion from one joint state to another, without a given path.

Computed by Ruckig (Berscheid and Kröger, "Jerk-limited real-time trajectory generation with
arbitrary target states", RSS 2021) from state to state, without intermediate waypoints.
"""

from __future__ import annotations

import math

import numpy as np
import ruckig
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.limits import JointLimits
from motion_nodes.trajectory.time_parameterization import scaled_limits
from motion_nodes.trajectory.trajectory import Infeasible, Trajectory, TrajectorySample
from motion_nodes.trajectory.trajectory_checks import POSITION_TOLERANCE
from motion_nodes.typing import Array

_AT_REST = 1e-9
"""Differences below this are ignored [rad, m, or per second]."""


class PointToPoint(Trajectory):
    """A motion from state to state; created by :func:`point_to_point`."""

    def __init__(self, joint_names: tuple[str, ...], motion: ruckig.Trajectory) -> None:
        """Wrap a trajectory of Ruckig."""
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

    def sample(self, time: float) -> TrajectorySample:
        """Return position, velocity and acceleration at a time [s].

        Before its start and after its end the joints are at rest.
        """
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
    if max(changes) <= _AT_REST and not begin.velocity.any() and not begin.acceleration.any():
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
                not limits.lower[j] - POSITION_TOLERANCE
                <= value
                <= limits.upper[j] + POSITION_TOLERANCE
            ):
                raise Infeasible(
                    f"between start and goal, joint {limits.names[j]} would reach {value:.6g}; its "
                    f"limits are {limits.lower[j]:.6g} to {limits.upper[j]:.6g}: start or end "
                    "slower",
                    field=limits.names[j],
                )
